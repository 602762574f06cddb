// What becomes of a resource that comes back, and that every way serves the waiters.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

TEST(machine_release, makes_a_clean_resource_idle) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.release(0);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.idle(), 1u);
}

TEST(machine_release, hands_a_clean_resource_to_the_head_of_the_line) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_release, closes_what_was_discarded) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::discard);
    EXPECT_EQ(d.said(), "close 0");
    d.closed(0);
    EXPECT_EQ(d.it.total(), 0u);
    EXPECT_EQ(d.look().discarded, 1u);
}

TEST(machine_release, closes_what_was_rejected) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::rejected);
    EXPECT_EQ(d.said(), "close 0");
    EXPECT_EQ(d.look().retired(retire_reason::rejected), 1u);
}

TEST(machine_release, resets_what_is_dirty_before_anyone_gets_it) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.release(0, condition::dirty);
    EXPECT_EQ(d.said(), "reset 0");
    d.reset(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_release, closes_what_is_dirty_if_nothing_can_reset_it) {
    dialogue d({}, {.probe = true, .reset = false});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::dirty);
    EXPECT_EQ(d.said(), "close 0");
    EXPECT_EQ(d.look().retired(retire_reason::reset_failed), 1u);
}

TEST(machine_release, closes_what_could_not_be_reset) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::dirty);
    d.reset(0, outcome::failed);
    EXPECT_EQ(d.said(), "close 0");
    EXPECT_EQ(d.look().retired(retire_reason::reset_failed), 1u);
}

TEST(machine_release, gives_a_reset_up_at_reset_timeout) {
    dialogue d({.reset_timeout = 80ms});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::dirty);
    std::uint64_t call = d.call_of(0);
    d.pass(80ms - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "close 0");
    EXPECT_FALSE(d.reset(0, call, outcome::ok));
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_release, gives_a_close_up_at_close_timeout_and_frees_the_slot) {
    dialogue d({.max = 1, .close_timeout = 90ms});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.release(0, condition::discard);
    std::uint64_t call = d.call_of(0);
    d.pass(90ms - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "abandon 0, open 0");
    EXPECT_FALSE(d.closed(0, call, outcome::ok));
    EXPECT_EQ(d.opening(), 1u);
}

TEST(machine_release, frees_the_slot_though_its_close_failed) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::discard);
    EXPECT_TRUE(d.closed(0, outcome::failed));
    EXPECT_EQ(d.it.total(), 0u);
}

TEST(machine_release, probes_first_with_probe_on_release) {
    dialogue d({.max = 1, .probe_on_release = true});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.release(0);
    EXPECT_EQ(d.said(), "probe 0");
    d.probed(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    d.release(0);
    d.probed(0, outcome::failed);
    EXPECT_EQ(d.said(), "close 0");
}

TEST(machine_release, probes_after_the_reset_with_probe_on_release) {
    dialogue d({.probe_on_release = true});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::dirty);
    EXPECT_EQ(d.said(), "reset 0");
    d.reset(0);
    EXPECT_EQ(d.said(), "probe 0");
    d.probed(0);
    EXPECT_EQ(d.ask(2), "got 0");
}

TEST(machine_release, retires_after_max_uses) {
    dialogue d({.max_uses = 3});
    d.fill(1);
    d.ask(1);
    d.release(0);
    EXPECT_EQ(d.said(), "nothing");
    d.ask(2);
    d.release(0);
    EXPECT_EQ(d.said(), "close 0");
    EXPECT_EQ(d.look().retired(retire_reason::uses), 1u);
}

TEST(machine_release, counts_the_leases_it_did_not_see) {
    dialogue d({.max_uses = 10});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::clean, 8);
    EXPECT_EQ(d.said(), "close 0");
}

TEST(machine_release, counts_no_uses_with_forever) {
    dialogue d({.max_uses = forever});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::clean, 1'000'000'000'000);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_release, retires_what_is_too_old_instead_of_resetting_it) {
    dialogue d({.max_lifetime = 10s, .lifetime_jitter = 0});
    d.fill(1);
    d.ask(1);
    d.pass(10s);
    d.release(0, condition::dirty);
    EXPECT_EQ(d.said(), "close 0");
    EXPECT_EQ(d.look().retired(retire_reason::age), 1u);
}

TEST(machine_release, retires_what_is_of_an_old_generation) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.retire_all();
    EXPECT_EQ(d.said(), "nothing");
    d.release(0);
    EXPECT_EQ(d.said(), "close 0");
    EXPECT_EQ(d.look().retired(retire_reason::generation), 1u);
}

