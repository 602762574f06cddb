// First come, first served, also against a plain sorted vector.
#include "core/line.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "core/dice.hpp"

namespace cenote::core {
namespace {

instant at(std::int64_t ms) { return instant{} + std::chrono::milliseconds{ms}; }

waiter_id join(line& l, std::uint64_t ticket, instant deadline = never) {
    l.make_room();
    return l.join({.cookie = 100 + ticket, .ticket = ticket, .deadline = deadline});
}

TEST(line, keeps_the_order_of_arrival) {
    line l;
    for (std::uint64_t ticket = 1; ticket <= 5; ++ticket) join(l, ticket);
    for (std::uint64_t ticket = 1; ticket <= 5; ++ticket) {
        EXPECT_EQ(l.first().ticket, ticket);
        EXPECT_EQ(l.leave(l.head()).cookie, 100 + ticket);
    }
    EXPECT_TRUE(l.empty());
}

TEST(line, finds_waiters_that_want_more_than_a_number) {
    line l;
    EXPECT_FALSE(l.has(l.who_wants_more_than(0)));
    l.make_room();
    l.join({.ticket = 1, .deadline = never});
    waiter_id low = l.join({.ticket = 2, .deadline = never, .count = 4, .rank = priority::low});
    waiter_id usual = l.join({.ticket = 3, .deadline = never, .count = 3});
    EXPECT_EQ(l.who_wants_more_than(3), low);
    EXPECT_FALSE(l.has(l.who_wants_more_than(4)));
    l.leave(low);
    EXPECT_EQ(l.who_wants_more_than(2), usual);
    EXPECT_FALSE(l.has(l.who_wants_more_than(3)));
}

TEST(line, is_visited_by_priority_and_in_order_until_told_to_stop) {
    line l;
    auto visited = [&](std::size_t most) {
        std::vector<std::uint64_t> tickets;
        l.visit([&](const waiter& each) {
            tickets.push_back(each.ticket);
            return tickets.size() < most;
        });
        return tickets;
    };
    EXPECT_TRUE(visited(9).empty());
    l.make_room();
    l.join({.ticket = 2, .deadline = never});
    waiter_id gone = l.join({.ticket = 3, .deadline = never});
    l.join({.ticket = 1, .deadline = never});
    l.join({.ticket = 4, .deadline = never, .rank = priority::high});
    l.leave(gone);
    EXPECT_EQ(visited(9), (std::vector<std::uint64_t>{4, 1, 2}));
    EXPECT_EQ(visited(2), (std::vector<std::uint64_t>{4, 1}));
}

TEST(line, gives_a_waiter_with_an_old_ticket_its_old_place) {
    line l;
    join(l, 2);
    join(l, 5);
    join(l, 3);
    join(l, 1);
    l.check();
    for (std::uint64_t ticket : {1u, 2u, 3u, 5u}) EXPECT_EQ(l.leave(l.head()).ticket, ticket);
}

TEST(line, goes_by_tickets_and_not_by_arrivals) {
    line l;
    l.make_room();
    l.join({.ticket = 2, .arrived = at(1), .deadline = never});
    l.join({.ticket = 1, .arrived = at(2), .deadline = never});
    l.check();
    EXPECT_EQ(l.first().ticket, 1u);
    EXPECT_EQ(l.at(l.last()).ticket, 2u);
}

TEST(line, serves_the_reserved_before_a_waiter_from_the_beginning_of_time) {
    line l;
    l.make_room();
    l.join({.ticket = 1, .deadline = never, .rank = priority::high});
    l.join({.ticket = 2, .deadline = never, .rank = priority::reserved});
    EXPECT_EQ(l.first().ticket, 2u);
}

TEST(line, has_no_waiter_whose_name_it_never_gave) {
    line l;
    join(l, 1);
    EXPECT_FALSE(l.has(waiter_id{}));
    EXPECT_FALSE(l.has({static_cast<std::uint32_t>(l.capacity()), 0}));
}

TEST(line, lets_any_waiter_leave) {
    line l;
    join(l, 1);
    waiter_id second = join(l, 2);
    join(l, 3);
    l.leave(second);
    l.check();
    EXPECT_EQ(l.leave(l.head()).ticket, 1u);
    EXPECT_EQ(l.leave(l.head()).ticket, 3u);
}

TEST(line, recognizes_a_stale_name) {
    line l;
    waiter_id before = join(l, 1);
    EXPECT_TRUE(l.has(before));
    l.leave(before);
    EXPECT_FALSE(l.has(before));
    waiter_id after = join(l, 2);
    EXPECT_EQ(before.index(), after.index());
    EXPECT_FALSE(l.has(before));
    EXPECT_TRUE(l.has(after));
    EXPECT_FALSE(l.has({}));
}

TEST(line, knows_whose_deadline_comes_first) {
    line l;
    EXPECT_EQ(l.earliest(), never);
    join(l, 1, at(30));
    waiter_id hasty = join(l, 2, at(10));
    join(l, 3);
    EXPECT_EQ(l.earliest(), at(10));
    EXPECT_EQ(l.first_due(), hasty);
    l.leave(hasty);
    EXPECT_EQ(l.earliest(), at(30));
}

TEST(line, ignores_waiters_without_a_deadline) {
    line l;
    join(l, 1);
    waiter_id first = join(l, 2, at(10));
    join(l, 3);
    waiter_id second = join(l, 4, at(10));
    l.check();
    EXPECT_EQ(l.first_due(), first);
    l.leave(first);
    l.check();
    EXPECT_EQ(l.first_due(), second);
    l.leave(second);
    l.check();
    EXPECT_EQ(l.earliest(), never);
    EXPECT_EQ(l.size(), 2u);
}

TEST(line, takes_deadlines_in_any_order) {
    line l;
    waiter_id patient = join(l, 1, at(90));
    waiter_id hasty = join(l, 2, at(10));
    waiter_id usual = join(l, 3, at(50));
    waiter_id last = join(l, 4, at(95));
    l.check();
    for (waiter_id expected : {hasty, usual, patient, last}) {
        EXPECT_EQ(l.first_due(), expected);
        l.leave(expected);
        l.check();
    }
    EXPECT_EQ(l.earliest(), never);
}

TEST(line, forgets_a_long_deadline_when_the_last_one_in_order_has_left) {
    line l;
    l.leave(join(l, 1, at(1000)));
    waiter_id usual = join(l, 2, at(10));
    l.check();
    EXPECT_EQ(l.first_due(), usual);
}

TEST(line, goes_by_ticket_among_equal_deadlines_wherever_they_are) {
    line l;
    l.make_room();
    l.join({.ticket = 10, .deadline = at(90), .rank = priority::low});
    auto add = [&](std::uint64_t ticket, priority rank) {
        l.join({.ticket = ticket, .deadline = at(50), .rank = rank});
    };
    add(7, priority::low);     // out of order
    add(6, priority::normal);  // in order
    add(3, priority::normal);  // back in an old place
    add(5, priority::high);
    add(8, priority::reserved);
    l.check();
    for (std::uint64_t ticket : {3u, 5u, 6u, 7u, 8u}) {
        EXPECT_EQ(l.at(l.first_due()).ticket, ticket);
        EXPECT_EQ(l.earliest(), at(50));
        l.leave(l.first_due());
        l.check();
    }
    EXPECT_EQ(l.earliest(), at(90));
}

TEST(line, makes_room_only_when_there_is_none) {
    line l;
    l.make_room();
    std::size_t room = l.capacity();
    for (std::uint64_t ticket = 1; ticket <= room; ++ticket) join(l, ticket);
    EXPECT_EQ(l.capacity(), room);
    join(l, room + 1);
    EXPECT_GT(l.capacity(), room);
    l.check();
    EXPECT_EQ(l.size(), room + 1);
}

class line_at_random : public testing::TestWithParam<std::uint64_t> {};

TEST_P(line_at_random, agrees_with_a_vector) {
    struct entry {
        std::uint64_t ticket;
        instant deadline;
        waiter_id id;

        bool due_before(const entry& other) const {
            if (deadline != other.deadline) return deadline < other.deadline;
            return ticket < other.ticket;
        }
    };
    dice random(GetParam());
    line l;
    std::vector<entry> naive;
    std::vector<std::uint64_t> returned;
    std::uint64_t last = 0;
    for (int step = 0; step < 4000; ++step) {
        if (naive.empty() || random.chance(52)) {
            bool again = !returned.empty() && random.chance(30);
            std::uint64_t ticket = again ? returned.back() : ++last;
            if (again) returned.pop_back();
            // Sometimes they rise, mostly; and many are equal.
            auto base = GetParam() % 2 == 0 ? 0 : static_cast<std::int64_t>(step);
            instant deadline =
                random.chance(20) ? never : at(base + static_cast<std::int64_t>(random.below(100)));
            entry e{ticket, deadline, join(l, ticket, deadline)};
            auto place = std::find_if(naive.begin(), naive.end(),
                                      [&](const entry& x) { return x.ticket > ticket; });
            naive.insert(place, e);
        } else {
            auto gone = naive.begin() + static_cast<std::ptrdiff_t>(random.below(naive.size()));
            waiter w = l.leave(gone->id);
            ASSERT_EQ(w.ticket, gone->ticket);
            ASSERT_EQ(w.deadline, gone->deadline);
            ASSERT_FALSE(l.has(gone->id));
            returned.push_back(gone->ticket);
            naive.erase(gone);
        }
        l.check();
        ASSERT_EQ(l.size(), naive.size());
        if (naive.empty()) continue;
        ASSERT_EQ(l.head(), naive.front().id);
        auto due = std::min_element(naive.begin(), naive.end(),
                                    [](const entry& a, const entry& b) { return a.due_before(b); });
        ASSERT_EQ(l.earliest(), due->deadline);
        if (due->deadline != never) {
            ASSERT_EQ(l.first_due(), due->id);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(seeds, line_at_random, testing::Range<std::uint64_t>(0, 8));

}  // namespace
}  // namespace cenote::core
