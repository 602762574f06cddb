// Tests that adding to an instant, and subtracting from it, stays within time.
#include "core/instant.hpp"

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

using namespace std::chrono_literals;

TEST(after, adds) { EXPECT_EQ(after(instant{} + 1h, 5s), instant{} + 1h + 5s); }

TEST(after, ends_at_never) {
    EXPECT_EQ(after(instant{} + 1h, duration::max()), never);
    EXPECT_EQ(after(never, 1ns), never);
    EXPECT_EQ(after(never - 1ns, 1ns), never);
    EXPECT_EQ(after(never - 2ns, 1ns), never - 1ns);
}

TEST(after, leaves_long_ago_where_it_is) {
    EXPECT_EQ(after(long_ago, 1h), long_ago);
    EXPECT_EQ(after(long_ago, duration::max()), never);
}

TEST(before, subtracts) { EXPECT_EQ(before(instant{} + 1h, 5s), instant{} + 1h - 5s); }

TEST(before, leaves_never_where_it_is) {
    EXPECT_EQ(before(never, 1h), never);
    EXPECT_EQ(before(never, duration::max()), long_ago);
}

TEST(before, leaves_long_ago_where_it_is) { EXPECT_EQ(before(long_ago, 1h), long_ago); }

}  // namespace
}  // namespace cenote::core
