// Tests releases: what happens to the resource, and that a waiter is served at once.
#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"

using namespace std::chrono_literals;
using cenote::retire_reason;
using support::connector;
using support::eventually;
using support::for_a_while;
using support::hooked_connector;
using support::latch;
using support::lines_up;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

void open_three(session_pool& pool) {
    auto one = pool.acquire();
    auto two = pool.acquire();
    auto three = pool.acquire();
}

/// A pool with one resource, which is leased, and one waiter in line.
struct pool_with_waiter {
    template <class C>
    pool_with_waiter(C c, cenote::options options) : pool(std::move(c), one(std::move(options))) {
        lease = pool.acquire();
        waiter = std::async(std::launch::async, [this] { return pool.acquire()->id; });
        lined_up = lines_up(pool, 1);
    }

    static cenote::options one(cenote::options options) {
        options.max = 1;
        options.acquire_timeout = plenty;
        return options;
    }

    session_pool pool;
    cenote::lease<session> lease;
    std::future<int> waiter;
    bool lined_up = false;
};

}  // namespace

TEST(pool_release, a_clean_release_keeps_the_resource_as_it_is) {
    auto to = server::start();
    session_pool pool{connector{to}};
    pool.acquire().give_back();
    EXPECT_EQ(pool.stats().idle, 1U);
    EXPECT_EQ(pool.stats().released, 1U);
    EXPECT_EQ(to->resets, 0);
    EXPECT_EQ(to->closes, 0);
}

TEST(pool_release, a_release_serves_the_head_of_the_line) {
    pool_with_waiter test(connector{server::start()}, {});
    ASSERT_TRUE(test.lined_up);
    test.lease.give_back();
    EXPECT_EQ(test.waiter.get(), 1);
}

TEST(pool_release, a_discard_serves_the_line_at_once) {
    pool_with_waiter test(connector{server::start()}, {});
    ASSERT_TRUE(test.lined_up);
    test.lease.discard();
    EXPECT_EQ(test.waiter.get(), 2);
    EXPECT_EQ(test.pool.stats().discarded, 1U);
}

TEST(pool_release, a_rejected_release_serves_the_line_at_once) {
    auto to = server::start();
    to->on_release = [](int id) { return id != 1; };
    pool_with_waiter test(hooked_connector{{to}}, {});
    ASSERT_TRUE(test.lined_up);
    test.lease.give_back();
    EXPECT_EQ(test.waiter.get(), 2);
    EXPECT_EQ(test.pool.stats().retired(retire_reason::rejected), 1U);
}

TEST(pool_release, a_throwing_hook_rejects_the_release) {
    auto to = server::start();
    to->on_release = [](int id) { return id == 1 ? throw std::runtime_error("odd") : true; };
    pool_with_waiter test(hooked_connector{{to}}, {});
    ASSERT_TRUE(test.lined_up);
    test.lease.give_back();
    EXPECT_EQ(test.waiter.get(), 2);
    EXPECT_EQ(test.pool.stats().retired(retire_reason::rejected), 1U);
}

TEST(pool_release, a_failed_reset_serves_the_line_at_once) {
    auto to = server::start();
    to->on_reset = [](int) { return false; };
    pool_with_waiter test(connector{to}, {});
    ASSERT_TRUE(test.lined_up);
    test.lease.mark_dirty();
    test.lease.give_back();
    EXPECT_EQ(test.waiter.get(), 2);
    EXPECT_EQ(test.pool.stats().retired(retire_reason::reset_failed), 1U);
}

TEST(pool_release, a_retirement_by_uses_serves_the_line_at_once) {
    pool_with_waiter test(connector{server::start()}, {.max_uses = 1});
    ASSERT_TRUE(test.lined_up);
    test.lease.give_back();
    EXPECT_EQ(test.waiter.get(), 2);
}

TEST(pool_release, a_failed_probe_on_release_serves_the_line_at_once) {
    auto to = server::start();
    to->on_probe = [](int id) { return id != 1; };
    pool_with_waiter test(connector{to}, {.probe_on_release = true});
    ASSERT_TRUE(test.lined_up);
    test.lease.give_back();
    EXPECT_EQ(test.waiter.get(), 2);
    EXPECT_EQ(test.pool.stats().retired(retire_reason::probe_failed), 1U);
}

