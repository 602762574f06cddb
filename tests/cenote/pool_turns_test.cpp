// Tests fairness::turns: a thread that acquires again at once gets its resource again, a few times.
// No waiter starves, and coroutines do not wait for such a thread.
#include <atomic>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"
#include "support/task.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::lines_up;
using support::loop;
using support::on;
using support::plenty;
using support::rounds;
using support::server;
using support::session;
using support::task;
using session_pool = cenote::pool<session>;
using maybe_lease = std::optional<cenote::lease<session>>;

namespace {

/// How long a resource is set aside.
constexpr auto moment = 100us;

cenote::options taking_turns(std::size_t max = 1) {
    return {.max = max, .acquire_timeout = plenty, .fairness = cenote::fairness::turns};
}

/// Waiters that join the line one after the other, and how many were served or refused.
class queue {
public:
    explicit queue(session_pool& pool) : pool_(pool) {}

    /// Adds a waiter; returns when it is in line.
    bool join(cenote::priority rank = cenote::priority::normal) {
        std::size_t place = pool_.stats().waiting + 1;
        threads_.emplace_back([this, rank] {
            std::error_code error;
            auto lease = pool_.acquire({.priority = rank}, error);
            ++(lease ? served_ : refused_);
        });
        return lines_up(pool_, place);
    }
    /// Each release sets the resource aside for its thread, which does not acquire again.
    bool comes_to(int served, support::stopped_clock& time) {
        return eventually([&] { return time.advance(moment), served_ >= served; });
    }
    bool comes_to(int served) {
        return eventually([&] { return served_ >= served; });
    }
    int served() const { return served_; }
    /// Waits for the end of all threads.
    int refused() {
        threads_.clear();
        return refused_;
    }

private:
    session_pool& pool_;
    std::atomic<int> served_{0};
    std::atomic<int> refused_{0};
    std::vector<std::jthread> threads_;
};

/// Each lease leaves a reset that is owed.
struct owing_connector : connector {
    static cenote::verdict before_release(session&) { return cenote::verdict::reset_later; }
};

task borrow(session_pool& pool, loop& where, maybe_lease& lease, std::vector<int>& order,
            int number) {
    lease = co_await pool.co_acquire().resumed_by(on(where));
    order.push_back(number);
}

}  // namespace

TEST(pool_turns, a_thread_that_returns_gets_its_resource_again) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    for (int i = 0; i < 10; ++i) {
        lease.give_back();
        EXPECT_EQ(pool.stats().idle, 1U) << i;
        lease = pool.acquire();
        EXPECT_EQ(pool.stats().idle, 0U) << i;
    }
    EXPECT_EQ(line.served(), 0);
    EXPECT_EQ(pool.stats().granted, 11U);
    lease.give_back();
    EXPECT_TRUE(line.comes_to(1, time));
}

// A moved lease does not know the thread that acquired it.
TEST(pool_turns, a_lease_may_be_moved_meanwhile) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    auto first = pool.acquire();
    auto lease = std::move(first);
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease.give_back();
    EXPECT_EQ(pool.stats().idle, 1U);
    lease = pool.acquire();
    EXPECT_EQ(line.served(), 0);
    lease.give_back();
    EXPECT_TRUE(line.comes_to(1, time));
}

TEST(pool_turns, a_thread_that_does_not_return_delays_the_head_briefly) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease.give_back();
    time.advance(moment - 1ns);
    EXPECT_EQ(line.served(), 0);
    EXPECT_EQ(pool.stats().idle, 1U);
    time.advance(1ns);
    EXPECT_TRUE(line.comes_to(1));
}

// The pool itself has to pass on what was set aside, because no further call follows.
TEST(pool_turns, the_head_is_served_without_another_call) {
    for (int i = 0; i < rounds(100); ++i) {
        session_pool pool{connector{server::start()}, taking_turns()};
        auto lease = pool.acquire();
        queue line(pool);
        ASSERT_TRUE(line.join());
        lease.give_back();
        ASSERT_TRUE(line.comes_to(1));
    }
}

