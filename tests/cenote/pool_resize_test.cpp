// Tests resize: a larger maximum serves waiters at once, a smaller one ends no lease.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <sched.h>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"
#include "support/task.hpp"

using namespace std::chrono_literals;
using cenote::errc;
using cenote::event_kind;
using cenote::retire_reason;
using support::connector;
using support::eventually;
using support::hooked_connector;
using support::latch;
using support::lines_up;
using support::plenty;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;
using leases = std::vector<cenote::lease<session>>;

namespace {

/// Its close hangs until `hangs` is false.
struct slow_to_close {
    std::atomic<bool>* hangs;

    int open() const { return 1; }
    void close(int&) const {
        while (hangs->load()) std::this_thread::yield();
    }
};

struct pool_resize : testing::Test {
    std::shared_ptr<server> to = server::start();

    void TearDown() override { EXPECT_EQ(to->overlaps, 0); }
};

leases take(session_pool& pool, std::size_t count) {
    leases taken;
    for (std::size_t i = 0; i < count; ++i) taken.push_back(pool.acquire());
    return taken;
}

/// Opens `count` resources and makes them idle.
void fill(session_pool& pool, std::size_t count) {
    take(pool, count).clear();
    ASSERT_TRUE(eventually([&] { return pool.stats().idle == count; }));
}

/// Whether `count` resources can be leased at a time, and not one more.
bool lends_exactly(session_pool& pool, std::size_t count) {
    leases taken = take(pool, count);
    return !pool.try_acquire() && pool.stats().leased == count;
}

/// Whether any lease is from the fast lane, which reads no clock.
bool any_is_hot(const session_pool& pool) {
    return std::ranges::any_of(pool.leases(), [](const auto& l) { return l.held == 0ns; });
}

/// A lease from the fast lane; empty if there was none.
cenote::lease<session> hot_lease(session_pool& pool) {
    cenote::lease<session> lease;
    auto is_hot = [&] {
        lease.give_back();
        lease = pool.acquire();
        return any_is_hot(pool);
    };
    if (!eventually(is_hot)) lease.give_back();
    return lease;
}

/// Whether the pool comes to have `total` resources, and all calls have ended.
bool settles_at(const session_pool& pool, std::uint64_t total) {
    return eventually([&] {
        auto s = pool.stats();
        return s.total == total && s.opening + s.closing + s.probing + s.resetting == 0;
    });
}

/// The option and the text of the error of an invalid maximum.
std::pair<std::string, std::string> refusal(session_pool& pool, std::size_t max) {
    try {
        pool.resize(max);
    } catch (const cenote::invalid_option& e) {
        return {e.option(), e.what()};
    }
    return {};
}

}  // namespace

// A larger maximum.

TEST_F(pool_resize, serves_waiters_at_once) {
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    latch leave;
    std::vector<std::future<int>> others;
    for (int i = 0; i < 3; ++i)
        others.push_back(std::async(std::launch::async, [&] {
            auto mine = pool.acquire();
            leave.wait();
            return mine->id;
        }));
    ASSERT_TRUE(lines_up(pool, 3));
    EXPECT_EQ(pool.stats().total, 1U);
    pool.resize(4);
    EXPECT_EQ(pool.stats().max, 4U);
    EXPECT_TRUE(eventually([&] { return leave.waiting() == 3; }))
        << "while the first lease continues";
    leave.open();
    std::set<int> ids{lease->id};
    for (auto& each : others) ids.insert(each.get());
    EXPECT_EQ(ids.size(), 4U);
    EXPECT_EQ(to->peak, 4);
}

// A pool of one resource has one thread for its calls.
TEST_F(pool_resize, opens_several_at_a_time_after_a_max_of_one) {
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty, .open_timeout = plenty}};
    std::vector<std::future<bool>> waiting;
    for (int i = 0; i < 6; ++i)
        waiting.push_back(std::async(std::launch::async, [&] { return bool(pool.acquire()); }));
    ASSERT_TRUE(lines_up(pool, 6));
    ASSERT_TRUE(eventually([&] { return to->opening == 1; }));
    pool.resize(6);
    EXPECT_TRUE(eventually([&] { return to->opening == 4; })) << "as opening_max allows";
    EXPECT_EQ(pool.stats().opening, 4U);
    opens.open();
    for (auto& each : waiting) EXPECT_TRUE(each.get());
    EXPECT_EQ(to->opening_peak, 4);
}

TEST_F(pool_resize, makes_room_for_later_callers) {
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty}};
    (void)pool.acquire();
    pool.resize(200);
    EXPECT_EQ(pool.stats().total, 1U) << "no caller wants more";
    EXPECT_TRUE(lends_exactly(pool, 200));
    EXPECT_EQ(support::contradiction(pool.stats()), "");
}

