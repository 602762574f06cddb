// A before_acquire that is noexcept: it looks where the borrower is, or where a resource is given
// back, and not on a thread of the pool.
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <set>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/coroutine.hpp"
#include "support/async_server.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"
#include "support/task.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using cenote::retire_reason;
using support::eventually;
using support::lines_up;
using support::loop;
using support::on;
using support::plenty;
using support::server;
using support::session;
using support::task;
using session_lease = cenote::lease<session>;
using session_pool = cenote::pool<session>;
using held_session = std::optional<session_lease>;

namespace {

/// Where looks were made, and what they say.
struct lookout {
    bool look(session& s) {
        auto claim = s.use();
        std::function<bool(int)> what;
        {
            std::lock_guard lock(mutex);
            where.push_back(std::this_thread::get_id());
            what = says;
        }
        return !what || what(s.id);
    }
    void say(std::function<bool(int)> what) {
        std::lock_guard lock(mutex);
        says = std::move(what);
    }
    /// The threads of the looks since the last time.
    std::vector<std::thread::id> threads() {
        std::lock_guard lock(mutex);
        return std::exchange(where, {});
    }

    std::mutex mutex;
    std::vector<std::thread::id> where;
    std::function<bool(int)> says;
};

struct quick : support::connector {
    std::shared_ptr<lookout> looks;
    bool before_acquire(session& s) const noexcept { return looks->look(s); }
};

struct quick_on_loop : support::async_connector {
    std::shared_ptr<lookout> looks;
    bool before_acquire(session& s) const noexcept { return looks->look(s); }
};

/// A loop that a thread of its own runs.
class running_loop {
public:
    running_loop() : work_(io.get_executor()), thread_([this] { io.run(); }) {}
    ~running_loop() {
        work_.reset();
        thread_.join();
    }
    running_loop(const running_loop&) = delete;
    running_loop& operator=(const running_loop&) = delete;

    std::thread::id thread() const { return thread_.get_id(); }

    asio::io_context io;

private:
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    std::thread thread_;
};

cenote::options trusting(std::size_t max) {
    return {.max = max,
            .acquire_timeout = plenty,
            .probe_timeout = plenty,
            .reset_timeout = plenty,
            .close_timeout = plenty,
            .probe_after_idle = cenote::forever};
}

/// Runs each test with a pool with threads and with one on an executor that another thread runs.
struct quick_look : testing::TestWithParam<bool> {
    void make(const cenote::options& settings) {
        if (GetParam()) pool.emplace(elsewhere.io, quick_on_loop{{to}, looks}, settings);
        else pool.emplace(quick{{to}, looks}, settings);
    }
    ~quick_look() override { EXPECT_TRUE(!pool || pool->close(plenty) == 0); }

    /// Opens `count` sessions, and forgets the looks.
    void open(std::size_t count) {
        std::vector<session_lease> all;
        for (std::size_t i = 0; i < count; ++i) all.push_back(pool->acquire());
        all.clear();
        (void)looks->threads();
    }
    task borrow(held_session& held, std::vector<int>* order = nullptr, int number = 0) {
        held = co_await pool->co_acquire().resumed_by(on(where));
        if (order != nullptr) order->push_back(number);
    }
    task borrow_or_say(std::error_code& said, std::stop_token stop,
                       std::chrono::nanoseconds timeout = plenty) {
        auto held = co_await pool->co_acquire({.timeout = timeout, .stop = stop}, said)
                        .resumed_by(on(where));
    }
    void run_soon() {
        ASSERT_TRUE(eventually([&] { return where.ready() > 0; }));
        where.run();
    }
    /// Runs what is on this thread's own loop.
    template <class Work>
    void run(Work work) {
        asio::co_spawn(io, std::move(work), [](const std::exception_ptr& error) {
            if (error != nullptr) std::rethrow_exception(error);
        });
        io.restart();
        io.run();
    }

    const std::thread::id me = std::this_thread::get_id();
    const std::vector<std::thread::id> here{me};
    std::shared_ptr<server> to = server::start();
    std::shared_ptr<lookout> looks = std::make_shared<lookout>();
    // These outlive the pool and its threads, which post to them.
    asio::io_context io;     // the borrower's
    loop where;              // and for coroutines without a framework
    running_loop elsewhere;  // the pool's
    std::optional<session_pool> pool;
};

std::string name_of(const testing::TestParamInfo<bool>& which) {
    return which.param ? "on_an_executor" : "on_threads";
}

INSTANTIATE_TEST_SUITE_P(pools, quick_look, testing::Bool(), name_of);

}  // namespace

