// Tests the report of suspected leaks, and the list of leases.
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"
#include "support/task.hpp"

using namespace std::chrono_literals;
using cenote::forever;
using cenote::lease_info;
using support::connector;
using support::eventually;
using support::for_a_while;
using support::recorder;
using support::server;
using support::session;
using support::stopped_clock;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StrEq;
using session_pool = cenote::pool<session>;
using enum cenote::event_kind;

namespace {

/// Wants only leak events, so that the fast lane stays open.
std::shared_ptr<recorder> leak_recorder() {
    return std::make_shared<recorder>(std::set{leak_suspected});
}

/// A lease that comes from the fast lane.
cenote::lease<session> acquire_hot(session_pool& pool, const cenote::acquire_options& how = {}) {
    for (int i = 0; i < 20; ++i) (void)pool.acquire();
    return pool.acquire(how);
}

/// Short leases over the fast lane for 200 ms, while the pool checks its leases.
void use_briefly(session_pool& pool, stopped_clock& time) {
    for (int i = 0; i < 20; ++i) {
        time.advance(10ms);
        EXPECT_TRUE(for_a_while([&] { return bool{pool.acquire()}; }, 1ns));
    }
}

/// Whether `holds` becomes true as the clock moves.
template <class Condition>
bool in_time(stopped_clock& time, Condition holds) {
    return eventually([&] {
        time.advance(5ms);
        return holds();
    });
}

std::vector<std::string> tasks_of(const std::vector<lease_info>& leases) {
    std::vector<std::string> tasks;
    for (const lease_info& l : leases) tasks.emplace_back(l.task == nullptr ? "" : l.task);
    return tasks;
}

}  // namespace

TEST(pool_leak, is_reported_once_and_then_at_doubling_intervals) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()},
                      {.name = "orders", .leak_after = 20ms, .observers = {watch}}};
    auto lease = pool.acquire();
    auto line = std::source_location::current().line() - 1;
    std::chrono::nanoseconds held_for{};
    std::size_t reports = 0;
    for (auto due : {20ms, 40ms, 80ms, 160ms}) {
        time.advance(due - held_for - 1ns);
        EXPECT_TRUE(for_a_while([&] { return watch->count(leak_suspected) == reports; }, 10ms));
        time.advance(1ns);
        held_for = due;
        ++reports;
        ASSERT_TRUE(eventually([&] { return watch->count(leak_suspected) == reports; }));
        EXPECT_EQ(watch->seen().back().took, due);
    }
    lease.give_back();
    auto seen = watch->seen();
    for (const auto& e : seen) {
        EXPECT_EQ(e.resource, seen[0].resource);
        EXPECT_EQ(e.site.line(), line);
        EXPECT_THAT(e.site.file_name(), HasSubstr("pool_leak_test.cpp"));
        EXPECT_EQ(e.task, nullptr);
    }
    EXPECT_EQ(pool.stats().leaks, 1U) << "one lease, however often it is reported";
}

TEST(pool_leak, is_not_suspected_before_its_time) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()}, {.leak_after = 1h, .observers = {watch}}};
    auto lease = pool.acquire();
    time.advance(1h - 1ns);
    EXPECT_TRUE(for_a_while([&] { return watch->count(leak_suspected) == 0; }));
    EXPECT_EQ(pool.stats().leaks, 0U);
    time.advance(1ns);
    EXPECT_TRUE(eventually([&] { return watch->count(leak_suspected) == 1; }));
}

TEST(pool_leak, can_be_configured_per_acquire) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()},
                      {.max = 4, .leak_after = 1h, .observers = {watch}}};
    auto unlimited = pool.acquire();
    auto limited = pool.acquire({.task = "checkout", .leak_after = 20ms});
    auto other = pool.acquire({.task = "report", .leak_after = forever});
    ASSERT_TRUE(in_time(time, [&] { return watch->count(leak_suspected) >= 2; }));
    for (const auto& e : watch->seen()) EXPECT_STREQ(e.task, "checkout");
    EXPECT_EQ(pool.stats().leaks, 1U);
}

TEST(pool_leak, is_found_if_only_the_acquire_has_a_limit) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()}, {.leak_after = forever, .observers = {watch}}};
    auto unlimited = pool.acquire();
    time.advance(1h);
    EXPECT_TRUE(for_a_while([&] { return watch->count(leak_suspected) == 0; }));
    auto limited = pool.acquire({.leak_after = 0ns});
    EXPECT_TRUE(in_time(time, [&] { return watch->count(leak_suspected) >= 2; }));
    EXPECT_EQ(pool.stats().leaks, 1U);
}

TEST(pool_leak, is_found_on_the_fast_lane) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()},
                      {.max = 1, .sweep_interval = 10ms, .leak_after = 30ms, .observers = {watch}}};
    auto lease = acquire_hot(pool, {.task = "hot"});
    auto before = pool.stats();
    ASSERT_TRUE(in_time(time, [&] { return watch->count(leak_suspected) >= 2; }));
    auto seen = watch->seen();
    EXPECT_GE(seen[0].took, 30ms);
    EXPECT_GE(seen[1].took, 2 * seen[0].took);
    EXPECT_STREQ(seen[0].task, "hot");
    EXPECT_EQ(pool.stats().leaks, 1U);
    EXPECT_EQ(pool.stats().acquires, before.acquires);
}