TEST_F(pool_resize, wakes_a_coroutine_in_line) {
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    std::atomic<int> got{0};
    auto borrow = [](session_pool& from, std::atomic<int>& id) -> support::task {
        auto mine = co_await from.co_acquire();
        id = mine->id;
    };
    support::task waits = borrow(pool, got);
    waits.start();
    ASSERT_TRUE(lines_up(pool, 1));
    pool.resize(2);
    EXPECT_TRUE(eventually([&] { return got == 2; }));
    EXPECT_TRUE(settles_at(pool, 2));
    lease.give_back();
    EXPECT_EQ(pool.close(plenty), 0U);  // the coroutine has ended
}

TEST_F(pool_resize, fills_up_min_idle) {
    session_pool pool{connector{to}, {.max = 2, .min_idle = 2, .acquire_timeout = plenty}};
    leases taken = take(pool, 2);
    EXPECT_EQ(pool.stats().total, 2U);
    pool.resize(4);
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 2; }));
}

TEST_F(pool_resize, lets_more_be_acquired_at_once) {
    session_pool pool{connector{to}, {.max = 2, .acquire_timeout = plenty}};
    EXPECT_THROW((void)pool.acquire_many(3), std::invalid_argument);
    pool.resize(3);
    EXPECT_EQ(pool.acquire_many(3).size(), 3U);
}

// The new slots.

TEST_F(pool_resize, lists_leases_of_new_slots) {
    session_pool pool{connector{to}, {.name = "orders", .max = 1, .acquire_timeout = plenty}};
    auto first = pool.acquire({.task = "one"});
    pool.resize(3);
    auto second = pool.acquire({.task = "two"});
    auto third = pool.acquire({.task = "three"});
    std::multiset<std::string> tasks;
    for (const auto& l : pool.leases()) tasks.insert(l.task);
    EXPECT_EQ(tasks, (std::multiset<std::string>{"one", "two", "three"}));
    try {
        (void)pool.acquire_for(0s);
        FAIL() << "all are leased";
    } catch (const cenote::timed_out_error& e) {
        std::string text = e.what();
        EXPECT_NE(text.find("3 of 3 leased"), std::string::npos) << text;
        for (const char* each : {"\"one\" holds 1", "\"two\" holds 1", "\"three\" holds 1"})
            EXPECT_NE(text.find(each), std::string::npos) << text;
    }
}

TEST_F(pool_resize, finds_leaks_in_new_slots) {
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty, .leak_after = 1ms}};
    pool.resize(5);
    leases taken = take(pool, 5);
    EXPECT_TRUE(eventually([&] { return pool.stats().leaks == 5; }));
}

TEST_F(pool_resize, sees_a_deadlock_in_new_slots) {
    session_pool pool{connector{to},
                      {.max = 1, .acquire_timeout = plenty, .refuse_deadlock = true}};
    auto first = pool.acquire();
    EXPECT_THROW((void)pool.acquire(), cenote::deadlock_error);
    pool.resize(2);
    auto second = pool.acquire();
    EXPECT_THROW((void)pool.acquire(), cenote::deadlock_error);
}

TEST_F(pool_resize, sees_a_deadlock_in_the_remaining_slots) {
    session_pool pool{connector{to},
                      {.max = 3, .acquire_timeout = plenty, .refuse_deadlock = true}};
    auto one = pool.acquire();
    auto two = pool.acquire();
    auto three = pool.acquire();
    pool.resize(1);
    EXPECT_THROW((void)pool.acquire(), cenote::deadlock_error);
    three.give_back();
    two.give_back();
    ASSERT_TRUE(settles_at(pool, 1));
    EXPECT_THROW((void)pool.acquire(), cenote::deadlock_error);
}

// A smaller maximum.

TEST_F(pool_resize, closes_surplus_idle_resources) {
    auto watch = std::make_shared<support::recorder>(std::set{event_kind::retired});
    session_pool pool{connector{to}, {.max = 6, .acquire_timeout = plenty, .observers = {watch}}};
    fill(pool, 6);
    pool.resize(2);
    EXPECT_EQ(pool.stats().max, 2U);
    EXPECT_TRUE(settles_at(pool, 2));
    EXPECT_EQ(pool.stats().retired(retire_reason::surplus), 4U);
    EXPECT_EQ(to->closes, 4);
    EXPECT_LE(to->closing_peak, 4) << "at most opening_max at a time";
    EXPECT_TRUE(lends_exactly(pool, 2));
    EXPECT_TRUE(eventually([&] { return watch->count(event_kind::retired) == 4; }));
    for (const auto& e : watch->seen()) EXPECT_EQ(e.why, retire_reason::surplus);
    EXPECT_EQ(to->opened, 6);
}

