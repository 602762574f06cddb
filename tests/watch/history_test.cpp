// The samples of a pool: what a second says, and what the last seconds say.
#include "watch/history.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "watch/parsed.hpp"

namespace cenote::detail {
namespace {

using namespace std::chrono_literals;

TEST(dashboard_sample, covers_the_time_between_two_stats) {
    stats before;
    before.granted = 100;
    before.wait.buckets[histogram::bucket_of(1s)] = 50;
    stats after = before;
    after.granted = 150;
    after.refused_by_reason[0] = 5;
    after.leased = 3;
    after.waiting = 2;
    after.wait.buckets[histogram::bucket_of(1ms)] += 99;
    after.wait.buckets[histogram::bucket_of(10ms)] += 1;
    sample s = between(before, after, 0.5);
    EXPECT_EQ(s.granted, 100);
    EXPECT_EQ(s.refused, 10);
    EXPECT_EQ(s.leased, 3);
    EXPECT_EQ(s.waiting, 2);
    EXPECT_NEAR(s.wait_p50, 1e-3, 0.3e-3);
    EXPECT_LT(s.wait_p99, 0.02);
    EXPECT_TRUE(std::isnan(s.hold_p50)) << "no lease has ended";
}

TEST(dashboard_sample, never_goes_below_zero) {
    stats before;
    before.granted = 10;
    before.refused_by_reason[1] = 5;
    before.wait.buckets[3] = 7;
    EXPECT_EQ(between(before, stats{}, 0).granted, 0);
    sample s = between(before, stats{}, 1);
    EXPECT_EQ(s.granted, 0);
    EXPECT_EQ(s.refused, 0);
    EXPECT_TRUE(std::isnan(s.wait_p50));
}

TEST(dashboard_history, keeps_five_minutes) {
    history h;
    for (std::uint64_t i = 1; i <= 1000; ++i) h.add(i, {.granted = static_cast<double>(i)});
    auto all = parsed(h.json(0));
    EXPECT_EQ(all.at("first"), 701);
    EXPECT_EQ(all.at("granted").as_array().size(), 300);
    EXPECT_EQ(all.at("granted").at(299).to_number<int>(), 1000);
}

TEST(dashboard_history, keeps_an_hour_and_a_day_in_coarser_samples) {
    history h;
    constexpr std::uint64_t two_days = 2 * 86'400;
    for (std::uint64_t second = 1; second <= two_days; ++second)
        h.add(second, {.granted = static_cast<double>(second % 12),
                       .leased = second % 2 == 0 ? 4.0 : 2.0,
                       .max = 8,
                       .waiting = second % 12 == 5 ? 7.0 : 0.0,
                       .wait_p99 = second % 12 == 3 ? 0.5 : 0.1});
    for (std::uint64_t step : history::steps) {
        auto all = parsed(h.json(0, step));
        EXPECT_EQ(all.at("step"), step);
        EXPECT_EQ(all.at("granted").as_array().size(), history::size_max) << "also after two days";
        EXPECT_EQ(all.at("first"), (two_days + 1) / step - history::size_max) << step;
        if (step == 1) continue;
        EXPECT_EQ(all.at("granted").at(7).to_number<double>(), 5.5) << "the mean";
        EXPECT_EQ(all.at("leased").at(7).to_number<double>(), 3) << "the mean";
        EXPECT_EQ(all.at("max").at(7), 8);
        EXPECT_EQ(all.at("waiting").at(7).to_number<double>(), 7) << "the worst";
        EXPECT_EQ(all.at("wait_p99").at(7).to_number<double>(), 0.5) << "the worst";
        EXPECT_TRUE(all.at("hold_p99").at(7).is_number());
    }
}

TEST(dashboard_history, sends_coarse_samples_once_and_when_they_are_complete) {
    history h;
    auto count = [&](std::uint64_t since) {
        return parsed(h.json(since, 12)).at("granted").as_array().size();
    };
    for (std::uint64_t second = 5; second <= 10; ++second) h.add(second, {.granted = 6});
    EXPECT_EQ(count(0), 0U) << "the sample of seconds 0 to 11 is not complete";
    h.add(11, {.granted = 6});
    EXPECT_EQ(count(0), 1U);
    EXPECT_EQ(count(10), 1U);
    EXPECT_EQ(count(11), 0U) << "the client has it";
    auto all = parsed(h.json(0, 12));
    EXPECT_EQ(all.at("first"), 0);
    EXPECT_EQ(all.at("granted").at(0).to_number<double>(), 6) << "of the seconds that were seen";
    for (std::uint64_t second = 12; second <= 30; ++second) h.add(second, {});
    EXPECT_EQ(count(11), 1U);
    EXPECT_EQ(parsed(h.json(11, 12)).at("first"), 1);
    EXPECT_EQ(count(1000), 0U);
}

TEST(dashboard_history, says_what_the_last_seconds_were_like) {
    history h;
    recent none = h.recently();
    EXPECT_EQ(none.seconds, 0U);
    EXPECT_EQ(none.granted, 0);
    EXPECT_TRUE(std::isnan(none.wait_p99));
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    h.add(1, {.granted = 1e6, .waiting = 1, .wait_p99 = 99, .unserved = 99, .open_failed = 99});
    for (std::uint64_t i = 2; i <= 11; ++i)
        h.add(i, {.granted = static_cast<double>(i),
                  .waiting = i % 2 == 0 ? 3.0 : 0.0,
                  .wait_p99 = i == 5   ? 0.25
                              : i == 6 ? 0.5
                                       : unknown,
                  .hold_p99 = unknown,
                  .unserved = 2,
                  .open_failed = 1});
    recent last = h.recently();
    EXPECT_EQ(last.seconds, history::recent_max) << "the first second is not among them";
    EXPECT_DOUBLE_EQ(last.granted, 6.5);
    EXPECT_EQ(last.unserved, 20);
    EXPECT_EQ(last.open_failed, 10);
    EXPECT_EQ(last.waiting, 5U);
    EXPECT_EQ(last.wait_p99, 0.5);
    EXPECT_TRUE(std::isnan(last.hold_p99));
}

TEST(dashboard_sample, counts_as_unserved_what_the_program_did_not_cause) {
    stats before;
    stats after;
    after.refused_by_reason[static_cast<std::size_t>(errc::canceled) - 1] = 5;
    after.refused_by_reason[static_cast<std::size_t>(errc::closed) - 1] = 7;
    after.refused_by_reason[static_cast<std::size_t>(errc::timed_out) - 1] = 2;
    after.open_failed = 3;
    sample s = between(before, after, 2);
    EXPECT_EQ(s.refused, 7);
    EXPECT_EQ(s.unserved, 2);
    EXPECT_EQ(s.open_failed, 3);
}

}  // namespace
}  // namespace cenote::detail
