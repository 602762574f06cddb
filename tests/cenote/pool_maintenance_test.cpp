// Tests maintenance: warm-up, refill, shrinking, retirement by age, retire_all.
#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <stop_token>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"

using namespace std::chrono_literals;
using cenote::retire_reason;
using cenote::warm_up;
using support::connector;
using support::eventually;
using support::for_a_while;
using support::latch;
using support::lines_up;
using support::plenty;
using support::refused_by_server;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

constexpr cenote::backoff quick{.first = 1ms, .cap_waiting = 2ms, .cap_idle = 5ms};
/// Short while callers wait; otherwise minutes after twenty failures.
constexpr cenote::backoff quick_for_waiters{.first = 1ms, .cap_waiting = 2ms, .cap_idle = 1h};

void open_many(session_pool& pool, int count) {
    std::vector<cenote::lease<session>> all;
    for (int i = 0; i < count; ++i) all.push_back(pool.acquire_for(plenty));
}

}  // namespace

TEST(pool_warm_up, background_opens_the_minimum_without_an_acquire) {
    auto to = server::start();
    session_pool pool{connector{to}, {.min_size = 3}};
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 3; }));
    EXPECT_TRUE(pool.wait_ready(0ns));
    EXPECT_EQ(to->opens, 3);
}

TEST(pool_warm_up, background_returns_before_anything_is_open) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.min_size = 1}};
    EXPECT_FALSE(pool.wait_ready(2ms));
    opens.open();
    EXPECT_TRUE(pool.wait_ready(plenty));
}

TEST(pool_warm_up, wait_returns_when_the_minimum_is_open) {
    for (auto [size, idle] : {std::pair{3, 0}, std::pair{0, 3}, std::pair{2, 3}}) {
        auto to = server::start();
        session_pool pool{connector{to},
                          {.min_size = static_cast<std::size_t>(size),
                           .min_idle = static_cast<std::size_t>(idle),
                           .warm_up = warm_up::wait}};
        EXPECT_EQ(pool.stats().idle, 3U);
    }
}

TEST(pool_warm_up, wait_throws_the_first_error_and_leaks_nothing) {
    auto to = server::start();
    to->on_open = [](int id) {
        if (id >= 2) throw refused_by_server("second");
    };
    auto make = [&] {
        cenote::options settings = support::patient(10);
        settings.min_size = 3;
        settings.warm_up = warm_up::wait;
        session_pool pool{connector{to}, settings};
    };
    EXPECT_THROW(make(), refused_by_server);
    EXPECT_EQ(to->present, 0);
    to->on_open = [](int) { throw 42; };
    EXPECT_THROW(make(), int);
}

TEST(pool_warm_up, wait_throws_the_first_error_even_if_the_next_open_goes_well) {
    for (int i = 0; i < support::rounds(100); ++i) {
        auto to = server::start();
        to->on_open = [](int id) {
            if (id == 1) throw refused_by_server("first");
        };
        cenote::options settings{.min_size = 1, .warm_up = warm_up::wait, .backoff = quick};
        EXPECT_THROW(session_pool(connector{to}, settings), refused_by_server);
    }
}

TEST(pool_warm_up, none_opens_nothing_before_the_first_acquire) {
    auto to = server::start();
    session_pool pool{connector{to}, {.min_size = 2, .min_idle = 1, .warm_up = warm_up::none}};
    EXPECT_TRUE(for_a_while([&] { return to->opens == 0; }));
    EXPECT_TRUE(pool.acquire());
}

TEST(pool_warm_up, wait_ready_opens_the_minimum_after_none) {
    auto to = server::start();
    session_pool pool{connector{to}, {.min_size = 2, .warm_up = warm_up::none}};
    EXPECT_TRUE(pool.wait_ready(plenty));
    EXPECT_EQ(pool.stats().idle, 2U);
}

TEST(pool_warm_up, wait_ready_without_a_minimum_is_true_at_once) {
    session_pool pool{connector{server::start()}};
    EXPECT_TRUE(pool.wait_ready(0ns));
}

