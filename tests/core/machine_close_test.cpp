// Closing the pool, also in the middle of everything.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

TEST(machine_close, closes_idle_ones_and_drains) {
    dialogue d({});
    d.fill(2);
    d.close();
    EXPECT_EQ(d.said(), "close 0, close 1");
    EXPECT_FALSE(d.it.drained());
    d.closed(0);
    d.closed(1);
    EXPECT_TRUE(d.it.drained());
}

// A resource becomes idle, which arms the sweep; close() closes it; nothing disarms the sweep.
TEST(machine_close, leaves_no_timer_behind) {
    dialogue d({.heartbeat = 10s});
    d.fill(1);
    d.close();
    d.closed(0);
    EXPECT_TRUE(d.it.drained());
    EXPECT_EQ(d.it.wake_at(), never);
}

TEST(machine_close, closes_all_that_is_idle_at_once) {
    dialogue d({.max = 10, .opening_max = 2});
    d.fill(10);
    d.close();
    EXPECT_EQ(d.in_flight(verb::close), 10u);
}

TEST(machine_close, refuses_new_acquires) {
    dialogue d({});
    d.fill(1);
    d.close();
    EXPECT_EQ(d.ask(1), "refused: closed");
    EXPECT_EQ(d.attempt(), std::nullopt);
}

TEST(machine_close, refuses_waiters_with_closed_and_never_as_timed_out) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.ask(3, 10ms);
    d.pass(5ms);
    d.close();
    EXPECT_EQ(d.said(), "2 refused: closed, 3 refused: closed");
    d.pass(1s);
    EXPECT_EQ(d.look().refused(errc::closed), 2u);
    EXPECT_EQ(d.look().refused(errc::timed_out), 0u);
}

TEST(machine_close, closes_leased_ones_when_they_come_back) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.close();
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_FALSE(d.it.drained());
    d.release(0, condition::dirty);
    EXPECT_EQ(d.said(), "close 0");
    d.closed(0);
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_close, lets_a_leased_one_be_detached) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.close();
    d.detach(0);
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_close, closes_what_is_still_being_opened) {
    dialogue d({.min_size = 1});
    d.close();
    EXPECT_FALSE(d.it.drained());
    d.opened(0);
    EXPECT_EQ(d.said(), "close 0");
    d.closed(0);
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_close, hands_out_nothing_that_was_opened_for_a_waiter) {
    dialogue d({});
    d.ask(1);
    d.close();
    EXPECT_EQ(d.said(), "1 refused: closed");
    d.opened(0);
    EXPECT_EQ(d.said(), "close 0");
}

TEST(machine_close, drains_when_an_open_fails_or_hangs) {
    dialogue d({.min_size = 2, .open_timeout = 1s});
    d.close();
    d.opened(0, outcome::failed);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1s);
    EXPECT_EQ(d.said(), "abandon 1");
    EXPECT_TRUE(d.it.drained());
    EXPECT_EQ(d.it.wake_at(), never);
}

TEST(machine_close, closes_what_is_being_probed) {
    dialogue d({.probe_after_idle = 0s});
    d.fill(1);
    d.pass(1ns);
    d.ask(1);
    d.close();
    d.probed(0);
    EXPECT_EQ(d.said(), "close 0");
    d.closed(0);
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_close, closes_what_is_being_reset) {
    dialogue d({.probe_on_release = true});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::dirty);
    d.close();
    d.reset(0);
    EXPECT_EQ(d.said(), "close 0");
    d.closed(0);
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_close, closes_what_is_being_probed_by_the_heartbeat) {
    dialogue d({.heartbeat = 1s});
    d.fill(2);
    d.pass(1s);
    EXPECT_EQ(d.said(), "probe 0");
    d.close();
    EXPECT_EQ(d.said(), "close 1");
    d.probed(0);
    EXPECT_EQ(d.said(), "close 0");
    d.finish_calls();
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_close, waits_for_nothing_longer_than_its_timeout) {
    dialogue d({.close_timeout = 500ms});
    d.fill(2);
    d.close();
    d.pass(500ms);
    EXPECT_EQ(d.said(), "abandon 0, abandon 1");
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_close, changes_nothing_the_second_time) {
    dialogue d({});
    d.fill(1);
    d.close();
    d.close();
    EXPECT_EQ(d.said(), "nothing");
    d.closed(0);
    d.close();
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_close, ends_refill_and_retries) {
    dialogue d({.min_size = 3});
    for (slot_id id = 0; id < 3; ++id) d.opened(id, outcome::failed);
    d.close();
    d.pass(1h);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_close, opens_nothing_for_retire_all_or_warm) {
    dialogue d({.min_size = 1, .warm_up = warm_up::none});
    d.close();
    d.warm();
    EXPECT_EQ(d.said(), "nothing");
    d.retire_all();
    d.suspect_all();
    EXPECT_EQ(d.said(), "nothing");
}

}  // namespace
}  // namespace cenote::core
