// Another maximum: more serve those in line at once, fewer go when they are idle or come back.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

constexpr abilities all = {.probe = true, .reset = true};

/// A pool in which everything is leased: by 1, 2 and so on, each in the slot before its number.
void lease_all(dialogue& d) {
    std::size_t max = d.it.max();
    for (std::uint64_t who = 1; who <= max; ++who) d.ask(who);
    d.finish_calls();
    ASSERT_EQ(d.leased(), max);
    for (std::uint64_t who = 1; who <= max; ++who) ASSERT_EQ(d.slot_of(who), who - 1);
}

/// A pool in which everything is idle; 0 was used longest ago, and no two at the same time.
void fill_in_turn(dialogue& d) {
    lease_all(d);
    for (slot_id id = 0; id < d.it.max(); ++id) {
        d.release(id);
        d.pass(1ms);
    }
}

std::uint64_t surplus(const dialogue& d) { return d.look().retired(retire_reason::surplus); }

// More.

TEST(machine_grow, serves_those_in_line) {
    dialogue d({.max = 1});
    lease_all(d);
    d.ask(2);
    d.ask(3);
    EXPECT_EQ(d.said(), "nothing");
    d.resize(3);
    EXPECT_EQ(d.said(), "open 1");
    d.opened(1);
    EXPECT_EQ(d.said(), "2 gets 1, open 2");
    d.opened(2);
    EXPECT_EQ(d.said(), "3 gets 2");
}

TEST(machine_grow, opens_as_many_at_once_as_it_may_if_nothing_else_is_alive) {
    dialogue d({.max = 1, .opening_max = 3});
    for (std::uint64_t who = 1; who <= 4; ++who) d.ask(who);
    d.resize(4);
    EXPECT_EQ(d.said(), "open 1, open 2");
    EXPECT_EQ(d.opening(), 3u);
}

TEST(machine_grow, opens_nothing_that_no_caller_wants) {
    dialogue d({.max = 1});
    d.fill(1);
    d.resize(100);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.max(), 100u);
    EXPECT_EQ(d.it.total(), 1u);
}

TEST(machine_grow, opens_no_more_than_the_new_maximum) {
    dialogue d({.max = 1, .opening_max = 100});
    for (std::uint64_t who = 1; who <= 100; ++who) d.ask(who);
    d.resize(7);
    d.finish_calls();
    EXPECT_EQ(d.leased(), 7u);
    EXPECT_EQ(d.it.total(), 7u);
}

TEST(machine_grow, finds_room_for_spares) {
    dialogue d({.max = 2, .min_idle = 2});
    d.finish_calls();
    d.ask(1);
    d.ask(2);
    EXPECT_EQ(d.said(), "nothing");  // as far as max allows
    d.resize(4);
    d.finish_calls();
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_EQ(d.it.total(), 4u);
}

TEST(machine_grow, lets_more_be_wanted_at_once) {
    dialogue d({.max = 2, .opening_max = 4});
    EXPECT_EQ(ask(d, 1, 3), "refused: deadlock");
    d.resize(3);
    EXPECT_EQ(ask(d, 2, 3), "waits");
    d.finish_calls();
    EXPECT_EQ(d.leased(), 3u);
}

TEST(machine_grow, opens_what_a_request_for_several_still_lacks) {
    dialogue d({.max = 2});
    lease_all(d);
    ask(d, 3, 2);
    d.release(0);
    EXPECT_EQ(d.said(), "nothing");  // kept
    d.resize(3);
    EXPECT_EQ(d.said(), "open 2");
    d.opened(2);
    EXPECT_EQ(d.said(), "3 gets 0, 3 gets 2");
}

TEST(machine_grow, is_no_reason_to_refuse_who_could_be_served_now) {
    dialogue d({.max = 1, .refuse_deadlock = true});
    d.fill(1);
    request nested{.cookie = 1, .holder = 7};
    d.ask(nested);
    d.it.held_by(0, 7);
    nested.cookie = 2;
    EXPECT_EQ(d.ask(nested), "refused: deadlock");
    d.resize(2);
    EXPECT_EQ(d.ask(nested), "waits");
    EXPECT_EQ(d.said(), "open 1");
}

