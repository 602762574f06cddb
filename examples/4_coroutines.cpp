// 4: coroutines wait in the pool's line like threads, but a waiting coroutine takes a few bytes of
// its frame instead of a thread.
#include <atomic>
#include <coroutine>
#include <cstdio>
#include <deque>
#include <exception>
#include <vector>

#include <cenote/coroutine.hpp>

using namespace std::chrono_literals;

// A minimal coroutine type and event loop; use your own.
struct job {
    struct promise_type {
        job get_return_object() {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<> start;
};

class run_loop {
public:
    void post(std::coroutine_handle<> ready) { queue_.push_back(ready); }
    void run() {
        while (!queue_.empty()) {
            auto next = queue_.front();
            queue_.pop_front();
            next.resume();
        }
    }
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> me) { post(me); }
    void await_resume() const {}

private:
    std::deque<std::coroutine_handle<>> queue_;
};

int served = 0;
int refused = 0;

job visit(cenote::pool<int>& pool, run_loop& loop) {
    auto on_loop = [&loop](std::coroutine_handle<> ready) { loop.post(ready); };
    std::error_code error;
    auto number = co_await pool.co_acquire({.timeout = 10s}, error).resumed_by(on_loop);
    if (error) {
        std::printf("no number: %s\n", error.message().c_str());
        ++refused;
        co_return;
    }
    co_await loop;  // other coroutines run, the lease is kept
    ++served;
}

int main() {
    std::atomic<int> made{0};  // opens may run in parallel
    cenote::pool<int> pool{[&made] { return ++made; }, {.max = 4, .min_size = 4}};
    pool.wait_ready(10s);  // all numbers exist before the loop runs, so no other thread posts to it

    run_loop loop;
    for (int i = 0; i < 1000; ++i) loop.post(visit(pool, loop).start);
    loop.run();
    std::printf("%d coroutines shared %d numbers\n", served, made.load());
    return served == 1000 && refused == 0 ? 0 : 1;
}