TEST(pool_warm_up, wait_ready_ends_when_the_pool_is_closed) {
    auto to = server::start();
    to->on_open = [](int) { throw refused_by_server("down"); };
    session_pool pool{connector{to}, {.min_size = 1, .backoff = quick}};
    auto ready = std::async(std::launch::async, [&] { return pool.wait_ready(plenty); });
    ASSERT_TRUE(eventually([&] { return to->opens > 1; }));
    pool.close();
    EXPECT_FALSE(ready.get());
}

TEST(pool_warm_up, that_fails_serves_later_waiters) {
    auto to = server::start();
    latch opens;
    to->on_open = [&](int id) {
        opens.wait();
        if (id <= 2) throw refused_by_server("not yet");
    };
    session_pool pool{
        connector{to},
        {.max = 2, .min_idle = 2, .acquire_timeout = plenty, .open_timeout = 1h, .backoff = quick}};
    ASSERT_TRUE(eventually([&] { return to->opening == 2; })) << "no slot is left";
    std::vector<std::future<int>> borrowers;
    for (int i = 0; i < 3; ++i)
        borrowers.push_back(std::async(std::launch::async, [&] { return pool.acquire()->id; }));
    ASSERT_TRUE(lines_up(pool, 3));
    opens.open();
    for (auto& borrower : borrowers) EXPECT_GT(borrower.get(), 2);
    EXPECT_TRUE(pool.wait_ready(plenty));
    auto s = pool.stats();
    EXPECT_EQ(s.open_failed, 2U);
    EXPECT_EQ(s.waited, 3U);
    EXPECT_EQ(support::refused(s), 0U);
}

TEST(pool_warm_up, that_fails_is_retried_for_waiters_until_it_succeeds) {
    auto to = server::start();
    std::atomic<bool> down{true};
    to->on_open = [&](int) {
        if (down) throw refused_by_server("down");
    };
    session_pool pool{
        connector{to},
        {.max = 4, .min_idle = 2, .acquire_timeout = plenty, .backoff = quick_for_waiters}};
    auto ready = std::async(std::launch::async, [&] { return pool.wait_ready(plenty); });
    std::vector<std::future<bool>> borrowers;
    for (int i = 0; i < 3; ++i)
        borrowers.push_back(std::async(std::launch::async, [&] { return bool(pool.acquire()); }));
    ASSERT_TRUE(eventually([&] { return pool.stats().open_failed >= 20; }));
    ASSERT_TRUE(lines_up(pool, 3)) << "a failed open refuses no waiter";
    EXPECT_EQ(ready.wait_for(0s), std::future_status::timeout);
    down = false;
    for (auto& borrower : borrowers) EXPECT_TRUE(borrower.get());
    EXPECT_TRUE(ready.get());
    EXPECT_TRUE(eventually([&] { return pool.stats().idle >= 2; }));
    EXPECT_EQ(support::refused(pool.stats()), 0U);
}

TEST(pool_warm_up, that_has_backed_off_is_retried_for_a_new_caller) {
    auto to = server::start();
    std::atomic<bool> down{true};
    to->on_open = [&](int) {
        if (down) throw refused_by_server("down");
    };
    session_pool pool{
        connector{to},
        {.max = 4, .min_idle = 2, .acquire_timeout = plenty, .backoff = quick_for_waiters}};
    std::stop_source stop;
    std::stop_token token = stop.get_token();
    auto first = std::async(std::launch::async,
                            [&] { return bool(pool.acquire({.timeout = plenty, .stop = token})); });
    ASSERT_TRUE(eventually([&] { return pool.stats().open_failed >= 20; }));
    stop.request_stop();
    EXPECT_THROW(first.get(), cenote::canceled_error);
    ASSERT_TRUE(eventually([&] { return pool.stats().opening == 0; }));
    int opens = to->opens;
    EXPECT_TRUE(for_a_while([&] { return to->opens == opens; })) << "no caller waits";
    down = false;
    EXPECT_TRUE(pool.acquire());
    EXPECT_TRUE(pool.wait_ready(plenty));
}

TEST(pool_refill, goes_on_under_backoff_until_the_minimum_is_open) {
    auto to = server::start();
    to->on_open = [](int id) {
        if (id <= 8) throw refused_by_server("not yet");
    };
    session_pool pool{connector{to}, {.min_size = 3, .backoff = quick}};
    EXPECT_TRUE(pool.wait_ready(plenty));
    EXPECT_EQ(pool.stats().idle, 3U);
    EXPECT_EQ(to->peak, 3);
}

