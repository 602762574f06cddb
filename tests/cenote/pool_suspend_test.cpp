// Tests a suspended system: resources that were idle meanwhile are probed before the next lease. No
// timer is late after a suspend; only the time since boot shows it.
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
    /// Only suspicion causes probes.
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
    EXPECT_FALSE(pool.try_acquire()) << "the resource has to be probed first";
    EXPECT_TRUE(eventually([&] { return static_cast<bool>(pool.try_acquire()); }));
    EXPECT_EQ(to->probes, 1);
}

TEST_F(pool_suspend, of_a_second_is_ignored) {
    settings.order = cenote::order::fifo;
    session_pool pool{connector{to}, settings};
    (void)pool.acquire();
    support::suspend_system(1s);
    (void)pool.acquire();
    EXPECT_EQ(to->probes, 0);
}

TEST_F(pool_suspend, is_noticed_for_shelved_resources) {
    settings.sweep_interval = 1h;
    session_pool pool{connector{to}, settings};
    for (int i = 0; i < 1000; ++i) (void)pool.acquire();
    EXPECT_EQ(to->probes, 0);
    support::suspend_system(10s);
    // The first leases may be granted before the timer runs.
    EXPECT_TRUE(eventually([&] { return (void)pool.acquire(), to->probes > 0; }));
}

TEST_F(pool_suspend, is_noticed_by_an_acquire_that_looks_into_other_cells) {
    session_pool pool{connector{to}, settings};
    (void)pool.acquire();  // its resource goes onto the shelf
    auto lease = pool.acquire();
    support::suspend_system(10s);
    auto other = pool.acquire();  // through the keeper, because the shelf is empty
    lease.give_back();            // opened before the suspend
    other.give_back();
    auto one = pool.acquire();
    auto two = pool.acquire();
    EXPECT_TRUE(eventually([&] { return to->probes == 1; }));
}

TEST_F(pool_suspend, is_ignored_for_a_connector_that_cannot_probe) {
    settings.order = cenote::order::fifo;
    settings.probe_after_idle = cenote::forever;
    session_pool pool{[&] { return to->open(); }, settings};
    (void)pool.acquire();
    support::suspend_system(10s);
    (void)pool.acquire();
    EXPECT_EQ(to->opens, 1);
}
