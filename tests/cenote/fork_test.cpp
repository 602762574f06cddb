// Tests forks: parent and child both keep a working pool, and the child never uses a resource of
// its parent.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"
#include "cenote/testing.hpp"
#include "support/patience.hpp"
#include "support/process.hpp"
#include "support/recorder.hpp"
#include "support/task.hpp"
#include "support/wires.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// The sanitizer ends a child that starts a thread, unless configured otherwise. It watches the
// parent, but not a child of a process with several threads.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): its name
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif
#endif

using namespace std::chrono_literals;
using support::eventually;
using support::forsaking_connector;
using support::in_child;
using support::latch;
using support::plenty;
using support::wire;
using support::wire_connector;
using wire_pool = cenote::pool<wire>;

namespace {

struct fork_test : testing::Test {
    std::shared_ptr<support::exchange> to = std::make_shared<support::exchange>();
    wire_connector connect{to};
    std::optional<wire_pool> pool;

    void make(cenote::options settings = {}) {
        settings.acquire_timeout = plenty;
        settings.probe_timeout = settings.reset_timeout = settings.close_timeout = plenty;
        pool.emplace(connect, settings);
    }
    /// Whether the pool of this process works.
    bool works() {
        for (int i = 0; i < 10; ++i) {
            auto lease = pool->acquire();
            if (!lease || !lease->is_ours()) return false;
            lease->say('u');
            if (i == 5) lease.mark_dirty();
            if (i == 8) lease.discard();
        }
        return true;
    }
    void TearDown() override {
        EXPECT_EQ(to->foreign_words(), 0);
        EXPECT_TRUE(!pool || works());
        pool.reset();
        EXPECT_EQ(to->foreign_words(), 0);
    }
};

}  // namespace

TEST_F(fork_test, idle_resources_stay_with_the_parent) {
    make({.max = 3, .min_size = 3, .warm_up = cenote::warm_up::wait});
    EXPECT_TRUE(in_child([&] {
        CHILD_MUST(works());
        pool.reset();
        return true;
    }));
    EXPECT_EQ(pool->stats().idle, 3U);
    EXPECT_EQ(pool->stats().opened, 3U);
}

TEST_F(fork_test, statistics_begin_at_zero) {
    make({.max = 3, .min_size = 2, .warm_up = cenote::warm_up::wait});
    ASSERT_TRUE(works());
    EXPECT_TRUE(in_child([&] {
        auto before = pool->stats();
        CHILD_MUST(before.total == 0 && before.granted == 0 && before.max == 3);
        (void)pool->acquire();
        auto now = pool->stats();
        CHILD_MUST(now.granted == 1 && now.released == 1 && now.acquires == 1);
        CHILD_MUST(eventually([&] { return pool->stats().total == 2; }));  // the minimum
        return true;
    }));
}

TEST_F(fork_test, a_lease_of_the_forking_thread_stays_readable_and_never_returns) {
    make({.max = 2});
    auto lease = pool->acquire();
    EXPECT_TRUE(in_child([&] {
        int fd = lease->fd();
        CHILD_MUST(fd >= 0 && !lease->is_ours());
        lease.give_back();
        CHILD_MUST(works());
        auto one = pool->acquire();
        auto two = pool->acquire();  // both slots are free
        CHILD_MUST(one->is_ours() && two->is_ours());
        return true;
    }));
}

TEST_F(fork_test, leases_end_in_the_child_in_any_way_and_order) {
    make({.max = 8});
    std::vector<cenote::lease<wire>> leases;
    for (int i = 0; i < 8; ++i) leases.push_back(pool->acquire());
    EXPECT_TRUE(in_child([&] {
        leases[0].give_back();  // before the pool is used
        leases[1].discard();
        leases[2].mark_dirty();
        leases[2].give_back();
        CHILD_MUST(works());
        leases[3].give_back();  // after the pool was used
        leases[4].discard();
        leases[5].mark_dirty();
        leases[5].give_back();
        CHILD_MUST(works());
        pool.reset();
        leases.clear();  // after the end of the pool
        return true;
    }));
    leases.clear();
}

