// Tests connector calls: on which threads they run, when their timeouts begin, and calls that hang.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::latch;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

std::vector<cenote::lease<session>> take(session_pool& pool, int count) {
    std::vector<cenote::lease<session>> all;
    for (int i = 0; i < count; ++i) all.push_back(pool.acquire());
    return all;
}

}  // namespace

// Each call waits for the others. An idle thread that is not woken looks for work by itself, but
// not within four seconds. This test comes first: after a test has stopped the clock, threads look
// for work more often.
TEST(pool_calls, wake_as_many_threads_as_there_are_calls) {
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 4, .acquire_timeout = plenty, .reset_timeout = plenty}};
    int late = 0;
    for (int round = 0; round < 40; ++round) {
        auto all = take(pool, 4);
        auto inside = std::make_shared<std::atomic<int>>(0);
        to->on_reset = [inside](int) {
            ++*inside;
            return eventually([&] { return *inside == 4; });
        };
        auto begin = support::machine_time();
        for (auto& each : all) each.mark_dirty();
        all.clear();
        ASSERT_TRUE(eventually([&] { return pool.stats().idle == 4; }));
        if (support::machine_time() - begin > 4s) ++late;
    }
    EXPECT_EQ(late, 0);
    EXPECT_EQ(pool.stats().abandoned, 0U);
}

namespace {

/// Calls that take 50 ms each. As many end at a time as the pool has threads, so that no call takes
/// longer on a slow machine.
class slow_calls {
public:
    static constexpr int threads = 12;  // opening_max, and eight more

    bool operator()() {
        auto end = std::chrono::steady_clock::now() + 50ms;
        ++inside_;
        bool in_time = eventually([&] { return std::chrono::steady_clock::now() >= end; });
        --inside_;
        ++ended_;
        return in_time;
    }
    bool let_end(int count, support::stopped_clock& time) {
        for (int left = count; left > 0; left -= threads) {
            int now = std::min(left, threads);
            if (!eventually([&] { return inside_ == now; })) return false;
            time.advance(50ms);
            if (!eventually([&] { return ended_ == count - left + now; })) return false;
        }
        return true;
    }

private:
    std::atomic<int> inside_{0};
    std::atomic<int> ended_{0};
};

}  // namespace

// Far more calls than threads: together, calls that wait for a thread exceed the timeout.
TEST(pool_calls, that_wait_for_a_thread_do_not_time_out) {
    support::stopped_clock time;
    auto to = server::start();
    session_pool pool{connector{to},
                      {.max = 300, .reset_timeout = 1s, .close_timeout = 1s, .opening_max = 4}};
    auto all = take(pool, 300);
    slow_calls resets;
    to->on_reset = [&](int) { return resets(); };
    for (auto& each : all) each.mark_dirty();
    all.clear();
    ASSERT_TRUE(resets.let_end(300, time));
    ASSERT_TRUE(eventually([&] { return pool.stats().idle == 300; }));
    EXPECT_EQ(pool.stats().abandoned, 0U);

    slow_calls closes;
    to->on_close = [&](int) { closes(); };
    for (auto& each : take(pool, 300)) each.discard();
    ASSERT_TRUE(closes.let_end(300, time));
    ASSERT_TRUE(eventually([&] { return pool.stats().total == 0; }));
    EXPECT_EQ(pool.stats().abandoned, 0U);
    EXPECT_LE(to->peak, 300);
}

TEST(pool_calls, that_hang_do_not_block_the_destructor) {
    auto to = server::start();
    latch hung;
    std::atomic<int> in_close{0};
    std::atomic<bool> ended_by_itself{false};
    to->on_close = [&](int) {
        ++in_close;
        if (!hung.wait()) ended_by_itself = true;
        --in_close;
    };
    auto destroyed = std::async(std::launch::async, [&] {
        session_pool pool{connector{to},
                          {.max = 60, .acquire_timeout = plenty, .close_timeout = 20ms}};
        take(pool, 60).clear();
    });
    EXPECT_EQ(destroyed.wait_for(plenty), std::future_status::ready);
    EXPECT_FALSE(ended_by_itself);
    hung.open();
    EXPECT_TRUE(eventually([&] { return in_close == 0 && to->present == 0; }));
}

TEST(pool_calls, accept_opening_max_forever) {
    session_pool pool{connector{server::start()}, {.max = 2, .opening_max = cenote::forever}};
    auto all = take(pool, 2);
    EXPECT_TRUE(all.front());
}

// A close ends only by itself or by its timeout.
TEST(pool_calls, of_a_closed_pool_all_begin_at_once) {
    auto to = server::start();
    session_pool pool{
        connector{to},
        {.max = 8, .acquire_timeout = plenty, .close_timeout = 2 * plenty, .opening_max = 1}};
    take(pool, 8).clear();
    to->on_close = [&](int) { EXPECT_TRUE(eventually([&] { return to->closing_peak == 8; })); };
    EXPECT_EQ(pool.close(plenty), 0U);
}
