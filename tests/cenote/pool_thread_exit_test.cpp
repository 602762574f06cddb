// Tests threads that end: their shelved resources are lent to other threads, and their marks are
// used again.
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/detail/mark.hpp"
#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/process.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

/// Four short leases, over the shelf if it is open.
void use_it(session_pool& pool) {
    for (int i = 0; i < 4; ++i) {
        auto lease = pool.acquire();
        auto claim = lease->use();
    }
}

struct pool_thread_exit : testing::Test {
    std::shared_ptr<server> to = server::start();
    session_pool pool{connector{to}, {.max = 4, .acquire_timeout = plenty}};
};

}  // namespace

TEST_F(pool_thread_exit, shelved_resources_are_lent_to_other_threads) {
    std::thread([&] { use_it(pool); }).join();
    EXPECT_EQ(pool.stats().leased, 0U);
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->opens, 1);
}

// Each resource is in the cell of the processor on which its thread ran.
TEST_F(pool_thread_exit, all_shelved_resources_can_be_leased_at_once) {
    for (int i = 0; i < 100; ++i) {
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) threads.emplace_back([&] { use_it(pool); });
        for (auto& t : threads) t.join();
        std::vector<cenote::lease<session>> leases;
        for (int n = 0; n < 4; ++n) leases.push_back(pool.acquire());
    }
    EXPECT_LE(to->opens, 4);
    EXPECT_EQ(to->overlaps, 0);
}

TEST_F(pool_thread_exit, a_waiter_gets_the_resource_of_an_ending_thread) {
    for (int i = 0; i < support::rounds(500); ++i) {
        std::vector<cenote::lease<session>> leases;
        for (int n = 0; n < 4; ++n) leases.push_back(pool.acquire());
        std::thread waiting([&] { use_it(pool); });
        std::thread ending([mine = std::move(leases.back())] {});  // the lease ends with its thread
        ending.join();
        waiting.join();
    }
    EXPECT_LE(to->opens, 4);
}

TEST_F(pool_thread_exit, ten_thousand_threads_leave_nothing_behind) {
    use_it(pool);
    std::size_t threads_before = support::thread_count();
    std::mutex mutex;
    std::set<const cenote::detail::gate_mark*> marks;
    std::atomic<int> allocated{0};
    for (int i = 0; i < support::rounds(2500); ++i) {
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                use_it(pool);
                const auto* mine = cenote::detail::this_threads_mark;
                if (mine == nullptr || mine->allocated) ++allocated;
                std::lock_guard lock(mutex);
                marks.insert(mine);
            });
        for (auto& t : threads) t.join();
    }
    EXPECT_EQ(allocated, 0);
    EXPECT_LE(marks.size(), 8U);  // of these threads and of the pool's threads
    // The system still counts a joined thread for a moment.
    EXPECT_TRUE(eventually([&] { return support::thread_count() <= threads_before + 4; }));
    EXPECT_LE(to->opens, 4);
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_EQ(support::contradiction(pool.stats()), "");
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->present, 0);
}

// More threads at a time than there are marks without an allocation.
TEST_F(pool_thread_exit, many_threads_at_a_time_leave_nothing_behind_either) {
    std::atomic<int> without{0};
    support::latch go_on;
    std::vector<std::thread> threads;
    std::atomic<int> started{0};
    for (int t = 0; t < 300; ++t)
        threads.emplace_back([&] {
            use_it(pool);
            const auto* mine = cenote::detail::this_threads_mark;
            if (mine == nullptr || mine->allocated) ++without;
            ++started;
            go_on.wait();
        });
    EXPECT_TRUE(eventually([&] { return started == 300; }));
    EXPECT_GE(without, 300 - 256);
    go_on.open();
    for (auto& t : threads) t.join();
    std::thread([&] {
        use_it(pool);
        EXPECT_FALSE(cenote::detail::this_threads_mark->allocated);
    }).join();
}
