// Tests the order of the line: first come, first served, no starvation, no lost wake-up. See also
// pool_turns_test.cpp.
#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <stop_token>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::for_a_while;
using support::lines_up;
using support::plenty;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

cenote::options strict(std::size_t max) {
    return {.max = max, .acquire_timeout = plenty, .fairness = cenote::fairness::strict};
}

/// Waiters that join the line one after the other and record the order of their grants.
class queue {
public:
    explicit queue(session_pool& pool) : pool_(pool) {}

    /// Adds a waiter; returns when it is in line.
    bool join(std::stop_token stop = {}) {
        std::size_t place = pool_.stats().waiting + 1;
        int number = static_cast<int>(threads_.size());
        threads_.emplace_back([this, number, stop] {
            std::error_code error;
            auto lease = pool_.acquire({.stop = stop}, error);
            if (!lease) return;
            std::lock_guard lock(mutex_);
            served_.push_back(number);
        });
        return lines_up(pool_, place);
    }
    std::vector<int> served() {
        threads_.clear();
        std::lock_guard lock(mutex_);
        return served_;
    }
    std::size_t served_so_far() const {
        std::lock_guard lock(mutex_);
        return served_.size();
    }

private:
    session_pool& pool_;
    mutable std::mutex mutex_;
    std::vector<int> served_;
    std::vector<std::jthread> threads_;
};

std::vector<int> first(int n) {
    std::vector<int> numbers(static_cast<std::size_t>(n));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

}  // namespace

TEST(pool_fairness, waiters_are_served_in_the_order_of_arrival) {
    session_pool pool{connector{server::start()}, strict(1)};
    auto lease = pool.acquire();
    queue line(pool);
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(line.join());
    lease.give_back();
    EXPECT_EQ(line.served(), first(8));
}

TEST(pool_fairness, six_workers_in_three_rounds_on_one_resource_are_served_in_perfect_rotation) {
    session_pool pool{connector{server::start()}, strict(1)};
    std::vector<int> served;  // guarded by the lease
    auto first = pool.acquire();
    std::vector<std::jthread> workers;
    for (int w = 0; w < 6; ++w) {
        workers.emplace_back([&, w] {
            for (int round = 0; round < 3; ++round) {
                auto lease = pool.acquire();
                served.push_back(w);
                // Before the end of the last round all other workers are in line again.
                EXPECT_TRUE(round == 2 || lines_up(pool, 5));
            }
        });
        ASSERT_TRUE(lines_up(pool, static_cast<std::size_t>(w) + 1));
    }
    first.give_back();
    workers.clear();
    std::vector<int> rotation;
    for (int i = 0; i < 18; ++i) rotation.push_back(i % 6);
    EXPECT_EQ(served, rotation);
}

TEST(pool_fairness, a_tight_release_and_acquire_loop_cannot_starve_a_parked_waiter) {
    for (int i = 0; i < rounds(50); ++i) {
        session_pool pool{connector{server::start()}, strict(1)};
        auto lease = pool.acquire();
        queue line(pool);
        ASSERT_TRUE(line.join());
        lease.give_back();
        lease = pool.acquire();
        EXPECT_EQ(line.served_so_far(), 1U) << "the releasing thread took its own resource back";
    }
}

TEST(pool_fairness, try_acquire_never_takes_a_resource_owed_to_a_waiter) {
    for (int i = 0; i < rounds(50); ++i) {
        session_pool pool{connector{server::start()}, strict(1)};
        auto lease = pool.acquire();
        queue line(pool);
        ASSERT_TRUE(line.join());
        lease.give_back();
        auto taken = pool.try_acquire();
        EXPECT_TRUE(!taken || line.served_so_far() == 1U);
        taken.give_back();
        EXPECT_EQ(line.served(), first(1));
    }
}

TEST(pool_fairness, all_threads_are_served_under_churn) {
    constexpr int workers = 6;
    session_pool pool{connector{server::start()}, strict(2)};
    std::vector<std::uint64_t> count(workers);
    {
        std::vector<std::jthread> threads;
        for (int w = 0; w < workers; ++w)
            threads.emplace_back([&, w] {
                for (int i = 0; i < rounds(3000); ++i) {
                    auto lease = pool.acquire();
                    ++count[static_cast<std::size_t>(w)];
                }
            });
    }
    for (auto n : count) EXPECT_EQ(n, static_cast<std::uint64_t>(rounds(3000)));
    EXPECT_EQ(pool.stats().waiting, 0U);
    EXPECT_EQ(pool.stats().refused(cenote::errc::timed_out), 0U);
}

TEST(pool_fairness, two_returns_serve_two_waiters) {
    for (int i = 0; i < rounds(300); ++i) {
        session_pool pool{connector{server::start()}, strict(2)};
        auto one = pool.acquire();
        auto two = pool.acquire();
        queue line(pool);
        ASSERT_TRUE(line.join());
        ASSERT_TRUE(line.join());
        one.give_back();
        two.give_back();
        ASSERT_TRUE(eventually([&] { return line.served_so_far() == 2; }));
    }
}

