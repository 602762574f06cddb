// The histogram of durations: its precision, and what is exact.
#include "cenote/times.hpp"

#include <gmock/gmock.h>

namespace {

using namespace std::chrono_literals;
using load::times;
using std::chrono::nanoseconds;

TEST(times, are_off_by_less_than_two_percent) {
    for (nanoseconds::rep value = 1; value < 3'600'000'000'000; value = value * 17 / 13 + 1) {
        times t;
        t.record(nanoseconds{value});
        t.record(1h);  // the maximum is exact, so it must be another value
        t.record(1h);
        auto middle = static_cast<double>(t.quantile(0.1).count());
        EXPECT_NEAR(middle, static_cast<double>(value), 0.016 * static_cast<double>(value));
    }
}

TEST(times, of_extremes_stay_in_bounds) {
    times t;
    t.record(-5ns);
    t.record(0ns);
    t.record(nanoseconds::max() / 4);
    EXPECT_EQ(t.count(), 3u);
    EXPECT_EQ(t.quantile(0), 0ns);
    EXPECT_EQ(t.max(), nanoseconds::max() / 4);
    EXPECT_EQ(times().quantile(0.5), 0ns);
    EXPECT_EQ(times().mean(), 0ns);
}

TEST(times, add_up) {
    times a, b;
    for (int i = 1; i <= 100; ++i) (i % 2 == 0 ? a : b).record(i * 1us);
    a += b;
    EXPECT_EQ(a.count(), 100u);
    EXPECT_EQ(a.mean(), 50500ns);
    EXPECT_EQ(a.max(), 100us);
    EXPECT_NEAR(static_cast<double>(a.quantile(0.9).count()), 90e3, 1.5e3);
    auto shares = a.shares(4);
    ASSERT_EQ(shares.size(), 4u);
    EXPECT_NEAR(static_cast<double>(shares[0].count()), 12.5e3, 1e3);
    EXPECT_NEAR(static_cast<double>(shares[3].count()), 87.5e3, 2e3);
}

TEST(times, rates_are_printed_without_needless_digits) {
    EXPECT_EQ(load::per_second(1234.4), "1234/s");
    EXPECT_EQ(load::per_second(1.25), "1.2/s");
}

}  // namespace
