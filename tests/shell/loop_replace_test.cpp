// Another connector takes over in a pool on an executor, and in one pool per loop.
#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/per_executor.hpp"
#include "support/badge.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/sums.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::badge;
using support::badged;
using support::eventually;
using support::ledger;
using support::made;
using support::plenty;
using made_pool = cenote::pool<made>;

namespace {

/// Its verbs are coroutines that need their connector before and after they have waited.
class awaited_badge {
public:
    awaited_badge(ledger& book, int number, std::chrono::nanoseconds open_takes = 0ns)
        : badge_(std::make_shared<badge>(book, number)), open_takes_(open_takes) {}

    asio::awaitable<made> open() {
        call here(*badge_);
        if (open_takes_ == 0ns) {
            co_await asio::post(asio::use_awaitable);
        } else {
            asio::steady_timer timer(co_await asio::this_coro::executor, open_takes_);
            co_await timer.async_wait(asio::use_awaitable);
        }
        co_return made(*badge_);
    }
    asio::awaitable<bool> probe(made& m) {
        call here(*badge_);
        co_await asio::post(asio::use_awaitable);
        co_return verb(m);
    }
    asio::awaitable<void> close(made& m) {
        call here(*badge_);
        co_await asio::post(asio::use_awaitable);
        verb(m);
        ++badge_->book.closed;
    }
    bool before_release(made& m) { return verb(m); }

private:
    struct call {
        explicit call(badge& b) : of(b) { ++of.calls; }
        ~call() { --of.calls; }
        call(const call&) = delete;
        call& operator=(const call&) = delete;
        badge& of;
    };

    bool verb(made& m) {
        call here(*badge_);
        auto claim = m.use();
        if (m.by != badge_->number) ++badge_->book.foreign;
        return true;
    }

    std::shared_ptr<badge> badge_;
    std::chrono::nanoseconds open_takes_;
};

struct loop_replace : testing::Test {
    void TearDown() override {
        EXPECT_EQ(book.ended, book.begun);
        EXPECT_EQ(book.crimes(), 0);
        EXPECT_EQ(book.present(), 0);
    }

    /// Runs a coroutine and all other handlers to their end.
    template <class Work>
    static void run(asio::io_context& io, Work work) {
        io.restart();
        asio::co_spawn(io, std::move(work), [](const std::exception_ptr& error) {
            if (error != nullptr) std::rethrow_exception(error);
        });
        io.run();
    }
    /// run() with a clock that moves when no handler is ready.
    template <class Work>
    static void run(support::stopped_clock& time, asio::io_context& io, Work work) {
        asio::co_spawn(io, std::move(work), [](const std::exception_ptr& error) {
            if (error != nullptr) std::rethrow_exception(error);
        });
        auto end = std::chrono::steady_clock::now() + plenty / 2;
        while (!io.stopped() && std::chrono::steady_clock::now() < end)
            if (io.poll() == 0) time.advance(1ms);
        EXPECT_TRUE(io.stopped()) << "something keeps the loop busy";
    }

    ledger book;
};

// Boost.Asio counts the references to an executor with fences, which the thread sanitizer does not
// understand: it reports the last of two threads that drop a strand as a race.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CENOTE_TEST_ONE_THREAD_EACH 1
#endif
#endif
#ifdef CENOTE_TEST_ONE_THREAD_EACH
constexpr int threads_per_loop = 1;
#else
constexpr int threads_per_loop = 2;
#endif

/// Threads that run loops until the end of the scope.
class loop_threads {
public:
    template <class Loops>
    explicit loop_threads(Loops& loops) {
        for (asio::io_context& io : loops) {
            work_.emplace_back(io.get_executor());
            for (int i = 0; i < threads_per_loop; ++i) threads_.emplace_back([&io] { io.run(); });
        }
    }
    ~loop_threads() {
        work_.clear();
        for (std::thread& t : threads_) t.join();
    }
    loop_threads(const loop_threads&) = delete;
    loop_threads& operator=(const loop_threads&) = delete;

private:
    std::vector<asio::executor_work_guard<asio::io_context::executor_type>> work_;
    std::vector<std::thread> threads_;
};

}  // namespace

TEST_F(loop_replace, opens_with_the_new_connector_and_closes_with_the_old) {
    asio::io_context io;
    made_pool pool{io, awaited_badge{book, 1}, {.max = 2}};
    run(io, [&]() -> asio::awaitable<void> {
        auto old = co_await pool.async_acquire(asio::use_awaitable);
        pool.replace_connector(awaited_badge{book, 2});
        auto held = co_await pool.async_acquire(asio::use_awaitable);
        EXPECT_EQ(old->by, 1);
        EXPECT_EQ(held->by, 2);
        old.give_back();
        held.give_back();
        std::size_t left = co_await pool.async_close(plenty, asio::use_awaitable);
        EXPECT_EQ(left, 0U);
    });
    EXPECT_EQ(book.closed, 2);
    EXPECT_EQ(book.ended, 1);
}

TEST_F(loop_replace, refuses_a_connector_of_the_other_kind) {
    struct blocking : badged {
        using badged::badged;
        bool probe(made& m) { return verb(m); }
        bool before_release(made& m) { return verb(m); }
    };
    auto refusal = [&](made_pool& pool, auto connector) -> std::string {
        try {
            pool.replace_connector(std::move(connector));
        } catch (const std::invalid_argument& e) {
            return e.what();
        }
        return "";
    };
    asio::io_context io;
    made_pool on_loop{io, awaited_badge{book, 1}};
    made_pool on_threads{blocking{book, 2}};
    EXPECT_EQ(refusal(on_loop, blocking{book, 3}),
              "cenote: the new connector of \"pool\" blocks; a pool on an executor needs an "
              "asynchronous one");
    EXPECT_EQ(refusal(on_threads, awaited_badge{book, 3}),
              "cenote: the new connector of \"pool\" is asynchronous; a pool without an executor "
              "needs one that blocks");
    EXPECT_EQ(refusal(on_loop, awaited_badge{book, 4}), "");
    EXPECT_EQ(refusal(on_threads, blocking{book, 5}), "");
}

