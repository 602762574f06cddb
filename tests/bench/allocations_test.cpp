// Once a pool is warm, a cycle allocates nothing: fast lane, keeper and hand-over.
#include "support/allocations.hpp"

#include <atomic>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"

namespace cenote {
namespace {

using support::allocations_made;

constexpr int warm_up_cycles = 1'000;
constexpr int counted_cycles = 20'000;

pool<int> make_pool(options settings) {
    settings.min_size = settings.max;
    settings.warm_up = warm_up::wait;
    return pool<int>{[] { return 0; }, settings};
}

void run_cycles(pool<int>& pool, int count) {
    for (int i = 0; i < count; ++i) {
        auto lease = pool.acquire();
        ++*lease;
    }
}

std::uint64_t allocations_of(pool<int>& pool) {
    run_cycles(pool, warm_up_cycles);
    std::uint64_t before = allocations_made();
    run_cycles(pool, counted_cycles);
    return allocations_made() - before;
}

TEST(allocations, are_counted) {
    std::uint64_t before = allocations_made();
    delete new int;
    ASSERT_EQ(allocations_made() - before, 1u);
}

TEST(allocations, the_fast_lane_needs_none) {
    auto pool = make_pool({.max = 10});
    EXPECT_EQ(allocations_of(pool), 0u);
    // A wait would have taken the keeper's path.
    EXPECT_EQ(pool.stats().waited, 0u);
}

TEST(allocations, the_keeper_needs_none) {
    auto pool = make_pool({.max = 10, .order = order::fifo});
    EXPECT_EQ(allocations_of(pool), 0u);
}

struct handed_over {
    std::uint64_t allocations;
    std::uint64_t waited;
};

constexpr int hand_overs = 1'000;

/// Two threads and one resource; the holder waits until the other thread is in line.
handed_over hand_over(enum fairness fairness) {
    auto pool = make_pool({.max = 1, .fairness = fairness});
    auto lease_often = [&](int count, std::atomic<int>& finished) {
        for (int i = 0; i < count; ++i) {
            auto lease = pool.acquire();
            ++*lease;
            while (pool.stats().waiting == 0 && finished == 0) std::this_thread::yield();
        }
        ++finished;
    };
    std::atomic<int> warm{0};
    std::atomic<int> done{0};
    std::atomic<bool> counting{false};
    std::atomic<bool> leave{false};
    auto work = [&] {
        lease_often(100, warm);
        while (!counting) std::this_thread::yield();
        lease_often(hand_overs, done);
        while (!leave) std::this_thread::yield();
    };
    std::thread one(work);
    std::thread two(work);
    while (warm < 2) std::this_thread::yield();
    std::uint64_t waited = pool.stats().waited;
    std::uint64_t before = allocations_made();
    counting = true;
    while (done < 2) std::this_thread::yield();
    std::uint64_t after = allocations_made();
    waited = pool.stats().waited - waited;
    leave = true;
    one.join();
    two.join();
    return {.allocations = after - before, .waited = waited};
}

TEST(allocations, handing_over_needs_none) {
    handed_over strictly = hand_over(fairness::strict);
    EXPECT_EQ(strictly.allocations, 0u);
    EXPECT_GE(strictly.waited, std::uint64_t{hand_overs}) << "the threads hardly met";
    EXPECT_EQ(hand_over(fairness::turns).allocations, 0u);
}

}  // namespace
}  // namespace cenote