TEST(pool_release, a_detached_resource_leaves_its_place_to_the_line) {
    auto to = server::start();
    pool_with_waiter test(connector{to}, {});
    ASSERT_TRUE(test.lined_up);
    session mine = test.lease.detach();
    EXPECT_EQ(mine.id, 1);
    EXPECT_FALSE(test.lease);
    EXPECT_EQ(test.waiter.get(), 2);
    EXPECT_EQ(test.pool.stats().detached, 1U);
    EXPECT_EQ(test.pool.close(plenty), 0U);
    EXPECT_EQ(to->closes, 1) << "the pool does not close a detached resource";
    EXPECT_EQ(to->present, 1);
}

TEST(pool_release, a_dirty_resource_is_reset_before_the_next_lease) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 1, .acquire_timeout = plenty, .reset_timeout = plenty}};
    auto lease = pool.acquire();
    lease.mark_dirty();
    EXPECT_EQ(lease->id, 1) << "the lease continues";
    EXPECT_EQ(to->resets, 0);
    lease.give_back();
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->resets, 1);
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->resets, 1) << "one reset is enough";
}

TEST(pool_release, a_dirty_resource_without_a_reset_is_closed) {
    std::atomic<int> opened{0};
    cenote::pool<int> pool{[&] { return ++opened; }};
    auto lease = pool.acquire();
    lease.mark_dirty();
    lease.give_back();
    EXPECT_EQ(*pool.acquire(), 2);
    EXPECT_TRUE(eventually([&] { return pool.stats().closed == 1; }));
}

TEST(pool_release, a_resource_is_retired_after_max_uses) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max_uses = 3}};
    std::vector<int> ids;
    for (int i = 0; i < 9; ++i) ids.push_back(pool.acquire()->id);
    EXPECT_EQ(ids, (std::vector{1, 1, 1, 2, 2, 2, 3, 3, 3}));
    EXPECT_EQ(pool.stats().retired(retire_reason::uses), 3U);
}

TEST(pool_release, an_over_aged_resource_is_retired_when_it_comes_back) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.max_lifetime = 10ms, .lifetime_jitter = 0}};
    auto lease = pool.acquire();
    time.advance(10ms);
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return to->closes == 1; }));
    EXPECT_EQ(pool.stats().retired(retire_reason::age), 1U);
}

TEST(pool_release, before_acquire_is_called_for_each_lease_and_may_refuse_one) {
    auto to = server::start();
    to->on_acquire = [](int id) { return id != 1; };
    session_pool pool{hooked_connector{{to}}, {.acquire_timeout = plenty}};
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->acquires, 3);
    EXPECT_EQ(pool.stats().retired(retire_reason::rejected), 1U);
    EXPECT_EQ(pool.stats().acquires, 3U) << "the refused resource counts as one";
}

TEST(pool_release, a_throwing_before_acquire_costs_the_resource_not_the_borrower) {
    auto to = server::start();
    to->on_acquire = [](int id) { return id == 1 ? throw 42 : true; };
    session_pool pool{hooked_connector{{to}}, {.acquire_timeout = plenty}};
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(pool.stats().leased, 0U);
}

TEST(pool_release, before_acquire_is_called_for_a_try_acquire_too) {
    auto to = server::start();
    session_pool pool{hooked_connector{{to}}};
    (void)pool.acquire();
    to->on_acquire = [](int) { return false; };
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_EQ(pool.stats().leased, 0U);
    EXPECT_TRUE(eventually([&] { return to->closes == 1; }));
}

TEST(pool_release, try_acquire_tries_the_next_ready_one_when_before_acquire_refuses) {
    for (unsigned refusals : {0U, 1U, 2U}) {
        auto to = server::start();
        session_pool pool{hooked_connector{{to}}, {.max = 3, .acquire_timeout = plenty}};
        open_three(pool);
        auto before = pool.stats();
        std::set<int> rejected;
        to->on_acquire = [&](int id) {
            if (rejected.size() == refusals) return true;
            rejected.insert(id);
            return false;
        };
        auto lease = pool.try_acquire();
        ASSERT_TRUE(lease);
        EXPECT_FALSE(rejected.contains(lease->id));
        EXPECT_EQ(rejected.size(), refusals) << "different resources, one call for each";
        EXPECT_LE(lease->id, 3) << "one of the idle resources";
        auto s = pool.stats();
        EXPECT_EQ(s.try_empty, 0U);
        EXPECT_EQ(s.leased, 1U);
        EXPECT_EQ(s.acquires, before.acquires + refusals + 1);
        EXPECT_EQ(s.retired(retire_reason::rejected), refusals);
        EXPECT_EQ(support::contradiction(s), "");
        EXPECT_TRUE(eventually([&] { return to->closes == static_cast<int>(refusals); }));
    }
}

