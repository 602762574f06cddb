// Misspelt, misordered and mistyped options of an acquire.
#include <boost/system/error_code.hpp>
#include <chrono>
#include <stop_token>
#include <string>
#include <system_error>

#include <cenote/asio.hpp>

using namespace std::chrono_literals;

#ifdef __clang__
#pragma clang diagnostic error "-Wreorder-init-list"
#endif

struct handler {
    void operator()(boost::system::error_code, cenote::lease<int>) const {}
};

void misuse([[maybe_unused]] cenote::pool<int>& pool, [[maybe_unused]] std::error_code& error,
            [[maybe_unused]] std::stop_source& source, [[maybe_unused]] std::string& task) {
#if CENOTE_MISTAKE == 1  // expect within 2: option is misspelt.*cenote::acquire_options\{
    auto lease = pool.acquire({.timout = 2s});
#elif CENOTE_MISTAKE == 2   // expect within 2: timout
    auto lease = pool.acquire(cenote::acquire_options{.timout = 2s});
#elif CENOTE_MISTAKE == 3   // expect within 2: order.*(timeout|task)
    auto lease = pool.acquire({.task = "x", .timeout = 2s});
#elif CENOTE_MISTAKE == 4   // expect within 2: acquire\(\{\.timeout = 5s\}\)
    auto lease = pool.acquire({.timeout = 5});
#elif CENOTE_MISTAKE == 5   // expect within 2: acquire\(\{\.timeout = 5s\}\)
    auto lease = pool.acquire(5s);
#elif CENOTE_MISTAKE == 6   // expect within 2: acquire\(\{\}, error\)
    auto lease = pool.acquire(error);
#elif CENOTE_MISTAKE == 7   // expect within 2: is a temporary
    auto lease = pool.acquire({}, std::error_code());
#elif CENOTE_MISTAKE == 8   // expect within 2: is a temporary|stop_token&&
    auto lease = pool.acquire({.stop = source.get_token()});
#elif CENOTE_MISTAKE == 9   // expect within 2: has the wrong type
    auto lease = pool.acquire({.task = task});
#elif CENOTE_MISTAKE == 10  // expect within 2: acquire_many\(2, \{\.timeout = 5s\}\)
    auto leases = pool.acquire_many(2, {.timout = 2s});
#elif CENOTE_MISTAKE == 11  // expect within 2: co_acquire\(\{\.timeout = 5s\}\)
    auto awaited = pool.co_acquire({.timout = 2s});
#elif CENOTE_MISTAKE == 12  // expect within 2: async_acquire\(\{\.timeout = 5s\}, token\)
    pool.async_acquire({.timout = 2s}, handler());
#else
    std::stop_token token = source.get_token();
    auto lease = pool.acquire({.timeout = 2s, .stop = token, .task = "x"});
    auto perhaps = pool.acquire({}, error);
    auto leases = pool.acquire_many(2, {.timeout = 2s});
    auto awaited = pool.co_acquire({.timeout = 2s});
    pool.async_acquire({.timeout = 2s}, handler());
#endif
}
