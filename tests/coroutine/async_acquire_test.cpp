// Leases with Boost.Asio: every token, every way to cancel, through the handler's executor.
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using support::connector;
using support::eventually;
using support::plenty;
using support::server;
using support::session;
using session_lease = cenote::lease<session>;
using session_pool = cenote::pool<session>;

namespace {

/// A pool of one, and a loop.
struct async_acquire : testing::Test {
    // The loop outlives the pool, whose threads post to it.
    asio::io_context io;
    std::shared_ptr<server> to = server::start();
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty}};

    template <class Work>
    void spawn(Work work) {
        asio::co_spawn(io, std::move(work), [](const std::exception_ptr& error) {
            if (error != nullptr) std::rethrow_exception(error);
        });
    }
};

using cancellation = asio::cancellation_type;

}  // namespace

TEST_F(async_acquire, calls_back_with_a_lease) {
    int got = 0;
    pool.async_acquire(asio::bind_executor(io, [&](error_code error, session_lease held) {
        EXPECT_FALSE(error);
        got = held->id;
    }));
    io.run();
    EXPECT_EQ(got, 1);
}

TEST_F(async_acquire, is_refused_in_time_when_its_deadline_is_between_two_others) {
    support::stopped_clock time;
    asio::io_context loop;
    session_pool one{connector{to}, {.max = 1}};
    auto held = one.acquire();
    session_lease handed_on;
    auto wait = [&](std::chrono::nanoseconds timeout) {
        one.async_acquire_for(timeout,
                              asio::bind_executor(loop, [&](error_code, session_lease got) {
                                  if (got) handed_on = std::move(got);
                              }));
    };
    wait(20ms);
    wait(plenty);
    wait(plenty);
    held.give_back();  // the first is served, and its deadline passes
    time.advance(40ms);
    error_code between;
    one.async_acquire_for(20ms, asio::bind_executor(loop, [&](error_code error, session_lease) {
                              between = error;
                              one.close();
                          }));
    time.advance(20ms);
    EXPECT_TRUE(eventually([&] { return loop.poll(), loop.stopped(); }));
    EXPECT_EQ(between, make_error_code(cenote::errc::timed_out));
}

TEST_F(async_acquire, never_calls_back_from_inside_the_call) {
    (void)pool.acquire();
    bool called = false;
    auto note = [&](error_code, session_lease) { called = true; };
    asio::post(io, [&] {
        pool.async_acquire(asio::bind_executor(io, note));
        EXPECT_FALSE(called);
    });
    io.run();
    EXPECT_TRUE(called);
}

TEST_F(async_acquire, keeps_the_loop_running_while_it_waits) {
    auto mine = pool.acquire();
    bool called = false;
    pool.async_acquire(asio::bind_executor(io, [&](error_code, session_lease) { called = true; }));
    io.poll();
    EXPECT_FALSE(io.stopped()) << "there is something to wait for";
    EXPECT_FALSE(called);
    std::jthread other([&] { mine.give_back(); });
    io.run();
    EXPECT_TRUE(called);
}

TEST_F(async_acquire, does_not_complete_on_the_releasing_thread) {
    auto mine = pool.acquire();
    bool called = false;
    pool.async_acquire(asio::bind_executor(io, [&](error_code, session_lease) { called = true; }));
    mine.give_back();
    EXPECT_FALSE(called);
    io.run();
    EXPECT_TRUE(called);
}

TEST_F(async_acquire, gives_a_coroutine_the_lease) {
    int got = 0;
    spawn([&]() -> asio::awaitable<void> {
        auto held = co_await pool.async_acquire(asio::use_awaitable);
        got = held->id;
    });
    io.run();
    EXPECT_EQ(got, 1);
}

TEST_F(async_acquire, gives_a_coroutine_what_is_ready_without_a_detour) {
    (void)pool.acquire();
    std::vector<std::string> order;
    spawn([&]() -> asio::awaitable<void> {
        asio::post(io, [&] { order.emplace_back("posted before"); });
        auto held = co_await pool.async_acquire(asio::use_awaitable);
        order.emplace_back("acquired");
    });
    io.run();
    EXPECT_EQ(order, (std::vector<std::string>{"acquired", "posted before"}));
}

