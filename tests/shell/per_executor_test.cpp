// One pool per event loop: which loop gets which resource, and all pools together.
#include "cenote/per_executor.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/metrics.hpp"
#include "support/async_server.hpp"
#include "support/patience.hpp"
#include "support/sums.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using support::async_connector;
using support::plenty;
using support::server;
using support::session;
using sessions = cenote::per_executor<session>;

namespace {

/// Three loops, each with a thread of its own once start() was called.
struct per_executor : testing::Test {
    std::deque<asio::io_context> loops{3};
    std::shared_ptr<server> to = server::start();
    std::vector<std::jthread> threads;
    using guard = asio::executor_work_guard<asio::io_context::executor_type>;
    std::vector<guard> work;

    void start() {
        for (auto& loop : loops) work.emplace_back(loop.get_executor());
        for (auto& loop : loops) threads.emplace_back([&loop] { loop.run(); });
    }
    void stop() {
        work.clear();
        threads.clear();
    }

    /// Runs a coroutine on a loop and waits for it.
    template <class Work>
    static auto on(asio::io_context& loop, Work work) {
        return asio::co_spawn(loop, std::move(work), asio::use_future).get();
    }
};

}  // namespace

TEST_F(per_executor, a_resource_is_opened_and_lent_on_one_loop) {
    std::mutex mutex;
    std::map<int, std::set<std::thread::id>> seen;
    auto note = [&](int id) {
        std::lock_guard lock(mutex);
        seen[id].insert(std::this_thread::get_id());
    };
    struct noting : async_connector {
        std::function<void(int)> note;
        asio::awaitable<session> open() {
            auto opened = to->open();
            note(opened.id);
            co_return opened;
        }
        asio::awaitable<void> close(session& s) {
            note(s.id);
            to->close(s);
            co_return;
        }
    };
    sessions all(loops, noting{{to}, note}, {.max = 6, .acquire_timeout = plenty});
    start();
    std::vector<std::future<void>> done;
    for (int i = 0; i < 30; ++i)
        done.push_back(asio::co_spawn(
            loops[static_cast<std::size_t>(i) % 3],
            [&]() -> asio::awaitable<void> {
                for (int n = 0; n < support::rounds(100); ++n) {
                    auto held = co_await all.async_acquire(asio::use_awaitable);
                    note(held->id);
                    co_await asio::post(asio::use_awaitable);
                }
            },
            asio::use_future));
    for (auto& d : done) d.get();
    auto left = all.async_close(plenty, asio::use_future).get();
    EXPECT_EQ(left, 0U);
    stop();
    // One per loop at least; whether a loop needs its second one is a matter of time.
    EXPECT_GE(seen.size(), 3U);
    EXPECT_LE(seen.size(), 6U);
    for (const auto& [id, where] : seen) EXPECT_EQ(where.size(), 1U) << id;
    EXPECT_EQ(static_cast<std::size_t>(to->closes), seen.size());
    EXPECT_EQ(to->overlaps, 0);
}

TEST_F(per_executor, has_shards_that_metrics_take_by_their_names) {
    sessions all(loops, async_connector{to}, {.name = "db", .max = 3});
    cenote::metrics watched;
    std::vector<cenote::metrics::entry> entries;
    for (const cenote::pool_control& each : all.controls()) entries.push_back(watched.add(each));
    ASSERT_EQ(entries.size(), 3U);
    EXPECT_EQ(entries[2].name(), "db/2");
    EXPECT_NE(watched.prometheus().find("cenote_pool_max{pool=\"db/2\"} 1"), std::string::npos);
}

