// Tests every form of acquire: what it grants, when it refuses, and its deadline.
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::for_a_while;
using support::latch;
using support::lines_up;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

std::chrono::steady_clock::time_point soon() { return std::chrono::steady_clock::now() + plenty; }

}  // namespace

TEST(pool_acquire, needs_only_a_function_that_opens) {
    cenote::pool pool{[] { return 42; }};
    EXPECT_EQ(*pool.acquire(), 42);
}

TEST(pool_acquire, opens_the_first_and_reuses_it) {
    auto to = server::start();
    session_pool pool{connector{to}};
    for (int i = 0; i < 10; ++i) EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->opens, 1);
}

TEST(pool_acquire, every_form_grants_what_is_ready) {
    session_pool pool{connector{server::start()}};
    std::stop_source stop;
    std::stop_token token = stop.get_token();
    std::error_code error = cenote::errc::closed;
    EXPECT_TRUE(pool.acquire());
    EXPECT_TRUE(pool.acquire({.stop = token}));
    EXPECT_TRUE(pool.acquire({}, error));
    EXPECT_FALSE(error) << "success clears the error";
    EXPECT_TRUE(pool.acquire({.stop = token}, error));
    EXPECT_TRUE(pool.acquire_for(plenty));
    EXPECT_TRUE(pool.acquire({.timeout = plenty, .stop = token}));
    EXPECT_TRUE(pool.acquire({.timeout = plenty}, error));
    EXPECT_TRUE(pool.acquire({.timeout = plenty, .stop = token}, error));
    EXPECT_TRUE(pool.acquire_until(soon()));
    EXPECT_TRUE(pool.acquire({.deadline = soon(), .stop = token}));
    EXPECT_TRUE(pool.acquire({.deadline = soon()}, error));
    EXPECT_TRUE(pool.acquire({.deadline = soon(), .stop = token}, error));
    EXPECT_TRUE(pool.try_acquire());
    EXPECT_FALSE(error);
}

