// When a difference between two clocks means that the system was suspended.
#include "shell/suspension.hpp"

#include <chrono>

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using cenote::core::instant;
using cenote::shell::suspension;

namespace {

/// Both clocks of a system.
struct suspension_test : testing::Test {
    instant now{100s};
    std::chrono::nanoseconds boot = 250s;  // it was suspended before
    suspension seen{2s, now, boot};

    void run(std::chrono::nanoseconds time) {
        now += time;
        boot += time;
    }
    void suspend(std::chrono::nanoseconds time) { boot += time; }
    bool detected() { return seen.take(now, boot); }
};

}  // namespace

TEST_F(suspension_test, is_not_seen_if_both_clocks_go_on) {
    EXPECT_FALSE(detected());
    run(1h);
    EXPECT_FALSE(detected());
}

TEST_F(suspension_test, is_detected_once) {
    run(1s);
    suspend(5s);
    run(1ms);
    EXPECT_TRUE(detected());
    EXPECT_FALSE(detected());
    run(1h);
    EXPECT_FALSE(detected());
    suspend(3s);
    EXPECT_TRUE(detected());
}

TEST_F(suspension_test, is_tolerated_if_short) {
    suspend(2s);
    EXPECT_FALSE(detected());
    suspend(2s + 1ns);
    EXPECT_TRUE(detected());
}

TEST_F(suspension_test, short_ones_add_up_only_between_two_looks) {
    for (int i = 0; i < 10; ++i) {
        suspend(1s);
        EXPECT_FALSE(detected());
    }
    suspend(1s);
    run(1s);
    suspend(1500ms);
    EXPECT_TRUE(detected());
}

TEST_F(suspension_test, is_not_seen_if_the_clocks_are_read_one_after_the_other) {
    EXPECT_FALSE(seen.take(now, boot + 1s));
    EXPECT_FALSE(seen.take(now + 1s, boot + 1s));
}

TEST_F(suspension_test, the_time_since_boot_goes_on) {
    auto first = cenote::shell::time_since_boot();
    EXPECT_GT(first, 0ns);
    EXPECT_GE(cenote::shell::time_since_boot(), first);
}