TEST(machine_grow, waits_for_the_backoff_all_the_same) {
    dialogue d({.max = 1, .backoff = {1s, 1s, 1s}});
    d.ask(1);
    d.opened(0, outcome::failed);
    d.resize(3);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(2s);
    EXPECT_EQ(d.opening(), 1u);
}

TEST(machine_grow, of_a_closed_pool_opens_nothing) {
    dialogue d({.max = 1, .min_size = 1});
    lease_all(d);
    d.close();
    d.resize(5);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.ask(2), "refused: closed");
    d.release(0);
    d.closed(0);
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_grow, of_a_paused_pool_serves_when_that_ends) {
    dialogue d({.max = 1});
    lease_all(d);
    d.ask(2);
    d.pause();
    d.resize(2);
    EXPECT_EQ(d.said(), "nothing");
    d.resume();
    EXPECT_EQ(d.said(), "open 1");
}

// Fewer: what is idle.

TEST(machine_shrink, closes_the_idle_the_longest_unused_first) {
    dialogue d({.max = 4}, all, true);
    fill_in_turn(d);
    d.resize(2);
    EXPECT_EQ(d.said(), "retired: surplus, close 0, retired: surplus, close 1");
    EXPECT_EQ(surplus(d), 2u);
    EXPECT_EQ(d.ask(1), "got 3");
    EXPECT_EQ(d.ask(2), "got 2");
    EXPECT_EQ(d.ask(3), "waits");
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_shrink, closes_none_that_there_is_room_for) {
    dialogue d({.max = 5});
    d.fill(3);
    d.resize(3);
    EXPECT_EQ(d.said(), "nothing");
    d.resize(2);
    EXPECT_EQ(d.said(), "close 0");
}

// 2 was used last, but by a borrower that leased it before all became suspect.
TEST(machine_shrink, closes_the_unproven_before_those_that_were_unused_for_longer) {
    dialogue d({.max = 3});
    d.fill(3);
    EXPECT_EQ(d.ask(9), "got 2");
    d.pass(1ms);
    d.suspect_all();
    d.pass(1ms);
    d.ask(1);
    d.ask(2);
    d.finish_calls();
    d.release(0);
    d.release(1);
    d.pass(1ms);
    d.release(2);
    EXPECT_EQ(d.ask(3), "got 1");  // 2 turned out to need a probe
    d.resize(2);
    EXPECT_EQ(d.said(), "close 2");
    EXPECT_EQ(d.ask(4), "got 0");
}

TEST(machine_shrink, closes_a_few_at_a_time) {
    dialogue d({.max = 6, .opening_max = 2});
    d.fill(6);
    d.resize(1);
    EXPECT_EQ(d.said(), "close 0, close 1");
    EXPECT_EQ(d.idle(), 4u);
    d.closed(1);
    EXPECT_EQ(d.said(), "close 2");
    d.closed(0);
    EXPECT_EQ(d.said(), "close 3");
    d.closed(2);
    EXPECT_EQ(d.said(), "close 4");
    d.closed(3);
    d.closed(4);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.total(), 1u);
    EXPECT_EQ(surplus(d), 5u);
}

TEST(machine_shrink, lends_nothing_that_is_about_to_be_closed) {
    dialogue d({.max = 3, .opening_max = 1});
    d.fill(3);
    d.resize(1);
    EXPECT_EQ(d.said(), "close 0");
    EXPECT_EQ(d.ask(1), "got 2");
    EXPECT_EQ(d.ask(2), "waits");
    EXPECT_EQ(d.attempt(), std::nullopt);
    EXPECT_EQ(ask(d, 3, 1, 0s), "refused: timed_out");
}