TEST(pool_turns, a_tight_loop_cannot_starve_a_waiter) {
    session_pool pool{connector{server::start()}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    ASSERT_TRUE(line.join());
    auto end = support::machine_time() + plenty;
    while (line.served() < 2 && support::machine_time() < end) {
        lease.give_back();
        lease = pool.acquire();
    }
    EXPECT_EQ(line.served(), 2);
}

TEST(pool_turns, a_resource_set_aside_goes_only_to_its_thread) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease.give_back();
    EXPECT_FALSE(pool.try_acquire());
    ASSERT_TRUE(line.join());
    EXPECT_EQ(line.served(), 0);
    lease = pool.acquire_for(0ns);
    EXPECT_TRUE(lease);
    lease.give_back();
    EXPECT_TRUE(line.comes_to(2, time));
}

// The releasing thread has not acquired this lease, so it is not expected to acquire again.
TEST(pool_turns, a_lease_that_ends_on_another_thread_goes_to_the_head_at_once) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    std::jthread([&] { lease.give_back(); }).join();
    EXPECT_TRUE(line.comes_to(1));
}

TEST(pool_turns, a_reserved_waiter_is_served_at_once) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join(cenote::priority::reserved));
    lease.give_back();
    EXPECT_TRUE(line.comes_to(1));
}

TEST(pool_turns, coroutines_are_served_in_order_and_at_once) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    auto mine = pool.acquire();
    loop where;
    std::vector<int> order;
    maybe_lease leases[3];
    std::vector<task> tasks;
    for (int i = 0; i < 3; ++i) tasks.push_back(borrow(pool, where, leases[i], order, i));
    for (task& t : tasks) t.start();
    ASSERT_TRUE(lines_up(pool, 3));
    mine.give_back();
    for (int i = 0; i < 3; ++i) {
        where.run();
        ASSERT_EQ(order.size(), static_cast<std::size_t>(i) + 1)
            << "the next coroutine has to wait";
        ASSERT_EQ(order.back(), i);
        leases[i]->give_back();
    }
    EXPECT_EQ(pool.stats().idle, 1U);
}

// The coroutine runs on a thread that also acquires for itself.
TEST(pool_turns, a_lease_of_a_coroutine_goes_to_the_head_at_once) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    loop where;
    std::vector<int> order;
    maybe_lease lease;
    auto mine = pool.acquire();
    task t = borrow(pool, where, lease, order, 0);
    t.start();
    mine.give_back();
    where.run();
    ASSERT_TRUE(t.done());
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease->give_back();
    EXPECT_TRUE(line.comes_to(1));
}

TEST(pool_turns, a_coroutine_behind_a_thread_is_served_right_after_it) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    loop where;
    std::vector<int> order;
    maybe_lease lease;
    auto mine = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    task t = borrow(pool, where, lease, order, 0);
    t.start();
    mine.give_back();  // set aside, because the head is a thread
    EXPECT_EQ(order.size(), 0U);
    time.advance(moment);
    ASSERT_TRUE(line.comes_to(1));  // and releases it to the coroutine at once
    ASSERT_TRUE(eventually([&] { return where.ready() > 0; }));
    where.run();
    EXPECT_EQ(order, std::vector{0});
}

TEST(pool_turns, close_refuses_waiters_and_closes_what_is_set_aside) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease.give_back();
    pool.close();
    EXPECT_EQ(line.refused(), 1);
    EXPECT_TRUE(eventually([&] { return pool.stats().total == 0; }));
    std::error_code error;
    EXPECT_FALSE(pool.acquire({}, error));
    EXPECT_EQ(error, cenote::errc::closed);
}

TEST(pool_turns, pause_keeps_what_is_set_aside_for_the_head) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease.give_back();
    pool.pause();
    std::error_code error;
    EXPECT_FALSE(pool.acquire({.timeout = 0ns}, error));
    EXPECT_EQ(line.served(), 0);
    pool.resume();
    EXPECT_TRUE(line.comes_to(1));
}

