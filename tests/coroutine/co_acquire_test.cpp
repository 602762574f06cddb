// Leases for coroutines without a framework: they wait in the same line as threads.
#include <atomic>
#include <coroutine>
#include <memory>
#include <optional>
#include <pthread.h>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"
#include "support/task.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::hooked_connector;
using support::lines_up;
using support::loop;
using support::on;
using support::plenty;
using support::server;
using support::session;
using support::task;
using session_pool = cenote::pool<session>;
using held_session = std::optional<cenote::lease<session>>;

namespace {

/// Acquires into `held` and notes its number in `order`.
task borrow(session_pool& pool, loop& where, held_session& held, std::vector<int>* order = nullptr,
            int number = 0) {
    held = co_await pool.co_acquire().resumed_by(on(where));
    if (order != nullptr) order->push_back(number);
}

task borrow_or_say(session_pool& pool, loop& where, std::stop_token stop, std::error_code& said,
                   std::chrono::nanoseconds timeout = plenty) {
    auto held =
        co_await pool.co_acquire({.timeout = timeout, .stop = stop}, said).resumed_by(on(where));
}

task wait_until_closed(session_pool& pool, loop& where, std::string& said) {
    try {
        auto held = co_await pool.co_acquire().resumed_by(on(where));
    } catch (const cenote::closed_error& e) {
        said = e.what();
    }
}

/// Until the loop has something to resume, which comes from another thread.
void run_soon(loop& where) {
    ASSERT_TRUE(eventually([&] { return where.ready() > 0; }));
    where.run();
}

}  // namespace

TEST(co_acquire, takes_what_is_ready_without_suspending) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    (void)pool.acquire();
    loop where;
    held_session held;
    task t = borrow(pool, where, held);
    t.start();
    EXPECT_TRUE(t.done());
    EXPECT_TRUE(*held);
}

TEST(co_acquire, waits_for_an_open) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    loop where;
    held_session held;
    task t = borrow(pool, where, held);
    t.start();
    run_soon(where);
    EXPECT_TRUE(t.done());
    EXPECT_EQ((*held)->id, 1);
}

TEST(co_acquire, is_resumed_by_its_resumer_only) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto mine = pool.acquire();
    loop where;
    held_session held;
    task t = borrow(pool, where, held);
    t.start();
    mine.give_back();
    EXPECT_FALSE(t.done()) << "resumed on the releasing thread";
    where.run();
    EXPECT_TRUE(t.done());
}

TEST(co_acquire, serves_threads_and_coroutines_in_one_line) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = plenty}};
    auto mine = pool.acquire();
    loop where;
    held_session first;
    held_session third;
    std::vector<int> order;
    task one = borrow(pool, where, first, &order, 1);
    one.start();
    std::atomic<bool> second{false};
    std::jthread two([&] {
        auto held = pool.acquire();
        second = true;
    });
    ASSERT_TRUE(lines_up(pool, 2));
    task three = borrow(pool, where, third, &order, 3);
    three.start();
    mine.give_back();
    where.run();
    EXPECT_TRUE(*first);
    EXPECT_FALSE(second);
    EXPECT_FALSE(third);
    first.reset();
    two.join();
    run_soon(where);
    EXPECT_EQ(order, (std::vector{1, 3}));
}

TEST(co_acquire, times_out_and_says_why) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto mine = pool.acquire();
    loop where;
    std::string said;
    auto wait = [&]() -> task {
        try {
            auto held = co_await pool.co_acquire_for(5ms).resumed_by(on(where));
        } catch (const cenote::timed_out_error& e) {
            said = e.what();
        }
    };
    task t = wait();
    t.start();
    run_soon(where);
    EXPECT_NE(said.find("1 of 1 leased (co_acquire_test.cpp"), std::string::npos) << said;
}

TEST(co_acquire, until_a_time_gone_by_takes_only_what_is_ready) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto mine = pool.acquire();
    std::error_code said;
    auto wait = [&]() -> task {
        auto held =
            co_await pool.co_acquire({.deadline = std::chrono::steady_clock::time_point{}}, said);
        EXPECT_FALSE(held);
    };
    task t = wait();
    t.start();
    EXPECT_TRUE(t.done());
    EXPECT_EQ(said, cenote::errc::timed_out);
}

