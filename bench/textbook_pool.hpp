// The pool everybody writes first, as the yardstick: a mutex, a condition variable and a vector.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cenote::bench {

/// Lends what it holds, waits without end, opens nothing, checks nothing. What is put back last is
/// lent first; who is woken by a release has to fight for the resource with whoever comes by.
template <class T>
class textbook_pool {
public:
    class lease {
    public:
        lease(textbook_pool& home, std::unique_ptr<T> held) noexcept
            : home_(home), held_(std::move(held)) {}
        lease(const lease&) = delete;
        lease& operator=(const lease&) = delete;
        ~lease() { home_.put(std::move(held_)); }

        T& operator*() const noexcept { return *held_; }
        T* operator->() const noexcept { return held_.get(); }

    private:
        textbook_pool& home_;
        std::unique_ptr<T> held_;
    };

    explicit textbook_pool(std::size_t size)
        : textbook_pool(size, [] { return std::make_unique<T>(); }) {}
    template <class Make>
    textbook_pool(std::size_t size, Make make) {
        idle_.reserve(size);
        for (std::size_t i = 0; i < size; ++i) idle_.push_back(make());
    }

    bool is_refused_after(std::chrono::milliseconds patience) {
        std::unique_lock lock(mutex_);
        return !freed_.wait_for(lock, patience, [&] { return !idle_.empty(); });
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
            idle_.push_back(std::move(back));  // reserved
        }
        freed_.notify_one();
    }

    std::mutex mutex_;
    std::condition_variable freed_;
    std::vector<std::unique_ptr<T>> idle_;
};

}  // namespace cenote::bench
