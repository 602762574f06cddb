// Tests acquire_many: several leases at once, or none.
#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

TEST(pool_many, grants_different_resources) {
    session_pool pool{connector{server::start()}, {.max = 4}};
    auto leases = pool.acquire_many(3);
    ASSERT_EQ(leases.size(), 3u);
    std::set<int> ids;
    for (auto& each : leases) ids.insert(each->id);
    EXPECT_EQ(ids.size(), 3u);
    EXPECT_EQ(pool.stats().leased, 3u);
    leases.clear();
    EXPECT_EQ(pool.stats().leased, 0u);
}

TEST(pool_many, takes_hot_resources_as_well) {
    session_pool pool{connector{server::start()}, {.max = 2}};
    {
        auto one = pool.acquire();
    }  // the resource is on the shelf
    auto both = pool.acquire_many(2);
    EXPECT_EQ(both.size(), 2u);
    EXPECT_EQ(pool.stats().opened, 2u);
}

TEST(pool_many, is_all_or_nothing) {
    session_pool pool{connector{server::start()}, {.max = 2}};
    auto one = pool.acquire();
    std::error_code error;
    EXPECT_TRUE(pool.acquire_many(2, {.timeout = 20ms}, error).empty());
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_THROW((void)pool.acquire_many(2, {.timeout = 1ms}), cenote::timed_out_error);
    EXPECT_TRUE(pool.try_acquire());  // the failed calls kept no lease
}

TEST(pool_many, refuses_counts_that_can_never_be_granted) {
    session_pool pool{connector{server::start()}, {.max = 2}};
    EXPECT_THROW((void)pool.acquire_many(0), std::invalid_argument);
    EXPECT_THROW((void)pool.acquire_many(3), std::invalid_argument);
}

TEST(pool_many, can_be_stopped) {
    session_pool pool{connector{server::start()}, {.max = 2, .acquire_timeout = 1h}};
    auto one = pool.acquire();
    std::stop_source stop;
    std::thread waits([&] {
        std::stop_token token = stop.get_token();
        EXPECT_THROW((void)pool.acquire_many(2, {.stop = token}), cenote::canceled_error);
    });
    ASSERT_TRUE(eventually([&] { return pool.stats().waiting == 1; }));
    stop.request_stop();
    waits.join();
    EXPECT_EQ(pool.stats().waiting, 0u);
}

TEST(pool_many, ends_with_the_pool) {
    session_pool pool{connector{server::start()}, {.max = 2, .acquire_timeout = 1h}};
    auto one = pool.acquire();
    std::thread waits([&] { EXPECT_THROW((void)pool.acquire_many(2), cenote::closed_error); });
    ASSERT_TRUE(eventually([&] { return pool.stats().waiting == 1; }));
    pool.close();
    waits.join();
}

TEST(pool_many, starts_over_if_one_is_unfit) {
    auto to = server::start();
    std::atomic<int> looks{0};
    to->on_acquire = [&](int) { return ++looks != 2; };
    cenote::pool<session> pool{support::hooked_connector{to}, {.max = 3, .acquire_timeout = 1h}};
    auto leases = pool.acquire_many(3);
    EXPECT_EQ(leases.size(), 3u);
    EXPECT_EQ(pool.stats().leased, 3u);
    EXPECT_EQ(pool.stats().retired(cenote::retire_reason::rejected), 1u);
}

// The caller has one lease and wants two more, which another thread has in part: a nested wait.
TEST(pool_many, is_reported_if_the_waiter_has_a_lease) {
    auto watch = std::make_shared<support::recorder>();
    session_pool pool{connector{server::start()}, {.max = 3, .observers = {watch}}};
    auto mine = pool.acquire();
    auto theirs = std::make_unique<cenote::lease<session>>();
    std::thread([&] { *theirs = pool.acquire(); }).join();
    std::error_code error;
    EXPECT_TRUE(pool.acquire_many(2, {.timeout = 10ms}, error).empty());
    EXPECT_EQ(error, cenote::errc::timed_out);
    EXPECT_TRUE(eventually([&] { return watch->count(cenote::event_kind::nested_acquire) == 1; }));
}

// Threads that want two of three resources each: one by one they would deadlock.
TEST(pool_many, does_not_deadlock_with_other_acquire_many) {
    session_pool pool{connector{server::start()}, {.max = 3, .acquire_timeout = 60s}};
    std::vector<std::thread> users;
    std::atomic<int> served{0};
    for (std::size_t i = 0; i < 4; ++i)
        users.emplace_back([&, i] {
            for (int round = 0; round < rounds(500); ++round) {
                auto leases = pool.acquire_many(1 + (i + static_cast<std::size_t>(round)) % 3);
                for (auto& each : leases) auto claim = each->use();
                ++served;
            }
        });
    for (std::thread& t : users) t.join();
    EXPECT_EQ(served, 4 * rounds(500));
    auto s = pool.stats();
    EXPECT_EQ(s.acquires, s.granted);
    EXPECT_EQ(s.granted, s.released);
}

}  // namespace