TEST_F(pool_resize, keeps_the_most_recently_used) {
    // An observer of every lease shuts the fast lane, so the order is known.
    auto watch = std::make_shared<support::recorder>(std::set{event_kind::acquired});
    session_pool pool{connector{to}, {.max = 4, .acquire_timeout = plenty, .observers = {watch}}};
    leases taken = take(pool, 4);
    std::set<int> last{taken[0]->id, taken[2]->id};
    for (std::size_t i : {3u, 1u, 0u, 2u}) taken[i].give_back();
    pool.resize(2);
    ASSERT_TRUE(settles_at(pool, 2));
    taken = take(pool, 2);
    EXPECT_EQ((std::set{taken[0]->id, taken[1]->id}), last);
}

TEST_F(pool_resize, closes_a_few_at_a_time) {
    latch closes;
    to->on_close = [closes](int) { closes.wait(); };
    session_pool pool{
        connector{to},
        {.max = 8, .acquire_timeout = plenty, .close_timeout = cenote::forever, .opening_max = 2}};
    fill(pool, 8);
    pool.resize(1);
    EXPECT_TRUE(eventually([&] { return closes.waiting() == 2; }));
    auto s = pool.stats();
    EXPECT_EQ(s.closing, 2U);
    EXPECT_EQ(s.total, 8U) << "resources that are closing or wait for their close count";
    EXPECT_TRUE(pool.try_acquire()) << "the remaining ones can be lent";
    closes.open();
    EXPECT_TRUE(settles_at(pool, 1));
    EXPECT_EQ(to->closing_peak, 2);
}

/// Ends each lease on another processor, so that the resources are in several cells of the shelf.
void give_back_everywhere(leases& taken) {
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    auto next = static_cast<std::size_t>(CPU_SETSIZE) - 1;
    for (auto& each : taken) {
        do next = (next + 1) % CPU_SETSIZE;
        while (!CPU_ISSET(next, &allowed));
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(next, &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
        each.give_back();
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
}

TEST_F(pool_resize, closes_a_few_at_a_time_from_several_cells) {
    latch closes;
    to->on_close = [closes](int) { closes.wait(); };
    session_pool pool{
        connector{to},
        {.max = 8, .acquire_timeout = plenty, .close_timeout = cenote::forever, .opening_max = 1}};
    leases taken = take(pool, 8);
    ASSERT_NO_FATAL_FAILURE(give_back_everywhere(taken));
    pool.resize(1);
    EXPECT_EQ(pool.stats().closing, 1U);
    EXPECT_EQ(pool.stats().idle, 7U);
    EXPECT_TRUE(pool.try_acquire()) << "the remaining ones can be lent";
    closes.open();
    EXPECT_TRUE(settles_at(pool, 1));
    EXPECT_EQ(to->closing_peak, 1);
}

TEST_F(pool_resize, ends_no_lease) {
    session_pool pool{connector{to}, {.max = 4, .acquire_timeout = plenty}};
    leases taken = take(pool, 4);
    pool.resize(2);
    EXPECT_EQ(pool.stats().leased, 4U);
    EXPECT_EQ(pool.stats().total, 4U);
    for (auto& each : taken) auto claim = each->use();
    taken[0].give_back();
    EXPECT_TRUE(settles_at(pool, 3));
    taken[1].give_back();
    EXPECT_TRUE(settles_at(pool, 2));
    taken[2].give_back();
    taken[3].give_back();
    EXPECT_EQ(pool.stats().idle, 2U);
    EXPECT_EQ(pool.stats().retired(retire_reason::surplus), 2U);
    EXPECT_EQ(to->closes, 2);
}

TEST_F(pool_resize, opens_nothing_before_there_are_fewer_than_max) {
    session_pool pool{connector{to},
                      {.max = 3, .acquire_timeout = plenty, .close_timeout = plenty}};
    leases taken = take(pool, 3);
    auto waiter = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    ASSERT_TRUE(lines_up(pool, 1));
    pool.resize(1);
    taken[0].give_back();
    taken[1].discard();
    ASSERT_TRUE(settles_at(pool, 1));
    EXPECT_EQ(pool.stats().waiting, 1U);
    EXPECT_EQ(to->opens, 3);
    taken[2].discard();
    EXPECT_EQ(waiter.get(), 4);
    EXPECT_EQ(to->peak, 3);
}

TEST_F(pool_resize, closes_a_surplus_resource_after_its_open) {
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.max = 4, .acquire_timeout = plenty, .open_timeout = plenty}};
    std::vector<std::future<bool>> waiting;
    for (int i = 0; i < 4; ++i)
        waiting.push_back(std::async(std::launch::async, [&] { return bool(pool.acquire()); }));
    ASSERT_TRUE(eventually([&] { return to->opening == 4; }));
    pool.resize(1);
    opens.open();
    for (auto& each : waiting) EXPECT_TRUE(each.get());
    EXPECT_TRUE(settles_at(pool, 1));
    EXPECT_EQ(to->opened, 4);
    EXPECT_EQ(to->closes, 3);
}

