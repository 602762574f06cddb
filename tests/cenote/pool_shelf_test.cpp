// What is used all the time passes over the shelf. It grows old and is looked after all the same.
#include <memory>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::lines_up;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

TEST(pool_shelf, does_not_keep_what_is_too_old) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 1, .max_lifetime = 50ms, .sweep_interval = 1h}};
    EXPECT_TRUE(eventually([&] { return time.advance(5ms), pool.acquire()->id >= 4; }));
}

TEST(pool_shelf, takes_nothing_back_that_grew_too_old_with_its_holder) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{
        connector{to},
        {.max = 1, .max_lifetime = 100ms, .lifetime_jitter = 0, .sweep_interval = 1h}};
    for (int i = 0; i < 20; ++i) (void)pool.acquire();  // now it goes over the shelf
    auto held = pool.acquire();
    time.advance(100ms);
    // The pool has looked at the lease when it knows for how long it is held.
    ASSERT_TRUE(eventually([&] { return time.advance(1ms), pool.leases().front().held > 0ns; }));
    held.give_back();
    EXPECT_EQ(pool.acquire()->id, 2);
}

TEST(pool_shelf, hides_nothing_from_the_heartbeat) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 1, .sweep_interval = 1h, .heartbeat = 50ms}};
    for (int i = 0; i < 20; ++i) (void)pool.acquire();
    EXPECT_TRUE(eventually([&] { return time.advance(5ms), to->probes >= 3; }));
}

/// Order of events: a retired lease is out, so the fast lane is shut until it is back. Somebody
/// wants three at once, and what is idle is kept for it; somebody else is behind it in line. A
/// smaller maximum refuses the first and, in the same step, lends to the second. When that lease
/// ended, it passed for the retired one: the lane was open, and the retired one went onto the
/// shelf.
TEST(pool_shelf, stays_shut_for_what_is_retired_whoever_is_served_by_a_smaller_maximum) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 3, .acquire_timeout = plenty}};
    auto retired = pool.acquire();
    pool.retire_all();
    std::error_code why;
    std::thread wants_three([&] { (void)pool.acquire_many(3, {}, why); });
    ASSERT_TRUE(eventually([&] { return pool.stats().idle == 2; }));
    std::thread wants_one([&] { (void)pool.acquire(); });
    ASSERT_TRUE(lines_up(pool, 2));
    pool.resize(2);
    wants_three.join();
    EXPECT_EQ(why, cenote::errc::deadlock);
    wants_one.join();
    retired.give_back();
    EXPECT_NE(pool.acquire()->id, 1);
}
