// The circuit breaker: its states, who moves it, and what users see of it.
#include "cenote/breaker.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using cenote::breaker_move;
using cenote::breaker_state;
using cenote::errc;
using cenote::threshold_breaker;
using support::connector;
using support::eventually;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

// The strategy alone.

TEST(threshold_breaker, opens_after_so_many_failures_in_a_row) {
    threshold_breaker b({.failures = 3, .cool_down = 7s});
    EXPECT_EQ(b.failed(breaker_state::active), std::nullopt);
    EXPECT_EQ(b.failed(breaker_state::active), std::nullopt);
    EXPECT_EQ(b.succeeded(breaker_state::active), std::nullopt);  // begins anew
    EXPECT_EQ(b.failed(breaker_state::active), std::nullopt);
    EXPECT_EQ(b.failed(breaker_state::active), std::nullopt);
    EXPECT_EQ(b.failed(breaker_state::active),
              (breaker_move{.to = breaker_state::inactive, .cool_down = 7s}));
}

TEST(threshold_breaker, recovers_after_so_many_successes) {
    threshold_breaker b({.failures = 1, .probes = 4, .successes = 2});
    EXPECT_EQ(b.cooled_down(), (breaker_move{.to = breaker_state::recovering, .probes = 4}));
    EXPECT_EQ(b.succeeded(breaker_state::recovering), std::nullopt);
    EXPECT_EQ(b.succeeded(breaker_state::recovering), breaker_move{.to = breaker_state::active});
}

TEST(threshold_breaker, opens_again_at_the_first_failure_of_a_recovery) {
    threshold_breaker b({.failures = 9, .successes = 2});
    EXPECT_EQ(b.succeeded(breaker_state::recovering), std::nullopt);
    ASSERT_TRUE(b.failed(breaker_state::recovering).has_value());
    // And what went well before does not count in the next one.
    EXPECT_EQ(b.failed(breaker_state::inactive), std::nullopt);
    EXPECT_EQ(b.succeeded(breaker_state::recovering), std::nullopt);
}

TEST(threshold_breaker, refuses_numbers_that_make_no_sense) {
    EXPECT_THROW(threshold_breaker({.failures = 0}), cenote::invalid_option);
    EXPECT_THROW(threshold_breaker({.cool_down = 0s}), cenote::invalid_option);
    EXPECT_THROW(threshold_breaker({.probes = 0}), cenote::invalid_option);
    EXPECT_THROW(threshold_breaker({.successes = 0}), cenote::invalid_option);
}

// By hand.

TEST(breaker, inactive_refuses_at_once_even_with_something_idle) {
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

TEST(breaker, inactive_refuses_those_in_line_at_once) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = 60s}};
    auto held = pool.acquire();
    std::atomic<int> unavailable{0};
    std::vector<std::thread> waiting;
    for (int i = 0; i < 4; ++i)
        waiting.emplace_back([&] {
            std::error_code error;
            auto none = pool.acquire(error);
            unavailable += error == errc::unavailable;
        });
    ASSERT_TRUE(eventually([&] { return pool.stats().waiting == 4; }));
    pool.deactivate();
    for (std::thread& t : waiting) t.join();
    EXPECT_EQ(unavailable, 4);
    held.give_back();  // works as ever
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
    EXPECT_EQ(pool.stats().breaker, breaker_state::active);
}

TEST(breaker, a_lease_discarded_for_a_cause_ends_the_recovery) {
    session_pool pool{connector{server::start()}, {.max = 4}};
    {
        auto warm = pool.acquire();
    }
    pool.recover();
    auto trial = pool.acquire();
    trial.discard(std::make_exception_ptr(std::runtime_error("gone")));
    EXPECT_EQ(pool.stats().breaker, breaker_state::inactive);
}

TEST(breaker, a_lease_discarded_without_one_says_nothing) {
    session_pool pool{connector{server::start()}, {.max = 4}};
    {
        auto warm = pool.acquire();
    }
    pool.recover();
    pool.acquire().discard();
    EXPECT_EQ(pool.stats().breaker, breaker_state::recovering);
}