TEST_F(fork_test, a_resource_detached_in_the_child_belongs_to_the_caller) {
    make({.max = 4});
    auto one = pool->acquire();
    auto two = pool->acquire();
    EXPECT_TRUE(in_child([&] {
        auto early = std::make_unique<wire>(one.detach());
        CHILD_MUST(works());
        auto late = std::make_unique<wire>(two.detach());
        CHILD_MUST(early->is_open() && late->is_open());
        CHILD_MUST(works());
        pool.reset();
        (void)early.release();  // its destructor would write to the parent's connection
        (void)late.release();
        return true;
    }));
}

TEST_F(fork_test, a_lease_of_another_thread_is_untouched) {
    make({.max = 1});
    latch go_on;
    std::atomic<bool> holds{false};
    std::thread other([&] {
        auto lease = pool->acquire();
        holds = true;
        go_on.wait();
        lease->say('u');
    });
    ASSERT_TRUE(eventually([&] { return holds.load(); }));
    EXPECT_TRUE(in_child([&] {
        CHILD_MUST(works());  // the only slot is free
        pool.reset();
        return true;
    }));
    go_on.open();
    other.join();
}

TEST_F(fork_test, waiters_are_served_by_the_parent_alone) {
    make({.max = 1});
    auto lease = pool->acquire();
    std::atomic<int> served{0};
    std::vector<std::thread> waiting;
    for (int i = 0; i < 4; ++i)
        waiting.emplace_back([&] {
            auto got = pool->acquire();
            if (got->is_ours()) ++served;
        });
    ASSERT_TRUE(support::lines_up(*pool, 4));
    EXPECT_TRUE(in_child([&] {
        CHILD_MUST(pool->stats().waiting == 0);
        CHILD_MUST(works());
        lease.give_back();
        CHILD_MUST(works());
        CHILD_MUST(served == 0);
        pool.reset();
        return true;
    }));
    EXPECT_EQ(served, 0);
    lease.give_back();
    for (auto& t : waiting) t.join();
    EXPECT_EQ(served, 4);
}

TEST_F(fork_test, calls_in_flight_belong_to_the_parent) {
    latch opens;
    std::atomic<int> begun{0};
    pid_t parent = getpid();
    cenote::pool<wire> slow(
        [&]() -> wire {
            ++begun;
            if (getpid() == parent) opens.wait();
            return connect.open();
        },
        {.max = 2, .min_size = 2, .acquire_timeout = plenty, .open_timeout = cenote::forever});
    ASSERT_TRUE(eventually([&] { return begun == 2; }));
    EXPECT_TRUE(in_child([&] {
        auto lease = slow.acquire();  // both slots are free
        CHILD_MUST(lease->is_ours());
        lease.give_back();
        slow.close(plenty);
        return true;
    }));
    opens.open();
    EXPECT_TRUE(slow.acquire());
}

TEST_F(fork_test, a_pool_with_a_call_in_flight_ends_in_the_child) {
    latch opens;
    std::atomic<int> begun{0};
    std::optional<wire_pool> slow;
    slow.emplace(
        [&]() -> wire {
            ++begun;
            opens.wait();
            return connect.open();
        },
        cenote::options{.max = 1, .min_size = 1, .open_timeout = cenote::forever});
    ASSERT_TRUE(eventually([&] { return begun == 1; }));
    EXPECT_TRUE(in_child([&] { return slow.reset(), true; }));
    opens.open();
}

TEST_F(fork_test, shelved_resources_stay_with_the_parent) {
    make({.max = 4});
    for (int i = 0; i < 1000; ++i) (void)pool->acquire();
    EXPECT_TRUE(in_child([&] {
        for (int i = 0; i < 1000; ++i) {
            auto lease = pool->acquire();
            CHILD_MUST(lease->is_ours());
            lease->say('u');
        }
        return true;
    }));
}

TEST_F(fork_test, a_foreign_resource_does_not_return_to_the_shelf) {
    make({.max = 4});
    for (int i = 0; i < 1000; ++i) (void)pool->acquire();
    auto lease = pool->acquire();
    EXPECT_TRUE(in_child([&] {
        for (int i = 0; i < 100; ++i) CHILD_MUST(pool->acquire()->is_ours());
        auto own = pool->acquire();
        lease.give_back();  // the cell of the shelf is empty, and the lane is open
        for (int i = 0; i < 100; ++i) CHILD_MUST(pool->acquire()->is_ours());
        return true;
    }));
}

