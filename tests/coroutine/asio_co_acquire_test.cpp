// Leases awaited in coroutines of Asio, where the wait lives in the awaiting frame.
#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <pthread.h>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/request_scope.hpp"
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
using cancellation = asio::cancellation_type;

namespace {

/// A pool of one, and a loop.
struct asio_co_acquire : testing::Test {
    // The loop outlives the pool, whose threads post to it.
    asio::io_context io;
    std::shared_ptr<server> to = server::start();
    session_pool pool{connector{to}, {.name = "orders", .max = 1, .acquire_timeout = plenty}};

    template <class Work>
    void spawn(Work work) {
        asio::co_spawn(io, std::move(work), [](const std::exception_ptr& error) {
            if (error != nullptr) std::rethrow_exception(error);
        });
    }
    template <class Work>
    void run(Work work) {
        spawn(std::move(work));
        io.restart();
        io.run();
    }
};

/// Why `wait` got nothing.
template <class Error, class Wait>
asio::awaitable<std::string> refusal(Wait wait) {
    try {
        session_lease held = co_await wait();
    } catch (const Error& e) {
        co_return e.what();
    }
    co_return "";
}

void with_little_stack(std::function<void()> what) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 * 1024);
    pthread_t thread{};
    auto call = [](void* f) -> void* {
        return (*static_cast<std::function<void()>*>(f))(), nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, call, &what), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
}

}  // namespace

TEST_F(asio_co_acquire, gives_a_lease) {
    int got = 0;
    session_lease kept;
    run([&]() -> asio::awaitable<void> {
        auto held = co_await pool.co_acquire();
        static_assert(std::derived_from<decltype(held), session_lease>);
        got = held->id;
        held.give_back();
        session_lease other = co_await pool.co_acquire();
        other = session_lease();
        kept = co_await pool.co_acquire_for(plenty);
        EXPECT_FALSE(held);
    });
    EXPECT_EQ(got, 1);
    EXPECT_TRUE(kept);
    EXPECT_EQ(pool.stats().granted, 3U);
}

TEST_F(asio_co_acquire, takes_what_is_ready_without_a_detour) {
    (void)pool.acquire();
    std::vector<std::string> order;
    run([&]() -> asio::awaitable<void> {
        asio::post(io, [&] { order.emplace_back("posted before"); });
        auto held = co_await pool.co_acquire();
        order.emplace_back("acquired");
    });
    EXPECT_EQ(order, (std::vector<std::string>{"acquired", "posted before"}));
}

TEST_F(asio_co_acquire, does_not_go_on_on_the_releasing_thread) {
    auto mine = pool.acquire();
    bool got = false;
    spawn([&]() -> asio::awaitable<void> { got = static_cast<bool>(co_await pool.co_acquire()); });
    io.poll();
    ASSERT_EQ(pool.stats().waiting, 1U);
    EXPECT_FALSE(io.stopped()) << "there is something to wait for";
    mine.give_back();
    EXPECT_FALSE(got);
    io.run();
    EXPECT_TRUE(got);
}

TEST_F(asio_co_acquire, throws_what_acquire_throws) {
    auto mine = pool.acquire();
    std::vector<std::string> said;
    run([&]() -> asio::awaitable<void> {
        said.push_back(
            co_await refusal<cenote::timed_out_error>([&] { return pool.co_acquire_for(5ms); }));
        said.push_back(
            co_await refusal<cenote::timed_out_error>([&] { return pool.co_acquire_until({}); }));
        cenote::acquire_options hasty{.queue = false};
        said.push_back(
            co_await refusal<cenote::line_full_error>([&] { return pool.co_acquire(hasty); }));
        pool.close();
        said.push_back(co_await refusal<cenote::closed_error>([&] { return pool.co_acquire(); }));
    });
    ASSERT_EQ(said.size(), 4U);
    EXPECT_NE(said[0].find("1 of 1 leased (asio_co_acquire_test.cpp"), std::string::npos)
        << said[0];
    EXPECT_NE(said[1].find("1 of 1 leased"), std::string::npos) << said[1];
    EXPECT_THAT(said[2], testing::StartsWith("all of \"orders\" is in use, and the acquire does"));
    EXPECT_NE(said[3].find("\"orders\" is closed"), std::string::npos) << said[3];
}

