// Tests the circuit breaker: its states, both strategies, and what users of a pool see.
#include "cenote/breaker.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
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
using cenote::breaker_move;
using cenote::breaker_report;
using cenote::breaker_state;
using cenote::errc;
using cenote::rate_breaker;
using cenote::threshold_breaker;
using support::connector;
using support::eventually;
using support::plenty;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

/// Whether the circuit reaches the state. Another thread than the one that reports a failure may
/// call the strategy, so the state may change later.
bool turns(const session_pool& pool, breaker_state to) {
    return eventually([&] { return pool.stats().breaker == to; });
}

// The strategy alone.

TEST(threshold_breaker, opens_after_failures_in_a_row) {
    threshold_breaker b({.failures = 3, .cool_down = 7s});
    EXPECT_EQ(b.failed({.state = breaker_state::active}), std::nullopt);
    EXPECT_EQ(b.failed({.state = breaker_state::active}), std::nullopt);
    EXPECT_EQ(b.succeeded({.state = breaker_state::active}), std::nullopt);  // resets the count
    EXPECT_EQ(b.failed({.state = breaker_state::active}), std::nullopt);
    EXPECT_EQ(b.failed({.state = breaker_state::active}), std::nullopt);
    EXPECT_EQ(b.failed({.state = breaker_state::active}),
              (breaker_move{.to = breaker_state::inactive, .cool_down = 7s}));
}

TEST(threshold_breaker, recovers_after_successes) {
    threshold_breaker b({.failures = 1, .probes = 4, .successes = 2});
    EXPECT_EQ(b.cooled_down({}), (breaker_move{.to = breaker_state::recovering, .probes = 4}));
    EXPECT_EQ(b.succeeded({.state = breaker_state::recovering}), std::nullopt);
    EXPECT_EQ(b.succeeded({.state = breaker_state::recovering}),
              breaker_move{.to = breaker_state::active});
}

TEST(threshold_breaker, opens_again_at_the_first_failure_of_a_recovery) {
    threshold_breaker b({.failures = 9, .successes = 2});
    EXPECT_EQ(b.succeeded({.state = breaker_state::recovering}), std::nullopt);
    ASSERT_TRUE(b.failed({.state = breaker_state::recovering}).has_value());
    // Successes of this recovery do not count in the next one.
    EXPECT_TRUE(b.cooled_down({.state = breaker_state::inactive}).has_value());
    EXPECT_EQ(b.succeeded({.state = breaker_state::recovering}), std::nullopt)
        << "counts from zero";
}

TEST(threshold_breaker, refuses_invalid_settings) {
    EXPECT_THROW(threshold_breaker({.failures = 0}), cenote::invalid_option);
    EXPECT_THROW(threshold_breaker({.cool_down = 0s}), cenote::invalid_option);
    EXPECT_THROW(threshold_breaker({.probes = 0}), cenote::invalid_option);
    EXPECT_THROW(threshold_breaker({.successes = 0}), cenote::invalid_option);
}

std::optional<breaker_move> at(rate_breaker& b, std::chrono::nanoseconds when, bool well,
                               std::uint64_t count = 1) {
    breaker_report what{.state = breaker_state::active,
                        .at = std::chrono::steady_clock::time_point{} + 1h + when,
                        .count = count};
    return well ? b.succeeded(what) : b.failed(what);
}

TEST(rate_breaker, opens_at_a_rate_of_failed_calls) {
    rate_breaker b({.rate = 0.5, .calls = 10, .window = 10s, .cool_down = 7s});
    EXPECT_EQ(at(b, 0s, true, 5), std::nullopt);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(at(b, 1s, false), std::nullopt) << "fewer than `calls`";
    EXPECT_EQ(at(b, 2s, false), (breaker_move{.to = breaker_state::inactive, .cool_down = 7s}));
}

