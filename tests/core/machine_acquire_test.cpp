// Who gets a resource, in which order, and who does not.
#include <deque>

#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

TEST(machine_acquire, opens_a_resource_for_the_first_borrower) {
    dialogue d({});
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.ask(1), "waits");
    EXPECT_EQ(d.said(), "open 0");
    d.opened(0);
    EXPECT_EQ(d.said(), "1 gets 0");
}

TEST(machine_acquire, grants_an_idle_slot_at_once) {
    dialogue d({});
    d.fill(1);
    EXPECT_EQ(d.ask(1), "got 0");
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_acquire, grants_the_most_recently_idle_slot) {
    dialogue d({.order = order::lifo});
    d.fill(3);
    EXPECT_EQ(d.ask(1), "got 2");
    d.ask(2);
    d.release(2);
    EXPECT_EQ(d.ask(3), "got 2");
}

TEST(machine_acquire, grants_the_least_recently_idle_slot_with_fifo) {
    dialogue d({.order = order::fifo});
    d.fill(3);
    EXPECT_EQ(d.ask(1), "got 0");
    d.release(0);
    EXPECT_EQ(d.ask(2), "got 1");
    d.release(1);
    EXPECT_EQ(d.ask(3), "got 2");
    d.release(2);
    EXPECT_EQ(d.ask(4), "got 0");
}

TEST(machine_acquire, reserves_a_slot_before_it_is_open) {
    dialogue d({.max = 3, .opening_max = 8});
    for (std::uint64_t who = 1; who <= 50; ++who) d.ask(who);
    EXPECT_EQ(d.opening(), 3u);
    EXPECT_EQ(d.it.total(), 3u);
    d.pass(9s);
    EXPECT_EQ(d.it.total(), 3u);
}

TEST(machine_acquire, never_counts_more_than_max_while_a_slot_closes) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::discard);
    EXPECT_EQ(d.said(), "close 0");
    EXPECT_EQ(d.ask(2), "waits");
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.total(), 1u);
    d.closed(0);
    EXPECT_EQ(d.said(), "open 0");
}

TEST(machine_acquire, serves_first_come_first_served) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    for (std::uint64_t who = 2; who <= 5; ++who) EXPECT_EQ(d.ask(who), "waits");
    for (std::uint64_t who = 2; who <= 5; ++who) {
        d.release(0);
        EXPECT_EQ(d.said(), std::to_string(who) + " gets 0");
    }
}

TEST(machine_acquire, does_not_let_the_releasing_borrower_take_it_back) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    EXPECT_EQ(d.ask(1), "waits");
}

TEST(machine_acquire, rotates_six_borrowers_in_three_rounds_on_one_resource) {
    dialogue d({.max = 1});
    for (std::uint64_t who = 1; who <= 6; ++who) d.ask(who);
    d.opened(0);
    for (std::uint64_t turn = 0; turn < 18; ++turn) {
        std::uint64_t who = turn % 6 + 1;
        ASSERT_EQ(d.said(), std::to_string(who) + " gets 0");
        d.pass(2ms);
        EXPECT_EQ(d.ask(who), "waits");
        d.release(0);
    }
}

TEST(machine_acquire, is_served_by_what_becomes_free_first) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    EXPECT_EQ(d.said(), "open 1");
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    d.opened(1);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.ask(3), "got 1");
}

TEST(machine_acquire, leaves_to_newcomers_what_no_caller_waits_for) {
    dialogue d({.max = 2});
    d.fill(2);
    d.ask(1);
    d.ask(2);
    d.ask(3);
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
    d.release(1);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.ask(4), "got 1");
}

TEST(machine_acquire, times_out_exactly_at_its_deadline) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2, 100ms);
    EXPECT_EQ(d.it.wake_at(), d.now + 100ms);
    d.pass(100ms - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "2 refused: timed_out");
}

