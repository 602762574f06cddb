// Tests probes: when they happen, and that a dead resource never costs a waiter its place.
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using cenote::retire_reason;
using support::connector;
using support::eventually;
using support::for_a_while;
using support::latch;
using support::lines_up;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

/// An observer of every lease. It shuts the fast lane, so idle times count from the release and not
/// from a sweep.
std::shared_ptr<support::recorder> every_lease() { return std::make_shared<support::recorder>(); }

/// Opens `count` resources and releases them all.
void open_many(session_pool& pool, int count) {
    std::vector<cenote::lease<session>> all;
    for (int i = 0; i < count; ++i) all.push_back(pool.acquire_for(plenty));
}

}  // namespace

TEST(pool_probe, zero_probes_at_every_acquire_but_never_a_fresh_one) {
    auto to = server::start();
    session_pool pool{connector{to}, {.probe_timeout = plenty, .probe_after_idle = 0ns}};
    (void)pool.acquire();
    EXPECT_EQ(to->probes, 0) << "just opened";
    for (int i = 1; i <= 5; ++i) {
        (void)pool.acquire();
        EXPECT_EQ(to->probes, i);
    }
}

TEST(pool_probe, forever_never_probes) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.probe_after_idle = cenote::forever}};
    for (int i = 0; i < 5; ++i) (void)pool.acquire();
    time.advance(1900ms);
    (void)pool.acquire();
    EXPECT_EQ(to->probes, 0);
}

TEST(pool_probe, a_resource_idle_for_long_is_probed_before_the_next_lease) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.probe_after_idle = 50ms, .observers = {every_lease()}}};
    (void)pool.acquire();
    for (int i = 0; i < 10; ++i) {
        time.advance(50ms - 1ns);
        (void)pool.acquire();
    }
    EXPECT_EQ(to->probes, 0);
    time.advance(50ms);
    (void)pool.acquire();
    EXPECT_EQ(to->probes, 1);
}

// The resource is on the shelf, and only sweeps measure for how long.
TEST(pool_probe, a_resource_idle_for_long_is_probed_with_any_sweep_interval) {
    support::stopped_clock time;
    for (std::chrono::nanoseconds interval : {1ms, 1000ms}) {
        auto to = server::start();
        session_pool pool{connector{to}, {.sweep_interval = interval, .probe_after_idle = 20ms}};
        for (int i = 0; i < 100; ++i) (void)pool.acquire();
        EXPECT_EQ(to->probes, 0);
        int steps = 0;
        EXPECT_TRUE(eventually([&] {
            time.advance(10ms);
            if (++steps % 8 == 0) (void)pool.acquire();
            return to->probes == 1;
        }));
    }
}

TEST(pool_probe, without_a_probe_everything_counts_as_alive) {
    std::atomic<int> opened{0};
    cenote::pool<int> pool{[&] { return ++opened; }};
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*pool.acquire(), 1);
}

TEST(pool_probe, a_dead_resource_is_closed_and_replaced) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 1,
                       .acquire_timeout = plenty,
                       .probe_timeout = plenty,
                       .close_timeout = plenty,
                       .probe_after_idle = 0ns}};
    (void)pool.acquire();
    to->on_probe = [](int) { return false; };
    EXPECT_EQ(pool.acquire()->id, 2);
    to->on_probe = [](int) -> bool { throw std::runtime_error("dead"); };
    EXPECT_EQ(pool.acquire()->id, 3);
    EXPECT_EQ(pool.stats().retired(retire_reason::probe_failed), 2U);
    EXPECT_EQ(pool.stats().closed, 2U);
    EXPECT_EQ(pool.stats().acquires, 3U);
    EXPECT_EQ(to->peak, 1);
}

