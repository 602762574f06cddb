// Runs a given number of cycles of 10,000 coroutines on 20 resources, where every acquire waits,
// for callgrind.
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <vector>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"

namespace {

using namespace std::chrono_literals;

constexpr std::size_t coroutines = 10'000;

/// A minimal loop, so that most counted instructions are the pool's.
struct loop {
    void post(std::coroutine_handle<> which) { ready[last++ % ready.size()] = which; }
    void resume_one() { ready[first++ % ready.size()].resume(); }

    std::vector<std::coroutine_handle<>> ready{2 * coroutines};
    std::size_t first = 0;
    std::size_t last = 0;
    long left = 0;
} here;

struct resume {
    void operator()(std::coroutine_handle<> which) const noexcept { here.post(which); }
};
struct yield : std::suspend_always {
    void await_suspend(std::coroutine_handle<> which) const noexcept { here.post(which); }
};

struct endless {
    struct promise_type {
        endless get_return_object() {
            here.post(std::coroutine_handle<promise_type>::from_promise(*this));
            return {};
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
};

endless borrow(cenote::pool<int>& pool) {
    for (;;) {
        auto lease = co_await pool.co_acquire().resumed_by(resume{});
        ++*lease;
        co_await yield{};
        lease.give_back();
        --here.left;
    }
}

}  // namespace

/// instructions.py counts the instructions of the function with this name.
extern "C" [[gnu::noinline]] void make_cycles(long cycles) {
    for (here.left = cycles; here.left > 0;) here.resume_one();
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    // No sweep: under callgrind, time is not proportional to instructions.
    cenote::pool<int> pool{[] { return 0; },
                           {.max = 20,
                            .min_size = 20,
                            .warm_up = cenote::warm_up::wait,
                            .acquire_timeout = 1h,
                            .sweep_interval = 1h}};
    for (std::size_t i = 0; i < coroutines; ++i) borrow(pool);
    make_cycles(2 * static_cast<long>(coroutines));
    make_cycles(std::strtol(argv[1], nullptr, 10));
    std::_Exit(0);  // the coroutines never end
}
