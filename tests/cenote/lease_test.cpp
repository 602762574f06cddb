// Tests leases: moves, a single return, and every way to end one early.
#include <array>
#include <exception>
#include <memory>
#include <pthread.h>
#include <thread>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using cenote::lease;
using support::connector;
using support::eventually;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

static_assert(!std::is_copy_constructible_v<lease<int>>);
static_assert(!std::is_copy_assignable_v<lease<int>>);
static_assert(std::is_nothrow_move_constructible_v<lease<int>>);
static_assert(std::is_nothrow_move_assignable_v<lease<int>>);
static_assert(std::is_nothrow_default_constructible_v<lease<int>>);
static_assert(!std::is_convertible_v<lease<int>, bool>);

TEST(lease, default_constructed_is_empty_and_harmless) {
    lease<int> none;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.get(), nullptr);
    none.give_back();
    none.discard();
    none.mark_dirty();
    lease<int> other = std::move(none);
    EXPECT_FALSE(other);
}

TEST(lease, gives_access_to_its_resource) {
    session_pool pool{connector{server::start()}};
    const auto mine = pool.acquire();
    EXPECT_TRUE(mine);
    EXPECT_EQ((*mine).id, 1);
    EXPECT_EQ(mine->id, 1);
    EXPECT_EQ(mine.get(), &*mine);
}

TEST(lease, returns_its_resource_at_the_end_of_its_life) {
    session_pool pool{connector{server::start()}};
    {
        auto mine = pool.acquire();
        EXPECT_EQ(pool.stats().leased, 1U);
    }
    EXPECT_EQ(pool.stats().leased, 0U);
    EXPECT_EQ(pool.stats().idle, 1U);
}

TEST(lease, returns_exactly_once) {
    session_pool pool{connector{server::start()}};
    auto mine = pool.acquire();
    mine.give_back();
    EXPECT_FALSE(mine);
    mine.give_back();
    mine.discard();
    mine.mark_dirty();
    EXPECT_EQ(pool.stats().released, 1U);
    EXPECT_EQ(pool.stats().discarded, 0U);
    EXPECT_EQ(pool.stats().idle, 1U);
}

TEST(lease, a_second_return_does_not_touch_the_next_lease) {
    session_pool pool{connector{server::start()}, {.max = 1}};
    auto first = pool.acquire();
    first.give_back();
    auto second = pool.acquire();
    first.give_back();
    first.discard();
    EXPECT_EQ(pool.stats().leased, 1U);
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_EQ(second->id, 1);
}

TEST(lease, moves_without_returning) {
    session_pool pool{connector{server::start()}};
    auto one = pool.acquire();
    session* where = one.get();
    lease<session> two = std::move(one);
    EXPECT_FALSE(one);  // NOLINT: what a moved-from lease is, is the test
    EXPECT_EQ(two.get(), where);
    EXPECT_EQ(pool.stats().released, 0U);
}

TEST(lease, assignment_returns_the_previous_resource) {
    session_pool pool{connector{server::start()}};
    auto one = pool.acquire();
    auto two = pool.acquire();
    int second = two->id;
    one = std::move(two);
    EXPECT_EQ(one->id, second);
    EXPECT_EQ(pool.stats().leased, 1U);
    EXPECT_EQ(pool.stats().idle, 1U);
    auto& same = one;
    one = std::move(same);
    EXPECT_EQ(one->id, second) << "self-assignment keeps it";
    std::swap(one, two);
    EXPECT_EQ(two->id, second);
    EXPECT_FALSE(one);
}

TEST(lease, may_end_on_another_thread) {
    session_pool pool{connector{server::start()}};
    std::jthread([mine = pool.acquire()] {}).join();
    EXPECT_EQ(pool.stats().leased, 0U);
    EXPECT_EQ(pool.acquire()->id, 1);
}

