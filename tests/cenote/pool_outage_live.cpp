// A real server that is down in six ways, and real time: deadlines hold, and its return is noticed.
//
// Time is measured against a thread that does nothing but sleep until the same moments: what a
// busy machine takes from that one is not the pool's fault.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <ostream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/backend.hpp"
#include "support/patience.hpp"

namespace {

using cenote::errc;
using support::backend;
using support::backend_connector;
using clock_type = std::chrono::steady_clock;
using instant = clock_type::time_point;
using duration = std::chrono::nanoseconds;
using namespace std::chrono_literals;

using connection_pool = cenote::pool<support::descriptor>;

constexpr duration timeout = 1s;
constexpr auto patience = 1s;  // the connector's

struct way {
    std::string name;
    void (backend::*down)();
    bool filled = false;  // the pool has connections when it happens

    friend void PrintTo(const way& w, std::ostream* out) { *out << w.name; }
};

const std::vector<way> ways = {
    {"refused", &backend::refuse},
    {"black_hole_on_connect", &backend::vanish},
    {"black_hole_when_established", &backend::vanish, true},
    {"accepts_and_never_speaks", &backend::fall_silent},
    {"stopped", &backend::stop, true},
    {"open_errors", &backend::complain},
};

/// Sleeps until one moment after the other, and notes how late it was each time.
class control {
public:
    control(instant first, duration apart, int count)
        : thread_([this, first, apart, count] {
              for (int i = 0; i < count && !enough_; ++i) {
                  std::this_thread::sleep_until(first + i * apart);
                  late_.push_back(clock_type::now() - (first + i * apart));
              }
          }) {}
    /// Waits until it has slept enough.
    const std::vector<duration>& late() {
        if (thread_.joinable()) thread_.join();
        return late_;
    }
    duration worst() {
        enough_ = true;
        const auto& all = late();
        return all.empty() ? duration{} : *std::ranges::max_element(all);
    }

private:
    std::atomic<bool> enough_{false};
    std::vector<duration> late_;
    std::jthread thread_;
};

cenote::options usual() {
    return {.name = "outage", .max = 10, .acquire_timeout = timeout, .probe_after_idle = 0ns};
}

void fill(connection_pool& pool) {
    std::vector<cenote::lease<support::descriptor>> all;
    for (int i = 0; i < 10; ++i) all.push_back(pool.acquire_for(support::plenty));
}

struct end {
    instant began;
    instant ended;
    std::error_code error;
};

/// Five hundred threads, each of which comes a little later than the one before.
struct crowd {
    static constexpr int size = 500;
    static constexpr duration apart = 2ms;

    std::vector<end> ends{size};
    std::vector<duration> control_late;

    explicit crowd(connection_pool& pool) {
        instant first = clock_type::now() + 200ms;
        control sleeper(first + timeout, apart, size);
        std::vector<std::jthread> threads;
        for (int i = 0; i < size; ++i)
            threads.emplace_back(
                [&pool, &e = ends[static_cast<std::size_t>(i)], at = first + i * apart] {
                    std::this_thread::sleep_until(at);
                    e.began = clock_type::now();
                    auto lease = pool.acquire(e.error);
                    e.ended = clock_type::now();
                });
        threads.clear();
        control_late = sleeper.late();
    }

    /// How late the sleeper was around this moment of the crowd's end, at worst.
    duration excuse(std::size_t i) const {
        std::size_t from = i < 25 ? 0 : i - 25;
        std::size_t until = std::min(i + 25, control_late.size());
        duration worst{};
        for (std::size_t k = from; k < until; ++k) worst = std::max(worst, control_late[k]);
        return worst;
    }
};

void expect_on_time(const crowd& all, std::size_t i) {
    const end& e = all.ends[i];
    EXPECT_EQ(e.error, errc::timed_out);
    EXPECT_GE(e.ended - e.began, timeout);
    EXPECT_LE(e.ended - e.began, timeout + 50ms + all.excuse(i));
}

class pool_outage : public ::testing::TestWithParam<way> {
protected:
    backend server;

    void let_down() { (server.*GetParam().down)(); }

    crowd suffer() {
        connection_pool pool{backend_connector{server.port(), patience}, usual()};
        if (GetParam().filled) fill(pool);
        let_down();
        return crowd(pool);
    }
    /// How long the first one in line waits when the server is back; the second value: what of it
    /// is the machine's fault.
    std::pair<duration, duration> wait_for_return(duration outage) {
        connection_pool pool{backend_connector{server.port(), patience}, usual()};
        if (GetParam().filled) fill(pool);
        let_down();
        std::atomic<instant> first{instant::max()};
        std::vector<std::jthread> waiting;
        for (int i = 0; i < 5; ++i)
            waiting.emplace_back([&] {
                auto lease = pool.acquire_for(support::plenty);
                instant now = clock_type::now();
                for (instant seen = first; now < seen && !first.compare_exchange_weak(seen, now);) {
                }
            });
        support::pass(outage);
        EXPECT_EQ(first.load(), instant::max());
        instant back = clock_type::now();
        control sleeper(back, 5ms, 10'000);
        server.come_back();
        waiting.clear();
        return {first.load() - back, sleeper.worst()};
    }
};

TEST_P(pool_outage, ends_every_acquire_within_50_ms_after_its_deadline) {
    crowd all = suffer();
    for (std::size_t i = 0; i < crowd::size; ++i) expect_on_time(all, i);
}

// Also where calls go on hanging that began before it was back.
TEST_P(pool_outage, serves_somebody_within_250_ms_after_its_return) {
    for (int round = 0; round < 3; ++round) {
        auto [took, excuse] = wait_for_return(2300ms + round * 70ms);
        EXPECT_LE(took, 250ms + excuse);
    }
}

INSTANTIATE_TEST_SUITE_P(six_ways, pool_outage, ::testing::ValuesIn(ways),
                         [](const auto& each) { return each.param.name; });

// A careless connector: its calls hang until the server goes on, and so do the pool's threads.
TEST(pool_outage_of_a_careless_connector, costs_nobody_its_deadline) {
    backend server;
    cenote::options settings = usual();
    settings.open_timeout = settings.probe_timeout = settings.close_timeout = 100ms;
    connection_pool pool{backend_connector{server.port(), 0ms}, settings};
    fill(pool);
    server.stop();
    crowd all(pool);
    for (std::size_t i = 0; i < crowd::size; ++i) expect_on_time(all, i);
    EXPECT_GT(pool.stats().abandoned, 0U);
    instant back = clock_type::now();
    control sleeper(back, 5ms, 10'000);
    server.come_back();
    auto lease = pool.acquire_for(support::plenty);
    duration took = clock_type::now() - back;
    EXPECT_LE(took, 250ms + sleeper.worst());
}

}  // namespace
