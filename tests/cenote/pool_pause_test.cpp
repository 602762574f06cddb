// Tests pause and resume: nothing is lent meanwhile, and waiters keep their places.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

TEST(pool_pause, lends_nothing_not_even_a_hot_resource) {
    auto s = server::start();
    session_pool pool(connector{s}, {.max = 2});
    {
        auto warm = pool.acquire();
    }  // the resource is on the shelf
    pool.pause();
    EXPECT_FALSE(pool.try_acquire());
    std::error_code error;
    EXPECT_FALSE(pool.acquire({.timeout = 20ms}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    pool.resume();
    EXPECT_TRUE(pool.try_acquire());
}

TEST(pool_pause, serves_the_line_in_order_when_it_ends) {
    auto s = server::start();
    session_pool pool(connector{s}, {.max = 1, .acquire_timeout = 60s});
    {
        auto warm = pool.acquire();
    }
    pool.pause();
    std::vector<int> order;
    std::vector<std::thread> waiting;
    for (int i = 0; i < 5; ++i) {
        waiting.emplace_back([&, i] {
            auto lease = pool.acquire();
            order.push_back(i);  // one resource, so one thread at a time
        });
        auto in_line = static_cast<std::uint64_t>(i) + 1;
        ASSERT_TRUE(eventually([&] { return pool.stats().waiting == in_line; }));
    }
    EXPECT_TRUE(order.empty());
    pool.resume();
    for (std::thread& t : waiting) t.join();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(pool_pause, accepts_releases) {
    auto s = server::start();
    session_pool pool(connector{s}, {.max = 2});
    auto lease = pool.acquire();
    pool.pause();
    lease.give_back();
    EXPECT_EQ(pool.stats().idle, 1u);
    EXPECT_EQ(pool.stats().leased, 0u);
    pool.resume();
    EXPECT_TRUE(pool.try_acquire());
}

TEST(pool_pause, opens_nothing) {
    auto s = server::start();
    session_pool pool(connector{s}, {.max = 2});
    pool.pause();
    std::error_code error;
    EXPECT_FALSE(pool.acquire({.timeout = 20ms}, error));
    EXPECT_EQ(pool.stats().opened, 0u);
    pool.resume();
    EXPECT_TRUE(pool.acquire());
}

TEST(pool_pause, is_reported_once) {
    auto watch = std::make_shared<support::recorder>();
    auto s = server::start();
    session_pool pool(connector{s}, {.observers = {watch}});
    pool.pause();
    pool.pause();
    pool.resume();
    pool.resume();
    ASSERT_TRUE(eventually([&] { return watch->count(cenote::event_kind::resumed) == 1; }));
    EXPECT_EQ(watch->count(cenote::event_kind::paused), 1u);
}

TEST(pool_pause, does_not_prevent_close) {
    auto s = server::start();
    session_pool pool(connector{s}, {.max = 1});
    {
        auto warm = pool.acquire();
    }
    pool.pause();
    EXPECT_EQ(pool.close(5s), 0u);
    EXPECT_EQ(pool.stats().total, 0u);
}

// Threads acquire and release all the time while the pool is paused again and again.
TEST(pool_pause, under_load_lends_nothing_while_it_lasts) {
    auto s = server::start();
    session_pool pool(connector{s}, {.max = 4, .acquire_timeout = 60s});
    std::atomic<bool> stop{false};
    std::vector<std::thread> users;
    for (int i = 0; i < 4; ++i)
        users.emplace_back([&] {
            while (!stop) auto lease = pool.acquire();
        });
    for (int round = 0; round < 200; ++round) {
        pool.pause();
        // All threads are in line, so none leaves the fast lane with an earlier lease.
        ASSERT_TRUE(eventually([&] { return pool.stats().waiting == 4; }));
        EXPECT_EQ(pool.stats().leased, 0u);
        auto granted = pool.stats().granted;
        std::this_thread::yield();
        EXPECT_EQ(pool.stats().granted, granted);
        pool.resume();
    }
    stop = true;
    for (std::thread& t : users) t.join();
    EXPECT_EQ(pool.stats().leased, 0u);
}

}  // namespace
