// Dice: a seed gives the same numbers on every machine and for ever.
#include "core/dice.hpp"

#include <array>

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

TEST(dice, gives_the_published_numbers_of_splitmix64) {
    dice d(1234567);
    EXPECT_EQ(d.next(), 6457827717110365317u);
    EXPECT_EQ(d.next(), 3203168211198807973u);
    EXPECT_EQ(d.next(), 9817491932198370423u);
}

TEST(dice, gives_other_numbers_with_another_seed) { EXPECT_NE(dice(1).next(), dice(2).next()); }

TEST(dice, stays_below) {
    dice d(1);
    EXPECT_EQ(d.below(0), 0u);
    EXPECT_EQ(d.below(1), 0u);
    std::array<int, 6> seen{};
    for (int i = 0; i < 6000; ++i) ++seen.at(d.below(6));
    for (int count : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(dice, takes_a_chance_as_often_as_was_said) {
    dice d(1);
    int taken = 0;
    for (int i = 0; i < 10'000; ++i) taken += d.chance(30);
    EXPECT_NEAR(taken, 3000, 200);
    for (int i = 0; i < 10'000; ++i) {
        EXPECT_FALSE(d.chance(0));
        EXPECT_TRUE(d.chance(100));
    }
}

}  // namespace
}  // namespace cenote::core
