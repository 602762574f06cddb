// Tests close: waiters are refused, all resources are closed, nothing is lent afterwards.
#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using cenote::errc;
using support::connector;
using support::eventually;
using support::latch;
using support::lines_up;
using support::plenty;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

TEST(pool_close, refuses_new_acquires) {
    session_pool pool{connector{server::start()}};
    (void)pool.acquire();
    pool.close();
    EXPECT_THROW((void)pool.acquire(), cenote::closed_error);
    std::error_code error;
    EXPECT_FALSE(pool.acquire({}, error));
    EXPECT_EQ(error, errc::closed);
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_FALSE(pool.wait_ready(plenty));
    EXPECT_EQ(pool.stats().refused(errc::closed), 2U);
}

TEST(pool_close, refuses_all_waiters_and_counts_no_timeout) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    std::vector<std::future<std::error_code>> waiters;
    for (int i = 0; i < 5; ++i)
        waiters.push_back(std::async(std::launch::async, [&] {
            std::error_code error;
            EXPECT_FALSE(pool.acquire({}, error));
            return error;
        }));
    ASSERT_TRUE(lines_up(pool, 5));
    pool.close();
    for (auto& waiter : waiters) EXPECT_EQ(waiter.get(), errc::closed);
    EXPECT_EQ(pool.stats().refused(errc::timed_out), 0U);
    EXPECT_EQ(pool.stats().refused(errc::closed), 5U);
    EXPECT_EQ(pool.stats().waiting, 0U);
}

TEST(pool_close, closes_the_idle_now_and_the_leased_when_they_come_back) {
    auto to = server::start();
    session_pool pool{connector{to}, support::patient(10)};
    auto lease = pool.acquire();
    (void)pool.acquire();
    pool.close();
    EXPECT_TRUE(eventually([&] { return to->present == 1; }));
    {
        auto claim = lease->use();
        EXPECT_EQ(to->closes, 1) << "a leased resource is not touched";
    }
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return to->present == 0; }));
    EXPECT_EQ(to->closes, 2);
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_EQ(pool.stats().closed, 2U);
}

TEST(pool_close, with_a_timeout_waits_until_all_are_back_and_closed) {
    auto to = server::start();
    session_pool pool{connector{to}, support::patient(10)};
    auto lease = pool.acquire();
    auto closing = std::async(std::launch::async, [&] { return pool.close(plenty); });
    EXPECT_TRUE(eventually([&] {
        std::error_code error;
        return !pool.acquire({.timeout = 0ns}, error) && error == errc::closed;
    }));
    EXPECT_EQ(closing.wait_for(20ms), std::future_status::timeout);
    lease.give_back();
    EXPECT_EQ(closing.get(), 0U);
    EXPECT_EQ(to->present, 0);
    EXPECT_EQ(to->closes, to->opened);
}

TEST(pool_close, with_a_timeout_returns_how_many_were_still_out) {
    auto to = server::start();
    session_pool pool{connector{to}, support::patient(10)};
    auto one = pool.acquire();
    auto two = pool.acquire();
    EXPECT_EQ(pool.close(5ms), 2U);
    EXPECT_EQ(pool.close(0ns), 2U);
    EXPECT_EQ(pool.close(-1s), 2U);
    one.give_back();
    EXPECT_EQ(pool.close(5ms), 1U);
    two.give_back();
    EXPECT_EQ(pool.close(cenote::forever), 0U);
    EXPECT_EQ(to->present, 0);
}

TEST(pool_close, can_be_called_again_and_from_many_threads) {
    auto to = server::start();
    session_pool pool{connector{to}, support::patient(10)};
    (void)pool.acquire();
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] { pool.close(); });
            threads.emplace_back([&] { EXPECT_EQ(pool.close(plenty), 0U); });
        }
    }
    pool.close();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->closes, 1);
}

TEST(pool_close, by_a_borrower_does_not_touch_its_lease) {
    auto to = server::start();
    session_pool pool{connector{to}, support::patient(10)};
    auto lease = pool.acquire();
    pool.close();
    EXPECT_EQ(lease->id, 1);
    EXPECT_EQ(to->closes, 0);
    lease.give_back();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->closes, 1);
}