TEST(rate_breaker, forgets_what_has_left_the_window) {
    rate_breaker b({.rate = 0.5, .calls = 4, .window = 10s});
    EXPECT_EQ(at(b, 0s, true, 1'000'000), std::nullopt);
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(at(b, 9s, false), std::nullopt) << "out of a million calls";
    EXPECT_NE(at(b, 10s, false), std::nullopt) << "the million calls are ten seconds old";

    rate_breaker c({.rate = 0.5, .calls = 4, .window = 10s});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(at(c, 0s, false), std::nullopt);
    EXPECT_EQ(at(c, 1h, false), std::nullopt) << "alone in its window";
}

TEST(rate_breaker, recovers_like_threshold_breaker_and_counts_from_zero) {
    rate_breaker b({.rate = 0.5, .calls = 2, .probes = 3, .successes = 2});
    EXPECT_EQ(at(b, 0s, false), std::nullopt);
    EXPECT_NE(at(b, 0s, false), std::nullopt);
    EXPECT_EQ(b.failed({.state = breaker_state::inactive}), std::nullopt);
    EXPECT_EQ(b.cooled_down({}), (breaker_move{.to = breaker_state::recovering, .probes = 3}));
    EXPECT_EQ(b.succeeded({.state = breaker_state::recovering}), std::nullopt);
    EXPECT_EQ(b.succeeded({.state = breaker_state::recovering}),
              breaker_move{.to = breaker_state::active});
    EXPECT_EQ(at(b, 0s, false), std::nullopt)
        << "failures that opened the circuit do not count twice";
    EXPECT_TRUE(b.failed({.state = breaker_state::recovering}).has_value());
}

TEST(rate_breaker, refuses_invalid_settings) {
    EXPECT_THROW(rate_breaker({.rate = 0}), cenote::invalid_option);
    EXPECT_THROW(rate_breaker({.rate = 1.5}), cenote::invalid_option);
    EXPECT_THROW(rate_breaker({.rate = std::nan("")}), cenote::invalid_option);
    EXPECT_THROW(rate_breaker({.calls = 0}), cenote::invalid_option);
    EXPECT_THROW(rate_breaker({.window = 0s}), cenote::invalid_option);
    EXPECT_THROW(rate_breaker({.window = 9ns}), cenote::invalid_option);
    EXPECT_THROW(rate_breaker({.cool_down = -1s}), cenote::invalid_option);
    EXPECT_THROW(rate_breaker({.probes = 0}), cenote::invalid_option);
    EXPECT_THROW(rate_breaker({.successes = 0}), cenote::invalid_option);
}

// Changes of state by hand.

TEST(breaker, inactive_refuses_at_once_even_with_an_idle_resource) {
    session_pool pool{connector{server::start()}};
    {
        auto warm = pool.acquire();
    }
    pool.deactivate();
    EXPECT_EQ(pool.stats().breaker, breaker_state::inactive);
    EXPECT_THROW((void)pool.acquire(), cenote::unavailable_error);
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_EQ(pool.stats().refused(errc::unavailable), 1u);
    pool.activate();
    EXPECT_TRUE(pool.acquire());
}

TEST(breaker, inactive_refuses_waiters_at_once) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = 60s}};
    auto lease = pool.acquire();
    std::atomic<int> unavailable{0};
    std::vector<std::thread> waiting;
    for (int i = 0; i < 4; ++i)
        waiting.emplace_back([&] {
            std::error_code error;
            auto none = pool.acquire({}, error);
            unavailable += error == errc::unavailable;
        });
    ASSERT_TRUE(eventually([&] { return pool.stats().waiting == 4; }));
    pool.deactivate();
    for (std::thread& t : waiting) t.join();
    EXPECT_EQ(unavailable, 4);
    lease.give_back();  // a release still works
    EXPECT_EQ(pool.stats().idle, 1u);
}