TEST(pool_turns, resize_closes_a_surplus_resource_that_is_set_aside) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, taking_turns(2)};
    auto one = pool.acquire();
    auto two = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    one.give_back();
    pool.resize(1);
    EXPECT_TRUE(eventually([&] { return pool.stats().total == 1; }));
    EXPECT_EQ(line.served(), 0);
    time.advance(moment);
    two.give_back();
    EXPECT_TRUE(line.comes_to(1, time));
}

// The resource set aside will be free in a moment, so no open is needed for the head alone.
TEST(pool_turns, a_larger_maximum_serves_waiters_behind_the_head) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    ASSERT_TRUE(line.join());
    lease.give_back();
    pool.resize(2);
    EXPECT_TRUE(line.comes_to(1));
    EXPECT_TRUE(line.comes_to(2, time));
}

TEST(pool_turns, retire_all_closes_what_is_set_aside) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease.give_back();
    pool.retire_all();
    EXPECT_TRUE(line.comes_to(1));
    EXPECT_EQ(to->opens, 2);
}

TEST(pool_turns, a_resource_that_owes_a_reset_is_set_aside_too) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{owing_connector{{to}}, taking_turns()};
    auto lease = pool.acquire();
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease.give_back();
    EXPECT_EQ(pool.stats().idle, 1U);
    EXPECT_EQ(to->resets, 0);
    lease = pool.acquire();
    EXPECT_EQ(line.served(), 0);
    lease.give_back();
    EXPECT_TRUE(line.comes_to(1, time));
}

// A thread that has a lease and wants another makes the pool update its record of all leases.
TEST(pool_turns, a_nested_acquire_keeps_what_is_set_aside) {
    support::stopped_clock time;
    session_pool pool{connector{server::start()}, taking_turns(2)};
    auto lease = pool.acquire();
    support::latch has_one;
    support::latch wants_another;
    std::atomic<bool> done{false};
    std::jthread other([&] {
        auto one = pool.acquire();
        has_one.open();
        wants_another.wait();
        auto another = pool.acquire();
        done = true;
    });
    ASSERT_TRUE(has_one.wait());
    queue line(pool);
    ASSERT_TRUE(line.join());
    lease.give_back();
    wants_another.open();
    ASSERT_TRUE(lines_up(pool, 2));
    lease = pool.acquire();
    EXPECT_EQ(line.served(), 0);
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return time.advance(moment), done.load(); }));
}

TEST(pool_turns, threads_and_coroutines_are_all_served_under_load) {
    constexpr int threads = 6;
    constexpr int coroutines = 6;
    const int each = rounds(1000);
    auto to = server::start();
    session_pool pool{connector{to}, taking_turns(2)};
    std::atomic<int> served{0};
    {
        std::vector<std::jthread> workers;
        for (int i = 0; i < threads; ++i)
            workers.emplace_back([&] {
                for (int n = 0; n < each; ++n) {
                    auto lease = pool.acquire();
                    auto claim = lease->use();
                    ++served;
                }
            });
        workers.emplace_back([&] {
            loop where;
            std::vector<task> tasks;
            auto borrow_often = [&]() -> task {
                for (int n = 0; n < each; ++n) {
                    auto lease = co_await pool.co_acquire().resumed_by(on(where));
                    auto claim = lease->use();
                    ++served;
                }
            };
            for (int i = 0; i < coroutines; ++i) tasks.push_back(borrow_often());
            for (task& t : tasks) t.start();
            auto done = [&] {
                for (task& t : tasks)
                    if (!t.done()) return false;
                return true;
            };
            while (!done()) {
                where.run();
                std::this_thread::yield();
            }
        });
    }
    EXPECT_EQ(served, (threads + coroutines) * each);
    EXPECT_LE(to->peak, 2);
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_EQ(pool.stats().waiting, 0U);
}
