// Bounded fairness: who may overtake, and for how long.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

class machine_fairness : public testing::Test {
protected:
    machine_fairness() {
        d.fill(1);
        d.ask(1);
        d.ask(2);
    }

    dialogue d{{.max = 1, .fairness = fairness::bounded, .bypass_for = 1ms}};
};

TEST_F(machine_fairness, lets_a_newcomer_overtake_a_young_head) {
    d.release(0);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.ask(3), "got 0");
}

TEST_F(machine_fairness, lets_try_acquire_overtake_a_young_head) {
    d.release(0);
    EXPECT_EQ(d.attempt(), 0u);
}

TEST_F(machine_fairness, hands_over_to_a_head_that_has_waited_long_enough) {
    d.pass(1ms);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST_F(machine_fairness, hands_over_by_the_clock_when_no_caller_comes) {
    d.pass(400us);
    d.release(0);
    EXPECT_EQ(d.it.wake_at(), d.now + 600us);
    d.pass(600us - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST_F(machine_fairness, ends_overtaking_in_time) {
    d.release(0);
    d.ask(3);
    d.pass(1ms);
    EXPECT_EQ(d.ask(4), "waits");
    EXPECT_EQ(d.attempt(), std::nullopt);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST_F(machine_fairness, counts_the_wait_of_each_head_from_its_own_arrival) {
    d.pass(400us);
    d.ask(3);
    d.release(0);
    d.cancel(2);
    EXPECT_EQ(d.said(), "2 refused: canceled");
    EXPECT_EQ(d.it.wake_at(), d.now + 1ms);
    d.pass(1ms);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST_F(machine_fairness, spares_waiters_that_cannot_be_bypassed) {
    d.cancel(2);
    EXPECT_EQ(d.ask(3, forever, false), "waits");
    d.said();
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_fairness_strict, hands_over_at_once) {
    dialogue d({.max = 1, .fairness = fairness::strict});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

}  // namespace
}  // namespace cenote::core