TEST(machine_shrink, lets_a_close_take_its_time_and_no_longer) {
    dialogue d({.max = 2, .close_timeout = 1s, .opening_max = 1});
    d.fill(2);
    d.ask(1);  // 1
    d.resize(1);
    EXPECT_EQ(d.said(), "close 0");
    d.ask(2);
    d.release(1, condition::discard);
    EXPECT_EQ(d.said(), "close 1");
    d.closed(1);
    EXPECT_EQ(d.said(), "nothing");  // the other one still counts
    d.pass(1s);
    EXPECT_EQ(d.said(), "abandon 0, open 0");
}

TEST(machine_shrink, keeps_the_minimum) {
    dialogue d({.max = 5, .min_size = 2, .idle_timeout = 1min, .probe_after_idle = forever});
    d.fill(5);
    d.resize(2);
    d.finish_calls();
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_TRUE(d.it.ready());
    d.pass(1h);
    EXPECT_EQ(d.it.total(), 2u);
}

TEST(machine_shrink, takes_spares_if_there_is_no_room_for_them) {
    dialogue d({.max = 4, .min_idle = 2});
    d.fill(4);
    d.ask(1);
    d.ask(2);
    d.resize(2);
    EXPECT_EQ(d.said(), "close 0, close 1");
    d.finish_calls();
    EXPECT_EQ(d.it.total(), 2u);
    EXPECT_TRUE(d.it.ready());
    d.release(d.slot_of(1));
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.idle(), 1u);
}

// What is leased.

TEST(machine_shrink, takes_no_lease_away) {
    dialogue d({.max = 3}, all, true);
    lease_all(d);
    d.resize(1);
    EXPECT_EQ(d.said(), "nothing");
    d.release(1);
    EXPECT_EQ(d.said(), "released, retired: surplus, close 1");
    d.release(0);
    EXPECT_EQ(d.said(), "released, retired: surplus, close 0");
    d.release(2);
    EXPECT_EQ(d.said(), "released");
    EXPECT_EQ(d.idle(), 1u);
    EXPECT_EQ(surplus(d), 2u);
}

TEST(machine_shrink, closes_what_comes_back_while_others_are_closing) {
    dialogue d({.max = 4, .opening_max = 1});
    lease_all(d);
    d.resize(1);
    for (slot_id id : {0u, 1u, 2u}) {
        d.release(id);
        EXPECT_EQ(d.said(), "close " + std::to_string(id));
    }
    EXPECT_EQ(d.in_flight(verb::close), 3u);
}

TEST(machine_shrink, opens_none_before_there_are_fewer_than_max) {
    dialogue d({.max = 3});
    lease_all(d);
    d.ask(4);
    d.ask(5);
    d.resize(1);
    d.release(0);
    EXPECT_EQ(d.said(), "close 0");
    d.closed(0);
    EXPECT_EQ(d.said(), "nothing");
    d.release(1);
    EXPECT_EQ(d.said(), "close 1");
    d.closed(1);
    EXPECT_EQ(d.said(), "nothing");
    d.release(2, condition::discard);
    EXPECT_EQ(d.said(), "close 2");
    d.closed(2);
    EXPECT_EQ(d.said(), "open 2");
    d.opened(2);
    EXPECT_EQ(d.said(), "4 gets 2");
}

TEST(machine_shrink, serves_the_line_with_what_may_stay) {
    dialogue d({.max = 2});
    lease_all(d);
    d.ask(3);
    d.resize(1);
    d.release(0);
    EXPECT_EQ(d.said(), "close 0");
    d.release(1);
    EXPECT_EQ(d.said(), "3 gets 1");
}

// The short way of a release in a crowded pool must see it as well.
TEST(machine_shrink, hands_over_nothing_that_is_too_many) {
    dialogue d({.max = 3});
    lease_all(d);
    for (std::uint64_t who = 4; who <= 9; ++who) d.ask(who);
    d.release(0);
    EXPECT_EQ(d.said(), "4 gets 0");
    d.resize(2);
    EXPECT_EQ(d.said(), "nothing");
    d.release(1);
    EXPECT_EQ(d.said(), "close 1");
    d.release(2);
    EXPECT_EQ(d.said(), "5 gets 2");
    d.release(0);
    EXPECT_EQ(d.said(), "6 gets 0");
    d.closed(1);
    EXPECT_EQ(d.said(), "nothing");
    d.release(2);
    EXPECT_EQ(d.said(), "7 gets 2");
}

