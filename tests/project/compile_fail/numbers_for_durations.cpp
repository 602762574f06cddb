// Durations without a unit, and times of another clock.
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>

#include <cenote/asio.hpp>

using namespace std::chrono_literals;

struct handler {
    void operator()(boost::system::error_code, cenote::lease<int>) const {}
    void operator()(boost::system::error_code, std::size_t) const {}
    void operator()(boost::system::error_code) const {}
};

void misuse(cenote::pool<int>& pool) {
#if CENOTE_MISTAKE == 1  // expect within 2: acquire_for\(5s\)
    auto lease = pool.acquire_for(100);
#elif CENOTE_MISTAKE == 2   // expect within 2: a time of std::chrono::steady_clock
    auto lease = pool.acquire_until(std::chrono::system_clock::now() + 1s);
#elif CENOTE_MISTAKE == 3   // expect within 2: co_acquire_for\(5s\)
    auto awaited = pool.co_acquire_for(100);
#elif CENOTE_MISTAKE == 4   // expect within 2: a time of std::chrono::steady_clock
    auto awaited = pool.co_acquire_until(std::chrono::system_clock::now());
#elif CENOTE_MISTAKE == 5   // expect within 2: async_acquire_for\(5s, token\)
    pool.async_acquire_for(100, handler());
#elif CENOTE_MISTAKE == 6   // expect within 2: a time of std::chrono::steady_clock
    pool.async_acquire_until(std::chrono::system_clock::now(), handler());
#elif CENOTE_MISTAKE == 7   // expect within 2: close\(5s\)
    pool.close(5);
#elif CENOTE_MISTAKE == 8   // expect within 2: wait_ready\(5s\)
    pool.wait_ready(5);
#elif CENOTE_MISTAKE == 9   // expect within 2: async_close\(5s, token\)
    pool.async_close(5, handler());
#elif CENOTE_MISTAKE == 10  // expect within 2: async_wait_ready\(5s, token\)
    pool.async_wait_ready(5, handler());
#else
    auto lease = pool.acquire_for(100ms);
    auto forever = pool.acquire_for(cenote::forever);
    auto until = pool.acquire_until(std::chrono::steady_clock::now() + 1s);
    auto awaited = pool.co_acquire_for(100ms);
    pool.async_acquire_for(100ms, handler());
    pool.wait_ready(5s);
    pool.async_wait_ready(handler());
    pool.async_close(5s, handler());
    pool.close(5s);
    pool.close();
#endif
}