TEST(breaker, recovering_without_a_strategy_ends_with_the_first_lease) {
    session_pool pool{connector{server::start()}, {.max = 4}};
    {
        auto warm = pool.acquire();
    }
    pool.deactivate();
    pool.recover();
    auto trial = pool.acquire();
    EXPECT_THROW((void)pool.acquire(), cenote::unavailable_error);
    trial.give_back();
    EXPECT_TRUE(turns(pool, breaker_state::active));
}

TEST(breaker, a_lease_discarded_with_a_cause_ends_the_recovery) {
    session_pool pool{connector{server::start()}, {.max = 4}};
    {
        auto warm = pool.acquire();
    }
    pool.recover();
    auto trial = pool.acquire();
    trial.discard(std::make_exception_ptr(std::runtime_error("gone")));
    EXPECT_TRUE(turns(pool, breaker_state::inactive));
}

TEST(breaker, a_lease_discarded_without_a_cause_is_no_failure) {
    session_pool pool{connector{server::start()}, {.max = 4}};
    {
        auto warm = pool.acquire();
    }
    pool.recover();
    pool.acquire().discard();
    EXPECT_EQ(pool.stats().breaker, breaker_state::recovering);
}

TEST(breaker, an_error_has_the_delay_before_a_retry) {
    auto to = server::start();
    to->on_open = [](int) { throw support::refused_by_server("down"); };
    session_pool pool{connector{to},
                      {.breaker = std::make_shared<threshold_breaker>(
                           threshold_breaker::settings{.failures = 1, .cool_down = 1h})}};
    std::error_code ignored;
    (void)pool.acquire({.timeout = 10s}, ignored);
    EXPECT_EQ(ignored, errc::unavailable);
    try {
        (void)pool.acquire();
        FAIL() << "the circuit is open";
    } catch (const cenote::unavailable_error& e) {
        EXPECT_GT(e.retry_after(), 50min);
        EXPECT_LE(e.retry_after(), 1h);
        EXPECT_NE(std::string(e.what()).find("circuit breaker"), std::string::npos) << e.what();
    }
    EXPECT_GT(pool.retry_after(), 50min);
}

// Changes of state by a strategy.

/// Records its reports, and throws if told to.
class recording_breaker : public cenote::breaker {
public:
    std::optional<breaker_move> succeeded(const breaker_report& what) override {
        return record(std::string("good while ") + to_string(what.state));
    }
    std::optional<breaker_move> failed(const breaker_report& what) override {
        return record(std::string("bad while ") + to_string(what.state));
    }
    std::optional<breaker_move> cooled_down(const breaker_report&) override {
        return record("cool");
    }

    std::vector<std::string> reports() const {
        std::lock_guard lock(mutex_);
        return reports_;
    }
    std::atomic<bool> throws{false};
    std::atomic<int> at_once{0};
    std::atomic<int> most_at_once{0};

private:
    std::optional<breaker_move> record(std::string what) {
        most_at_once = std::max(most_at_once.load(), ++at_once);
        {
            std::lock_guard lock(mutex_);
            reports_.push_back(std::move(what));
        }
        --at_once;
        if (throws) throw std::runtime_error("a strategy that throws");
        return std::nullopt;
    }

    mutable std::mutex mutex_;
    std::vector<std::string> reports_;
};