TEST(machine_acquire, has_one_deadline_for_waiting_opening_and_probing) {
    dialogue d({.max = 1, .probe_after_idle = 0s});
    d.fill(1);
    d.pass(1ms);
    d.ask(1);
    EXPECT_EQ(d.said(), "probe 0");
    d.pass(60ms);
    d.probed(0);
    EXPECT_EQ(d.said(), "1 gets 0");
    d.ask(2, 100ms);
    d.pass(60ms);
    d.release(0);
    EXPECT_EQ(d.said(), "probe 0");
    d.pass(40ms);
    EXPECT_EQ(d.said(), "2 refused: timed_out");
}

TEST(machine_acquire, keeps_its_deadlines_apart) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2, 300ms);
    d.ask(3, 100ms);
    d.ask(4);
    d.ask(5, 200ms);
    d.pass(100ms);
    EXPECT_EQ(d.said(), "3 refused: timed_out");
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    d.release(0);
    EXPECT_EQ(d.said(), "4 gets 0");
    d.pass(100ms);
    EXPECT_EQ(d.said(), "5 refused: timed_out");
}

TEST(machine_acquire, consumes_nothing_when_it_times_out) {
    dialogue d({.max = 1});
    d.ask(1, 10ms);
    d.ask(2);
    d.pass(10ms);
    EXPECT_EQ(d.said(), "1 refused: timed_out");
    d.opened(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_acquire, with_a_deadline_of_now_takes_what_is_idle) {
    dialogue d({});
    d.fill(1);
    EXPECT_EQ(d.ask(1, 0s), "got 0");
}

TEST(machine_acquire, with_a_deadline_of_now_does_not_wait_but_starts_an_open) {
    dialogue d({});
    EXPECT_EQ(d.ask(1, 0s), "refused: timed_out");
    EXPECT_EQ(d.said(), "open 0");
    EXPECT_EQ(d.ask(2, 0s), "refused: timed_out");
    EXPECT_EQ(d.said(), "nothing");
    d.opened(0);
    EXPECT_EQ(d.ask(3, 0s), "got 0");
}

TEST(machine_acquire, with_a_deadline_of_now_does_not_overtake) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    EXPECT_EQ(d.ask(3, 0s), "refused: timed_out");
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_acquire, is_refused_at_once_when_the_line_is_full) {
    dialogue d({.max = 1, .line_max = 2});
    d.fill(1);
    d.ask(1);
    EXPECT_EQ(d.ask(2), "waits");
    EXPECT_EQ(d.ask(3), "waits");
    EXPECT_EQ(d.ask(4), "refused: line_full");
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    EXPECT_EQ(d.ask(4), "waits");
}

TEST(machine_acquire, is_refused_when_it_cannot_wait_and_would_have_to) {
    dialogue d({.max = 1});
    EXPECT_EQ(d.ask({.cookie = 1, .cannot_wait = true}), "refused: deadlock");
    EXPECT_EQ(d.opening(), 1U);  // for the next one
    d.finish_calls();
    EXPECT_EQ(d.ask({.cookie = 2, .cannot_wait = true}), "got 0");
    EXPECT_EQ(d.ask({.deadline = d.now, .cookie = 3, .cannot_wait = true}), "refused: timed_out");
    EXPECT_EQ(d.look().refused(cenote::errc::deadlock), 1U);
}

TEST(machine_acquire, needs_no_line_to_take_what_is_idle) {
    dialogue d({.min_size = 1, .line_max = 0});
    d.finish_calls();
    EXPECT_EQ(d.ask(1), "got 0");
    EXPECT_EQ(d.ask(2), "refused: line_full");
}

TEST(machine_acquire, passes_over_slots_that_are_too_old_before_it_probes) {
    dialogue d({.max_lifetime = 10s, .lifetime_jitter = 0, .sweep_interval = 1h});
    d.fill(1);
    d.pass(10s);
    EXPECT_EQ(d.ask(1), "waits");
    EXPECT_EQ(d.said(), "close 0, open 1");
    EXPECT_EQ(d.look().retired(retire_reason::age), 1u);
}

