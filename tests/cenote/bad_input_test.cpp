// Tests connectors that throw anything from any function, refuse, or hang: each failure costs one
// resource, and the pool keeps its capacity.
#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/process.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using cenote::retire_reason;
using support::connector;
using support::eventually;
using support::hooked_connector;
using support::latch;
using support::plenty;
using support::server;
using support::session;
using support::stopped_clock;
using session_pool = cenote::pool<session>;

namespace {

/// The timeout of calls that hang. The clock stands still meanwhile, so no other call times out.
constexpr std::chrono::nanoseconds brief = 100ms;

constexpr cenote::backoff quick{.first = 1ms, .cap_waiting = 2ms, .cap_idle = 5ms};

/// All `max` resources can be leased at once, and then all are closed.
void expect_full_capacity(session_pool& pool, server& to) {
    {
        std::vector<cenote::lease<session>> all;
        auto max = pool.stats().max;
        for (std::uint64_t i = 0; i < max; ++i) all.push_back(pool.acquire_for(plenty));
        EXPECT_EQ(pool.stats().leased, max);
        EXPECT_EQ(pool.stats().total, max);
    }
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_TRUE(eventually([&] { return to.present == 0; })) << to.present;
    EXPECT_EQ(to.overlaps, 0);
}

/// The id of the resource that a borrower gets while a call on the first resource hangs, and its
/// close until the timeout.
int id_of_the_second(session_pool& pool, stopped_clock& time, const latch& hang,
                     std::uint64_t abandoned) {
    auto borrower = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    EXPECT_TRUE(eventually([&] { return hang.waiting() == 1; }));
    EXPECT_TRUE(support::lines_up(pool, 1));
    for (std::uint64_t n = 1; n <= abandoned; ++n) {
        EXPECT_EQ(pool.stats().abandoned, n - 1);
        time.advance(n == 1 ? brief : std::chrono::nanoseconds{1s});
        EXPECT_TRUE(eventually([&] { return pool.stats().abandoned == n; }));
    }
    return borrower.get();
}

struct odd_type {};

[[noreturn]] void throw_something(int turn) {
    switch (turn % 4) {
        case 0: throw 42;
        case 1: throw std::runtime_error("odd");
        case 2: throw odd_type{};
        default: throw "text";
    }
}

}  // namespace

TEST(bad_input, an_open_may_throw_anything) {
    auto to = server::start();
    to->on_open = [](int id) {
        if (id <= 4) throw_something(id);
    };
    session_pool pool{connector{to}, {.max = 2, .acquire_timeout = plenty, .backoff = quick}};
    EXPECT_EQ(pool.acquire()->id, 5);
    EXPECT_EQ(pool.stats().open_failed, 4U);
    expect_full_capacity(pool, *to);
}

TEST(bad_input, the_cause_of_a_timeout_may_be_anything) {
    auto to = server::start();
    to->on_open = [](int) { throw 42; };
    session_pool pool{connector{to}, {.acquire_timeout = 10ms, .backoff = quick}};
    (void)pool.try_acquire();  // starts an open; no deadline applies to it
    ASSERT_TRUE(eventually([&] { return pool.stats().open_failed > 0; }));
    try {
        (void)pool.acquire();
        FAIL() << "granted";
    } catch (const cenote::pool_error& e) {
        ASSERT_NE(e.cause(), nullptr);
        EXPECT_THROW(std::rethrow_exception(e.cause()), int);
    }
}

TEST(bad_input, every_other_verb_may_throw_anything) {
    auto to = server::start();
    std::atomic<int> turn{0};
    auto odd = [&](int) -> bool {
        int now = ++turn;
        if (now % 3 != 0) return true;
        throw_something(now / 3);
    };
    to->on_probe = odd;
    to->on_reset = odd;
    to->on_acquire = odd;
    to->on_release = odd;
    to->on_close = [&](int id) { (void)odd(id); };
    session_pool pool{hooked_connector{{to}},
                      {.max = 3,
                       .acquire_timeout = plenty,
                       .probe_timeout = plenty,
                       .reset_timeout = plenty,
                       .close_timeout = plenty,
                       .probe_after_idle = 0ns,
                       .probe_on_release = true}};
    for (int i = 0; i < 60; ++i) {
        auto lease = pool.acquire();
        if (i % 3 == 0) lease.mark_dirty();
        if (i % 5 == 0) lease.discard();
    }
    EXPECT_LE(to->peak, 3);
    for (auto* verb : {&to->on_probe, &to->on_reset, &to->on_acquire, &to->on_release})
        *verb = nullptr;
    expect_full_capacity(pool, *to);
}

