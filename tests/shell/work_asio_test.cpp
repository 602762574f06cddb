// Pools on an executor: connectors that do not block, no thread, and both kinds of borrowers.
#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/coroutine.hpp"
#include "cenote/testing.hpp"
#include "support/async_server.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/sums.hpp"
#include "support/task.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using cenote::errc;
using support::async_connector;
using support::eventually;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

std::ptrdiff_t threads_now() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

struct work_asio : testing::Test {
    asio::io_context io;
    std::optional<support::stopped_clock> time;
    std::shared_ptr<server> to = server::start();
    async_connector connect{to};
    std::optional<session_pool> pool;

    void make(const cenote::options& settings = {}) {
        time.emplace();
        make_in_real_time(settings);
    }
    /// For tests that block the thread that would move the clock.
    void make_in_real_time(const cenote::options& settings) { pool.emplace(io, connect, settings); }

    /// Runs a coroutine to its end on this thread alone. Time passes when no handler is ready, so
    /// no call takes longer than it should on a slow machine.
    template <class Work>
    void run(Work work) {
        io.restart();
        asio::co_spawn(io, std::move(work), [](const std::exception_ptr& error) {
            if (error != nullptr) std::rethrow_exception(error);
        });
        if (!time) {
            io.run();
            return;
        }
        auto end = std::chrono::steady_clock::now() + plenty / 2;
        while (!io.stopped() && std::chrono::steady_clock::now() < end)
            if (io.poll() == 0) time->advance(1ms);
        EXPECT_TRUE(io.stopped()) << "something keeps the loop busy";
    }

    asio::awaitable<void> close() {
        std::size_t left = co_await pool->async_close(plenty, asio::use_awaitable);
        EXPECT_EQ(left, 0U);
    }
};

/// Threads that run a loop until the end of the scope.
class loop_threads {
public:
    loop_threads(asio::io_context& io, int size) : io_(io), work_(io.get_executor()) {
        for (int i = 0; i < size; ++i) threads_.emplace_back([&] { io_.run(); });
    }
    ~loop_threads() {
        work_.reset();
        for (std::thread& t : threads_) t.join();
    }
    loop_threads(const loop_threads&) = delete;
    loop_threads& operator=(const loop_threads&) = delete;

private:
    asio::io_context& io_;
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    std::vector<std::thread> threads_;
};

}  // namespace

// Threads and coroutines on four loop threads, with slow and failing verbs; for the sanitizers.
// It comes first: when a test has stopped the clock, short waits take longer.
TEST_F(work_asio, serves_threads_and_coroutines_on_four_threads) {
    *connect.slow = {.open = 100us, .probe = 50us, .reset = 50us, .close = 50us};
    std::atomic<int> calls{0};
    to->on_open = [&](int) {
        if (++calls % 7 == 0) throw support::refused_by_server("not now");
    };
    to->on_reset = [&](int) { return ++calls % 5 != 0; };
    make_in_real_time({.max = 3,
                       .acquire_timeout = plenty,
                       .probe_timeout = plenty,
                       .reset_timeout = plenty,
                       .close_timeout = plenty,
                       .max_uses = 20,
                       .probe_after_idle = 0ns,
                       .backoff = {.first = 100us}});
    std::atomic<int> served{0};
    auto use = [&](cenote::lease<session> held, int i) {
        {
            auto claim = held->use();
        }
        if (i % 3 == 0) held.mark_dirty();
        if (i % 11 == 0) held.discard();
        ++served;
    };
    int each = support::rounds(100);
    {
        loop_threads loop(io, 4);
        for (int c = 0; c < 20; ++c)
            asio::co_spawn(
                io,
                [&]() -> asio::awaitable<void> {
                    for (int i = 0; i < each; ++i) {
                        auto held = co_await pool->async_acquire(asio::use_awaitable);
                        use(std::move(held), i);
                    }
                },
                asio::detached);
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&] {
                for (int i = 0; i < each; ++i) use(pool->acquire(), i);
            });
        for (std::thread& t : threads) t.join();
        EXPECT_TRUE(eventually([&] { return served == 23 * each; }));
        EXPECT_EQ(pool->close(plenty), 0U);
        EXPECT_EQ(support::contradiction(pool->stats()), "");
        pool.reset();
    }
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_LE(to->peak, 3);
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, needs_no_thread) {
    std::ptrdiff_t before = threads_now();
    make({.max = 2});
    run([&]() -> asio::awaitable<void> {
        {
            auto held = co_await pool->async_acquire(asio::use_awaitable);
            EXPECT_EQ(held->id, 1);
            EXPECT_EQ(threads_now(), before);
        }
        co_await close();
    });
    EXPECT_EQ(to->closes, 1);
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, a_closed_pool_does_not_keep_the_loop_busy) {
    make({.max = 2,
          .min_size = 2,
          .idle_timeout = 10min,
          .sweep_interval = 10min,
          .probe_after_idle = 10min});
    run([&]() -> asio::awaitable<void> {
        co_await pool->async_wait_ready(asio::use_awaitable);
        (void)co_await pool->async_acquire(asio::use_awaitable);  // over the shelf, which is swept
        co_await close();
    });  // returns
    EXPECT_EQ(to->closes, 2);
}

