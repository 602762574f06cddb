// The event loop of a user without a framework, and a textbook pool for it: a mutex and a deque.
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

/// A queue of ready coroutines for several threads. A thread takes a batch, resumes it, and then
/// queues what became ready meanwhile: one lock per batch, and none for a single thread.
class run_queue {
public:
    /// Destroys itself at its end; the queue counts the running ones.
    struct coroutine {
        struct promise_type {
            run_queue* queue = nullptr;

            coroutine get_return_object() {
                return {std::coroutine_handle<promise_type>::from_promise(*this)};
            }
            std::suspend_always initial_suspend() noexcept { return {}; }
            std::suspend_never final_suspend() noexcept { return {}; }
            void return_void() noexcept { queue->running_.fetch_sub(1); }
            void unhandled_exception() noexcept { std::terminate(); }
        };
        std::coroutine_handle<promise_type> handle;
    };

    class yielding : public std::suspend_always {
    public:
        explicit yielding(run_queue& queue) : queue_(queue) {}
        void await_suspend(std::coroutine_handle<> which) const { queue_.post(which); }

    private:
        run_queue& queue_;
    };

    explicit run_queue(std::size_t threads) : single_threaded_(threads == 1) {}

    void spawn(coroutine started) {
        started.handle.promise().queue = this;
        running_.fetch_add(1);
        post(started.handle);
    }

    /// Nothing to do: spawn() has already created the coroutines.
    void begin(std::size_t) {}

    yielding yield() { return yielding(*this); }

    /// Thread-safe.
    void post(std::coroutine_handle<> ready) {
        if (mine != nullptr && mine->queue == this) {
            mine->became_ready.push_back(ready);
            return;
        }
        std::lock_guard lock(mutex_);
        ready_.push_back(ready);
        from_outside_.store(true, std::memory_order_relaxed);
    }

    /// Returns when no coroutine is left.
    void run() {
        worker self{this, {}, {}};
        mine = &self;
        while (running_.load(std::memory_order_relaxed) != 0) run_batch(self);
        mine = nullptr;
    }

    /// Resumes the coroutines that are ready now.
    void run_once() {
        mine = &caller_;
        run_batch(caller_);
        mine = nullptr;
    }

private:
    struct worker {
        run_queue* queue;
        std::vector<std::coroutine_handle<>> taken;
        std::vector<std::coroutine_handle<>> became_ready;
    };
    static inline thread_local worker* mine = nullptr;

    void run_batch(worker& self) {
        exchange(self);
        if (self.taken.empty()) std::this_thread::yield();
        for (std::coroutine_handle<> h : self.taken) h.resume();
    }

    /// Queues what became ready and takes a batch, but leaves half for other threads.
    void exchange(worker& self) {
        constexpr std::size_t batch = 256;
        self.taken.clear();
        if (single_threaded_ && !from_outside_.load(std::memory_order_relaxed)) {
            self.taken.swap(self.became_ready);
            return;
        }
        std::lock_guard lock(mutex_);
        ready_.insert(ready_.end(), self.became_ready.begin(), self.became_ready.end());
        self.became_ready.clear();
        auto count = static_cast<std::ptrdiff_t>(std::min(batch, (ready_.size() + 1) / 2));
        self.taken.assign(ready_.begin(), ready_.begin() + count);
        ready_.erase(ready_.begin(), ready_.begin() + count);
        from_outside_.store(!ready_.empty(), std::memory_order_relaxed);
    }

    const bool single_threaded_;
    worker caller_{this, {}, {}};  // for run_once()
    std::mutex mutex_;
    std::deque<std::coroutine_handle<>> ready_;
    std::atomic<bool> from_outside_{false};  // ready_ is not empty; for a single thread
    std::atomic<std::size_t> running_{0};
};

/// Serves waiters in order of arrival, and posts a served waiter to the queue.
class queue_pool {
public:
    queue_pool(run_queue& queue, std::size_t size) : queue_(queue) {
        for (std::size_t i = 0; i < size; ++i) {
            resources_.push_back(std::make_unique<resource>());
            idle_.push_back(resources_.back().get());
        }
    }

    class acquiring {
    public:
        explicit acquiring(queue_pool& pool) : pool_(pool) {}
        bool await_ready() const noexcept { return false; }
        bool await_suspend(std::coroutine_handle<> waiting) {
            waiting_ = waiting;
            std::lock_guard lock(pool_.mutex_);
            if (pool_.idle_.empty()) {
                pool_.line_.push_back(this);
                return true;
            }
            granted_ = pool_.idle_.back();
            pool_.idle_.pop_back();
            return false;
        }
        resource* await_resume() const noexcept { return granted_; }

    private:
        friend queue_pool;
        queue_pool& pool_;
        std::coroutine_handle<> waiting_;
        resource* granted_ = nullptr;
    };

    acquiring acquire() { return acquiring(*this); }

    void release(resource* back) {
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
    std::vector<std::unique_ptr<resource>> resources_;
    std::vector<resource*> idle_;
    std::deque<acquiring*> line_;
};

}  // namespace cenote::bench