// Settling is for what follows from the whole, and vacant places that must stay so are none.
TEST(machine_shrink, takes_the_short_way_although_there_are_vacant_places) {
    dialogue d({.max = 3});
    lease_all(d);
    d.resize(1);
    d.release(0);
    d.release(1);
    d.finish_calls();
    for (std::uint64_t who = 4; who <= 7; ++who) d.ask(who);
    std::uint64_t before = d.it.settles();
    d.release(2);
    EXPECT_EQ(d.said(), "4 gets 2");
    d.ask(8);
    EXPECT_EQ(d.it.settles(), before);
}

TEST(machine_shrink, counts_what_is_discarded_or_detached_meanwhile) {
    dialogue d({.max = 4});
    lease_all(d);
    d.resize(1);
    d.detach(0);
    d.release(1, condition::discard);
    EXPECT_EQ(d.said(), "close 1");
    d.release(2);
    EXPECT_EQ(d.said(), "close 2");
    d.release(3);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(surplus(d), 1u);
}

TEST(machine_shrink, does_not_reset_what_will_be_closed) {
    dialogue d({.max = 2});
    lease_all(d);
    d.resize(1);
    d.release(0, condition::dirty);
    EXPECT_EQ(d.said(), "close 0");
    d.release(1, condition::dirty);
    EXPECT_EQ(d.said(), "reset 1");
}

TEST(machine_shrink, does_not_probe_what_will_be_closed) {
    dialogue d({.max = 2, .probe_on_release = true});
    lease_all(d);
    d.resize(1);
    d.release(0);
    EXPECT_EQ(d.said(), "close 0");
    d.release(1);
    EXPECT_EQ(d.said(), "probe 1");
}

// No open has failed, so none waits for a backoff.
TEST(machine_shrink, does_not_hold_it_against_the_server_that_one_is_unfit) {
    dialogue d({.max = 2, .backoff = {1h, 1h, 1h}});
    lease_all(d);
    d.resize(1);
    d.release(0, condition::unfit);
    EXPECT_EQ(surplus(d), 1u);
    d.release(1, condition::discard);
    d.finish_calls();
    d.ask(3);
    EXPECT_EQ(d.opening(), 1u);
}

TEST(machine_shrink, says_of_the_old_that_they_are_old) {
    dialogue d({.max = 2}, all, true);
    lease_all(d);
    d.retire_all();
    d.resize(1);
    d.release(0);
    EXPECT_EQ(d.said(), "released, retired: generation, close 0");
}

// What a call is in flight for.

TEST(machine_shrink, closes_what_was_being_opened_and_is_too_many) {
    dialogue d({.max = 4}, all, true);
    for (std::uint64_t who = 1; who <= 4; ++who) d.ask(who);
    ASSERT_EQ(d.opening(), 4u);
    d.resize(2);
    EXPECT_EQ(d.said(), "nothing");
    d.opened(0);
    EXPECT_EQ(d.said(), "opened, acquired, 1 gets 0");
    d.opened(1);
    EXPECT_EQ(d.said(), "opened, acquired, 2 gets 1");
    d.opened(2);
    EXPECT_EQ(d.said(), "opened, retired: surplus, close 2");
    d.opened(3);
    EXPECT_EQ(d.said(), "opened, retired: surplus, close 3");
    d.closed(2);
    d.closed(3);
    EXPECT_EQ(d.it.total(), 2u);
}

TEST(machine_shrink, needs_not_close_what_failed_to_open) {
    dialogue d({.max = 3, .open_timeout = 1s, .close_timeout = 1h, .backoff = {1h, 1h, 1h}});
    for (std::uint64_t who = 1; who <= 3; ++who) d.ask(who);
    ASSERT_EQ(d.opening(), 3u);
    d.resize(1);
    d.opened(0, outcome::failed);
    EXPECT_EQ(d.said(), "nothing");
    d.opened(1);
    EXPECT_EQ(d.said(), "1 gets 1");  // who knows whether the third will come
    d.pass(1s);
    EXPECT_EQ(d.said(), "abandon 2");
    EXPECT_EQ(surplus(d), 0u);
}

