// Tests threads that wait for a second lease of a pool while they have one.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <latch>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using cenote::errc;
using cenote::event_kind;
using support::connector;
using support::eventually;
using support::plenty;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

TEST(pool_deadlock, of_one_thread_is_refused_at_once) {
    session_pool pool{connector{server::start()},
                      {.max = 1, .acquire_timeout = 1h, .refuse_deadlock = true}};
    auto lease = pool.acquire();
    try {
        (void)pool.acquire();
        FAIL() << "no other thread can release a lease";
    } catch (const cenote::deadlock_error& e) {
        EXPECT_NE(std::string(e.what()).find("pool_deadlock_test.cpp"), std::string::npos)
            << e.what();
        EXPECT_NE(std::string(e.what()).find("waits for another one"), std::string::npos);
        EXPECT_NE(std::string(e.what()).find("refuse_deadlock"), std::string::npos);
    }
    EXPECT_EQ(pool.stats().refused(errc::deadlock), 1u);
}

TEST(pool_deadlock, over_the_fast_lane_is_refused_too) {
    session_pool pool{connector{server::start()},
                      {.max = 1, .acquire_timeout = 1h, .refuse_deadlock = true}};
    for (int i = 0; i < 10; ++i) auto hot = pool.acquire();
    auto lease = pool.acquire();
    EXPECT_THROW((void)pool.acquire(), cenote::deadlock_error);
}

TEST(pool_deadlock, of_all_threads_is_refused_to_the_last_one) {
    constexpr int threads = 4;
    session_pool pool{connector{server::start()},
                      {.max = threads, .acquire_timeout = 1h, .refuse_deadlock = true}};
    std::latch all_hold(threads);
    std::atomic<int> refused{0};
    std::atomic<int> served{0};
    std::vector<std::thread> users;
    for (int i = 0; i < threads; ++i)
        users.emplace_back([&] {
            auto first = pool.acquire();
            all_hold.arrive_and_wait();
            std::error_code error;
            auto second = pool.acquire({}, error);
            refused += error == errc::deadlock;
            served += bool(second);
        });
    for (std::thread& t : users) t.join();  // long before the timeout
    EXPECT_GE(refused, 1);
    EXPECT_EQ(refused + served, threads);
}

TEST(pool_deadlock, is_not_seen_while_a_lease_can_be_released) {
    session_pool pool{connector{server::start()},
                      {.max = 2, .acquire_timeout = 1h, .refuse_deadlock = true}};
    auto mine = pool.acquire();
    auto other = std::make_unique<cenote::lease<session>>();
    std::thread owner([&] { *other = pool.acquire(); });
    owner.join();  // the thread of this lease has ended, so it does not wait
    std::thread gives_back([&] {
        EXPECT_TRUE(eventually([&] { return pool.stats().waiting == 1; }));
        other->give_back();
    });
    EXPECT_TRUE(pool.acquire());
    gives_back.join();
}

TEST(pool_deadlock, is_named_by_the_timeout_without_refuse_deadlock) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = 10ms}};
    auto lease = pool.acquire_for(plenty);
    try {
        (void)pool.acquire();
        FAIL() << "no other thread can release a lease";
    } catch (const cenote::timed_out_error& e) {
        EXPECT_NE(std::string(e.what()).find("probably a deadlock"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("refuse_deadlock"), std::string::npos) << e.what();
    }
    auto moved = std::move(lease);  // perhaps to another thread
    try {
        (void)pool.acquire();
        FAIL() << "no other thread releases a lease";
    } catch (const cenote::timed_out_error& e) {
        EXPECT_EQ(std::string(e.what()).find("probably a deadlock"), std::string::npos) << e.what();
    }
}