TEST_P(quick_look, of_a_coroutine_is_made_where_it_acquires) {
    make(trusting(1));
    open(1);
    for (int i = 0; i < 20; ++i) {  // from the shelf
        held_session held;
        task t = borrow(held);
        t.start();
        ASSERT_TRUE(t.done()) << "without a detour";
        EXPECT_EQ(looks->threads(), here);
    }
    EXPECT_EQ(to->opens, 1);
}

TEST_P(quick_look, of_an_asio_coroutine_is_made_where_it_acquires) {
    make(trusting(1));
    open(1);
    run([&]() -> asio::awaitable<void> {
        for (int i = 0; i < 20; ++i) {
            auto held = co_await pool->async_acquire(asio::use_awaitable);
            EXPECT_EQ(looks->threads(), here);
        }
    });
    EXPECT_EQ(to->opens, 1);
}

TEST_P(quick_look, of_a_callback_is_made_where_it_asks) {
    make(trusting(1));
    open(1);
    for (int i = 0; i < 20; ++i) {
        int got = 0;
        pool->async_acquire(asio::bind_executor(io, [&](error_code error, session_lease held) {
            EXPECT_FALSE(error);
            got = held->id;
        }));
        EXPECT_EQ(looks->threads(), here) << "before the callback";
        io.restart();
        io.run();
        EXPECT_EQ(got, 1);
    }
}

TEST_P(quick_look, also_works_where_there_is_no_fast_lane) {
    auto settings = trusting(1);
    settings.order = cenote::order::fifo;
    make(settings);
    open(1);
    for (int i = 0; i < 20; ++i) {
        held_session held;
        task t = borrow(held);
        t.start();
        ASSERT_TRUE(t.done());
        EXPECT_EQ(looks->threads(), here);
    }
}

TEST_P(quick_look, of_a_waiter_is_made_by_the_returning_thread) {
    make(trusting(1));
    auto mine = pool->acquire();
    (void)looks->threads();
    held_session held;
    task t = borrow(held);
    t.start();
    EXPECT_TRUE(looks->threads().empty());
    mine.give_back();
    EXPECT_EQ(looks->threads(), here);
    ASSERT_EQ(where.ready(), 1U) << "told at once";
    where.run();
    EXPECT_TRUE(t.done());
}

TEST_P(quick_look, of_a_waiting_asio_operation_is_made_by_the_returning_thread) {
    make(trusting(1));
    running_loop borrowers;
    auto mine = pool->acquire();
    (void)looks->threads();
    auto got = asio::co_spawn(
        borrowers.io,
        [&]() -> asio::awaitable<bool> {
            auto held = co_await pool->async_acquire(asio::use_awaitable);
            co_return std::this_thread::get_id() == borrowers.thread();
        },
        asio::use_future);
    ASSERT_TRUE(lines_up(*pool, 1));
    mine.give_back();
    EXPECT_EQ(looks->threads(), here);
    EXPECT_TRUE(got.get()) << "it goes on where it was";
}

TEST_P(quick_look, that_says_no_to_what_is_ready_gets_another) {
    make(trusting(3));
    open(3);
    std::set<int> no;
    looks->say([&](int id) { return no.size() == 2 || !no.insert(id).second; });
    held_session held;
    task t = borrow(held);
    t.start();
    EXPECT_EQ(looks->threads(), (std::vector{me, me, me}));
    ASSERT_TRUE(t.done()) << "without a detour";
    EXPECT_FALSE(no.contains((*held)->id));
    EXPECT_LE((*held)->id, 3);
    EXPECT_EQ(pool->stats().retired(retire_reason::rejected), 2U);
}

TEST_P(quick_look, that_says_no_to_all_that_is_ready_waits_for_an_open) {
    make(trusting(3));
    open(3);
    looks->say([](int id) { return id > 3; });
    int got = 0;
    run([&]() -> asio::awaitable<void> {
        auto held = co_await pool->async_acquire(asio::use_awaitable);
        got = held->id;
    });
    EXPECT_GT(got, 3);
    EXPECT_TRUE(eventually([&] { return to->closes == 3; }));
    EXPECT_EQ(support::contradiction(pool->stats()), "");
}

TEST_P(quick_look, that_says_no_costs_no_place_in_line) {
    make(trusting(1));
    auto mine = pool->acquire();
    looks->say([](int id) { return id != 1; });
    held_session first;
    held_session second;
    std::vector<int> order;
    task one = borrow(first, &order, 1);
    task two = borrow(second, &order, 2);
    one.start();
    two.start();
    mine.give_back();
    run_soon();
    EXPECT_EQ(order, std::vector{1});
    EXPECT_EQ((*first)->id, 2);
    first.reset();
    where.run();
    EXPECT_EQ(order, (std::vector{1, 2}));
    EXPECT_EQ((*second)->id, 2);
}

