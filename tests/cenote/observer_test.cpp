// Tests observers: events in order, one at a time, outside every lock; exceptions are dropped.
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using cenote::event;
using cenote::event_kind;
using support::connector;
using support::eventually;
using support::plenty;
using support::recorder;
using support::rounds;
using support::server;
using support::session;
using testing::ElementsAre;
using session_pool = cenote::pool<session>;
using enum cenote::event_kind;

TEST(observer, is_told_the_life_of_a_resource_in_order) {
    auto watch = std::make_shared<recorder>();
    session_pool pool{connector{server::start()}, {.observers = {watch}}};
    (void)pool.acquire();
    pool.acquire().discard();
    ASSERT_TRUE(eventually([&] { return watch->count(event_kind::closed) == 1; }));
    auto first = watch->seen().front().resource;
    EXPECT_THAT(
        watch->life_of(first),
        testing::AnyOf(
            ElementsAre(opened, acquired, released, acquired, discarded, closed),
            ElementsAre(opened, acquired, released, acquired, released, discarded, closed),
            ElementsAre(opened, acquired, released, acquired, discarded, released, closed)));
}

TEST(observer, is_told_why_the_pool_retires) {
    auto watch = std::make_shared<recorder>();
    session_pool pool{connector{server::start()}, {.max_uses = 1, .observers = {watch}}};
    (void)pool.acquire();
    ASSERT_TRUE(eventually([&] { return watch->count(closed) == 1; }));
    auto all = watch->seen();
    EXPECT_THAT(watch->life_of(all.front().resource),
                ElementsAre(opened, acquired, released, retired, closed));
    for (const auto& e : all) {
        EXPECT_TRUE(e.kind != retired || e.why == cenote::retire_reason::uses);
    }
}

TEST(observer, is_told_of_failures_with_their_cause) {
    auto to = server::start();
    to->on_open = [](int id) {
        if (id == 1) throw support::refused_by_server("open");
    };
    to->on_probe = [](int) -> bool { throw support::refused_by_server("probe"); };
    to->on_reset = [](int) -> bool { throw support::refused_by_server("reset"); };
    to->on_close = [](int) { throw support::refused_by_server("close"); };
    auto watch = std::make_shared<recorder>();
    session_pool pool{connector{to},
                      {.acquire_timeout = plenty, .probe_after_idle = 0ns, .observers = {watch}}};
    pool.acquire().give_back();
    auto lease = pool.acquire();
    lease.mark_dirty();
    lease.give_back();
    ASSERT_TRUE(eventually([&] { return watch->count(closed) == 2; }));
    std::map<event_kind, std::string> causes;
    for (const auto& e : watch->seen()) {
        if (e.cause == nullptr) continue;
        try {
            std::rethrow_exception(e.cause);
        } catch (const std::exception& what) {
            causes[e.kind] = what.what();
        }
    }
    EXPECT_EQ(causes, (std::map<event_kind, std::string>{{open_failed, "open"},
                                                         {probe_failed, "probe"},
                                                         {reset_failed, "reset"},
                                                         {closed, "close"}}));
}

TEST(observer, is_told_of_a_detach) {
    auto watch = std::make_shared<recorder>();
    session_pool pool{connector{server::start()}, {.observers = {watch}}};
    (void)pool.acquire().detach();
    EXPECT_TRUE(eventually([&] { return watch->count(detached) == 1; }));
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_TRUE(eventually([&] { return watch->count(closed_pool) == 1; }));
    EXPECT_EQ(watch->count(closed), 0U);
}

TEST(observer, sees_every_resource_end_exactly_once_and_in_a_legal_order) {
    auto watch = std::make_shared<recorder>();
    auto to = server::start();
    {
        session_pool pool{connector{to},
                          {.max = 3,
                           .acquire_timeout = plenty,
                           .close_timeout = plenty,
                           .idle_timeout = 1ms,
                           .max_uses = 5,
                           .sweep_interval = 1ms,
                           .observers = {watch}}};
        std::vector<std::jthread> workers;
        for (int w = 0; w < 4; ++w)
            workers.emplace_back([&, w] {
                for (int i = 0; i < rounds(500); ++i) {
                    auto lease = pool.acquire();
                    if (i % (5 + w) == 0) lease.discard();
                }
            });
        workers.clear();
        EXPECT_EQ(pool.close(plenty), 0U);
    }
    ASSERT_TRUE(eventually([&] { return watch->count(closed_pool) == 1; }));
    EXPECT_FALSE(watch->overlapped());
    std::map<std::uint64_t, event_kind> last;
    for (const auto& e : watch->seen()) {
        if (!recorder::has_resource(e.kind)) continue;
        bool first = !last.contains(e.resource);
        ASSERT_EQ(first, e.kind == opened) << "a resource number is used once";
        if (!first) {
            auto before = last[e.resource];
            ASSERT_NE(before, closed) << "no event follows the close";
            ASSERT_TRUE(e.kind != acquired || before == opened || before == released);
            ASSERT_TRUE(e.kind != released || before == acquired || before == discarded);
            ASSERT_FALSE(e.kind == closed && before == acquired) << "closed while leased";
        }
        last[e.resource] = e.kind;
    }
    EXPECT_EQ(last.size(), static_cast<std::size_t>(to->opened));
    for (auto [resource, kind] : last) EXPECT_EQ(kind, closed) << resource;
    EXPECT_EQ(watch->seen().back().kind, closed_pool);
}

