// Express without a line: no caller waits, nothing is due, and only idle resources move.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

constexpr abilities probes = {.probe = true};

struct machine_calm : testing::Test {
    /// A pool with `idle` idle resources, whose strategy has just been told of a success.
    void make(options settings = {}, std::uint64_t idle = 2, abilities can = probes,
              bool reports = false) {
        if (settings.max == options{}.max) settings.max = 2;
        d.emplace(settings, can, reports);
        d->fill(idle);
        begin();
    }
    void begin() { settles = d->it.settles(); }
    /// Since begin().
    bool express() const { return d->it.settles() == settles; }

    std::optional<dialogue> d;
    std::uint64_t settles = 0;
};

TEST_F(machine_calm, lends_what_is_idle_and_takes_it_back) {
    make();
    EXPECT_EQ(d->ask(1), "got 1");
    EXPECT_EQ(d->said(), "nothing");
    d->now += 1ms;
    d->release(1);
    EXPECT_EQ(d->said(), "nothing");
    EXPECT_EQ(d->attempt(), 1u);
    EXPECT_TRUE(express());
    EXPECT_EQ(d->it.lent_now(), 2u);
}

TEST_F(machine_calm, lends_in_the_pools_order) {
    make({.order = order::fifo});
    EXPECT_EQ(d->ask(1), "got 0");
    d->release(0);
    EXPECT_EQ(d->ask(1), "got 1");
    EXPECT_TRUE(express());
}

TEST_F(machine_calm, counts_as_the_long_way_does) {
    make();
    stats before = d->look();
    d->ask(1);
    d->attempt();
    d->release(0);
    stats after = d->look();
    EXPECT_TRUE(express());
    EXPECT_EQ(after.acquires, before.acquires + 2);
    EXPECT_EQ(after.granted, before.granted + 2);
    EXPECT_EQ(after.waited, before.waited);
    EXPECT_EQ(after.wait.count(), before.wait.count() + 2);
    EXPECT_EQ(after.hold.count(), before.hold.count() + 1);
    EXPECT_EQ(after.released, before.released + 1);
    EXPECT_EQ(after.leased, 1u);
}

TEST_F(machine_calm, draws_a_ticket_for_callers_that_could_have_waited) {
    make();
    std::uint64_t last = d->it.last_ticket();
    d->ask(1);
    EXPECT_EQ(d->ticket, last + 1);
    d->attempt();
    EXPECT_EQ(d->it.last_ticket(), last + 1);
    d->release(0);
    d->ask({.cookie = 2, .ticket = 7, .arrived = d->now, .again = true});
    EXPECT_EQ(d->ticket, 7u);
    EXPECT_TRUE(express());
}

TEST_F(machine_calm, lends_the_last_one_and_is_full) {
    make();
    d->ask(1);
    d->ask(2);
    EXPECT_TRUE(express());
    // The first caller that waits must be examined.
    EXPECT_EQ(d->ask(3, 1s), "waits");
    EXPECT_FALSE(express());
    EXPECT_EQ(d->it.wake_at(), d->now + 1s);
    EXPECT_EQ(d->ask(4), "waits");
    d->release(0);
    EXPECT_EQ(d->said(), "3 gets 0");
    EXPECT_EQ(d->it.passed_on(), 1u);
    // And the last one in line leaves a calm pool behind.
    d->release(1);
    EXPECT_EQ(d->said(), "4 gets 1");
    begin();
    d->release(1);
    d->release(0);
    EXPECT_TRUE(express());
    EXPECT_EQ(d->idle(), 2u);
}

TEST_F(machine_calm, opens_where_min_idle_would_be_short) {
    make({.max = 4, .min_idle = 1});
    ASSERT_EQ(d->idle(), 3u);
    d->ask(1);
    d->ask(2);
    EXPECT_TRUE(express());
    d->ask(3);
    EXPECT_EQ(d->said(), "open 3");
    EXPECT_FALSE(express());
}

TEST_F(machine_calm, lends_the_spare_one_where_there_is_no_room_for_another) {
    make({.max = 2, .min_idle = 1});
    d->ask(1);
    d->ask(2);
    EXPECT_EQ(d->said(), "nothing");
    EXPECT_TRUE(express());
}

TEST_F(machine_calm, is_not_for_pools_whose_minimum_is_not_open) {
    make({.max = 4, .min_size = 3}, 2);
    d->ask(1);
    d->release(d->slot_of(1), condition::discard);
    EXPECT_GT(d->opening() + d->in_flight(verb::close), 0u);
    begin();
    d->ask(2);
    EXPECT_FALSE(express());
}

TEST_F(machine_calm, is_not_for_what_must_be_looked_at) {
    make({.max_uses = 3});
    d->ask(1);
    d->release(1, condition::clean, 2);
    EXPECT_EQ(d->said(), "close 1");
    make({}, 2, {.probe = true, .reset = true});
    d->ask(1);
    d->release(1, condition::dirty);
    EXPECT_EQ(d->said(), "reset 1");
    make();
    d->ask(1);
    d->retire_all();
    d->release(1);
    EXPECT_EQ(d->said(), "close 1");
    make({.probe_on_release = true});
    d->ask(1);
    d->release(1);
    EXPECT_EQ(d->said(), "probe 1");
}