TEST_F(loop_replace, ends_a_connector_when_its_call_is_canceled) {
    support::stopped_clock time;
    asio::io_context io;
    made_pool pool{io, awaited_badge{book, 1, 1h}, {.max = 1, .open_timeout = 20ms}};
    run(time, io, [&]() -> asio::awaitable<void> {
        pool.async_acquire(
            asio::bind_executor(io, [](boost::system::error_code, cenote::lease<made>) {}));
        while (book.begun == 1) {
            co_await asio::post(asio::use_awaitable);
            if (pool.stats().opening == 1) pool.replace_connector(awaited_badge{book, 2});
        }
        EXPECT_EQ(book.ended, 0);
        auto held = co_await pool.async_acquire_for(plenty, asio::use_awaitable);
        EXPECT_EQ(held->by, 2);
        held.give_back();
        std::size_t left = co_await pool.async_close(plenty, asio::use_awaitable);
        EXPECT_EQ(left, 0U);
    });
    EXPECT_EQ(book.ended, 1);
}

TEST_F(loop_replace, keeps_a_connector_for_a_call_dropped_with_its_loop) {
    std::optional<asio::io_context> io(std::in_place);
    {
        made_pool pool{*io, awaited_badge{book, 1, 1h}, {.max = 1}};
        pool.async_acquire(
            asio::bind_executor(*io, [](boost::system::error_code, cenote::lease<made>) {}));
        while (pool.stats().opening == 0) io->poll_one();
        io->poll();
        pool.replace_connector(awaited_badge{book, 2});
        EXPECT_EQ(book.ended, 0);
    }
    io.reset();
    EXPECT_EQ(book.ended, 2);
}

TEST_F(loop_replace, ends_the_last_connector_with_the_pool_before_an_answer) {
    asio::io_context io, of_the_caller;
    {
        made_pool pool{io, awaited_badge{book, 1}, {.max = 1}};
        pool.async_acquire(asio::bind_executor(
            of_the_caller, [](boost::system::error_code error, cenote::lease<made>) {
                EXPECT_EQ(error, cenote::errc::closed);
            }));
    }
    EXPECT_EQ(book.ended, 1);
    EXPECT_EQ(of_the_caller.run(), 1U);
}

TEST_F(loop_replace, a_thousand_times_under_load) {
    constexpr int replacements = 1000;
    std::deque<asio::io_context> loops(1);
    std::atomic<int> settled{0}, outdated{0};
    std::atomic<bool> enough{false};
    std::array<std::atomic<int>, 6> served{};
    {
        made_pool pool{loops[0], awaited_badge{book, 0}, {.max = 3, .acquire_timeout = plenty}};
        loop_threads working(loops);
        std::vector<std::future<void>> done;
        for (auto& mine : served)
            done.push_back(asio::co_spawn(
                loops[0],
                [&]() -> asio::awaitable<void> {
                    while (!enough) {
                        int limit = settled;
                        auto held = co_await pool.async_acquire(asio::use_awaitable);
                        if (held->by < limit) ++outdated;
                        co_await asio::post(asio::use_awaitable);
                        ++mine;
                    }
                },
                asio::use_future));
        auto all_served_again = [&] {
            for (auto& count : served) {
                int before = count;
                if (!eventually([&] { return count > before + 3; })) return false;
            }
            return true;
        };
        for (int n = 1; n <= replacements; ++n) {
            pool.replace_connector(awaited_badge{book, n});
            settled = n;
            bool all = n % 20 != 0 || all_served_again();
            ASSERT_TRUE(all);
        }
        EXPECT_TRUE(all_served_again());
        enough = true;
        for (auto& d : done) d.get();
        EXPECT_EQ(support::contradiction(pool.stats()), "");
        auto closing = [&]() -> asio::awaitable<std::size_t> {
            co_return co_await pool.async_close(plenty, asio::use_awaitable);
        };
        EXPECT_EQ(asio::co_spawn(loops[0], closing, asio::use_future).get(), 0U);
    }
    EXPECT_EQ(outdated, 0);
    EXPECT_EQ(book.closed, book.opened);
}

TEST_F(loop_replace, reaches_every_shard) {
    std::deque<asio::io_context> loops(3);
    auto by = [](cenote::per_executor<made>& all, asio::io_context& loop) {
        return asio::co_spawn(
                   loop,
                   [&]() -> asio::awaitable<int> {
                       auto held = co_await all.async_acquire(asio::use_awaitable);
                       co_return held->by;
                   },
                   asio::use_future)
            .get();
    };
    {
        cenote::per_executor<made> all(loops, awaited_badge{book, 1},
                                       {.max = 3, .acquire_timeout = plenty});
        loop_threads working(loops);
        for (auto& loop : loops) EXPECT_EQ(by(all, loop), 1);
        all.replace_connector(awaited_badge{book, 2});
        for (auto& loop : loops) EXPECT_EQ(by(all, loop), 2);
        EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    }
    EXPECT_EQ(book.opened, 6);
    EXPECT_EQ(book.closed, 6);
}