// 1. A finds nothing free. 2. B releases its resource, sees an empty line, and makes the resource
// idle. 3. A joins the line beside an idle resource, and no thread wakes it.
TEST(pool_fairness, a_return_racing_an_enqueue_never_leaves_a_waiter_beside_an_idle_resource) {
    session_pool pool{connector{server::start()}, strict(1)};
    constexpr int workers = 3;
    std::atomic<int> served{0};
    {
        std::vector<std::jthread> threads;
        for (int w = 0; w < workers; ++w)
            threads.emplace_back([&] {
                for (int i = 0; i < rounds(20'000); ++i) {
                    std::error_code error;
                    auto lease = pool.acquire({}, error);
                    if (lease) ++served;
                    else ADD_FAILURE() << "round " << i << ": " << error.message();
                    lease.give_back();
                    if (i % 7 == 0) std::this_thread::yield();
                }
            });
    }
    EXPECT_EQ(served, workers * rounds(20'000));
}

TEST(pool_fairness, a_canceled_waiter_consumes_nothing) {
    session_pool pool{connector{server::start()}, strict(1)};
    auto lease = pool.acquire();
    std::stop_source stop;
    queue line(pool);
    ASSERT_TRUE(line.join());
    ASSERT_TRUE(line.join(stop.get_token()));
    ASSERT_TRUE(line.join());
    stop.request_stop();
    ASSERT_TRUE(lines_up(pool, 2));
    lease.give_back();
    EXPECT_EQ(line.served(), (std::vector{0, 2}));
}

TEST(pool_fairness, a_timed_out_waiter_consumes_nothing) {
    session_pool pool{connector{server::start()}, strict(1)};
    auto lease = pool.acquire();
    EXPECT_THROW((void)pool.acquire_for(2ms), cenote::timed_out_error);
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease.give_back();
    EXPECT_EQ(line.served(), first(1));
    EXPECT_EQ(pool.stats().idle, 1U);
}

// Grant and cancellation race. With either outcome the second waiter gets the resource.
TEST(pool_fairness, a_grant_that_raced_a_cancellation_is_passed_on) {
    auto to = server::start();
    session_pool pool{connector{to}, strict(1)};
    for (int i = 0; i < rounds(500); ++i) {
        auto lease = pool.acquire();
        std::stop_source stop;
        queue line(pool);
        ASSERT_TRUE(line.join(stop.get_token()));
        ASSERT_TRUE(line.join());
        std::jthread cancel([&] { stop.request_stop(); });
        lease.give_back();
        cancel.join();
        ASSERT_EQ(line.served().back(), 1);
    }
    EXPECT_EQ(to->opens, 1) << "a canceled acquire never destroys a healthy resource";
    EXPECT_EQ(pool.stats().idle, 1U);
}

TEST(pool_fairness, a_grant_that_raced_a_timeout_is_passed_on) {
    auto to = server::start();
    session_pool pool{connector{to}, strict(1)};
    for (int i = 0; i < rounds(500); ++i) {
        auto lease = pool.acquire();
        std::jthread hasty([&] {
            std::error_code error;
            (void)pool.acquire({.timeout = std::chrono::microseconds(50 + i % 200)}, error);
        });
        std::this_thread::yield();
        lease.give_back();
        ASSERT_TRUE(pool.acquire());
    }
    EXPECT_EQ(to->opens, 1);
}

TEST(pool_fairness, bounded_starves_no_waiter) {
    session_pool pool{connector{server::start()},
                      {.max = 1,
                       .acquire_timeout = plenty,
                       .fairness = cenote::fairness::bounded,
                       .bypass_for = 1ms}};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    ASSERT_TRUE(line.join());
    auto end = std::chrono::steady_clock::now() + plenty;
    while (line.served_so_far() < 2 && std::chrono::steady_clock::now() < end) {
        lease.give_back();
        lease = pool.acquire();
    }
    EXPECT_EQ(line.served_so_far(), 2U);
}

TEST(pool_fairness, every_kind_serves_all_threads_under_load) {
    using enum cenote::fairness;
    for (auto fairness : {strict, bounded, turns}) {
        auto to = server::start();
        session_pool pool{connector{to},
                          {.max = 3, .acquire_timeout = plenty, .fairness = fairness}};
        std::atomic<int> served{0};
        {
            std::vector<std::jthread> threads;
            for (int w = 0; w < 8; ++w)
                threads.emplace_back([&] {
                    for (int i = 0; i < rounds(2000); ++i) {
                        auto lease = pool.acquire();
                        auto claim = lease->use();
                        ++served;
                    }
                });
        }
        EXPECT_EQ(served, 8 * rounds(2000));
        EXPECT_LE(to->peak, 3);
        EXPECT_EQ(to->overlaps, 0);
    }
}

TEST(pool_fairness, bounded_lets_a_new_caller_overtake_a_young_head) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()},
                      {.max = 1,
                       .acquire_timeout = plenty,
                       .fairness = cenote::fairness::bounded,
                       .bypass_for = 200ms}};
    // One success is enough to show that it is possible: each attempt may lose the race.
    bool overtaken = eventually([&] {
        cenote::lease<session> lease;
        EXPECT_TRUE(eventually([&] { return bool{lease = pool.try_acquire()}; }));
        queue line(pool);
        if (!line.join()) return false;
        time.advance(200ms - 1ns);
        lease.give_back();
        std::error_code error;
        auto again = pool.acquire({.timeout = 0ns}, error);
        bool first = again && line.served_so_far() == 0;
        again.give_back();
        EXPECT_TRUE(eventually([&] { return time.advance(1ns), line.served_so_far() == 1; }));
        return first;
    });
    EXPECT_TRUE(overtaken);
}