TEST_F(machine_calm, is_not_for_pools_that_report_or_shed) {
    make({}, 2, probes, true);
    d->ask(1);
    EXPECT_EQ(d->said(), "acquired");
    make({.shed = {.target = 5ms}});
    d->ask(1);
    EXPECT_FALSE(express());
}

TEST_F(machine_calm, does_not_lend_what_has_grown_too_old) {
    make({.max_lifetime = 10s, .lifetime_jitter = 0, .sweep_interval = 1h}, 2, {});
    d->pass(9s);
    d->ask(1);
    d->now += 1s;  // no sweep is due yet
    begin();
    EXPECT_EQ(d->ask(2), "waits");
    EXPECT_FALSE(express());
    EXPECT_EQ(d->said(), "close 0");
    d->release(1);
    EXPECT_EQ(d->said(), "close 1");
}

// What becomes due.

TEST_F(machine_calm, sweeps_when_a_sweep_is_due) {
    make({.idle_timeout = 500ms, .sweep_interval = 1ms}, 2, {});
    d->ask(1);
    d->now += 500ms;
    d->release(1);
    EXPECT_FALSE(express());
    EXPECT_EQ(d->said(), "close 0");
}

TEST_F(machine_calm, minds_when_a_return_will_have_been_idle_for_too_long) {
    make({.max = 1, .idle_timeout = 50ms, .sweep_interval = 1ms}, 1, {});
    d->ask(1);
    d->pass(60ms);  // the sweep finds nothing idle
    EXPECT_GT(d->it.wake_at(), d->now + 50ms);
    begin();
    d->release(0);
    EXPECT_TRUE(express());
    EXPECT_EQ(d->it.wake_at(), d->now + 50ms);
    d->pass(50ms);
    EXPECT_EQ(d->said(), "close 0");
}

TEST_F(machine_calm, sweeps_again_when_what_was_spared_may_go) {
    make({.max = 3, .min_size = 3, .idle_timeout = 50ms, .sweep_interval = 20ms}, 3, {});
    d->ask(1);
    d->pass(50ms);  // a sweep spares both others
    EXPECT_GT(d->it.wake_at(), d->now + 50ms);
    d->now += 5ms;
    begin();
    d->release(d->slot_of(1));
    EXPECT_TRUE(express());
    EXPECT_EQ(d->it.wake_at(), d->now + 15ms);
    // After that time what comes back is swept at once.
    d->ask(1);
    d->now += 15ms;
    d->release(d->slot_of(1));
    EXPECT_FALSE(express());
}

TEST_F(machine_calm, probes_what_came_back_when_the_heartbeat_says_so) {
    make({.max = 1, .heartbeat = 300ms}, 1);
    d->ask(1);
    d->now += 50ms;
    d->release(0);
    EXPECT_TRUE(express());
    EXPECT_LE(d->it.wake_at(), d->now + 300ms);
    d->pass(300ms);
    EXPECT_EQ(d->said(), "probe 0");
}

TEST_F(machine_calm, probes_what_was_idle_for_long) {
    make({.probe_after_idle = 50ms});
    d->now += 49ms;
    EXPECT_EQ(d->ask(1), "got 1");
    EXPECT_TRUE(express());
    d->now += 1ms;
    EXPECT_EQ(d->ask(2), "waits");
    EXPECT_EQ(d->said(), "probe 0");
    // What has just come back has not been idle.
    d->now += 50ms;
    d->release(1);
    EXPECT_EQ(d->said(), "2 gets 1");
}

TEST_F(machine_calm, moves_the_look_at_what_is_idle_as_the_long_way_does) {
    make();
    d->now += 50ms;
    d->ask(1);
    EXPECT_EQ(d->it.wake_at(), d->now + machine::look_after);
    d->ask(2);
    EXPECT_GT(d->it.wake_at(), d->now + machine::look_after) << "nothing is idle";
    d->now += 49ms;
    d->release(0);
    EXPECT_EQ(d->it.wake_at(), d->now + machine::look_after);
    EXPECT_TRUE(express());
}

TEST_F(machine_calm, notices_a_freeze) {
    make();
    d->now += 50ms;
    d->ask(1);
    d->release(1);
    ASSERT_TRUE(express());
    d->now += machine::look_after + machine::frozen_for - 1ns;
    EXPECT_EQ(d->ask(1), "got 1") << "just busy";
    d->now += machine::look_after + machine::frozen_for;
    EXPECT_EQ(d->ask(2), "waits");
    EXPECT_EQ(d->said(), "probe 0");
}