TEST_F(fork_test, a_closed_pool_stays_closed) {
    make({.max = 2});
    auto lease = pool->acquire();
    pool->close();
    EXPECT_TRUE(in_child([&] {
        std::error_code error;
        CHILD_MUST(!pool->acquire({}, error));
        CHILD_MUST(error == cenote::errc::closed);
        CHILD_MUST(pool->close(plenty) == 0);
        lease.give_back();
        pool.reset();
        return true;
    }));
    EXPECT_EQ(pool->close(0ns), 1U);
    lease.give_back();
    pool.reset();
}

TEST_F(fork_test, a_pool_that_is_only_destroyed_in_the_child_starts_no_thread) {
    make({.max = 3, .min_size = 3, .warm_up = cenote::warm_up::wait});
    auto lease = pool->acquire();
    EXPECT_TRUE(in_child([&] {
        pool.reset();
        CHILD_MUST(support::slowly || support::thread_count() == 1);
        CHILD_MUST(to->count() == 3);
        lease.give_back();
        return true;
    }));
    lease.give_back();
}

TEST_F(fork_test, a_lease_of_a_destroyed_pool_may_end_in_the_child) {
    make({.max = 2});
    auto lease = pool->acquire();
    pool.reset();
    EXPECT_TRUE(in_child([&] { return lease.give_back(), true; }));
    lease.give_back();
}

TEST_F(fork_test, pools_work_in_children_of_children) {
    make({.max = 2, .min_size = 1, .warm_up = cenote::warm_up::wait});
    auto first = pool->acquire();
    EXPECT_TRUE(in_child([&] {
        CHILD_MUST(works());
        auto second = pool->acquire();
        CHILD_MUST(in_child([&] {
            CHILD_MUST(!second->is_ours());
            CHILD_MUST(works());
            second.give_back();
            first.give_back();
            CHILD_MUST(in_child([&] { return works(); }));  // a third generation
            pool.reset();
            return true;
        }));
        CHILD_MUST(works());
        second->say('u');
        second.give_back();
        first.give_back();
        CHILD_MUST(to->foreign_words() == 0);
        return true;
    }));
}

TEST_F(fork_test, pools_work_in_a_grandchild_of_an_idle_child) {
    make({.max = 2, .min_size = 1, .warm_up = cenote::warm_up::wait});
    auto lease = pool->acquire();
    EXPECT_TRUE(in_child([&] {
        return in_child([&] {
            lease.give_back();
            return works();
        });
    }));
}

TEST_F(fork_test, a_grandchild_may_have_nothing_to_forsake) {
    make({.min_size = 1,
          .warm_up = cenote::warm_up::wait,
          .observers = {std::make_shared<support::recorder>()},
          .clock = std::make_shared<cenote::manual_clock>()});
    EXPECT_TRUE(in_child([&] {
        auto lease = pool->acquire();  // opened by the child; the idle one is forsaken
        CHILD_MUST(in_child([&] {
            pool->pause();  // starts work and has events to report
            pool->resume();
            return works();
        }));
        return true;
    }));
}

TEST_F(fork_test, pools_can_be_created_and_destroyed_in_the_child) {
    make({.max = 2});
    ASSERT_TRUE(works());
    EXPECT_TRUE(in_child([&] {
        for (int i = 0; i < 20; ++i) {
            wire_pool own(connect, {.max = 2});
            CHILD_MUST(own.acquire()->is_ours());
        }
        return works();
    }));
}

TEST_F(fork_test, threads_of_the_child_share_its_pool) {
    make({.max = 3});
    std::vector<cenote::lease<wire>> leases;
    for (int i = 0; i < 3; ++i) leases.push_back(pool->acquire());
    EXPECT_TRUE(in_child([&] {
        std::atomic<int> well{0};
        std::vector<std::thread> threads;
        for (auto& each : leases)
            threads.emplace_back([&, mine = std::move(each)]() mutable {
                mine.give_back();  // while the other threads begin
                for (int i = 0; i < 200; ++i)
                    if (pool->acquire()->is_ours()) ++well;
            });
        for (auto& t : threads) t.join();
        CHILD_MUST(well == 600);
        pool.reset();
        return true;
    }));
}