TEST(breaker, a_dead_backend_opens_the_circuit_and_its_return_closes_it) {
    support::stopped_clock time;
    auto to = server::start();
    std::atomic<bool> up{true};
    to->on_open = [&](int) {
        if (!up) throw support::refused_by_server("down");
    };
    auto watch = std::make_shared<support::recorder>();
    session_pool pool{connector{to},
                      {.max = 2,
                       .breaker = std::make_shared<threshold_breaker>(
                           threshold_breaker::settings{.failures = 3, .cool_down = 20ms}),
                       .backoff = {.first = 1ms, .cap_waiting = 1ms, .cap_idle = 1ms},
                       .observers = {watch}}};
    pool.acquire().discard();
    up = false;
    // The error of an acquire, while time passes.
    auto acquire_for = [&](std::chrono::nanoseconds timeout) {
        auto result = std::async(std::launch::async, [&] {
            std::error_code error;
            (void)pool.acquire({.timeout = timeout}, error);
            return error;
        });
        EXPECT_TRUE(eventually([&] {
            time.advance(1ms);
            return result.wait_for(0s) == std::future_status::ready;
        }));
        return result.get();
    };
    EXPECT_EQ(acquire_for(1h), errc::unavailable);  // long before its deadline
    // While it is down, every recovery fails.
    for (int i = 0; i < 5; ++i) {
        std::error_code error = acquire_for(5ms);
        EXPECT_TRUE(error == errc::unavailable || error == errc::timed_out);
        time.advance(10ms);
    }
    up = true;
    ASSERT_TRUE(eventually([&] { return !acquire_for(1s); }));
    // The thread that reports the success may not be done yet.
    EXPECT_TRUE(turns(pool, breaker_state::active));
    // Exactly these moves, in this order.
    ASSERT_TRUE(eventually([&] {
        auto seen = watch->seen();
        return !seen.empty() && watch->count(cenote::event_kind::breaker_changed) > 0;
    }));
    auto state = breaker_state::active;
    for (const auto& e : watch->seen()) {
        if (e.kind != cenote::event_kind::breaker_changed) continue;
        bool legal = (state == breaker_state::active && e.breaker == breaker_state::inactive) ||
                     (state == breaker_state::inactive && e.breaker == breaker_state::recovering) ||
                     state == breaker_state::recovering;
        EXPECT_TRUE(legal) << to_string(state) << " to " << to_string(e.breaker);
        state = e.breaker;
    }
}

TEST(breaker, a_strategy_gets_one_report_at_a_time) {
    auto to = server::start();
    auto strategy = std::make_shared<recording_breaker>();
    session_pool pool{connector{to}, {.max = 2, .breaker = strategy}};
    EXPECT_TRUE(strategy->reports().empty());
    {
        auto lease = pool.acquire();  // a successful open is not reported
        lease.discard(std::make_exception_ptr(std::runtime_error("broken")));
    }
    {
        auto lease = pool.acquire();
    }  // a success: reported before the next failure at the latest
    pool.acquire().discard(std::make_exception_ptr(std::runtime_error("broken")));
    ASSERT_TRUE(eventually([&] {
        auto reports = strategy->reports();
        return reports.size() >= 3 && reports.back() == "bad while active";
    }));
    auto reports = strategy->reports();
    reports.erase(std::unique(reports.begin(), reports.end()), reports.end());
    EXPECT_EQ(reports, (std::vector<std::string>{"bad while active", "good while active",
                                                 "bad while active"}));
    EXPECT_EQ(strategy->most_at_once, 1);
}

// Successes of the fast lane between two failures are reported before the second failure.
TEST(breaker, a_strategy_gets_successes_of_the_fast_lane) {
    auto strategy = std::make_shared<recording_breaker>();
    session_pool pool{connector{server::start()}, {.max = 2, .breaker = strategy}};
    auto broken = pool.acquire();
    {
        auto other = pool.acquire();
    }
    // Another thread may call the strategy.
    auto reports_failure = [&](std::size_t at_least) {
        return eventually([&] {
            auto reports = strategy->reports();
            return reports.size() >= at_least && reports.back() == "bad while active";
        });
    };
    broken.discard(std::make_exception_ptr(std::runtime_error("broken")));
    ASSERT_TRUE(reports_failure(1));
    std::size_t before = strategy->reports().size();
    for (int i = 0; i < 10; ++i) auto hot = pool.acquire();
    auto more = pool.acquire();
    more.discard(std::make_exception_ptr(std::runtime_error("broken")));
    ASSERT_TRUE(reports_failure(before + 2));
    auto reports = strategy->reports();
    EXPECT_EQ(reports[reports.size() - 2], "good while active");
}

