// Tests a frozen process: resources that were idle meanwhile are probed before the next lease.
#include <chrono>
#include <memory>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::latch;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

/// The pool's timer is due in at most two seconds, so it is late by more than two seconds after
/// this jump of the clock. The pool notices a frozen process by such a jump.
constexpr std::chrono::nanoseconds freeze = 4500ms;

}  // namespace

TEST(pool_freeze, idle_resources_are_probed_before_the_next_lease) {
    support::stopped_clock time;
    auto to = server::start();
    latch closes;
    std::mutex mutex;
    std::set<int> probed;
    to->on_probe = [&](int id) {
        std::lock_guard lock(mutex);
        probed.insert(id);
        return true;
    };
    session_pool pool{connector{to}, {.max = 3, .close_timeout = 2s, .probe_after_idle = 1h}};
    auto third = pool.acquire();
    for (int i = 0; i < 2; ++i) {
        auto one = pool.acquire();
        auto two = pool.acquire();
        ASSERT_EQ(to->opens, 3);
        ASSERT_EQ(to->probes, 0) << "no resource was idle for an hour";
    }
    // A close that hangs: the timer is due at its deadline, and `abandoned` shows when it ran.
    to->on_close = [closes](int) { closes.wait(); };
    to->on_open = [](int) { throw support::refused_by_server("no new resources"); };
    third.discard();
    ASSERT_TRUE(eventually([&] { return to->closing == 1; }));
    ASSERT_EQ(pool.stats().abandoned, 0U);
    time.advance(freeze);
    ASSERT_TRUE(eventually([&] { return pool.stats().abandoned == 1; }));
    auto one = pool.acquire();
    auto two = pool.acquire();
    {
        std::lock_guard lock(mutex);
        EXPECT_TRUE(probed.contains(one->id));
        EXPECT_TRUE(probed.contains(two->id));
    }
    closes.open();
}

TEST(pool_freeze, shelved_resources_are_probed_too) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 2, .sweep_interval = 1s, .probe_after_idle = 1h}};
    for (int i = 0; i < 1000; ++i) (void)pool.acquire();
    ASSERT_EQ(to->probes, 0);
    time.advance(freeze);
    // The first lease may be granted before the timer runs.
    EXPECT_TRUE(eventually([&] { return (void)pool.acquire(), to->probes > 0; }));
}