TEST(pool_probe, a_failed_probe_costs_the_waiter_neither_its_place_nor_its_deadline) {
    auto to = server::start();
    latch probes;
    session_pool pool{
        connector{to},
        {.max = 1, .acquire_timeout = plenty, .probe_timeout = plenty, .probe_after_idle = 0ns}};
    (void)pool.acquire();
    to->on_probe = [&](int id) {
        probes.wait();
        return id != 1;
    };
    std::mutex mutex;
    std::vector<int> served;
    auto borrow = [&](int number) {
        return std::async(std::launch::async, [&, number] {
            auto lease = pool.acquire();
            std::lock_guard lock(mutex);
            served.push_back(number);
        });
    };
    auto first = borrow(1);
    ASSERT_TRUE(lines_up(pool, 1));
    auto second = borrow(2);
    ASSERT_TRUE(lines_up(pool, 2));
    probes.open();
    first.get();
    second.get();
    EXPECT_EQ(served, (std::vector{1, 2}));
}

TEST(pool_probe, a_failed_probe_does_not_restart_the_deadline) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 1,
                       .probe_after_idle = 0ns,
                       .backoff = {.first = 1ms, .cap_waiting = 1ms, .cap_idle = 1ms}}};
    (void)pool.acquire();
    to->on_probe = [](int) { return false; };
    to->on_open = [](int) { throw support::refused_by_server("no"); };
    EXPECT_THROW((void)pool.acquire_for(50ms), cenote::pool_error);
}

TEST(pool_probe, the_deadline_covers_the_probe) {
    auto to = server::start();
    latch probes;
    session_pool pool{connector{to}, {.probe_timeout = plenty, .probe_after_idle = 0ns}};
    (void)pool.acquire();
    to->on_probe = [probes](int) { return probes.wait(); };
    EXPECT_THROW((void)pool.acquire_for(5ms), cenote::timed_out_error);
    probes.open();
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 1; }))
        << "a caller that timed out does not end a healthy resource";
    EXPECT_EQ(to->closes, 0);
}

TEST(pool_probe, a_hanging_probe_for_one_waiter_does_not_delay_the_next) {
    auto to = server::start();
    std::atomic<int> hanging{0};
    latch probes;
    session_pool pool{
        connector{to},
        {.max = 2, .acquire_timeout = plenty, .probe_timeout = plenty, .probe_after_idle = 0ns}};
    open_many(pool, 2);
    to->on_probe = [&](int id) {
        int none = 0;
        if (hanging.compare_exchange_strong(none, id)) return probes.wait();
        return true;
    };
    auto first = std::async(std::launch::async, [&] { return pool.acquire(); });
    ASSERT_TRUE(eventually([&] { return hanging != 0; }));
    auto second = std::async(std::launch::async, [&] { return pool.acquire(); });
    EXPECT_TRUE(eventually([&] { return pool.stats().leased == 1; }));
    probes.open();
    EXPECT_NE(first.get()->id, second.get()->id);
}

TEST(pool_probe, an_over_aged_resource_is_not_even_probed) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 1,
                       .acquire_timeout = plenty,
                       .max_lifetime = 30ms,
                       .lifetime_jitter = 0,
                       .sweep_interval = 1h,
                       .probe_after_idle = 0ns}};
    (void)pool.acquire();
    time.advance(30ms);
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->probes, 0);
}

TEST(pool_probe, after_two_dead_ones_in_a_row_the_rest_is_suspect) {
    support::stopped_clock time;
    for (auto order : {cenote::order::lifo, cenote::order::fifo}) {
        auto to = server::start();
        session_pool pool{connector{to},
                          {.max = 4,
                           .acquire_timeout = plenty,
                           .probe_after_idle = 100ms,
                           .order = order,
                           .observers = {every_lease()}}};
        std::vector<cenote::lease<session>> all;
        for (int i = 0; i < 4; ++i) all.push_back(pool.acquire());
        all[0].give_back();
        all[1].give_back();
        time.advance(150ms);
        to->on_probe = [](int id) { return id > 4; };
        auto fresh = pool.acquire();
        EXPECT_EQ(fresh->id, 5);
        EXPECT_EQ(to->probes, 2);
        // These two leases end only now, so their idle time does not require a probe.
        all[2].give_back();
        all[3].give_back();
        auto next = pool.acquire();
        EXPECT_GT(next->id, 4) << "lent without a probe";
        EXPECT_GE(to->probes, 3);
    }
}