TEST(machine_acquire, comes_back_to_its_place_with_its_ticket) {
    dialogue d({.max = 1});
    d.ask(1);
    std::uint64_t ticket = d.ticket;
    instant arrived = d.now;
    d.ask(2);
    d.opened(0);
    EXPECT_EQ(d.said(), "1 gets 0");
    d.ask({.cookie = 11, .ticket = ticket, .arrived = arrived});
    d.release(0, condition::rejected);
    d.closed(0);
    d.opened(0);
    EXPECT_EQ(d.said(), "11 gets 0");
}

TEST(machine_try_acquire, takes_an_idle_slot) {
    dialogue d({});
    d.fill(2);
    EXPECT_EQ(d.attempt(), 1u);
    EXPECT_EQ(d.attempt(), 0u);
    EXPECT_EQ(d.leased(), 2u);
}

TEST(machine_try_acquire, starts_one_open_in_the_background) {
    dialogue d({});
    EXPECT_EQ(d.attempt(), std::nullopt);
    EXPECT_EQ(d.said(), "open 0");
    EXPECT_EQ(d.attempt(), std::nullopt);
    EXPECT_EQ(d.said(), "nothing");
    d.opened(0);
    EXPECT_EQ(d.attempt(), 0u);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_try_acquire, does_not_ask_again_when_its_open_fails) {
    dialogue d({});
    d.attempt();
    d.opened(0, outcome::failed);
    d.pass(1min);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_try_acquire, never_overtakes_the_line) {
    dialogue d({.max = 2, .probe_after_idle = 0s});
    d.fill(2);
    d.pass(1ms);
    d.ask(1);
    EXPECT_EQ(d.said(), "probe 1");
    EXPECT_EQ(d.attempt(), std::nullopt);
    d.finish_calls();
    EXPECT_TRUE(d.holds(1));
}

TEST(machine_try_acquire, has_a_stale_slot_probed_for_the_next) {
    dialogue d({.probe_after_idle = 5s});
    d.fill(1);
    d.pass(5s);
    EXPECT_EQ(d.attempt(), std::nullopt);
    EXPECT_EQ(d.said(), "probe 0");
    d.probed(0);
    EXPECT_EQ(d.attempt(), 0u);
}

TEST(machine_try_acquire, is_empty_and_opens_nothing_when_closed) {
    dialogue d({});
    d.close();
    EXPECT_EQ(d.attempt(), std::nullopt);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_cancel, takes_the_waiter_out_and_lets_the_next_have_the_grant) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.ask(3);
    EXPECT_TRUE(d.cancel(2));
    EXPECT_EQ(d.said(), "2 refused: canceled");
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_cancel, does_not_kill_the_open_it_had_asked_for) {
    dialogue d({});
    d.ask(1);
    d.cancel(1);
    EXPECT_EQ(d.said(), "1 refused: canceled");
    d.opened(0);
    EXPECT_EQ(d.ask(2), "got 0");
}

TEST(machine_cancel, does_not_destroy_what_is_being_probed) {
    dialogue d({.probe_after_idle = 0s});
    d.fill(1);
    d.pass(1ms);
    d.ask(1);
    d.cancel(1);
    d.pass(1ms);
    d.probed(0);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.idle(), 1u);
}

TEST(machine_cancel, comes_too_late_for_a_grant_that_can_be_passed_on) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.ask(3);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    EXPECT_FALSE(d.cancel(2));
    EXPECT_EQ(d.said(), "nothing");
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_cancel, never_hits_a_later_caller) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.release(0);
    d.ask(3);
    EXPECT_FALSE(d.cancel(2));
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_acquire, keeps_its_place_though_it_never_waited_for_it) {
    dialogue d({.max = 1});
    d.fill(1);
    EXPECT_EQ(d.ask(1), "got 0");
    std::uint64_t first = d.ticket;
    d.ask(2);
    EXPECT_EQ(
        d.ask({.deadline = never, .cookie = 1, .ticket = first, .arrived = d.now, .again = true}),
        "waits");
    d.release(0, condition::unfit);
    d.closed(0);
    d.opened(0);
    EXPECT_EQ(d.said(), "1 gets 0");
}

