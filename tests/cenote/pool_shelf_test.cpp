// Tests resources that pass over the shelf: age limits, heartbeats and retirement still apply.
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

TEST(pool_shelf, does_not_keep_a_resource_that_is_too_old) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 1, .max_lifetime = 50ms, .sweep_interval = 1h}};
    EXPECT_TRUE(eventually([&] { return time.advance(5ms), pool.acquire()->id >= 4; }));
}

TEST(pool_shelf, does_not_accept_a_lease_that_grew_too_old) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{
        connector{to},
        {.max = 1, .max_lifetime = 100ms, .lifetime_jitter = 0, .sweep_interval = 1h}};
    for (int i = 0; i < 20; ++i) (void)pool.acquire();  // from now on over the shelf
    auto lease = pool.acquire();
    time.advance(100ms);
    // The pool has checked the lease when its duration is known.
    ASSERT_TRUE(eventually([&] { return time.advance(1ms), pool.leases().front().held > 0ns; }));
    lease.give_back();
    EXPECT_EQ(pool.acquire()->id, 2);
}

TEST(pool_shelf, hides_nothing_from_the_heartbeat) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 1, .sweep_interval = 1h, .heartbeat = 50ms}};
    for (int i = 0; i < 20; ++i) (void)pool.acquire();
    EXPECT_TRUE(eventually([&] { return time.advance(5ms), to->probes >= 3; }));
}

/// 1. A retired lease is out, so the fast lane is shut until its end. 2. A first waiter wants three
/// leases at once; idle resources are kept for it. A second waiter is behind it in line. 3. A
/// smaller maximum refuses the first waiter and, in the same step, serves the second. 4. The end of
/// that lease counted as the end of the retired one: the lane opened, and the retired resource went
/// onto the shelf.
TEST(pool_shelf, stays_shut_for_a_retired_lease_while_a_resize_serves_a_waiter) {
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