TEST(pool_acquire, every_form_times_out_at_its_deadline) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = 5ms}};
    auto lease = pool.acquire_for(plenty);
    std::stop_source stop;
    std::stop_token token = stop.get_token();
    std::error_code error;
    auto then = [] { return std::chrono::steady_clock::now() + 5ms; };
    EXPECT_THROW((void)pool.acquire(), cenote::timed_out_error);
    EXPECT_THROW((void)pool.acquire({.stop = token}), cenote::timed_out_error);
    EXPECT_FALSE(pool.acquire({}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_FALSE(pool.acquire({.stop = token}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_THROW((void)pool.acquire_for(5ms), cenote::timed_out_error);
    EXPECT_THROW((void)pool.acquire({.timeout = 5ms, .stop = token}), cenote::timed_out_error);
    EXPECT_FALSE(pool.acquire({.timeout = 5ms}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_FALSE(pool.acquire({.timeout = 5ms, .stop = token}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_THROW((void)pool.acquire_until(then()), cenote::timed_out_error);
    EXPECT_THROW((void)pool.acquire({.deadline = then(), .stop = token}), cenote::timed_out_error);
    EXPECT_FALSE(pool.acquire({.deadline = then()}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_FALSE(pool.acquire({.deadline = then(), .stop = token}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_EQ(pool.stats().refused(cenote::errc::timed_out), 12U);
    EXPECT_EQ(pool.stats().try_empty, 1U);
}

TEST(pool_acquire, a_call_does_not_time_out_before_its_deadline) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto lease = pool.acquire();
    auto deadline = std::chrono::steady_clock::now() + 20ms;
    EXPECT_THROW((void)pool.acquire_until(deadline), cenote::timed_out_error);
    EXPECT_GE(std::chrono::steady_clock::now(), deadline);
}

TEST(pool_acquire, a_zero_timeout_takes_what_is_ready) {
    for (auto order : {cenote::order::lifo, cenote::order::fifo}) {
        session_pool pool{connector{server::start()}, {.order = order}};
        (void)pool.acquire();
        EXPECT_TRUE(pool.acquire_for(0ns));
        EXPECT_TRUE(pool.acquire_until(std::chrono::steady_clock::now()));
    }
}

TEST(pool_acquire, a_zero_or_negative_timeout_never_waits) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = 0ns}};
    std::error_code error;
    EXPECT_FALSE(pool.acquire({}, error)) << "nothing open yet";
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_FALSE(pool.acquire({.timeout = -1s}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_FALSE(pool.acquire({.deadline = std::chrono::steady_clock::time_point{}}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    opens.open();
    auto lease = pool.acquire_for(plenty);
    EXPECT_FALSE(pool.acquire({}, error)) << "all leased";
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_FALSE(pool.acquire({.timeout = std::chrono::nanoseconds::min()}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
}

TEST(pool_acquire, forever_waits_until_served) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = cenote::forever}};
    auto lease = pool.acquire();
    auto one = std::async(std::launch::async, [&] { return bool(pool.acquire()); });
    auto other =
        std::async(std::launch::async, [&] { return bool(pool.acquire_for(cenote::forever)); });
    auto third = std::async(std::launch::async, [&] {
        return bool(pool.acquire_until(std::chrono::steady_clock::time_point::max()));
    });
    ASSERT_TRUE(lines_up(pool, 3));
    lease.give_back();
    EXPECT_TRUE(one.get() && other.get() && third.get());
}

TEST(pool_acquire, a_stop_request_ends_the_wait) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    std::stop_source stop;
    std::stop_token token = stop.get_token();
    auto throwing = std::async(std::launch::async, [&] { (void)pool.acquire({.stop = token}); });
    std::error_code error;
    auto quiet = std::async(std::launch::async, [&] {
        return bool(pool.acquire({.timeout = plenty, .stop = token}, error));
    });
    ASSERT_TRUE(lines_up(pool, 2));
    stop.request_stop();
    EXPECT_THROW(throwing.get(), cenote::canceled_error);
    EXPECT_FALSE(quiet.get());
    EXPECT_EQ(error, cenote::errc::canceled);
    EXPECT_EQ(pool.stats().refused(cenote::errc::canceled), 2U);
    EXPECT_EQ(pool.stats().waiting, 0U);
}

TEST(pool_acquire, a_stop_request_that_came_before_ends_the_wait_at_once) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    std::stop_source stop;
    std::stop_token token = stop.get_token();
    stop.request_stop();
    EXPECT_THROW((void)pool.acquire({.stop = token}), cenote::canceled_error);
    EXPECT_EQ(pool.stats().waiting, 0U);
}

TEST(pool_acquire, a_stop_request_does_not_end_a_shared_open) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty}};
    std::stop_source stop;
    std::stop_token token = stop.get_token();
    auto first = std::async(std::launch::async, [&] { (void)pool.acquire({.stop = token}); });
    ASSERT_TRUE(lines_up(pool, 1));
    auto second = std::async(std::launch::async, [&] { return pool.acquire()->id; });
    ASSERT_TRUE(lines_up(pool, 2));
    stop.request_stop();
    EXPECT_THROW(first.get(), cenote::canceled_error);
    opens.open();
    EXPECT_EQ(second.get(), 1) << "served by the open that the first one caused";
}

TEST(pool_acquire, waiters_beyond_line_max_are_refused_at_once) {
    session_pool pool{connector{server::start()},
                      {.max = 1, .acquire_timeout = plenty, .line_max = 2}};
    auto lease = pool.acquire();
    auto one = std::async(std::launch::async, [&] { (void)pool.acquire(); });
    auto two = std::async(std::launch::async, [&] { (void)pool.acquire(); });
    ASSERT_TRUE(lines_up(pool, 2));
    EXPECT_THROW((void)pool.acquire(), cenote::line_full_error);
    std::error_code error;
    EXPECT_FALSE(pool.acquire({}, error));
    EXPECT_EQ(error, cenote::errc::line_full);
    EXPECT_EQ(pool.stats().refused(cenote::errc::line_full), 2U);
    lease.give_back();
    one.get();
    two.get();
}

TEST(pool_acquire, with_line_max_zero_only_what_is_ready_is_granted) {
    session_pool pool{connector{server::start()},
                      {.max = 1, .min_size = 1, .warm_up = cenote::warm_up::wait, .line_max = 0}};
    auto lease = pool.acquire();
    EXPECT_THROW((void)pool.acquire(), cenote::line_full_error);
}

TEST(pool_acquire, one_thread_may_hold_two_leases) {
    session_pool pool{connector{server::start()}, {.max = 2}};
    auto outer = pool.acquire();
    auto inner = pool.acquire();
    EXPECT_NE(outer->id, inner->id);
    EXPECT_EQ(pool.stats().leased, 2U);
}

TEST(pool_acquire, try_acquire_never_waits_for_an_open_but_starts_one) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.max = 2}};
    EXPECT_FALSE(pool.try_acquire());
    opens.open();
    EXPECT_TRUE(eventually([&] { return bool(pool.try_acquire()); }));
}

TEST(pool_acquire, try_acquire_opens_one_for_the_next_and_not_one_per_call) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    session_pool pool{connector{to}, {.max = 4, .open_timeout = plenty}};
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(pool.try_acquire());
    ASSERT_TRUE(eventually([&] { return to->opening == 1; }));
    EXPECT_TRUE(for_a_while([&] {
        EXPECT_FALSE(pool.try_acquire());
        return to->opens == 1 && pool.stats().total == 1;
    }));
    opens.open();
    ASSERT_TRUE(eventually([&] { return pool.stats().idle == 1; }));
    auto empty = pool.stats().try_empty;
    auto lease = pool.try_acquire();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->id, 1);
    EXPECT_TRUE(for_a_while([&] { return to->opens == 1; }))
        << "no caller has requested another one";
    EXPECT_EQ(pool.stats().try_empty, empty);
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 1; }))
        << "the last call has requested one";
    EXPECT_TRUE(for_a_while([&] { return to->opens == 2; }));
    EXPECT_TRUE(pool.try_acquire());
}

