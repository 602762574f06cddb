// Tests pools on a manual clock: exact times, no threads, no sleep.
#include "cenote/testing.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <future>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"
#include "support/task.hpp"

using namespace std::chrono_literals;
using cenote::errc;
using cenote::event_kind;
using cenote::manual_clock;
using waiting = cenote::manual_clock::waiting;
using support::connector;
using support::eventually;
using support::latch;
using support::recorder;
using support::refused_by_server;
using support::server;
using support::session;
using support::task;
using session_pool = cenote::pool<session>;

namespace {

std::ptrdiff_t threads_now() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

struct on_manual_clock : testing::Test {
    std::shared_ptr<server> to = server::start();
    std::shared_ptr<manual_clock> clock = std::make_shared<manual_clock>();
    manual_clock::time_point start = clock->now();
    std::optional<session_pool> pool;

    session_pool& make(cenote::options settings = {}) {
        settings.clock = clock;
        return pool.emplace(connector{to}, settings);
    }
    std::chrono::nanoseconds passed() const { return clock->now() - start; }
};

/// How an acquire ended, and when.
struct outcome {
    bool ended = false;
    std::error_code error;
    cenote::lease<session> lease;
    manual_clock::time_point at;
};
task acquire(session_pool& pool, manual_clock& clock, outcome& out,
             std::chrono::nanoseconds timeout) {
    std::error_code error;
    auto lease = co_await pool.co_acquire({.timeout = timeout}, error);
    out.lease = std::move(lease);
    out.error = error;
    out.at = clock.now();
    out.ended = true;
}

}  // namespace

TEST_F(on_manual_clock, no_thread_is_started_and_calls_run_where_they_are_needed) {
    std::set<std::thread::id> where;
    to->on_open = [&](int) { where.insert(std::this_thread::get_id()); };
    to->on_close = [&](int) { where.insert(std::this_thread::get_id()); };
    std::ptrdiff_t before = threads_now();
    make({.min_size = 3});
    EXPECT_TRUE(pool->wait_ready(0s));
    auto lease = pool->acquire();
    lease.discard();
    EXPECT_EQ(threads_now(), before);
    pool.reset();
    EXPECT_EQ(to->opens, 4);
    EXPECT_EQ(to->closes, 4);
    EXPECT_EQ(where, std::set{std::this_thread::get_id()});
}

TEST_F(on_manual_clock, idle_resources_are_retired_when_the_clock_says_so) {
    make({.idle_timeout = 5min});
    static_cast<void>(pool->acquire());
    clock->advance(5min - 1ns);
    EXPECT_EQ(pool->stats().total, 1U);
    clock->advance(1ns);
    EXPECT_EQ(pool->stats().total, 0U);
    EXPECT_EQ(to->closes, 1);
}

TEST_F(on_manual_clock, everything_due_on_the_way_happens_at_its_own_time) {
    std::vector<std::chrono::nanoseconds> probes;
    to->on_probe = [&](int) {
        probes.push_back(passed());
        return true;
    };
    make({.min_size = 1, .idle_timeout = cenote::forever, .heartbeat = 10s});
    clock->advance(35s);
    EXPECT_EQ(probes, (std::vector<std::chrono::nanoseconds>{10s, 20s, 30s}));
    EXPECT_EQ(passed(), 35s);
}

TEST_F(on_manual_clock, ages_and_idle_probes_need_no_sleep) {
    make({.max_lifetime = 30min, .lifetime_jitter = 0, .probe_after_idle = 5s});
    static_cast<void>(pool->acquire());
    clock->advance(4s);
    static_cast<void>(pool->acquire());
    EXPECT_EQ(to->probes, 0);
    clock->advance(5s);
    static_cast<void>(pool->acquire());
    EXPECT_EQ(to->probes, 1);
    for (int i = 0; i < 30; ++i) {
        clock->advance(1min);
        static_cast<void>(pool->acquire());
    }
    EXPECT_EQ(to->opens, 2);
}

TEST_F(on_manual_clock, a_long_advance_does_not_count_as_a_frozen_process) {
    make({.idle_timeout = cenote::forever,
          .max_lifetime = cenote::forever,
          .probe_after_idle = cenote::forever});
    static_cast<void>(pool->acquire());
    clock->advance(24h);
    static_cast<void>(pool->acquire());
    EXPECT_EQ(to->probes, 0);
    EXPECT_EQ(to->opens, 1);
}