TEST(pool_release, try_acquire_is_empty_when_before_acquire_refuses_all_and_counts_once) {
    for (bool throws : {false, true}) {
        auto to = server::start();
        session_pool pool{hooked_connector{{to}}, {.max = 3, .acquire_timeout = plenty}};
        open_three(pool);
        auto before = pool.stats();
        int calls = to->acquires;
        to->on_acquire = [throws](int) { return throws ? throw 42 : false; };
        EXPECT_FALSE(pool.try_acquire());
        EXPECT_EQ(to->acquires, calls + 3);
        auto s = pool.stats();
        EXPECT_EQ(s.try_empty, 1U);
        EXPECT_EQ(s.leased, 0U);
        EXPECT_EQ(s.acquires, before.acquires + 3) << "one for each refused resource";
        EXPECT_EQ(s.granted, before.granted + 3);
        EXPECT_EQ(s.released, before.released + 3);
        EXPECT_EQ(s.retired(retire_reason::rejected), 3U);
        EXPECT_EQ(support::contradiction(s), "");
        EXPECT_TRUE(eventually([&] { return to->closes == 3 && pool.stats().idle == 1; }))
            << "the next one is opened in the background";
        EXPECT_TRUE(for_a_while([&] { return to->opens == 4; }));
        to->on_acquire = nullptr;
        EXPECT_TRUE(pool.try_acquire());
    }
}

TEST(pool_release, never_waits_for_the_connector) {
    auto to = server::start();
    latch calls_end;
    auto hang = [calls_end](int) { return calls_end.wait(); };
    to->on_close = [calls_end](int) { calls_end.wait(); };
    to->on_reset = hang;
    to->on_probe = hang;
    session_pool pool{connector{to},
                      {.probe_timeout = plenty,
                       .reset_timeout = plenty,
                       .close_timeout = plenty,
                       .probe_on_release = true}};
    auto discarded = pool.acquire();
    auto dirty = pool.acquire();
    auto clean = pool.acquire();
    discarded.discard();
    dirty.mark_dirty();
    dirty.give_back();
    clean.give_back();
    auto now = pool.stats();
    EXPECT_EQ(now.closing, 1U);
    EXPECT_EQ(now.resetting, 1U);
    EXPECT_EQ(now.probing, 1U);
    EXPECT_EQ(now.leased, 0U);
    EXPECT_EQ(now.total, 3U);
    calls_end.open();
}

TEST(pool_release, a_place_counts_until_its_close_has_finished) {
    auto to = server::start();
    latch closes;
    to->on_close = [closes](int) { closes.wait(); };
    session_pool pool{connector{to}, {.max = 1, .close_timeout = plenty}};
    pool.acquire().discard();
    EXPECT_THROW((void)pool.acquire_for(5ms), cenote::timed_out_error);
    EXPECT_EQ(pool.stats().total, 1U);
    closes.open();
    EXPECT_EQ(pool.acquire_for(plenty)->id, 2);
    EXPECT_EQ(to->peak, 1);
}

TEST(pool_release, a_throwing_or_failing_connector_never_changes_the_capacity) {
    auto to = server::start();
    auto odd = [](int) -> bool { throw std::runtime_error("odd"); };
    to->on_reset = odd;
    to->on_close = [](int) { throw std::runtime_error("odd"); };
    session_pool pool{
        connector{to},
        {.max = 2, .acquire_timeout = plenty, .reset_timeout = plenty, .close_timeout = plenty}};
    for (int i = 0; i < 10; ++i) {
        auto a = pool.acquire();
        auto b = pool.acquire();
        a.mark_dirty();
        b.discard();
    }
    auto a = pool.acquire();
    auto b = pool.acquire();
    EXPECT_EQ(pool.stats().total, 2U);
    EXPECT_LE(to->peak, 2);
}

TEST(pool_release, a_hanging_reset_does_not_delay_a_waiter_below_max) {
    auto to = server::start();
    latch resets;
    to->on_reset = [resets](int) { return resets.wait(); };
    session_pool pool{connector{to}, {.max = 2, .reset_timeout = plenty}};
    auto lease = pool.acquire();
    lease.mark_dirty();
    lease.give_back();
    std::error_code error;
    EXPECT_TRUE(pool.acquire({.timeout = plenty / 2}, error))
        << "below max another resource is opened";
    resets.open();
}