TEST(co_acquire, is_stopped_by_its_token) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto mine = pool.acquire();
    loop where;
    std::stop_source stop;
    std::error_code said;
    task t = borrow_or_say(pool, where, stop.get_token(), said);
    t.start();
    stop.request_stop();
    where.run();
    ASSERT_TRUE(t.done());
    EXPECT_EQ(said, cenote::errc::canceled);
    EXPECT_EQ(pool.stats().waiting, 0U);
}

TEST(co_acquire, does_not_begin_to_wait_after_its_token_was_triggered) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto mine = pool.acquire();
    loop where;
    std::stop_source stop;
    stop.request_stop();
    std::error_code said;
    task t = borrow_or_say(pool, where, stop.get_token(), said);
    t.start();
    where.run();
    ASSERT_TRUE(t.done());
    EXPECT_EQ(said, cenote::errc::canceled);
}

TEST(co_acquire, leaves_the_line_when_its_coroutine_is_destroyed) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto mine = pool.acquire();
    loop where;
    held_session gone;
    held_session held;
    task first = borrow(pool, where, gone);
    task second = borrow(pool, where, held);
    first.start();
    second.start();
    first.destroy();
    EXPECT_EQ(pool.stats().waiting, 1U);
    mine.give_back();
    where.run();
    EXPECT_TRUE(second.done());
    EXPECT_FALSE(gone);
    EXPECT_EQ(pool.stats().refused(cenote::errc::canceled), 1U);
}

TEST(co_acquire, passes_its_grant_on_when_its_coroutine_is_destroyed_before_it_is_resumed) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto mine = pool.acquire();
    loop where;
    held_session gone;
    held_session held;
    task first = borrow(pool, where, gone);
    task second = borrow(pool, where, held);
    first.start();
    second.start();
    mine.give_back();
    ASSERT_EQ(where.ready(), 1U);
    first.destroy();
    where.run();
    EXPECT_TRUE(second.done());
    EXPECT_TRUE(*held);
}

TEST(co_acquire, learns_that_the_pool_is_closed_though_the_pool_is_gone) {
    loop where;
    std::string said;
    cenote::lease<session> mine;
    task t;
    {
        session_pool pool{connector{server::start()}, {.name = "orders", .max = 1}};
        mine = pool.acquire();
        t = wait_until_closed(pool, where, said);
        t.start();
    }
    where.run();
    ASSERT_TRUE(t.done());
    EXPECT_NE(said.find("\"orders\" is closed"), std::string::npos) << said;
}

TEST(co_acquire, that_was_refused_may_be_destroyed_after_the_pool) {
    loop where;
    held_session held;
    cenote::lease<session> mine;
    task t;
    {
        session_pool pool{connector{server::start()}, {.max = 1}};
        mine = pool.acquire();
        t = borrow(pool, where, held);
        t.start();
    }
    EXPECT_EQ(where.ready(), 1U);
    t.destroy();
    EXPECT_EQ(where.ready(), 0U);
}

TEST(co_acquire, looks_before_each_lease_on_a_thread_of_the_pool) {
    auto to = server::start();
    std::atomic<bool> here{false};
    auto me = std::this_thread::get_id();
    to->on_acquire = [&](int id) {
        if (std::this_thread::get_id() == me) here = true;
        return id != 1;
    };
    session_pool pool{hooked_connector{to}, {.max = 2}};
    loop where;
    held_session held;
    task t = borrow(pool, where, held);
    t.start();
    run_soon(where);
    ASSERT_TRUE(t.done());
    EXPECT_EQ((*held)->id, 2);
    EXPECT_FALSE(here);
}

TEST(co_acquire, resumes_on_the_releasing_thread_by_default) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto mine = pool.acquire();
    bool got = false;
    auto wait = [&]() -> task { got = static_cast<bool>(co_await pool.co_acquire()); };
    task t = wait();
    t.start();
    EXPECT_FALSE(got);
    mine.give_back();
    EXPECT_TRUE(got);
}

TEST(co_acquire, may_be_resumed_by_its_resumer_right_there) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto mine = pool.acquire();
    bool got = false;
    auto wait = [&]() -> task {
        auto held = co_await pool.co_acquire().resumed_by(
            [](std::coroutine_handle<> ready) { ready.resume(); });
        got = static_cast<bool>(held);
    };
    task t = wait();
    t.start();
    mine.give_back();
    EXPECT_TRUE(got);
}

