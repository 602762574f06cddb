// What a failed open means to waiters, and when the next one is tried.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

constexpr backoff spacing{.first = 20ms, .cap_waiting = 200ms, .cap_idle = 5s};

bool about(duration measured, duration expected) {
    return measured >= expected * 8 / 10 && measured <= expected * 12 / 10;
}

/// Fails every open until `count` have failed; the delays between them.
std::vector<duration> delays(dialogue& d, std::size_t count) {
    std::vector<duration> result;
    while (result.size() < count) {
        d.opened(0, outcome::failed);
        result.push_back(d.it.wake_at() - d.now);
        d.pass(result.back() - 1ns);
        EXPECT_EQ(d.said(), "nothing");
        d.pass(1ns);
        EXPECT_EQ(d.said(), "open 0");
    }
    return result;
}

TEST(machine_open_failed, frees_its_slot_and_is_retried_after_the_backoff) {
    dialogue d({.backoff = spacing});
    d.ask(1);
    d.opened(0, outcome::failed);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.total(), 0u);
    duration delay = d.it.wake_at() - d.now;
    EXPECT_TRUE(about(delay, 20ms));
    d.pass(delay);
    EXPECT_EQ(d.said(), "open 0");
    d.opened(0);
    EXPECT_EQ(d.said(), "1 gets 0");
}

TEST(machine_open_failed, is_retried_soon_while_a_caller_waits) {
    dialogue d({.backoff = spacing});
    d.ask(1);
    auto measured = delays(d, 8);
    constexpr std::array expected = {20ms, 40ms, 80ms, 160ms, 200ms, 200ms, 200ms, 200ms};
    for (std::size_t i = 0; i < measured.size(); ++i)
        EXPECT_TRUE(about(measured[i], expected[i])) << i << ": " << measured[i].count();
}

TEST(machine_open_failed, is_retried_ever_more_rarely_while_no_caller_waits) {
    dialogue d({.min_size = 1, .backoff = spacing});
    auto measured = delays(d, 12);
    duration expected = 20ms;
    for (duration delay : measured) {
        EXPECT_TRUE(about(delay, expected)) << delay.count();
        expected = std::min<duration>(expected * 2, 5s);
    }
}

TEST(machine_open_failed, is_retried_sooner_when_a_caller_comes) {
    dialogue d({.min_size = 1, .backoff = spacing});
    delays(d, 10);
    d.opened(0, outcome::failed);
    EXPECT_TRUE(about(d.it.wake_at() - d.now, 5s));
    d.ask(1);
    EXPECT_TRUE(about(d.it.wake_at() - d.now, 200ms));
    d.cancel(1);
    EXPECT_TRUE(about(d.it.wake_at() - d.now, 5s));
}

TEST(machine_open_failed, draws_its_jitter_once) {
    dialogue d({.backoff = spacing});
    d.ask(1);
    d.opened(0, outcome::failed);
    instant due = d.it.wake_at();
    for (int i = 0; i < 10; ++i) {
        d.pass(1ms);
        EXPECT_EQ(d.it.wake_at(), due);
    }
}

TEST(machine_open_failed, draws_another_jitter_with_another_seed) {
    std::map<duration, int> seen;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        dialogue d({.backoff = spacing}, {}, false, seed);
        d.ask(1);
        d.opened(0, outcome::failed);
        ++seen[d.it.wake_at() - d.now];
    }
    EXPECT_GT(seen.size(), 10u);
}

TEST(machine_open_failed, counts_once_when_several_fail_together) {
    dialogue d({.min_size = 4, .backoff = spacing});
    d.pass(1ms);
    for (slot_id id = 0; id < 4; ++id) d.opened(id, outcome::failed);
    EXPECT_TRUE(about(d.it.wake_at() - d.now, 20ms));
}

TEST(machine_open_failed, is_retried_by_one_until_one_succeeds) {
    dialogue d({.min_size = 4, .backoff = spacing});
    d.pass(1ms);
    for (slot_id id = 0; id < 4; ++id) d.opened(id, outcome::failed);
    d.pass(24ms);
    EXPECT_EQ(d.opening(), 1u);
    d.pass(25ms);
    EXPECT_EQ(d.opening(), 1u);
    d.finish_calls();
    EXPECT_EQ(d.idle(), 4u);
}

TEST(machine_open_failed, is_forgotten_after_a_success) {
    dialogue d({.max = 1, .backoff = spacing});
    d.ask(1);
    delays(d, 6);
    d.opened(0);
    d.release(0, condition::discard);
    d.ask(2);
    d.closed(0);
    EXPECT_EQ(d.said(), "open 0");
    EXPECT_TRUE(about(delays(d, 1).front(), 20ms));
}

TEST(machine_open_failed, spaces_opens_per_pool_not_per_waiter) {
    dialogue d({.backoff = spacing});
    d.ask(1);
    d.opened(0, outcome::failed);
    for (std::uint64_t who = 2; who <= 20; ++who) {
        EXPECT_EQ(d.ask(who), "waits");
        EXPECT_EQ(d.said(), "nothing");
    }
    d.pass(24ms);
    EXPECT_EQ(d.said(), "open 0");
}