TEST_F(fork_test, may_come_at_any_time_under_load) {
    make({.max = 3, .max_uses = 50, .sweep_interval = 1ms, .probe_after_idle = 1s});
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; !over; ++i) {
                auto lease = pool->acquire();
                lease->say('u');
                if (i % 64 == t) lease.mark_dirty();
                if (i % 256 == t) lease.discard();
                // Leaves the processor to the child. The result does not depend on it.
                if (i % 32 == 0) std::this_thread::sleep_for(20us);
                if (to->count() > 7000) over = true;
            }
        });
    int forks = support::rounds(300);
    for (int i = 0; i < forks && !HasFailure(); ++i) {
        auto lease = i % 2 == 0 ? pool->acquire() : cenote::lease<wire>();
        EXPECT_TRUE(in_child([&] {
            if (i % 3 == 0) lease.give_back();
            CHILD_MUST(works());
            if (i % 5 == 0) pool.reset();
            return true;
        })) << i;
        EXPECT_EQ(to->foreign_words(), 0);
    }
    over = true;
    for (auto& t : threads) t.join();
}

// Resizes.

TEST_F(fork_test, the_child_inherits_a_larger_maximum) {
    make({.max = 1});
    pool->resize(5);
    std::vector<cenote::lease<wire>> leases;
    for (int i = 0; i < 5; ++i) leases.push_back(pool->acquire());
    EXPECT_TRUE(in_child([&] {
        CHILD_MUST(pool->stats().max == 5);
        leases[4].give_back();  // before the pool is used
        auto own = pool->acquire_many(5);
        for (auto& each : own) CHILD_MUST(each->is_ours());
        leases[3].give_back();  // after the pool was used
        leases[2].discard();
        CHILD_MUST(pool->stats().leased == 5);
        CHILD_MUST(pool->leases().size() == 5);
        CHILD_MUST(!pool->try_acquire());
        own.clear();
        CHILD_MUST(works());
        pool.reset();
        leases.clear();
        return true;
    }));
    EXPECT_EQ(pool->stats().leased, 5U);
    leases.clear();
}

// The slots were created for a larger maximum than the child inherits.
TEST_F(fork_test, the_child_inherits_a_smaller_maximum) {
    make({.max = 6, .leak_after = 1ms});
    std::vector<cenote::lease<wire>> leases;
    for (int i = 0; i < 6; ++i) leases.push_back(pool->acquire());
    pool->resize(2);
    EXPECT_TRUE(in_child([&] {
        CHILD_MUST(pool->stats().max == 2);
        leases[0].give_back();
        auto own = pool->acquire_many(2);
        CHILD_MUST(own[0]->is_ours() && own[1]->is_ours());
        CHILD_MUST(!pool->try_acquire());
        CHILD_MUST(pool->stats().total == 2);
        CHILD_MUST(eventually([&] { return pool->stats().leaks == 2; }));
        leases.clear();
        CHILD_MUST(pool->stats().leased == 2);
        own.clear();
        CHILD_MUST(works());
        return true;
    }));
    leases.clear();
    EXPECT_TRUE(eventually([&] { return pool->stats().total == 2; }));
}

TEST_F(fork_test, the_child_can_resize_before_anything_else) {
    forsaking_connector forsaking{connect};
    wire_pool other(forsaking, {.max = 3, .acquire_timeout = plenty});
    (void)other.acquire_many(3);
    for (std::size_t max : {1u, 2u, 3u, 9u})
        EXPECT_TRUE(in_child([&] {
            other.resize(max);
            CHILD_MUST(*forsaking.forsaken == 3);
            CHILD_MUST(other.stats().max == max);
            CHILD_MUST(other.stats().total == 0);
            auto own = other.acquire_many(max);
            for (auto& each : own) CHILD_MUST(each->is_ours());
            CHILD_MUST(!other.try_acquire());
            return true;
        })) << max;
    EXPECT_EQ(other.stats().max, 3U);
    EXPECT_EQ(other.stats().idle, 3U);
}

TEST_F(fork_test, a_grandchild_inherits_the_maximum_of_the_child) {
    make({.max = 2});
    auto first = pool->acquire();
    EXPECT_TRUE(in_child([&] {
        pool->resize(7);
        auto own = pool->acquire_many(7);
        CHILD_MUST(in_child([&] {
            CHILD_MUST(pool->stats().max == 7);
            pool->resize(4);
            auto mine = pool->acquire_many(4);
            for (auto& each : mine) CHILD_MUST(each->is_ours());
            own.clear();
            first.give_back();
            CHILD_MUST(pool->stats().leased == 4);
            return true;
        }));
        CHILD_MUST(pool->stats().max == 7);
        own.clear();
        return works();
    }));
    EXPECT_EQ(pool->stats().max, 2U);
}