TEST(machine_shrink, closes_nothing_good_for_what_may_never_be_open) {
    dialogue d({.max = 4, .open_timeout = 1s, .backoff = {1h, 1h, 1h}});
    d.fill(1);
    for (std::uint64_t who = 1; who <= 4; ++who) d.ask(who);
    d.release(0);
    d.pass(200ms);
    ASSERT_GE(d.opening(), 2u);
    d.resize(1);
    EXPECT_EQ(surplus(d), 0u);
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_shrink, prefers_what_is_there_to_what_is_being_opened) {
    dialogue d({.max = 2});
    d.ask(1);
    d.opened(0);
    d.ask(2);
    ASSERT_EQ(d.said(), "open 1");
    d.resize(1);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    d.opened(1);
    EXPECT_EQ(d.said(), "close 1");
}

TEST(machine_shrink, closes_what_was_being_reset) {
    dialogue d({.max = 3});
    lease_all(d);
    for (slot_id id : {0u, 1u, 2u}) d.release(id, condition::dirty);
    d.resize(1);
    EXPECT_EQ(d.said(), "nothing");
    d.reset(0);
    EXPECT_EQ(d.said(), "close 0");
    d.reset(1, outcome::failed);
    EXPECT_EQ(d.said(), "close 1");
    d.reset(2);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.idle(), 1u);
    EXPECT_EQ(surplus(d), 1u);
    EXPECT_EQ(d.look().retired(retire_reason::reset_failed), 1u);
}

TEST(machine_shrink, closes_what_was_being_probed_for_a_waiter) {
    dialogue d({.max = 2, .probe_after_idle = 1s});
    d.fill(2);
    d.pass(1s);
    d.ask(1);
    d.ask(2);
    ASSERT_EQ(d.in_flight(verb::probe), 2u);
    d.resize(1);
    EXPECT_EQ(d.said(), "nothing");
    d.probed(0);
    EXPECT_EQ(d.said(), "close 0");
    d.probed(1);
    EXPECT_EQ(d.said(), "1 gets 1");
}

TEST(machine_shrink, closes_what_the_heartbeat_was_probing) {
    dialogue d({.max = 2, .probe_after_idle = forever, .heartbeat = 1s});
    d.fill(2);
    d.pass(1s);
    ASSERT_EQ(d.in_flight(verb::probe), 1u);
    d.ask(1);
    d.resize(1);
    d.finish_calls();
    EXPECT_EQ(surplus(d), 1u);
    EXPECT_EQ(d.it.total(), 1u);
    d.release(d.slot_of(1));
    d.pass(1s);
    EXPECT_EQ(d.in_flight(verb::probe), 1u);  // and the heart beats on
}

// Who waits.

TEST(machine_shrink, refuses_who_waits_for_more_than_there_may_be) {
    dialogue d({.max = 4});
    lease_all(d);
    ask(d, 5, 4);
    ask(d, 6, 2);
    ask(d, 7, 3);
    d.ask(8);
    ask(d, 9, 3);
    d.resize(2);
    EXPECT_EQ(d.said(), "5 refused: deadlock, 7 refused: deadlock, 9 refused: deadlock");
    EXPECT_EQ(d.look().refused(errc::deadlock), 3u);
    d.release(0);
    d.release(1);
    d.release(2);
    EXPECT_EQ(d.said(), "nothing");
    d.release(3);
    EXPECT_EQ(d.said(), "6 gets 2, 6 gets 3");
}

TEST(machine_shrink, refuses_them_with_every_priority) {
    dialogue d({.max = 3});
    lease_all(d);
    constexpr std::array ranks = {priority::reserved, priority::high, priority::normal,
                                  priority::low};
    for (std::uint64_t i = 0; i < ranks.size(); ++i)
        d.ask({.deadline = never, .cookie = 10 + i, .rank = ranks.at(i), .count = 3});
    d.resize(2);
    EXPECT_EQ(d.look().refused(errc::deadlock), 4u);
    EXPECT_FALSE(d.it.anyone_waits());
}

