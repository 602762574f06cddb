// Tests opens: never beyond max, never more than needed, and the line after a failed open.
#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <string>
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
using support::latch;
using support::lines_up;
using support::plenty;
using support::refused_by_server;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

std::string text_of(const std::exception_ptr& error) {
    if (error == nullptr) return "nothing";
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "something";
    }
}

constexpr cenote::backoff quick{.first = 1ms, .cap_waiting = 2ms, .cap_idle = 5ms};

}  // namespace

TEST(pool_open, a_slow_open_with_50_borrowers_never_exceeds_max) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.max = 5, .acquire_timeout = plenty}};
    std::atomic<int> served{0};
    {
        std::vector<std::jthread> borrowers;
        for (int i = 0; i < 50; ++i)
            borrowers.emplace_back([&] {
                auto lease = pool.acquire();
                ++served;
            });
        EXPECT_TRUE(lines_up(pool, 50));
        EXPECT_LE(pool.stats().total, 5U);
        opens.open();
    }
    EXPECT_EQ(served, 50);
    EXPECT_LE(to->peak, 5);
    EXPECT_LE(to->opens, 5);
}

TEST(pool_open, max_holds_at_every_instant_while_everything_goes_wrong) {
    auto to = server::start();
    std::atomic<int> turn{0};
    to->on_open = [](int id) {
        if (id % 5 == 0) throw refused_by_server("every fifth");
    };
    to->on_close = [](int) { std::this_thread::yield(); };
    session_pool pool{support::hooked_connector{{to}},
                      {.max = 4,
                       .min_size = 2,
                       .min_idle = 1,
                       .acquire_timeout = plenty,
                       .probe_timeout = plenty,
                       .reset_timeout = plenty,
                       .close_timeout = plenty,
                       .max_uses = 7,
                       .sweep_interval = 1ms,
                       .probe_after_idle = 0ns,
                       .backoff = quick}};
    to->on_probe = [&](int) { return ++turn % 11 != 0; };
    to->on_release = [&](int) { return ++turn % 13 != 0; };
    {
        std::vector<std::jthread> borrowers;
        for (int w = 0; w < 8; ++w)
            borrowers.emplace_back([&] {
                for (int i = 0; i < rounds(300); ++i) {
                    auto lease = pool.acquire();
                    auto claim = std::make_unique<session::claim>(*lease);
                    int what = ++turn % 17;
                    claim.reset();
                    if (what == 0) lease.discard();
                    else if (what == 1) lease.mark_dirty();
                }
            });
    }
    EXPECT_LE(to->peak, 4);
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->present, 0);
}

TEST(pool_open, no_more_than_opening_max_are_in_flight) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.max = 10, .acquire_timeout = plenty, .opening_max = 2}};
    std::vector<std::jthread> borrowers;
    for (int i = 0; i < 10; ++i) borrowers.emplace_back([&] { (void)pool.acquire(); });
    EXPECT_TRUE(lines_up(pool, 10));
    EXPECT_TRUE(eventually([&] { return to->opening == 2; }));
    EXPECT_TRUE(for_a_while([&] { return to->opening == 2 && pool.stats().opening == 2; }));
    opens.open();
    borrowers.clear();
    EXPECT_EQ(to->opening_peak, 2);
}

TEST(pool_open, never_more_are_in_flight_than_waiters_need) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.max = 10, .acquire_timeout = plenty}};
    auto one = std::async(std::launch::async, [&] { return pool.acquire(); });
    EXPECT_TRUE(eventually([&] { return to->opening == 1; }));
    EXPECT_TRUE(for_a_while([&] { return to->opens == 1; }));
    auto two = std::async(std::launch::async, [&] { return pool.acquire(); });
    EXPECT_TRUE(eventually([&] { return to->opening == 2; }));
    EXPECT_TRUE(for_a_while([&] { return to->opens == 2; }));
    opens.open();
    EXPECT_NE(one.get()->id, two.get()->id);
}

TEST(pool_open, a_spike_opens_nothing_that_present_resources_can_serve) {
    support::stopped_clock time;  // an open takes longer than all the leases
    auto to = server::start();
    latch opens;
    // Turns would set resources aside until the clock moves.
    session_pool pool{connector{to},
                      {.max = 50,
                       .min_size = 5,
                       .warm_up = cenote::warm_up::wait,
                       .fairness = cenote::fairness::strict}};
    to->on_open = [opens](int) { opens.wait(); };
    auto leases = pool.acquire_many(5);
    {
        std::vector<std::jthread> borrowers;
        for (int i = 0; i < 50; ++i) borrowers.emplace_back([&] { (void)pool.acquire(); });
        EXPECT_TRUE(lines_up(pool, 50));
        leases.clear();
    }
    opens.open();
    EXPECT_TRUE(eventually([&] { return pool.stats().opening == 0; }));
    EXPECT_LE(to->opens, 6);
}

