// How many opens, and when: the decision as a function of a few numbers.
#include "core/pacer.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

using namespace std::chrono_literals;

constexpr backoff spacing{.first = 20ms, .cap_waiting = 200ms, .cap_idle = 5s};
constexpr instant start = instant{} + 1h;

TEST(missing, is_nothing_when_no_caller_wants_anything) {
    EXPECT_FALSE(missing({.max = 10}).any());
    EXPECT_FALSE(missing({.max = 10, .min_size = 2, .leased = 2}).any());
}

TEST(missing, counts_the_minimum_against_all_that_live_or_come) {
    EXPECT_EQ(missing({.max = 10, .min_size = 5}).of_minimum, 5u);
    EXPECT_EQ(missing({.max = 10, .min_size = 5, .idle = 1, .leased = 1}).of_minimum, 3u);
    EXPECT_EQ(missing({.max = 10, .min_size = 5, .opening = 2, .returning = 1}).of_minimum, 2u);
}

TEST(missing, counts_waiters_against_what_comes) {
    EXPECT_EQ(missing({.max = 10, .wanted = 3}).of_spares, 3u);
    EXPECT_EQ(missing({.max = 10, .opening = 1, .returning = 1, .wanted = 3}).of_spares, 1u);
    EXPECT_EQ(missing({.max = 10, .leased = 5, .wanted = 3}).of_spares, 3u);
}

TEST(missing, keeps_spares_beyond_the_waiters) {
    EXPECT_EQ(missing({.max = 10, .min_idle = 2}).of_spares, 2u);
    EXPECT_EQ(missing({.max = 10, .min_idle = 2, .idle = 1, .leased = 4}).of_spares, 1u);
    EXPECT_EQ(missing({.max = 10, .min_idle = 2, .opening = 3, .wanted = 3}).of_spares, 2u);
}

TEST(pacer, opens_all_that_is_missing_when_nothing_lives) {
    pacer p(spacing, 4);
    EXPECT_EQ(p.allowed(start, {.max = 10, .wanted = 3}), 3u);
    EXPECT_EQ(p.allowed(start, {.max = 10, .wanted = 9}), 4u);
}

TEST(pacer, stays_within_max) {
    pacer p(spacing, 4);
    EXPECT_EQ(p.allowed(start, {.max = 10, .total = 9, .leased = 9, .wanted = 5}), 1u);
    EXPECT_EQ(p.allowed(start, {.max = 10, .total = 10, .leased = 9, .wanted = 5}), 0u);
    EXPECT_EQ(p.next_chance(), never);
}

TEST(pacer, opens_one_at_a_time_while_resources_circulate) {
    pacer p(spacing, 4);
    EXPECT_EQ(p.allowed(start, {.max = 10, .total = 2, .leased = 2, .wanted = 5}), 1u);
    p.started(start);
    supply next{.max = 10, .total = 3, .leased = 2, .opening = 1, .wanted = 5};
    EXPECT_EQ(p.allowed(start, next), 0u);
    EXPECT_EQ(p.next_chance(), start + pacer::patience);
    EXPECT_EQ(p.allowed(start + pacer::patience, next), 1u);
}

TEST(pacer, widens_after_a_success_while_more_are_missing) {
    pacer p(spacing, 4);
    supply s{.max = 20, .total = 2, .leased = 2, .wanted = 9};
    EXPECT_EQ(p.allowed(start, s), 1u);
    p.succeeded(start, start, true);
    EXPECT_EQ(p.allowed(start, s), 2u);
    p.succeeded(start, start, true);
    p.succeeded(start, start, true);
    EXPECT_EQ(p.allowed(start, s), 4u);
}

TEST(pacer, narrows_when_nothing_is_missing) {
    pacer p(spacing, 4);
    supply s{.max = 20, .total = 2, .leased = 2, .wanted = 9};
    p.succeeded(start, start, true);
    EXPECT_EQ(p.allowed(start, s), 2u);
    EXPECT_EQ(p.allowed(start, {.max = 20, .total = 2, .leased = 2}), 0u);
    EXPECT_EQ(p.allowed(start, s), 1u);
}

TEST(pacer, opens_a_missing_minimum_as_fast_as_opening_max_allows) {
    pacer p(spacing, 4);
    EXPECT_EQ(p.allowed(start, {.max = 20, .min_size = 10, .total = 1, .leased = 1}), 4u);
}

TEST(pacer, waits_for_the_backoff_after_a_failure) {
    pacer p(spacing, 4);
    dice random(1);
    supply s{.max = 10, .wanted = 2};
    EXPECT_TRUE(p.well());
    p.failed(start, start - 1ms, random);
    EXPECT_FALSE(p.well());
    EXPECT_EQ(p.allowed(start, s), 0u);
    instant due = p.next_chance();
    EXPECT_GE(due, start - 1ms + 16ms);  // from its beginning
    EXPECT_LE(due, start - 1ms + 24ms);
    EXPECT_EQ(p.allowed(due - 1ns, s), 0u);
    EXPECT_EQ(p.allowed(due, s), 1u);
}