TEST_F(async_acquire, throws_what_acquire_throws_in_a_coroutine) {
    auto mine = pool.acquire();
    std::string said;
    spawn([&]() -> asio::awaitable<void> {
        try {
            auto held = co_await pool.async_acquire_for(5ms, asio::use_awaitable);
        } catch (const cenote::timed_out_error& e) {
            said = e.what();
        }
    });
    io.run();
    EXPECT_NE(said.find("1 of 1 leased (async_acquire_test.cpp"), std::string::npos) << said;
}

TEST_F(async_acquire, takes_every_token) {
    auto mine = pool.acquire();
    spawn([&]() -> asio::awaitable<void> {
        auto [first, none] =
            co_await pool.async_acquire_for(1ms, asio::as_tuple(asio::use_awaitable));
        EXPECT_EQ(first, cenote::errc::timed_out);
        error_code second;
        auto held =
            co_await pool.async_acquire_for(1ms, asio::redirect_error(asio::use_awaitable, second));
        EXPECT_EQ(second, cenote::errc::timed_out);
        auto [third, nothing] =
            co_await pool.async_acquire_for(1ms, asio::as_tuple(asio::deferred));
        EXPECT_EQ(third, cenote::errc::timed_out);
        auto [fourth, late] = co_await pool.async_acquire_until(std::chrono::steady_clock::now(),
                                                                asio::as_tuple(asio::deferred));
        EXPECT_EQ(fourth, cenote::errc::timed_out);
    });
    std::future<session_lease> later = pool.async_acquire_for(1ms, asio::use_future);
    io.run();
    EXPECT_THROW((void)later.get(), boost::system::system_error);
}

TEST_F(async_acquire, takes_a_stackful_coroutine) {
    if (support::slowly) GTEST_SKIP() << "sanitizers lose track when stacks are switched";
    int got = 0;
    asio::spawn(
        io,
        [&](asio::yield_context yield) {
            auto held = pool.async_acquire(yield);
            got = held->id;
            error_code error;
            auto none = pool.async_acquire_for(1ms, yield[error]);
            EXPECT_EQ(error, cenote::errc::timed_out);
        },
        asio::detached);
    io.run();
    EXPECT_EQ(got, 1);
}

TEST_F(async_acquire, can_be_canceled_in_every_way) {
    auto mine = pool.acquire();
    for (auto how : {cancellation::terminal, cancellation::partial, cancellation::total}) {
        asio::cancellation_signal signal;
        error_code said;
        pool.async_acquire(asio::bind_cancellation_slot(
            signal.slot(), asio::bind_executor(io, [&](error_code error, session_lease held) {
                said = error;
                EXPECT_FALSE(held);
            })));
        asio::post(io, [&] { signal.emit(how); });
        io.run();
        io.restart();
        EXPECT_EQ(said, cenote::errc::canceled);
        signal.emit(how);  // after the end: without effect
    }
    EXPECT_EQ(pool.stats().waiting, 0U);
}

TEST_F(async_acquire, that_is_canceled_after_its_grant_is_granted) {
    auto mine = pool.acquire();
    asio::cancellation_signal signal;
    bool got = false;
    pool.async_acquire(asio::bind_cancellation_slot(
        signal.slot(), asio::bind_executor(io, [&](error_code error, session_lease held) {
            got = !error && held;
        })));
    mine.give_back();
    signal.emit(cancellation::total);
    io.run();
    EXPECT_TRUE(got);
}

TEST_F(async_acquire, loses_a_race_against_a_timer_on_a_strand) {
    using namespace asio::experimental::awaitable_operators;
    auto mine = pool.acquire();
    bool timer_won = false;
    auto strand = asio::make_strand(io);
    asio::co_spawn(
        strand,
        [&]() -> asio::awaitable<void> {
            asio::steady_timer timer(strand, 5ms);
            auto first = co_await (pool.async_acquire(asio::use_awaitable) ||
                                   timer.async_wait(asio::use_awaitable));
            timer_won = first.index() == 1;
        },
        asio::detached);
    io.run();
    EXPECT_TRUE(timer_won);
    EXPECT_EQ(pool.stats().waiting, 0U);
}