TEST_F(on_manual_clock, an_acquire_that_must_wait_times_out_without_waiting) {
    make({.max = 1, .acquire_timeout = 5s});
    auto lease = pool->acquire();
    try {
        static_cast<void>(pool->acquire());
        FAIL() << "there is only one";
    } catch (const cenote::timed_out_error& e) {
        EXPECT_NE(std::string(e.what()).find("timed out after 5.0 s"), std::string::npos)
            << e.what();
        EXPECT_NE(std::string(e.what()).find("oldest 5.0 s"), std::string::npos) << e.what();
    }
    EXPECT_EQ(passed(), 5s);
}

TEST_F(on_manual_clock, a_deadline_is_a_time_of_the_clock) {
    make({.max = 1});
    auto lease = pool->acquire();
    std::error_code error;
    static_cast<void>(pool->acquire({.deadline = clock->now() + 3s}, error));
    EXPECT_EQ(error, errc::timed_out);
    EXPECT_EQ(passed(), 3s);
    static_cast<void>(pool->acquire({.timeout = 0s}, error));
    EXPECT_EQ(error, errc::timed_out);
    EXPECT_EQ(passed(), 3s);
}

TEST_F(on_manual_clock, an_acquire_waits_through_an_outage_without_real_time) {
    auto up_at = start + 2s;
    to->on_open = [&](int) {
        if (clock->now() < up_at) throw refused_by_server("down");
    };
    make({.acquire_timeout = 10s});
    auto lease = pool->acquire();
    EXPECT_TRUE(lease);
    EXPECT_GE(passed(), 2s);
    EXPECT_LE(passed(), 2s + 240ms);  // backoff::cap_waiting and its jitter of a fifth
}

TEST_F(on_manual_clock, a_connector_is_slow_by_moving_the_clock) {
    to->on_open = [&](int id) {
        if (id == 1) clock->advance(11s);
    };
    make({.acquire_timeout = 30s, .open_timeout = 10s});
    auto lease = pool->acquire();
    EXPECT_EQ(lease->id, 2);   // the first open was abandoned after ten seconds
    EXPECT_EQ(to->closes, 1);  // its late result was closed
    EXPECT_EQ(pool->stats().total, 1U);
    EXPECT_EQ(pool->stats().open_failed, 1U);
}

TEST_F(on_manual_clock, a_leak_is_reported_when_it_is_due) {
    auto events = std::make_shared<recorder>(std::set{event_kind::leak_suspected});
    make({.leak_after = 30s, .observers = {events}});
    auto lease = pool->acquire();
    clock->advance(30s - 1ns);
    EXPECT_EQ(events->count(event_kind::leak_suspected), 0U);
    clock->advance(1ns);
    EXPECT_EQ(events->count(event_kind::leak_suspected), 1U);
    clock->advance(30s);
    EXPECT_EQ(events->count(event_kind::leak_suspected), 2U);
}

TEST_F(on_manual_clock, a_circuit_breaker_recovers_after_its_cool_down) {
    make({.breaker = std::make_shared<cenote::threshold_breaker>(
              cenote::threshold_breaker::settings{.failures = 2, .cool_down = 10s})});
    for (int i = 0; i < 2; ++i) pool->acquire().discard(std::make_exception_ptr(1));
    EXPECT_EQ(pool->stats().breaker, cenote::breaker_state::inactive);
    EXPECT_THROW(static_cast<void>(pool->acquire()), cenote::unavailable_error);
    clock->advance(10s);
    EXPECT_EQ(pool->stats().breaker, cenote::breaker_state::recovering);
    static_cast<void>(pool->acquire());
    EXPECT_EQ(pool->stats().breaker, cenote::breaker_state::active);
}

TEST_F(on_manual_clock, coroutines_wait_in_order_and_end_at_their_deadlines) {
    make({.max = 1});
    auto lease = pool->acquire();
    outcome first;
    outcome second;
    outcome third;
    task a = acquire(*pool, *clock, first, 2s);
    task b = acquire(*pool, *clock, second, 1s);
    task c = acquire(*pool, *clock, third, 10s);
    a.start();
    b.start();
    c.start();
    clock->advance(1500ms);
    EXPECT_FALSE(first.ended);
    EXPECT_EQ(second.error, errc::timed_out);
    EXPECT_EQ(second.at - start, 1s);
    lease.give_back();
    EXPECT_TRUE(first.lease);
    EXPECT_FALSE(third.ended);
    first.lease = {};
    EXPECT_TRUE(third.lease);
}

TEST_F(on_manual_clock, a_thread_sleeps_until_another_one_moves_the_clock) {
    clock = std::make_shared<manual_clock>(waiting::sleeps);
    make({.max = 1});
    auto lease = pool->acquire();
    auto refused = std::async(std::launch::async, [&] {
        std::error_code error;
        static_cast<void>(pool->acquire({.timeout = 1min}, error));
        return error;
    });
    EXPECT_TRUE(eventually([&] { return pool->stats().waiting == 1; }));
    clock->advance(1min - 1ns);
    EXPECT_EQ(pool->stats().waiting, 1U);
    clock->advance(1ns);
    EXPECT_EQ(refused.get(), errc::timed_out);

    auto served = std::async(std::launch::async, [&] { return pool->acquire(); });
    EXPECT_TRUE(eventually([&] { return pool->stats().waiting == 1; }));
    lease.give_back();
    EXPECT_TRUE(served.get());
}