TEST(machine_shrink, refuses_newcomers_who_want_more_than_there_may_be) {
    dialogue d({.max = 3});
    d.fill(3);
    d.resize(2);
    EXPECT_EQ(ask(d, 1, 3), "refused: deadlock");
    EXPECT_EQ(ask(d, 2, 3, 0s), "refused: deadlock");
    EXPECT_EQ(ask(d, 3, 2), "got 1");
}

TEST(machine_shrink, refuses_them_though_it_is_crowded) {
    dialogue d({.max = 3});
    lease_all(d);
    d.ask(4);
    d.resize(2);
    EXPECT_EQ(ask(d, 5, 3), "refused: deadlock");
    EXPECT_EQ(ask(d, 6, 2), "waits");
}

TEST(machine_shrink, keeps_all_other_waiters_at_their_place_and_deadline) {
    dialogue d({.max = 2});
    lease_all(d);
    d.ask(3, 1s);
    d.ask(4, 10ms);
    d.ask(5);
    d.resize(1);
    d.pass(10ms);
    EXPECT_EQ(d.said(), "4 refused: timed_out");
    d.release(0);
    d.release(1);
    EXPECT_EQ(d.said(), "3 gets 1");
    d.release(1);
    EXPECT_EQ(d.said(), "5 gets 1");
}

TEST(machine_shrink, takes_from_what_is_kept_only_what_is_too_many) {
    dialogue d({.max = 4});
    lease_all(d);
    ask(d, 5, 3);
    d.release(0);
    d.release(1);
    ASSERT_EQ(d.idle(), 2u);  // kept for 5
    d.resize(3);
    EXPECT_EQ(d.said(), "close 0");
    d.release(2);
    EXPECT_EQ(d.said(), "nothing");
    d.release(3);
    EXPECT_EQ(d.said(), "5 gets 1, 5 gets 2, 5 gets 3");
}

// They are kept in the order in which they would be lent: the last used first.
TEST(machine_shrink, closes_of_what_is_kept_the_longest_unused_first) {
    dialogue d({.max = 5});
    fill_in_turn(d);
    for (std::uint64_t who : {6u, 7u, 8u}) d.ask(who);
    ask(d, 4, 3);
    ASSERT_EQ(d.idle(), 2u);  // kept for 4
    d.resize(4);
    EXPECT_EQ(d.said(), "close 0");
    d.release(3);
    EXPECT_EQ(d.said(), "nothing");
    d.release(4);
    EXPECT_EQ(d.leased(), 4u);
    EXPECT_TRUE(d.holds(4));
}

TEST(machine_shrink, closes_the_longest_unused_first_of_what_was_kept_for_a_waiter_it_refuses) {
    dialogue d({.max = 4});
    fill_in_turn(d);
    d.ask(1);  // 3
    ask(d, 2, 4);
    d.resize(2);
    EXPECT_EQ(d.said(), "2 refused: deadlock, close 0, close 1");
    EXPECT_EQ(d.ask(3), "got 2");
}

TEST(machine_shrink, leaves_to_the_others_what_was_kept_for_a_waiter_it_refuses) {
    dialogue d({.max = 3});
    lease_all(d);
    ask(d, 4, 3);
    d.ask(5);
    d.release(0);
    d.release(1);
    ASSERT_EQ(d.idle(), 2u);  // kept for 4
    d.resize(2);
    EXPECT_EQ(d.said(), "4 refused: deadlock, 5 gets 1, close 0");
}

// With one place less, the only lease there may be is held by the very thread that wants one.
TEST(machine_shrink, sees_a_deadlock_although_there_are_vacant_places) {
    dialogue d({.max = 2, .refuse_deadlock = true});
    lease_all(d);
    d.it.held_by(0, 7);
    d.it.held_by(1, 8);
    d.resize(1);
    d.release(1);
    d.closed(1);
    EXPECT_EQ(d.ask({.cookie = 3, .holder = 7}), "refused: deadlock");
    d.resize(2);
    EXPECT_EQ(d.ask({.cookie = 4, .holder = 7}), "waits");
}