namespace {

/// Counts what it gives.
template <class T>
struct counting_allocator {
    using value_type = T;

    explicit counting_allocator(int& n) : given(&n) {}
    template <class U>
    explicit(false) counting_allocator(const counting_allocator<U>& other) : given(other.given) {}
    T* allocate(std::size_t n) {
        ++*given;
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* p, std::size_t n) { std::allocator<T>().deallocate(p, n); }
    bool operator==(const counting_allocator&) const = default;

    int* given;
};

}  // namespace

TEST_F(async_acquire, uses_the_handlers_allocator) {
    auto mine = pool.acquire();
    int given = 0;
    pool.async_acquire(asio::bind_allocator(
        counting_allocator<int>(given), asio::bind_executor(io, [](error_code, session_lease) {})));
    EXPECT_EQ(given, 1);
    mine.give_back();
    io.run();
    EXPECT_GE(given, 1);
}

TEST_F(async_acquire, learns_that_the_pool_is_closed_though_the_pool_is_gone) {
    session_lease mine;
    std::string said;
    {
        session_pool other{connector{to}, {.name = "orders", .max = 1}};
        mine = other.acquire();
        spawn([&]() -> asio::awaitable<void> {
            try {
                auto held = co_await other.async_acquire(asio::use_awaitable);
            } catch (const cenote::closed_error& e) {
                said = e.what();
            }
        });
        io.poll();
        ASSERT_EQ(other.stats().waiting, 1U);
    }
    io.run();
    EXPECT_NE(said.find("\"orders\" is closed"), std::string::npos) << said;
}

TEST_F(async_acquire, that_was_granted_gives_back_if_its_loop_ends_first) {
    auto mine = pool.acquire();
    {
        asio::io_context other;
        pool.async_acquire(
            asio::bind_executor(other, [](error_code, session_lease) { FAIL() << "called"; }));
        mine.give_back();
    }
    EXPECT_TRUE(pool.try_acquire());
}

TEST_F(async_acquire, without_queue_is_refused_and_says_why) {
    session_pool single{connector{to}, {.name = "orders", .max = 1, .acquire_timeout = plenty}};
    std::string said;
    spawn([&]() -> asio::awaitable<void> {
        cenote::acquire_options hasty{.queue = false};
        auto held = co_await single.async_acquire(hasty, asio::use_awaitable);
        try {
            (void)co_await single.async_acquire(hasty, asio::use_awaitable);
        } catch (const cenote::line_full_error& e) {
            said = e.what();
        }
    });
    io.run();
    EXPECT_THAT(said, testing::StartsWith("all of \"orders\" is in use, and the acquire does not"));
}

TEST_F(async_acquire, is_not_the_only_thing_to_wait_for) {
    session_pool other{connector{to}, {.max = 3, .min_size = 2, .warm_up = cenote::warm_up::none}};
    std::vector<std::string> order;
    spawn([&]() -> asio::awaitable<void> {
        co_await other.async_wait_ready(asio::use_awaitable);
        EXPECT_EQ(other.stats().idle, 2U);
        auto held = co_await other.async_acquire(asio::use_awaitable);
        std::size_t left = co_await other.async_close(5ms, asio::use_awaitable);
        EXPECT_EQ(left, 1U);
        asio::post(io, [&] { held.give_back(); });
        left = co_await other.async_close(plenty, asio::use_awaitable);
        EXPECT_EQ(left, 0U);
        auto [error] = co_await other.async_wait_ready(asio::as_tuple(asio::use_awaitable));
        EXPECT_EQ(error, cenote::errc::closed);
        order.emplace_back("done");
    });
    io.run();
    EXPECT_EQ(order.size(), 1U);
    EXPECT_EQ(other.stats().total, 0U);
}

