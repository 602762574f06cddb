// A minimal coroutine type and a minimal event loop, as a user without a framework would write
// them.
#pragma once

#include <algorithm>
#include <coroutine>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace support {

/// Runs from start(); destroying a suspended task destroys the coroutine.
class task {
public:
    struct promise_type {
        task get_return_object() {
            return task(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };

    task() = default;
    task(task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    task& operator=(task&& other) noexcept {
        if (this != &other) {
            destroy();
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    ~task() { destroy(); }

    void start() { handle_.resume(); }
    bool done() const { return handle_.done(); }
    std::coroutine_handle<> handle() const { return handle_; }
    void destroy() {
        if (handle_) std::exchange(handle_, nullptr).destroy();
    }

private:
    explicit task(std::coroutine_handle<promise_type> h) : handle_(h) {}

    std::coroutine_handle<promise_type> handle_;
};

/// Resumes posted coroutines in order. post() and retract() may be called from any thread.
class loop {
public:
    void post(std::coroutine_handle<> ready) {
        std::lock_guard lock(mutex_);
        ready_.push_back(ready);
    }
    bool retract(std::coroutine_handle<> ready) {
        std::lock_guard lock(mutex_);
        auto at = std::find(ready_.begin(), ready_.end(), ready);
        if (at == ready_.end()) return false;
        ready_.erase(at);
        return true;
    }
    /// Resumes one coroutine. False: none is ready.
    bool run_one() {
        std::unique_lock lock(mutex_);
        if (ready_.empty()) return false;
        auto next = ready_.front();
        ready_.pop_front();
        lock.unlock();
        next.resume();
        return true;
    }
    void run() {
        while (run_one()) {
        }
    }
    std::size_t ready() const {
        std::lock_guard lock(mutex_);
        return ready_.size();
    }

    /// Suspends to the end of the queue.
    auto yield() {
        struct awaiter {
            explicit awaiter(loop& l) : where(l) {}
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<> me) { where.post(me); }
            void await_resume() const noexcept {}
            loop& where;
        };
        return awaiter(*this);
    }

private:
    mutable std::mutex mutex_;
    std::deque<std::coroutine_handle<>> ready_;
};

/// A resumer that posts coroutines to a loop and can retract them.
struct on {
    explicit on(loop& l) : where(&l) {}
    void operator()(std::coroutine_handle<> ready) const noexcept { where->post(ready); }
    bool retract(std::coroutine_handle<> ready) const noexcept { return where->retract(ready); }
    loop* where;
};

}  // namespace support