TEST_F(per_executor, splits_the_limits_and_sums_up_the_stats) {
    sessions all(loops, async_connector{to},
                 {.name = "db", .max = 7, .min_size = 4, .line_max = 2});
    EXPECT_EQ(all.size(), 3U);
    EXPECT_EQ(all.on(loops[0]).name(), "db/0");
    EXPECT_EQ(all.on(loops[0]).stats().max, 3U);
    EXPECT_EQ(all.on(loops[1]).stats().max, 2U);
    EXPECT_EQ(all.on(loops[2].get_executor()).stats().max, 2U);
    EXPECT_EQ(all.stats().max, 7U);
    start();
    all.async_wait_ready(asio::use_future).get();
    auto held = on(loops[1], [&]() -> asio::awaitable<cenote::lease<session>> {
        auto got = co_await all.async_acquire(asio::use_awaitable);
        co_return got;
    });
    auto seen = all.stats();
    EXPECT_EQ(seen.leased, 1U);
    EXPECT_EQ(seen.total, 4U);
    EXPECT_EQ(seen.opened, 4U);
    EXPECT_EQ(seen.open.count(), 4U);
    EXPECT_EQ(support::contradiction(seen), "");
    EXPECT_EQ(all.on(loops[1]).stats().leased, 1U);
    EXPECT_EQ(all.async_close(1ms, asio::use_future).get(), 1U);
    held.give_back();
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
}

TEST_F(per_executor, knows_a_strand_by_its_loop_and_refuses_strangers) {
    sessions all(loops, async_connector{to}, {.max = 3});
    asio::io_context elsewhere;
    EXPECT_THROW((void)all.on(elsewhere), std::invalid_argument);
    auto ignore = [](error_code, const cenote::lease<session>&) {};
    EXPECT_THROW(all.async_acquire(ignore), std::invalid_argument);
    EXPECT_THROW(all.async_acquire(asio::bind_executor(elsewhere, ignore)), std::invalid_argument);
    bool got = false;
    all.async_acquire_for(plenty, asio::bind_executor(asio::make_strand(loops[2]),
                                                      [&](error_code e, cenote::lease<session> s) {
                                                          got = !e && s;
                                                          s.give_back();
                                                          all.close();
                                                      }));
    loops[2].run();
    EXPECT_TRUE(got);
    EXPECT_EQ(all.stats().granted, 1U);
    EXPECT_EQ(all.on(loops[2]).stats().granted, 1U);
    asio::co_spawn(
        elsewhere,
        [&]() -> asio::awaitable<void> {
            auto stranger = all.async_acquire(asio::use_awaitable);
            EXPECT_THROW((void)co_await std::move(stranger), std::invalid_argument);
        },
        asio::detached);
    elsewhere.run();
}

TEST_F(per_executor, a_loop_waits_for_its_own_shard) {
    sessions all(loops, async_connector{to}, {.max = 3});
    start();
    auto held = on(loops[0], [&]() -> asio::awaitable<cenote::lease<session>> {
        auto got = co_await all.async_acquire(asio::use_awaitable);
        co_return got;
    });
    on(loops[0], [&]() -> asio::awaitable<void> {
        auto late = all.async_acquire_for(5ms, asio::use_awaitable);
        EXPECT_THROW((void)co_await std::move(late), cenote::timed_out_error);
        auto later =
            all.async_acquire_until(std::chrono::steady_clock::now() + 5ms, asio::use_awaitable);
        EXPECT_THROW((void)co_await std::move(later), cenote::timed_out_error);
    });
    on(loops[1], [&]() -> asio::awaitable<void> {
        auto got = co_await all.async_acquire_for(plenty, asio::use_awaitable);
        EXPECT_TRUE(got);
    });
    held.give_back();
    all.retire_all();
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
    EXPECT_EQ(to->present, 0);
}

TEST_F(per_executor, steals_what_is_ready_in_another_shard) {
    sessions all(loops, async_connector{to}, {.max = 3, .min_size = 3, .acquire_timeout = plenty},
                 cenote::stealing::on);
    start();
    all.async_wait_ready(asio::use_future).get();
    std::vector<cenote::lease<session>> held;
    for (int i = 0; i < 3; ++i)
        held.push_back(on(loops[0], [&]() -> asio::awaitable<cenote::lease<session>> {
            auto got = co_await all.async_acquire(asio::use_awaitable);
            co_return got;
        }));
    for (auto& loop : loops) EXPECT_EQ(all.on(loop).stats().leased, 1U);
    // Nothing is ready: it waits for its own shard, even if other shards get a resource back.
    auto last = asio::co_spawn(
        loops[0],
        [&]() -> asio::awaitable<cenote::lease<session>> {
            auto got = co_await all.async_acquire(asio::use_awaitable);
            co_return got;
        },
        asio::use_future);
    ASSERT_TRUE(support::lines_up(all, 1));
    EXPECT_EQ(all.on(loops[0]).stats().waiting, 1U);
    int first = held[0]->id;
    held.clear();
    EXPECT_EQ(last.get()->id, first);
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_EQ(to->present, 0);
}

