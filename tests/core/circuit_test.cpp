// Tests the circuit: how many it lets in, when its strategy is told, and when a retry may help.
#include "core/circuit.hpp"

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

using namespace std::chrono_literals;

constexpr instant start{1h};

struct in_state : circuit {
    explicit in_state(breaker_state to, std::chrono::nanoseconds cool_down = 1s,
                      std::size_t probes = 2) {
        go(start, {.to = to, .cool_down = cool_down, .probes = probes});
    }
};

TEST(circuit, lets_all_in_while_it_is_active) {
    circuit c;
    EXPECT_TRUE(c.lets_in(1000));
    EXPECT_TRUE(in_state(breaker_state::active).lets_in(1000));
}

TEST(circuit, lets_in_as_many_as_its_probes_while_it_recovers) {
    in_state c(breaker_state::recovering);
    EXPECT_TRUE(c.lets_in(1));
    EXPECT_FALSE(c.lets_in(2));
    EXPECT_TRUE(in_state(breaker_state::recovering, 1s, 0).lets_in(0)) << "at least one";
    EXPECT_FALSE(in_state(breaker_state::recovering, 1s, 0).lets_in(1));
}

TEST(circuit, lets_none_in_while_it_is_inactive) {
    EXPECT_FALSE(in_state(breaker_state::inactive).lets_in(0));
}

TEST(circuit, asks_its_strategy_after_each_cool_down) {
    in_state c(breaker_state::inactive);
    EXPECT_EQ(c.ask_at(), start + 1s);
    c.asked(start + 3s);
    EXPECT_EQ(c.ask_at(), start + 4s);
    EXPECT_EQ(in_state(breaker_state::recovering).ask_at(), never);
    EXPECT_EQ(in_state(breaker_state::inactive, 0s).ask_at(), start + circuit::shortest_cool_down);
}

TEST(circuit, suggests_to_retry_when_the_cool_down_ends) {
    in_state c(breaker_state::inactive);
    EXPECT_EQ(c.retry_after(start + 300ms), 700ms);
    EXPECT_EQ(c.retry_after(start + 1s), 0ms);
    EXPECT_EQ(c.retry_after(start + 2s), 0ms) << "the strategy is late";
}

TEST(circuit, suggests_to_retry_soon_where_no_cool_down_ends) {
    EXPECT_EQ(in_state(breaker_state::recovering).retry_after(start), 100ms);
    EXPECT_EQ(in_state(breaker_state::inactive, forever).retry_after(start), 100ms);
}

TEST(circuit, tells_of_successes_as_a_sum_while_it_is_active) {
    in_state c(breaker_state::active);
    EXPECT_EQ(c.tell_at(), start + circuit::tell_every);
    EXPECT_FALSE(c.note_success(start + 1ms));
    EXPECT_FALSE(c.note_success(start + 2ms));
    EXPECT_TRUE(c.note_success(start + 100ms));
    EXPECT_EQ(c.success_at(), start + 100ms);
    EXPECT_EQ(c.take_successes(start + 100ms), 3u);
    EXPECT_EQ(c.take_successes(start + 100ms), 0u);
    EXPECT_EQ(c.tell_at(), start + 200ms);
}

TEST(circuit, tells_of_each_success_while_it_recovers) {
    EXPECT_TRUE(in_state(breaker_state::recovering).note_success(start + 1ms));
}

TEST(circuit, forgets_successes_when_it_moves) {
    in_state c(breaker_state::active);
    c.count_success(start);
    c.go(start + 1ms, {.to = breaker_state::recovering});
    EXPECT_EQ(c.take_successes(start + 2ms), 0u);
    EXPECT_EQ(c.moves(), 2u);
}

}  // namespace
}  // namespace cenote::core