TEST_F(fork_test, the_minimum_of_a_child_that_only_resized_is_opened_with_its_first_acquire) {
    make({.max = 4, .min_size = 3, .warm_up = cenote::warm_up::wait});
    EXPECT_TRUE(in_child([&] {
        pool->resize(5);
        CHILD_MUST(works());
        CHILD_MUST(eventually([&] { return pool->stats().total == 3; }));
        return true;
    }));
    EXPECT_TRUE(in_child([&] {
        pool->resize(3);
        pool.reset();
        return true;
    }));
}

TEST_F(fork_test, may_come_at_any_time_during_resizes) {
    make({.max = 2});
    std::atomic<bool> over{false};
    std::thread user([&] {
        while (!over) pool->acquire()->say('u');
    });
    std::thread resizer([&] {
        for (std::size_t i = 0; !over; ++i) {
            pool->resize(1 + i * 7 % 50);
            std::this_thread::sleep_for(50us);  // leaves the processor to the child
        }
    });
    int forks = support::rounds(100);
    for (int i = 0; i < forks && !HasFailure(); ++i) {
        EXPECT_TRUE(in_child([&] {
            CHILD_MUST(works());
            auto max = static_cast<std::size_t>(pool->stats().max);
            auto own = pool->acquire_many(max);
            for (auto& each : own) CHILD_MUST(each->is_ours());
            CHILD_MUST(!pool->try_acquire());
            own.clear();
            pool->resize(1 + static_cast<std::size_t>(i) % 3);
            return works();
        })) << i;
        EXPECT_EQ(to->foreign_words(), 0);
    }
    over = true;
    user.join();
    resizer.join();
    pool->resize(2);
}

// Connector functions.

TEST_F(fork_test, forsake_gets_each_copy_once) {
    forsaking_connector forsaking{connect};
    wire_pool other(forsaking, {.max = 4, .acquire_timeout = plenty});
    auto lease = other.acquire();
    int idle_fd = -1;
    {
        auto idle = other.acquire();
        auto shelved = other.acquire();
        idle_fd = idle->fd();
    }
    EXPECT_TRUE(in_child([&] {
        int fd = lease->fd();
        CHILD_MUST(*forsaking.forsaken == 0);
        other.retire_all();  // any use of the pool
        CHILD_MUST(*forsaking.forsaken == 2);
        CHILD_MUST(fcntl(idle_fd, F_GETFD) < 0);
        CHILD_MUST(lease->is_open());
        lease.give_back();
        CHILD_MUST(*forsaking.forsaken == 3);
        CHILD_MUST(fcntl(fd, F_GETFD) < 0);
        CHILD_MUST(in_child([&] {
            (void)other.acquire();
            CHILD_MUST(*forsaking.forsaken == 3);
            return true;
        }));
        return true;
    }));
    EXPECT_EQ(*forsaking.forsaken, 0);
    lease.give_back();
    EXPECT_TRUE(other.acquire()->is_open());
}

TEST_F(fork_test, an_exception_of_forsake_is_dropped) {
    struct throwing : wire_connector {
        static void forsake(wire&) { throw 1; }
    };
    wire_pool other(throwing{connect}, {.max = 1});
    auto lease = other.acquire();
    EXPECT_TRUE(in_child([&] {
        lease.give_back();
        return other.acquire()->is_ours();
    }));
}

TEST_F(fork_test, no_hook_gets_a_foreign_resource) {
    struct hooked : wire_connector {
        static bool before_acquire(wire& w) { return w.is_ours() || (w.say('A'), true); }
        static bool before_release(wire& w) { return w.is_ours() || (w.say('R'), true); }
    };
    wire_pool other(hooked{connect}, {.max = 2, .min_size = 1, .acquire_timeout = plenty});
    auto lease = other.acquire();
    EXPECT_TRUE(in_child([&] {
        lease.give_back();
        for (int i = 0; i < 10; ++i) CHILD_MUST(other.acquire()->is_ours());
        return true;
    }));
}

// Forks in functions that the pool calls.

