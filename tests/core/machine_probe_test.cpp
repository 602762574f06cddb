// When a resource is probed, and what a probe costs waiters.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

TEST(machine_probe, comes_before_a_grant_after_long_idleness) {
    dialogue d({.probe_after_idle = 5s});
    d.fill(1);
    d.pass(5s);
    EXPECT_EQ(d.ask(1), "waits");
    EXPECT_EQ(d.said(), "probe 0");
    d.probed(0);
    EXPECT_EQ(d.said(), "1 gets 0");
}

TEST(machine_probe, is_not_needed_after_short_idleness) {
    dialogue d({.probe_after_idle = 5s});
    d.fill(1);
    d.pass(5s - 1ns);
    EXPECT_EQ(d.ask(1), "got 0");
}

TEST(machine_probe, comes_before_every_grant_with_zero) {
    dialogue d({.probe_after_idle = 0s});
    d.fill(1);
    for (std::uint64_t who = 1; who <= 3; ++who) {
        d.pass(1ns);
        EXPECT_EQ(d.ask(who), "waits");
        EXPECT_EQ(d.said(), "probe 0");
        d.probed(0);
        EXPECT_EQ(d.said(), std::to_string(who) + " gets 0");
        d.release(0);
    }
}

TEST(machine_probe, never_comes_with_forever) {
    dialogue d({.idle_timeout = forever, .max_lifetime = forever, .probe_after_idle = forever});
    d.fill(1);
    d.pass(1000h);
    EXPECT_EQ(d.ask(1), "got 0");
}

TEST(machine_probe, never_comes_if_the_connector_cannot) {
    dialogue d({.probe_after_idle = 0s, .probe_on_release = true, .heartbeat = 1s}, {});
    d.fill(1);
    d.pass(10s);
    d.suspect_all();
    EXPECT_EQ(d.ask(1), "got 0");
}

TEST(machine_probe, is_avoided_while_there_is_a_fresh_one) {
    dialogue d({.probe_after_idle = 5s, .order = order::fifo});
    d.fill(2);
    EXPECT_EQ(d.ask(1), "got 0");
    d.pass(5s);
    d.release(0);
    EXPECT_EQ(d.ask(2), "got 0");
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_probe, that_fails_costs_neither_place_nor_deadline) {
    dialogue d({.max = 2, .probe_after_idle = 5s});
    d.fill(1);
    d.pass(5s);
    d.ask(1, 100ms);
    d.ask(2, 200ms);
    EXPECT_EQ(d.said(), "open 1");
    d.pass(50ms);
    d.probed(0, outcome::failed);
    EXPECT_EQ(d.said(), "close 0");
    d.closed(0);
    EXPECT_EQ(d.said(), "open 0");
    d.opened(1);
    EXPECT_EQ(d.said(), "1 gets 1");
    d.pass(150ms);
    EXPECT_EQ(d.said(), "2 refused: timed_out");
}

TEST(machine_probe, that_fails_does_not_move_the_deadline) {
    dialogue d({.probe_after_idle = 5s});
    d.fill(1);
    d.pass(5s);
    d.ask(1, 40ms);
    d.pass(39ms);
    d.probed(0, outcome::failed);
    EXPECT_EQ(d.said(), "close 0, open 1");
    d.pass(1ms);
    EXPECT_EQ(d.said(), "1 refused: timed_out");
}

TEST(machine_probe, that_fails_is_followed_by_the_next_idle_one_at_once) {
    dialogue d({.probe_after_idle = 5s});
    d.fill(2);
    d.pass(5s);
    d.ask(1);
    EXPECT_EQ(d.said(), "probe 1");
    d.probed(1, outcome::failed);
    EXPECT_EQ(d.said(), "close 1, probe 0");
    d.probed(0);
    EXPECT_EQ(d.said(), "1 gets 0");
}

TEST(machine_probe, is_relied_on_by_a_waiter_only_for_a_while) {
    dialogue d({.probe_after_idle = 5s});
    d.fill(1);
    d.pass(5s);
    d.ask(1);
    EXPECT_EQ(d.said(), "probe 0");
    d.pass(50ms - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "open 1");
    d.probed(0);
    EXPECT_EQ(d.said(), "1 gets 0");
}

TEST(machine_probe, is_given_up_at_probe_timeout_and_counts_as_failed) {
    dialogue d({.probe_timeout = 40ms, .probe_after_idle = 5s});
    d.fill(1);
    d.pass(5s);
    d.ask(1);
    std::uint64_t call = d.call_of(0);
    d.pass(40ms - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "close 0, open 1");
    EXPECT_FALSE(d.probed(0, call, outcome::ok));
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.look().retired(retire_reason::probe_failed), 1u);
}