TEST(pacer, waits_longer_while_no_caller_wants_anything) {
    pacer p(spacing, 4);
    dice random(1);
    for (int i = 0; i < 20; ++i) p.failed(start + i * 1s, start + i * 1s, random);
    instant last = start + 19s;
    EXPECT_LE(p.due(true), last + 240ms);
    EXPECT_GE(p.due(true), last + 160ms);
    EXPECT_LE(p.due(false), last + 6s);
    EXPECT_GE(p.due(false), last + 4s);
}

TEST(pacer, counts_failures_that_began_together_once) {
    pacer p(spacing, 4);
    dice random(1);
    p.failed(start, start - 10ms, random);
    instant due = p.due(true);
    p.failed(start + 1ms, start - 10ms, random);
    EXPECT_EQ(p.due(true), due);
}

TEST(pacer, is_well_again_after_a_success) {
    pacer p(spacing, 4);
    dice random(1);
    p.failed(start, start, random);
    p.succeeded(start + 2ms, start + 1ms, false);
    EXPECT_TRUE(p.well());
    EXPECT_EQ(p.due(true), long_ago);
}

TEST(pacer, is_not_well_again_after_a_success_that_began_before_the_failure) {
    pacer p(spacing, 4);
    dice random(1);
    p.failed(start, start - 5ms, random);
    p.succeeded(start, start - 5ms, false);
    EXPECT_FALSE(p.well());
}

// With any shortage and at any speed.
TEST(pacer, never_starts_more_than_the_bucket_gives) {
    for (std::uint64_t per_second : {1u, 3u, 7u, 100u}) {
        for (std::uint64_t burst : {1u, 2u, 10u}) {
            pacer p({}, 1000, {.per_second = per_second, .burst = burst});
            supply s{.max = 1000, .min_size = 1000};
            std::vector<instant> starts;
            instant begin = instant{} + 1h;
            for (instant now = begin; now < begin + 20s; now = p.next_chance()) {
                while (std::size_t n = p.allowed(now, s))
                    for (; n > 0; --n) {
                        p.started(now);
                        starts.push_back(now);
                        ++s.total;
                        ++s.idle;
                    }
                if (s.total == s.max) break;
            }
            EXPECT_GE(starts.size(), std::min<std::size_t>(1000, 19 * per_second + burst));
            for (std::size_t from = 0; from < starts.size(); ++from) {
                std::size_t within = 0;
                while (from + within < starts.size() && starts[from + within] < starts[from] + 1s)
                    ++within;
                EXPECT_LE(within, burst + per_second);
            }
        }
    }
}

TEST(pacer, fills_the_bucket_while_nothing_is_missing) {
    pacer p({}, 1000, {.per_second = 10, .burst = 5});
    instant now = instant{} + 1h;
    supply s{.max = 1000, .min_size = 1000};
    EXPECT_EQ(p.allowed(now, s), 5u);
    for (int i = 0; i < 5; ++i) p.started(now);
    EXPECT_EQ(p.allowed(now, s), 0u);
    EXPECT_EQ(p.next_chance(), now + 100ms);
    EXPECT_EQ(p.allowed(now + 250ms, s), 2u);
    EXPECT_EQ(p.allowed(now + 1h, s), 5u);
}

TEST(pacer, opens_one_more_when_what_returns_takes_long_and_then_needs_no_timer) {
    pacer p(spacing, 4);
    supply s{.max = 10, .total = 2, .returning = 2, .wanted = 2};
    EXPECT_EQ(p.allowed(start, s), 0u);
    EXPECT_EQ(p.next_chance(), start + pacer::patience);
    p.started(start - 10ms);
    EXPECT_EQ(p.allowed(start + pacer::patience, s), 1u);
    EXPECT_EQ(p.next_chance(), never) << "one is enough";
}

TEST(pacer, needs_no_timer_while_all_that_is_missing_may_be_opened) {
    pacer p(spacing, 4);
    EXPECT_EQ(p.next_chance(), never);
    p.started(start);
    EXPECT_EQ(p.allowed(start, {.max = 10, .total = 1, .opening = 1, .wanted = 2}), 1u);
    EXPECT_EQ(p.next_chance(), never);
}

TEST(pacer, doubles_its_backoff_no_more_than_twenty_nine_times) {
    pacer p({.first = 1us, .cap_waiting = 24h, .cap_idle = 24h}, 4);
    dice random(1);
    instant now = start;
    for (int i = 0; i < 40; ++i) p.failed(now += 1ms, now, random);
    duration most = 1us * (std::int64_t{1} << 29);
    EXPECT_LE(p.due(true), now + most / 1000 * 1200);
    EXPECT_GE(p.due(true), now + most / 1000 * 800);
}

}  // namespace
}  // namespace cenote::core