TEST(observer, events_carry_the_pools_name_and_how_long_it_took) {
    support::stopped_clock time;
    auto watch = std::make_shared<recorder>();
    std::atomic<int> wrong{0};
    watch->then = [&](const event& e) { wrong += e.pool != "orders"; };
    auto to = server::start();
    to->on_open = [&](int) { time.advance(10ms); };
    session_pool pool{connector{to}, {.name = "orders", .observers = {watch}}};
    auto lease = pool.acquire();
    time.advance(10ms);
    lease.give_back();
    ASSERT_TRUE(eventually([&] { return watch->count(released) == 1; }));
    for (const auto& e : watch->seen()) {
        EXPECT_EQ(e.took, 10ms) << to_string(e.kind);
    }
    EXPECT_EQ(wrong, 0);
}

TEST(observer, is_told_of_exhaustion_before_the_throw_on_the_same_thread) {
    auto watch = std::make_shared<recorder>(std::set{exhausted});
    std::thread::id observer_thread;
    watch->then = [&](const event& e) {
        observer_thread = std::this_thread::get_id();
        EXPECT_EQ(e.error, cenote::errc::timed_out);
    };
    session_pool pool{connector{server::start()}, {.max = 1, .observers = {watch}}};
    auto lease = pool.acquire();
    try {
        (void)pool.acquire_for(1ms);
        FAIL() << "granted";
    } catch (const cenote::timed_out_error&) {
        EXPECT_EQ(watch->count(exhausted), 1U);
        EXPECT_EQ(observer_thread, std::this_thread::get_id());
        EXPECT_EQ(watch->last_stats().leased, 1U);
        EXPECT_EQ(watch->last_stats().max, 1U);
    }
    std::error_code error;
    (void)pool.acquire({.timeout = 1ms}, error);
    EXPECT_EQ(watch->count(exhausted), 2U) << "in the no-throw form, too";
}

TEST(observer, is_not_told_of_refusals_that_it_causes) {
    auto watch = std::make_shared<recorder>(std::set{exhausted, discarded});
    std::vector<session_pool*> pools;
    watch->then = [&](const event&) {
        std::error_code error;
        for (session_pool* each : pools) EXPECT_FALSE(each->acquire({.timeout = 0ns}, error));
    };
    cenote::options how{.max = 1, .observers = {watch}};
    session_pool second{connector{server::start()}, how};
    // Ends first: its thread uses the second pool.
    session_pool first{connector{server::start()}, how};
    auto lease = first.acquire();
    auto kept = second.acquire();
    pools = {&first, &second};
    std::error_code error;
    EXPECT_FALSE(first.acquire({.timeout = 0ns}, error));
    EXPECT_EQ(watch->count(exhausted), 1U);
    EXPECT_EQ(first.stats().events_lost, 1U);
    EXPECT_EQ(second.stats().events_lost, 1U);

    pools = {&second};  // on a thread of the pool
    lease.discard();
    EXPECT_TRUE(eventually([&] { return second.stats().events_lost == 2; }));
    EXPECT_EQ(watch->count(exhausted), 1U);
}