TEST(pool_acquire, try_acquire_never_waits_for_a_probe) {
    auto to = server::start();
    latch probes;
    session_pool pool{connector{to}, {.probe_timeout = plenty, .probe_after_idle = 0ns}};
    (void)pool.acquire();
    to->on_probe = [probes](int) { return probes.wait(); };
    EXPECT_FALSE(pool.try_acquire()) << "only a probed one may be granted";
    probes.open();
}

TEST(pool_acquire, try_acquire_is_empty_when_all_are_leased) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto lease = pool.acquire();
    EXPECT_FALSE(pool.try_acquire());
    lease.give_back();
    EXPECT_TRUE(pool.try_acquire());
}

TEST(pool_acquire, lifo_lends_the_most_recently_used) {
    // An observer of every lease shuts the fast lane, which keeps one resource for each processor.
    auto watch = std::make_shared<support::recorder>(std::set{cenote::event_kind::acquired});
    session_pool pool{connector{server::start()},
                      {.max = 3, .acquire_timeout = plenty, .observers = {watch}}};
    auto a = pool.acquire();
    auto b = pool.acquire();
    auto c = pool.acquire();
    int last = b->id;
    a.give_back();
    c.give_back();
    b.give_back();
    EXPECT_EQ(pool.acquire()->id, last);
}

