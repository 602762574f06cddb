// What a wait costs a coroutine of Asio: no allocation, in total. Asio allocates with
// aligned_alloc, and so does the operator new of support/allocations.cpp; the linker turns that
// into the function below (--wrap).
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "support/allocations.hpp"
#include "support/patience.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constinit thread_local std::uint64_t made_here = 0;

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern "C" void* __real_aligned_alloc(std::size_t alignment, std::size_t size);
extern "C" void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size);
extern "C" void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
    ++made_here;
    return __real_aligned_alloc(alignment, size);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace {

/// Twenty resources, and a crowd that gives back at once what it gets, and waits again.
struct asio_co_cost : testing::Test {
    static constexpr std::size_t crowd = 2000;
    static constexpr std::size_t burst = 20;

    asio::io_context io{1};
    cenote::pool<int> pool{[] { return 1; },
                           {.max = burst,
                            .min_size = burst,
                            .warm_up = cenote::warm_up::wait,
                            .acquire_timeout = support::plenty,
                            .sweep_interval = 1h}};
    long left = 0;

    asio::awaitable<void> wait_again_and_again() {
        for (;;) {
            auto held = co_await pool.co_acquire();
            if (--left == 0) io.stop();
        }
    }
    /// The grants come in bursts: twenty at once, then twenty more.
    void run_cycles(long count) {
        left = count;
        io.restart();
        io.run();
    }
};

}  // namespace

TEST_F(asio_co_cost, of_a_wait_is_no_allocation) {
    std::vector<cenote::lease<int>> all;
    for (std::size_t i = 0; i < burst; ++i) all.push_back(pool.acquire());
    for (std::size_t i = 0; i < crowd; ++i)
        asio::co_spawn(io, wait_again_and_again(), asio::detached);
    io.poll();
    ASSERT_EQ(pool.stats().waiting, crowd);
    all.clear();
    run_cycles(10 * crowd);
    std::uint64_t waited = pool.stats().waited;
    std::uint64_t before = made_here;
    run_cycles(10 * crowd);
    EXPECT_EQ(made_here - before, 0U);
    EXPECT_EQ(pool.stats().waited - waited, 10 * crowd);
    EXPECT_GT(before, crowd) << "otherwise nothing was counted";
    pool.close();
    left = -1;
    io.restart();
    io.run();
}

TEST_F(asio_co_cost, of_what_is_ready_is_no_allocation) {
    auto take = [&]() -> asio::awaitable<void> {
        for (int i = 0; i < 1000; ++i) (void)co_await pool.co_acquire();
        std::uint64_t before = made_here;
        for (int i = 0; i < 10'000; ++i) (void)co_await pool.co_acquire();
        EXPECT_EQ(made_here - before, 0U);
    };
    asio::co_spawn(io, take, asio::detached);
    io.run();
}

TEST_F(asio_co_cost, of_a_wait_for_which_there_is_no_memory_is_an_exception) {
    bool told = false;
    for (std::uint64_t n = 0; n < 40; ++n) {
        cenote::pool<int> other{[] { return 1; }, {.max = 1}};
        auto take = [&]() -> asio::awaitable<void> {
            support::allocation_failure failure(n);
            try {
                auto held = co_await other.co_acquire_for(support::plenty);
            } catch (const std::bad_alloc&) {
                told = true;
            } catch (const cenote::pool_error&) {  // the open had none
            }
        };
        asio::co_spawn(io, take, asio::detached);
        io.restart();
        io.run();
        EXPECT_TRUE(other.acquire());
    }
    EXPECT_TRUE(told);
}