TEST(bad_input, a_classifier_that_throws_means_discard) {
    struct odd_classifier : connector {
        static cenote::verdict classify(const std::exception_ptr&) { throw 42; }
    };
    auto to = server::start();
    session_pool pool{odd_classifier{{to}}};
    EXPECT_THROW(pool.with([](session&) { throw support::keep_it(); }), support::keep_it);
    EXPECT_EQ(pool.stats().discarded, 1U);
    to->on_open = [](int id) {
        if (id == 2) throw 42;
    };
    expect_full_capacity(pool, *to);
}

TEST(bad_input, hooks_that_always_refuse_end_the_wait_at_its_deadline) {
    auto to = server::start();
    to->on_acquire = [](int) { return false; };
    session_pool pool{hooked_connector{{to}}, {.max = 2, .backoff = quick}};
    EXPECT_THROW((void)pool.acquire_for(30ms), cenote::pool_error);
    EXPECT_LE(to->peak, 2);
    to->on_acquire = nullptr;
    expect_full_capacity(pool, *to);
}

TEST(bad_input, a_release_hook_that_always_refuses_costs_a_new_resource_each_time) {
    auto to = server::start();
    to->on_release = [](int) { return false; };
    session_pool pool{hooked_connector{{to}}, {.max = 2, .acquire_timeout = plenty}};
    for (int i = 1; i <= 10; ++i) EXPECT_EQ(pool.acquire()->id, i);
    EXPECT_EQ(pool.stats().retired(retire_reason::rejected), 10U);
    to->on_release = nullptr;
    expect_full_capacity(pool, *to);
}

TEST(bad_input, an_open_that_hangs_is_abandoned_and_its_late_result_closed) {
    stopped_clock time;
    auto to = server::start();
    latch hang;
    to->on_open = [hang](int id) {
        if (id == 1) hang.wait();
    };
    session_pool pool{
        connector{to},
        {.max = 1, .acquire_timeout = plenty, .open_timeout = brief, .backoff = quick}};
    EXPECT_EQ(id_of_the_second(pool, time, hang, 1), 2) << "the slot is used again";
    EXPECT_EQ(pool.stats().abandoned, 1U);
    EXPECT_EQ(pool.stats().open_failed, 1U);
    EXPECT_EQ(to->present, 2);
    hang.open();
    EXPECT_TRUE(eventually([&] { return to->closes == 1 && to->present == 1; }));
    EXPECT_EQ(pool.acquire()->id, 2);
    expect_full_capacity(pool, *to);
}

TEST(bad_input, an_open_that_hangs_and_then_throws_changes_nothing) {
    stopped_clock time;
    auto to = server::start();
    latch hang;
    to->on_open = [hang](int id) {
        if (id != 1) return;
        hang.wait();
        throw 42;
    };
    session_pool pool{
        connector{to},
        {.max = 1, .acquire_timeout = plenty, .open_timeout = brief, .backoff = quick}};
    EXPECT_EQ(id_of_the_second(pool, time, hang, 1), 2);
    hang.open();
    EXPECT_TRUE(eventually([&] { return to->present == 1; }));
    expect_full_capacity(pool, *to);
}

TEST(bad_input, a_probe_that_hangs_is_abandoned_and_replaced) {
    stopped_clock time;
    auto to = server::start();
    latch hang;
    to->on_probe = [hang](int id) { return id != 1 || hang.wait(); };
    session_pool pool{
        connector{to},
        {.max = 1, .acquire_timeout = plenty, .probe_timeout = brief, .probe_after_idle = 0ns}};
    (void)pool.acquire();
    time.advance(1ms);  // a resource opened at this instant would not be probed
    EXPECT_EQ(id_of_the_second(pool, time, hang, 2), 2);
    EXPECT_EQ(pool.stats().abandoned, 2U)
        << "the call that hangs, and the close that could not begin";
    EXPECT_EQ(pool.stats().retired(retire_reason::probe_failed), 1U);
    EXPECT_EQ(to->ended, 0) << "a resource is not destroyed during a call on it";
    hang.open();
    EXPECT_TRUE(eventually([&] { return to->present == 1; }));
    expect_full_capacity(pool, *to);
}

TEST(bad_input, a_reset_that_hangs_is_abandoned_and_replaced) {
    stopped_clock time;
    auto to = server::start();
    latch hang;
    to->on_reset = [hang](int) { return hang.wait(); };
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty, .reset_timeout = brief}};
    auto lease = pool.acquire();
    lease.mark_dirty();
    lease.give_back();
    EXPECT_EQ(id_of_the_second(pool, time, hang, 2), 2);
    EXPECT_EQ(pool.stats().abandoned, 2U)
        << "the call that hangs, and the close that could not begin";
    EXPECT_EQ(pool.stats().retired(retire_reason::reset_failed), 1U);
    EXPECT_EQ(to->ended, 0);
    hang.open();
    EXPECT_TRUE(eventually([&] { return to->present == 1; }));
    expect_full_capacity(pool, *to);
}