TEST(pool_probe, no_caller_waits_for_a_probe_while_a_fresh_resource_is_idle) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 2,
                       .acquire_timeout = plenty,
                       .probe_after_idle = 200ms,
                       .order = cenote::order::fifo}};
    auto one = pool.acquire();
    auto two = pool.acquire();
    one.give_back();
    time.advance(200ms);
    two.give_back();
    auto fresh = pool.acquire();
    EXPECT_EQ(fresh->id, 2);
    EXPECT_EQ(to->probes, 0);
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->probes, 1);
}

TEST(pool_probe, on_release_it_happens_before_the_resource_is_idle_again) {
    auto to = server::start();
    latch probes;
    session_pool pool{connector{to}, {.max = 1, .probe_timeout = plenty, .probe_on_release = true}};
    to->on_probe = [probes](int) { return probes.wait(); };
    pool.acquire().give_back();
    EXPECT_EQ(pool.stats().idle, 0U);
    EXPECT_EQ(pool.stats().probing, 1U);
    EXPECT_FALSE(pool.try_acquire());
    probes.open();
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 1; }));
    EXPECT_EQ(to->probes, 1);
}

TEST(pool_heartbeat, probes_the_idle_in_the_background) {
    auto to = server::start();
    std::set<int> probed;
    std::mutex mutex;
    session_pool pool{
        connector{to},
        {.probe_timeout = plenty, .probe_after_idle = cenote::forever, .heartbeat = 5ms}};
    open_many(pool, 3);
    to->on_probe = [&](int id) {
        std::lock_guard lock(mutex);
        probed.insert(id);
        return true;
    };
    EXPECT_TRUE(eventually([&] {
        std::lock_guard lock(mutex);
        return probed.size() == 3;
    }));
    EXPECT_EQ(to->closes, 0);
}

TEST(pool_heartbeat, is_off_by_default) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.sweep_interval = 1ms}};
    open_many(pool, 3);
    time.advance(1900ms);
    EXPECT_TRUE(for_a_while([&] { return to->probes == 0; }));
}

TEST(pool_heartbeat, takes_one_at_a_time_and_leaves_the_others_to_borrowers) {
    auto to = server::start();
    latch probes;
    session_pool pool{connector{to},
                      {.max = 4,
                       .acquire_timeout = plenty,
                       .probe_timeout = plenty,
                       .probe_after_idle = cenote::forever,
                       .heartbeat = 5ms}};
    to->on_probe = [probes](int) { return probes.wait(); };
    open_many(pool, 4);
    ASSERT_TRUE(eventually([&] { return to->probes == 1; }));
    {
        auto a = pool.acquire();
        auto b = pool.acquire();
        auto c = pool.acquire();
        EXPECT_EQ(to->opens, 4);
    }
    EXPECT_TRUE(for_a_while([&] { return pool.stats().probing <= 1; }));
    probes.open();
    EXPECT_TRUE(eventually([&] { return to->probes > 4; })) << "further probes follow";
}

TEST(pool_heartbeat, a_probe_that_fails_throws_or_hangs_costs_that_one_resource_only) {
    support::stopped_clock time;
    auto to = server::start();
    std::atomic<bool> probes_fail{false};
    latch hang;
    session_pool pool{connector{to},
                      {.max = 4,
                       .acquire_timeout = plenty,
                       .probe_timeout = 20ms,
                       .probe_after_idle = cenote::forever,
                       .heartbeat = 5ms}};
    to->on_probe = [&](int id) {
        if (!probes_fail) return true;
        if (id == 1) throw 42;
        if (id == 2) return hang.wait();
        return id != 3;
    };
    open_many(pool, 4);
    probes_fail = true;
    EXPECT_TRUE(eventually([&] {
        // The clock does not move during a probe, except for the probe that hangs.
        auto now = pool.stats();
        if (now.probing == 0 || (hang.waiting() == 1 && now.abandoned == 0)) time.advance(1ms);
        return now.retired(retire_reason::probe_failed) == 3;
    }));
    EXPECT_EQ(pool.acquire()->id, 4);
    hang.open();
    probes_fail = false;
    open_many(pool, 4);
    EXPECT_EQ(pool.stats().total, 4U) << "full capacity again";
    EXPECT_TRUE(eventually([&] { return to->present == 4; }))
        << "the resource whose probe hung was closed";
}

