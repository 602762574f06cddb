// The circuit breaker in the machine: whom it lets in, what its strategy hears.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

constexpr breaker_move inactive{.to = breaker_state::inactive, .cool_down = 1s};
constexpr breaker_move active{.to = breaker_state::active};
constexpr breaker_move one_tries{.to = breaker_state::recovering};
constexpr breaker_move two_try{.to = breaker_state::recovering, .probes = 2};

TEST(machine_breaker, inactive_refuses_who_comes_and_who_waits) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.ask(3);
    d.go(inactive);
    EXPECT_EQ(d.said(), "2 refused: unavailable, 3 refused: unavailable");
    d.release(0);
    EXPECT_EQ(d.idle(), 1u);
    EXPECT_EQ(d.ask(4), "refused: unavailable");
    EXPECT_EQ(d.attempt(), std::nullopt);
    d.go(active);
    EXPECT_EQ(d.ask(5), "got 0");
}

TEST(machine_breaker, recovering_lets_a_few_in) {
    dialogue d({});
    d.fill(3);
    d.go(two_try);
    EXPECT_EQ(d.ask(1), "got 2");
    EXPECT_EQ(d.ask(2), "got 1");
    EXPECT_EQ(d.ask(3), "refused: unavailable");
    EXPECT_EQ(d.attempt(), std::nullopt);
    d.release(1);
    EXPECT_EQ(d.ask(4), "got 1");
}

TEST(machine_breaker, who_waits_for_an_open_is_one_of_the_few) {
    dialogue d({});
    d.go(one_tries);
    EXPECT_EQ(d.ask(1), "waits");
    EXPECT_EQ(d.said(), "open 0");
    EXPECT_EQ(d.ask(2), "refused: unavailable");
    d.opened(0);
    EXPECT_EQ(d.said(), "1 gets 0");
    EXPECT_EQ(d.ask(3), "refused: unavailable");
}

TEST(machine_breaker, leases_from_before_do_not_count_as_trials) {
    dialogue d({});
    d.fill(2);
    d.ask(1);
    d.go(one_tries);
    EXPECT_EQ(d.ask(2), "got 0");
    EXPECT_EQ(d.ask(3), "refused: unavailable");
}

TEST(machine_breaker, trials_of_an_earlier_recovery_do) {
    dialogue d({});
    d.fill(2);
    d.go(one_tries);
    d.ask(1);
    d.go(inactive);
    d.go(one_tries);
    EXPECT_EQ(d.ask(2), "refused: unavailable");
    d.release(d.slot_of(1));
    EXPECT_EQ(d.ask(3), "got 1");
}

TEST(machine_breaker, recovering_keeps_the_first_in_line) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.ask(3);
    d.go(one_tries);
    EXPECT_EQ(d.said(), "3 refused: unavailable");
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_breaker, a_trial_that_is_detached_has_ended) {
    dialogue d({});
    d.fill(1);
    d.go(one_tries);
    d.ask(1);
    d.detach(0);
    EXPECT_EQ(d.ask(2), "waits");
}

TEST(machine_breaker, asks_again_and_again_after_each_cool_down) {
    dialogue d({});
    d.go(inactive);
    d.pass(999ms);
    EXPECT_EQ(d.judged(), "nothing");
    d.pass(1ms);
    EXPECT_EQ(d.judged(), "cooled down");
    d.pass(1s);
    EXPECT_EQ(d.judged(), "cooled down");
    d.go(active);
    d.pass(1min);
    EXPECT_EQ(d.judged(), "nothing");
}

TEST(machine_breaker, never_asks_more_often_than_it_makes_sense) {
    dialogue d({});
    d.go({.to = breaker_state::inactive, .cool_down = 0s});
    EXPECT_GE(d.it.wake_at(), d.now + 1ms);
    d.go({.to = breaker_state::inactive, .cool_down = -5s});
    EXPECT_GE(d.it.wake_at(), d.now + 1ms);
    d.go({.to = breaker_state::recovering, .probes = 0});
    EXPECT_EQ(d.ask(1), "waits");
}