TEST_F(asio_co_acquire, reports_a_code_if_wanted) {
    auto mine = pool.acquire();
    run([&]() -> asio::awaitable<void> {
        std::error_code error;
        auto none = co_await pool.co_acquire({.timeout = 1ms}, error);
        EXPECT_FALSE(none);
        EXPECT_EQ(error, cenote::errc::timed_out);
        mine.give_back();
        auto held = co_await pool.co_acquire({.timeout = 1ms}, error);
        EXPECT_TRUE(held);
        EXPECT_FALSE(error);
    });
}

TEST_F(asio_co_acquire, lets_the_loop_go_on_before_a_refused_one_tries_again) {
    auto mine = pool.acquire();
    bool stop = false;
    int tried = 0;
    run([&]() -> asio::awaitable<void> {
        asio::post(io, [&] { stop = true; });
        while (!stop) {
            std::error_code error;
            auto none = co_await pool.co_acquire(
                {.deadline = std::chrono::steady_clock::time_point{}}, error);
            ++tried;
        }
    });
    EXPECT_LE(tried, 3);
}

// Cancellation, at every point.

TEST_F(asio_co_acquire, can_be_canceled_in_every_way) {
    auto mine = pool.acquire();
    for (auto how : {cancellation::terminal, cancellation::partial, cancellation::total}) {
        asio::cancellation_signal signal;
        std::string said;
        auto work = [&]() -> asio::awaitable<void> {
            co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
            said = co_await refusal<cenote::canceled_error>([&] { return pool.co_acquire(); });
        };
        asio::co_spawn(io, work, asio::bind_cancellation_slot(signal.slot(), asio::detached));
        asio::post(io, [&] { signal.emit(how); });
        io.restart();
        io.run();
        EXPECT_NE(said, "");
    }
    EXPECT_EQ(pool.stats().waiting, 0U);
    EXPECT_EQ(pool.stats().refused(cenote::errc::canceled), 3U);
}

TEST_F(asio_co_acquire, that_is_canceled_before_it_waits_does_not_ask) {
    asio::cancellation_signal signal;
    bool thrown = false;
    auto work = [&]() -> asio::awaitable<void> {
        co_await asio::post(asio::use_awaitable);
        signal.emit(cancellation::terminal);
        try {
            auto held = co_await pool.co_acquire();
        } catch (const boost::system::system_error& e) {
            thrown = e.code() == asio::error::operation_aborted;
        }
    };
    asio::co_spawn(io, work, asio::bind_cancellation_slot(signal.slot(), asio::detached));
    io.run();
    EXPECT_TRUE(thrown);
    EXPECT_EQ(pool.stats().acquires, 0U);
}

TEST_F(asio_co_acquire, that_is_canceled_after_its_grant_is_granted) {
    auto mine = pool.acquire();
    asio::cancellation_signal signal;
    bool got = false;
    auto work = [&]() -> asio::awaitable<void> {
        got = static_cast<bool>(co_await pool.co_acquire());
    };
    asio::co_spawn(io, work, asio::bind_cancellation_slot(signal.slot(), asio::detached));
    io.poll();
    mine.give_back();
    signal.emit(cancellation::terminal);
    io.run();
    EXPECT_TRUE(got);
}

TEST_F(asio_co_acquire, is_stopped_by_a_token_of_the_standard_too) {
    auto mine = pool.acquire();
    std::stop_source stop;
    std::error_code said;
    spawn([&]() -> asio::awaitable<void> {
        std::stop_token token = stop.get_token();
        auto none = co_await pool.co_acquire({.stop = token}, said);
        EXPECT_FALSE(none);
        auto again = co_await pool.co_acquire({.stop = token}, said);
    });
    io.poll();
    std::jthread other([&] { stop.request_stop(); });
    io.run();
    EXPECT_EQ(said, cenote::errc::canceled);
    EXPECT_EQ(pool.stats().refused(cenote::errc::canceled), 2U);
}

TEST_F(asio_co_acquire, loses_a_race_against_a_timer_on_a_strand) {
    using namespace asio::experimental::awaitable_operators;
    auto mine = pool.acquire();
    bool timer_won = false;
    auto strand = asio::make_strand(io);
    auto acquire = [&]() -> asio::awaitable<session_lease> {
        co_return co_await pool.co_acquire();
    };
    auto race = [&]() -> asio::awaitable<void> {
        asio::steady_timer timer(strand, 5ms);
        auto first = co_await (acquire() || timer.async_wait(asio::use_awaitable));
        timer_won = first.index() == 1;
    };
    asio::co_spawn(strand, race, asio::detached);
    io.run();
    EXPECT_TRUE(timer_won);
    EXPECT_EQ(pool.stats().waiting, 0U);
}