TEST(machine_acquire, comes_back_into_a_full_line) {
    dialogue d({.max = 1, .line_max = 1});
    d.fill(1);
    d.ask(1);
    std::uint64_t first = d.ticket;
    d.ask(2);
    EXPECT_EQ(d.ask(3), "refused: line_full");
    EXPECT_EQ(
        d.ask({.deadline = never, .cookie = 1, .ticket = first, .arrived = d.now, .again = true}),
        "waits");
}

/// An acquire that does not queue.
std::string ask_without_queue(dialogue& d, std::uint64_t who, std::uint32_t count = 1) {
    return d.ask({.deadline = never, .cookie = who, .queues = false, .count = count});
}

TEST(machine_acquire, without_queue_waits_for_an_open) {
    dialogue d({.max = 2});
    EXPECT_EQ(ask_without_queue(d, 1), "waits");
    EXPECT_EQ(d.said(), "open 0");
    d.opened(0);
    EXPECT_EQ(d.said(), "1 gets 0");
    EXPECT_EQ(ask_without_queue(d, 2), "waits");
    EXPECT_EQ(ask_without_queue(d, 3), "refused: line_full");  // the open is for 2
}

TEST(machine_acquire, without_queue_waits_for_a_probe_and_a_reset) {
    dialogue d({.max = 1, .probe_after_idle = 0s});
    d.fill(1);
    d.pass(1ms);
    EXPECT_EQ(ask_without_queue(d, 1), "waits");
    EXPECT_EQ(d.said(), "probe 0");
    d.probed(0);
    EXPECT_EQ(d.said(), "1 gets 0");
    d.release(0, condition::dirty);
    EXPECT_EQ(ask_without_queue(d, 2), "waits");
    EXPECT_EQ(ask_without_queue(d, 3), "refused: line_full");
}

TEST(machine_acquire, without_queue_is_refused_at_once_if_all_are_leased) {
    dialogue d({.max = 2});
    d.fill(2);
    EXPECT_EQ(ask_without_queue(d, 1), "got 1");
    EXPECT_EQ(ask_without_queue(d, 2, 2), "refused: line_full");
    EXPECT_EQ(ask_without_queue(d, 3), "got 0");
    EXPECT_EQ(ask_without_queue(d, 4), "refused: line_full");
    EXPECT_EQ(d.look().waiting, 0u);
    EXPECT_EQ(d.look().refused(errc::line_full), 2u);
}

TEST(machine_acquire, without_queue_does_not_count_on_what_others_wait_for) {
    dialogue d({.max = 3, .opening_max = 1});
    EXPECT_EQ(d.ask(1), "waits");
    EXPECT_EQ(d.ask(2), "waits");
    EXPECT_EQ(ask_without_queue(d, 3), "waits");  // a third can be opened
    EXPECT_EQ(ask_without_queue(d, 4), "refused: line_full");
    d.cancel(1);
    EXPECT_EQ(ask_without_queue(d, 5), "waits");
}

TEST(machine_acquire, without_queue_is_refused_by_a_paused_pool) {
    dialogue d({.max = 2});
    d.fill(1);
    d.pause();
    EXPECT_EQ(ask_without_queue(d, 1), "refused: line_full");
    d.resume();
    EXPECT_EQ(ask_without_queue(d, 1), "got 0");
}

TEST(machine_acquire, in_a_crowded_pool_goes_from_hand_to_hand) {
    dialogue d({.max = 1, .max_uses = 4});
    d.fill(1);
    for (std::uint64_t who = 1; who <= 5; ++who) d.ask(who);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
    d.release(0);
    EXPECT_EQ(d.said(), "close 0");  // used up
    EXPECT_EQ(d.look().retired_by_reason[static_cast<std::size_t>(retire_reason::uses)], 1u);
}