TEST(pool_refill, restores_min_size_after_losses) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 4, .min_size = 2, .warm_up = warm_up::wait}};
    for (int i = 0; i < 5; ++i) pool.acquire().discard();
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 2 && pool.stats().total == 2; }));
}

TEST(pool_refill, keeps_min_idle_spares_on_top_of_the_leased_as_far_as_max_allows) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 5, .min_idle = 2, .warm_up = warm_up::wait}};
    std::vector<cenote::lease<session>> leases;
    for (std::size_t leased = 1; leased <= 5; ++leased) {
        leases.push_back(pool.acquire());
        std::size_t idle = std::min<std::size_t>(2, 5 - leased);
        EXPECT_TRUE(eventually([&] { return pool.stats().idle == idle; })) << leased;
    }
    EXPECT_EQ(to->peak, 5);
}

TEST(pool_refill, min_size_counts_the_leased) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 5, .min_size = 2, .warm_up = warm_up::wait}};
    auto lease = pool.acquire();
    auto more = pool.acquire();
    EXPECT_TRUE(for_a_while([&] { return to->opens == 2; }));
}

TEST(pool_sweep, the_idle_shrink_at_concurrency_one_with_lifo) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 8, .idle_timeout = 20ms, .sweep_interval = 5ms}};
    open_many(pool, 8);
    EXPECT_TRUE(eventually([&] {
        time.advance(1ms);
        (void)pool.acquire();
        return pool.stats().total == 1;
    }));
    EXPECT_EQ(pool.stats().retired(retire_reason::idle), 7U);
    EXPECT_TRUE(eventually([&] { return to->present == 1; }));
}

TEST(pool_sweep, an_unused_pool_shrinks_to_nothing) {
    auto to = server::start();
    session_pool pool{connector{to}, {.idle_timeout = 10ms, .sweep_interval = 2ms}};
    open_many(pool, 4);
    EXPECT_TRUE(eventually([&] { return to->present == 0 && pool.stats().total == 0; }));
}

TEST(pool_sweep, never_goes_below_the_minimum_and_never_reopens_it) {
    for (bool size : {true, false}) {
        auto to = server::start();
        session_pool pool{connector{to},
                          {.min_size = size ? 2U : 0U,
                           .min_idle = size ? 0U : 2U,
                           .warm_up = warm_up::wait,
                           .idle_timeout = 2ms,
                           .sweep_interval = 1ms}};
        open_many(pool, 5);
        EXPECT_TRUE(eventually([&] { return pool.stats().total == 2; }));
        int opens = to->opens;
        EXPECT_TRUE(for_a_while([&] { return pool.stats().idle == 2; }));
        EXPECT_EQ(to->opens, opens);
    }
}

TEST(pool_sweep, retires_the_over_aged_and_replaces_the_minimum_first) {
    support::stopped_clock time;
    auto to = server::start();
    std::atomic<int> fewest{100};
    session_pool pool{connector{to},
                      {.max = 4,
                       .min_size = 2,
                       .warm_up = warm_up::wait,
                       .max_lifetime = 30ms,
                       .lifetime_jitter = 0,
                       .sweep_interval = 1ms}};
    to->on_close = [&](int) {
        int now = to->present - to->opening;  // includes the resource that is being closed
        if (now < fewest) fewest = now;
    };
    for (std::uint64_t generation = 1; generation <= 3; ++generation) {
        time.advance(30ms);
        ASSERT_TRUE(eventually([&] { return pool.stats().opened == 2 + 2 * generation; }));
        time.advance(1ms);  // makes the next sweep due
        ASSERT_TRUE(eventually([&] {
            auto now = pool.stats();
            return now.retired(retire_reason::age) == 2 * generation && now.idle == 2 &&
                   now.total == 2;
        }));
    }
    EXPECT_GE(fewest, 3) << "a replacement for the minimum is opened first";
    EXPECT_LE(to->peak, 4);
}

