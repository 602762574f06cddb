// Tests the stopped clock with all kinds of waits.
#include "support/clock.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <future>
#include <mutex>
#include <poll.h>

#include <gtest/gtest.h>

#include "cenote/error.hpp"
#include "cenote/pool.hpp"
#include "support/patience.hpp"

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using support::stopped_clock;

TEST(stopped_clock, stands_still_and_moves_by_hand) {
    stopped_clock time;
    auto before = steady_clock::now();
    EXPECT_TRUE(support::for_a_while([&] { return steady_clock::now() == before; }));
    time.advance(1h);
    EXPECT_EQ(steady_clock::now() - before, 1h);
}

TEST(stopped_clock, runs_on_afterwards_and_never_backwards) {
    steady_clock::time_point last;
    {
        stopped_clock time;
        time.advance(1min);
        last = steady_clock::now();
    }
    EXPECT_GE(steady_clock::now(), last);
    EXPECT_TRUE(support::eventually([&] { return steady_clock::now() > last; }));
}

TEST(stopped_clock, does_not_cut_waits_afterwards) {
    {
        stopped_clock time;
    }
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    EXPECT_EQ(never.wait_for(lock, 100ms), std::cv_status::timeout);
}

/// So that a wait for a descriptor with a timeout checks the clock.
TEST(stopped_clock, cuts_waits_for_descriptors) {
    stopped_clock time;
    auto before = support::machine_time();
    timespec long_after{.tv_sec = 30, .tv_nsec = 0};
    EXPECT_EQ(::poll(nullptr, 0, 30'000), 0);
    EXPECT_EQ(::ppoll(nullptr, 0, &long_after, nullptr), 0);
    EXPECT_EQ(::ppoll(nullptr, 0, nullptr, nullptr), 0);
    EXPECT_LT(support::machine_time() - before, 30s);
}

TEST(stopped_clock, ends_the_wait_for_a_condition) {
    stopped_clock time;
    std::mutex mutex;
    std::condition_variable never;
    auto end = steady_clock::now() + 1h;  // read here, in case the thread starts late
    auto waiter = std::async(std::launch::async, [&] {
        std::unique_lock lock(mutex);
        return never.wait_until(lock, end, [] { return false; });
    });
    EXPECT_TRUE(
        support::for_a_while([&] { return waiter.wait_for(0s) == std::future_status::timeout; }));
    time.advance(1h);
    EXPECT_FALSE(waiter.get());
}

TEST(stopped_clock, ends_the_wait_of_a_thread_for_a_lease) {
    stopped_clock time;
    cenote::pool<int> pool{[] { return 1; }, {.max = 1}};
    auto lease = pool.acquire();
    auto waiter = std::async(std::launch::async, [&] {
        EXPECT_THROW((void)pool.acquire_for(1s), cenote::timed_out_error);
    });
    ASSERT_TRUE(support::lines_up(pool, 1));
    time.advance(999ms);
    EXPECT_TRUE(support::for_a_while([&] { return pool.stats().waiting == 1; }));
    time.advance(1ms);
    waiter.get();
}

TEST(stopped_clock, ends_the_wait_of_a_timer) {
    stopped_clock time;
    boost::asio::io_context io;
    boost::asio::steady_timer timer(io, 1h);
    bool ended = false;
    timer.async_wait([&](boost::system::error_code) { ended = true; });
    io.run_for(0s);
    EXPECT_FALSE(ended);
    time.advance(1h);
    io.run();
    EXPECT_TRUE(ended);
}