TEST_F(pool_resize, closes_a_surplus_resource_after_its_reset) {
    latch resets;
    to->on_reset = [resets](int) { return resets.wait(); };
    session_pool pool{connector{to},
                      {.max = 2, .acquire_timeout = plenty, .reset_timeout = plenty}};
    leases taken = take(pool, 2);
    for (auto& each : taken) each.mark_dirty();
    taken.clear();
    ASSERT_TRUE(eventually([&] { return resets.waiting() == 2; }));
    pool.resize(1);
    resets.open();
    EXPECT_TRUE(settles_at(pool, 1));
    EXPECT_EQ(pool.stats().retired(retire_reason::surplus), 1U);
    EXPECT_TRUE(lends_exactly(pool, 1));
}

// After a resize to one the pool had one thread for its calls, and made all closes before the
// reset.
TEST_F(pool_resize, makes_no_caller_wait_for_surplus_closes) {
    latch closes;
    to->on_close = [closes](int) { closes.wait(); };
    session_pool pool{connector{to},
                      {.max = 4,
                       .acquire_timeout = plenty,
                       .reset_timeout = plenty,
                       .close_timeout = cenote::forever}};
    leases taken = take(pool, 4);
    pool.resize(1);
    for (std::size_t i : {0u, 1u, 2u}) taken[i].give_back();
    EXPECT_TRUE(eventually([&] { return closes.waiting() == 3; }));
    taken[3].mark_dirty();
    taken[3].give_back();
    EXPECT_TRUE(pool.acquire()) << "after the reset";
    EXPECT_EQ(to->resets, 1);
    closes.open();
    EXPECT_TRUE(settles_at(pool, 1));
}

TEST_F(pool_resize, keeps_the_minimum) {
    session_pool pool{
        connector{to},
        {.max = 5, .min_size = 2, .warm_up = cenote::warm_up::wait, .acquire_timeout = plenty}};
    fill(pool, 5);
    pool.resize(2);
    EXPECT_TRUE(settles_at(pool, 2));
    EXPECT_TRUE(pool.wait_ready(plenty));
    pool.acquire().discard();
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 2; }));
}

// The fast lane.

namespace {

/// Cannot probe, so sweeps have no probes to schedule.
struct plain_connector {
    std::shared_ptr<server> to;

    session open() const { return to->open(); }
    void close(session& s) const { to->close(s); }
};

/// Without sweeps a resource stays on the shelf until a call takes it.
const cenote::options rarely_swept{.max = 2, .acquire_timeout = plenty, .sweep_interval = 1h};

}  // namespace

// The machine, which has to close the resource, does not see a release onto the shelf.
TEST_F(pool_resize, retires_a_surplus_lease_of_the_fast_lane) {
    session_pool pool{plain_connector{to}, rarely_swept};
    auto other = pool.acquire();
    auto hot = hot_lease(pool);
    ASSERT_TRUE(hot);
    pool.resize(1);
    hot.give_back();
    EXPECT_TRUE(settles_at(pool, 1));
    EXPECT_EQ(pool.stats().retired(retire_reason::surplus), 1U);
    EXPECT_EQ(pool.stats().leased, 1U);
}

TEST_F(pool_resize, takes_surplus_from_the_shelf) {
    session_pool pool{plain_connector{to}, rarely_swept};
    auto other = pool.acquire();
    hot_lease(pool).give_back();
    pool.resize(1);
    EXPECT_TRUE(settles_at(pool, 1));
    EXPECT_EQ(pool.stats().leased, 1U);
    EXPECT_FALSE(pool.try_acquire());
}

TEST_F(pool_resize, opens_the_fast_lane_again) {
    session_pool pool{connector{to}, {.max = 4, .acquire_timeout = plenty}};
    leases taken = take(pool, 4);
    pool.resize(2);
    taken.pop_back();
    taken.pop_back();
    ASSERT_TRUE(settles_at(pool, 2));
    taken.clear();
    EXPECT_TRUE(hot_lease(pool)) << "down";
    pool.resize(3);
    EXPECT_TRUE(hot_lease(pool)) << "up";
    pool.resize(2);
    EXPECT_TRUE(hot_lease(pool)) << "down to the present number";
}

