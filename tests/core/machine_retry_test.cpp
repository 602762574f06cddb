// Bounded fairness: who may overtake, for how long, and how the head is told to look.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

class machine_retry : public testing::Test {
protected:
    machine_retry() {
        d.fill(1);
        d.ask(1);
        d.ask(2);
    }

    dialogue d{{.max = 1, .fairness = fairness::bounded, .bypass_for = 1ms}};
};

TEST_F(machine_retry, follows_a_nudge_to_the_head) {
    d.release(0);
    EXPECT_EQ(d.said(), "nudge 2");
    EXPECT_TRUE(d.retry(2));
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST_F(machine_retry, may_find_that_a_newcomer_was_faster) {
    d.release(0);
    EXPECT_EQ(d.ask(3), "got 0");
    EXPECT_FALSE(d.retry(2));
    EXPECT_EQ(d.said(), "nothing");
    d.release(0);
    EXPECT_EQ(d.said(), "nudge 2");
}

TEST_F(machine_retry, is_asked_for_once_until_it_was_made) {
    d.release(0);
    EXPECT_EQ(d.said(), "nudge 2");
    d.ask(3);
    d.release(0);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_TRUE(d.retry(2));
}

TEST_F(machine_retry, is_not_needed_once_the_head_has_waited_long_enough) {
    d.pass(1ms);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST_F(machine_retry, is_replaced_by_a_hand_over_when_it_does_not_come) {
    d.pass(400us);
    d.release(0);
    EXPECT_EQ(d.said(), "nudge 2");
    EXPECT_EQ(d.it.wake_at(), d.now + 600us);
    d.pass(600us - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST_F(machine_retry, ends_overtaking_by_newcomers_in_time) {
    d.release(0);
    d.ask(3);
    d.pass(1ms);
    EXPECT_EQ(d.ask(4), "waits");
    EXPECT_EQ(d.attempt(), std::nullopt);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST_F(machine_retry, lets_try_acquire_overtake_meanwhile) {
    d.release(0);
    EXPECT_EQ(d.attempt(), 0u);
}

TEST_F(machine_retry, passes_the_nudge_on_when_the_head_leaves) {
    d.ask(3);
    d.release(0);
    EXPECT_EQ(d.said(), "nudge 2");
    d.cancel(2);
    EXPECT_EQ(d.said(), "2 refused: canceled, nudge 3");
}

TEST_F(machine_retry, finds_nothing_for_somebody_who_has_left) {
    d.cancel(2);
    d.release(0);
    EXPECT_FALSE(d.retry(2));
    EXPECT_EQ(d.ask(3), "got 0");
}

TEST_F(machine_retry, is_not_asked_of_those_who_cannot_be_bypassed) {
    d.cancel(2);
    EXPECT_EQ(d.ask(3, forever, false), "waits");
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_retry_strict, is_never_asked_for) {
    dialogue d({.max = 1, .fairness = fairness::strict});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

}  // namespace
}  // namespace cenote::core
