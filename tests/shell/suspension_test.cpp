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
    std::chrono::nanoseconds boot = 250s;  // it was suspended before, and nobody cares
    suspension seen{2s, now, boot};

    void run(std::chrono::nanoseconds time) {
        now += time;
        boot += time;
    }
    void suspend(std::chrono::nanoseconds time) { boot += time; }
    bool noticed() { return seen.noticed(now, boot); }
};

}  // namespace

TEST_F(suspension_test, is_none_if_both_clocks_go_on) {
    EXPECT_FALSE(noticed());
    run(1h);
    EXPECT_FALSE(noticed());
}

TEST_F(suspension_test, is_noticed_once) {
    run(1s);
    suspend(5s);
    run(1ms);
    EXPECT_TRUE(noticed());
    EXPECT_FALSE(noticed());
    run(1h);
    EXPECT_FALSE(noticed());
    suspend(3s);
    EXPECT_TRUE(noticed());
}

TEST_F(suspension_test, is_tolerated_if_short) {
    suspend(2s);
    EXPECT_FALSE(noticed());
    suspend(2s + 1ns);
    EXPECT_TRUE(noticed());
}

TEST_F(suspension_test, of_short_ones_each_is_judged_alone_unless_nobody_has_looked) {
    for (int i = 0; i < 10; ++i) {
        suspend(1s);
        EXPECT_FALSE(noticed());
    }
    suspend(1s);
    run(1s);
    suspend(1500ms);
    EXPECT_TRUE(noticed());
}

TEST_F(suspension_test, is_none_if_the_clocks_are_read_one_after_the_other) {
    EXPECT_FALSE(seen.noticed(now, boot + 1s));
    EXPECT_FALSE(seen.noticed(now + 1s, boot + 1s));
}

TEST_F(suspension_test, the_time_since_boot_goes_on) {
    auto first = cenote::shell::time_since_boot();
    EXPECT_GT(first, 0ns);
    EXPECT_GE(cenote::shell::time_since_boot(), first);
}
