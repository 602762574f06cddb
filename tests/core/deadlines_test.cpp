// Which of many deadlines comes first, also against a plain sorted multimap.
#include "core/deadlines.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "core/dice.hpp"

namespace cenote::core {
namespace {

using namespace std::chrono_literals;

instant at(std::int64_t ms) { return instant{} + std::chrono::milliseconds{ms}; }

TEST(deadlines, has_none_at_first) {
    deadlines d;
    d.reserve(4);
    EXPECT_EQ(d.earliest(), never);
    EXPECT_EQ(d.size(), 0u);
}

TEST(deadlines, takes_no_notice_of_never) {
    deadlines d;
    d.reserve(4);
    d.add(0, never);
    EXPECT_EQ(d.size(), 0u);
    d.remove(0);
    d.add(0, at(1));
    EXPECT_EQ(d.earliest(), at(1));
}

TEST(deadlines, finds_the_earliest_in_any_order_of_arrival) {
    deadlines d;
    d.reserve(8);
    std::int64_t arrivals[] = {40, 50, 10, 60, 20, 30};
    for (deadlines::id i = 0; i < 6; ++i) d.add(i, at(arrivals[i]));
    for (std::int64_t expected : {10, 20, 30, 40, 50, 60}) {
        d.check();
        EXPECT_EQ(d.earliest(), at(expected));
        d.remove(d.first());
    }
    EXPECT_EQ(d.earliest(), never);
}

TEST(deadlines, goes_by_the_tie_among_equals) {
    deadlines d;
    d.reserve(8);
    d.add(0, at(10), 30);
    d.add(5, at(10), 10);
    d.add(2, at(10), 20);
    d.add(7, at(9), 40);
    for (deadlines::id expected : {7u, 5u, 2u, 0u}) {
        EXPECT_EQ(d.first(), expected);
        d.remove(expected);
    }
}

TEST(deadlines, goes_by_number_among_equals_without_a_tie) {
    deadlines d;
    d.reserve(8);
    d.add(0, at(99));
    for (deadlines::id i : {5u, 2u, 7u}) d.add(i, at(10));
    EXPECT_EQ(d.first(), 2u);
    d.remove(2);
    EXPECT_EQ(d.first(), 5u);
}

TEST(deadlines, forgets_what_was_removed) {
    deadlines d;
    d.reserve(4);
    d.add(0, at(2));
    d.add(1, at(1));
    d.remove(1);
    EXPECT_EQ(d.first(), 0u);
    d.remove(1);
    EXPECT_EQ(d.size(), 1u);
}

TEST(deadlines, never_shrinks) {
    deadlines d;
    d.reserve(8);
    d.reserve(2);
    d.add(7, at(1));
    EXPECT_EQ(d.first(), 7u);
}

TEST(deadlines, keeps_its_entries_when_it_grows) {
    deadlines d;
    d.reserve(2);
    d.add(0, at(2));
    d.add(1, at(1));
    d.reserve(1000);
    d.add(999, at(0));
    d.check();
    EXPECT_EQ(d.first(), 999u);
    EXPECT_EQ(d.size(), 3u);
}

class deadlines_at_random : public testing::TestWithParam<std::uint64_t> {};

TEST_P(deadlines_at_random, agree_with_a_multimap) {
    dice random(GetParam());
    constexpr std::size_t entries = 256;  // three levels of the heap
    deadlines d;
    d.reserve(entries);
    std::multimap<instant, deadlines::id> naive;
    std::vector<instant> set(entries, never);
    std::int64_t clock = 0;
    for (int step = 0; step < 5000; ++step) {
        auto entry = static_cast<deadlines::id>(random.below(entries));
        clock += static_cast<std::int64_t>(random.below(3));
        if (set[entry] != never || random.chance(20)) {
            d.remove(entry);
            std::erase_if(naive, [&](const auto& e) { return e.second == entry; });
            set[entry] = never;
        } else {
            auto spread = GetParam() % 2 == 0 ? 1 : random.below(50);
            set[entry] = at(clock + static_cast<std::int64_t>(spread));
            d.add(entry, set[entry]);
            naive.emplace(set[entry], entry);
        }
        d.check();
        ASSERT_EQ(d.size(), naive.size());
        ASSERT_EQ(d.earliest(), naive.empty() ? never : naive.begin()->first);
        if (naive.empty()) continue;
        auto first = std::find(set.begin(), set.end(), d.earliest());
        ASSERT_EQ(d.first(), static_cast<deadlines::id>(first - set.begin()));
    }
}

INSTANTIATE_TEST_SUITE_P(seeds, deadlines_at_random, testing::Range<std::uint64_t>(0, 8));

// The heap as it is stored: each entry has four children. Entry 37 is no child of entry 8.
TEST(deadlines, sinks_among_its_own_children_only) {
    std::vector<std::int64_t> stored(39, 52);
    stored[0] = 0;
    stored[1] = 50;
    stored[2] = 1;
    stored[3] = stored[4] = 60;
    for (std::size_t i = 5; i <= 8; ++i) stored[i] = 51;
    for (std::size_t i = 9; i <= 12; ++i) stored[i] = 2;
    for (std::size_t i = 13; i <= 20; ++i) stored[i] = 61;
    for (std::size_t i = 33; i <= 36; ++i) stored[i] = 70;
    stored[37] = 3;
    stored[38] = 90;
    deadlines d;
    d.reserve(stored.size());
    for (deadlines::id i = 0; i < stored.size(); ++i) d.add(i, at(stored[i]));
    d.remove(8);
    d.check();
    stored.erase(stored.begin() + 8);
    std::sort(stored.begin(), stored.end());
    for (std::int64_t expected : stored) {
        EXPECT_EQ(d.earliest(), at(expected));
        d.remove(d.first());
    }
}

}  // namespace
}  // namespace cenote::core