TEST(bad_input, a_close_that_hangs_is_abandoned_and_its_place_is_free) {
    stopped_clock time;
    auto to = server::start();
    latch hang;
    to->on_close = [hang](int id) {
        if (id == 1) hang.wait();
    };
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty, .close_timeout = brief}};
    pool.acquire().discard();
    EXPECT_EQ(id_of_the_second(pool, time, hang, 1), 2);
    EXPECT_EQ(pool.stats().abandoned, 1U);
    EXPECT_EQ(pool.stats().closed, 1U);
    hang.open();
    EXPECT_TRUE(eventually([&] { return to->present == 1; }));
    expect_full_capacity(pool, *to);
}

TEST(bad_input, some_hanging_opens_do_not_stop_the_pool) {
    stopped_clock time;
    std::size_t threads = support::thread_count();
    {
        auto to = server::start();
        latch hang;
        to->on_open = [hang](int id) {
            if (id <= 4) hang.wait();
        };
        session_pool pool{
            connector{to},
            {.max = 4, .acquire_timeout = plenty, .open_timeout = brief, .backoff = quick}};
        auto borrower = std::async(std::launch::async, [&] { return pool.acquire()->id; });
        for (int hanging = 1; hanging <= 4; ++hanging) {
            EXPECT_TRUE(eventually([&] { return hang.waiting() == hanging; }));
            time.advance(brief);
        }
        EXPECT_GT(borrower.get(), 4);
        EXPECT_GE(pool.stats().abandoned, 4U);
        hang.open();
        EXPECT_TRUE(eventually([&] { return to->closes >= 4; }));
        expect_full_capacity(pool, *to);
    }
    EXPECT_TRUE(eventually([&] { return support::thread_count() <= threads; }));
}

TEST(bad_input, a_pool_whose_every_call_hangs_recovers_when_they_end) {
    stopped_clock time;
    auto to = server::start();
    latch hang;
    to->on_open = [hang](int) { hang.wait(); };
    session_pool pool{connector{to}, {.max = 2, .open_timeout = 2ms, .backoff = quick}};
    auto borrow = [&](std::chrono::nanoseconds timeout) {
        return std::async(std::launch::async, [&pool, timeout] {
            std::error_code error;
            return bool{pool.acquire({.timeout = timeout}, error)};
        });
    };
    auto ended = [](auto& borrower) { return borrower.wait_for(0s) == std::future_status::ready; };
    for (int i = 0; i < 3; ++i) {
        auto borrower = borrow(20ms);
        EXPECT_TRUE(eventually([&] { return time.advance(1ms), ended(borrower); }));
        EXPECT_FALSE(borrower.get());
    }
    EXPECT_GT(pool.stats().abandoned, 2U);
    hang.open();
    auto borrower = borrow(plenty);
    EXPECT_TRUE(eventually([&] {
        // Time passes only between two opens, so no further open is abandoned.
        auto now = pool.stats();
        if (now.opening == 0 && now.waiting == 1) time.advance(1ms);
        return ended(borrower);
    }));
    EXPECT_TRUE(borrower.get());
    EXPECT_TRUE(eventually([&] { return to->present <= 2; }));
    expect_full_capacity(pool, *to);
}

TEST(bad_input, every_verb_may_hang_while_the_pool_ends) {
    stopped_clock time;
    auto to = server::start();
    latch hang;
    auto wait = [hang](int) { return hang.wait(); };
    auto ends = std::async(std::launch::async, [&] {
        session_pool pool{connector{to},
                          {.open_timeout = brief,
                           .probe_timeout = brief,
                           .reset_timeout = brief,
                           .close_timeout = brief,
                           .probe_on_release = true}};
        auto a = pool.acquire();
        auto b = pool.acquire();
        auto c = pool.acquire();
        to->on_probe = wait;
        to->on_reset = wait;
        to->on_close = [hang](int) { hang.wait(); };
        to->on_open = [hang](int) { hang.wait(); };
        b.mark_dirty();
        c.discard();
        (void)pool.try_acquire();
    });
    EXPECT_TRUE(eventually([&] { return hang.waiting() >= 3; }));
    EXPECT_TRUE(eventually([&] {
        time.advance(brief / 10);
        return ends.wait_for(0s) == std::future_status::ready;
    }));
    hang.open();
    EXPECT_TRUE(eventually([&] { return to->present == 0; })) << to->present;
    EXPECT_EQ(to->overlaps, 0);
}
