// The lane on one thread: what it puts on the shelf, brings back and counts, and when it sleeps.
// Its interleavings are in lane_model_test.cpp.
#include "shell/lane.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/detail/shelf.hpp"

namespace detail = cenote::detail;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

constexpr int long_from_now = 1'000'000;

struct item {
    int lent_at = 0;
    int expires_at = long_from_now;
    bool used_up = false;
    bool owes = false;  // a reset
    std::uint64_t puts = 0;
    std::uint64_t hits = 0;
    std::uint64_t touches_swept = ~std::uint64_t{0};
    int times_seen = 0;  // by a sweep
};

/// A pool that records the calls of the lane.
struct fake_pool {
    using item = ::item;
    using shelf = detail::basic_shelf<item>;
    using instant = int;
    using date = int;
    using suspicion_mark = int;
    static constexpr instant never = long_from_now;
    static constexpr suspicion_mark no_suspicion = -1;

    struct return_of {
        item* what;
        int at;
        int idle_since;
        bool operator==(const return_of&) const = default;
    };

    std::size_t cell() const { return processor; }
    bool owes_waiter(int now) const { return owed_at <= now; }
    int suspicion() const { return suspected_at; }
    std::size_t leased() const { return leases; }
    static int date_of(int now) { return now; }
    static int lent_at(const item* r) { return r->lent_at; }
    static bool is_expired(int now, const item* r) { return r->expires_at <= now; }
    static bool is_used_up(const item* r) { return r->used_up; }
    static std::uint64_t touches(const item* r) { return r->puts + r->hits; }
    static bool owes_reset(const item* r) { return r->owes; }
    static int next_sweep(int now, bool some_owe) { return now + (some_owe ? 3 : 10); }

    void bring_back(int now, item* r, int idle_since) {
        --leases;
        back.push_back({r, now, idle_since});
    }
    static std::uint64_t count_put(item* r) { return r->puts++; }
    static void undo_put(item* r, std::uint64_t before) { r->puts = before; }
    static void clear_lease_time(item* r) { ++r->times_seen; }
    void before_sweep(int) { told.emplace_back("sweeps"); }
    void woke_up(int) { told.emplace_back("woke up"); }
    void fell_asleep(int) { told.emplace_back("fell asleep"); }

    std::size_t processor = 0;
    int owed_at = never;
    int suspected_at = no_suspicion;
    std::size_t leases = 0;
    std::vector<return_of> back;
    std::vector<std::string> told;
};

using back = fake_pool::return_of;

/// Two cells, and a new lane, which sleeps.
struct lane_test : testing::Test {
    fake_pool pool;
    fake_pool::shelf shelf{2, detail::sweeper_asleep};
    cenote::shell::basic_lane<fake_pool> lane{pool, shelf};
    item a;
    item b;
    item c;

    lane_test() { pool.leases = 3; }

    bool put(int now, item& r, std::size_t processor = 0) {
        pool.processor = processor;
        return lane.put(now, &r);
    }
    void accept_returned(int now, item& r, std::size_t processor = 0) {
        pool.processor = processor;
        lane.accept_returned(now, &r);
    }
    item* take(int now, std::size_t processor = 0) {
        pool.processor = processor;
        return lane.take(now);
    }
    bool is_empty() {
        for (std::size_t i = 0; i < shelf.size(); ++i) {
            item* r = shelf.collect(i);
            if (r == nullptr) continue;
            shelf.restore(i, r);
            return false;
        }
        return true;
    }
};

TEST(lane_shelf, has_a_cell_for_each_of_a_power_of_two_processors) {
    detail::basic_shelf<item> cells(3, 0);
    ASSERT_EQ(cells.size(), 4u);
    item items[4];
    bool must_return = true;
    for (std::size_t where = 0; where < 4; ++where)
        EXPECT_EQ(cells.put(where + 4, &items[where]), nullptr) << "more processors share a cell";
    for (std::size_t where = 0; where < 4; ++where) {
        EXPECT_EQ(cells.take(where, must_return), &items[where]);
        EXPECT_FALSE(must_return);
        EXPECT_EQ(cells.collect(where), nullptr);
    }
    EXPECT_EQ(cells.put(2, &items[2]), nullptr);
    EXPECT_EQ(cells.take(10, must_return), &items[2]);
}