TEST_F(pool_resize, leaves_the_fast_lane_open_without_surplus) {
    session_pool pool{connector{to}, {.max = 9, .acquire_timeout = plenty}};
    auto other = pool.acquire();  // an open lease, which could keep the lane shut
    auto hot = hot_lease(pool);
    ASSERT_TRUE(hot);
    for (std::size_t max : {5u, 2u, 20u}) pool.resize(max);
    hot.give_back();
    EXPECT_TRUE(hot_lease(pool));
    EXPECT_EQ(to->opened, 2);
}

// Several leases at once.

TEST_F(pool_resize, refuses_waiters_that_want_more_than_max) {
    session_pool pool{connector{to}, {.name = "orders", .max = 4, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    std::string text;
    std::thread too_many([&] {
        try {
            (void)pool.acquire_many(4);
        } catch (const cenote::deadlock_error& e) {
            text = e.what();
        }
    });
    ASSERT_TRUE(lines_up(pool, 1));
    std::error_code error;
    std::thread also([&] { EXPECT_TRUE(pool.acquire_many(3, {}, error).empty()); });
    ASSERT_TRUE(lines_up(pool, 2));
    pool.resize(2);
    too_many.join();
    also.join();
    EXPECT_EQ(error, errc::deadlock);
    std::string begins =
        "more leases were wanted at once than \"orders\" may have: 1 of 2 leased "
        "(pool_resize_test.cpp:";
    EXPECT_EQ(text.substr(0, begins.size()), begins);
    EXPECT_EQ(pool.stats().refused(errc::deadlock), 2U);
    EXPECT_EQ(pool.stats().waiting, 0U);
    EXPECT_TRUE(pool.try_acquire() || pool.acquire()) << "resources kept for them serve others";
}

TEST_F(pool_resize, keeps_waiters_that_want_at_most_max) {
    session_pool pool{connector{to}, {.max = 4, .acquire_timeout = plenty}};
    leases taken = take(pool, 4);
    auto both = std::async(std::launch::async, [&] { return pool.acquire_many(2).size(); });
    ASSERT_TRUE(lines_up(pool, 1));
    auto one = std::async(std::launch::async, [&] { return bool(pool.acquire()); });
    ASSERT_TRUE(lines_up(pool, 2));
    pool.resize(2);
    EXPECT_EQ(pool.stats().waiting, 2U);
    taken.clear();
    EXPECT_EQ(both.get(), 2U);
    EXPECT_TRUE(one.get());
    EXPECT_TRUE(settles_at(pool, 2));
}

TEST_F(pool_resize, refuses_new_callers_that_want_more_than_max) {
    session_pool pool{connector{to}, {.name = "orders", .max = 4}};
    pool.resize(2);
    try {
        (void)pool.acquire_many(3);
        FAIL() << "three is more than max";
    } catch (const std::invalid_argument& e) {
        EXPECT_STREQ(e.what(),
                     "cenote: acquire_many(3) of pool \"orders\": must be between 1 and max (2)");
    }
    EXPECT_EQ(pool.acquire_many(2).size(), 2U);
}

// before_acquire refuses the grant. The waiter returns to its place in line, and now wants too
// many.
TEST_F(pool_resize, refuses_a_returning_waiter_that_wants_more_than_max) {
    std::optional<session_pool> pool;
    to->on_acquire = [&](int) {
        pool->resize(1);
        return false;
    };
    pool.emplace(hooked_connector{{to}}, cenote::options{.max = 2, .acquire_timeout = plenty});
    EXPECT_THROW((void)pool->acquire_many(2), cenote::deadlock_error);
    to->on_acquire = [](int) { return true; };
    EXPECT_TRUE(pool->acquire());
}

// Invalid sizes.

TEST_F(pool_resize, refuses_invalid_sizes_and_changes_nothing) {
    session_pool pool{connector{to},
                      {.max = 6,
                       .min_size = 3,
                       .min_idle = 4,
                       .warm_up = cenote::warm_up::none,
                       .acquire_timeout = plenty}};
    using both = std::pair<std::string, std::string>;
    EXPECT_EQ(refusal(pool, 0), (both{"max", "cenote: option max = 0: must be at least 1"}));
    EXPECT_EQ(refusal(pool, 2),
              (both{"min_size", "cenote: option min_size = 3: must be at most max (2)"}));
    EXPECT_EQ(refusal(pool, 3),
              (both{"min_idle", "cenote: option min_idle = 4: must be at most max (3)"}));
    EXPECT_EQ(refusal(pool, 1'000'001),
              (both{"max", "cenote: option max = 1000001: must be at most 1000000"}));
    EXPECT_EQ(refusal(pool, ~std::size_t{0}).first, "max");
    EXPECT_EQ(pool.stats().max, 6U);
    EXPECT_TRUE(lends_exactly(pool, 6));
    EXPECT_EQ(pool.stats().retired(retire_reason::surplus), 0U);
    EXPECT_EQ(refusal(pool, 4), both{});
    EXPECT_EQ(pool.stats().max, 4U);
}

TEST_F(pool_resize, refuses_no_waiter_if_it_is_refused_itself) {
    session_pool pool{connector{to}, {.max = 3, .min_size = 2, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    auto all = std::async(std::launch::async, [&] { return pool.acquire_many(3).size(); });
    ASSERT_TRUE(lines_up(pool, 1));
    EXPECT_THROW(pool.resize(1), cenote::invalid_option);
    EXPECT_EQ(pool.stats().waiting, 1U);
    lease.give_back();
    EXPECT_EQ(all.get(), 3U);
}

// From other threads and in other states of the pool.

TEST_F(pool_resize, may_come_from_the_connector) {
    std::optional<session_pool> pool;
    to->on_open = [&](int id) { pool->resize(static_cast<std::size_t>(id) + 1); };
    to->on_close = [&](int) { pool->resize(1); };
    pool.emplace(connector{to}, cenote::options{.max = 1, .acquire_timeout = plenty});
    leases taken = take(*pool, 5);
    EXPECT_EQ(pool->stats().max, 6U);
    taken[0].discard();
    EXPECT_TRUE(eventually([&] { return pool->stats().max == 1; }));
    taken.clear();
    EXPECT_TRUE(settles_at(*pool, 1));
    to->on_close = [](int) {};
}

TEST_F(pool_resize, may_come_from_an_observer) {
    auto watch = std::make_shared<support::recorder>(std::set{event_kind::exhausted});
    std::optional<session_pool> pool;
    watch->then = [&](const cenote::event&) { pool->resize(pool->stats().max + 1); };
    pool.emplace(connector{to},
                 cenote::options{.max = 1, .acquire_timeout = plenty, .observers = {watch}});
    leases taken = take(*pool, 1);
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(pool->try_acquire());
        EXPECT_THROW((void)pool->acquire_for(0s), cenote::timed_out_error);
        taken.push_back(pool->acquire());
    }
    EXPECT_EQ(pool->stats().max, 4U);
}

TEST_F(pool_resize, of_a_paused_pool_serves_after_resume) {
    session_pool pool{connector{to}, {.max = 2, .acquire_timeout = plenty}};
    fill(pool, 2);
    pool.pause();
    pool.resize(1);
    EXPECT_TRUE(settles_at(pool, 1));
    leases taken;
    std::vector<std::future<cenote::lease<session>>> waiting;
    for (int i = 0; i < 3; ++i)
        waiting.push_back(std::async(std::launch::async, [&] { return pool.acquire(); }));
    ASSERT_TRUE(lines_up(pool, 3));
    pool.resize(3);
    EXPECT_EQ(pool.stats().waiting, 3U);
    EXPECT_EQ(pool.stats().total, 1U);
    pool.resume();
    for (auto& each : waiting) taken.push_back(each.get());
    EXPECT_EQ(pool.stats().leased, 3U);
}

TEST_F(pool_resize, of_a_closed_pool_opens_nothing) {
    session_pool pool{connector{to}, {.max = 3, .min_size = 2, .acquire_timeout = plenty}};
    leases taken = take(pool, 3);
    pool.close();
    pool.resize(9);
    pool.resize(2);
    EXPECT_EQ(pool.stats().max, 2U);
    EXPECT_THROW((void)pool.acquire(), cenote::closed_error);
    taken.clear();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->opened, 3);
    EXPECT_EQ(to->present, 0);
    EXPECT_EQ(pool.stats().retired(retire_reason::surplus), 0U);
}

TEST_F(pool_resize, and_retire_all_leave_at_most_max) {
    session_pool pool{
        connector{to},
        {.max = 4, .min_size = 2, .acquire_timeout = plenty, .close_timeout = plenty}};
    leases taken = take(pool, 4);
    pool.retire_all();
    pool.resize(2);
    taken.clear();
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 2 && pool.stats().total == 2; }));
    EXPECT_EQ(to->peak, 4);
    EXPECT_GE(pool.acquire()->id, 5);
}