TEST(observer, exceptions_are_dropped) {
    auto throwing = std::make_shared<recorder>();
    throwing->then = [](const event& e) {
        if (e.kind == released) throw 42;
        throw std::runtime_error("mine");
    };
    auto quiet = std::make_shared<recorder>();
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 1, .observers = {throwing, quiet}}};
    auto lease = pool.acquire();
    std::error_code error;
    EXPECT_FALSE(pool.acquire({.timeout = 1ms}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    lease.discard();
    (void)pool.acquire();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_TRUE(eventually([&] { return quiet->count(closed_pool) == 1; }));
    EXPECT_EQ(throwing->count(closed), quiet->count(closed))
        << "other observers still get the event";
    EXPECT_EQ(to->present, 0);
}

TEST(observer, may_call_the_pool_from_inside) {
    auto watch = std::make_shared<recorder>();
    std::atomic<session_pool*> pool{nullptr};
    std::atomic<int> calls{0};
    watch->then = [&](const event& e) {
        auto* p = pool.load();
        if (p == nullptr) return;
        (void)p->stats();
        (void)p->name();
        if (e.kind == exhausted) p->retire_all();
        if (e.kind == retired) p->close();
        ++calls;
    };
    session_pool it{connector{server::start()}, {.max = 1, .observers = {watch}}};
    pool = &it;
    auto lease = it.acquire();
    std::error_code error;
    EXPECT_FALSE(it.acquire({.timeout = 1ms}, error));
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return watch->count(closed_pool) == 1; }));
    EXPECT_EQ(it.close(plenty), 0U);
    EXPECT_GT(calls, 2);
}

TEST(observer, may_acquire_and_release_from_inside) {
    auto watch = std::make_shared<recorder>();
    std::atomic<session_pool*> pool{nullptr};
    std::atomic<int> got{0};
    watch->then = [&](const event& e) {
        if (e.kind == discarded && pool.load()->try_acquire()) ++got;
    };
    session_pool it{
        connector{server::start()},
        {.max = 3, .min_size = 2, .warm_up = cenote::warm_up::wait, .observers = {watch}}};
    pool = &it;
    it.acquire().discard();
    EXPECT_TRUE(eventually([&] { return watch->count(closed) == 1; }));
    EXPECT_EQ(got, 1);
}

TEST(observer, that_is_slow_delays_no_borrower) {
    auto watch = std::make_shared<recorder>();
    support::latch slow;
    watch->then = [slow](const event&) { slow.wait(); };
    session_pool pool{connector{server::start()}, {.max = 1, .observers = {watch}}};
    for (int i = 0; i < 1000; ++i) (void)pool.acquire();
    EXPECT_LE(watch->seen().size(), 1U);
    slow.open();
    EXPECT_TRUE(eventually([&] { return watch->count(released) == 1000; }));
    EXPECT_EQ(pool.stats().events_lost, 0U);
}