TEST(breaker, a_strategy_that_throws_changes_nothing) {
    auto strategy = std::make_shared<recording_breaker>();
    strategy->throws = true;
    session_pool pool{connector{server::start()}, {.max = 2, .breaker = strategy}};
    for (int i = 0; i < 20; ++i)
        pool.acquire().discard(std::make_exception_ptr(std::runtime_error("broken")));
    EXPECT_TRUE(eventually([&] { return !strategy->reports().empty(); }));
    EXPECT_EQ(pool.stats().breaker, breaker_state::active);
    EXPECT_TRUE(pool.acquire());
}

/// Never changes the state.
class passive_breaker : public cenote::breaker {
    std::optional<breaker_move> succeeded(const breaker_report&) override { return std::nullopt; }
    std::optional<breaker_move> failed(const breaker_report&) override { return std::nullopt; }
};

TEST(breaker, recovering_never_grants_more_than_its_probes) {
    constexpr int borrowers = 1000;
    for (std::size_t probes : {1u, 3u}) {
        session_pool pool{connector{server::start()},
                          {.max = 8, .breaker = std::make_shared<passive_breaker>()}};
        pool.recover(probes);
        std::atomic<int> out{0};
        std::atomic<int> most{0};
        std::atomic<int> granted{0};
        std::atomic<int> refused{0};
        std::vector<std::thread> all;
        for (int i = 0; i < borrowers; ++i)
            all.emplace_back([&] {
                for (int round = 0; round < rounds(20); ++round) {
                    std::error_code error;
                    auto lease = pool.acquire({.timeout = 1s}, error);
                    if (!lease) {
                        refused += error == errc::unavailable;
                        continue;
                    }
                    int now = ++out;
                    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
                    }
                    std::this_thread::yield();
                    ++granted;
                    --out;
                }
            });
        for (std::thread& t : all) t.join();
        EXPECT_LE(most, static_cast<int>(probes));
        EXPECT_GT(granted, 0);
        EXPECT_GT(refused, 0);
    }
}

// A brown-out: the server accepts every connection and fails the requests.

std::exception_ptr failure() { return std::make_exception_ptr(std::runtime_error("broken")); }

TEST(breaker, uses_that_fail_open_the_circuit_although_opens_succeed) {
    auto strategy = [] {
        return std::make_shared<threshold_breaker>(
            threshold_breaker::settings{.failures = 5, .cool_down = 1h});
    };
    auto to = server::start();
    session_pool discards{connector{to}, {.breaker = strategy()}};
    for (int i = 0; i < 5; ++i) discards.acquire().discard(failure());
    EXPECT_TRUE(turns(discards, breaker_state::inactive));

    session_pool throws{connector{to}, {.breaker = strategy()}};
    for (int i = 0; i < 5; ++i)
        EXPECT_THROW(throws.with([](session&) { throw std::runtime_error("broken"); }),
                     std::runtime_error);
    EXPECT_TRUE(turns(throws, breaker_state::inactive));

    auto hooked = server::start();
    hooked->on_release = [](int) { return false; };
    session_pool rejects{support::hooked_connector{{hooked}}, {.breaker = strategy()}};
    for (int i = 0; i < 5; ++i) rejects.acquire().give_back();
    EXPECT_TRUE(turns(rejects, breaker_state::inactive));
    EXPECT_THROW((void)rejects.acquire(), cenote::unavailable_error);
}

/// Counts the reports of a strategy until it opens the circuit.
template <class Strategy>
class counted : public cenote::breaker {
public:
    explicit counted(const typename Strategy::settings& s) : strategy_(s) {}

    std::optional<breaker_move> succeeded(const breaker_report& what) override {
        return count(what.count, strategy_.succeeded(what));
    }
    std::optional<breaker_move> failed(const breaker_report& what) override {
        return count(1, strategy_.failed(what));
    }

    std::atomic<std::uint64_t> reports{0};

private:
    std::optional<breaker_move> count(std::uint64_t calls, std::optional<breaker_move> decision) {
        if (!opened_) reports += calls;
        opened_ = opened_ || decision.has_value();
        return decision;
    }

