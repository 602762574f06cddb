// The loop of a user without a framework: coroutines that are ready, in a queue, and threads that
// resume them. And the pool that goes with it: a mutex, a deque, and a post to the queue.
#pragma once

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "subjects.hpp"

namespace cenote::bench {

/// Run by as many threads as it is told. A thread takes some of what is ready, resumes it, and puts
/// back what became ready meanwhile: the lock is paid for once per handful, and not at all by a
/// thread that is the only one.
class run_queue {
public:
    /// Ends by itself; the queue counts how many have not.
    struct coroutine {
        struct promise_type {
            run_queue* home = nullptr;

            coroutine get_return_object() {
                return {std::coroutine_handle<promise_type>::from_promise(*this)};
            }
            std::suspend_always initial_suspend() noexcept { return {}; }
            std::suspend_never final_suspend() noexcept { return {}; }
            void return_void() noexcept { home->living_.fetch_sub(1); }
            void unhandled_exception() noexcept { std::terminate(); }
        };
        std::coroutine_handle<promise_type> handle;
    };

    class yielding : public std::suspend_always {
    public:
        explicit yielding(run_queue& home) : home_(home) {}
        void await_suspend(std::coroutine_handle<> which) const { home_.post(which); }

    private:
        run_queue& home_;
    };

    explicit run_queue(std::size_t threads) : alone_(threads == 1) {}

    void spawn(coroutine started) {
        started.handle.promise().home = this;
        living_.fetch_add(1);
        post(started.handle);
    }

    /// They are made already.
    void begin(std::size_t) {}

    yielding yield() { return yielding(*this); }

    /// From any thread.
    void post(std::coroutine_handle<> ready) {
        if (mine != nullptr && mine->home == this) {
            mine->became_ready.push_back(ready);
            return;
        }
        std::lock_guard lock(mutex_);
        ready_.push_back(ready);
        from_outside_.store(true, std::memory_order_relaxed);
    }

    /// Until no coroutine is left.
    void run() {
        worker self{this, {}, {}};
        mine = &self;
        while (living_.load(std::memory_order_relaxed) != 0) turn(self);
        mine = nullptr;
    }

    /// What is ready now, on the calling thread.
    void run_once() {
        mine = &guest_;
        turn(guest_);
        mine = nullptr;
    }

private:
    struct worker {
        run_queue* home;
        std::vector<std::coroutine_handle<>> taken;
        std::vector<std::coroutine_handle<>> became_ready;
    };
    static inline thread_local worker* mine = nullptr;

    void turn(worker& self) {
        exchange(self);
        if (self.taken.empty()) std::this_thread::yield();
        for (std::coroutine_handle<> h : self.taken) h.resume();
    }

    /// Puts back what became ready and takes of what was, but leaves some for another thread.
    void exchange(worker& self) {
        constexpr std::size_t handful = 256;
        self.taken.clear();
        if (alone_ && !from_outside_.load(std::memory_order_relaxed)) {
            self.taken.swap(self.became_ready);
            return;
        }
        std::lock_guard lock(mutex_);
        ready_.insert(ready_.end(), self.became_ready.begin(), self.became_ready.end());
        self.became_ready.clear();
        auto count = static_cast<std::ptrdiff_t>(std::min(handful, (ready_.size() + 1) / 2));
        self.taken.assign(ready_.begin(), ready_.begin() + count);
        ready_.erase(ready_.begin(), ready_.begin() + count);
        from_outside_.store(!ready_.empty(), std::memory_order_relaxed);
    }

    const bool alone_;
    worker guest_{this, {}, {}};  // whoever runs it only once
    std::mutex mutex_;
    std::deque<std::coroutine_handle<>> ready_;
    std::atomic<bool> from_outside_{false};  // something is in ready_, for the thread that is alone
    std::atomic<std::size_t> living_{0};
};

/// Lends in order of arrival. Who gets a resource from somebody else is posted to the queue.
class queue_pool {
public:
    queue_pool(run_queue& queue, std::size_t size) : queue_(queue) {
        for (std::size_t i = 0; i < size; ++i) {
            things_.push_back(std::make_unique<thing>());
            idle_.push_back(things_.back().get());
        }
    }

    class acquiring {
    public:
        explicit acquiring(queue_pool& home) : home_(home) {}
        bool await_ready() const noexcept { return false; }
        bool await_suspend(std::coroutine_handle<> waiting) {
            waiting_ = waiting;
            std::lock_guard lock(home_.mutex_);
            if (home_.idle_.empty()) {
                home_.line_.push_back(this);
                return true;
            }
            granted_ = home_.idle_.back();
            home_.idle_.pop_back();
            return false;
        }
        thing* await_resume() const noexcept { return granted_; }

    private:
        friend queue_pool;
        queue_pool& home_;
        std::coroutine_handle<> waiting_;
        thing* granted_ = nullptr;
    };

    acquiring acquire() { return acquiring(*this); }

    void release(thing* back) {
        acquiring* next = nullptr;
        {
            std::lock_guard lock(mutex_);
            if (line_.empty()) {
                idle_.push_back(back);
                return;
            }
            next = line_.front();
            line_.pop_front();
        }
        next->granted_ = back;
        queue_.post(next->waiting_);
    }

private:
    run_queue& queue_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<thing>> things_;
    std::vector<thing*> idle_;
    std::deque<acquiring*> line_;
};

}  // namespace cenote::bench