TEST(pool_close, while_opens_are_in_flight_leaks_nothing_and_lends_none) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, support::patient(10)};
    std::vector<std::future<std::error_code>> waiters;
    for (int i = 0; i < 4; ++i)
        waiters.push_back(std::async(std::launch::async, [&] {
            std::error_code error;
            EXPECT_FALSE(pool.acquire({}, error));
            return error;
        }));
    ASSERT_TRUE(eventually([&] { return to->opening == 4; }));
    pool.close();
    for (auto& waiter : waiters) EXPECT_EQ(waiter.get(), errc::closed);
    opens.open();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->opened, 4);
    EXPECT_EQ(to->present, 0);
    EXPECT_EQ(to->closes, 4);
}

TEST(pool_close, while_probes_and_resets_are_in_flight_closes_their_results) {
    auto to = server::start();
    latch verbs;
    cenote::options probing = support::patient(10);
    probing.probe_on_release = true;
    session_pool pool{connector{to}, probing};
    auto hang = [verbs](int) { return verbs.wait(); };
    to->on_probe = hang;
    to->on_reset = hang;
    {
        auto clean = pool.acquire();
        auto dirty = pool.acquire();
        dirty.mark_dirty();
    }
    ASSERT_TRUE(eventually([&] { return to->probes == 1 && to->resets == 1; }));
    pool.close();
    verbs.open();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->present, 0);
    EXPECT_EQ(to->overlaps, 0);
}

TEST(pool_close, a_retry_under_backoff_ends_with_the_pool) {
    auto to = server::start();
    to->on_open = [](int) { throw support::refused_by_server("down"); };
    cenote::options settings = support::patient(10);
    settings.min_size = 2;
    settings.backoff = {.first = 1ms, .cap_waiting = 1ms, .cap_idle = 1ms};
    session_pool pool{connector{to}, settings};
    ASSERT_TRUE(eventually([&] { return to->opens > 2; }));
    EXPECT_EQ(pool.close(plenty), 0U);
    int opens = to->opens;
    EXPECT_TRUE(support::for_a_while([&] { return to->opens == opens; }));
}

TEST(pool_close, discarded_and_dirty_ones_that_come_back_later_are_just_closed) {
    auto to = server::start();
    session_pool pool{connector{to}, support::patient(10)};
    auto one = pool.acquire();
    auto two = pool.acquire();
    pool.close();
    one.discard();
    two.mark_dirty();
    two.give_back();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->resets, 0);
    EXPECT_EQ(to->closes, 2);
    EXPECT_EQ(to->present, 0);
}

TEST(pool_close, from_an_observer_works) {
    auto to = server::start();
    auto watch = std::make_shared<support::recorder>();
    std::atomic<session_pool*> pool{nullptr};
    watch->then = [&](const cenote::event& e) {
        if (e.kind == cenote::event_kind::discarded) pool.load()->close();
    };
    cenote::options observed = support::patient(10);
    observed.observers = {watch};
    session_pool it{connector{to}, observed};
    pool = &it;
    it.acquire().discard();
    EXPECT_TRUE(eventually([&] {
        std::error_code error;
        return !it.acquire({}, error) && error == errc::closed;
    }));
    EXPECT_EQ(it.close(plenty), 0U);
    EXPECT_EQ(to->present, 0);
}

TEST(pool_close, with_a_timeout_from_a_connector_does_not_hang) {
    auto to = server::start();
    std::atomic<session_pool*> pool{nullptr};
    std::atomic<bool> done{false};
    to->on_reset = [&](int) {
        (void)pool.load()->close(5ms);
        done = true;
        return true;
    };
    session_pool it{connector{to}, support::patient(10)};
    pool = &it;
    {
        auto lease = it.acquire();
        lease.mark_dirty();
    }
    EXPECT_TRUE(eventually([&] { return done.load(); }));
    EXPECT_EQ(it.close(plenty), 0U);
}

TEST(pool_close, racing_acquires_and_releases_leaks_nothing) {
    for (int i = 0; i < rounds(200); ++i) {
        auto to = server::start();
        session_pool pool{connector{to}, support::patient(2)};
        {
            std::vector<std::jthread> threads;
            for (int w = 0; w < 4; ++w)
                threads.emplace_back([&] {
                    std::error_code error;
                    while (auto lease = pool.acquire({}, error)) auto claim = lease->use();
                    EXPECT_EQ(error, errc::closed);
                });
            if (i % 2 == 0) std::this_thread::yield();
            pool.close();
        }
        ASSERT_EQ(pool.close(plenty), 0U);
        ASSERT_EQ(to->present, 0);
        ASSERT_EQ(to->overlaps, 0);
        ASSERT_EQ(pool.stats().total, 0U);
    }
}