TEST(lease, discard_closes_the_resource) {
    auto to = server::start();
    session_pool pool{connector{to}};
    auto mine = pool.acquire();
    mine.discard();
    EXPECT_FALSE(mine);
    EXPECT_TRUE(eventually([&] { return to->present == 0; }));
    EXPECT_EQ(to->closes, 1);
    EXPECT_EQ(pool.stats().released, 1U);
    EXPECT_EQ(pool.stats().discarded, 1U);
    EXPECT_EQ(pool.acquire()->id, 2);
}

TEST(lease, discard_wins_over_mark_dirty) {
    auto to = server::start();
    session_pool pool{connector{to}};
    auto mine = pool.acquire();
    mine.mark_dirty();
    mine.discard();
    EXPECT_TRUE(eventually([&] { return to->closes == 1; }));
    EXPECT_EQ(to->resets, 0);
}

TEST(lease, discard_at_end_leaves_it_usable_and_closes_it_at_any_end) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty}};
    auto ends = std::to_array<void (*)(cenote::lease<session>&)>(
        {[](auto& l) { l.give_back(); }, [](auto& l) { l = {}; },
         [](auto& l) { l.give_back(std::make_exception_ptr(1), cenote::verdict::keep); },
         [](auto& l) { l.mark_dirty(); }});
    int opened = 0;
    for (auto end : ends) {
        auto mine = pool.acquire();
        EXPECT_EQ(mine->id, ++opened);
        mine.discard_at_end();
        EXPECT_TRUE(mine);
        EXPECT_EQ(mine->id, opened);
        EXPECT_EQ(to->closes, opened - 1);
        auto moved = std::move(mine);
        end(moved);
    }
    EXPECT_TRUE(eventually([&] { return to->closes == opened; }));
    EXPECT_EQ(pool.stats().discarded, static_cast<unsigned>(opened));
    EXPECT_EQ(to->resets, 0);
    cenote::lease<session> none;
    none.discard_at_end();
}

TEST(lease, detach_transfers_ownership_to_the_caller) {
    auto to = server::start();
    {
        std::unique_ptr<session> detached;
        session_pool pool{connector{to}, {.max = 1, .acquire_timeout = plenty}};
        auto mine = pool.acquire();
        detached = std::make_unique<session>(mine.detach());
        EXPECT_FALSE(mine);
        EXPECT_EQ(detached->id, 1);
        EXPECT_EQ(pool.stats().total, 0U) << "its slot is free at once";
        EXPECT_EQ(pool.acquire()->id, 2);
        EXPECT_EQ(pool.close(plenty), 0U);
        EXPECT_EQ(to->closes, 1);
        EXPECT_EQ(to->present, 1);
        EXPECT_EQ(pool.stats().detached, 1U);
    }
    EXPECT_EQ(to->present, 0);
}

TEST(lease, may_end_after_the_thread_local_objects_of_its_thread) {
    session_pool pool{connector{server::start()}};
    for (int i = 0; i < 10; ++i) (void)pool.acquire();
    pthread_key_t late = 0;
    ASSERT_EQ(pthread_key_create(&late, [](void* p) { delete static_cast<lease<session>*>(p); }),
              0);
    for (int round = 0; round < 3; ++round) {
        std::thread([&] {
            static thread_local lease<session> local;
            EXPECT_EQ(pthread_setspecific(late, new lease<session>(pool.acquire())), 0);
            local = pool.acquire();
            EXPECT_EQ(pool.stats().leased, 2U);
        }).join();
        EXPECT_EQ(pool.stats().leased, 0U);
    }
    pthread_key_delete(late);
}

TEST(lease, leases_of_several_pools_do_not_mix) {
    session_pool one{connector{server::start()}};
    session_pool two{connector{server::start()}};
    auto a = one.acquire();
    auto b = two.acquire();
    std::swap(a, b);
    a.give_back();
    EXPECT_EQ(one.stats().leased, 1U);
    EXPECT_EQ(two.stats().leased, 0U);
    b.give_back();
    EXPECT_EQ(one.stats().leased, 0U);
}