TEST(lane_shelf, gives_back_what_has_no_place) {
    detail::basic_shelf<item> cells(1, 0);
    item one, two;
    bool must_return = true;
    EXPECT_EQ(cells.take(0, must_return), nullptr);
    EXPECT_FALSE(must_return);
    EXPECT_EQ(cells.put(0, &one), nullptr);
    EXPECT_EQ(cells.put(0, &two), &two) << "the cell is in use";
    cells.raise(detail::waiter_owed);
    EXPECT_EQ(cells.take(0, must_return), &one);
    EXPECT_TRUE(must_return);
    EXPECT_EQ(cells.put(0, &one), &one) << "the lane is shut";
    EXPECT_EQ(cells.collect(0), nullptr);
}

}  // namespace

TEST_F(lane_test, sleeps_at_first_and_is_open) {
    EXPECT_TRUE(lane.is_open());
    EXPECT_FALSE(lane.is_swept());
    EXPECT_EQ(lane.sweep_at(), fake_pool::never);
    EXPECT_FALSE(lane.has_recalled());
    EXPECT_EQ(take(0), nullptr);
}

// put(), accept_returned(), take().

TEST_F(lane_test, accepts_a_put_and_wakes) {
    EXPECT_TRUE(put(1, a));
    EXPECT_EQ(a.puts, 1U);
    EXPECT_TRUE(lane.is_swept());
    EXPECT_EQ(lane.sweep_at(), 11);
    EXPECT_EQ(shelf.raised(), 0U);
    EXPECT_THAT(pool.told, ElementsAre("woke up"));
    EXPECT_EQ(take(2), &a);
    EXPECT_TRUE(is_empty());
    EXPECT_THAT(pool.back, IsEmpty());
}

TEST_F(lane_test, stays_awake_for_the_next_put) {
    put(1, a, 0);
    put(5, b, 1);
    EXPECT_EQ(lane.sweep_at(), 11);
    EXPECT_THAT(pool.told, ElementsAre("woke up"));
}

TEST_F(lane_test, rejects_the_used_up_and_the_expired) {
    a.used_up = true;
    b.expires_at = 7;
    a.puts = b.puts = 40;
    EXPECT_FALSE(put(7, a));
    EXPECT_FALSE(put(7, b));
    EXPECT_EQ(a.puts, 40U);
    EXPECT_EQ(b.puts, 40U);
    EXPECT_TRUE(is_empty());
    EXPECT_FALSE(lane.is_swept());
    EXPECT_THAT(pool.back, IsEmpty());  // it is the caller's
}

TEST_F(lane_test, accepts_nothing_while_it_is_shut) {
    lane.shut(0, detail::pool_paused);
    EXPECT_FALSE(lane.is_open());
    EXPECT_FALSE(put(1, a));
    EXPECT_EQ(a.puts, 0U);
    lane.open(detail::pool_paused);
    EXPECT_TRUE(put(2, a));
}

TEST_F(lane_test, replaces_the_older_resource_by_the_newer) {
    put(1, a);
    EXPECT_TRUE(put(3, b));
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 3, 3}));
    EXPECT_EQ(lane.collected(), 1U);
    EXPECT_EQ(take(4), &b);
}

TEST_F(lane_test, places_what_is_returned_and_does_not_count_it) {
    accept_returned(1, a);
    EXPECT_EQ(a.puts, 0U);
    accept_returned(2, b);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 2, 2}));
    EXPECT_EQ(take(3), &b);
}

TEST_F(lane_test, brings_back_what_is_returned_and_has_no_place) {
    a.used_up = true;
    accept_returned(1, a);
    lane.shut(2, detail::circuit_open);
    accept_returned(3, b);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 1, 1}, back{&b, 3, 3}));
    EXPECT_TRUE(is_empty());
}

TEST_F(lane_test, looks_into_the_callers_cell_first_and_then_into_the_others) {
    put(1, a, 0);
    put(1, b, 1);
    EXPECT_EQ(take(2, 1), &b);
    EXPECT_EQ(take(2, 1), &a);
    EXPECT_EQ(take(2, 1), nullptr);
    put(3, c, 6);  // more processors than cells
    EXPECT_EQ(take(4, 0), &c);
}

TEST_F(lane_test, brings_back_the_expired_and_takes_the_next) {
    put(1, a, 0);
    put(1, b, 1);
    a.expires_at = 4;
    EXPECT_EQ(take(4, 0), &b);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 4, 4}));
    put(5, b, 0);
    b.expires_at = 5;
    EXPECT_EQ(take(5, 0), nullptr);
    EXPECT_TRUE(is_empty());
}