TEST_F(on_manual_clock, close_waits_for_leases_by_the_clock) {
    make();
    auto lease = pool->acquire();
    EXPECT_EQ(pool->close(30s), 1U);
    EXPECT_EQ(passed(), 30s);
    lease.give_back();
    EXPECT_EQ(pool->close(30s), 0U);
    EXPECT_EQ(passed(), 30s);
}

TEST_F(on_manual_clock, a_sleeping_close_ends_when_another_thread_moves_the_clock) {
    clock = std::make_shared<manual_clock>(waiting::sleeps);
    make();
    auto lease = pool->acquire();
    auto left = std::async(std::launch::async, [&] { return pool->close(30s); });
    EXPECT_TRUE(eventually([&] {
        clock->advance(1s);
        return left.wait_for(0s) == std::future_status::ready;
    }));
    EXPECT_EQ(left.get(), 1U);
}

TEST_F(on_manual_clock, warm_up_waits_and_throws) {
    make({.min_size = 2, .warm_up = cenote::warm_up::wait});
    EXPECT_EQ(pool->stats().idle, 2U);
    pool.reset();
    to->on_open = [](int) { throw refused_by_server("no"); };
    EXPECT_THROW(make({.min_size = 1, .warm_up = cenote::warm_up::wait}), refused_by_server);
}

TEST_F(on_manual_clock, two_pools_share_a_clock) {
    auto other_server = server::start();
    make({.idle_timeout = 2min});
    session_pool other{connector{other_server}, {.idle_timeout = 1min, .clock = clock}};
    static_cast<void>(pool->acquire());
    static_cast<void>(other.acquire());
    clock->advance(90s);
    EXPECT_EQ(other.stats().total, 0U);
    EXPECT_EQ(pool->stats().total, 1U);
    clock->advance(30s);
    EXPECT_EQ(pool->stats().total, 0U);
}

TEST_F(on_manual_clock, an_observer_may_use_the_pool_while_time_passes) {
    auto events = std::make_shared<recorder>(std::set{event_kind::retired});
    int leases = 0;
    events->then = [&](const cenote::event&) {
        if (auto lease = pool->acquire()) ++leases;
    };
    make({.idle_timeout = 1min, .observers = {events}});
    static_cast<void>(pool->acquire());
    clock->advance(1min);
    EXPECT_EQ(leases, 1);
    EXPECT_EQ(to->opens, 2);
}

TEST_F(on_manual_clock, a_coroutine_that_time_resumes_may_destroy_the_pool) {
    make({.max = 1});
    auto lease = pool->acquire();
    auto end_it = [](std::optional<session_pool>& all) -> task {
        std::error_code error;
        auto none = co_await all->co_acquire({.timeout = 1s}, error);
        EXPECT_EQ(error, errc::timed_out);
        all.reset();
    };
    task t = end_it(pool);
    t.start();
    clock->advance(2s);
    EXPECT_FALSE(pool.has_value());
    EXPECT_TRUE(t.done());
    lease.give_back();
    EXPECT_EQ(to->closes, 1);
}

TEST_F(on_manual_clock, a_coroutine_that_an_open_resumes_may_destroy_the_pool) {
    make({.max = 2});
    auto end_it = [](std::optional<session_pool>& all) -> task {
        auto lease = co_await all->co_acquire();
        EXPECT_TRUE(lease);
        lease.give_back();
        all.reset();
    };
    task t = end_it(pool);
    t.start();
    EXPECT_TRUE(t.done());
    EXPECT_EQ(to->closes, 1);
}

TEST_F(on_manual_clock, the_clock_and_leases_may_outlive_the_pool) {
    make();
    auto lease = pool->acquire();
    pool.reset();
    clock->advance(1h);
    lease.give_back();
    EXPECT_EQ(to->closes, 1);
}

TEST_F(on_manual_clock, the_pool_keeps_its_clock) {
    make({.idle_timeout = 1min});
    std::weak_ptr<manual_clock> kept = clock;
    clock.reset();
    EXPECT_FALSE(kept.expired());
    static_cast<void>(pool->acquire());
    pool.reset();
    EXPECT_TRUE(kept.expired());
}