TEST(pool_acquire, fifo_spreads_the_work) {
    session_pool pool{connector{server::start()}, {.max = 3, .order = cenote::order::fifo}};
    {
        auto a = pool.acquire();
        auto b = pool.acquire();
        auto c = pool.acquire();
    }
    std::vector<int> used;
    for (int i = 0; i < 6; ++i) used.push_back(pool.acquire()->id);
    EXPECT_NE(used[0], used[1]);
    EXPECT_NE(used[1], used[2]);
    EXPECT_NE(used[0], used[2]);
    EXPECT_EQ(std::vector(used.begin(), used.begin() + 3),
              std::vector(used.begin() + 3, used.end()));
}

namespace {

/// How often acquire() reads the clock.
std::uint64_t reads_of_acquire(session_pool& pool) {
    std::uint64_t before = support::clock_reads();
    auto lease = pool.acquire();
    std::uint64_t reads = support::clock_reads() - before;
    // By another thread, so that turns do not set the resource aside until the clock moves.
    std::jthread([&] { lease.give_back(); }).join();
    return reads;
}

}  // namespace

// The clock stands still, because an acquire that meets a sweep reads it again.
TEST(pool_acquire, reads_the_clock_once_at_the_keeper) {
    support::stopped_clock clock;
    session_pool pool{connector{server::start()}, {.order = cenote::order::fifo}};
    (void)pool.acquire();
    EXPECT_EQ(reads_of_acquire(pool), 1u) << "ready";
    std::uint64_t before = support::clock_reads();
    pool.acquire().give_back();
    EXPECT_EQ(support::clock_reads() - before, 2u) << "with the release";
}

TEST(pool_acquire, reads_the_clock_once_if_it_waits) {
    support::stopped_clock clock;
    for (auto fairness : {cenote::fairness::strict, cenote::fairness::turns}) {
        session_pool pool{connector{server::start()}, {.max = 1, .fairness = fairness}};
        auto lease = pool.acquire();
        auto first = std::async(std::launch::async, [&] { return reads_of_acquire(pool); });
        EXPECT_TRUE(lines_up(pool, 1));
        auto second = std::async(std::launch::async, [&] { return reads_of_acquire(pool); });
        EXPECT_TRUE(lines_up(pool, 2));
        std::jthread([&] { lease.give_back(); }).join();
        EXPECT_EQ(first.get(), 1u) << "the line was empty";
        EXPECT_EQ(second.get(), 1u) << "there was a line";
    }
}

TEST(pool_acquire, ends_at_the_earlier_of_timeout_and_deadline) {
    support::stopped_clock clock;
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto lease = pool.acquire();
    auto now = [] { return std::chrono::steady_clock::now(); };
    auto expect_end_in_20ms = [&](const cenote::acquire_options& how) {
        std::error_code error;
        std::thread waits([&] { (void)pool.acquire(how, error); });
        lines_up(pool, 1);
        clock.advance(20ms);
        waits.join();
        EXPECT_EQ(error, cenote::errc::timed_out);
    };
    expect_end_in_20ms({.timeout = 20ms, .deadline = now() + 1h});
    expect_end_in_20ms({.timeout = 1h, .deadline = now() + 20ms});
}

TEST(pool_with, returns_what_the_function_returns) {
    session_pool pool{connector{server::start()}};
    EXPECT_EQ(pool.with([](session& s) { return std::to_string(s.id); }), "1");
    int& inside = pool.with([](session& s) -> int& { return s.id; });
    EXPECT_EQ(inside, 1);
    pool.with([](session&) {});
    EXPECT_EQ(pool.with(&session::id), 1);
    auto moved = pool.with([](session&) { return std::make_unique<int>(7); });
    EXPECT_EQ(*moved, 7);
    EXPECT_EQ(pool.stats().leased, 0U);
}

TEST(pool_with, discards_on_an_exception_without_a_classifier) {
    auto to = server::start();
    session_pool pool{connector{to}};
    EXPECT_THROW(pool.with([](session&) { throw std::runtime_error("mine"); }), std::runtime_error);
    EXPECT_THROW(pool.with([](session&) { throw 42; }), int);
    EXPECT_EQ(pool.stats().discarded, 2U);
    EXPECT_TRUE(eventually([&] { return to->closes == 2; }));
}