TEST(pool_sweep, lifetimes_are_spread_by_jitter) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 50,
                       .opening_max = 50,
                       .max_lifetime = 2s,
                       .lifetime_jitter = 0.99,
                       .sweep_interval = 1ms}};
    open_many(pool, 50);
    time.advance(1s);
    EXPECT_TRUE(eventually([&] { return pool.stats().retired(retire_reason::age) > 0; }));
    EXPECT_TRUE(for_a_while([&] { return pool.stats().retired(retire_reason::age) < 50; }))
        << "some of fifty live longer than half the limit";
}

TEST(pool_sweep, does_not_touch_leased_resources) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to},
                      {.idle_timeout = 2ms, .max_lifetime = 5ms, .sweep_interval = 1ms}};
    auto lease = pool.acquire();
    auto claim = std::make_unique<session::claim>(*lease);
    time.advance(1s);
    EXPECT_TRUE(for_a_while([&] { return to->closes == 0; }));
    claim.reset();
    EXPECT_EQ(to->overlaps, 0);
}

TEST(pool_sweep, a_gap_in_service_never_hides_an_idle_resource) {
    auto to = server::start();
    latch closes;
    to->on_close = [closes](int) { closes.wait(); };
    session_pool pool{connector{to},
                      {.max = 4,
                       .min_size = 1,
                       .acquire_timeout = plenty,
                       .close_timeout = plenty,
                       .idle_timeout = 5ms,
                       .sweep_interval = 1ms}};
    open_many(pool, 4);
    ASSERT_TRUE(eventually([&] { return to->closes == 3; })) << "three closes hang";
    EXPECT_TRUE(pool.acquire());
    EXPECT_EQ(to->opens, 4);
    closes.open();
}

TEST(pool_retire_all, closes_the_idle_and_new_ones_take_over) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 4, .acquire_timeout = plenty}};
    open_many(pool, 4);
    pool.retire_all();
    EXPECT_TRUE(eventually([&] { return to->closes == 4; }));
    EXPECT_GT(pool.acquire()->id, 4);
    EXPECT_EQ(pool.stats().retired(retire_reason::generation), 4U);
}

TEST(pool_retire_all, closes_the_leased_when_they_come_back) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 2, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    pool.retire_all();
    EXPECT_TRUE(for_a_while([&] { return to->closes == 0; }));
    EXPECT_EQ(lease->id, 1);
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return to->closes == 1; }));
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(pool.stats().retired(retire_reason::generation), 1U);
}

TEST(pool_retire_all, never_lends_an_old_one_again) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 4, .acquire_timeout = plenty, .close_timeout = plenty}};
    for (int i = 0; i < 10; ++i) {
        open_many(pool, 4);
        int last = to->opens;
        pool.retire_all();
        open_many(pool, 1);
        EXPECT_GT(pool.acquire()->id, last);
    }
    EXPECT_LE(to->peak, 4);
}

TEST(pool_retire_all, closes_at_most_opening_max_at_a_time) {
    auto to = server::start();
    latch closes;
    to->on_close = [closes](int) { closes.wait(); };
    session_pool pool{
        connector{to},
        {.max = 8, .acquire_timeout = plenty, .close_timeout = plenty, .opening_max = 2}};
    open_many(pool, 8);
    pool.retire_all();
    ASSERT_TRUE(eventually([&] { return to->closing == 2; }));
    EXPECT_TRUE(for_a_while([&] {
        auto s = pool.stats();
        return s.closing == 2 && s.idle == 6;
    }));
    EXPECT_EQ(to->closes, 2);
    closes.open();
    EXPECT_TRUE(eventually([&] { return to->closes == 8 && pool.stats().total == 0; }));
    EXPECT_EQ(to->closing_peak, 2);
    EXPECT_EQ(pool.stats().retired(retire_reason::generation), 8U);
}

TEST(pool_retire_all, does_not_lend_old_resources_that_wait_for_their_close) {
    auto to = server::start();
    latch closes;
    session_pool pool{
        connector{to},
        {.max = 6, .acquire_timeout = plenty, .close_timeout = plenty, .opening_max = 2}};
    to->on_close = [closes](int) { closes.wait(); };
    open_many(pool, 4);
    pool.retire_all();
    ASSERT_TRUE(eventually([&] { return to->closing == 2; }));
    auto one = pool.acquire();
    auto two = pool.acquire();
    EXPECT_GT(one->id, 4);
    EXPECT_GT(two->id, 4);
    EXPECT_EQ(pool.stats().idle, 2U) << "old resources, which are not lent";
    EXPECT_FALSE(pool.try_acquire());
    auto third = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    ASSERT_TRUE(lines_up(pool, 1));
    EXPECT_TRUE(for_a_while([&] { return pool.stats().waiting == 1; }));
    closes.open();
    EXPECT_GT(third.get(), 4) << "served as soon as a slot for a new one is free";
    EXPECT_TRUE(eventually([&] { return to->closes == 4; }));
    EXPECT_LE(to->peak, 6);
}

