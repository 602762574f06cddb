// Several resources at once, or none.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

TEST(machine_many, gets_all_at_once_if_they_are_there) {
    dialogue d({});
    d.fill(3);
    EXPECT_EQ(ask(d, 1, 3, 0s), "got 0");
    EXPECT_EQ(d.said(), "1 gets 2, 1 gets 1, 1 gets 0");
    EXPECT_EQ(d.leased(), 3u);
}

TEST(machine_many, gets_none_if_not_all_are_there) {
    dialogue d({.max = 3});
    d.fill(3);
    d.ask(1);
    EXPECT_EQ(ask(d, 2, 3, 0s), "refused: timed_out");
    EXPECT_EQ(d.leased(), 1u);
    EXPECT_EQ(d.idle(), 2u);
}

TEST(machine_many, waits_until_all_are_there) {
    dialogue d({.max = 3});
    d.fill(3);
    d.ask(1);
    d.ask(2);
    EXPECT_EQ(ask(d, 3, 3), "waits");
    d.release(d.slot_of(1));
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.leased(), 1u);  // what is kept for it is not lent
    d.release(d.slot_of(2));
    EXPECT_EQ(d.leased(), 3u);
}

TEST(machine_many, has_what_is_missing_opened) {
    dialogue d({.max = 4, .opening_max = 4});
    EXPECT_EQ(ask(d, 1, 3), "waits");
    EXPECT_EQ(d.said(), "open 0, open 1, open 2");
    d.finish_calls();
    EXPECT_EQ(d.leased(), 3u);
}

TEST(machine_many, is_served_in_its_turn) {
    dialogue d({.max = 2});
    d.fill(2);
    d.ask(1);
    d.ask(2);
    ask(d, 3, 2);
    d.ask(4);
    d.release(d.slot_of(1));
    EXPECT_EQ(d.said(), "nothing");  // 4 must not overtake
    d.release(d.slot_of(2));
    EXPECT_TRUE(d.holds(3));
    EXPECT_FALSE(d.holds(4));
}

// Two who want two of three would deadlock if each held one.
TEST(machine_many, keeps_only_for_the_head) {
    dialogue d({.max = 3});
    d.fill(3);
    ask(d, 1, 3);
    ask(d, 2, 2);
    ask(d, 3, 2);
    for (slot_id id : {0u, 1u, 2u}) d.release(id);
    EXPECT_TRUE(d.holds(2));
    EXPECT_FALSE(d.holds(3));
}

// One who holds what the head still needs must not queue up behind it.
TEST(machine_many, is_no_deadlock_with_who_holds_the_rest_and_waits_behind_it) {
    dialogue d({.max = 3, .refuse_deadlock = true});
    d.fill(3);
    d.ask({.deadline = never, .cookie = 1, .holder = 7});
    d.it.held_by(d.slot_of(1), 7);
    ask(d, 2, 3);
    EXPECT_EQ(d.ask({.deadline = never, .cookie = 3, .holder = 7}), "refused: deadlock");
    d.ask({.cookie = 4, .rank = priority::high, .holder = 7});
    EXPECT_TRUE(d.holds(4));  // it goes before it
}

TEST(machine_many, gives_up_what_was_kept_when_it_goes) {
    dialogue d({.max = 3});
    d.fill(3);
    d.ask(1);
    ask(d, 2, 3, 10ms);
    d.ask(3);
    EXPECT_FALSE(d.holds(3));
    d.pass(10ms);
    EXPECT_TRUE(d.holds(3));
    EXPECT_EQ(d.idle(), 1u);
    EXPECT_TRUE(d.ask(4).starts_with("got"));
}

TEST(machine_many, leaves_the_rest_to_the_next_one) {
    dialogue d({.max = 4});
    d.fill(4);
    d.ask(1);
    ask(d, 2, 4, 10ms);  // three are kept for it
    ask(d, 3, 2);
    d.ask(4);
    d.pass(10ms);
    EXPECT_TRUE(d.holds(3));
    EXPECT_TRUE(d.holds(4));
    EXPECT_EQ(d.leased(), 4u);
}

// Always probed before they are lent, so never all good at the same instant.
TEST(machine_many, does_not_wait_for_ever_for_those_that_must_be_probed) {
    dialogue d({.max = 3, .probe_after_idle = 0s});
    d.fill(3);
    d.pass(1ms);
    EXPECT_EQ(ask(d, 1, 3), "waits");
    for (slot_id id : {0u, 1u, 2u}) {
        d.pass(1ms);
        d.probed(id);
    }
    EXPECT_EQ(d.leased(), 3u);
}

TEST(machine_many, does_not_get_what_became_suspect_while_it_was_kept) {
    dialogue d({.max = 2});
    d.fill(2);
    d.ask(1);
    ask(d, 2, 2);
    d.pass(1ms);
    d.suspect_all();
    EXPECT_EQ(d.said(), "probe 0");
}

TEST(machine_many, counts_as_many_acquires_as_it_gets) {
    dialogue d({.max = 3});
    d.fill(3);
    stats before = d.look();
    ask(d, 1, 3);
    EXPECT_EQ(d.look().acquires - before.acquires, 3u);
    EXPECT_EQ(d.look().granted - before.granted, 3u);
    EXPECT_EQ(ask(d, 2, 2, 0s), "refused: timed_out");
    EXPECT_EQ(d.look().acquires - before.acquires, 4u);
}

TEST(machine_many, must_fit_through_a_recovering_breaker_as_a_whole) {
    dialogue d({.max = 4});
    d.fill(4);
    d.go({.to = breaker_state::recovering, .probes = 2});
    EXPECT_EQ(ask(d, 1, 3), "refused: unavailable");
    EXPECT_EQ(ask(d, 2, 2), "got 2");
    EXPECT_EQ(d.ask(3), "refused: unavailable");
}

TEST(machine_many, looks_at_no_more_resources_than_it_wants) {
    dialogue d({.max = 3, .probe_after_idle = 10s});
    d.fill(3);
    d.pass(9s);
    for (std::uint64_t who : {1u, 2u}) ASSERT_EQ(d.ask(who).substr(0, 3), "got");
    ASSERT_FALSE(d.slot_of(1) == 0 || d.slot_of(2) == 0);
    for (std::uint64_t who : {1u, 2u}) d.release(d.slot_of(who));
    d.pause();
    d.pass(1s);
    ASSERT_EQ(ask(d, 9, 2), "waits");
    d.resume();
    ASSERT_TRUE(d.holds(9));
    EXPECT_EQ(d.it.look(0).idle, idle_kind::fresh) << "that it needs a probe is of no interest yet";
}

}  // namespace
}  // namespace cenote::core