TEST(machine_breaker, tells_failures_of_opens_probes_and_releases) {
    dialogue d({.max = 4, .probe_after_idle = 0s});
    d.ask(1);
    d.opened(0, outcome::failed);
    EXPECT_EQ(d.judged(), "failed");
    d.pass(1s);
    d.opened(0);
    EXPECT_EQ(d.judged(), "nothing") << "an open is no use";
    d.release(0, condition::rejected);
    EXPECT_EQ(d.judged(), "failed");
    d.closed(0);
    d.ask(2);
    d.opened(0);
    d.release(0, condition::broken);
    EXPECT_EQ(d.judged(), "failed");
    d.closed(0);
    d.ask(3);
    d.opened(0);
    d.release(0);
    d.pass(1ms);
    d.ask(4);
    d.probed(0, outcome::failed);
    EXPECT_EQ(d.judged(), "failed, after 1 succeeded");
}

TEST(machine_breaker, a_discard_without_a_cause_is_no_news) {
    dialogue d({});
    d.fill(1);
    d.ask(1);
    d.release(0, condition::discard);
    EXPECT_EQ(d.judged(), "nothing");
}

TEST(machine_breaker, tells_successes_in_sums_while_the_pool_is_active) {
    dialogue d({});
    d.ask(1);
    d.opened(0);
    d.release(0);
    EXPECT_EQ(d.judged(), "succeeded: 1");
    for (int i = 0; i < 5; ++i) {
        d.ask(2);
        d.release(0);
        EXPECT_EQ(d.judged(), "nothing");
    }
    d.pass(100ms);
    d.ask(3);
    d.release(0);
    EXPECT_EQ(d.judged(), "succeeded: 6");
    d.ask(4);
    d.release(0);
    d.ask(5);
    d.release(0, condition::broken);
    EXPECT_EQ(d.judged(), "failed, after 1 succeeded");
}

TEST(machine_breaker, tells_each_success_while_it_recovers) {
    dialogue d({});
    d.fill(1);
    d.go(one_tries);
    for (int i = 0; i < 3; ++i) {
        d.ask(1);
        d.release(0);
        EXPECT_EQ(d.judged(), "succeeded: 1");
    }
}

// A use that began before the circuit opened says nothing about the server as it is now.
TEST(machine_breaker, hears_only_what_it_let_in_while_it_recovers) {
    dialogue d({.max = 4});
    d.fill(3);
    d.ask(1);
    d.ask(2);
    d.go(one_tries);
    EXPECT_EQ(d.ask(3), "got 0");
    d.release(1);
    EXPECT_EQ(d.judged(), "nothing");
    d.release(2, condition::broken);
    EXPECT_EQ(d.judged(), "nothing");
    d.release(0);
    EXPECT_EQ(d.judged(), "succeeded: 1");
}

// Half-open: the open that the only probe needs does not close the circuit.
TEST(machine_breaker, does_not_recover_by_an_open) {
    dialogue d({.max = 4});
    d.go(one_tries);
    d.ask(1);
    d.opened(0);
    EXPECT_EQ(d.judged(), "nothing");
    EXPECT_EQ(d.ask(2), "refused: unavailable");
    d.release(0);
    EXPECT_EQ(d.judged(), "succeeded: 1");
}

// And refills the minimum when it recovers: else an unused pool would never be ready
// again.
TEST(machine_breaker, opens_and_probes_nothing_of_its_own_accord_while_inactive) {
    dialogue d({.max = 4, .min_size = 3, .heartbeat = 1s});
    d.fill(3);
    d.ask(1);
    d.ask(2);
    d.go(inactive);
    for (slot_id id : {d.slot_of(1), d.slot_of(2)}) {
        d.release(id, condition::discard);
        d.closed(id);
    }
    d.pass(10min);
    EXPECT_EQ(d.it.count(slot_state::opening), 0u);
    EXPECT_EQ(d.it.count(slot_state::probing), 0u);
    d.go(one_tries);
    EXPECT_EQ(d.it.count(slot_state::opening), 2u);
}

// What hung since an earlier recovery says nothing about this one.
TEST(machine_breaker, does_not_hear_of_trials_of_an_earlier_recovery) {
    dialogue d({.max = 4});
    d.fill(2);
    d.go({.to = breaker_state::recovering, .probes = 2});
    d.ask(1);
    d.go(inactive);
    d.go({.to = breaker_state::recovering, .probes = 2});
    d.ask(2);
    slot_id old = d.slot_of(1);
    slot_id young = d.slot_of(2);
    d.release(old);
    EXPECT_EQ(d.judged(), "nothing");
    d.release(young);
    EXPECT_EQ(d.judged(), "succeeded: 1");
}