TEST(pool_heartbeat, does_not_begin_while_a_caller_waits) {
    support::stopped_clock time;
    auto to = server::start();
    latch probes;
    session_pool pool{connector{to},
                      {.max = 2,
                       .acquire_timeout = plenty,
                       .probe_timeout = plenty,
                       .probe_after_idle = 0ns,
                       .heartbeat = 200ms}};
    to->on_probe = [probes](int) { return probes.wait(); };
    open_many(pool, 2);
    time.advance(1ms);
    // The probe for this lease hangs. The heartbeat of the other resource becomes due meanwhile.
    auto waiter = std::async(std::launch::async, [&] { return pool.acquire(); });
    ASSERT_TRUE(lines_up(pool, 1));
    ASSERT_TRUE(eventually([&] { return to->probes == 1; }));
    time.advance(500ms);
    EXPECT_TRUE(for_a_while([&] {
        EXPECT_TRUE(pool.wait_ready(0ns));  // any call makes the pool check what is due
        return to->probes == 1 && pool.stats().idle == 1;
    }));
    EXPECT_EQ(pool.stats().waiting, 1U);
    probes.open();
    auto lease = waiter.get();
    EXPECT_TRUE(eventually([&] { return time.advance(1ms), to->probes >= 2; }))
        << "the heartbeat follows";
}

TEST(pool_heartbeat, in_flight_hides_none_of_the_other_idle_ones) {
    auto to = server::start();
    latch probes;
    session_pool pool{connector{to},
                      {.max = 4,
                       .acquire_timeout = plenty,
                       .probe_timeout = plenty,
                       .sweep_interval = 1ms,
                       .probe_after_idle = cenote::forever,
                       .heartbeat = 5ms}};
    to->on_probe = [probes](int) { return probes.wait(); };
    open_many(pool, 4);
    ASSERT_TRUE(eventually([&] { return to->probes == 1 && pool.stats().idle == 3; }));
    std::vector<cenote::lease<session>> rest;
    for (int i = 0; i < 3; ++i) rest.push_back(pool.try_acquire());
    for (auto& lease : rest) EXPECT_TRUE(lease) << "ready at once";
    EXPECT_EQ(to->opens, 4);
    EXPECT_EQ(to->probes, 1);
    probes.open();
}

TEST(pool_heartbeat, in_flight_does_not_keep_a_returned_resource_from_a_waiter) {
    auto to = server::start();
    latch probes;
    session_pool pool{connector{to},
                      {.max = 2,
                       .acquire_timeout = plenty,
                       .probe_timeout = plenty,
                       .sweep_interval = 1ms,
                       .probe_after_idle = cenote::forever,
                       .heartbeat = 5ms}};
    to->on_probe = [probes](int) { return probes.wait(); };
    auto lease = pool.acquire();
    (void)pool.acquire();
    ASSERT_TRUE(eventually([&] { return pool.stats().probing == 1; }));
    auto waiter = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    ASSERT_TRUE(lines_up(pool, 1));
    lease.give_back();
    EXPECT_EQ(waiter.get(), 1);
    EXPECT_EQ(pool.stats().probing, 1U) << "it still hangs";
    probes.open();
}

TEST(pool_heartbeat, that_hangs_does_not_keep_a_new_resource_from_a_waiter) {
    auto to = server::start();
    latch probes;
    session_pool pool{connector{to},
                      {.max = 2,
                       .acquire_timeout = plenty,
                       .probe_timeout = cenote::forever,
                       .sweep_interval = 1ms,
                       .probe_after_idle = cenote::forever,
                       .heartbeat = 5ms}};
    to->on_probe = [probes](int) { return probes.wait(); };
    (void)pool.acquire();
    ASSERT_TRUE(eventually([&] { return pool.stats().probing == 1; }));
    EXPECT_EQ(pool.acquire()->id, 2);
    probes.open();
}