TEST_F(lane_test, takes_nothing_from_a_shut_lane_or_past_a_waiter) {
    put(1, a);
    pool.owed_at = 2;
    EXPECT_EQ(take(2), nullptr);
    pool.owed_at = fake_pool::never;
    shelf.raise(detail::waiter_owed);  // its borrower has not read `attention` yet
    EXPECT_EQ(take(2), nullptr);
    EXPECT_FALSE(is_empty());
}

// follow_line().

TEST_F(lane_test, is_shut_while_a_waiter_is_owed_the_next_one) {
    put(1, a);
    pool.owed_at = 5;
    lane.follow_line(4);
    EXPECT_FALSE(lane.is_shut_for_waiters());
    lane.follow_line(5);
    EXPECT_TRUE(lane.is_shut_for_waiters());
    EXPECT_FALSE(lane.is_open());
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 5, 5}));
    lane.follow_line(6);
    EXPECT_TRUE(lane.is_shut_for_waiters());
    pool.owed_at = fake_pool::never;
    lane.follow_line(7);
    EXPECT_TRUE(lane.is_open());
}

TEST_F(lane_test, recalls_once_for_each_suspicion) {
    pool.suspected_at = 4;
    lane.follow_line(4);
    EXPECT_EQ(lane.recalled(), 3U);
    pool.leases = 2;
    lane.follow_line(5);
    EXPECT_EQ(lane.recalled(), 3U);
    pool.suspected_at = 6;
    lane.follow_line(6);
    EXPECT_EQ(lane.recalled(), 2U);
}

TEST_F(lane_test, recalls_nothing_for_a_handled_suspicion) {
    pool.suspected_at = 4;
    lane.suspicion_is_handled();
    lane.follow_line(4);
    EXPECT_FALSE(lane.has_recalled());
}

// recall().

TEST_F(lane_test, opens_again_when_the_last_recalled_lease_has_ended) {
    a.lent_at = b.lent_at = 1;
    put(1, a);
    lane.recall(5);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 5, 5}));
    EXPECT_EQ(lane.recalled(), 2U);
    EXPECT_FALSE(lane.is_open());
    c.lent_at = 6;  // lent since then, so it was not recalled
    lane.note_return(&c);
    EXPECT_EQ(lane.recalled(), 2U);
    lane.note_return(&b);
    EXPECT_FALSE(lane.is_open());
    accept_returned(7, a);
    EXPECT_FALSE(lane.has_recalled());
    EXPECT_TRUE(lane.is_open());
    lane.note_return(&b);
    EXPECT_FALSE(lane.has_recalled());
}

TEST_F(lane_test, is_open_if_there_is_nothing_to_recall) {
    pool.leases = 1;
    put(1, a);
    lane.recall(2);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 2, 2}));
    EXPECT_FALSE(lane.has_recalled());
    EXPECT_TRUE(lane.is_open());
}

TEST_F(lane_test, counts_anew_with_each_recall) {
    lane.recall(1);
    b.lent_at = 2;
    pool.leases = 2;
    lane.recall(3);
    EXPECT_EQ(lane.recalled(), 2U);
    lane.note_return(&b);
    EXPECT_EQ(lane.recalled(), 1U);
}

TEST_F(lane_test, stays_shut_for_another_reason_when_a_recall_is_over) {
    pool.leases = 1;
    lane.shut(0, detail::pool_paused);
    lane.recall(1);
    lane.note_return(&a);
    EXPECT_FALSE(lane.has_recalled());
    EXPECT_EQ(shelf.raised(), detail::pool_paused | detail::sweeper_asleep);
}

// sweep().

TEST_F(lane_test, leaves_the_hot_at_a_sweep_and_brings_back_the_rest) {
    put(1, a, 0);
    put(2, b, 1);
    lane.sweep(11);
    EXPECT_THAT(pool.back, IsEmpty());
    EXPECT_EQ(lane.sweep_at(), 21);
    EXPECT_EQ(a.times_seen, 1);
    ++b.hits;  // it was taken meanwhile
    lane.sweep(21);
    // Not touched since the sweep before, so it is idle since some time after the put.
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 21, 1}));
    EXPECT_EQ(take(22, 1), &b);
    EXPECT_THAT(pool.told, ElementsAre("woke up", "sweeps", "sweeps"));
}

TEST_F(lane_test, says_since_when_a_resource_was_idle) {
    put(1, a);
    lane.sweep(11);
    ++a.puts;
    lane.sweep(21);
    lane.sweep(31);  // not touched between these two
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 31, 11}));
}

