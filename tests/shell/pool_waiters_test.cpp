// Waiters for the whole pool: the list, its deadlines, and the threads that sleep.
#include "shell/pool_waiters.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/patience.hpp"

using namespace std::chrono_literals;
using cenote::core::instant;
using cenote::core::never;
using cenote::shell::pool_guard;
using cenote::shell::pool_lock;
using cenote::shell::pool_waiters;
using testing::ElementsAre;

namespace {

struct fake_waiter final : cenote::detail::waiter {
    explicit fake_waiter(instant until = never) { deadline = until; }
    void notify() noexcept override {}
};

struct pool_waiters_test : testing::Test {
    pool_waiters all;

    /// The removed waiters.
    template <class IsDone>
    std::vector<cenote::detail::waiter*> remove_if(IsDone is_done) {
        std::vector<cenote::detail::waiter*> out;
        all.list.remove_if(is_done, [&](cenote::detail::waiter& w) { out.push_back(&w); });
        return out;
    }
};

}  // namespace

// Coroutines and Asio operations.

TEST_F(pool_waiters_test, are_none_at_first) {
    EXPECT_TRUE(all.list.empty());
    EXPECT_EQ(all.earliest_deadline(), never);
    EXPECT_FALSE(all.list.remove(fake_waiter()));
    EXPECT_TRUE(remove_if([](auto&) { return true; }).empty());
}

TEST_F(pool_waiters_test, have_the_earliest_deadline_of_all) {
    fake_waiter a(instant{5s});
    fake_waiter b(instant{3s});
    fake_waiter c;
    for (fake_waiter* each : {&a, &b, &c}) all.list.add(*each);
    EXPECT_EQ(all.earliest_deadline(), instant{3s});
    all.list.remove(b);
    EXPECT_EQ(all.earliest_deadline(), instant{5s});
    all.list.remove(a);
    EXPECT_EQ(all.earliest_deadline(), never);
    EXPECT_FALSE(all.list.empty());
}

TEST_F(pool_waiters_test, can_be_removed_at_any_position) {
    fake_waiter w[3];
    for (fake_waiter& gone : w) {
        for (fake_waiter& each : w) all.list.add(each);
        EXPECT_TRUE(all.list.remove(gone));
        EXPECT_FALSE(all.list.remove(gone));
        auto left = remove_if([](auto&) { return true; });
        EXPECT_EQ(left.size(), 2U);
        EXPECT_EQ(std::ranges::count(left, &gone), 0);
        EXPECT_TRUE(all.list.empty());
    }
}

TEST_F(pool_waiters_test, are_removed_when_they_are_done) {
    fake_waiter a(instant{1s});
    fake_waiter b(instant{2s});
    fake_waiter c(instant{3s});
    for (fake_waiter* each : {&a, &b, &c}) all.list.add(*each);
    auto done = [](const cenote::detail::waiter& w) { return w.deadline != instant{2s}; };
    EXPECT_THAT(remove_if(done), ElementsAre(&a, &c));
    EXPECT_THAT(remove_if(done), ElementsAre());
    EXPECT_THAT(remove_if([](auto&) { return true; }), ElementsAre(&b));
}

TEST_F(pool_waiters_test, may_be_destroyed_when_they_are_removed) {
    auto* a = new fake_waiter;
    auto* b = new fake_waiter;
    all.list.add(*a);
    all.list.add(*b);
    all.list.remove_if([](auto&) { return true; }, [](auto& w) { delete &w; });
    EXPECT_TRUE(all.list.empty());
}

// Threads.

TEST_F(pool_waiters_test, count_changes_without_threads) {
    all.notify();
    all.notify();
    EXPECT_EQ(all.changes(), 2U);
}

TEST_F(pool_waiters_test, that_sleep_are_woken_by_a_change) {
    pool_lock lock;
    int asleep = 0;
    auto sleep_until = [&](instant limit) {
        pool_guard here(lock);
        all.begin();
        ++asleep;
        auto before = all.changes();
        while (all.changes() == before) all.sleep(here, limit);
        all.end();
    };
    auto notify_when_asleep = [&](int count) {
        EXPECT_TRUE(support::eventually([&] {
            pool_guard here(lock);
            return asleep == count;
        }));
        pool_guard here(lock);
        all.notify();
    };
    std::thread alone(sleep_until, never);
    notify_when_asleep(1);
    alone.join();
    std::thread patient(sleep_until, never);
    std::thread other(sleep_until, std::chrono::steady_clock::now() + support::plenty);
    notify_when_asleep(3);
    patient.join();
    other.join();
}

TEST_F(pool_waiters_test, sleep_at_most_to_their_limit) {
    pool_lock lock;
    pool_guard here(lock);
    all.begin();
    auto limit = std::chrono::steady_clock::now() + 5ms;
    while (std::chrono::steady_clock::now() < limit) all.sleep(here, limit);
    all.end();
    EXPECT_EQ(all.changes(), 0U);
}

// In the child of a fork.

TEST_F(pool_waiters_test, are_none_after_a_restart) {
    fake_waiter a;
    all.list.add(a);
    all.begin();  // a thread of the parent
    all.restart();
    EXPECT_TRUE(all.list.empty());
    all.notify();
    EXPECT_EQ(all.changes(), 1U);
}