TEST(breaker, an_error_says_when_to_come_again) {
    auto to = server::start();
    to->on_open = [](int) { throw support::refused_by_server("down"); };
    session_pool pool{connector{to},
                      {.breaker = std::make_shared<threshold_breaker>(
                           threshold_breaker::settings{.failures = 1, .cool_down = 1h})}};
    std::error_code ignored;
    (void)pool.acquire_for(10s, ignored);
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

// By strategy.

/// Writes down what it hears, and does what it is told.
class scripted : public cenote::breaker {
public:
    std::optional<breaker_move> succeeded(breaker_state s) override {
        return hear(std::string("good while ") + to_string(s));
    }
    std::optional<breaker_move> failed(breaker_state s) override {
        return hear(std::string("bad while ") + to_string(s));
    }
    std::optional<breaker_move> cooled_down() override { return hear("cool"); }

    std::vector<std::string> heard() const {
        std::lock_guard lock(mutex_);
        return heard_;
    }
    std::atomic<bool> throws{false};
    std::atomic<int> at_once{0};
    std::atomic<int> most_at_once{0};

private:
    std::optional<breaker_move> hear(std::string what) {
        most_at_once = std::max(most_at_once.load(), ++at_once);
        {
            std::lock_guard lock(mutex_);
            heard_.push_back(std::move(what));
        }
        --at_once;
        if (throws) throw std::runtime_error("a strategy that throws");
        return std::nullopt;
    }

    mutable std::mutex mutex_;
    std::vector<std::string> heard_;
};

TEST(breaker, a_dead_backend_opens_the_circuit_and_its_return_closes_it) {
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
    std::error_code error;
    (void)pool.acquire_for(30s, error);
    EXPECT_EQ(error, errc::unavailable);  // long before its deadline
    // While it is down, every recovery fails.
    for (int i = 0; i < 5; ++i) {
        (void)pool.acquire_for(5ms, error);
        EXPECT_TRUE(error == errc::unavailable || error == errc::timed_out);
        support::pass(10ms);
    }
    up = true;
    ASSERT_TRUE(eventually([&] { return bool(pool.acquire_for(1s, error)); }));
    // Whoever had the success to tell may still be at it.
    EXPECT_TRUE(eventually([&] { return pool.stats().breaker == breaker_state::active; }));
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

TEST(breaker, a_strategy_hears_of_what_counts_one_at_a_time) {
    auto to = server::start();
    auto strategy = std::make_shared<scripted>();
    session_pool pool{connector{to}, {.max = 2, .breaker = strategy}};
    EXPECT_TRUE(strategy->heard().empty());
    {
        auto held = pool.acquire();  // opened: no news while all is well
        held.discard(std::make_exception_ptr(std::runtime_error("broken")));
    }
    {
        auto held = pool.acquire();
    }  // opened: the first success after a failure
    pool.acquire().discard(std::make_exception_ptr(std::runtime_error("broken")));
    ASSERT_TRUE(eventually([&] {
        auto so_far = strategy->heard();
        return so_far.size() >= 3 && so_far.back() == "bad while active";
    }));
    auto heard = strategy->heard();
    heard.erase(std::unique(heard.begin(), heard.end()), heard.end());
    EXPECT_EQ(heard, (std::vector<std::string>{"bad while active", "good while active",
                                               "bad while active"}));
    EXPECT_EQ(strategy->most_at_once, 1);
}

// What went over the fast lane between two failures is heard of before the second.
TEST(breaker, a_strategy_hears_that_the_fast_lane_works) {
    auto strategy = std::make_shared<scripted>();
    session_pool pool{connector{server::start()}, {.max = 2, .breaker = strategy}};
    auto broken = pool.acquire();
    {
        auto other = pool.acquire();
    }
    broken.discard(std::make_exception_ptr(std::runtime_error("broken")));
    for (int i = 0; i < 10; ++i) auto hot = pool.acquire();
    auto more = pool.acquire();
    more.discard(std::make_exception_ptr(std::runtime_error("broken")));
    auto heard = strategy->heard();
    ASSERT_GE(heard.size(), 3u);
    EXPECT_EQ(heard.back(), "bad while active");
    EXPECT_EQ(heard[heard.size() - 2], "good while active");
}

TEST(breaker, a_strategy_that_throws_changes_nothing) {
    auto strategy = std::make_shared<scripted>();
    strategy->throws = true;
    session_pool pool{connector{server::start()}, {.max = 2, .breaker = strategy}};
    for (int i = 0; i < 20; ++i)
        pool.acquire().discard(std::make_exception_ptr(std::runtime_error("broken")));
    EXPECT_EQ(pool.stats().breaker, breaker_state::active);
    EXPECT_FALSE(strategy->heard().empty());
    EXPECT_TRUE(pool.acquire());
}

/// Always recovering: nothing that happens moves it.
class stubborn : public cenote::breaker {
    std::optional<breaker_move> succeeded(breaker_state) override { return std::nullopt; }
    std::optional<breaker_move> failed(breaker_state) override { return std::nullopt; }
};

TEST(breaker, recovering_lets_never_more_than_its_probes_in) {
    constexpr int borrowers = 1000;
    for (std::size_t probes : {1u, 3u}) {
        session_pool pool{connector{server::start()},
                          {.max = 8, .breaker = std::make_shared<stubborn>()}};
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
                    auto held = pool.acquire_for(1s, error);
                    if (!held) {
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

TEST(breaker, moves_under_load_leave_the_numbers_right) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 4,
                       .acquire_timeout = 1s,
                       .breaker = std::make_shared<threshold_breaker>(threshold_breaker::settings{
                           .failures = 2, .cool_down = 1ms, .probes = 2, .successes = 3})}};
    std::atomic<bool> stop{false};
    std::vector<std::thread> users;
    for (int i = 0; i < 4; ++i)
        users.emplace_back([&, i] {
            for (int n = 0; !stop; ++n) {
                std::error_code error;
                auto held = pool.acquire(error);
                if (held && (n + i) % 7 == 0)
                    held.discard(std::make_exception_ptr(std::runtime_error("broken")));
            }
        });
    for (int round = 0; round < rounds(300); ++round) {
        switch (round % 4) {
            case 0: pool.deactivate(); break;
            case 1: pool.recover(2); break;
            default: pool.activate();
        }
        std::this_thread::yield();
    }
    stop = true;
    for (std::thread& t : users) t.join();
    pool.activate();
    EXPECT_TRUE(pool.acquire());
    auto s = pool.stats();
    std::uint64_t refused = 0;
    for (auto n : s.refused_by_reason) refused += n;
    EXPECT_EQ(s.acquires, s.granted + refused);
    EXPECT_EQ(s.granted, s.released);
}

}  // namespace