TEST_F(per_executor, steals_from_the_fast_lane_and_for_handlers) {
    sessions all(loops, async_connector{to}, {.max = 3, .acquire_timeout = plenty},
                 cenote::stealing::on);
    start();
    auto take = [&](asio::io_context& loop) {
        return on(loop, [&]() -> asio::awaitable<cenote::lease<session>> {
            auto got = co_await all.async_acquire(asio::use_awaitable);
            co_return got;
        });
    };
    auto mine = take(loops[0]);
    int other = 0;
    {
        auto held = take(loops[1]);
        other = held->id;
    }  // onto the shelf of that shard
    std::promise<int> got;
    all.async_acquire(
        asio::bind_executor(loops[0], [&](error_code e, cenote::lease<session> stolen) {
            got.set_value(e ? 0 : stolen->id);
        }));
    EXPECT_EQ(got.get_future().get(), other);
    EXPECT_EQ(all.on(loops[2]).stats().opened, 0U);
    mine.give_back();
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
}

TEST_F(per_executor, opens_at_home_rather_than_elsewhere) {
    sessions all(loops, async_connector{to}, {.max = 6, .acquire_timeout = plenty},
                 cenote::stealing::on);
    start();
    std::vector<cenote::lease<session>> held;
    for (int i = 0; i < 2; ++i)
        held.push_back(on(loops[1], [&]() -> asio::awaitable<cenote::lease<session>> {
            auto got = co_await all.async_acquire(asio::use_awaitable);
            co_return got;
        }));
    EXPECT_EQ(all.on(loops[1]).stats().opened, 2U);
    EXPECT_EQ(all.stats().opened, 2U);
    held.clear();
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
}

TEST_F(per_executor, stolen_leases_add_up_under_load) {
    constexpr int coroutines = 24;
    std::array<std::atomic<bool>, 7> in_use{};  // by the session's number
    sessions all(loops, async_connector{to}, {.max = 6, .acquire_timeout = plenty},
                 cenote::stealing::on);
    start();
    std::vector<std::future<void>> done;
    for (int i = 0; i < coroutines; ++i)
        done.push_back(asio::co_spawn(
            loops[i % 4 == 0 ? 1 : 0],  // the third loop has no work of its own
            [&]() -> asio::awaitable<void> {
                for (int n = 0; n < support::rounds(200); ++n) {
                    auto held = co_await all.async_acquire(asio::use_awaitable);
                    auto& mine = in_use.at(static_cast<std::size_t>(held->id));
                    EXPECT_FALSE(mine.exchange(true));
                    co_await asio::post(asio::use_awaitable);
                    mine = false;
                }
            },
            asio::use_future));
    for (auto& d : done) d.get();
    auto seen = all.stats();
    EXPECT_EQ(seen.granted, static_cast<std::uint64_t>(coroutines * support::rounds(200)));
    EXPECT_EQ(support::contradiction(seen), "");
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_EQ(to->present, 0);
}

TEST_F(per_executor, lends_what_blocking_connectors_open) {
    sessions all(loops, support::connector{to}, {.max = 3, .acquire_timeout = plenty});
    start();
    on(loops[0], [&]() -> asio::awaitable<void> {
        auto got = co_await all.async_acquire(asio::use_awaitable);
        EXPECT_TRUE(got);
    });
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
}