TEST(pool_open, a_spike_opens_at_most_opening_max_more_than_needed) {
    auto to = server::start();
    latch opens;
    session_pool pool{
        connector{to},
        {.max = 50, .min_size = 5, .warm_up = cenote::warm_up::wait, .acquire_timeout = plenty}};
    to->on_open = [opens](int) { opens.wait(); };
    {
        std::vector<std::jthread> borrowers;
        for (int i = 0; i < 50; ++i) borrowers.emplace_back([&] { (void)pool.acquire(); });
    }
    opens.open();
    EXPECT_TRUE(eventually([&] { return pool.stats().opening == 0; }));
    EXPECT_LE(to->opens, 5 + 4);
}

TEST(pool_open, a_returned_resource_serves_a_waiter_whose_open_is_in_flight) {
    auto to = server::start();
    latch opens;
    session_pool pool{connector{to}, {.max = 2, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    to->on_open = [opens](int) { opens.wait(); };
    auto waiter = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    ASSERT_TRUE(eventually([&] { return to->opening == 1; }));
    lease.give_back();
    EXPECT_EQ(waiter.get(), 1) << "the head of the line gets the first free resource";
    opens.open();
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 2; }))
        << "the opened resource is kept";
}

TEST(pool_open, a_hung_open_does_not_delay_others) {
    auto to = server::start();
    latch opens;
    to->on_open = [&](int id) {
        if (id == 1) opens.wait();
    };
    session_pool pool{connector{to}, {.max = 3, .acquire_timeout = plenty, .open_timeout = plenty}};
    auto stuck = std::async(std::launch::async, [&] { return pool.acquire(); });
    ASSERT_TRUE(eventually([&] { return to->opening == 1; }));
    auto next = std::async(std::launch::async, [&] { return pool.acquire(); });
    // The head of the line gets the first free resource. The other waiter needs a third open or the
    // first one.
    auto another = std::async(std::launch::async, [&] { return pool.acquire(); });
    EXPECT_TRUE(eventually([&] { return pool.stats().leased == 2; }));
    EXPECT_EQ(to->opening, 1);
    opens.open();
    (void)stuck.get();
    (void)next.get();
    (void)another.get();
}

TEST(pool_open, a_failed_open_is_retried_and_serves_the_line) {
    auto to = server::start();
    to->on_open = [](int id) {
        if (id <= 3) throw refused_by_server("not yet");
    };
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty, .backoff = quick}};
    auto one = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    auto two = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    EXPECT_EQ(one.get(), 4);
    EXPECT_EQ(two.get(), 4);
    EXPECT_EQ(pool.stats().open_failed, 3U);
    EXPECT_EQ(pool.stats().total, 1U);
}

TEST(pool_open, every_waiter_ends_by_its_deadline_with_the_cause_when_every_open_fails) {
    support::stopped_clock time;
    auto to = server::start();
    // Kept alive: the thread sanitizer cannot follow the end of an exception.
    std::vector<std::exception_ptr> causes;
    to->on_open = [](int) { throw refused_by_server("the server is down"); };
    session_pool pool{connector{to}, {.max = 2, .acquire_timeout = 100ms, .backoff = quick}};
    std::atomic<int> explained{0};
    std::mutex mutex;
    {
        std::vector<std::jthread> waiters;
        for (int i = 0; i < 8; ++i)
            waiters.emplace_back([&] {
                try {
                    (void)pool.acquire();
                } catch (const cenote::pool_error& e) {
                    bool names =
                        std::string(e.what()).find("the server is down") != std::string::npos;
                    if (names && text_of(e.cause()) == "the server is down") ++explained;
                    std::lock_guard lock(mutex);
                    causes.push_back(e.cause());
                }
            });
        EXPECT_TRUE(lines_up(pool, 8));
        EXPECT_TRUE(eventually([&] { return pool.stats().open_failed > 0; }));
        time.advance(100ms - 1ns);
        EXPECT_TRUE(for_a_while([&] { return pool.stats().waiting == 8; }, 10ms));
        time.advance(1ns);
    }
    EXPECT_EQ(explained, 8);
    EXPECT_EQ(pool.stats().waiting, 0U);
    EXPECT_EQ(to->present, 0);
}

TEST(pool_open, an_open_that_fails_is_retried_with_backoff) {
    support::stopped_clock time;
    auto to = server::start();
    to->on_open = [](int) { throw refused_by_server("down"); };
    session_pool pool{connector{to},
                      {.max = 4,
                       .acquire_timeout = 100ms,
                       .backoff = {.first = 10s, .cap_waiting = 10s, .cap_idle = 10s}}};
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 8; ++i)
        waiters.emplace_back([&] {
            std::error_code error;
            EXPECT_FALSE(pool.acquire({}, error));
        });
    EXPECT_TRUE(lines_up(pool, 8));
    EXPECT_TRUE(eventually([&] { return pool.stats().open_failed > 0; }));
    time.advance(100ms);
    waiters.clear();
    EXPECT_LE(to->opens, 4) << "backoff is per pool, not per waiter";
}

