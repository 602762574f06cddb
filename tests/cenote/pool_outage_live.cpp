// Tests a pool while a real server is down in six ways: deadlines are exact, and the pool notices
// the server's return.
//
// The test moves the clock, so deadlines are exact on a slow machine, too. The benchmark `outage`
// measures what real time adds.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/at_rest.hpp"
#include "support/backend.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"

namespace {

using cenote::errc;
using support::backend;
using support::backend_connector;
using support::eventually;
using instant = std::chrono::steady_clock::time_point;
using namespace std::chrono_literals;

using connection_pool = cenote::pool<support::descriptor>;

constexpr auto timeout = 1s;
constexpr auto call_timeout = 1s;  // of the connector

struct outage_kind {
    std::string name;
    void (backend::*down)();
    bool filled = false;  // the pool has connections before the outage

    friend void PrintTo(const outage_kind& w, std::ostream* out) { *out << w.name; }
};

const std::vector<outage_kind> outages = {
    {"refused", &backend::refuse},
    {"black_hole_on_connect", &backend::vanish},
    {"black_hole_when_established", &backend::vanish, true},
    {"accepts_and_never_speaks", &backend::fall_silent},
    {"stopped", &backend::stop, true},
    {"open_errors", &backend::complain},
};

cenote::options usual() {
    return {.name = "outage", .max = 10, .acquire_timeout = timeout, .probe_after_idle = 0ns};
}

/// Opens all connections and moves the clock: a connection that was just used is not probed.
void fill(connection_pool& pool, support::stopped_clock& time) {
    std::vector<cenote::lease<support::descriptor>> all;
    for (int i = 0; i < 10; ++i) all.push_back(pool.acquire_for(support::plenty));
    all.clear();
    time.advance(1ms);
}

/// Moves the clock in steps and calls the pool after each, so that its timers are never late.
void advance(support::stopped_clock& time, connection_pool& pool, std::chrono::milliseconds by) {
    constexpr auto step = 50ms;
    for (; by > 0ms; by -= step) {
        time.advance(std::min<std::chrono::milliseconds>(by, step));
        pool.wait_ready(0ns);
    }
}

/// Threads that acquire in groups, ten milliseconds apart.
class caller_groups {
public:
    static constexpr std::size_t groups = 10;
    static constexpr std::size_t group = 50;
    static constexpr auto apart = 10ms;

    caller_groups(support::stopped_clock& time, connection_pool& pool) : time_(time), pool_(pool) {
        for (std::size_t i = 0; i < groups; ++i) {
            if (i > 0) advance(time_, pool_, apart);
            for (std::size_t k = 0; k < group; ++k) threads_.emplace_back([this] { acquire(); });
            EXPECT_TRUE(support::lines_up(pool_, group * (i + 1))) << pool_.stats().waiting;
        }
    }

    ~caller_groups() {
        while (ended_ < threads_.size()) advance(time_, pool_, apart);  // after a failure
    }
    caller_groups(const caller_groups&) = delete;
    caller_groups& operator=(const caller_groups&) = delete;

    void expect_exact_ends() {
        advance(time_, pool_, timeout - apart * (groups - 1) - 1ms);
        EXPECT_EQ(pool_.stats().waiting, group * groups) << "no call ends before its deadline";
        time_.advance(1ms);
        for (std::size_t i = 1; i <= groups; ++i) {
            EXPECT_TRUE(eventually([&] { return ended_ >= group * i; }));
            EXPECT_EQ(ended_, group * i) << "the deadline of the next group is later";
            advance(time_, pool_, apart);
        }
        threads_.clear();
        EXPECT_EQ(timed_out_, group * groups);
    }

private:
    void acquire() {
        std::error_code error;
        auto lease = pool_.acquire({}, error);
        if (error == errc::timed_out) ++timed_out_;
        ++ended_;
    }

    support::stopped_clock& time_;
    connection_pool& pool_;
    std::atomic<std::size_t> ended_{0};
    std::atomic<std::size_t> timed_out_{0};
    std::vector<std::jthread> threads_;
};

/// Whether a caller is served within a quarter of a second after the server's return. The clock
/// moves only when pool and server are idle, so the speed of the machine does not matter.
bool serves_in_time(support::stopped_clock& time, connection_pool& pool, const backend& server,
                    const std::atomic<int>& served) {
    for (int i = 0; i < 25 && served == 0; ++i) {
        advance(time, pool, 10ms);
        support::come_to_rest({server.process()});
    }
    return eventually([&] { return served > 0; });
}

class pool_outage : public ::testing::TestWithParam<outage_kind> {
protected:
    pool_outage() {
        if (GetParam().filled) fill(pool, *time);
        (server.*GetParam().down)();
    }
    // The pool's destructor waits for its calls until their deadlines.
    ~pool_outage() override { time.reset(); }

    std::optional<support::stopped_clock> time{std::in_place};
    backend server;
    connection_pool pool{backend_connector{server.port(), call_timeout}, usual()};
};

TEST_P(pool_outage, ends_every_acquire_at_its_deadline) {
    caller_groups(*time, pool).expect_exact_ends();
}

// Covers calls that began before the return and still hang.
TEST_P(pool_outage, serves_a_waiter_within_250_ms_after_its_return) {
    std::atomic<int> served{0};
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 5; ++i)
        waiting.emplace_back([&] {
            auto lease = pool.acquire_for(10min);
            ++served;
        });
    ASSERT_TRUE(support::lines_up(pool, 5));
    advance(*time, pool, 2330ms);
    support::come_to_rest({server.process()});
    EXPECT_EQ(served, 0);
    server.come_back();
    EXPECT_TRUE(serves_in_time(*time, pool, server, served));
    for (int i = 0; served < 5 && i < 1000; ++i) advance(*time, pool, 50ms);
}

INSTANTIATE_TEST_SUITE_P(six_kinds, pool_outage, ::testing::ValuesIn(outages),
                         [](const auto& each) { return each.param.name; });

// A connector without timeouts: its calls block the pool's threads until the server continues.
TEST(pool_outage_without_connector_timeouts, ends_every_acquire_at_its_deadline) {
    support::stopped_clock time;
    backend server;
    cenote::options settings = usual();
    settings.open_timeout = settings.probe_timeout = settings.close_timeout = 100ms;
    connection_pool pool{backend_connector{server.port(), 0ms}, settings};
    fill(pool, time);
    server.stop();
    caller_groups(time, pool).expect_exact_ends();
    EXPECT_GT(pool.stats().abandoned, 0U);
    server.come_back();
    std::atomic<int> served{0};
    std::jthread waiter([&] {
        auto lease = pool.acquire_for(10min);
        ++served;
    });
    EXPECT_TRUE(serves_in_time(time, pool, server, served));
}

}  // namespace