// The end of one of the three while it waits.

TEST_F(asio_co_acquire, learns_that_the_pool_is_closed_though_the_pool_is_gone) {
    session_lease mine;
    std::string said;
    {
        session_pool other{connector{to}, {.name = "invoices", .max = 1}};
        mine = other.acquire();
        spawn([&]() -> asio::awaitable<void> {
            said = co_await refusal<cenote::closed_error>([&] { return other.co_acquire(); });
        });
        io.poll();
        ASSERT_EQ(other.stats().waiting, 1U);
    }
    io.run();
    EXPECT_NE(said.find("\"invoices\" is closed"), std::string::npos) << said;
}

TEST_F(asio_co_acquire, that_was_granted_or_refused_ends_with_its_loop) {
    for (bool granted : {false, true}) {
        session_pool other{connector{to}, {.max = 1}};
        auto mine = other.acquire();
        auto alive = std::make_shared<int>();
        {
            asio::io_context loop;
            auto wait = [](session_pool& from, std::shared_ptr<int>) -> asio::awaitable<void> {
                auto held = co_await from.co_acquire();
                ADD_FAILURE() << "resumed";
            };
            asio::co_spawn(loop, wait(other, alive), asio::detached);
            loop.poll();
            ASSERT_EQ(other.stats().waiting, 1U);
            if (granted) mine.give_back();
            else other.close();
        }
        EXPECT_EQ(alive.use_count(), 1) << "its frame is gone";
        mine.give_back();
        EXPECT_TRUE(eventually([&] { return other.stats().leased == 0; }));
        EXPECT_EQ(static_cast<bool>(other.try_acquire()), granted);
    }
}

TEST_F(asio_co_acquire, that_was_never_awaited_asks_nothing) {
    {
        [[maybe_unused]] auto never = pool.co_acquire();
    }
    run([&]() -> asio::awaitable<void> {
        std::stop_token never;
        auto first = pool.co_acquire({.stop = never});
        auto second = std::move(first);
        auto held = co_await std::move(second);
        EXPECT_TRUE(held);
    });
    EXPECT_EQ(pool.stats().acquires, 1U);
}

// Where it goes on.

TEST_F(asio_co_acquire, goes_on_on_its_executor_of_any_type) {
    auto mine = pool.acquire();
    asio::thread_pool threads(2);
    auto other = asio::co_spawn(
        threads,
        [&]() -> asio::awaitable<bool> {
            auto held = co_await pool.co_acquire();
            co_return threads.get_executor().running_in_this_thread();
        },
        asio::use_future);
    ASSERT_TRUE(support::lines_up(pool, 1));
    auto strand = asio::make_strand(io);
    bool in_strand = false;
    asio::co_spawn(
        strand,
        [&]() -> asio::awaitable<void> {
            auto held = co_await pool.co_acquire();
            in_strand = strand.running_in_this_thread();
        },
        asio::detached);
    io.poll();
    using own = asio::io_context::executor_type;
    bool typed = false;
    auto of_type = [](session_pool& from, bool& got) -> asio::awaitable<void, own> {
        auto held = co_await from.co_acquire();
        got = static_cast<bool>(held);
    };
    asio::co_spawn(io.get_executor(), of_type(pool, typed), asio::detached);
    io.poll();
    ASSERT_TRUE(support::lines_up(pool, 3));
    mine.give_back();
    EXPECT_TRUE(other.get());
    io.run();
    EXPECT_TRUE(in_strand);
    EXPECT_TRUE(typed);
}

TEST_F(asio_co_acquire, goes_on_on_its_executor_after_a_look_elsewhere) {
    auto me = std::this_thread::get_id();
    to->on_acquire = [&](int) { return std::this_thread::get_id() != me; };
    session_pool looked_at{support::hooked_connector{to}, {.max = 1}};
    for (int i = 0; i < 3; ++i) {
        run([&]() -> asio::awaitable<void> {
            auto held = co_await looked_at.co_acquire();
            EXPECT_EQ(std::this_thread::get_id(), me);
        });
    }
    to->on_acquire = std::function<bool(int)>();
    EXPECT_EQ(looked_at.stats().granted, 3U);
}