    Strategy strategy_;
    std::atomic<bool> opened_{false};
};

/// Uses a pool until its circuit opens; half of the uses fail. Returns how many were reported.
template <class Strategy>
std::uint64_t reports_until_open(const typename Strategy::settings& s, unsigned threads,
                                 unsigned seed) {
    auto strategy = std::make_shared<counted<Strategy>>(s);
    session_pool pool{connector{server::start()}, {.breaker = strategy}};
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; ++i)
        all.emplace_back([&, i] {
            std::mt19937 random(seed * 100 + i);
            for (std::error_code error; error != errc::unavailable;) {
                auto lease = pool.acquire({}, error);
                if (random() % 2 == 0) lease.discard(failure());
            }
        });
    for (std::thread& t : all) t.join();
    return strategy->reports;
}

// Of 20 uses ten fail on average, far more than a quarter. Five failures in a row come once in 62
// uses.
TEST(breaker, opens_in_a_brown_out_with_any_seed_and_thread_count) {
    for (unsigned seed = 0; seed < 100; ++seed) {
        unsigned threads = 1 + seed % 8;
        rate_breaker::settings by_rate{.rate = 0.25, .calls = 20, .window = 1h, .cool_down = 1h};
        std::uint64_t reports = reports_until_open<rate_breaker>(by_rate, threads, seed);
        EXPECT_GE(reports, 20u) << "seed " << seed;
        EXPECT_LE(reports, 100u) << "seed " << seed;
        threshold_breaker::settings in_a_row{.failures = 5, .cool_down = 1h};
        reports = reports_until_open<threshold_breaker>(in_a_row, threads, seed);
        EXPECT_GE(reports, 5u) << "seed " << seed;
        EXPECT_LE(reports, 2000u) << "seed " << seed;
    }
}

// Half-open: the server counts uses. Failed resources are opened again, and no number of successes
// closes the circuit.
TEST(breaker, at_half_open_the_server_sees_no_more_uses_than_probes) {
    constexpr int probes = 2;
    session_pool pool{
        connector{server::start()},
        {.max = 8,
         .breaker = std::make_shared<threshold_breaker>(threshold_breaker::settings{
             .failures = 1, .cool_down = 1ms, .probes = probes, .successes = 1'000'000'000})}};
    pool.acquire().discard(failure());
    // The cool-down may be over already.
    ASSERT_TRUE(eventually([&] { return pool.stats().breaker != breaker_state::active; }));
    std::atomic<int> at_server{0};
    std::atomic<int> peak{0};
    std::atomic<int> uses{0};
    std::vector<std::thread> all;
    for (unsigned i = 0; i < 8; ++i)
        all.emplace_back([&, i] {
            std::mt19937 random(i);
            while (uses < rounds(2000)) {
                std::error_code error;
                auto lease = pool.acquire({}, error);
                if (!lease) {
                    std::this_thread::yield();
                    continue;
                }
                int now = ++at_server;
                for (int seen = peak; seen < now && !peak.compare_exchange_weak(seen, now);) {
                }
                ++uses;
                std::this_thread::yield();
                --at_server;
                if (random() % 8 == 0) lease.discard(failure());
            }
        });
    for (std::thread& t : all) t.join();
    EXPECT_LE(peak, probes);
}

TEST(breaker, leaves_the_server_alone_until_the_cool_down_ends) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 4,
                       .min_size = 3,
                       .warm_up = cenote::warm_up::wait,
                       .breaker = std::make_shared<threshold_breaker>(
                           threshold_breaker::settings{.failures = 1, .cool_down = 10s})}};
    auto one = pool.acquire();
    auto two = pool.acquire();
    pool.acquire().discard(failure());
    ASSERT_TRUE(turns(pool, breaker_state::inactive));
    // Opens that began before the circuit opened continue.
    EXPECT_TRUE(eventually([&] { return pool.stats().opening == 0; }));
    int opens = to->opens;
    one.discard();
    two.discard();
    EXPECT_TRUE(eventually([&] { return pool.stats().closing == 0; }));
    time.advance(9s);
    EXPECT_EQ(pool.stats().opening, 0u);
    EXPECT_EQ(to->opens, opens);
    time.advance(1s);
    ASSERT_TRUE(eventually([&] { return pool.stats().breaker == breaker_state::recovering; }));
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 3; })) << "the minimum is refilled";
    EXPECT_EQ(pool.stats().breaker, breaker_state::recovering) << "opens are no successes";
    {
        auto probe = pool.acquire();
    }
    EXPECT_TRUE(turns(pool, breaker_state::active));
}