// Together with everything else that can happen to a pool.

TEST(machine_shrink, of_a_paused_pool_does_not_wait_for_its_end) {
    dialogue d({.max = 4});
    d.fill(4);
    d.ask(1);  // 3
    d.pause();
    d.ask(2);
    ask(d, 3, 3);
    d.resize(2);
    EXPECT_EQ(d.said(), "3 refused: deadlock, close 0, close 1");
    d.release(3);
    EXPECT_EQ(d.said(), "nothing");
    d.resume();
    EXPECT_EQ(d.said(), "2 gets 3");
}

TEST(machine_shrink, of_a_paused_pool_closes_what_comes_back) {
    dialogue d({.max = 2});
    lease_all(d);
    d.pause();
    d.resize(1);
    d.release(0);
    EXPECT_EQ(d.said(), "close 0");
    d.release(1);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_shrink, of_a_paused_pool_takes_what_is_kept_too) {
    dialogue d({.max = 3});
    lease_all(d);
    ask(d, 4, 3);
    d.release(0);
    d.release(1);
    d.pause();
    d.release(2);
    d.resize(1);
    d.finish_calls();
    EXPECT_EQ(d.it.total(), 1u);
    d.resume();
    EXPECT_EQ(d.ask(5).substr(0, 3), "got");
}

TEST(machine_shrink, of_a_closed_pool_changes_nothing) {
    dialogue d({.max = 3, .opening_max = 1}, all, true);
    d.fill(3);
    d.ask(1);  // 2
    d.close();
    EXPECT_EQ(d.in_flight(verb::close), 2u);
    d.resize(1);
    EXPECT_EQ(d.said(), "nothing");
    d.release(2);
    EXPECT_EQ(d.said(), "released, close 2");
    d.finish_calls();
    EXPECT_TRUE(d.it.drained());
    EXPECT_EQ(surplus(d), 0u);
}

TEST(machine_shrink, is_no_obstacle_to_close) {
    dialogue d({.max = 5, .opening_max = 1});
    d.fill(5);
    d.ask(1);  // 4
    d.resize(1);
    ASSERT_EQ(d.said(), "close 0");
    d.close();
    EXPECT_EQ(d.said(), "close 1, close 2, close 3");
    d.release(4);
    d.finish_calls();
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_shrink, and_retire_all_leave_no_more_than_max) {
    dialogue d({.max = 4, .min_size = 2, .opening_max = 1});
    lease_all(d);
    d.retire_all();
    d.resize(2);
    for (slot_id id : {0u, 1u, 2u, 3u}) d.release(id);
    d.finish_calls();
    EXPECT_EQ(d.it.total(), 2u);
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_EQ(d.look().opened, 6u);
}

TEST(machine_shrink, refills_the_minimum_only_when_there_is_room) {
    dialogue d({.max = 4, .min_size = 2});
    d.fill(4);
    for (std::uint64_t who = 1; who <= 4; ++who) d.ask(who);
    d.resize(2);
    d.release(0, condition::discard);
    d.release(1, condition::discard);
    d.release(2, condition::discard);
    d.closed(0);
    EXPECT_EQ(d.said(), "nothing");
    d.closed(1);
    EXPECT_EQ(d.said(), "nothing");
    d.closed(2);
    EXPECT_EQ(d.said(), "open 2");
}

TEST(machine_shrink, can_be_said_again_and_again) {
    dialogue d({.max = 4});
    lease_all(d);
    for (std::size_t max : {3u, 3u, 2u, 1u}) {
        d.resize(max);
        EXPECT_EQ(d.said(), "nothing");
    }
    for (slot_id id : {0u, 1u, 2u}) {
        d.release(id);
        EXPECT_EQ(d.said(), "close " + std::to_string(id));
    }
    d.release(3);
    EXPECT_EQ(d.said(), "nothing");
}

// Up and down.