TEST_P(quick_look, that_says_no_costs_no_time) {
    auto settings = trusting(1);
    settings.backoff = {.first = 1h, .cap_waiting = 1h, .cap_idle = 1h};
    make(settings);
    auto mine = pool->acquire();
    looks->say([](int) { return false; });
    to->on_open = [](int) { throw support::refused_by_server("down"); };
    std::error_code said;
    task t = borrow_or_say(said, {}, 50ms);
    auto begin = std::chrono::steady_clock::now();
    t.start();
    mine.give_back();
    run_soon();
    EXPECT_TRUE(t.done());
    EXPECT_EQ(said, cenote::errc::timed_out);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, plenty / 2);
    EXPECT_EQ(support::contradiction(pool->stats()), "");
}

TEST_P(quick_look, that_is_under_way_when_its_borrower_is_stopped) {
    for (bool fit : {false, true}) {
        make(trusting(1));
        auto mine = pool->acquire();
        std::stop_source stop;
        looks->say([&](int) {
            std::jthread([&] { stop.request_stop(); }).join();  // the lock is free
            return fit;
        });
        std::error_code said;
        task t = borrow_or_say(said, stop.get_token());
        t.start();
        mine.give_back();
        ASSERT_EQ(where.ready(), 1U);
        where.run();
        EXPECT_TRUE(t.done());
        EXPECT_EQ(said, fit ? std::error_code() : make_error_code(cenote::errc::canceled));
        EXPECT_EQ(pool->stats().leased, 0U);
        EXPECT_EQ(pool->stats().waiting, 0U);
        EXPECT_EQ(support::contradiction(pool->stats()), "");
        looks->say(nullptr);
    }
}

TEST_P(quick_look, where_it_acquires_is_under_way_when_its_borrower_is_stopped) {
    for (bool fit : {false, true}) {
        make(trusting(1));
        open(1);
        auto pause = pool->try_acquire();  // so that nothing lies on the shelf
        pause.mark_dirty();
        pause.give_back();
        ASSERT_TRUE(eventually([&] { return pool->stats().idle == 1; }));
        std::stop_source stop;
        looks->say([&](int) {
            std::jthread([&] { stop.request_stop(); }).join();
            return fit;
        });
        std::error_code said;
        task t = borrow_or_say(said, stop.get_token());
        t.start();
        where.run();
        EXPECT_TRUE(t.done());
        EXPECT_EQ(said, fit ? std::error_code() : make_error_code(cenote::errc::canceled));
        EXPECT_EQ(support::contradiction(pool->stats()), "");
        looks->say(nullptr);
    }
}

TEST_P(quick_look, that_is_under_way_when_its_coroutine_is_destroyed) {
    for (bool fit : {false, true}) {
        make(trusting(1));
        auto mine = pool->acquire();
        held_session held;
        task t = borrow(held);
        t.start();
        support::latch looks_on;
        // Only the first look may find the resource unfit: if t.destroy() comes late, its
        // replacement is looked at, too.
        std::atomic<int> looked = 0;
        looks->say([&](int) { return looked++ > 0 || (looks_on.wait() && fit); });
        std::jthread gives_back([&] { mine.give_back(); });
        ASSERT_TRUE(eventually([&] { return looks_on.waiting() == 1; }));
        // Usually t.destroy() waits by then for the thread that is about to resume it. If not, the
        // outcome is the same.
        std::jthread opens([&] {
            EXPECT_TRUE(support::for_a_while([&] { return looks_on.waiting() == 1; }, 5ms));
            looks_on.open();
        });
        t.destroy();
        gives_back.join();
        EXPECT_EQ(where.ready(), 0U);
        EXPECT_EQ(pool->stats().leased, 0U);
        EXPECT_EQ(pool->stats().retired(retire_reason::rejected), fit ? 0U : 1U);
        EXPECT_EQ(support::contradiction(pool->stats()), "");
        opens.join();
        looks->say(nullptr);
    }
}

TEST_P(quick_look, that_is_under_way_when_the_pool_ends) {
    for (bool fit : {false, true}) {
        make(trusting(1));
        auto mine = pool->acquire();
        std::error_code said;
        task t = borrow_or_say(said, {});
        t.start();
        looks->say([&](int) {
            std::jthread([&] { pool.reset(); }).join();
            return fit;
        });
        mine.give_back();
        where.run();
        EXPECT_TRUE(t.done());
        EXPECT_EQ(said, fit ? std::error_code() : make_error_code(cenote::errc::closed));
        looks->say(nullptr);
    }
}

