// What a waiting coroutine costs: nothing but its frame.
#include <algorithm>
#include <chrono>
#include <coroutine>
#include <cstdio>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "support/allocations.hpp"
#include "support/patience.hpp"
#include "support/task.hpp"

using namespace std::chrono_literals;
using support::eventually;
using support::loop;
using support::on;
using support::plenty;
using support::task;

namespace {

const std::size_t crowd = static_cast<std::size_t>(support::rounds(100'000));

task wait_in_line(cenote::pool<int>& pool, loop& where, std::vector<std::size_t>& order,
                  std::size_t number) {
    auto held = co_await pool.co_acquire().resumed_by(on(where));
    order.push_back(number);
    co_await where.yield();
}

/// A pool of twenty that are all open.
struct co_cost : testing::Test {
    cenote::pool<int> pool{[] { return 1; },
                           {.max = 20,
                            .min_size = 20,
                            .warm_up = cenote::warm_up::wait,
                            .acquire_timeout = plenty,
                            .line_max = 1'000'000}};
    loop where;
};

}  // namespace

TEST_F(co_cost, of_a_hundred_thousand_waits_is_no_allocation_each) {
    std::vector<std::size_t> order;
    order.reserve(2 * crowd);
    std::vector<task> all;
    for (std::size_t i = 0; i < 2 * crowd; ++i)
        all.push_back(wait_in_line(pool, where, order, i % crowd));
    // Once to let the line and the loop grow, and once to count.
    auto run = [&](std::size_t from) {
        for (std::size_t i = from; i < from + crowd; ++i) all[i].start();
        EXPECT_TRUE(eventually([&] {
            where.run();
            return order.size() == from + crowd;
        }));
    };
    run(0);
    std::uint64_t before = support::allocations_here();
    run(crowd);
    std::uint64_t allocated = support::allocations_here() - before;
    // The test's own queue of handles takes a block now and then.
    EXPECT_LT(allocated, crowd / 20);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(crowd)));
    EXPECT_TRUE(std::is_sorted(order.begin() + static_cast<std::ptrdiff_t>(crowd), order.end()));
    std::printf("%zu waited, %llu allocations (of the test's queue); a wait is %zu bytes\n", crowd,
                static_cast<unsigned long long>(allocated), sizeof(cenote::awaited<int>));
    EXPECT_LE(sizeof(cenote::awaited<int>) + sizeof(cenote::awaited<int>::awaiter), 376U);
}

TEST_F(co_cost, of_a_storm_of_timeouts_is_one_timer) {
    const std::size_t storm = crowd / 10;
    std::vector<cenote::lease<int>> all_taken;
    for (int i = 0; i < 20; ++i) all_taken.push_back(pool.acquire());
    std::size_t refused = 0;
    auto wait = [&]() -> task {
        std::error_code error;
        auto held = co_await pool.co_acquire({.timeout = 50ms}, error).resumed_by(on(where));
        if (error == cenote::errc::timed_out) ++refused;
    };
    std::vector<task> waiting;
    for (std::size_t i = 0; i < storm; ++i) {
        waiting.push_back(wait());
        waiting.back().start();
    }
    EXPECT_TRUE(eventually([&] {
        where.run();
        return refused == storm;
    }));
    EXPECT_EQ(pool.stats().refused(cenote::errc::timed_out), storm);
}