TEST(pool_retire_all, keeps_waiters_in_line_for_a_new_one_when_an_old_one_returns) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 1, .acquire_timeout = plenty, .close_timeout = plenty}};
    auto lease = pool.acquire();
    auto one = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    ASSERT_TRUE(lines_up(pool, 1));
    auto two = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    ASSERT_TRUE(lines_up(pool, 2));
    pool.retire_all();
    EXPECT_EQ(to->closes, 0);
    lease.give_back();
    EXPECT_EQ(one.get(), 2);
    EXPECT_EQ(two.get(), 2);
    EXPECT_EQ(to->closes, 1);
    EXPECT_EQ(to->peak, 1);
}

TEST(pool_retire_all, does_not_lend_a_resource_whose_open_began_before) {
    auto to = server::start();
    latch opens;
    to->on_open = [&](int id) {
        if (id == 1) opens.wait();
    };
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty, .open_timeout = plenty}};
    auto waiter = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    ASSERT_TRUE(eventually([&] { return to->opening == 1; }));
    pool.retire_all();
    opens.open();
    EXPECT_EQ(waiter.get(), 2);
    EXPECT_EQ(pool.stats().retired(retire_reason::generation), 1U);
}

TEST(pool_retire_all, reaches_the_fast_lane_and_serves_all_threads_there) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 4, .acquire_timeout = plenty, .close_timeout = plenty}};
    std::atomic<int> last_old{0};  // a resource with this id or a lower one must not be lent
    std::atomic<int> old_grants{0}, refusals{0};
    std::array<std::atomic<int>, 3> served{};
    std::vector<std::jthread> borrowers;
    for (auto& mine : served)
        borrowers.emplace_back([&](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                int limit = last_old;
                std::error_code error;
                auto lease = pool.acquire({}, error);
                if (!lease) {
                    ++refusals;
                    continue;
                }
                auto claim = lease->use();
                if (lease->id <= limit) ++old_grants;
                if (++mine % 16 == 0) std::this_thread::yield();  // with few processors
            }
        });
    auto all_served_again = [&] {
        std::array<int, 3> before{};
        std::ranges::transform(served, before.begin(), [](auto& count) { return count.load(); });
        return eventually([&] {
            return std::ranges::equal(served, before,
                                      [](auto& count, int was) { return count > was + 10; });
        });
    };
    ASSERT_TRUE(all_served_again());
    for (int round = 1; round <= rounds(100); ++round) {
        int last = to->opens;
        pool.retire_all();
        last_old = last;
        ASSERT_TRUE(all_served_again());
        // Every thread has used a new resource, so at least one old resource was retired.
        ASSERT_GE(pool.stats().retired(retire_reason::generation), static_cast<unsigned>(round));
    }
    borrowers.clear();
    EXPECT_EQ(old_grants, 0);
    EXPECT_EQ(refusals, 0);
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_LE(to->peak, 4);
    EXPECT_EQ(support::contradiction(pool.stats()), "");
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->present, 0);
}

TEST(pool_retire_all, keeps_the_minimum_open_meanwhile) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 6, .min_size = 3, .warm_up = warm_up::wait, .close_timeout = plenty}};
    pool.retire_all();
    EXPECT_TRUE(eventually([&] { return to->closes == 3; }));
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 3; }));
    EXPECT_LE(to->peak, 6);
}

TEST(pool_retire_all, on_an_empty_or_closed_pool_does_nothing) {
    auto to = server::start();
    session_pool pool{connector{to}};
    pool.retire_all();
    EXPECT_EQ(pool.acquire()->id, 1);
    pool.close();
    pool.retire_all();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->opens, 1);
}
