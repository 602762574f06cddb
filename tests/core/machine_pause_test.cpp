// A paused pool: nothing is lent, and waiters keep place and deadline.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

TEST(machine_pause, lends_nothing) {
    dialogue d({});
    d.fill(1);
    d.pause();
    EXPECT_EQ(d.ask(1), "waits");
    d.resume();
    EXPECT_EQ(d.said(), "1 gets 0");
}

TEST(machine_pause, finds_nothing_for_callers_that_only_try) {
    dialogue d({});
    d.fill(1);
    d.pause();
    EXPECT_EQ(d.attempt(), std::nullopt);
    d.resume();
    EXPECT_EQ(d.attempt(), 0u);
}

TEST(machine_pause, keeps_what_comes_back) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.pause();
    d.release(0);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.idle(), 1u);
    d.resume();
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_pause, keeps_places) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.pause();
    d.ask(3);
    d.resume();
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_pause, keeps_deadlines) {
    dialogue d({});
    d.fill(1);
    d.pause();
    d.ask(1, 10ms);
    d.ask(2, 1s);
    d.pass(10ms);
    EXPECT_EQ(d.said(), "1 refused: timed_out");
    d.resume();
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_pause, opens_sweeps_and_probes_nothing) {
    dialogue d({.min_size = 1,
                .opening_max = 1,
                .idle_timeout = 1s,
                .probe_after_idle = forever,
                .heartbeat = 500ms});
    d.finish_calls();
    d.pause();
    d.ask(1);
    d.ask(2);
    d.pass(1min);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.wake_at(), never);
}

TEST(machine_pause, ends_calls_in_flight) {
    dialogue d({.open_timeout = 1s});
    d.ask(1);
    EXPECT_EQ(d.said(), "open 0");
    d.pause();
    d.opened(0);
    EXPECT_EQ(d.said(), "nothing");
    d.ask(2);
    d.resume();
    EXPECT_EQ(d.said(), "1 gets 0, open 1");
}

TEST(machine_pause, closes_what_retire_all_dooms) {
    dialogue d({});
    d.fill(2);
    d.pause();
    d.retire_all();
    EXPECT_EQ(d.said(), "close 0, close 1");
}

TEST(machine_pause, ends_with_the_pool) {
    dialogue d({});
    d.fill(1);
    d.pause();
    d.ask(1);
    d.close();
    EXPECT_EQ(d.said(), "1 refused: closed, close 0");
    d.closed(0);
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_pause, can_be_said_twice) {
    dialogue d({}, {}, true);
    d.pause();
    EXPECT_EQ(d.said(), "paused");
    d.pause();
    EXPECT_EQ(d.said(), "nothing");
    d.resume();
    EXPECT_EQ(d.said(), "resumed");
    d.resume();
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_maintenance, if_suspended_needs_no_timer) {
    dialogue d({.max = 2, .min_size = 1, .idle_timeout = 1s, .heartbeat = 2s});
    d.opened(0);
    EXPECT_NE(d.it.wake_at(), never);
    d.suspend_maintenance();
    EXPECT_EQ(d.it.wake_at(), never);
}

TEST(machine_maintenance, if_suspended_neither_sweeps_nor_probes_nor_refills) {
    dialogue d(
        {.max = 3, .min_size = 2, .idle_timeout = 1s, .sweep_interval = 1s, .heartbeat = 1s});
    d.fill(3);
    d.suspend_maintenance();
    d.pass(10min);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.idle(), 3u);
    d.ask(1);
    EXPECT_EQ(d.said(), "probe 2");  // idle for longer than probe_after_idle: part of lending
    d.probed(2);
    EXPECT_EQ(d.said(), "1 gets 2");
    d.release(2, condition::discard);
    d.closed(2);
    EXPECT_EQ(d.said(), "nothing");
    d.resume_maintenance();
    EXPECT_NE(d.said(), "nothing");
}

TEST(machine_maintenance, if_suspended_lends_and_opens_for_waiters) {
    dialogue d({.max = 2, .min_size = 2, .warm_up = warm_up::none});
    d.suspend_maintenance();
    EXPECT_EQ(d.ask(1), "waits");
    EXPECT_EQ(d.said(), "open 0");  // one, not the minimum
    d.opened(0);
    EXPECT_EQ(d.said(), "1 gets 0");
    d.resume_maintenance();
    EXPECT_EQ(d.said(), "open 1");
}

TEST(machine_maintenance, without_eyes_for_freezes_has_no_timer_of_its_own) {
    options quiet{.max = 1, .idle_timeout = forever, .max_lifetime = forever};
    dialogue seeing(quiet, {.probe = true});
    seeing.fill(1);
    EXPECT_EQ(seeing.it.wake_at(), seeing.now + machine::look_after);
    dialogue blind(quiet, {.probe = true, .sees_freezes = false});
    blind.fill(1);
    EXPECT_EQ(blind.it.wake_at(), never);
}

TEST(machine_pause, needs_no_timer_for_opens_that_none_will_follow) {
    dialogue d({.max = 4, .open_timeout = 1h}, {});
    d.calls_begin = false;
    d.ask(1);
    d.ask(2);
    d.pause();
    d.it.begun(d.now, 0, d.call_of(0));
    EXPECT_EQ(d.it.wake_at(), d.now + 1h);
}

}  // namespace
}  // namespace cenote::core
