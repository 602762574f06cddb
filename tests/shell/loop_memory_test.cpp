// Pools and Asio when memory runs out for a moment. Asio allocates with aligned_alloc, which the
// linker turns into the function below (--wrap).
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <memory>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "support/async_server.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using support::plenty;
using support::server;
using support::session;

namespace {

long spared = -1;  // allocations until one fails; negative: none fails

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern "C" void* __real_aligned_alloc(std::size_t alignment, std::size_t size);
extern "C" void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size);
extern "C" void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
    bool fails = spared == 0;
    if (spared >= 0) --spared;
    return fails ? nullptr : __real_aligned_alloc(alignment, size);
}
// NOLINTEND(bugprone-reserved-identifier)

TEST(memory, is_not_needed_to_hand_over_to_an_io_context) {
    auto to = server::start();
    asio::io_context io;
    cenote::pool<session> pool(support::connector{to}, {.max = 1, .acquire_timeout = plenty});
    auto held = pool.acquire();
    int got = 0;
    pool.async_acquire(asio::bind_executor(
        io, [&](error_code error, cenote::lease<session> lease) { got = error ? -1 : lease->id; }));
    spared = 0;
    held.give_back();
    spared = -1;
    io.run();
    EXPECT_EQ(got, 1);
}

// Wherever one allocation fails, later callers are served.
TEST(memory, that_failed_once_does_not_end_a_pool_on_a_loop) {
    for (long n = 0; n < 12; ++n) {
        auto to = server::start();
        asio::io_context io;
        cenote::pool<session> pool(io, support::async_connector{to},
                                   {.max = 1, .backoff = {.first = 1ms}});
        pool.async_acquire_for(
            10ms, asio::bind_executor(io, [](error_code, const cenote::lease<session>&) {}));
        spared = n;
        try {
            io.run_for(1ms);
        } catch (const std::bad_alloc&) {  // of Asio's own
            continue;
        }
        spared = -1;
        bool served = false;
        pool.async_acquire_for(
            plenty, asio::bind_executor(io, [&](error_code error, const cenote::lease<session>&) {
                served = !error;
                pool.close();
            }));
        auto limit = std::chrono::steady_clock::now() + plenty;
        while (!served && std::chrono::steady_clock::now() < limit) {
            io.restart();
            io.run_one_for(10ms);
        }
        EXPECT_TRUE(served) << n;
    }
    spared = -1;
}