TEST(observer, that_is_too_slow_loses_events_and_they_are_counted) {
    auto watch = std::make_shared<recorder>(std::set{acquired, released});
    support::latch slow;
    std::atomic<bool> is_blocked{false};
    watch->then = [&, slow](const event&) {
        is_blocked = true;
        slow.wait();
    };
    session_pool pool{connector{server::start()}, {.max = 1, .observers = {watch}}};
    (void)pool.acquire();
    ASSERT_TRUE(eventually([&] { return is_blocked.load(); }));  // with one or two events
    for (int i = 0; i < 40'000; ++i) (void)pool.acquire();
    EXPECT_GT(pool.stats().events_lost, 0U);
    slow.open();
    EXPECT_TRUE(
        eventually([&] { return watch->seen().size() + pool.stats().events_lost == 80'002; }));
}

TEST(observer, may_wait_for_a_lease) {
    auto watch = std::make_shared<recorder>(std::set{opened});
    std::atomic<session_pool*> pool{nullptr};
    std::atomic<bool> got{false};
    watch->then = [&](const event&) {
        eventually([&] { return pool.load() != nullptr; });
        got = static_cast<bool>(pool.load()->acquire_for(plenty));
    };
    session_pool it{connector{server::start()}, {.max = 1, .observers = {watch}}};
    pool = &it;
    (void)it.acquire();
    EXPECT_TRUE(eventually([&] { return got.load(); }));
}

TEST(observer, may_close_the_pool_and_wait_for_it) {
    auto watch = std::make_shared<recorder>(std::set{retired});
    std::atomic<session_pool*> pool{nullptr};
    std::atomic<int> left{-1};
    watch->then = [&](const event&) {
        if (left < 0) left = static_cast<int>(pool.load()->close(plenty));
    };
    session_pool it{connector{server::start()},
                    {.max = 2,
                     .close_timeout = plenty,
                     .idle_timeout = 1ms,
                     .sweep_interval = 1ms,
                     .observers = {watch}}};
    pool = &it;
    (void)it.acquire();
    EXPECT_TRUE(eventually([&] { return left == 0; }));
    EXPECT_EQ(it.stats().total, 0U);
    EXPECT_EQ(it.stats().abandoned, 0U);
}

TEST(observer, is_told_no_cause_that_belongs_to_another) {
    auto to = server::start();
    auto watch = std::make_shared<recorder>(std::set{open_failed, probe_failed});
    support::latch hung;
    session_pool pool{connector{to},
                      {.max = 2,
                       .open_timeout = 50ms,
                       .probe_timeout = 50ms,
                       .probe_after_idle = 0ns,
                       .observers = {watch}}};
    (void)pool.acquire();
    to->on_open = [hung](int) { hung.wait(); };
    to->on_probe = [hung](int) { return hung.wait(); };
    std::jthread first([&] {
        std::error_code error;
        (void)pool.acquire({.timeout = 100ms}, error);
    });
    std::jthread second([&] {
        std::error_code error;
        (void)pool.acquire({.timeout = 100ms}, error);
    });
    EXPECT_TRUE(eventually(
        [&] { return watch->count(probe_failed) > 0 && watch->count(open_failed) > 0; }));
    hung.open();
    for (const auto& e : watch->seen()) EXPECT_EQ(e.cause != nullptr, e.kind == open_failed);
}

TEST(observer, is_told_of_a_close_that_took_too_long) {
    auto to = server::start();
    auto watch = std::make_shared<recorder>(std::set{closed});
    support::latch hung;
    to->on_close = [hung](int) { hung.wait(); };
    session_pool pool{connector{to}, {.max = 1, .close_timeout = 20ms, .observers = {watch}}};
    pool.acquire().discard();
    EXPECT_TRUE(eventually([&] { return watch->count(closed) == 1; }));
    hung.open();
    for (const auto& e : watch->seen()) {
        ASSERT_NE(e.cause, nullptr);
        EXPECT_THROW(std::rethrow_exception(e.cause), std::system_error);
    }
}

TEST(observer, gets_only_the_kinds_that_it_wants) {
    auto opens = std::make_shared<recorder>(std::set{opened});
    auto closes = std::make_shared<recorder>(std::set{closed, closed_pool});
    session_pool pool{connector{server::start()}, {.observers = {opens, closes}}};
    (void)pool.acquire();
    EXPECT_EQ(pool.close(plenty), 0U);
    ASSERT_TRUE(eventually([&] { return closes->count(closed_pool) == 1; }));
    EXPECT_EQ(closes->seen().size(), 2U);
    EXPECT_EQ(opens->seen().size(), 1U);
}

TEST(observer, is_told_of_every_lease_if_it_wants_leases) {
    auto watch = std::make_shared<recorder>(std::set{acquired, released});
    session_pool pool{connector{server::start()}, {.observers = {watch}}};
    for (int i = 0; i < 200; ++i) (void)pool.acquire();
    EXPECT_TRUE(eventually([&] { return watch->count(released) == 200; }));
    EXPECT_EQ(watch->count(acquired), 200U);
}

TEST(observer, is_told_of_closing_then_closed_pool) {
    auto watch = std::make_shared<recorder>(std::set{closing, closed, closed_pool});
    session_pool pool{connector{server::start()}, {.observers = {watch}}};
    auto lease = pool.acquire();
    pool.close();
    pool.close();
    EXPECT_TRUE(eventually([&] { return watch->count(closing) == 1; }));
    EXPECT_TRUE(support::for_a_while([&] { return watch->count(closed_pool) == 0; }));
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return watch->count(closed_pool) == 1; }));
    std::vector<event_kind> kinds;
    for (const auto& e : watch->seen()) kinds.push_back(e.kind);
    EXPECT_THAT(kinds, ElementsAre(closing, closed, closed_pool));
}

TEST(observer, that_serves_two_pools_is_told_of_both) {
    auto watch = std::make_shared<recorder>();
    std::atomic<int> one{0};
    std::atomic<int> two{0};
    watch->then = [&](const event& e) { ++(e.pool == "one" ? one : two); };
    {
        session_pool a{connector{server::start()}, {.name = "one", .observers = {watch}}};
        session_pool b{connector{server::start()}, {.name = "two", .observers = {watch}}};
        (void)a.acquire();
        (void)b.acquire();
    }
    EXPECT_TRUE(eventually([&] { return watch->count(closed_pool) == 2; }));
    EXPECT_EQ(one, two);
}

TEST(observer, every_kind_has_a_name) {
    std::set<std::string> names;
    for (std::size_t i = 0; i < cenote::event_kind_count; ++i)
        names.insert(cenote::to_string(static_cast<event_kind>(i)));
    EXPECT_EQ(names.size(), cenote::event_kind_count);
    EXPECT_TRUE(names.contains("closed_pool"));
}