/// Two are being probed, a third was good a moment ago.
class machine_probe_in_a_row : public testing::Test {
protected:
    machine_probe_in_a_row() {
        d.fill(3);
        d.ask(10);
        d.pass(5s);
        d.ask(11);
        d.ask(12);
        d.cancel(11);
        d.cancel(12);
        d.release(2);
        d.pass(1ms);
        EXPECT_EQ(d.in_flight(verb::probe), 2u);
    }

    dialogue d{{.max = 3, .probe_after_idle = 5s}};
};

TEST_F(machine_probe_in_a_row, that_failed_makes_the_rest_suspect) {
    d.probed(0, outcome::failed);
    d.probed(1, outcome::failed);
    d.pass(1ms);
    EXPECT_EQ(d.ask(1), "waits");
    EXPECT_EQ(d.said(), "probe 2");
}

TEST_F(machine_probe_in_a_row, of_which_one_failed_says_nothing_about_the_rest) {
    d.probed(0, outcome::failed);
    d.pass(1ms);
    EXPECT_EQ(d.ask(1), "got 2");
}

TEST_F(machine_probe_in_a_row, are_not_in_a_row_with_a_good_one_between) {
    d.probed(0, outcome::failed);
    d.probed(1);
    d.suspect_all();
    d.pass(1ms);
    d.ask(1);
    d.ask(2);
    d.probed(1, outcome::failed);
    EXPECT_EQ(d.in_flight(verb::probe), 1u);
    d.probed(2);
    EXPECT_EQ(d.said(), "1 gets 2");
}

TEST(machine_suspect_all, has_all_idle_ones_probed_before_they_are_lent) {
    dialogue d({.probe_after_idle = forever});
    d.fill(2);
    d.suspect_all();
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ms);
    EXPECT_EQ(d.ask(1), "waits");
    EXPECT_EQ(d.said(), "probe 1");
    d.ask(2);
    EXPECT_EQ(d.said(), "probe 0");
    d.finish_calls();
    EXPECT_EQ(d.leased(), 2u);
}

TEST(machine_suspect_all, trusts_what_was_proven_since) {
    dialogue d({.probe_after_idle = forever});
    d.fill(1);
    d.suspect_all();
    d.pass(1ms);
    d.ask(1);
    d.probed(0);
    d.release(0);
    d.pass(1min);
    EXPECT_EQ(d.ask(2), "got 0");
}

TEST(machine_suspect_all, does_not_hide_idle_ones_while_no_caller_asks) {
    dialogue d({.probe_after_idle = forever});
    d.fill(2);
    d.suspect_all();
    d.pass(1s);
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_heartbeat, is_off_unless_asked_for) {
    dialogue d({.min_size = 2});
    d.finish_calls();
    d.pass(1min);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_heartbeat, probes_idle_ones_one_at_a_time) {
    dialogue d({.heartbeat = 10s});
    d.fill(3);
    d.pass(10s - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "probe 0");
    d.pass(900ms);
    EXPECT_EQ(d.said(), "nothing");
    d.probed(0);
    EXPECT_EQ(d.said(), "probe 1");
    d.probed(1);
    EXPECT_EQ(d.said(), "probe 2");
    d.probed(2);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(10s - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "probe 0");
}

TEST(machine_heartbeat, leaves_the_others_to_borrowers) {
    dialogue d({.probe_after_idle = forever, .heartbeat = 10s});
    d.fill(3);
    d.pass(10s);
    EXPECT_EQ(d.ask(1), "got 2");
    EXPECT_EQ(d.ask(2), "got 1");
}

