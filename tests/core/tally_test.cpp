// Counters that one thread writes and others may read.
#include "core/tally.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

using namespace std::chrono_literals;

TEST(tally, counts_up_and_down) {
    tally t;
    EXPECT_EQ(t.get(), 0u);
    ++t;
    ++t;
    t.add(5);
    --t;
    EXPECT_EQ(t.get(), 6u);
    t.set(2);
    EXPECT_EQ(t.get(), 2u);
}

TEST(tally, may_be_read_while_it_changes) {
    tally t;
    std::jthread writer([&] {
        for (int i = 0; i < 100'000; ++i) ++t;
    });
    for (std::uint64_t last = 0; last < 100'000;) {
        std::uint64_t now = t.get();
        ASSERT_GE(now, last);
        last = now;
    }
}

TEST(tally_histogram, counts_values_in_the_buckets_of_a_histogram) {
    tally_histogram t;
    for (int i = 0; i < 99; ++i) t.record(1ms);
    t.record(1s);
    histogram h;
    t.read(h);
    EXPECT_EQ(h.count(), 100u);
    EXPECT_GE(h.quantile(0.5), 1ms);
    EXPECT_LE(h.quantile(0.5), 1250us);
    EXPECT_GE(h.quantile(1), 1s);
}

TEST(tally_histogram, reads_its_first_bucket_and_its_last) {
    tally_histogram t;
    t.record(0ns);
    t.record(duration_cast<std::chrono::nanoseconds>(24h * 365));
    histogram h;
    t.read(h);
    EXPECT_EQ(h.buckets.front(), 1u);
    EXPECT_EQ(h.buckets.back(), 1u);
}

}  // namespace
}  // namespace cenote::core
