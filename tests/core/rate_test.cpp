// Tests the estimated time between events.
#include "core/rate.hpp"

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

using namespace std::chrono_literals;

constexpr instant start{1h};
constexpr duration unknown = 7ms;

/// Events every `each` from `from` on, before `until`.
void note(rate& r, instant from, instant until, duration each) {
    for (instant at = from; at < until; at += each) r.note(at);
}

TEST(rate, is_unknown_before_the_first_event) {
    EXPECT_EQ(rate{}.interval(start, unknown), unknown);
}

TEST(rate, is_that_of_the_present_window_at_first) {
    rate r;
    note(r, start, start + 500ms, 100ms);
    EXPECT_EQ(r.interval(start + 500ms, unknown), 100ms);
}

TEST(rate, takes_the_window_before_into_account) {
    rate r;
    note(r, start, start + 1s, 100ms);
    note(r, start + 1s, start + 1500ms, 50ms);
    EXPECT_EQ(r.interval(start + 1500ms, unknown), 1500ms / 20);
}

TEST(rate, forgets_a_window_that_was_not_the_last) {
    rate r;
    note(r, start, start + 1s, 10ms);
    r.note(start + 2s);
    EXPECT_EQ(r.interval(start + 2100ms, unknown), 100ms);
}

TEST(rate, keeps_a_window_for_two_seconds) {
    rate r;
    note(r, start, start + 1s, 100ms);
    EXPECT_EQ(r.interval(start + 2s - 1ns, unknown), (2s - 1ns) / 10);
    EXPECT_EQ(r.interval(start + 2s, unknown), unknown);
    r.note(start + 2s - 1ns);
    EXPECT_EQ(r.interval(start + 2s - 1ns, unknown), duration{1s} / 11)
        << "the first window counts";
}

}  // namespace
}  // namespace cenote::core