// A dispatcher moves each lease to a worker and acquires the next one.
TEST(pool_deadlock, is_not_seen_where_leases_move_to_workers) {
    constexpr int workers = 7;
    session_pool pool{connector{server::start()},
                      {.max = 4, .acquire_timeout = 1h, .refuse_deadlock = true}};
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<cenote::lease<session>> queue;
    bool over = false;
    std::atomic<int> worked{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < workers; ++i)
        threads.emplace_back([&] {
            for (;;) {
                std::unique_lock lock(mutex);
                changed.wait(lock, [&] { return over || !queue.empty(); });
                if (queue.empty()) return;
                auto lease = std::move(queue.front());
                queue.pop_front();
                lock.unlock();
                ++worked;
            }
        });
    const int leases = rounds(100'000);
    for (int i = 0; i < leases; ++i) {
        auto lease = pool.acquire();  // throws if it is refused
        std::lock_guard lock(mutex);
        queue.push_back(std::move(lease));
        changed.notify_one();
    }
    {
        std::lock_guard lock(mutex);
        over = true;
    }
    changed.notify_all();
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(worked, leases);
    EXPECT_EQ(pool.stats().refused(errc::deadlock), 0u);
}

TEST(pool_deadlock, is_not_seen_by_calls_that_do_not_wait) {
    session_pool pool{connector{server::start()}, {.max = 1, .refuse_deadlock = true}};
    auto lease = pool.acquire();
    EXPECT_FALSE(pool.try_acquire());
    std::error_code error;
    EXPECT_FALSE(pool.acquire({.timeout = 0s}, error));
    EXPECT_EQ(error, errc::timed_out);
}

TEST(pool_deadlock, is_announced_by_nested_acquires) {
    auto watch = std::make_shared<support::recorder>();
    session_pool pool{connector{server::start()}, {.max = 2, .observers = {watch}}};
    auto mine = pool.acquire_for(plenty);
    std::thread other([&] {
        auto theirs = pool.acquire_for(plenty);
        EXPECT_TRUE(eventually([&] { return watch->count(event_kind::nested_acquire) == 1; }));
    });
    ASSERT_TRUE(eventually([&] { return pool.stats().leased == 2; }));
    std::error_code error;
    (void)pool.acquire({.timeout = plenty}, error);
    other.join();
    for (const auto& e : watch->seen()) {
        if (e.kind != event_kind::nested_acquire) continue;
        EXPECT_NE(std::string(e.site.file_name()).find("pool_deadlock_test"), std::string::npos);
    }
}

TEST(pool_deadlock, is_visible_in_the_list_of_leases) {
    session_pool pool{connector{server::start()}, {.max = 2, .acquire_timeout = 1h}};
    auto others = [&](auto counts) {
        return eventually([&] {
            auto all = pool.leases();
            return all.size() == 2 &&
                   std::ranges::count_if(all, &cenote::lease_info::holder_waits) == counts;
        });
    };
    std::stop_source stop;
    std::latch both(2);
    auto nest = [&] {
        auto first = pool.acquire();
        both.arrive_and_wait();
        std::error_code error;
        auto token = stop.get_token();
        auto second = pool.acquire({.stop = token, .task = "nested"}, error);
        EXPECT_EQ(error, errc::canceled);
    };
    std::thread one(nest);
    std::thread two(nest);
    EXPECT_TRUE(others(2));
    auto waiting = pool.waiters();
    ASSERT_EQ(waiting.size(), 2U);
    EXPECT_STREQ(waiting[0].task, "nested");
    stop.request_stop();
    one.join();
    two.join();
    EXPECT_TRUE(pool.leases().empty());
}

// Both leases are out, but only one holder waits.
TEST(pool_deadlock, is_not_visible_while_a_holder_works) {
    session_pool pool{connector{server::start()}, {.max = 2, .acquire_timeout = 1h}};
    auto mine = pool.acquire({.task = "mine"});
    std::stop_source stop;
    std::thread other([&] {
        auto first = pool.acquire({.task = "theirs"});
        std::error_code error;
        auto token = stop.get_token();
        auto second = pool.acquire({.stop = token}, error);
    });
    EXPECT_TRUE(eventually([&] { return pool.stats().waiting == 1; }));
    for (const cenote::lease_info& each : pool.leases())
        EXPECT_EQ(each.holder_waits, std::string(each.task) == "theirs") << each.task;
    stop.request_stop();
    other.join();
}

TEST(pool_deadlock, of_acquire_many_with_an_own_lease_is_refused_at_once) {
    session_pool pool{connector{server::start()},
                      {.max = 3, .acquire_timeout = 1h, .refuse_deadlock = true}};
    auto lease = pool.acquire();
    EXPECT_THROW((void)pool.acquire_many(3), cenote::deadlock_error);
    EXPECT_EQ(pool.acquire_many(2).size(), 2U);
}

// The lease of an ended thread may live on, and a new thread may reuse the memory of its mark.
TEST(pool_deadlock, is_not_seen_where_a_thread_replaces_another) {
    session_pool pool{connector{server::start()},
                      {.max = 1, .acquire_timeout = 1h, .refuse_deadlock = true}};
    cenote::lease<session> left;
    std::thread([&] { left = pool.acquire(); }).join();
    std::error_code error;
    std::thread next([&] { (void)pool.acquire({}, error); });
    EXPECT_TRUE(eventually([&] {
        cenote::stats now = pool.stats();
        return now.waiting == 1 || now.refused(errc::deadlock) == 1;
    }));
    left = {};
    next.join();
    EXPECT_FALSE(error) << error.message();
}

// Under load: no thread waits forever, and the stats are right.
TEST(pool_deadlock, never_lasts) {
    constexpr int threads = 6;
    session_pool pool{connector{server::start()},
                      {.max = 3, .acquire_timeout = 60s, .refuse_deadlock = true}};
    std::vector<std::thread> users;
    std::atomic<int> timeouts{0};
    for (int i = 0; i < threads; ++i)
        users.emplace_back([&] {
            for (int round = 0; round < rounds(300); ++round) {
                std::error_code error;
                auto first = pool.acquire({}, error);
                timeouts += error == errc::timed_out;
                auto second = pool.acquire({}, error);
                timeouts += error == errc::timed_out;
            }
        });
    for (std::thread& t : users) t.join();
    EXPECT_EQ(timeouts, 0);
    EXPECT_EQ(pool.stats().leased, 0u);
}

}  // namespace
