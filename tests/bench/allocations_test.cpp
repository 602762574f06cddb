// Once a pool is warm, a cycle allocates nothing, whichever way it goes.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <thread>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"

namespace {

std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    std::size_t whole = (size + alignment - 1) / alignment * alignment;
    if (void* p = std::aligned_alloc(alignment, whole == 0 ? alignment : whole)) return p;
    throw std::bad_alloc();
}

}  // namespace

// The other forms of new and delete end in these.
void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
    return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace cenote {
namespace {

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
    std::uint64_t before = allocations.load();
    run_cycles(pool, counted_cycles);
    return allocations.load() - before;
}

TEST(allocations, are_counted) {
    std::uint64_t before = allocations.load();
    delete new int;
    ASSERT_EQ(allocations.load() - before, 1u);
}

TEST(allocations, the_fast_lane_needs_none) {
    auto pool = make_pool({.max = 10});
    EXPECT_EQ(allocations_of(pool), 0u);
    // Otherwise this was about something else.
    EXPECT_EQ(pool.stats().waited, 0u);
}

TEST(allocations, the_keeper_needs_none) {
    auto pool = make_pool({.max = 10, .order = order::fifo});
    EXPECT_EQ(allocations_of(pool), 0u);
}

TEST(allocations, handing_over_needs_none) {
    // Two threads and one resource; whoever has it waits until the other one stands in line.
    auto pool = make_pool({.max = 1});
    constexpr int hand_overs = 1'000;
    auto take_turns = [&](int count, std::atomic<int>& finished) {
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
        take_turns(100, warm);
        while (!counting) std::this_thread::yield();
        take_turns(hand_overs, done);
        while (!leave) std::this_thread::yield();
    };
    std::thread one(work);
    std::thread two(work);
    while (warm < 2) std::this_thread::yield();
    std::uint64_t waited = pool.stats().waited;
    std::uint64_t before = allocations.load();
    counting = true;
    while (done < 2) std::this_thread::yield();
    std::uint64_t after = allocations.load();
    waited = pool.stats().waited - waited;
    leave = true;
    one.join();
    two.join();
    EXPECT_EQ(after - before, 0u);
    EXPECT_GE(waited, std::uint64_t{hand_overs}) << "the threads hardly met";
}

}  // namespace
}  // namespace cenote