TEST_F(pool_resize, accepts_releases_after_the_end_of_the_pool) {
    std::optional<session_pool> pool;
    pool.emplace(connector{to}, cenote::options{.max = 2, .acquire_timeout = plenty});
    leases taken = take(*pool, 2);
    pool->resize(40);
    for (auto& each : take(*pool, 38)) taken.push_back(std::move(each));
    pool->resize(3);
    taken[5].give_back();  // surplus
    pool.reset();
    for (std::size_t i : {0u, 39u, 1u, 7u}) taken[i].give_back();
    taken[20].discard();
    session mine = taken[30].detach();
    taken.clear();
    EXPECT_EQ(to->present, 1) << "the detached one";
    EXPECT_EQ(to->closes, 39);
}

TEST_F(pool_resize, of_a_pool_that_ends_at_once_leaves_nothing_behind) {
    for (int i = 0; i < 20; ++i) {
        session_pool pool{connector{to}, {.max = 8, .acquire_timeout = plenty}};
        leases taken = take(pool, 8);
        for (int n = 0; n < i % 8; ++n) taken.pop_back();
        pool.resize(1 + static_cast<std::size_t>(i) % 3);
        taken.clear();
    }
    EXPECT_EQ(to->present, 0);
}

// Under load.

namespace {

struct load_options {
    const char* name;
    bool hooked;
    cenote::options settings;
};

/// Threads that acquire and release in every way.
class borrower_threads {
public:
    borrower_threads(session_pool& pool, std::size_t count) : pool_(pool), served_(count) {
        for (std::size_t i = 0; i < count; ++i)
            threads_.emplace_back([this, i](const std::stop_token& stop) { work(i, stop); });
    }
    bool all_served_again() {
        return std::ranges::all_of(served_, [](const std::atomic<int>& count) {
            int before = count;
            return eventually([&] { return count > before + 3; });
        });
    }
    void stop() { threads_.clear(); }
    int refused() const { return refused_; }

private:
    void work(std::size_t number, const std::stop_token& stop) {
        for (std::size_t i = number; !stop.stop_requested(); ++i) {
            if (i % 32 == 11) several(2 + i % 3);
            std::error_code error;
            auto lease = pool_.acquire({}, error);
            if (!lease) {
                ++refused_;
                continue;
            }
            {
                auto claim = lease->use();
            }
            if (i % 64 == 7) lease.mark_dirty();
            if (i % 128 == 9) lease.discard();
            ++served_[number];
        }
    }
    void several(std::size_t count) {
        try {
            for (auto& each : pool_.acquire_many(count)) auto claim = each->use();
        } catch (const cenote::deadlock_error&) {
            // More than max since the acquire began.
        } catch (const std::invalid_argument&) {
            // More than max when the acquire began.
        }
    }