TEST(pool_leak, is_found_on_the_fast_lane_with_no_sweep_due) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()},
                      {.max = 1,
                       .sweep_interval = 1h,
                       .probe_after_idle = forever,
                       .leak_after = 30ms,
                       .observers = {watch}}};
    // Only the fast lane itself makes the pool check its leases.
    for (int i = 0; i < 20; ++i) (void)pool.acquire({.leak_after = forever});
    auto lease = pool.acquire();
    EXPECT_TRUE(in_time(time, [&] { return watch->count(leak_suspected) >= 2; }));
}

TEST(pool_leak, is_found_on_the_fast_lane_after_many_short_leases) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()},
                      {.max = 1,
                       .sweep_interval = 1h,
                       .probe_after_idle = forever,
                       .leak_after = 30ms,
                       .observers = {watch}}};
    use_briefly(pool, time);
    auto lease = pool.acquire();
    EXPECT_TRUE(in_time(time, [&] { return watch->count(leak_suspected) >= 2; }));
}

TEST(pool_leak, is_found_on_the_fast_lane_if_only_the_acquire_has_a_limit) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{
        connector{server::start()},
        {.max = 1, .sweep_interval = 10ms, .leak_after = forever, .observers = {watch}}};
    auto lease = acquire_hot(pool, {.leak_after = 10ms});
    EXPECT_TRUE(in_time(time, [&] { return watch->count(leak_suspected) >= 2; }));
}

TEST(pool_leak, from_the_fast_lane_is_found_in_a_pool_that_was_closed) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()},
                      {.max = 1, .sweep_interval = 40ms, .leak_after = 80ms, .observers = {watch}}};
    use_briefly(pool, time);  // the last sweep has found no lease
    auto lease = pool.acquire();
    pool.close();  // no further sweep follows
    EXPECT_TRUE(in_time(time, [&] { return watch->count(leak_suspected) >= 1; }));
}

TEST(pool_leak, ends_with_its_lease) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()},
                      {.max = 1, .leak_after = 10ms, .observers = {watch}}};
    auto lease = pool.acquire();
    ASSERT_TRUE(in_time(time, [&] { return watch->count(leak_suspected) >= 1; }));
    lease.give_back();
    pool.pause();  // a report that was under way has arrived when the paused pool has settled
    ASSERT_TRUE(for_a_while([&] { return pool.leases().empty(); }));
    auto reported = watch->count(leak_suspected);
    time.advance(1s);
    EXPECT_TRUE(for_a_while([&] { return watch->count(leak_suspected) == reported; }));
}

TEST(pool_leak, is_measured_per_lease_not_per_resource) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()},
                      {.max = 1, .sweep_interval = 10ms, .leak_after = 2s, .observers = {watch}}};
    for (int i = 0; i < 200; ++i) {
        auto lease = pool.acquire();
        time.advance(10ms);
        // A sweep finds this lease. From then on its start time is known.
        for (int step = 0; step < 100 && pool.leases().front().held == 0ns; ++step) {
            time.advance(10ms);
            std::this_thread::yield();
        }
    }
    EXPECT_TRUE(for_a_while([&] { return watch->count(leak_suspected) == 0; }))
        << "each lease was short";
}

TEST(pool_leak, is_counted_for_each_lease_of_a_slot) {
    stopped_clock time;
    auto watch = leak_recorder();
    session_pool pool{connector{server::start()},
                      {.max = 1, .leak_after = 10ms, .observers = {watch}}};
    for (std::uint64_t count = 1; count <= 3; ++count) {
        auto lease = pool.acquire();
        ASSERT_TRUE(in_time(time, [&] { return pool.stats().leaks == count; }));
    }
}

TEST(pool_leak, is_counted_without_an_observer) {
    stopped_clock time;
    session_pool pool{connector{server::start()}, {.leak_after = 10ms}};
    auto lease = pool.acquire();
    EXPECT_TRUE(in_time(time, [&] { return pool.stats().leaks == 1; }));
    cenote::stats both = pool.stats();
    both += pool.stats();
    EXPECT_EQ(both.leaks, 2U);
}

TEST(pool_leak, of_a_lease_that_outlives_its_pool_is_not_reported) {
    stopped_clock time;
    auto watch = leak_recorder();
    std::optional<session_pool> pool;
    pool.emplace(connector{server::start()},
                 cenote::options{.leak_after = 20ms, .observers = {watch}});
    auto lease = pool->acquire();
    pool.reset();
    auto reported = watch->count(leak_suspected);
    time.advance(1s);
    EXPECT_TRUE(for_a_while([&] { return watch->count(leak_suspected) == reported; }));
    lease.give_back();
    EXPECT_EQ(watch->count(leak_suspected), reported);
}