TEST(machine_resize, keeps_what_is_leased_if_it_grows_again_in_time) {
    dialogue d({.max = 3});
    lease_all(d);
    d.resize(1);
    d.release(0);
    EXPECT_EQ(d.said(), "close 0");
    d.resize(3);
    EXPECT_EQ(d.said(), "nothing");
    d.release(1);
    d.release(2);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.idle(), 2u);
}

TEST(machine_resize, counts_what_is_still_going_when_it_grows_again) {
    dialogue d({.max = 3, .opening_max = 1});
    d.fill(3);
    d.resize(1);
    ASSERT_EQ(d.said(), "close 0");
    for (std::uint64_t who = 1; who <= 3; ++who) d.ask(who);
    EXPECT_EQ(d.leased(), 1u);
    d.resize(3);
    EXPECT_EQ(d.opening(), 0u);  // three are there, two of them on their way out
    d.closed(0);
    EXPECT_LE(d.it.total(), 3u);
    d.finish_calls();
    EXPECT_EQ(d.leased(), 3u);
}

TEST(machine_resize, fills_again_the_places_it_left) {
    dialogue d({.max = 4});
    d.fill(4);
    d.resize(1);
    d.finish_calls();
    ASSERT_EQ(d.it.total(), 1u);
    d.resize(4);
    for (std::uint64_t who = 1; who <= 5; ++who) d.ask(who);
    d.finish_calls();
    EXPECT_EQ(d.leased(), 4u);
    EXPECT_EQ(d.it.places(), 4u);
}

TEST(machine_resize, needs_new_places_only_beyond_what_it_ever_had) {
    dialogue d({.max = 4});
    d.resize(2);
    d.resize(3);
    EXPECT_EQ(d.it.places(), 4u);
    d.resize(5);
    EXPECT_EQ(d.it.places(), 5u);
    EXPECT_EQ(d.it.max(), 5u);
}

TEST(machine_resize, to_the_same_maximum_changes_nothing) {
    dialogue d({.max = 2});
    d.fill(2);
    d.ask(1);
    ask(d, 2, 2);
    d.resize(2);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.total(), 2u);
    d.release(d.slot_of(1));
    EXPECT_EQ(d.leased(), 2u);
}

TEST(machine_resize, makes_room_without_another_maximum) {
    dialogue d({.max = 1});
    lease_all(d);
    d.ask(2);
    actions out;
    d.it.make_places(10, out);
    d.tick();
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.max(), 1u);
    EXPECT_EQ(d.it.places(), 10u);
    d.release(0, condition::discard);
    d.closed(0);
    EXPECT_EQ(d.opening(), 1u);
}

// In any order of places, every caller is served in the end and there are never too many.
TEST(machine_resize, from_one_to_many_and_back) {
    dialogue d({.max = 1, .opening_max = 3});
    std::uint64_t who = 0;
    for (std::size_t max : {7u, 2u, 9u, 1u, 1u, 30u, 4u}) {
        d.resize(max);
        std::uint64_t first = who + 1;
        for (std::size_t i = 0; i < max + 3; ++i) d.ask(++who);
        d.finish_calls();
        EXPECT_EQ(d.it.total(), max);
        while (d.it.anyone_waits()) {
            for (slot_id id = 0; id < d.it.places(); ++id)
                if (d.it.look(id).state == slot_state::leased) d.release(id);
            d.finish_calls();
        }
        for (std::uint64_t each = first; each <= who; ++each) EXPECT_TRUE(d.holds(each)) << each;
        for (slot_id id = 0; id < d.it.places(); ++id)
            if (d.it.look(id).state == slot_state::leased) d.release(id);
        EXPECT_EQ(d.it.total(), max);
    }
}

TEST(machine_resize, makes_room_for_the_actions_of_more_places) {
    dialogue d({.max = 2}, {}, true);
    actions out;
    d.it.make_places(500, out);
    EXPECT_GE(out.capacity(), 500u);
    EXPECT_TRUE(d.it.has_room(out));
}

}  // namespace
}  // namespace cenote::core
