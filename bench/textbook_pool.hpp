// The textbook pool, as a baseline: a mutex, a condition variable and a vector.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cenote::bench {

/// Waits without a timeout and never opens or checks a resource. The last released resource is
/// leased first; a woken thread competes with new ones.
template <class T>
class textbook_pool {
public:
    class lease {
    public:
        lease(textbook_pool& pool, std::unique_ptr<T> leased) noexcept
            : pool_(pool), leased_(std::move(leased)) {}
        lease(const lease&) = delete;
        lease& operator=(const lease&) = delete;
        ~lease() { pool_.put(std::move(leased_)); }

        T& operator*() const noexcept { return *leased_; }
        T* operator->() const noexcept { return leased_.get(); }

    private:
        textbook_pool& pool_;
        std::unique_ptr<T> leased_;
    };

    explicit textbook_pool(std::size_t size)
        : textbook_pool(size, [] { return std::make_unique<T>(); }) {}
    template <class Make>
    textbook_pool(std::size_t size, Make make) {
        idle_.reserve(size);
        for (std::size_t i = 0; i < size; ++i) idle_.push_back(make());
    }

    bool is_refused_after(std::chrono::milliseconds timeout) {
        std::unique_lock lock(mutex_);
        return !freed_.wait_for(lock, timeout, [&] { return !idle_.empty(); });
    }

    lease acquire() {
        std::unique_lock lock(mutex_);
        freed_.wait(lock, [&] { return !idle_.empty(); });
        std::unique_ptr<T> taken = std::move(idle_.back());
        idle_.pop_back();
        return lease(*this, std::move(taken));
    }

private:
    void put(std::unique_ptr<T> back) noexcept {
        {
            std::lock_guard lock(mutex_);
            idle_.push_back(std::move(back));  // within the reserved capacity
        }
        freed_.notify_one();
    }

    std::mutex mutex_;
    std::condition_variable freed_;
    std::vector<std::unique_ptr<T>> idle_;
};

}  // namespace cenote::bench