TEST_F(work_asio, an_idle_pool_keeps_the_loop_busy_only_if_its_options_require_it) {
    make({.max = 2, .idle_timeout = cenote::forever, .max_lifetime = cenote::forever});
    run([&]() -> asio::awaitable<void> {
        (void)co_await pool->async_acquire(asio::use_awaitable);
    });  // returns
    EXPECT_EQ(pool->stats().idle, 1U);
    EXPECT_EQ(to->closes, 0);
}

TEST_F(work_asio, a_lease_that_has_ended_does_not_keep_the_loop_busy) {
    make({.max = 2,
          .idle_timeout = cenote::forever,
          .max_lifetime = cenote::forever,
          .leak_after = 1h,
          .order = cenote::order::fifo});
    auto begun = std::chrono::steady_clock::now();
    run([&]() -> asio::awaitable<void> {
        for (int i = 0; i < 4; ++i) {
            auto held = co_await pool->async_acquire(asio::use_awaitable);
            asio::steady_timer busy(io, 20ms);
            co_await busy.async_wait(asio::use_awaitable);
        }
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 1min) << "a timer looks for its leak";
}

TEST_F(work_asio, a_pool_without_maintenance_does_not_keep_the_loop_busy) {
    make({.max = 2, .min_size = 2, .idle_timeout = 10min, .heartbeat = 1min});
    run([&]() -> asio::awaitable<void> {
        co_await pool->async_wait_ready(asio::use_awaitable);
        pool->suspend_maintenance();
        (void)co_await pool->async_acquire(asio::use_awaitable);
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        held.discard();
    });  // returns
    EXPECT_EQ(pool->stats().idle, 1U) << "nothing was refilled";
    EXPECT_EQ(to->probes, 0);
    pool->resume_maintenance();
    run([&]() -> asio::awaitable<void> {
        co_await pool->async_wait_ready(asio::use_awaitable);
        EXPECT_EQ(pool->stats().idle, 2U);
        co_await close();
    });
}

TEST_F(work_asio, waits_for_the_minimum_at_most_to_the_timeout) {
    to->on_open = [](int) { throw support::refused_by_server("the server is down"); };
    make({.max = 2, .min_size = 2});
    run([&]() -> asio::awaitable<void> {
        auto [error] = co_await pool->async_wait_ready(1s, asio::as_tuple(asio::use_awaitable));
        EXPECT_EQ(error, cenote::errc::open_failed);
        EXPECT_THROW(std::rethrow_exception(pool->open_error()), support::refused_by_server);
        to->on_open = nullptr;
        co_await pool->async_wait_ready(1min, asio::use_awaitable);
        EXPECT_EQ(pool->open_error(), nullptr);
        co_await close();
    });
}

TEST_F(work_asio, refuses_in_time_without_a_thread) {
    make({.max = 1});
    run([&]() -> asio::awaitable<void> {
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        auto begin = std::chrono::steady_clock::now();
        auto late = pool->async_acquire_for(20ms, asio::use_awaitable);
        EXPECT_THROW((void)co_await std::move(late), cenote::timed_out_error);
        EXPECT_EQ(std::chrono::steady_clock::now() - begin, 20ms);
        held.give_back();
        co_await close();
    });
    EXPECT_EQ(support::contradiction(pool->stats()), "");
}

TEST_F(work_asio, awaits_every_verb) {
    *connect.slow = {.open = 2ms, .probe = 2ms, .reset = 2ms, .close = 2ms};
    make({.max = 1, .probe_after_idle = 0ns});
    run([&]() -> asio::awaitable<void> {
        {
            auto held = co_await pool->async_acquire(asio::use_awaitable);
            held.mark_dirty();
        }
        {
            auto held = co_await pool->async_acquire(asio::use_awaitable);
            EXPECT_EQ(held->id, 1);
        }
        {
            auto held = co_await pool->async_acquire(asio::use_awaitable);
        }
        co_await close();
    });
    EXPECT_EQ(to->opens, 1);
    EXPECT_EQ(to->resets, 1);
    EXPECT_GE(to->probes, 1);
    EXPECT_EQ(to->closes, 1);
    EXPECT_EQ(to->overlaps, 0);
}

TEST_F(work_asio, a_failed_reset_closes) {
    to->on_reset = [](int) { return false; };
    make({.max = 1});
    run([&]() -> asio::awaitable<void> {
        {
            auto held = co_await pool->async_acquire(asio::use_awaitable);
            held.mark_dirty();
        }
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        EXPECT_EQ(held->id, 2);
        held.give_back();
        co_await close();
    });
    EXPECT_EQ(to->closes, 2);
}

TEST_F(work_asio, what_open_threw_reaches_the_borrower) {
    to->on_open = [](int) { throw support::refused_by_server("no room"); };
    make({.max = 1});
    run([&]() -> asio::awaitable<void> {
        std::string text;
        try {
            (void)co_await pool->async_acquire_for(30ms, asio::use_awaitable);
        } catch (const cenote::pool_error& e) {
            text = e.what();
            EXPECT_NE(e.cause(), nullptr);
        }
        EXPECT_NE(text.find("no room"), std::string::npos) << text;
        co_await close();
    });
}

TEST_F(work_asio, an_open_that_hangs_is_canceled_and_another_begun) {
    connect.slow->open = 1h;
    make({.max = 1, .open_timeout = 20ms, .backoff = {.first = 1ms}});
    run([&]() -> asio::awaitable<void> {
        asio::steady_timer later(io, 40ms);
        later.async_wait([&](error_code) { connect.slow->open = 0ns; });
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        EXPECT_EQ(held->id, 1);
        EXPECT_GE(pool->stats().abandoned, 1U);
        held.give_back();
        co_await close();
    });  // returns: the one that hung has ended
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, what_an_abandoned_open_brings_late_is_closed) {
    connect.slow->open = 60ms;
    connect.slow->stubborn = true;
    make({.max = 1, .open_timeout = 20ms, .backoff = {.first = 1s, .cap_waiting = 1s}});
    run([&]() -> asio::awaitable<void> {
        auto refused = pool->async_acquire_for(30ms, asio::use_awaitable);
        EXPECT_THROW((void)co_await std::move(refused), cenote::pool_error);
        EXPECT_EQ(to->opens, 0);
        connect.slow->open = 0ns;
        asio::steady_timer later(io, 60ms);
        co_await later.async_wait(asio::use_awaitable);
        EXPECT_EQ(to->opens, to->closes);
        EXPECT_GE(to->closes, 1);
        co_await close();
    });
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, a_probe_that_hangs_costs_its_resource) {
    make({.max = 1, .probe_timeout = 20ms, .probe_after_idle = 0ns});
    run([&]() -> asio::awaitable<void> {
        (void)co_await pool->async_acquire(asio::use_awaitable);
        asio::steady_timer later(io, 2ms);
        co_await later.async_wait(asio::use_awaitable);
        connect.slow->probe = 1h;
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        EXPECT_EQ(held->id, 2);
        held.give_back();
        co_await close();
    });
    EXPECT_EQ(to->closes, 2);
    EXPECT_EQ(pool->stats().abandoned, 1U);
}

TEST_F(work_asio, a_close_that_hangs_is_abandoned) {
    connect.slow->close = 1h;
    make({.max = 1, .close_timeout = 20ms});
    run([&]() -> asio::awaitable<void> {
        (void)co_await pool->async_acquire(asio::use_awaitable);
        co_await close();
    });
    EXPECT_EQ(to->present, 0);
    EXPECT_EQ(to->closes, 0);
}

TEST_F(work_asio, ends_on_its_own_loop_without_waiting) {
    connect.slow->open = 1h;
    make({.max = 2});
    bool refused = false;
    run([&]() -> asio::awaitable<void> {
        pool->async_acquire(
            asio::bind_executor(io, [&](error_code error, const cenote::lease<session>&) {
                refused = error == make_error_code(errc::closed);
            }));
        asio::steady_timer later(io, 5ms);
        co_await later.async_wait(asio::use_awaitable);
        pool.reset();
    });  // returns: the open was canceled
    EXPECT_TRUE(refused);
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, ends_when_no_thread_runs_its_loop) {
    make({.max = 3, .min_size = 3});
    io.poll();
    asio::co_spawn(io, pool->async_wait_ready(asio::use_awaitable), asio::detached);
    while (to->opened < 3) io.run_one();
    io.poll();
    pool.reset();
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, a_loop_that_never_ran_may_go) {
    auto own = std::make_unique<asio::io_context>();
    pool.emplace(*own, connect, cenote::options{.max = 3, .min_size = 3});
    pool.reset();
    own.reset();
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, a_loop_may_go_with_calls_under_way) {
    auto own = std::make_unique<asio::io_context>();
    connect.slow->open = 1h;
    pool.emplace(*own, connect, cenote::options{.max = 3, .min_size = 3});
    own->poll();
    pool.reset();
    own.reset();
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, leases_outlive_pool_and_loop) {
    auto own = std::make_unique<asio::io_context>();
    pool.emplace(*own, connect, cenote::options{.max = 3});
    auto held = asio::co_spawn(*own, pool->async_acquire(asio::use_awaitable), asio::use_future);
    auto ready = [&] { return held.wait_for(0s) == std::future_status::ready; };
    auto end = std::chrono::steady_clock::now() + plenty;
    while (!ready() && own->run_one_until(end) > 0) continue;
    ASSERT_TRUE(ready());
    auto lease = held.get();
    pool.reset();
    own.reset();
    EXPECT_EQ(lease->id, 1);
    lease.give_back();
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, lends_to_threads_as_well) {
    make_in_real_time({.max = 2});
    {
        loop_threads loop(io, 1);
        auto first = pool->acquire();
        auto second = pool->acquire();
        EXPECT_THROW((void)pool->acquire_for(20ms), cenote::timed_out_error);
        auto third = asio::co_spawn(io, pool->async_acquire(asio::use_awaitable), asio::use_future);
        first.give_back();
        EXPECT_EQ(third.get()->id, 1);
        second.give_back();
        EXPECT_EQ(pool->close(plenty), 0U);
    }
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, a_thread_is_refused_in_time_even_if_no_thread_runs_the_loop) {
    make_in_real_time({.max = 1});
    EXPECT_THROW((void)pool->acquire_for(20ms), cenote::timed_out_error);
}

TEST_F(work_asio, does_not_wait_for_a_thread_in_its_constructor) {
    try {
        make({.min_size = 1, .warm_up = cenote::warm_up::wait});
        FAIL();
    } catch (const cenote::invalid_option& e) {
        EXPECT_EQ(e.option(), "warm_up");
    }
}

TEST_F(work_asio, observers_and_hooks_run_on_the_loop) {
    std::set<std::thread::id> where;
    auto seen = std::make_shared<support::recorder>();
    seen->then = [&](const cenote::event&) { where.insert(std::this_thread::get_id()); };
    struct hooked : async_connector {
        std::set<std::thread::id>* where;
        bool before_acquire(session&) const {
            where->insert(std::this_thread::get_id());
            return true;
        }
    };
    pool.emplace(io, hooked{connect, &where}, cenote::options{.max = 1, .observers = {seen}});
    run([&]() -> asio::awaitable<void> {
        (void)co_await pool->async_acquire(asio::use_awaitable);
        co_await close();
    });
    EXPECT_EQ(where, std::set{std::this_thread::get_id()});
    EXPECT_EQ(seen->count(cenote::event_kind::closed_pool), 1U);
}

TEST_F(work_asio, an_observer_that_never_tires_leaves_the_loop_to_others) {
    auto seen = std::make_shared<support::recorder>(std::set{cenote::event_kind::released});
    bool tired = false;
    seen->then = [&](const cenote::event&) {
        if (!tired) (void)pool->try_acquire();  // one event more
    };
    make({.max = 1, .observers = {seen}});
    run([&]() -> asio::awaitable<void> {
        (void)co_await pool->async_acquire(asio::use_awaitable);
        for (int i = 0; i < 10; ++i) co_await asio::post(asio::use_awaitable);
        tired = true;
        co_await close();
    });
    EXPECT_GT(seen->seen().size(), 10U);
}

TEST_F(work_asio, verbs_that_do_not_block_may_return_at_once) {
    struct mixed {
        std::shared_ptr<server> to;
        asio::awaitable<session> open() { co_return to->open(); }
        void reset(session& s) const { to->reset(s); }
        void close(session& s) const { to->close(s); }
    };
    pool.emplace(io, mixed{to}, cenote::options{.max = 1});
    run([&]() -> asio::awaitable<void> {
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        held.mark_dirty();
        held.give_back();
        co_await close();
    });
    EXPECT_EQ(to->resets, 1);
    EXPECT_EQ(to->closes, 1);
}

TEST_F(work_asio, a_function_is_enough_and_a_strand_will_do) {
    auto open = [&]() -> asio::awaitable<session> { co_return to->open(); };
    cenote::pool sessions(asio::make_strand(io), open, {.max = 1});
    static_assert(std::same_as<decltype(sessions), session_pool>);
    run([&]() -> asio::awaitable<void> {
        (void)co_await sessions.async_acquire(asio::use_awaitable);
        co_await sessions.async_close(plenty, asio::use_awaitable);
    });
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, a_deadline_between_two_others_is_kept) {
    make({.max = 1});
    run([&]() -> asio::awaitable<void> {
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        cenote::lease<session> handed_on;
        auto wait = [&](std::chrono::nanoseconds timeout) {
            pool->async_acquire_for(
                timeout, asio::bind_executor(io, [&](error_code, cenote::lease<session> got) {
                    if (got) handed_on = std::move(got);
                }));
        };
        wait(20ms);
        wait(plenty);
        wait(plenty);
        held.give_back();  // the first is served, and its deadline passes
        asio::steady_timer later(io, 40ms);
        co_await later.async_wait(asio::use_awaitable);
        auto between = pool->async_acquire_for(20ms, asio::use_awaitable);
        auto begin = std::chrono::steady_clock::now();
        EXPECT_THROW((void)co_await std::move(between), cenote::timed_out_error);
        EXPECT_EQ(std::chrono::steady_clock::now() - begin, 20ms);
        pool->close();
        handed_on.give_back();
        co_await close();
    });
}

TEST_F(work_asio, what_was_opened_when_the_loop_went_is_not_lost) {
    struct quick : async_connector {
        asio::awaitable<session> open() { co_return to->open(); }
    };
    auto own = std::make_unique<asio::io_context>();
    pool.emplace(*own, quick{connect}, cenote::options{.max = 1, .min_size = 1});
    own->poll_one();  // it has been opened, and its call is about to end
    EXPECT_EQ(to->opened, 1);
    pool.reset();
    own.reset();
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, the_close_of_what_came_late_has_its_time_too) {
    connect.slow->open = 40ms;
    connect.slow->close = 1h;
    connect.slow->stubborn = true;
    make({.max = 1,
          .open_timeout = 10ms,
          .close_timeout = 10ms,
          .backoff = {.first = 1s, .cap_waiting = 1s}});
    run([&]() -> asio::awaitable<void> {
        auto refused = pool->async_acquire_for(20ms, asio::use_awaitable);
        EXPECT_THROW((void)co_await std::move(refused), cenote::pool_error);
        connect.slow->stubborn = false;
        asio::steady_timer later(io, 40ms);
        co_await later.async_wait(asio::use_awaitable);
        co_await close();
    });  // returns
    EXPECT_EQ(to->opens, 1);
    EXPECT_EQ(to->present, 0);
}

// A coroutine that a release resumes runs inside it. The loop must be told of the event as well.
TEST_F(work_asio, may_end_in_a_coroutine_that_a_release_resumes) {
    auto seen = std::make_shared<support::recorder>(std::set{cenote::event_kind::acquired});
    make({.max = 1, .observers = {seen}});
    cenote::lease<session> held;
    pool->async_acquire(asio::bind_executor(
        io, [&](error_code, cenote::lease<session> got) { held = std::move(got); }));
    while (!held) io.run_one();
    io.poll();
    auto wait = [&]() -> support::task {
        auto got = co_await pool->co_acquire_for(plenty);
        pool.reset();
    };
    support::task waiting = wait();
    waiting.start();
    io.poll();
    held.give_back();
    EXPECT_FALSE(pool.has_value());
    io.poll();
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, what_an_open_threw_may_use_the_pool_when_it_ends) {
    struct nosy : std::runtime_error {
        explicit nosy(session_pool** p) : runtime_error("nosy"), pool(p) {}
        nosy(const nosy&) = default;
        nosy& operator=(const nosy&) = delete;
        ~nosy() override {
            if (*pool != nullptr) (void)(*pool)->try_acquire();
        }
        session_pool** pool;
    };
    session_pool* there = nullptr;
    to->on_open = [&](int id) {
        if (id < 4) throw nosy(&there);
    };
    make({.max = 1, .backoff = {.first = 1ms}});
    there = &*pool;
    run([&]() -> asio::awaitable<void> {
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        EXPECT_EQ(held->id, 4);
        held.give_back();
        there = nullptr;
        co_await close();
    });
    pool.reset();
}

// A loop that is stopped, or goes away too early.

TEST_F(work_asio, goes_on_when_a_stopped_loop_runs_again) {
    connect.slow->open = 2ms;
    make_in_real_time({.max = 1});
    int got = 0;
    for (int i = 0; i < 2; ++i)
        pool->async_acquire_for(
            plenty, asio::bind_executor(io, [&](error_code error, const cenote::lease<session>&) {
                if (!error) ++got;
            }));
    io.run_one();
    io.stop();
    EXPECT_EQ(io.run(), 0U);
    EXPECT_THROW((void)pool->acquire_for(10ms), cenote::timed_out_error);
    EXPECT_EQ(got, 0);
    run([&]() -> asio::awaitable<void> {
        (void)co_await pool->async_acquire(asio::use_awaitable);
        co_await close();
    });
    EXPECT_EQ(got, 2);
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, ends_under_a_stopped_loop_and_leaves_it_nothing_to_do) {
    connect.slow->open = 1h;
    make({.max = 2, .min_size = 2});
    bool told = false;
    pool->async_acquire_for(
        plenty, asio::bind_executor(io, [&](error_code error, const cenote::lease<session>&) {
            told = error == make_error_code(errc::closed);
        }));
    io.poll();
    io.stop();
    pool.reset();
    EXPECT_FALSE(told);
    io.restart();
    io.run();  // returns: the opens were canceled
    EXPECT_TRUE(told);
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, leases_come_back_under_a_stopped_loop) {
    make({.max = 2});
    cenote::lease<session> held;
    pool->async_acquire(asio::bind_executor(
        io, [&](error_code, cenote::lease<session> got) { held = std::move(got); }));
    while (!held) io.run_one();
    io.stop();
    held.mark_dirty();
    held.give_back();
    EXPECT_EQ(to->resets, 0);
    run([&]() -> asio::awaitable<void> {
        auto again = co_await pool->async_acquire(asio::use_awaitable);
        EXPECT_EQ(again->id, 1);
        again.give_back();
        co_await close();
    });
    EXPECT_EQ(to->resets, 1);
}

TEST_F(work_asio, refuses_when_its_loop_has_gone_first) {
    auto own = std::make_unique<asio::io_context>();
    pool.emplace(*own, connect, cenote::options{.max = 2, .min_size = 1});
    while (to->opened < 1) own->run_one();
    own->poll();
    own.reset();
    (void)pool->try_acquire();  // what is idle may still be lent
    auto held = pool->acquire_for(plenty);
    EXPECT_EQ(held->id, 1);
    EXPECT_THROW((void)pool->acquire_for(plenty), cenote::open_failed_error);
    held.mark_dirty();
    held.give_back();
    pool.reset();
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, waiters_are_refused_when_the_loop_goes) {
    auto own = std::make_unique<asio::io_context>();
    connect.slow->open = 1h;
    pool.emplace(*own, connect, cenote::options{.max = 1});
    std::vector<std::error_code> told;
    auto wait = [&]() -> support::task {
        std::error_code why;
        (void)co_await pool->co_acquire({.timeout = plenty}, why);
        told.push_back(why);
    };
    support::task first = wait();
    support::task second = wait();
    first.start();
    second.start();
    own->poll();
    EXPECT_EQ(told.size(), 0U);
    own.reset();
    EXPECT_EQ(told, std::vector<std::error_code>(2, errc::open_failed));
    pool.reset();
    EXPECT_EQ(to->present, 0);
}

TEST_F(work_asio, a_waiter_gets_a_returned_lease_when_the_loop_has_gone) {
    auto own = std::make_unique<asio::io_context>();
    pool.emplace(*own, connect, cenote::options{.max = 1});
    cenote::lease<session> held;
    pool->async_acquire(asio::bind_executor(
        *own, [&](error_code, cenote::lease<session> got) { held = std::move(got); }));
    while (!held) own->run_one();
    bool served = false;
    auto wait = [&]() -> support::task {
        std::error_code why;
        auto got = co_await pool->co_acquire({.timeout = plenty}, why);
        served = static_cast<bool>(got);
    };
    support::task waiting = wait();
    waiting.start();
    own->poll();
    own.reset();
    held.give_back();
    EXPECT_TRUE(served);
    pool.reset();
    EXPECT_EQ(to->present, 0);
}

// Blocking where the pool works.

namespace {

/// What the pool said about calls that block its loop.
struct blocked_loop : work_asio {
    std::shared_ptr<support::recorder> seen =
        std::make_shared<support::recorder>(std::set{cenote::event_kind::loop_blocked});

    void make(bool refuse) {
        pool.emplace(io, connect,
                     cenote::options{.max = 1, .refuse_on_loop = refuse, .observers = {seen}});
    }
};

}  // namespace

TEST_F(blocked_loop, is_told_and_refused) {
    make(true);
    unsigned line = 0;
    run([&]() -> asio::awaitable<void> {
        line = __LINE__ + 1;
        EXPECT_THROW((void)pool->acquire(), cenote::deadlock_error);
        // What was refused has been opened meanwhile, so it would not block now.
        static_cast<void>(co_await pool->async_acquire(asio::use_awaitable));
        EXPECT_TRUE(pool->acquire());
        co_await close();
    });
    ASSERT_EQ(seen->seen().size(), 1U);
    EXPECT_EQ(seen->seen()[0].site.line(), line);
    EXPECT_EQ(pool->stats().refused(errc::deadlock), 1U);
    EXPECT_EQ(support::contradiction(pool->stats()), "");
}

TEST_F(blocked_loop, is_told_even_if_not_refused) {
    make(false);
    run([&]() -> asio::awaitable<void> {
        EXPECT_THROW((void)pool->acquire_for(5ms), cenote::timed_out_error);
        co_await close();
    });
    EXPECT_EQ(seen->seen().size(), 1U);
}

TEST_F(blocked_loop, is_not_what_a_closed_pool_or_an_empty_try_is) {
    make(true);
    run([&]() -> asio::awaitable<void> {
        EXPECT_FALSE(pool->try_acquire());
        EXPECT_THROW((void)pool->acquire_for(0ns), cenote::timed_out_error);
        co_await close();
        EXPECT_THROW((void)pool->acquire(), cenote::closed_error);
    });
    EXPECT_EQ(seen->seen().size(), 0U);
}

TEST_F(blocked_loop, neither_close_nor_wait_ready_wait) {
    make(true);
    run([&]() -> asio::awaitable<void> {
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        EXPECT_EQ(pool->close(plenty), 1U);
        EXPECT_EQ(seen->seen().size(), 1U);
        held.give_back();
        EXPECT_FALSE(pool->wait_ready(plenty));  // closed: nothing to wait for
        EXPECT_EQ(seen->seen().size(), 1U);
        co_await close();
    });
    pool.emplace(io, connect,
                 cenote::options{.min_size = 1,
                                 .warm_up = cenote::warm_up::none,
                                 .refuse_on_loop = true,
                                 .observers = {seen}});
    run([&]() -> asio::awaitable<void> {
        EXPECT_FALSE(pool->wait_ready(plenty));
        EXPECT_EQ(seen->seen().size(), 2U);
        co_await pool->async_wait_ready(asio::use_awaitable);
        EXPECT_TRUE(pool->wait_ready(0ns));
        co_await close();
    });
}

TEST_F(blocked_loop, is_not_seen_on_another_thread_or_in_a_pool_with_threads) {
    make(true);
    {
        loop_threads loop(io, 1);
        EXPECT_TRUE(pool->acquire());
        EXPECT_EQ(pool->close(plenty), 0U);
    }
    io.restart();
    session_pool threaded(support::connector{to},
                          cenote::options{.refuse_on_loop = true, .observers = {seen}});
    asio::post(io, [&] { EXPECT_TRUE(threaded.acquire()); });
    io.run();
    EXPECT_EQ(seen->seen().size(), 0U);
}

TEST_F(blocked_loop, is_known_through_strands_and_any_io_executor) {
    asio::any_io_executor any = io.get_executor();
    std::vector<asio::any_io_executor> all = {
        any, asio::make_strand(io), asio::make_strand(any),
        asio::make_strand(asio::make_strand(io)),
        asio::prefer(io.get_executor(), asio::execution::outstanding_work.tracked)};
    for (const auto& where : all) {
        pool.emplace(where, connect,
                     cenote::options{.max = 1, .refuse_on_loop = true, .observers = {seen}});
        asio::post(io, [&] {
            EXPECT_THROW((void)pool->acquire(), cenote::deadlock_error);
            pool.reset();
        });
        io.restart();
        io.poll();
    }
    EXPECT_EQ(seen->seen().size(), all.size());
}

TEST_F(work_asio, goes_by_a_manual_clock) {
    auto clock = std::make_shared<cenote::manual_clock>();
    make_in_real_time({.max = 1, .idle_timeout = 5min, .clock = clock});
    std::vector<error_code> ends;
    auto acquire = [&](std::chrono::nanoseconds timeout) {
        auto note = [&](const error_code& e, const cenote::lease<session>&) { ends.push_back(e); };
        pool->async_acquire_for(timeout, asio::bind_executor(io, note));
        io.restart();
        io.poll();
    };
    acquire(1s);
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_FALSE(ends[0]);
    auto held = pool->try_acquire();
    EXPECT_TRUE(held);
    acquire(10s);
    clock->advance(10s - 1ns);
    io.poll();
    EXPECT_EQ(ends.size(), 1U);
    clock->advance(1ns);
    io.restart();
    io.poll();
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_EQ(ends[1], errc::timed_out);
    held.give_back();
    clock->advance(5min);
    io.restart();
    // No timer of the loop is set for the pool: nothing keeps it from ending.
    io.run();
    EXPECT_EQ(pool->stats().total, 0U);
    EXPECT_EQ(to->closes, 1);
}

TEST_F(work_asio, a_blocking_call_on_its_loop_lets_manual_time_pass) {
    auto clock = std::make_shared<cenote::manual_clock>();
    make_in_real_time({.refuse_on_loop = false, .clock = clock});
    auto start = clock->now();
    std::error_code error;
    EXPECT_FALSE(pool->acquire({.timeout = 3s}, error));
    EXPECT_EQ(error, errc::timed_out);
    EXPECT_EQ(clock->now() - start, 3s);
    EXPECT_EQ(pool->close(5s), 0U);
}