TEST_F(fork_test, may_come_in_an_open) {
    std::atomic<int> ended_well{0};
    cenote::pool<wire> other(
        [&] {
            if (in_child([&] { return other.stats().total == 0; })) ++ended_well;
            return connect.open();
        },
        {.max = 2, .acquire_timeout = plenty});
    EXPECT_TRUE(other.acquire()->is_ours());
    EXPECT_GE(ended_well, 1);
}

TEST_F(fork_test, may_come_in_an_open_that_uses_the_pool_in_the_child) {
    std::atomic<int> ended_well{0};
    std::atomic<bool> nested{false};
    cenote::pool<wire> other(
        [&] {
            if (!nested.exchange(true) && in_child([&] { return other.acquire()->is_ours(); }))
                ++ended_well;
            return connect.open();
        },
        {.max = 2, .acquire_timeout = plenty});
    EXPECT_TRUE(other.acquire()->is_ours());
    EXPECT_EQ(ended_well, 1);
}

TEST_F(fork_test, may_come_in_an_observer) {
    auto seen = std::make_shared<support::recorder>();
    std::atomic<int> ended_well{0};
    std::atomic<int> events{0};
    pid_t parent = getpid();
    seen->then = [&](const cenote::event&) {
        if (getpid() != parent || ++events > 20) return;
        if (in_child([&] { return works(); })) ++ended_well;
    };
    make({.max = 2, .observers = {seen}});
    ASSERT_TRUE(works());
    EXPECT_TRUE(eventually([&] { return events > 20; }));
    EXPECT_EQ(ended_well, 20);
    pool.reset();
}

TEST_F(fork_test, observers_get_events_of_the_child) {
    auto seen = std::make_shared<support::recorder>();
    make({.max = 2, .observers = {seen}});
    ASSERT_TRUE(works());
    // Then the observer is idle, and its lock is free when the child is created.
    ASSERT_TRUE(eventually([&] {
        auto now = pool->stats();
        return seen->count(cenote::event_kind::opened) == now.opened &&
               seen->count(cenote::event_kind::acquired) == now.granted &&
               seen->count(cenote::event_kind::released) == now.released &&
               seen->count(cenote::event_kind::discarded) == now.discarded &&
               seen->count(cenote::event_kind::closed) == now.closed && now.total == 1;
    }));
    EXPECT_TRUE(in_child([&] {
        std::size_t before = seen->seen().size();
        CHILD_MUST(works());
        pool.reset();
        CHILD_MUST(seen->seen().size() > before);
        CHILD_MUST(seen->seen().back().kind == cenote::event_kind::closed_pool);
        return true;
    }));
}

// Waiting coroutines.

namespace {

support::task waits(wire_pool& pool, std::stop_token stop, int* outcome) {
    std::error_code error;
    auto lease = co_await pool.co_acquire({.timeout = plenty, .stop = stop}, error);
    *outcome = lease ? 1 : error == cenote::errc::canceled ? -1 : -2;
}

}  // namespace

TEST_F(fork_test, a_waiting_coroutine_is_not_resumed_in_the_child_unless_stopped) {
    make({.max = 1});
    auto lease = pool->acquire();
    int outcome = 0;
    int other_outcome = 0;
    std::stop_source stop;
    std::optional<support::task> waiting = waits(*pool, stop.get_token(), &outcome);
    std::optional<support::task> other = waits(*pool, {}, &other_outcome);
    waiting->start();
    other->start();
    EXPECT_TRUE(in_child([&] {
        CHILD_MUST(works());
        lease.give_back();
        CHILD_MUST(works());
        CHILD_MUST(outcome == 0 && other_outcome == 0);
        stop.request_stop();
        CHILD_MUST(outcome == -1);
        other.reset();  // destroyed while it waits
        CHILD_MUST(works());
        pool.reset();
        return true;
    }));
    EXPECT_EQ(outcome, 0);
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return outcome == 1 && other_outcome == 1; }));
}

TEST_F(fork_test, may_come_in_a_coroutine_that_a_release_resumes) {
    make({.max = 1});
    auto lease = pool->acquire();
    bool well = false;
    auto forks = [&]() -> support::task {
        auto got = co_await pool->co_acquire_for(plenty);
        well = in_child([&] {
            got.give_back();
            return works();
        });
    };
    support::task waiting = forks();
    waiting.start();
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return well; }));
}