TEST(machine_breaker, hears_nothing_of_a_lease_that_was_not_used) {
    dialogue d({.max = 4});
    d.fill(2);
    d.go({.to = breaker_state::recovering, .probes = 2});
    d.ask(1);
    d.ask(2);
    d.release(d.slot_of(1), condition::unused);
    EXPECT_EQ(d.judged(), "nothing");
    d.release(d.slot_of(2), condition::dirty_unused);
    EXPECT_EQ(d.judged(), "nothing");
    EXPECT_EQ(d.it.count(slot_state::closing) + d.it.count(slot_state::resetting), 1u);
}

TEST(machine_breaker, drops_a_ruling_from_before_another_move) {
    dialogue d({});
    std::uint64_t seen = d.it.breaker().moves();
    d.go(inactive);
    EXPECT_FALSE(d.follow(seen, active));
    EXPECT_EQ(d.it.breaker().state(), breaker_state::inactive);
    EXPECT_TRUE(d.follow(d.it.breaker().moves(), active));
    EXPECT_EQ(d.it.breaker().state(), breaker_state::active);
}

TEST(machine_breaker, says_when_to_come_again) {
    dialogue d({});
    d.go(inactive);
    EXPECT_EQ(d.it.retry_after(d.now), 1s);
    d.pass(400ms);
    EXPECT_EQ(d.it.retry_after(d.now), 600ms);
}

// Ten releases a second, five in line: the sixth is served after six tenths.
TEST(machine_breaker, estimates_the_wait_from_the_rate_of_release) {
    dialogue d({.max = 1});
    d.fill(1);
    for (std::uint64_t who = 1; who <= 30; ++who) {
        d.ask(who);
        d.pass(100ms);
        d.release(0);
    }
    d.ask(100);
    for (std::uint64_t who = 101; who <= 105; ++who) d.ask(who);
    EXPECT_NEAR(std::chrono::duration<double>(d.it.retry_after(d.now)).count(), 0.6, 0.1);
}

TEST(machine_breaker, estimates_the_wait_from_slow_releases_too) {
    dialogue d({.max = 1}, {}, true);  // reports: no express
    d.fill(1);
    d.pass(200ms);
    EXPECT_EQ(d.it.retry_after(d.now), 200ms);
}

TEST(machine_breaker, estimates_a_wait_of_a_millisecond_to_a_minute) {
    dialogue fast({.max = 1}, {}, true);
    fast.fill(1);
    for (int i = 0; i < 5000; ++i) {
        fast.ask(1);
        fast.release(0);
    }
    EXPECT_EQ(fast.it.retry_after(fast.now), 1ms);
    dialogue slow({.max = 1, .line_max = 1000});
    slow.ask(1);
    for (std::uint64_t who = 2; who <= 601; ++who) slow.ask(who);
    EXPECT_EQ(slow.it.retry_after(slow.now), 1min);
    dialogue few({.max = 1});
    few.ask(1);
    few.ask(2);
    few.ask(3);
    EXPECT_EQ(few.it.retry_after(few.now), 400ms) << "after three others";
}

TEST(machine_breaker, another_strategy_hears_nothing_of_earlier_successes) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.release(0);
    d.it.forget_successes(d.now);
    d.pass(circuit::tell_every);
    d.ask(1);
    d.release(0);
    EXPECT_EQ(d.judged(), "succeeded: 1");
}

TEST(machine_breaker, counts_trials_that_have_not_ended_against_fewer_probes) {
    dialogue d({.max = 1});
    d.fill(1);
    d.go({.to = breaker_state::recovering, .cool_down = 1s, .probes = 4});
    EXPECT_EQ(d.ask(1), "got 0");
    EXPECT_EQ(d.ask(2), "waits");
    EXPECT_EQ(d.ask(3), "waits");
    d.go({.to = breaker_state::recovering, .cool_down = 1s, .probes = 2});
    EXPECT_EQ(d.said(), "3 refused: unavailable");
}

}  // namespace
}  // namespace cenote::core
