// Those who wait for the whole pool: who is told, who is in the list, and until when.
#include "shell/watchers.hpp"

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
using cenote::shell::holding;
using cenote::shell::pool_lock;
using cenote::shell::watchers;
using testing::ElementsAre;

namespace {

struct someone final : cenote::detail::waiter {
    explicit someone(instant until = never) { deadline = until; }
    void notify() noexcept override {}
};

struct watchers_test : testing::Test {
    watchers all;

    /// Those that are taken out if `is_done` says so.
    template <class IsDone>
    std::vector<cenote::detail::waiter*> take_out(IsDone is_done) {
        std::vector<cenote::detail::waiter*> out;
        all.take_out(is_done, [&](cenote::detail::waiter& w) { out.push_back(&w); });
        return out;
    }
};

}  // namespace

// Waiters without a thread.

TEST_F(watchers_test, are_none_at_first) {
    EXPECT_FALSE(all.any());
    EXPECT_EQ(all.earliest_deadline(), never);
    EXPECT_FALSE(all.remove(someone()));
    EXPECT_TRUE(take_out([](auto&) { return true; }).empty());
}

TEST_F(watchers_test, have_the_earliest_deadline_of_all) {
    someone a(instant{5s});
    someone b(instant{3s});
    someone c;
    for (someone* each : {&a, &b, &c}) all.add(*each);
    EXPECT_EQ(all.earliest_deadline(), instant{3s});
    all.remove(b);
    EXPECT_EQ(all.earliest_deadline(), instant{5s});
    all.remove(a);
    EXPECT_EQ(all.earliest_deadline(), never);
    EXPECT_TRUE(all.any());
}

TEST_F(watchers_test, can_leave_wherever_they_stand) {
    someone w[3];
    for (someone& gone : w) {
        for (someone& each : w) all.add(each);
        EXPECT_TRUE(all.remove(gone));
        EXPECT_FALSE(all.remove(gone));
        auto left = take_out([](auto&) { return true; });
        EXPECT_EQ(left.size(), 2U);
        EXPECT_EQ(std::ranges::count(left, &gone), 0);
        EXPECT_FALSE(all.any());
    }
}

TEST_F(watchers_test, are_taken_out_when_they_are_done) {
    someone a(instant{1s});
    someone b(instant{2s});
    someone c(instant{3s});
    for (someone* each : {&c, &b, &a}) all.add(*each);
    auto done = [](const cenote::detail::waiter& w) { return w.deadline != instant{2s}; };
    EXPECT_THAT(take_out(done), ElementsAre(&a, &c));
    EXPECT_THAT(take_out(done), ElementsAre());
    EXPECT_THAT(take_out([](auto&) { return true; }), ElementsAre(&b));
}

TEST_F(watchers_test, may_end_when_they_are_taken_out) {
    auto* a = new someone;
    auto* b = new someone;
    all.add(*a);
    all.add(*b);
    all.take_out([](auto&) { return true; }, [](auto& w) { delete &w; });
    EXPECT_FALSE(all.any());
}

// Threads.

TEST_F(watchers_test, count_the_changes_also_when_no_thread_sleeps) {
    all.tell();
    all.tell();
    EXPECT_EQ(all.changes(), 2U);
}

TEST_F(watchers_test, that_sleep_are_told_of_a_change) {
    pool_lock lock;
    int asleep = 0;
    auto sleep_until = [&](instant limit) {
        holding here(lock);
        all.begin();
        ++asleep;
        auto before = all.changes();
        while (all.changes() == before) all.sleep(here, limit);
        all.end();
    };
    auto tell_when_asleep = [&](int count) {
        EXPECT_TRUE(support::eventually([&] {
            holding here(lock);
            return asleep == count;
        }));
        holding here(lock);
        all.tell();
    };
    std::thread alone(sleep_until, never);
    tell_when_asleep(1);
    alone.join();
    std::thread patient(sleep_until, never);
    std::thread other(sleep_until, std::chrono::steady_clock::now() + support::plenty);
    tell_when_asleep(3);
    patient.join();
    other.join();
}

TEST_F(watchers_test, sleep_no_longer_than_they_want_to) {
    pool_lock lock;
    holding here(lock);
    all.begin();
    auto limit = std::chrono::steady_clock::now() + 5ms;
    while (std::chrono::steady_clock::now() < limit) all.sleep(here, limit);
    all.end();
    EXPECT_EQ(all.changes(), 0U);
}

// In the child of a fork.

TEST_F(watchers_test, start_anew_with_none) {
    someone a;
    all.add(a);
    all.begin();  // a thread of the parent
    all.start_anew();
    EXPECT_FALSE(all.any());
    all.tell();
    EXPECT_EQ(all.changes(), 1U);
}