// The first one that is told destroys the others, who are told by the same call: its siblings in a
// group of tasks, say.
TEST(co_acquire, may_be_destroyed_by_one_that_is_notified_at_the_same_time) {
    for (bool granted : {false, true}) {
        session_pool pool{connector{server::start()}, {.max = 3}};
        auto held = pool.acquire_many(3);
        std::vector<task> group;
        int told = 0;
        auto wait = [&]() -> task {
            std::error_code error;
            auto mine = co_await pool.co_acquire({}, error);
            ++told;
            for (std::size_t i = 1; i < group.size(); ++i) group[i] = {};
        };
        for (int i = 0; i < 3; ++i) group.push_back(wait());
        for (task& t : group) t.start();
        if (granted) {
            pool.pause();
            held.clear();
            pool.resume();  // serves all three at once
        } else {
            pool.close();
        }
        EXPECT_EQ(told, 1);
        held.clear();
        EXPECT_TRUE(eventually([&] { return pool.stats().leased == 0; }));
    }
}

namespace {

/// Runs `what` on a thread with little stack.
void with_little_stack(void* (*what)(void*), void* with) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 * 1024);
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, &attributes, what, with), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
}

task take_turns(session_pool& pool, int times, long& turns) {
    for (int i = 0; i < times; ++i) {
        auto held = co_await pool.co_acquire();
        ++turns;
    }
}

}  // namespace

TEST(co_acquire, hands_over_a_million_times_on_little_stack) {
    static const int hand_overs = support::rounds(1'000'000);
    static long turns;
    turns = 0;
    with_little_stack(
        [](void*) -> void* {
            session_pool pool{connector{server::start()}, {.max = 1}};
            auto mine = pool.acquire();
            std::vector<task> all;
            for (int i = 0; i < 100; ++i) {
                all.push_back(take_turns(pool, hand_overs / 100, turns));
                all.back().start();
            }
            mine.give_back();
            return nullptr;
        },
        nullptr);
    EXPECT_EQ(turns, hand_overs);
}

TEST(co_acquire, serves_a_hundred_on_twenty_in_order) {
    // All open before: grants come from one thread then, and so their handles in order.
    session_pool pool{
        connector{server::start()},
        {.max = 20, .min_size = 20, .warm_up = cenote::warm_up::wait, .acquire_timeout = plenty}};
    loop where;
    std::vector<int> order;
    std::vector<task> all;
    auto work = [&](int number) -> task {
        auto held = co_await pool.co_acquire().resumed_by(on(where));
        order.push_back(number);
        co_await where.yield();
    };
    for (int i = 0; i < 100; ++i) all.push_back(work(i));
    for (task& t : all) t.start();
    EXPECT_TRUE(eventually([&] {
        where.run();
        return order.size() == 100;
    }));
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

/// Every end at once, again and again: what the pool counts adds up.
TEST(co_acquire, ends_exactly_once_however_it_ends) {
    support::stopped_clock time;
    auto to = server::start();
    std::uint64_t asked = 0;
    for (unsigned round = 0; round < 64; ++round) {
        session_pool pool{connector{to}, {.max = 1}};
        auto mine = pool.acquire();
        loop where;
        std::vector<std::stop_source> stops(6);
        std::vector<std::error_code> said(6);
        std::vector<task> all;
        for (std::size_t i = 0; i < 6; ++i) {
            auto timeout = i == 1 ? 1ms : std::chrono::nanoseconds{plenty};
            all.push_back(borrow_or_say(pool, where, stops[i].get_token(), said[i], timeout));
            all.back().start();
        }
        asked = 7;
        if (round & 1U) stops[2].request_stop();
        if (round & 2U) all[3].destroy();
        if (round & 4U) mine.give_back();
        if (round & 8U) time.advance(1ms);
        if (round & 16U) where.run();
        if (round & 32U) pool.close();
        all[4].destroy();
        stops[5].request_stop();
        mine.give_back();
        ASSERT_TRUE(eventually([&] {
            where.run();
            return pool.stats().waiting == 0 && pool.stats().leased == 0;
        }));
        auto s = pool.stats();
        EXPECT_EQ(s.acquires, asked);
        EXPECT_EQ(s.granted + support::refused(s), asked) << "round " << round;
        EXPECT_EQ(s.granted, s.released);
    }
}