TEST_F(on_manual_clock, time_never_goes_backwards) {
    EXPECT_THROW(clock->advance(-1ns), std::invalid_argument);
    clock->advance(1s);
    clock->advance_to(start);
    EXPECT_EQ(passed(), 1s);
}

TEST_F(on_manual_clock, what_is_never_due_is_not_due_at_the_end_of_time) {
    make({.acquire_timeout = cenote::forever,
          .idle_timeout = cenote::forever,
          .max_lifetime = cenote::forever,
          .leak_after = cenote::forever});
    clock->advance(cenote::forever);
    EXPECT_GT(passed(), 24h * 365 * 100);
    auto lease = pool->acquire();
    lease.give_back();
    EXPECT_EQ(pool->stats().idle, 1U);
    EXPECT_EQ(to->closes, 0);
}

// A thread joins the line with the old time, after advance() has collected what is due and before
// it moves the clock.
TEST_F(on_manual_clock, no_caller_misses_its_deadline_while_the_clock_moves) {
    clock = std::make_shared<manual_clock>(waiting::sleeps);
    make({.max = 1, .line_max = 100});
    auto lease = pool->acquire();
    // advance() asks all pools of the clock: many pools make the gap longer.
    std::list<session_pool> others;
    for (int i = 0; i < 200; ++i)
        others.emplace_back(connector{to}, cenote::options{.clock = clock});
    constexpr int times = support::rounds(20'000);
    std::atomic<int> ended{0};
    std::atomic<manual_clock::time_point> deadline{clock->now()};
    std::thread waits([&] {
        for (; ended < times; ++ended) {
            std::error_code error;
            deadline = clock->now() + 1ms;
            static_cast<void>(pool->acquire({.deadline = deadline}, error));
        }
    });
    // A caller whose deadline has passed needs no further advance.
    auto answered = [&] { return ended == times || deadline.load() > clock->now(); };
    bool all = true;
    while (ended < times && all) {
        clock->advance(1s);
        // No pause, so that the next caller joins the line while the clock moves again.
        for (int i = 0; i < 10'000 && !answered(); ++i) std::this_thread::yield();
        all = eventually(answered);
    }
    EXPECT_TRUE(all) << "a caller still sleeps after its deadline";
    while (ended < times) clock->advance(1s);
    waits.join();
}

// The call hangs on one thread; the pool continues on another.
TEST_F(on_manual_clock, a_call_that_hangs_is_abandoned) {
    clock = std::make_shared<manual_clock>(waiting::sleeps);
    latch closes;
    std::atomic<bool> hangs{false};
    to->on_close = [&](int id) {
        if (id != 1) return;
        hangs = true;
        closes.wait();
    };
    make({.close_timeout = 1s, .idle_timeout = 1min});
    pool->acquire().give_back();
    std::thread other([&] { clock->advance(1min); });
    EXPECT_TRUE(eventually([&] { return hangs.load(); }));
    EXPECT_TRUE(eventually([&] {
        clock->advance(1s);
        return pool->stats().abandoned == 1;
    }));
    auto lease = pool->acquire();
    EXPECT_EQ(lease->id, 2);
    lease.give_back();
    pool.reset();
    EXPECT_EQ(to->closes, 2);
    closes.open();
    other.join();
}

TEST_F(on_manual_clock, a_connector_may_destroy_the_pool_in_a_call_within_a_call) {
    to->on_open = [&](int id) {
        if (id == 2) pool.reset();
        if (id == 1) {
            std::error_code error;
            static_cast<void>(pool->acquire({.timeout = 1s}, error));
        }
    };
    make({.max = 2, .min_size = 1, .warm_up = cenote::warm_up::none});
    outcome first;
    task a = acquire(*pool, *clock, first, 20s);
    a.start();
    EXPECT_FALSE(pool.has_value());
    EXPECT_TRUE(first.ended);
    EXPECT_EQ(to->present, 0);
}

TEST_F(on_manual_clock, several_leases_at_once_are_waited_for) {
    make({.max = 2});
    auto one = pool->acquire();
    std::error_code error;
    EXPECT_TRUE(pool->acquire_many(2, {.timeout = 3s}, error).empty());
    EXPECT_EQ(error, errc::timed_out);
    EXPECT_EQ(passed(), 3s);
    one.give_back();
    EXPECT_EQ(pool->acquire_many(2).size(), 2U);
}

TEST_F(on_manual_clock, maintenance_can_be_suspended) {
    make({.idle_timeout = 1min});
    static_cast<void>(pool->acquire());
    pool->suspend_maintenance();
    clock->advance(1h);
    EXPECT_EQ(pool->stats().total, 1U);
    pool->resume_maintenance();
    clock->advance(1s);
    EXPECT_EQ(pool->stats().total, 0U);
}