TEST(machine_acquire, in_a_crowded_pool_does_not_settle) {
    dialogue d({.max = 1, .max_uses = 100}, {.probe = true}, true);  // reports: no express
    d.fill(1);
    for (std::uint64_t who = 1; who <= 5; ++who) d.ask(who);
    std::uint64_t settles = d.it.settles();
    stats before = d.look();
    d.release(0);
    EXPECT_EQ(d.it.settles(), settles);
    EXPECT_EQ(d.look().waited, before.waited + 1);
    EXPECT_EQ(d.ask(6), "waits");
    EXPECT_EQ(d.it.settles(), settles);
    d.release(0);
    d.release(0);
    d.release(0);
    EXPECT_EQ(d.it.settles(), settles);
    d.release(0);
    EXPECT_GT(d.it.settles(), settles) << "the last waiter leaves by settle()";
}

TEST(machine_acquire, has_its_own_room_for_all_actions_of_a_call) {
    instant now = instant{} + 1h;
    machine m({.max = 90, .min_size = 90, .opening_max = 90}, {}, true, 1, now);
    actions out;
    m.make_room(out);
    EXPECT_TRUE(m.has_room(out));
    std::size_t room = out.capacity();
    m.start(now, out);
    EXPECT_EQ(out.size(), 90u);
    EXPECT_EQ(out.capacity(), room);
}

TEST(machine_acquire, makes_room_before_it_fills_any) {
    machine m({.max = 2}, {}, false, 1, instant{} + 1h);
    actions out;
    EXPECT_FALSE(m.has_room(out));
    m.start(instant{} + 1h, out);
    EXPECT_TRUE(m.has_room(out));
    actions enough;
    EXPECT_FALSE(m.has_room(enough));
    enough.reserve(out.capacity());
    EXPECT_TRUE(m.has_room(enough));
}

using machine_waits_in_vain = testing::Test;

TEST_F(machine_waits_in_vain, is_no_concern_of_a_thread_without_leases) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    EXPECT_FALSE(d.it.waits_in_vain({.cookie = 2})) << "its thread is unknown";
    EXPECT_FALSE(d.it.waits_in_vain({.cookie = 2, .holder = 7}));
    d.it.held_by(0, 7);
    EXPECT_TRUE(d.it.waits_in_vain({.cookie = 2, .holder = 7}));
    EXPECT_FALSE(d.it.waits_in_vain({.cookie = 2, .holder = 8})) << "it has no lease";
}

TEST(machine_acquire, says_that_a_thread_waits_that_has_a_lease) {
    dialogue d({.max = 2});
    d.fill(2);
    d.ask(1);
    d.ask(2);
    d.it.held_by(0, 7);
    d.it.held_by(1, 8);
    auto nested = [&](std::uint64_t holder) {
        return d.it
            .acquire(d.now, {.deadline = d.now + 1h, .cookie = 3, .holder = holder}, d.unread)
            .nested;
    };
    EXPECT_FALSE(nested(9));
    EXPECT_TRUE(nested(7));
}

TEST(machine_try_acquire, makes_room_and_begins_no_turn) {
    for (bool reports : {false, true}) {  // reports: no express
        dialogue d({.max = 1}, {}, reports);
        d.fill(1);
        EXPECT_EQ(d.ask({.cookie = 1, .thread = 1}), "got 0");
        EXPECT_TRUE(d.it.look(0).by_thread);
        d.release(0);
        actions out;
        EXPECT_EQ(d.it.try_acquire(d.now, out), 0u);
        EXPECT_FALSE(d.it.look(0).by_thread);
        EXPECT_TRUE(d.it.has_room(out));
    }
}

}  // namespace
}  // namespace cenote::core