TEST_P(quick_look, that_says_no_may_be_what_ends_the_pool) {
    make(trusting(1));
    auto mine = pool->acquire();
    std::error_code said;
    auto wait = [&]() -> task {
        auto held = co_await pool->co_acquire({.timeout = plenty}, said);
        pool.reset();  // on the thread that resumed it, inside a release
    };
    task t = wait();
    t.start();
    looks->say([&](int) { return pool->close(), false; });
    mine.give_back();
    EXPECT_TRUE(t.done());
    EXPECT_EQ(said, cenote::errc::closed);
    looks->say(nullptr);
}

TEST_P(quick_look, is_not_made_by_a_thread_that_would_wait_for_it) {
    make(trusting(2));
    open(2);
    looks->say([](int id) { return id > 2; });
    auto held = pool->acquire();
    EXPECT_GT(held->id, 2) << "threads look for themselves, as ever";
    auto seen = looks->threads();
    EXPECT_EQ(std::set(seen.begin(), seen.end()), std::set{me});
}

namespace {

/// Runs `what` on a thread with little stack.
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

TEST_P(quick_look, that_says_no_a_thousand_times_needs_little_stack) {
    const int many = support::rounds(4000);
    make(trusting(static_cast<std::size_t>(many)));
    open(static_cast<std::size_t>(many));
    looks->say([&](int id) { return id > many; });
    with_little_stack([&] {
        held_session held;
        task t = borrow(held);
        t.start();
        run_soon();
        EXPECT_TRUE(t.done());
        EXPECT_GT((*held)->id, many);
    });
    EXPECT_EQ(pool->stats().retired(retire_reason::rejected), static_cast<std::uint64_t>(many));
}

TEST_P(quick_look, hands_over_again_and_again_on_little_stack) {
    const int times = support::rounds(100'000) / 100;
    make(trusting(1));
    long turns = 0;
    auto take_turns = [&]() -> task {
        for (int i = 0; i < times; ++i) {
            auto held = co_await pool->co_acquire();
            ++turns;
        }
    };
    with_little_stack([&] {
        auto mine = pool->acquire();
        (void)looks->threads();
        std::vector<task> all;
        for (int i = 0; i < 100; ++i) {
            all.push_back(take_turns());
            all.back().start();
        }
        mine.give_back();
    });
    EXPECT_EQ(turns, 100L * times);
    auto seen = looks->threads();
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 1U) << "on one thread";
}

/// Coroutines of both kinds and threads, unfit resources, cancellations and timeouts, all at once.
TEST_P(quick_look, adds_up_under_load) {
    make(trusting(4));
    std::atomic<unsigned> asked{0};
    std::atomic<unsigned> unfit{0};
    looks->say([&](int) { return ++asked % 13 != 0 || (++unfit, false); });
    auto busy = asio::make_work_guard(io);
    std::atomic<unsigned> done{0};
    std::atomic<unsigned> refused{0};
    const unsigned each = static_cast<unsigned>(support::rounds(400));
    auto with_asio = [&](unsigned number) -> asio::awaitable<void> {
        for (unsigned i = 0; i < each; ++i) {
            bool brief = (i + number) % 7 == 0;
            auto [error, held] = co_await pool->async_acquire_for(
                brief ? 50us : std::chrono::nanoseconds{plenty}, asio::as_tuple(asio::deferred));
            if (held) {
                auto claim = held->use();
                co_await asio::post(asio::deferred);
            }
            ++(held ? done : refused);
        }
    };
    auto resume = [&](std::coroutine_handle<> ready) noexcept {
        asio::post(io, [ready] { ready.resume(); });
    };
    auto without = [&](std::stop_token stop) -> task {
        for (unsigned i = 0; i < each; ++i) {
            std::error_code error;
            auto held = co_await pool->co_acquire({.stop = stop}, error).resumed_by(resume);
            ++(held ? done : refused);
        }
    };
    std::stop_source stop;
    std::vector<task> tasks;
    for (unsigned i = 0; i < 10; ++i) tasks.push_back(without(stop.get_token()));
    for (unsigned i = 0; i < 20; ++i) asio::co_spawn(io, with_asio(i), asio::detached);
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 2; ++i) threads.emplace_back([&] { io.run(); });
        threads.emplace_back([&] {
            for (unsigned i = 0; i < each; ++i, ++done) (void)pool->acquire();
        });
        for (task& t : tasks) t.start();
        EXPECT_TRUE(eventually([&] { return done > each; }));
        stop.request_stop();
        EXPECT_TRUE(eventually([&] { return done + refused == 31 * each; }));
        busy.reset();
    }
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_GT(unfit, 0U);
    auto s = pool->stats();
    EXPECT_EQ(s.leased, 0U);
    EXPECT_EQ(s.waiting, 0U);
    EXPECT_EQ(s.granted, done + unfit);
    EXPECT_EQ(support::contradiction(s), "");
}