TEST_F(async_acquire, of_a_close_can_be_canceled) {
    auto mine = pool.acquire();
    asio::cancellation_signal signal;
    error_code said;
    pool.async_close(
        plenty, asio::bind_cancellation_slot(
                    signal.slot(),
                    asio::bind_executor(io, [&](error_code error, std::size_t) { said = error; })));
    asio::post(io, [&] { signal.emit(cancellation::total); });
    io.run();
    EXPECT_EQ(said, cenote::errc::canceled);
}

TEST_F(async_acquire, of_a_close_ends_with_the_pool) {
    session_lease mine;
    std::size_t left = 0;
    {
        session_pool other{connector{to}, {.max = 1}};
        mine = other.acquire();
        other.async_close(
            plenty, asio::bind_executor(io, [&](error_code, std::size_t out) { left = out; }));
    }
    io.run();
    EXPECT_EQ(left, 1U);
}

TEST_F(async_acquire, that_was_refused_at_once_may_be_told_after_the_pool_is_gone) {
    std::string said;
    error_code code;
    {
        session_pool other{connector{to}, {.name = "orders", .max = 1}};
        other.close();
        spawn([&]() -> asio::awaitable<void> {
            try {
                auto held = co_await other.async_acquire(asio::use_awaitable);
            } catch (const cenote::closed_error& e) {
                said = e.what();
            }
        });
        io.poll_one();  // it has asked, and the answer is in the queue
        other.async_acquire(
            asio::bind_executor(io, [&](error_code error, session_lease) { code = error; }));
    }
    io.run();
    EXPECT_NE(said.find("\"orders\" is closed"), std::string::npos) << said;
    EXPECT_EQ(code, cenote::errc::closed);
}

TEST_F(async_acquire, of_a_close_may_be_canceled_after_the_pool_is_gone) {
    asio::cancellation_signal signal;
    bool called = false;
    {
        session_pool other{connector{to}, {.max = 1}};
        other.async_close(
            plenty, asio::bind_cancellation_slot(
                        signal.slot(),
                        asio::bind_executor(io, [&](error_code, std::size_t) { called = true; })));
    }
    signal.emit(cancellation::total);
    io.run();
    EXPECT_TRUE(called);
}

TEST_F(async_acquire, of_a_close_closes_when_it_is_awaited) {
    auto later = pool.async_close(plenty, asio::deferred);
    EXPECT_TRUE(pool.acquire());
    std::move(later)(asio::bind_executor(io, [](error_code, std::size_t) {}));
    std::error_code error;
    EXPECT_FALSE(pool.acquire({}, error));
    EXPECT_EQ(error, cenote::errc::closed);
    io.run();
}

/// Borrowers that hop over the threads of a loop, and some that are canceled on the way.
TEST(async_acquire_on_threads, adds_up) {
    asio::io_context io(4);
    session_pool pool{connector{server::start()}, {.max = 4, .acquire_timeout = plenty}};
    std::atomic<int> done{0};
    std::atomic<int> refused{0};
    const int each = support::rounds(400);
    auto work = [&](int number) -> asio::awaitable<void> {
        for (int i = 0; i < each; ++i) {
            bool brief = (i + number) % 7 == 0;
            auto [error, held] = co_await pool.async_acquire_for(
                brief ? 50us : std::chrono::nanoseconds{plenty}, asio::as_tuple(asio::deferred));
            if (held) {
                auto claim = held->use();
                co_await asio::post(asio::deferred);
                ++done;
            } else {
                ++refused;
            }
        }
    };
    for (int i = 0; i < 40; ++i) asio::co_spawn(io, work(i), asio::detached);
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) threads.emplace_back([&] { io.run(); });
    }
    EXPECT_EQ(done + refused, 40 * each);
    auto s = pool.stats();
    EXPECT_EQ(s.granted, static_cast<std::uint64_t>(done));
    EXPECT_EQ(support::refused(s), static_cast<std::uint64_t>(refused));
    EXPECT_EQ(support::contradiction(s), "");
}