TEST(machine_release, retires_what_grew_old_while_it_was_reset) {
    dialogue d({.max_lifetime = 10s, .lifetime_jitter = 0});
    d.fill(1);
    d.ask(1);
    d.pass(9999ms);
    d.release(0, condition::dirty);
    EXPECT_EQ(d.said(), "reset 0");
    d.pass(1ms);
    d.reset(0);
    EXPECT_EQ(d.said(), "close 0");
}

TEST(machine_release, opens_for_the_line_at_once_when_the_resource_goes) {
    for (condition how : {condition::discard, condition::rejected}) {
        dialogue d({.max = 2, .opening_max = 1, .backoff = {.first = 10s, .cap_waiting = 10s}});
        d.fill(2);
        d.ask(1);
        d.ask(2);
        d.ask(3);
        d.release(0, how);
        EXPECT_EQ(d.said(), "close 0");
        d.closed(0);
        EXPECT_EQ(d.said(), "open 0");
        d.opened(0);
        EXPECT_EQ(d.said(), "3 gets 0");
    }
}

TEST(machine_detach, frees_the_slot_at_once_and_serves_the_line) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.detach(0);
    EXPECT_EQ(d.said(), "open 0");
    d.opened(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_detach, is_forgotten_by_the_pool) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.detach(0);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.total(), 0u);
    EXPECT_EQ(d.look().detached, 1u);
    EXPECT_EQ(d.look().closed, 0u);
}

TEST(machine_call, has_its_time_from_when_it_is_made) {
    dialogue d({.max = 1, .close_timeout = 1s});
    d.fill(1);
    d.ask(7);
    d.calls_begin = false;
    d.release(0, condition::discard);
    d.pass(1min);
    EXPECT_EQ(d.it.count(slot_state::closing), 1u);  // no thread was there to make it
    d.it.begun(d.now, 0, d.call_of(0));
    EXPECT_EQ(d.it.wake_at(), d.now + 1s);
    d.pass(1s);
    EXPECT_EQ(d.said(), "abandon 0");
}

TEST(machine_call, begins_once) {
    dialogue d({.max = 1, .open_timeout = 1s});
    d.ask(7);
    d.pass(600ms);
    d.it.begun(d.now, 0, d.call_of(0));
    d.pass(400ms);
    EXPECT_EQ(d.look().abandoned, 1u);
}

TEST(machine_call, that_was_given_up_does_not_begin) {
    dialogue d({.max = 1, .open_timeout = 1s});
    d.ask(7, 3s);
    std::uint64_t first = d.call_of(0);
    d.pass(2s);
    EXPECT_NE(d.call_of(0), first);
    instant before = d.it.wake_at();
    d.it.begun(d.now, 0, first);
    EXPECT_EQ(d.it.wake_at(), before);
}

TEST(machine_bring_back, counts_the_uses_and_the_end_of_the_last_lease) {
    dialogue d({.max = 1, .max_uses = 10});
    d.fill(1);
    d.ask(1);
    std::uint64_t uses = d.it.look(0).uses;
    d.now += 5ms;
    d.it.bring_back(d.now, 0, 4, d.now - 2ms, false, d.unread);
    EXPECT_EQ(d.it.look(0).uses, uses + 4);
    EXPECT_EQ(d.it.look(0).idle_since, d.now - 2ms);
    EXPECT_EQ(d.idle(), 1u);
    d.ask(1);
    d.it.bring_back(d.now, 0, 10, d.now, false, d.unread);
    EXPECT_EQ(d.look().retired(retire_reason::uses), 1u);
}

TEST(machine_call, settles_also_after_an_answer_that_is_not_wanted) {
    dialogue d({.max = 1});
    d.fill(1);
    std::uint64_t settles = d.it.settles();
    EXPECT_FALSE(d.opened(0, 999, outcome::ok));
    EXPECT_FALSE(d.probed(0, 999, outcome::ok));
    EXPECT_FALSE(d.reset(0, 999, outcome::ok));
    EXPECT_FALSE(d.closed(0, 999, outcome::ok));
    EXPECT_EQ(d.it.settles(), settles + 4);
}

TEST(machine_call, that_begins_sets_the_timer_for_the_next_open) {
    dialogue d({.max = 4, .open_timeout = 1h}, {});
    d.calls_begin = false;
    for (std::uint64_t who = 1; who <= 3; ++who) d.ask(who);
    d.it.begun(d.now, 0, d.call_of(0));
    EXPECT_EQ(d.it.wake_at(), d.now + pacer::suspicious) << "a scout";
    d.close();
    d.it.begun(d.now, 1, d.call_of(1));
    EXPECT_EQ(d.it.wake_at(), d.now + 1h) << "a closed pool opens nothing";
}

}  // namespace
}  // namespace cenote::core