TEST(machine_heartbeat, gives_way_to_waiters) {
    dialogue d({.max = 3, .probe_after_idle = forever, .heartbeat = 10s});
    d.fill(3);
    d.pass(10s);
    EXPECT_EQ(d.said(), "probe 0");
    d.ask(1);
    d.ask(2);
    EXPECT_EQ(d.ask(3), "waits");
    d.probed(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_heartbeat, does_not_begin_while_a_caller_waits) {
    dialogue d({.max = 2, .probe_after_idle = 5s, .heartbeat = 5s});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.finish_calls();
    d.ask(3);
    d.pass(10s);
    EXPECT_EQ(d.said(), "nothing");
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_heartbeat, that_hangs_costs_that_one_resource_only) {
    dialogue d({.probe_timeout = 1s, .probe_after_idle = forever, .heartbeat = 10s});
    d.fill(2);
    d.pass(10s);
    EXPECT_EQ(d.said(), "probe 0");
    d.pass(1s);
    EXPECT_EQ(d.said(), "close 0, probe 1");
    d.probed(1);
    EXPECT_EQ(d.ask(1), "got 1");
}

TEST(machine_heartbeat, spares_a_probe_at_acquire) {
    dialogue d({.probe_after_idle = 11s, .heartbeat = 10s});
    d.fill(1);
    d.pass(10s);
    d.probed(0);
    d.pass(5s);
    EXPECT_EQ(d.ask(1), "got 0");
}

TEST(machine_heartbeat, does_not_make_a_resource_look_used) {
    dialogue d({.idle_timeout = 25s, .heartbeat = 10s});
    d.fill(1);
    for (int i = 0; i < 2; ++i) {
        d.pass(10s);
        EXPECT_EQ(d.said(), "probe 0");
        d.probed(0);
    }
    d.pass(5s);
    EXPECT_EQ(d.said(), "close 0");
}

TEST(machine_freeze, makes_what_is_idle_suspect) {
    dialogue d({.max = 2, .probe_after_idle = 1h});
    d.fill(1);
    d.now += machine::look_after + machine::frozen_for;
    EXPECT_EQ(d.ask(7), "waits");
    EXPECT_EQ(d.said(), "probe 0");
}

TEST(machine_freeze, is_seen_although_nothing_was_due) {
    dialogue d(
        {.max = 2, .idle_timeout = forever, .max_lifetime = forever, .probe_after_idle = 1h});
    d.fill(1);
    EXPECT_LE(d.it.wake_at(), d.now + machine::look_after);
}

TEST(machine_freeze, is_no_concern_of_resources_that_cannot_be_probed) {
    dialogue d({.max = 2, .idle_timeout = forever, .max_lifetime = forever}, {});
    d.fill(1);
    EXPECT_EQ(d.it.wake_at(), never);
}

TEST(machine_freeze, is_not_seen_in_an_ordinary_pause) {
    dialogue d({.max = 2, .probe_after_idle = 1h});
    d.fill(1);
    d.pass(2min);
    EXPECT_EQ(d.ask(7), "got 0");
}

TEST(machine_freeze, is_noticed_by_every_request_and_answer_that_comes_first) {
    using event = void (*)(dialogue&);
    constexpr event events[] = {
        [](dialogue& d) { d.ask(9); },
        [](dialogue& d) { (void)d.attempt(); },
        [](dialogue& d) { (void)d.it.cancel(d.now, waiter_id{}, d.unread); },
        [](dialogue& d) { d.release(1); },
        [](dialogue& d) { d.release(1, condition::discard); },
        [](dialogue& d) { d.it.bring_back(d.now, 1, 0, d.now, false, d.unread); },
        [](dialogue& d) { d.detach(1); },
        [](dialogue& d) { d.opened(2); },
        [](dialogue& d) { (void)d.it.on_probe(d.now, 2, 1, outcome::ok, d.unread); },
        [](dialogue& d) { (void)d.it.on_reset(d.now, 2, 1, outcome::ok, d.unread); },
        [](dialogue& d) { (void)d.it.on_close(d.now, 2, 1, outcome::ok, d.unread); },
        [](dialogue& d) { d.retire_all(); },
        [](dialogue& d) { d.resize(4); },
        [](dialogue& d) { d.pause(); },
        [](dialogue& d) { d.resume(); },
        [](dialogue& d) { d.suspend_maintenance(); },
        [](dialogue& d) { d.resume_maintenance(); },
        [](dialogue& d) { d.go({.to = breaker_state::recovering}); },
        [](dialogue& d) { d.tick(); },
    };
    for (std::size_t i = 0; i < std::size(events); ++i) {
        // One resource is idle, one leased, one is being opened.
        dialogue d({.max = 3, .open_timeout = 1h});
        d.fill(2);
        d.ask(1);
        d.ask(2);
        d.ask(3);
        d.release(0);
        d.ask(4);
        d.release(0);
        ASSERT_EQ(d.idle() + d.leased() + d.opening(), 3u);
        d.now = d.it.wake_at() + machine::frozen_for - 1ns;
        EXPECT_NE(d.it.suspect_at(), d.now);
        d.now += 1ns;
        events[i](d);
        EXPECT_EQ(d.it.suspect_at(), d.now) << "event " << i;
    }
}

}  // namespace
}  // namespace cenote::core