// Not even if the next attempt comes too late for it: a timeout of 5 s is never shortened.
TEST(machine_open_failed, refuses_no_caller_before_its_deadline) {
    dialogue d({.backoff = spacing});
    d.ask(1, 15ms);
    d.ask(2, 1s);
    d.opened(1, outcome::failed);
    d.opened(0, outcome::failed);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(14ms);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ms);
    EXPECT_EQ(d.said(), "1 refused: timed_out");
    EXPECT_TRUE(d.it.anyone_waits());
}

TEST(machine_open_failed, spares_the_head_if_a_lease_may_come_back_in_time) {
    dialogue d({.max = 2, .backoff = spacing});
    d.fill(1);
    d.ask(1);
    d.ask(2, 15ms);
    d.opened(1, outcome::failed);
    EXPECT_EQ(d.said(), "nothing");
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_open_failed, spares_the_head_if_another_open_is_in_flight) {
    dialogue d({.backoff = spacing});
    d.ask(1, 15ms);
    d.ask(2, 15ms);
    d.opened(0, outcome::failed);
    EXPECT_EQ(d.said(), "nothing");
    d.opened(1);
    EXPECT_EQ(d.slot_of(1), 1u);
}

TEST(machine_open_failed, lets_timeouts_carry_on_under_backoff) {
    dialogue d({.max = 2, .backoff = spacing});
    d.fill(1);
    d.ask(1);
    d.ask(2, 15ms);
    d.opened(1, outcome::failed);
    d.pass(15ms);
    EXPECT_EQ(d.said(), "2 refused: timed_out");
}

TEST(machine_open_failed, goes_to_the_head_at_once_if_it_is_final) {
    dialogue d({.max = 2, .backoff = spacing});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.ask(3);
    d.opened(1, outcome::failed_finally);
    EXPECT_EQ(d.said(), "2 refused: open_failed");
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_open_failed, goes_to_all_if_it_is_final_and_nothing_is_alive) {
    dialogue d({.opening_max = 1, .backoff = spacing});
    d.ask(1);
    d.ask(2);
    d.ask(3);
    d.opened(0, outcome::failed_finally);
    EXPECT_EQ(d.said(), "1 refused: open_failed, 2 refused: open_failed, 3 refused: open_failed");
    d.pass(1h);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_open_failed, goes_to_the_head_at_once_if_the_pool_fails_fast) {
    dialogue d({.max = 2, .backoff = spacing, .open_errors = open_errors::fail_fast});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.ask(3);
    d.opened(1, outcome::failed);
    EXPECT_EQ(d.said(), "2 refused: open_failed");
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_open_failed, goes_to_all_if_the_pool_fails_fast_and_nothing_is_alive) {
    dialogue d({.open_timeout = 1s,
                .opening_max = 1,
                .backoff = spacing,
                .open_errors = open_errors::fail_fast});
    d.ask(1);
    d.ask(2);
    d.opened(0, outcome::failed);
    EXPECT_EQ(d.said(), "1 refused: open_failed, 2 refused: open_failed");
    // The next caller waits for the next open, and learns that it has timed out.
    EXPECT_EQ(d.ask(3), "waits");
    d.pass(d.it.wake_at() - d.now);
    EXPECT_EQ(d.said(), "open 0");
    d.pass(1s);
    EXPECT_EQ(d.said(), "abandon 0, 3 refused: open_failed");
}

TEST(machine_open_failed, does_not_stop_the_refill) {
    dialogue d({.min_size = 1, .backoff = spacing});
    for (int i = 0; i < 100; ++i) {
        d.opened(0, outcome::failed);
        instant failed = d.now;
        while (d.said() != "open 0") d.pass(d.it.wake_at() - d.now);
        ASSERT_LE(d.now - failed, 6s);  // spacing.cap_idle and a fifth
    }
    d.opened(0);
    EXPECT_TRUE(d.it.ready());
}

TEST(machine_unfit, new_ones_are_opened_again_under_the_backoff) {
    dialogue d({.max = 1, .backoff = {.first = 100ms, .cap_waiting = 100ms, .cap_idle = 1s}});
    d.ask(7);
    d.opened(0);
    d.ask({.deadline = never, .cookie = 7, .ticket = d.ticket, .arrived = d.now, .again = true});
    d.release(0, condition::unfit);
    d.closed(0);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(79ms);
    EXPECT_EQ(d.opening(), 0u);
    d.pass(42ms);
    EXPECT_EQ(d.opening(), 1u);
}

TEST(machine_unfit, ones_that_have_served_are_replaced_at_once) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(7);
    d.ask({.deadline = never, .cookie = 7, .ticket = d.ticket, .arrived = d.now, .again = true});
    d.release(0, condition::unfit);
    d.closed(0);
    EXPECT_EQ(d.said(), "open 0");
}

}  // namespace
}  // namespace cenote::core
