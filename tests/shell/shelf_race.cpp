// The fast lane under threads: more threads than resources, and no waiter is forgotten.
#include <gtest/gtest.h>

#include "shell/race.hpp"

namespace cenote::race {
namespace {

/// Threads, resources, and how often the shelf is swept.
struct churn {
    std::size_t factor;
    std::size_t max;
    std::chrono::nanoseconds sweep_interval;
};

/// A sweep would rescue a forgotten waiter, so most of these tests run without sweeps.
constexpr auto no_sweep = std::chrono::hours{1};

class shelf_churn : public testing::TestWithParam<churn> {};

TEST_P(shelf_churn, forgets_no_waiter_and_counts_everything) {
    const churn how = GetParam();
    const std::size_t threads = oversubscribed(how.factor);
    const std::size_t each =
        (how.factor == 1 ? times(4'000'000, 400'000) : times(300'000, 160'000)) / threads;
    const std::size_t threads_before = threads_of_this_process();
    census counts;
    {
        pool<session> p{
            opens_well(counts),
            {.max = how.max, .acquire_timeout = patience, .sweep_interval = how.sweep_interval}};
        std::atomic<std::uint64_t> failed{0};
        party(threads, [&](std::size_t number) {
            dice random(number + 1);
            for (std::size_t i = 0; i < each; ++i) {
                std::error_code error;
                lease<session> held = p.acquire({}, error);
                if (!held) {
                    ++failed;
                    continue;
                }
                user in_use(held);
                if (random.one_in(64)) std::this_thread::yield();
            }
        });
        EXPECT_EQ(failed, 0u) << "a waiter was forgotten";
        stats s = p.stats();
        check_sums(s);
        EXPECT_EQ(s.acquires, threads * each);
        EXPECT_EQ(s.granted, threads * each);
        EXPECT_EQ(s.released, threads * each);
        EXPECT_EQ(s.leased, 0u);
        EXPECT_LE(counts.most, static_cast<std::int64_t>(how.max));
        EXPECT_EQ(p.close(patience), 0u);
    }
    check_nothing_left(counts, threads_before);
}

INSTANTIATE_TEST_SUITE_P(all, shelf_churn,
                         testing::Values(churn{1, 1, no_sweep}, churn{2, 1, no_sweep},
                                         churn{8, 1, no_sweep}, churn{32, 1, no_sweep},
                                         churn{1, 2, no_sweep}, churn{2, 2, no_sweep},
                                         churn{8, 2, no_sweep}, churn{32, 2, no_sweep},
                                         churn{2, 2, 50us}, churn{8, 2, 50us}),
                         [](const auto& test) {
                             return std::to_string(test.param.factor) + "_times_for_" +
                                    std::to_string(test.param.max) +
                                    (test.param.sweep_interval == no_sweep ? "" : "_swept");
                         });

/// Short waits come and go, so that attention is raised and lowered all the time.
TEST(shelf_attention, changes_without_forgetting_a_waiter) {
    const std::size_t threads = oversubscribed(4);
    const std::size_t each = times(400'000, 60'000) / threads;
    census counts;
    pool<session> p{opens_well(counts),
                    {.max = 2, .acquire_timeout = patience, .sweep_interval = no_sweep}};
    std::atomic<std::uint64_t> failed{0};
    std::atomic<std::uint64_t> granted{0};
    party(threads, [&](std::size_t number) {
        dice random(number + 1);
        for (std::size_t i = 0; i < each; ++i) {
            std::error_code error;
            lease<session> held;
            switch (random.below(4)) {
                case 0: held = p.try_acquire(); break;
                case 1:
                    held =
                        p.acquire({.timeout = std::chrono::microseconds{random.below(50)}}, error);
                    break;
                case 2: held = p.acquire({.timeout = 0ns}, error); break;
                default:
                    held = p.acquire({}, error);
                    if (!held) ++failed;
            }
            if (!held) continue;
            ++granted;
            user in_use(held);
        }
    });
    EXPECT_EQ(failed, 0u);
    stats s = p.stats();
    check_sums(s);
    EXPECT_EQ(s.granted, granted);
    EXPECT_EQ(s.released, granted);
    EXPECT_EQ(s.waiting, 0u);
}

/// A resource opened before a retire_all that has returned is never lent after it.
TEST(shelf_retire_all, keeps_the_old_generation_from_being_lent) {
    const std::size_t threads = oversubscribed(4);
    const std::size_t each = times(300'000, 40'000) / threads;
    census counts;
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> done{0};
    auto open = [&] {
        counts.arrive();
        return session(counts, begun);
    };
    pool<session> p{
        open, {.max = 3, .acquire_timeout = patience, .opening_max = 3, .sweep_interval = 1ms}};
    std::atomic<std::uint64_t> failed{0};
    std::atomic<std::uint64_t> too_old{0};
    party(threads, [&](std::size_t number) {
        dice random(number + 1);
        for (std::size_t i = 0; i < each; ++i) {
            if (number == 0 && random.one_in(50)) {
                std::uint64_t mine = ++begun;
                p.retire_all();
                done = mine;
                continue;
            }
            std::error_code error;
            std::uint64_t oldest = done;
            lease<session> held = p.acquire({}, error);
            if (!held) {
                ++failed;
                continue;
            }
            user in_use(held);
            if (held->generation() < oldest) ++too_old;
        }
    });
    EXPECT_EQ(failed, 0u);
    EXPECT_EQ(too_old, 0u);
    check_sums(p.stats());
    EXPECT_LE(counts.most, 3);
}

/// Snapshots are consistent at any time during the churn.
TEST(shelf_stats, fit_together_during_the_churn) {
    const std::size_t threads = oversubscribed(4);
    const std::size_t each = times(400'000, 40'000) / threads;
    census counts;
    pool<session> p{opens_well(counts),
                    {.max = 4, .acquire_timeout = patience, .sweep_interval = 200us}};
    std::atomic<std::size_t> busy{threads};
    std::atomic<std::uint64_t> looks{0};
    std::thread observer([&] {
        do {
            check_sums(p.stats());
            ++looks;
        } while (busy > 0 && !testing::Test::HasFatalFailure());
    });
    party(threads, [&](std::size_t) {
        for (std::size_t i = 0; i < each; ++i) {
            lease<session> held = p.acquire();
            user in_use(held);
        }
        --busy;
    });
    observer.join();
    EXPECT_GT(looks, 0u);
    check_sums(p.stats());
}

}  // namespace
}  // namespace cenote::race