/// Keeps the last failure report, and counts successes and failures.
struct last_report_breaker : cenote::breaker {
    std::optional<breaker_move> succeeded(const breaker_report& what) override {
        std::lock_guard lock(mutex);
        good += what.count;
        return std::nullopt;
    }
    std::optional<breaker_move> failed(const breaker_report& what) override {
        std::lock_guard lock(mutex);
        pool = what.pool;
        when = what.at;
        error = what.error;
        ++bad;
        return std::nullopt;
    }

    std::mutex mutex;
    std::uint64_t good = 0;
    std::uint64_t bad = 0;
    std::string pool;
    std::chrono::steady_clock::time_point when{};
    std::exception_ptr error;
};

TEST(breaker, a_report_has_pool_time_count_and_error) {
    auto to = server::start();
    auto strategy = std::make_shared<last_report_breaker>();
    session_pool pool{connector{to}, {.name = "orders", .breaker = strategy}};
    for (int i = 0; i < 1000; ++i) auto used = pool.acquire();
    auto before = std::chrono::steady_clock::now();
    auto why = failure();
    pool.acquire().discard(why);
    auto failures = [&] {
        std::lock_guard lock(strategy->mutex);
        return strategy->bad;
    };
    ASSERT_TRUE(eventually([&] { return failures() == 1; }));
    {
        std::lock_guard lock(strategy->mutex);
        EXPECT_EQ(strategy->good, 1000u);
        EXPECT_EQ(strategy->pool, "orders");
        EXPECT_GE(strategy->when, before);
        EXPECT_EQ(strategy->error, why);
    }
    to->on_open = [](int) { throw support::refused_by_server("down"); };
    std::error_code ignored;
    (void)pool.acquire({.timeout = 1ms}, ignored);
    ASSERT_TRUE(eventually([&] { return failures() >= 2; }));
    std::lock_guard lock(strategy->mutex);
    EXPECT_THROW(std::rethrow_exception(strategy->error), support::refused_by_server);
}

TEST(breaker, a_strategy_serves_one_pool_at_a_time) {
    auto strategy = std::make_shared<threshold_breaker>();
    {
        session_pool first{connector{server::start()}, {.breaker = strategy}};
        EXPECT_THROW(session_pool(connector{server::start()}, {.breaker = strategy}),
                     cenote::invalid_option);
        session_pool second{connector{server::start()}};
        EXPECT_THROW(second.set_breaker(strategy), cenote::invalid_option);
        first.set_breaker(nullptr);
        second.set_breaker(strategy);
    }
    session_pool third{connector{server::start()}, {.breaker = strategy}};
    EXPECT_TRUE(third.acquire());
}

TEST(breaker, frees_its_strategy_when_the_pool_ends_while_a_lease_is_out) {
    auto strategy = std::make_shared<threshold_breaker>();
    std::optional<session_pool> first;
    first.emplace(connector{server::start()}, cenote::options{.breaker = strategy});
    auto lease = first->acquire();
    first.reset();
    session_pool second{connector{server::start()}, {.breaker = strategy}};
    EXPECT_TRUE(second.acquire());
}