TEST(pool_with, lets_the_connector_classify_the_exception) {
    auto to = server::start();
    session_pool pool{support::judging_connector{{to}}, {.reset_timeout = plenty}};
    EXPECT_THROW(pool.with([](session&) { throw support::keep_it(); }), support::keep_it);
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->resets, 0);
    EXPECT_THROW(pool.with([](session&) { throw support::reset_it(); }), support::reset_it);
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->resets, 1);
    EXPECT_EQ(to->closes, 0);
    EXPECT_THROW(pool.with([](session&) { throw support::discard_it(); }), support::discard_it);
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_THROW(pool.with([](session&) { throw support::never_again(); }), support::never_again);
    EXPECT_EQ(pool.acquire()->id, 3);
}

TEST(pool_with, passes_a_refusal_on) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = 1ms}};
    auto lease = pool.acquire_for(plenty);
    EXPECT_THROW(pool.with([](session&) { FAIL() << "no lease"; }), cenote::timed_out_error);
}

TEST(acquire_options, override_the_timeout) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = 1h}};
    auto lease = pool.acquire();
    std::error_code error;
    EXPECT_FALSE(pool.acquire({.timeout = 5ms}, error));
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_THROW((void)pool.acquire({.timeout = -1s}), cenote::timed_out_error);
    lease.give_back();
    EXPECT_TRUE(pool.acquire({.task = "report"}));
}

TEST(acquire_options, without_queue_open_but_do_not_wait_for_others) {
    session_pool pool{connector{server::start()},
                      {.name = "orders", .max = 2, .acquire_timeout = plenty}};
    auto first = pool.acquire({.queue = false});  // a cold pool has room
    auto second = pool.acquire({.queue = false});
    EXPECT_NE(first->id, second->id);
    try {
        (void)pool.acquire({.queue = false});
        FAIL() << "all are in use";
    } catch (const cenote::line_full_error& e) {
        std::string text = e.what();
        EXPECT_TRUE(text.starts_with("all of \"orders\" is in use, and the acquire does not queue"))
            << text;
        EXPECT_NE(text.find("2 of 2 leased"), std::string::npos) << text;
        EXPECT_EQ(text.find("line_max"), std::string::npos) << text;
    }
    std::error_code error;
    EXPECT_FALSE(pool.acquire({.queue = false}, error));
    EXPECT_EQ(error, cenote::errc::line_full);
    second.give_back();
    EXPECT_TRUE(pool.acquire({.queue = false}, error));
    EXPECT_THROW((void)pool.acquire_many(2, {.queue = false}), cenote::line_full_error);
    EXPECT_EQ(pool.stats().waiting, 0U);
}

TEST(acquire_options, grant_higher_priorities_first) {
    session_pool pool{connector{server::start()},
                      {.max = 1, .acquire_timeout = 1h, .head_start = 1h}};
    auto lease = pool.acquire();
    std::vector<int> order;
    std::vector<std::thread> waiting;
    auto wait_as = [&](int who, cenote::priority rank) {
        waiting.emplace_back([&, who, rank] {
            auto mine = pool.acquire({.priority = rank});
            order.push_back(who);  // one resource, so one thread at a time
        });
        auto in_line = waiting.size();
        ASSERT_TRUE(eventually([&] { return pool.stats().waiting == in_line; }));
    };
    wait_as(1, cenote::priority::low);
    wait_as(2, cenote::priority::normal);
    wait_as(3, cenote::priority::high);
    wait_as(4, cenote::priority::reserved);
    lease.give_back();
    for (std::thread& t : waiting) t.join();
    EXPECT_EQ(order, (std::vector<int>{4, 3, 2, 1}));
}
