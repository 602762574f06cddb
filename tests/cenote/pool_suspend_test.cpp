// A suspended system: what lay idle meanwhile is probed before it is lent again. No timer is late
// then; only the time since boot tells.
#include <chrono>
#include <memory>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

struct pool_suspend : testing::Test {
    std::shared_ptr<server> to = server::start();
    /// Nothing is probed but for suspicion.
    cenote::options settings{.max = 2, .acquire_timeout = plenty, .probe_after_idle = 1h};
};

}  // namespace

TEST_F(pool_suspend, the_first_acquire_notices_it) {
    settings.order = cenote::order::fifo;  // without the fast lane
    session_pool pool{connector{to}, settings};
    for (int i = 0; i < 10; ++i) (void)pool.acquire();
    EXPECT_EQ(to->probes, 0);
    support::suspend_system(10s);
    (void)pool.acquire();
    EXPECT_EQ(to->probes, 1);
    (void)pool.acquire();
    EXPECT_EQ(to->probes, 1);
}

TEST_F(pool_suspend, a_try_notices_it_too) {
    settings.order = cenote::order::fifo;
    session_pool pool{connector{to}, settings};
    (void)pool.acquire();
    support::suspend_system(10s);
    EXPECT_FALSE(pool.try_acquire()) << "it has to be probed first";
    EXPECT_TRUE(eventually([&] { return static_cast<bool>(pool.try_acquire()); }));
    EXPECT_EQ(to->probes, 1);
}

TEST_F(pool_suspend, of_a_second_is_none) {
    settings.order = cenote::order::fifo;
    session_pool pool{connector{to}, settings};
    (void)pool.acquire();
    support::suspend_system(1s);
    (void)pool.acquire();
    EXPECT_EQ(to->probes, 0);
}

TEST_F(pool_suspend, is_noticed_for_what_lies_on_the_shelf) {
    settings.sweep_interval = 1h;
    session_pool pool{connector{to}, settings};
    for (int i = 0; i < 1000; ++i) (void)pool.acquire();
    EXPECT_EQ(to->probes, 0);
    support::suspend_system(10s);
    // The first leases may come before the timer notices.
    EXPECT_TRUE(eventually([&] { return (void)pool.acquire(), to->probes > 0; }));
}

TEST_F(pool_suspend, is_noticed_by_whoever_looks_for_another_cell) {
    session_pool pool{connector{to}, settings};
    (void)pool.acquire();  // to the shelf
    auto held = pool.acquire();
    support::suspend_system(10s);
    auto other = pool.acquire();  // through the keeper: nothing is on the shelf
    held.give_back();             // it was open before
    other.give_back();
    auto one = pool.acquire();
    auto two = pool.acquire();
    EXPECT_TRUE(eventually([&] { return to->probes == 1; }));
}

TEST_F(pool_suspend, is_of_no_interest_to_a_connector_that_cannot_probe) {
    settings.order = cenote::order::fifo;
    settings.probe_after_idle = cenote::forever;
    session_pool pool{[&] { return to->open(); }, settings};
    (void)pool.acquire();
    support::suspend_system(10s);
    (void)pool.acquire();
    EXPECT_EQ(to->opens, 1);
}
