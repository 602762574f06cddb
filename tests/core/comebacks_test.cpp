// Tests whether threads are likely to come back for what is set aside for them.
#include "core/comebacks.hpp"

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

void come(comebacks& c, int times) {
    for (int i = 0; i < times; ++i) c.came();
}

TEST(comebacks, are_likely_at_first) { EXPECT_TRUE(comebacks{}.are_likely(0)); }

TEST(comebacks, are_unlikely_for_some_lends_after_a_thread_did_not_come) {
    comebacks c;
    c.missed(10);
    EXPECT_FALSE(c.are_likely(10));
    EXPECT_FALSE(c.are_likely(73));
    EXPECT_TRUE(c.are_likely(74));
}

TEST(comebacks, pauses_grow_up_to_a_limit) {
    comebacks c;
    std::uint64_t lends = 0;
    for (std::uint64_t pause = 64; pause <= 4096; pause *= 2) {
        c.missed(lends);
        EXPECT_FALSE(c.are_likely(lends + pause - 1));
        EXPECT_TRUE(c.are_likely(lends += pause));
    }
    c.missed(lends);
    EXPECT_TRUE(c.are_likely(lends + 4096)) << "not 8192";
}

TEST(comebacks, a_thread_that_comes_shortens_the_next_pause) {
    comebacks c;
    c.missed(0);
    c.missed(64);
    c.came();
    c.missed(1000);
    EXPECT_FALSE(c.are_likely(1063));
    EXPECT_TRUE(c.are_likely(1064));
}

TEST(comebacks, sixteen_threads_that_come_outweigh_one_that_does_not) {
    comebacks c;
    come(c, 16);
    c.missed(0);
    EXPECT_TRUE(c.are_likely(0));
    c.missed(0);
    EXPECT_FALSE(c.are_likely(0));
    comebacks fewer;
    come(fewer, 15);
    fewer.missed(0);
    EXPECT_FALSE(fewer.are_likely(0));
}

TEST(comebacks, count_for_two_misses_at_most) {
    comebacks c;
    come(c, 1000);
    c.missed(0);
    c.missed(0);
    EXPECT_TRUE(c.are_likely(0));
    c.missed(0);
    EXPECT_FALSE(c.are_likely(0));
}

TEST(comebacks, what_is_left_of_a_credit_is_lost_with_a_pause) {
    comebacks c;
    come(c, 15);
    c.missed(0);
    come(c, 15);
    c.missed(64);
    EXPECT_FALSE(c.are_likely(64)) << "15 and 15 are not 30";
}

TEST(comebacks, misses_during_a_pause_do_not_count) {
    comebacks c;
    c.missed(0);
    c.missed(10);
    EXPECT_TRUE(c.are_likely(64));
}

}  // namespace
}  // namespace cenote::core