    session_pool& pool_;
    std::vector<std::atomic<int>> served_;
    std::atomic<int> refused_{0};
    std::vector<std::jthread> threads_;
};

/// In one step a resize refuses a waiter that wants too many, lends the resources kept for it to
/// another waiter, and recalls all leases. The fast lane opens after the end of all of them.
TEST_F(pool_resize, recalls_also_a_lease_granted_in_the_same_step) {
    std::atomic<bool> hangs{true};
    cenote::pool<int> pool{slow_to_close{&hangs},
                           {.max = 4, .acquire_timeout = plenty, .close_timeout = plenty}};
    std::vector<cenote::lease<int>> taken;
    for (int i = 0; i < 4; ++i) taken.push_back(pool.acquire());
    auto waiting = [&](std::size_t count) {
        return eventually([&] { return pool.stats().waiting == count; });
    };
    std::thread many([&] { EXPECT_THROW((void)pool.acquire_many(3), cenote::deadlock_error); });
    ASSERT_TRUE(waiting(1));
    std::atomic<bool> ends{false};
    std::thread one([&] {
        auto lease = pool.acquire();
        while (!ends) std::this_thread::yield();
    });
    ASSERT_TRUE(waiting(2));
    taken[3].discard();
    taken[2].discard();
    ASSERT_TRUE(eventually([&] { return pool.stats().closing == 2; }));
    taken[1].give_back();
    pool.resize(2);
    many.join();
    ASSERT_TRUE(waiting(0));
    hangs = false;
    taken[0].give_back();
    ends = true;
    one.join();
    EXPECT_TRUE(eventually([&] {
        pool.acquire().give_back();
        return !cenote::detail::pool_access::of(pool).lane_is_shut();
    }));
}

/// A resource that is passed on during a recall counts once, not at each release. Otherwise the
/// fast lane opens while a retired resource is leased, and lends it again.
TEST_F(pool_resize, waits_for_retired_leases_while_others_are_passed_on) {
    std::atomic<int> made{0};
    cenote::pool<int> pool{[&] { return ++made; }, {.max = 2, .acquire_timeout = plenty}};
    auto old = pool.acquire();
    auto other = pool.acquire();
    int retired = *old;
    pool.retire_all();
    other.give_back();
    other = pool.acquire();
    pool.resize(1);  // recalls both
    pool.resize(2);
    std::vector<std::thread> line;
    for (std::size_t i = 1; i <= 3; ++i) {
        line.emplace_back([&] { pool.acquire().give_back(); });
        ASSERT_TRUE(eventually([&] { return pool.stats().waiting == i; }));
    }
    other.give_back();
    for (std::thread& each : line) each.join();
    old.give_back();
    auto one = pool.acquire();
    auto two = pool.acquire();
    EXPECT_NE(*one, retired);
    EXPECT_NE(*two, retired);
}

struct pool_resize_under : testing::TestWithParam<load_options> {
    std::shared_ptr<server> to = server::start();