TEST(pool_leases, are_empty_in_an_idle_pool) {
    session_pool pool{connector{server::start()}};
    EXPECT_TRUE(pool.leases().empty());
    for (int i = 0; i < 20; ++i) (void)pool.acquire();  // the resource is on the shelf
    EXPECT_TRUE(pool.leases().empty());
}

TEST(pool_leases, come_oldest_first) {
    stopped_clock time;
    session_pool pool{connector{server::start()}, {.max = 3}};
    auto a = pool.acquire({.task = "a"});
    auto line = std::source_location::current().line() - 1;
    time.advance(1ms);
    auto b = pool.acquire({.task = "b"});
    time.advance(1ms);
    auto c = pool.acquire();
    time.advance(1ms);
    auto all = pool.leases();
    ASSERT_THAT(tasks_of(all), ElementsAre("a", "b", ""));
    EXPECT_EQ(all[0].held, 3ms);
    EXPECT_EQ(all[1].held, 2ms);
    EXPECT_EQ(all[2].held, 1ms);
    EXPECT_EQ(all[0].site.line(), line);
    EXPECT_THAT(all[0].site.file_name(), HasSubstr("pool_leak_test.cpp"));
    EXPECT_EQ((std::set{all[0].resource, all[1].resource, all[2].resource}.size()), 3U);
    b.give_back();
    EXPECT_THAT(tasks_of(pool.leases()), ElementsAre("a", ""));
    a.discard();
    EXPECT_THAT(tasks_of(pool.leases()), ElementsAre(""));
    (void)c.detach();
    EXPECT_TRUE(pool.leases().empty());
}

TEST(pool_leases, from_the_fast_lane_come_last_until_their_time_is_known) {
    stopped_clock time;
    session_pool pool{connector{server::start()}, {.max = 2, .sweep_interval = 50ms}};
    auto old = pool.acquire({.task = "old"});
    auto hot = acquire_hot(pool, {.task = "hot"});
    EXPECT_THAT(tasks_of(pool.leases()), ElementsAre("old", "hot"));
    EXPECT_TRUE(in_time(time, [&] { return pool.leases().back().held > 0ns; }));
    EXPECT_THAT(tasks_of(pool.leases()), ElementsAre("old", "hot"));
    hot.give_back();
    EXPECT_THAT(tasks_of(pool.leases()), ElementsAre("old"));
}

TEST(pool_leases, of_threads_and_coroutines_are_listed_alike) {
    session_pool pool{connector{server::start()}, {.max = 2}};
    support::latch done;
    std::atomic<bool> is_leased{false};
    std::jthread thread([&] {
        auto lease = pool.acquire({.task = "thread"});
        is_leased = true;
        done.wait();
    });
    ASSERT_TRUE(eventually([&] { return is_leased.load(); }));
    std::optional<cenote::lease<session>> kept;
    std::atomic<bool> got{false};
    auto work = [&]() -> support::task {
        kept = co_await pool.co_acquire({.task = "coroutine"});
        got = true;
    };
    support::task coroutine = work();
    coroutine.start();
    ASSERT_TRUE(eventually([&] { return got.load(); }));
    EXPECT_THAT(tasks_of(pool.leases()), ElementsAre("thread", "coroutine"));
    kept.reset();
    done.open();
    thread.join();
    EXPECT_TRUE(pool.leases().empty());
}

TEST(pool_leases, are_at_most_max_and_have_their_own_call_sites) {
    auto to = server::start();
    constexpr std::size_t most = 3;
    session_pool pool{connector{to},
                      {.max = most,
                       .acquire_timeout = support::plenty,
                       .sweep_interval = 1ms,
                       .leak_after = 1ms}};
    std::atomic<bool> stop{false};
    std::vector<std::jthread> workers;
    for (const char* task : {"one", "two", "three", "four"})
        workers.emplace_back([&, task] {
            for (int i = 0; !stop; ++i) {
                auto lease = pool.acquire({.task = task});
                if (i % 64 == 0) lease.discard();
            }
        });
    for (int i = 0; i < support::rounds(3000); ++i) {
        auto all = pool.leases();
        ASSERT_LE(all.size(), most);
        for (const lease_info& l : all) {
            ASSERT_NE(l.task, nullptr);
            ASSERT_EQ(std::string(l.site.file_name()), std::source_location::current().file_name());
            ASSERT_GE(l.held, 0ns);
        }
    }
    stop = true;
    workers.clear();
    EXPECT_TRUE(pool.leases().empty());
}

TEST(pool_leases, explain_a_timeout_by_call_site_and_task) {
    session_pool pool{connector{server::start()}, {.max = 3}};
    std::vector<cenote::lease<session>> leases;
    for (int i = 0; i < 3; ++i)
        leases.push_back(pool.acquire({.task = i == 0 ? "report" : "checkout"}));
    try {
        (void)pool.acquire_for(1ms);
        FAIL() << "granted";
    } catch (const cenote::timed_out_error& e) {
        EXPECT_THAT(e.what(),
                    ContainsRegex("3 of 3 leased \\(pool_leak_test.cpp:[0-9]+ \"checkout\" holds "
                                  "2, oldest [^;]+; pool_leak_test.cpp:[0-9]+ \"report\" holds 1"));
    }
}