// What is ready, again and again.

TEST_F(asio_co_acquire, takes_what_is_ready_a_million_times_on_little_stack) {
    const int times = support::rounds(1'000'000);
    for (auto order : {cenote::order::lifo, cenote::order::fifo}) {
        session_pool ready{connector{to}, {.max = 2, .order = order}};
        long got = 0;
        auto in_one_place = [&]() -> asio::awaitable<void> {
            for (int i = 0; i < times; ++i) got += (co_await ready.co_acquire())->id > 0 ? 1 : 0;
        };
        auto in_two_places = [&]() -> asio::awaitable<void> {
            for (int i = 0; i < times / 4; ++i) {
                auto one = co_await ready.co_acquire();
                auto two = co_await ready.co_acquire();
                got += 2;
            }
        };
        auto called = [&]() -> asio::awaitable<session_lease> {
            co_return co_await ready.co_acquire();
        };
        auto in_a_call = [&]() -> asio::awaitable<void> {
            for (int i = 0; i < times / 4; ++i) {
                auto held = co_await called();
                held = session_lease();
                auto other = co_await ready.async_acquire(asio::use_awaitable);
                got += 2;
            }
        };
        with_little_stack([&] {
            run(in_one_place);
            run(in_two_places);
            run(in_a_call);
        });
        EXPECT_EQ(got, 2L * times);
    }
}

// A coroutine that was resumed from within its own suspension runs others, which acquire, too.
TEST_F(asio_co_acquire, delays_no_coroutine_that_runs_within_another) {
    session_pool ready{connector{to}, {.max = 3, .min_size = 3, .warm_up = cenote::warm_up::wait}};
    int done = 0;
    auto acquires = [&]() -> asio::awaitable<void> {
        for (int i = 0; i < 100; ++i) (void)co_await ready.co_acquire();
        ++done;
    };
    run([&]() -> asio::awaitable<void> {
        for (int i = 0; i < 100; ++i) {
            auto held = co_await ready.co_acquire();
            asio::co_spawn(io, acquires(), asio::detached);
            asio::io_context another;
            asio::co_spawn(another, acquires(), asio::detached);
            another.run();
            while (done < 2 * (i + 1)) io.poll_one();
        }
    });
    EXPECT_EQ(done, 200);
}

TEST_F(asio_co_acquire, passes_on_what_a_coroutine_throws_when_it_goes_on) {
    (void)pool.acquire();
    auto throws = [&]() -> asio::awaitable<void> {
        auto held = co_await pool.co_acquire();
        throw std::logic_error("of the coroutine's own");
    };
    spawn(throws);
    EXPECT_THROW(io.run(), std::logic_error);
    EXPECT_TRUE(pool.try_acquire());
    run([&]() -> asio::awaitable<void> {  // and nothing is left of it on this thread
        for (int i = 0; i < 50; ++i) (void)co_await pool.co_acquire();
    });
}

/// Borrowers that hop over the threads of a loop; some are too late, some are canceled.
TEST(asio_co_acquire_on_threads, adds_up) {
    asio::io_context io(4);
    session_pool pool{connector{server::start()}, {.max = 4, .acquire_timeout = plenty}};
    std::atomic<int> done{0};
    std::atomic<int> refused{0};
    std::stop_source stop;
    const int each = support::rounds(400);
    auto work = [&](int number) -> asio::awaitable<void> {
        std::stop_token token;
        if (number < 3) token = stop.get_token();
        for (int i = 0; i < each; ++i) {
            bool brief = (i + number) % 7 == 0;
            std::error_code error;
            std::chrono::nanoseconds timeout = brief ? 50us : std::chrono::nanoseconds{plenty};
            auto held = co_await pool.co_acquire({.timeout = timeout, .stop = token}, error);
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
        EXPECT_TRUE(eventually([&] { return done > 10 * each; }));
        stop.request_stop();
    }
    EXPECT_EQ(done + refused, 40 * each);
    auto s = pool.stats();
    EXPECT_EQ(s.granted, static_cast<std::uint64_t>(done));
    EXPECT_EQ(support::refused(s), static_cast<std::uint64_t>(refused));
    EXPECT_EQ(support::contradiction(s), "");
}