TEST(breaker, accepts_its_own_strategy_again) {
    auto strategy = std::make_shared<threshold_breaker>();
    session_pool pool{connector{server::start()}, {.breaker = strategy}};
    pool.set_breaker(strategy);
    EXPECT_TRUE(pool.acquire());
}

// A lease of a recovery that ends when the circuit is active again may go onto the shelf, past the
// machine.
TEST(breaker, grants_a_lease_after_interrupted_recoveries) {
    session_pool pool{connector{server::start()}, {.max = 2}};
    {
        auto warm = pool.acquire();
    }
    for (int i = 0; i < 3; ++i) {
        pool.recover();
        auto trial = pool.acquire();
        pool.activate();
        trial.give_back();
        pool.deactivate();
    }
    pool.recover();
    EXPECT_TRUE(pool.acquire());
}

/// Returns a state on every report, also when the circuit is already in that state.
struct insistent_breaker : cenote::breaker {
    std::optional<breaker_move> succeeded(const breaker_report&) override {
        return breaker_move{.to = breaker_state::active};
    }
    std::optional<breaker_move> failed(const breaker_report&) override {
        return breaker_move{.to = breaker_state::inactive, .cool_down = 1h};
    }
};

TEST(breaker, reports_a_failure_also_after_a_decision_on_successes) {
    session_pool pool{connector{server::start()},
                      {.breaker = std::make_shared<insistent_breaker>()}};
    for (int i = 0; i < 10; ++i) auto used = pool.acquire();
    pool.acquire().discard(failure());
    EXPECT_TRUE(turns(pool, breaker_state::inactive));
}

TEST(breaker, can_get_another_strategy_at_run_time) {
    session_pool pool{connector{server::start()}};
    for (int i = 0; i < 10; ++i) pool.acquire().discard(failure());
    EXPECT_EQ(pool.stats().breaker, breaker_state::active);
    pool.set_breaker(std::make_shared<threshold_breaker>(
        threshold_breaker::settings{.failures = 2, .cool_down = 1h}));
    pool.acquire().discard(failure());
    EXPECT_EQ(pool.stats().breaker, breaker_state::active);
    pool.acquire().discard(failure());
    EXPECT_TRUE(turns(pool, breaker_state::inactive));
}

TEST(breaker, moves_under_load_leave_the_numbers_right) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 4,
                       .acquire_timeout = 1s,
                       .breaker = std::make_shared<threshold_breaker>(threshold_breaker::settings{
                           .failures = 2, .cool_down = 1ms, .probes = 2, .successes = 3})}};
    // The users end by a count, not by a flag of this thread, which may wait long for the pool's
    // lock.
    std::atomic<int> busy{4};
    std::vector<std::thread> users;
    for (int i = 0; i < 4; ++i)
        users.emplace_back([&, i] {
            for (int n = 0; n < 20 * rounds(300); ++n) {
                std::error_code error;
                auto lease = pool.acquire({}, error);
                if (!lease) std::this_thread::yield();  // lets other threads have the pool's lock
                if (lease && (n + i) % 7 == 0)
                    lease.discard(std::make_exception_ptr(std::runtime_error("broken")));
            }
            --busy;
        });
    for (int round = 0; busy > 0 || round < rounds(300); ++round) {
        switch (round % 4) {
            case 0: pool.deactivate(); break;
            case 1: pool.recover(2); break;
            default: pool.activate();
        }
        std::this_thread::yield();
    }
    for (std::thread& t : users) t.join();
    // The strategy may get the last failures only now, and then opens the circuit again.
    EXPECT_TRUE(eventually([&] {
        pool.activate();
        std::error_code error;
        return bool(pool.acquire({.timeout = plenty}, error));
    }));
    auto s = pool.stats();
    std::uint64_t refused = 0;
    for (auto n : s.refused_by_reason) refused += n;
    EXPECT_EQ(s.acquires, s.granted + refused);
    EXPECT_EQ(s.granted, s.released);
}

}  // namespace