TEST_F(per_executor, closing_all_of_them_needs_no_thread_and_can_be_canceled) {
    auto threads_now = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
    };
    sessions all(loops, async_connector{to}, {.max = 3});
    std::ptrdiff_t before = threads_now();
    cenote::lease<session> held;
    all.async_acquire(asio::bind_executor(
        loops[0], [&](error_code, cenote::lease<session> got) { held = std::move(got); }));
    while (!held) loops[0].run_one();
    asio::cancellation_signal stop;
    error_code error;
    std::size_t left = 0;
    bool ended = false;
    auto note = [&](error_code e, std::size_t n) {
        error = e;
        left = n;
        ended = true;
    };
    all.async_close(plenty,
                    asio::bind_cancellation_slot(stop.slot(), asio::bind_executor(loops[0], note)));
    stop.emit(asio::cancellation_type::terminal);
    loops[0].restart();
    while (!ended) loops[0].run_one();
    EXPECT_EQ(error, make_error_code(cenote::errc::canceled));
    held.give_back();
    ended = false;
    all.async_close(plenty, asio::bind_executor(loops[0], note));
    while (!ended)
        for (auto& loop : loops) {
            loop.restart();
            loop.poll();
        }
    EXPECT_FALSE(error);
    EXPECT_EQ(left, 0U);
    EXPECT_EQ(threads_now(), before);
}

TEST_F(per_executor, splits_another_maximum_like_the_first) {
    sessions all(loops, async_connector{to}, {.max = 3, .acquire_timeout = plenty});
    auto maxima = [&] {
        std::vector<std::uint64_t> each;
        for (auto& loop : loops) each.push_back(all.on(loop).stats().max);
        return each;
    };
    all.resize(7);
    EXPECT_EQ(maxima(), (std::vector<std::uint64_t>{3, 2, 2}));
    EXPECT_EQ(all.stats().max, 7U);
    all.resize(5);
    EXPECT_EQ(maxima(), (std::vector<std::uint64_t>{2, 2, 1}));
    all.resize(3);
    EXPECT_EQ(maxima(), (std::vector<std::uint64_t>{1, 1, 1}));
}

TEST_F(per_executor, grows_and_shrinks_on_every_loop) {
    sessions all(loops, async_connector{to}, {.max = 3, .acquire_timeout = plenty});
    start();
    auto take = [&](asio::io_context& loop) {
        return asio::co_spawn(
            loop,
            [&]() -> asio::awaitable<cenote::lease<session>> {
                auto got = co_await all.async_acquire(asio::use_awaitable);
                co_return got;
            },
            asio::use_future);
    };
    std::vector<cenote::lease<session>> held;
    std::vector<std::future<cenote::lease<session>>> waiting;
    for (auto& loop : loops) held.push_back(take(loop).get());
    for (auto& loop : loops) waiting.push_back(take(loop));
    ASSERT_TRUE(support::lines_up(all, 3));
    all.resize(6);
    for (auto& each : waiting) held.push_back(each.get());
    EXPECT_EQ(all.stats().leased, 6U);
    all.resize(3);
    EXPECT_EQ(all.stats().leased, 6U);
    held.clear();
    EXPECT_TRUE(support::eventually([&] { return all.stats().total == 3; }));
    for (auto& loop : loops) EXPECT_EQ(all.on(loop).stats().idle, 1U);
    EXPECT_EQ(all.stats().retired(cenote::retire_reason::surplus), 3U);
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
    EXPECT_EQ(to->closes, 6);
    EXPECT_EQ(to->present, 0);
}

TEST_F(per_executor, refuses_a_maximum_that_cannot_be_and_changes_no_shard) {
    sessions all(loops, async_connector{to},
                 {.max = 9, .min_size = 6, .min_idle = 4, .warm_up = cenote::warm_up::none});
    auto refused_for = [&](std::size_t max) -> std::string {
        try {
            all.resize(max);
        } catch (const cenote::invalid_option& e) {
            return e.option();
        }
        return "";
    };
    // What falls to the first loop would do for it in each of these, but for the last.
    EXPECT_EQ(refused_for(2), "max");
    EXPECT_EQ(refused_for(4), "min_size");
    EXPECT_EQ(refused_for(5), "min_size");
    EXPECT_EQ(refused_for(3'000'001), "max");
    for (auto& loop : loops) EXPECT_EQ(all.on(loop).stats().max, 3U);
    EXPECT_EQ(refused_for(6), "");
    for (auto& loop : loops) EXPECT_EQ(all.on(loop).stats().max, 2U);
}

