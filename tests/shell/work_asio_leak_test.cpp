// Leases that are held for long in a pool on an executor: its timer finds them, and there is none
// when nothing can be found.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using cenote::forever;
using support::plenty;
using support::recorder;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;
using enum cenote::event_kind;

namespace {

/// Cannot probe: then nothing idle needs to be looked at from time to time.
struct plain_connector {
    std::shared_ptr<server> to;

    asio::awaitable<session> open() { co_return to->open(); }
};

struct work_asio_leak : testing::Test {
    support::stopped_clock time;
    asio::io_context io;
    std::shared_ptr<server> to = server::start();
    std::shared_ptr<recorder> watch = std::make_shared<recorder>(std::set{leak_suspected});
    std::optional<session_pool> pool;

    /// A pool without any timer of another kind for what is idle or leased.
    void make(std::chrono::nanoseconds leak_after) {
        pool.emplace(io, plain_connector{to},
                     cenote::options{.max = 1,
                                     .idle_timeout = forever,
                                     .max_lifetime = forever,
                                     .sweep_interval = 10ms,
                                     .leak_after = leak_after,
                                     .observers = {watch}});
    }

    cenote::lease<session> acquire(const cenote::acquire_options& how = {}) {
        io.restart();
        auto work = [&]() -> asio::awaitable<cenote::lease<session>> {
            co_return co_await pool->async_acquire(how, asio::use_awaitable);
        };
        auto held = asio::co_spawn(io, work(), asio::use_future);
        while (held.wait_for(0s) != std::future_status::ready) io.run_one();
        return held.get();
    }

    /// A lease that comes from the fast lane.
    cenote::lease<session> acquire_hot() {
        for (int i = 0; i < 20; ++i) (void)acquire();
        return acquire();
    }

    /// Runs the loop until `holds`, or until it has no more work. Time passes meanwhile, but not
    /// more than `limit`.
    template <class Condition>
    bool run_until(Condition holds, std::chrono::nanoseconds limit = plenty) {
        io.restart();
        auto end = std::chrono::steady_clock::now() + limit;
        while (!holds() && !io.stopped() && std::chrono::steady_clock::now() < end)
            if (io.poll() == 0) time.advance(1ms);
        return holds();
    }

    /// Whether the loop runs out of work: no timer is set.
    bool comes_to_rest(std::chrono::nanoseconds limit = plenty) {
        return run_until([&] { return io.stopped(); }, limit);
    }
};

}  // namespace

TEST_F(work_asio_leak, is_reported_once_and_then_at_doubling_intervals) {
    make(20ms);
    auto held = acquire({.task = "loop"});
    EXPECT_TRUE(run_until([&] { return watch->count(leak_suspected) == 3; }));
    auto seen = watch->seen();
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_EQ(seen[0].took, 20ms);
    EXPECT_EQ(seen[1].took, 40ms);
    EXPECT_EQ(seen[2].took, 80ms);
    EXPECT_STREQ(seen[0].task, "loop");
    EXPECT_EQ(pool->stats().leaks, 1U);
}

TEST_F(work_asio_leak, is_found_on_the_fast_lane) {
    make(30ms);
    auto held = acquire_hot();
    EXPECT_TRUE(run_until([&] { return watch->count(leak_suspected) == 2; }));
}

TEST_F(work_asio_leak, has_a_timer_while_a_lease_is_out) {
    make(1h);
    auto held = acquire();
    EXPECT_FALSE(comes_to_rest(10s));
    held.give_back();
    EXPECT_TRUE(comes_to_rest());
}

TEST_F(work_asio_leak, has_a_timer_while_a_lease_from_the_fast_lane_is_out) {
    make(1h);
    auto held = acquire_hot();
    EXPECT_FALSE(comes_to_rest(10s));
    held.give_back();
    EXPECT_TRUE(comes_to_rest());
}

TEST_F(work_asio_leak, has_no_timer_in_a_closed_pool_without_leases) {
    make(1h);
    auto held = acquire_hot();
    pool->close();
    EXPECT_FALSE(comes_to_rest(10s));
    held.give_back();
    EXPECT_TRUE(comes_to_rest());
}

TEST_F(work_asio_leak, has_no_timer_if_nothing_is_a_leak) {
    make(forever);
    auto held = acquire();
    EXPECT_TRUE(comes_to_rest());
    held.give_back();
    auto hot = acquire_hot();
    EXPECT_TRUE(comes_to_rest()) << "after the sweeps";
}

TEST_F(work_asio_leak, has_no_timer_for_a_lease_that_is_no_leak) {
    make(1h);
    auto held = acquire({.leak_after = forever});
    EXPECT_TRUE(comes_to_rest());
}

TEST_F(work_asio_leak, costs_short_leases_nothing) {
    // Each goes through the keeper, and each sets the time of the next look.
    pool.emplace(io, plain_connector{to},
                 cenote::options{.max = 1, .leak_after = 1min, .order = cenote::order::fifo});
    (void)acquire();
    io.restart();
    io.poll();
    std::size_t turns = 0;
    for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(pool->try_acquire());
        io.restart();
        turns += io.poll();
    }
    EXPECT_EQ(turns, 0U) << "the timer that is set will do";
}
