// Tests when a line is late, and from when on its waiters are refused early.
#include "core/shedder.hpp"

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

using namespace std::chrono_literals;

constexpr instant start{1h};

/// Target 10 ms, interval 100 ms, whose first interval begins at `start`.
shedder fresh() {
    shedder s({.target = 10ms, .interval = 100ms});
    s.roll(start);
    return s;
}

TEST(shedder, is_off_without_a_target) {
    shedder s({.target = forever});
    EXPECT_FALSE(s.on());
    s.served(start, 1h);
    s.served(start + 1h, 1h);
    EXPECT_EQ(s.limit(start), never);
    EXPECT_EQ(s.rolls_at(), never);
}

TEST(shedder, begins_with_a_line_that_is_not_late) {
    shedder s = fresh();
    EXPECT_TRUE(s.on());
    EXPECT_EQ(s.limit(start), never);
    EXPECT_EQ(s.rolls_at(), start + 100ms);
}

TEST(shedder, refuses_after_twice_the_target_when_every_wait_was_longer) {
    shedder s = fresh();
    s.served(start + 50ms, 30ms);
    s.served(start + 60ms, 11ms);
    EXPECT_EQ(s.limit(start), never) << "the interval has not ended";
    s.roll(start + 100ms);
    EXPECT_EQ(s.limit(start + 90ms), start + 110ms);
    EXPECT_EQ(s.rolls_at(), start + 200ms);
}

TEST(shedder, one_wait_of_the_target_is_short_enough) {
    shedder s = fresh();
    s.served(start + 50ms, 30ms);
    s.served(start + 60ms, 10ms);
    s.roll(start + 100ms);
    EXPECT_EQ(s.limit(start), never);
}

TEST(shedder, an_interval_in_which_none_was_served_is_late) {
    shedder s = fresh();
    s.roll(start + 100ms);
    EXPECT_NE(s.limit(start), never);
}

TEST(shedder, a_wait_at_the_end_of_an_interval_belongs_to_the_next) {
    shedder s = fresh();
    s.served(start + 100ms, 0ms);
    EXPECT_NE(s.limit(start), never);
    s.roll(start + 200ms);
    EXPECT_EQ(s.limit(start), never);
}

TEST(shedder, is_not_late_before_it_has_measured) {
    shedder s(
        {.target = std::chrono::milliseconds{20}, .interval = std::chrono::milliseconds{100}});
    EXPECT_EQ(s.limit(instant{} + std::chrono::hours{1}), never);
}

}  // namespace
}  // namespace cenote::core