TEST_F(per_executor, has_a_strategy_for_each_shard) {
    auto strategy = [] { return std::make_shared<cenote::threshold_breaker>(); };
    EXPECT_THROW(sessions(loops, async_connector{to}, {.max = 3, .breaker = strategy()}),
                 cenote::invalid_option);
    sessions all(loops, async_connector{to}, {.max = 3});
    int made = 0;
    all.set_breakers([&] {
        ++made;
        return strategy();
    });
    EXPECT_EQ(made, 3);
    auto shared = strategy();
    EXPECT_THROW(all.set_breakers([&] { return shared; }), cenote::invalid_option);
}

TEST_F(per_executor, pauses_and_resumes_every_shard) {
    sessions all(loops, async_connector{to}, {.max = 3, .acquire_timeout = plenty});
    start();
    auto take = [&](asio::io_context& loop) {
        return asio::co_spawn(
            loop,
            [&]() -> asio::awaitable<void> {
                auto got = co_await all.async_acquire(asio::use_awaitable);
                EXPECT_TRUE(got);
            },
            asio::use_future);
    };
    for (auto& loop : loops) take(loop).get();
    all.pause();
    std::vector<std::future<void>> waiting;
    for (auto& loop : loops) waiting.push_back(take(loop));
    ASSERT_TRUE(support::lines_up(all, 3));
    for (auto& loop : loops) EXPECT_EQ(all.on(loop).stats().waiting, 1U);
    EXPECT_EQ(all.stats().leased, 0U);
    all.resume();
    for (auto& each : waiting) each.get();
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
}

TEST_F(per_executor, lists_the_leases_of_all_shards_oldest_first) {
    sessions all(loops, async_connector{to}, {.max = 6, .acquire_timeout = plenty});
    EXPECT_TRUE(all.leases().empty());
    start();
    std::vector<cenote::lease<session>> held;
    std::vector<unsigned> lines;
    auto take = [&](asio::io_context& loop, std::source_location at) {
        lines.push_back(at.line());
        held.push_back(on(loop, [&]() -> asio::awaitable<cenote::lease<session>> {
            auto got = co_await all.async_acquire(asio::use_awaitable, at);
            co_return got;
        }));
        // The next one is younger.
        auto all_old = [&] {
            return std::ranges::all_of(all.leases(), [](const auto& l) { return l.held > 1ms; });
        };
        ASSERT_TRUE(support::eventually(all_old));
    };
    using std::source_location;
    take(loops[2], source_location::current());
    take(loops[0], source_location::current());
    take(loops[1], source_location::current());
    auto lines_listed = [&] {
        std::vector<unsigned> each;
        for (const auto& l : all.leases()) each.push_back(l.site.line());
        return each;
    };
    EXPECT_EQ(lines_listed(), lines);
    held[1].give_back();
    EXPECT_EQ(lines_listed(), (std::vector{lines[0], lines[2]}));
    held.clear();
    EXPECT_TRUE(all.leases().empty());
    EXPECT_EQ(all.async_close(plenty, asio::use_future).get(), 0U);
    stop();
}

TEST_F(per_executor, needs_loops_and_a_place_on_each) {
    std::vector<asio::any_io_executor> twice{loops[0].get_executor(), asio::make_strand(loops[0])};
    EXPECT_THROW(sessions(twice, async_connector{to}), std::invalid_argument);
    std::vector<asio::any_io_executor> none;
    EXPECT_THROW(sessions(none, async_connector{to}), std::invalid_argument);
    EXPECT_THROW(sessions(loops, async_connector{to}, {.max = 2}), cenote::invalid_option);
}
