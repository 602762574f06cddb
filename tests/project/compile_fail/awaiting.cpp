// co_acquire and async_acquire in wrong ways.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <coroutine>

#include <cenote/asio.hpp>

#pragma GCC diagnostic error "-Wunused-result"

struct task {
    struct promise_type {
        task get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};
struct resumer {
    void operator()(std::coroutine_handle<> frame) const { frame.resume(); }
};

task other(cenote::pool<int>& pool) {
#if CENOTE_MISTAKE == 1  // expect within 3: await in one expression
    auto awaited = pool.co_acquire();
    auto lease = co_await awaited;
#elif CENOTE_MISTAKE == 2  // expect within 3: await in one expression
    auto awaited = pool.co_acquire();
    auto lease = co_await awaited.resumed_by(resumer());
#elif CENOTE_MISTAKE == 3  // expect within 3: nothing until it is awaited
    pool.co_acquire();
    co_return;
#elif CENOTE_MISTAKE == 4  // expect clang within 3: the lease ends at once
    co_await pool.co_acquire();
#else
    auto lease = co_await pool.co_acquire().resumed_by(resumer());
#endif
}

boost::asio::awaitable<void> with_asio(cenote::pool<int>& pool) {
#if CENOTE_MISTAKE == 5  // expect within 15: await in one expression
    auto awaited = pool.co_acquire();
    auto lease = co_await awaited;
#elif CENOTE_MISTAKE == 6  // expect within 2: completion tokens are for async_acquire
    auto lease = co_await pool.co_acquire(boost::asio::use_awaitable);
#else
    auto lease = co_await pool.co_acquire();
    auto next = co_await pool.async_acquire(boost::asio::use_awaitable);
#endif
}

void callback(cenote::pool<int>& pool) {
#if CENOTE_MISTAKE == 7  // expect within 8: the handler of async_acquire must accept
    pool.async_acquire([](cenote::lease<int>) {});
#else
    pool.async_acquire([](boost::system::error_code, cenote::lease<int>) {});
#endif
}