TEST_F(lane_test, goes_to_sleep_when_nothing_is_left_and_wakes_again) {
    put(1, a);
    EXPECT_EQ(take(2), &a);
    lane.sweep(11);
    EXPECT_FALSE(lane.is_swept());
    EXPECT_EQ(shelf.raised(), detail::sweeper_asleep);
    EXPECT_TRUE(lane.is_open());
    EXPECT_THAT(pool.told, ElementsAre("woke up", "sweeps", "fell asleep"));
    EXPECT_TRUE(put(50, a));
    EXPECT_EQ(lane.sweep_at(), 60);
    lane.collect(55);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 55, 55}));
}

TEST_F(lane_test, brings_back_what_expired_between_sweeps) {
    put(1, a);
    a.expires_at = 11;
    lane.sweep(11);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 11, 11}));
    EXPECT_FALSE(lane.is_swept());
}

TEST_F(lane_test, restores_nothing_on_a_shut_lane) {
    put(1, a);
    shelf.raise(detail::waiter_owed);  // its borrower has not read `attention` yet
    lane.sweep(11);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 11, 11}));
    EXPECT_TRUE(is_empty());
}

TEST_F(lane_test, sweeps_earlier_for_an_expiry_and_never_later) {
    lane.sweep_by(5);
    EXPECT_FALSE(lane.is_swept());
    put(1, a);
    lane.sweep_by(12);
    EXPECT_EQ(lane.sweep_at(), 11);
    lane.sweep_by(5);
    EXPECT_EQ(lane.sweep_at(), 5);
}

// close(), collect(), restart().

TEST_F(lane_test, is_empty_and_sleeps_when_it_is_closed) {
    put(1, a, 0);
    put(1, b, 1);
    lane.close(3, detail::pool_closed);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 3, 3}, back{&b, 3, 3}));
    EXPECT_FALSE(lane.is_open());
    EXPECT_FALSE(lane.is_swept());
    EXPECT_FALSE(put(4, c));
}

TEST_F(lane_test, counts_what_it_brings_back) {
    put(1, a, 0);
    put(1, b, 1);
    lane.collect(2);
    EXPECT_EQ(lane.collected(), 2U);
    EXPECT_TRUE(lane.is_open());
    lane.collect(3);
    EXPECT_EQ(lane.collected(), 2U);
}

TEST_F(lane_test, restarts_empty_and_as_the_options_say) {
    shelf.raise(detail::lane_off);
    put(1, a);
    lane.shut(2, detail::pool_paused | detail::circuit_open | detail::no_maintenance);
    pool.owed_at = 0;
    pool.suspected_at = 3;
    lane.follow_line(3);
    shelf.restore(0, &a);
    lane.collect(4);
    ASSERT_EQ(lane.collected(), 1U);
    ASSERT_TRUE(lane.has_recalled());

    pool.owed_at = fake_pool::never;
    pool.suspected_at = fake_pool::no_suspicion;  // the machine is new
    lane.restart();
    EXPECT_EQ(shelf.raised(), detail::lane_off | detail::sweeper_asleep);
    EXPECT_FALSE(lane.is_swept());
    EXPECT_FALSE(lane.has_recalled());
    EXPECT_EQ(lane.collected(), 0U);
    lane.follow_line(5);  // the suspicion was the parent's
    EXPECT_FALSE(lane.has_recalled());
}

TEST_F(lane_test, sweeps_sooner_once_a_resource_owes_a_reset) {
    put(100, a);
    EXPECT_EQ(lane.sweep_at(), 110);
    EXPECT_FALSE(shelf.accepts_owing());
    b.owes = true;
    put(101, b, 1);
    EXPECT_EQ(lane.sweep_at(), 104);
    EXPECT_TRUE(shelf.accepts_owing());
    lane.sweep(104);
    EXPECT_EQ(lane.sweep_at(), 107);
    EXPECT_THAT(pool.back, IsEmpty());
    lane.sweep(107);
    EXPECT_THAT(pool.back, ElementsAre(back{&a, 107, 100}, back{&b, 107, 100}));
}

TEST_F(lane_test, wakes_for_a_resource_that_owes_a_reset) {
    a.owes = true;
    accept_returned(100, a);
    EXPECT_EQ(lane.sweep_at(), 103);
    lane.close(101, detail::pool_closed);
    lane.open(detail::pool_closed);
    EXPECT_FALSE(lane.is_swept());
    EXPECT_TRUE(shelf.accepts_owing());
    put(200, b);
    EXPECT_EQ(lane.sweep_at(), 203);
}