    std::unique_ptr<session_pool> make() const {
        if (GetParam().hooked)
            return std::make_unique<session_pool>(hooked_connector{{to}}, GetParam().settings);
        return std::make_unique<session_pool>(connector{to}, GetParam().settings);
    }
};

/// After a resize the total never exceeds the larger of the total at that time and max.
void expect_not_more(const session_pool& pool, std::uint64_t max) {
    std::uint64_t most = std::max(pool.stats().total, max);
    for (int i = 0; i < 10; ++i) {
        std::uint64_t now = pool.stats().total;
        EXPECT_LE(now, most);
        most = std::max(now, max);
    }
}

}  // namespace

TEST_P(pool_resize_under, load_total_stays_within_max_and_all_threads_are_served) {
    constexpr std::size_t most = 8;
    auto pool = make();
    std::atomic<int> contradictions{0};
    {
        std::jthread reader([&](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                if (!support::contradiction(pool->stats(), most).empty()) ++contradictions;
                (void)pool->leases();
            }
        });
        borrower_threads borrowers(*pool, 5);
        for (std::size_t i = 0; i < static_cast<std::size_t>(rounds(400)); ++i) {
            std::size_t max = 1 + i * 5 % most;
            pool->resize(max);
            EXPECT_EQ(pool->stats().max, max);
            expect_not_more(*pool, max);
            bool fits = i % 7 != 0 || eventually([&] { return pool->stats().total <= max; });
            EXPECT_TRUE(fits);
            bool served = i % 11 != 0 || borrowers.all_served_again();
            EXPECT_TRUE(served);
        }
        borrowers.stop();
        EXPECT_EQ(borrowers.refused(), 0);
    }
    EXPECT_EQ(contradictions, 0);
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_LE(to->peak, static_cast<int>(most));
    pool->resize(2);
    EXPECT_TRUE(eventually([&] { return pool->stats().total <= 2; }));
    EXPECT_TRUE(lends_exactly(*pool, 2));
    EXPECT_EQ(pool->close(plenty), 0U);
    EXPECT_EQ(to->present, 0);
}

TEST_P(pool_resize_under, load_it_may_come_from_several_threads) {
    auto pool = make();
    {
        borrower_threads borrowers(*pool, 3);
        std::vector<std::jthread> resizers;
        for (std::size_t t = 0; t < 3; ++t)
            resizers.emplace_back([&, t] {
                for (std::size_t i = 0; i < static_cast<std::size_t>(rounds(300)); ++i)
                    pool->resize(1 + (t + i * (t + 3)) % 40);
            });
        resizers.clear();
        EXPECT_LE(pool->stats().max, 40U);
        EXPECT_TRUE(borrowers.all_served_again());
        borrowers.stop();
        EXPECT_EQ(borrowers.refused(), 0);
    }
    pool->resize(3);
    EXPECT_TRUE(eventually([&] { return pool->stats().total <= 3; }));
    EXPECT_TRUE(lends_exactly(*pool, 3));
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_LE(to->peak, 40);
    EXPECT_EQ(pool->close(plenty), 0U);
    EXPECT_EQ(to->present, 0);
}

INSTANTIATE_TEST_SUITE_P(
    kinds, pool_resize_under,
    testing::Values(load_options{"the_fast_lane",
                                 false,
                                 {.max = 1, .acquire_timeout = plenty, .close_timeout = plenty}},
                    load_options{"every_verb",
                                 true,
                                 {.max = 4,
                                  .min_size = 1,
                                  .acquire_timeout = plenty,
                                  .probe_timeout = plenty,
                                  .reset_timeout = plenty,
                                  .close_timeout = plenty,
                                  .probe_after_idle = 0ns,
                                  .heartbeat = 1ms}},
                    load_options{"probes_on_release",
                                 false,
                                 {.max = 2,
                                  .acquire_timeout = plenty,
                                  .probe_timeout = plenty,
                                  .close_timeout = plenty,
                                  .probe_on_release = true}},
                    load_options{"bounded_fairness",
                                 false,
                                 {.max = 2,
                                  .acquire_timeout = plenty,
                                  .close_timeout = plenty,
                                  .max_uses = 100,
                                  .fairness = cenote::fairness::bounded}}),
    [](const auto& kind) { return std::string(kind.param.name); });