TEST_F(machine_calm, tells_the_strategy_of_successes_all_the_same) {
    make();
    d->ask(1);
    d->release(1);
    EXPECT_TRUE(express());
    EXPECT_EQ(d->judged(), "nothing");
    d->ask(1);
    d->pass(100ms);
    d->release(1);
    EXPECT_EQ(d->judged(), "succeeded: 3");
    begin();
    d->ask(1);
    d->release(1);
    EXPECT_TRUE(express()) << "and goes on";
}

TEST_F(machine_calm, minds_a_call_that_begins) {
    options settings{.max = 3, .open_timeout = 10ms};
    d.emplace(settings, abilities{});
    d->fill(2);
    d->calls_begin = false;
    d->ask(1);
    d->ask(2);
    d->ask(3);
    ASSERT_EQ(d->said(), "open 2");
    EXPECT_TRUE(d->cancel(3));
    begin();
    d->it.begun(d->now, 2, d->call_of(2));
    d->release(0);
    EXPECT_TRUE(express());
    EXPECT_EQ(d->it.wake_at(), d->now + 10ms);
    d->now += 10ms;
    d->ask(4);
    EXPECT_EQ(d->said(), "abandon 2");
}

// What comes between.

TEST_F(machine_calm, probes_what_became_suspect) {
    make();
    d->ask(1);
    d->now += 1ms;
    d->suspect_all();
    d->release(1);
    begin();
    EXPECT_EQ(d->ask(2), "waits");
    EXPECT_EQ(d->said(), "probe 1");
    EXPECT_FALSE(express());
}

TEST_F(machine_calm, closes_what_is_too_many_after_a_resize) {
    make();
    d->ask(1);
    d->ask(2);
    d->resize(1);
    begin();
    d->release(1);
    EXPECT_EQ(d->said(), "close 1");
    EXPECT_FALSE(express());
}

TEST_F(machine_calm, lends_nothing_while_the_pool_is_paused) {
    make();
    d->ask(1);
    d->pause();
    begin();
    d->release(1);
    EXPECT_FALSE(d->attempt());
    EXPECT_EQ(d->ask(2), "waits");
    EXPECT_FALSE(express());
    d->resume();
    EXPECT_EQ(d->said(), "2 gets 1");
}

TEST_F(machine_calm, closes_what_comes_back_to_a_closed_pool) {
    make();
    d->ask(1);
    d->close();
    begin();
    d->release(1);
    EXPECT_EQ(d->said(), "close 1");
    EXPECT_EQ(d->ask(2), "refused: closed");
    EXPECT_FALSE(express());
}

TEST_F(machine_calm, lends_as_a_trial_while_the_circuit_recovers) {
    make();
    d->ask(1);
    d->go({.to = breaker_state::recovering, .probes = 1});
    begin();
    EXPECT_EQ(d->ask(2), "got 0");
    EXPECT_EQ(d->ask(3), "refused: unavailable");
    d->release(0);
    EXPECT_EQ(d->judged(), "succeeded: 1");
    EXPECT_FALSE(express());
    // Leases from a recovery end as such.
    d->ask(2);
    d->go({.to = breaker_state::active});
    begin();
    d->release(0);
    EXPECT_FALSE(express());
}

TEST_F(machine_calm, knows_when_an_attempt_found_nothing) {
    make({.max = 2}, 1);
    d->ask(1);
    EXPECT_FALSE(d->attempt());
    EXPECT_EQ(d->said(), "open 1");
    begin();
    d->release(0);
    EXPECT_FALSE(express()) << "no caller is needed for another attempt";
}

TEST_F(machine_calm, takes_the_long_way_after_an_open_that_was_never_made) {
    make();
    d->it.never_made(12'345);
    d->ask(1);
    EXPECT_FALSE(express());
    begin();
    d->release(1);
    EXPECT_TRUE(express());
}

TEST_F(machine_calm, does_not_bypass_requests_for_several) {
    make({.max = 3}, 3);
    d->ask(1);
    EXPECT_EQ(d->ask({.cookie = 2, .count = 3}), "waits");
    begin();
    EXPECT_EQ(d->ask(3), "waits");
    d->release(d->slot_of(1));
    EXPECT_FALSE(express());
    EXPECT_EQ(d->leased(), 3u);
}

TEST_F(machine_calm, counts_what_returns_towards_min_idle) {
    make({.max = 9, .min_idle = 2, .opening_max = 9}, 6, {.probe = true, .reset = true});
    std::size_t idle = d->idle();
    d->ask(1);
    d->ask(2);
    d->release(d->slot_of(1), condition::dirty);
    ASSERT_EQ(d->in_flight(verb::reset), 1u);
    begin();
    for (std::uint64_t who = 3; d->idle() > 1; ++who) {
        d->ask(who);
        EXPECT_TRUE(express()) << d->idle() << " of " << idle;
    }
    d->ask(100);
    EXPECT_FALSE(express()) << "one that returns is not enough";
}

TEST_F(machine_calm, ends_with_each_settle) {
    make();
    d->tick();
    EXPECT_EQ(d->it.settles(), settles + 1);
}

}  // namespace
}  // namespace cenote::core