TEST(pool_open, a_final_error_goes_to_the_waiter_at_once) {
    auto to = server::start();
    to->on_open = [](int) { throw support::never_again(); };
    session_pool pool{support::judging_connector{{to}}, {.acquire_timeout = plenty}};
    try {
        (void)pool.acquire();
        FAIL() << "no resource can be opened";
    } catch (const cenote::open_failed_error& e) {
        EXPECT_EQ(text_of(e.cause()), "never again");
        EXPECT_NE(std::string(e.what()).find("never again"), std::string::npos) << e.what();
    }
    EXPECT_EQ(pool.stats().refused(cenote::errc::open_failed), 1U);
    std::error_code error;
    EXPECT_FALSE(pool.acquire({}, error));
    EXPECT_EQ(error, cenote::errc::open_failed);
}

TEST(pool_open, fail_fast_reports_an_open_error_at_once) {
    auto to = server::start();
    to->on_open = [](int) { throw refused_by_server("connection refused"); };
    session_pool pool{connector{to},
                      {.acquire_timeout = plenty, .open_errors = cenote::open_errors::fail_fast}};
    try {
        (void)pool.acquire();
        FAIL() << "no resource can be opened";
    } catch (const cenote::open_failed_error& e) {
        EXPECT_EQ(text_of(e.cause()), "connection refused");
    }
    // The next caller may have to wait for the backoff, not for its deadline.
    std::error_code error;
    EXPECT_FALSE(pool.acquire({}, error));
    EXPECT_EQ(error, cenote::errc::open_failed);
    to->on_open = nullptr;
    EXPECT_TRUE(pool.acquire());
}

TEST(pool_open, classify_open_is_called_for_opens_only) {
    struct classifying : connector {
        cenote::verdict classify_open(const std::exception_ptr&) const {
            return cenote::verdict::final;
        }
        cenote::verdict classify(const std::exception_ptr&) const { return cenote::verdict::keep; }
    };
    auto to = server::start();
    session_pool pool{classifying{{to}}, {.max = 1, .acquire_timeout = plenty}};
    EXPECT_THROW(pool.with([](session&) { throw std::runtime_error("a user's"); }),
                 std::runtime_error);
    EXPECT_EQ(to->opens, 1);
    EXPECT_EQ(pool.acquire()->id, 1) << "kept";
    to->on_open = [](int) { throw refused_by_server("no such database"); };
    pool.acquire().discard();
    EXPECT_THROW((void)pool.acquire(), cenote::open_failed_error);
}

TEST(pool_open, a_failed_open_does_not_refuse_a_waiter_that_a_release_can_serve) {
    auto to = server::start();
    session_pool pool{support::judging_connector{{to}},
                      {.max = 2, .acquire_timeout = plenty, .backoff = quick}};
    auto lease = pool.acquire();
    to->on_open = [](int id) {
        if (id == 2) throw refused_by_server("once");
    };
    auto waiter = std::async(std::launch::async, [&] { return bool(pool.acquire()); });
    EXPECT_TRUE(eventually([&] { return to->opens >= 2; }));
    lease.give_back();
    EXPECT_TRUE(waiter.get());
}

TEST(pool_open, an_outage_then_recovery_restores_full_capacity) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 4,
                       .acquire_timeout = 5ms,
                       .probe_timeout = plenty,
                       .close_timeout = plenty,
                       .probe_after_idle = 0ns,
                       .backoff = quick}};
    {
        std::vector<cenote::lease<session>> all;
        for (int i = 0; i < 4; ++i) all.push_back(pool.acquire_for(plenty));
    }
    to->on_probe = [](int) { return false; };
    to->on_open = [](int) { throw refused_by_server("outage"); };
    for (int i = 0; i < 10; ++i) {
        std::error_code error;
        EXPECT_FALSE(pool.acquire({}, error));
    }
    to->on_probe = nullptr;
    to->on_open = nullptr;
    std::vector<cenote::lease<session>> all;
    for (int i = 0; i < 4; ++i) all.push_back(pool.acquire_for(plenty));
    EXPECT_EQ(pool.stats().leased, 4U);
    EXPECT_EQ(pool.stats().total, 4U);
    EXPECT_LE(to->peak, 4);
}

TEST(pool_open, the_deadline_covers_the_open) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.open_timeout = plenty}};
    EXPECT_THROW((void)pool.acquire_for(5ms), cenote::timed_out_error);
    opens.open();
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 1; }))
        << "a borrower that times out does not end the open that it caused";
}
