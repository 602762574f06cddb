// The state of the dashboard: pools, history, events, commands.
#include "watch/dashboard_state.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

// In one source of the program.
#include <boost/json/src.hpp>

#include <gmock/gmock.h>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/task.hpp"
#include "watch/parsed.hpp"

namespace cenote::detail {
namespace {

using namespace std::chrono_literals;
using support::eventually;
using testing::HasSubstr;

boost::json::value state_of(dashboard_state& b, std::uint64_t since = 0) {
    return parsed(b.json(since, false));
}

struct watched : testing::Test {
    dashboard_state b;
    pool<int> one{[] { return 1; }, {.name = "orders", .max = 3, .observers = {b.events()}}};
    std::shared_ptr<watched_pool> entry = b.add(one.control());

    boost::json::value orders() { return state_of(b).at("pools").at(0); }
};

TEST_F(watched, shows_stats_slots_and_holders) {
    auto held = one.acquire({.task = "a \"quoted\" task"});
    auto now = orders();
    EXPECT_EQ(text(now.at("name")), "orders");
    EXPECT_EQ(now.at("stats").at("leased"), 1);
    EXPECT_EQ(now.at("stats").at("max"), 3);
    EXPECT_EQ(text(now.at("stats").at("state")), "lending");
    EXPECT_EQ(text(now.at("slots")), "L..");
    EXPECT_EQ(now.at("resources").as_array().size(), 3);
    auto lease = now.at("leases").at(0);
    EXPECT_THAT(text(lease.at("file")), HasSubstr("dashboard_state_test.cpp"));
    EXPECT_EQ(text(lease.at("task")), "a \"quoted\" task");
    EXPECT_EQ(lease.at("resource"), now.at("resources").at(0));
    EXPECT_FALSE(lease.at("suspect").as_bool());
}

TEST_F(watched, shows_the_effect_of_commands) {
    EXPECT_EQ(b.execute({"orders", pool_action::pause}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("state")), "paused");
    EXPECT_EQ(b.execute({"orders", pool_action::resume}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("state")), "lending");
    EXPECT_EQ(b.execute({"orders", pool_action::deactivate}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("breaker")), "inactive");
    EXPECT_EQ(b.execute({"orders", pool_action::recover}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("breaker")), "recovering");
    EXPECT_EQ(b.execute({"orders", pool_action::activate}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("breaker")), "active");
    EXPECT_EQ(b.execute({"orders", pool_action::resize, 5}).status, 200);
    EXPECT_EQ(text(orders().at("slots")).size(), 5);
    EXPECT_EQ(b.execute({"orders", pool_action::resize, 2}).status, 200);
    EXPECT_EQ(text(orders().at("slots")).size(), 2) << "surplus slots are not shown";
    static_cast<void>(one.acquire());
    EXPECT_EQ(b.execute({"orders", pool_action::retire_all}).status, 200);
    EXPECT_TRUE(eventually([&] { return one.stats().retired(retire_reason::generation) == 1; }));
    EXPECT_EQ(b.execute({"orders", pool_action::suspect_all}).status, 200);
}

TEST_F(watched, reports_why_a_command_failed) {
    auto no = b.execute({"orders", pool_action::resize, 0});
    EXPECT_EQ(no.status, 422);
    EXPECT_THAT(no.error, HasSubstr("max"));
    EXPECT_EQ(b.execute({"others", pool_action::pause}).status, 404);
    EXPECT_EQ(one.stats().state, pool_state::lending);
}

TEST_F(watched, is_gone_with_its_entry) {
    b.remove(entry);
    EXPECT_TRUE(state_of(b).at("pools").as_array().empty());
    EXPECT_EQ(b.execute({"orders", pool_action::pause}).status, 404);
    b.take_samples();
}

/// Calls `f` while holding a lease.
support::task with_lease(pool<int>& from, const std::function<void()>* f) {
    auto held = co_await from.co_acquire();
    (*f)();
}

/// A paused pool. A coroutine that waits for it gets a lease on the thread that resumes the pool.
struct paused_watched : watched {
    paused_watched() {
        static_cast<void>(one.acquire());
        one.pause();
    }
};

TEST_F(paused_watched, may_be_removed_by_a_coroutine_it_resumes) {
    std::function<void()> remove = [&] { b.remove(entry); };
    auto waiter = with_lease(one, &remove);
    waiter.start();
    ASSERT_FALSE(waiter.done());
    EXPECT_EQ(b.execute({"orders", pool_action::resume}).status, 200);
    EXPECT_TRUE(waiter.done());
    EXPECT_TRUE(state_of(b).at("pools").as_array().empty());
}

TEST_F(paused_watched, is_removed_by_other_threads_after_the_command) {
    support::latch busy;
    std::function<void()> block = [&] { busy.wait(); };
    auto waiter = with_lease(one, &block);
    waiter.start();
    std::jthread commanding(
        [&] { EXPECT_EQ(b.execute({"orders", pool_action::resume}).status, 200); });
    ASSERT_TRUE(eventually([&] { return busy.waiting() == 1; }));
    EXPECT_EQ(orders().at("stats").at("leased"), 1) << "the state can be read meanwhile";
    EXPECT_EQ(b.execute({"orders", pool_action::pause}).status, 409);
    std::atomic<bool> removed{false};
    std::jthread removing([&] {
        b.remove(entry);
        removed = true;
    });
    EXPECT_TRUE(support::for_a_while([&] { return !removed; }));
    busy.open();
    EXPECT_TRUE(eventually([&] { return removed.load(); }));
    commanding.join();
    EXPECT_TRUE(waiter.done());
}

TEST_F(watched, gets_a_number_if_the_name_is_in_use) {
    pool<int> two{[] { return 2; }, {.name = "orders"}};
    auto second = b.add(two.control());
    EXPECT_EQ(second->name, "orders 2");
    EXPECT_EQ(b.execute({"orders 2", pool_action::pause}).status, 200);
    EXPECT_EQ(two.stats().state, pool_state::paused);
    EXPECT_EQ(one.stats().state, pool_state::lending);
    b.remove(second);
}

TEST_F(watched, has_a_history_without_the_samples_already_known) {
    b.take_samples();
    EXPECT_TRUE(orders().at("history").at("granted").as_array().empty()) << "nothing to compare";
    for (int i = 0; i < 3; ++i) {
        static_cast<void>(one.acquire());
        b.take_samples();
    }
    EXPECT_EQ(state_of(b).at("sample"), 4);
    auto whole = orders().at("history");
    EXPECT_EQ(whole.at("first"), 2);
    EXPECT_EQ(whole.at("granted").as_array().size(), 3);
    EXPECT_GT(whole.at("granted").at(0).to_number<double>(), 0);
    auto rest = state_of(b, 3).at("pools").at(0).at("history");
    EXPECT_EQ(rest.at("first"), 4);
    EXPECT_EQ(rest.at("wait_p99").as_array().size(), 1);
    EXPECT_TRUE(state_of(b, 99).at("pools").at(0).at("history").at("granted").as_array().empty());
}

struct stopped {
    support::stopped_clock time;
};
struct watched_at_times : stopped, watched {};

TEST_F(watched_at_times, is_read_in_detail_at_most_four_times_a_second) {
    EXPECT_EQ(text(orders().at("slots")), "...");
    auto first = entry->details.at;
    auto held = one.acquire();
    time.advance(249ms);
    for (int i = 0; i < 20; ++i) state_of(b);
    EXPECT_EQ(entry->details.at, first);
    time.advance(1ms);
    EXPECT_EQ(text(orders().at("slots")), "L..");
}

TEST(dashboard_leak, is_marked_until_its_lease_ends) {
    dashboard_state b;
    pool<int> one{[] { return 1; },
                  {.name = "orders", .max = 1, .leak_after = 20ms, .observers = {b.events()}}};
    auto entry = b.add(one.control());
    auto suspect = [&] {
        auto leases = state_of(b).at("pools").at(0).at("leases").as_array();
        return leases.empty() ? -1 : leases[0].at("suspect").as_bool() ? 1 : 0;
    };
    auto held = one.acquire();
    EXPECT_TRUE(eventually([&] { return suspect() == 1; }));
    held.give_back();
    held = one.acquire({.leak_after = 1h});
    EXPECT_TRUE(eventually([&] { return suspect() == 0; }));
    b.remove(entry);
}

TEST(dashboard_leak, is_not_attributed_to_another_pool_of_the_same_name) {
    support::stopped_clock time;
    dashboard_state b;
    options settings{.name = "orders", .max = 1, .leak_after = 1h, .observers = {b.events()}};
    pool<int> healthy{[] { return 1; }, settings};
    settings.leak_after = 20ms;
    pool<int> leaky{[] { return 1; }, settings};
    auto first = b.add(healthy.control());
    auto second = b.add(leaky.control());
    auto held = healthy.acquire();
    lease<int> leaked;
    // On another thread, because this one already holds a lease.
    std::jthread([&] { leaked = leaky.acquire(); }).join();
    ASSERT_EQ(healthy.leases().at(0).resource, leaky.leases().at(0).resource);
    auto lease_of = [&](std::size_t i) { return state_of(b).at("pools").at(i).at("leases").at(0); };
    ASSERT_TRUE(eventually([&] {
        time.advance(20ms);
        return lease_of(1).at("suspect").as_bool();
    }));
    EXPECT_TRUE(support::for_a_while([&] {
        time.advance(20ms);
        return !lease_of(0).at("suspect").as_bool();
    }));

    healthy.pause();
    leaky.pause();
    auto paused = [&] {
        std::vector<std::string> names;
        auto state = state_of(b);
        for (const auto& each : state.at("events").as_array())
            if (text(each.at("kind")) == "paused") names.push_back(text(each.at("pool")));
        return names;
    };
    EXPECT_TRUE(eventually([&] { return paused().size() == 2; }));
    EXPECT_THAT(paused(), testing::UnorderedElementsAre("orders", "orders 2"));
    b.remove(first);
    b.remove(second);
}

TEST_F(watched, starts_again_if_replaced_by_another_of_its_name) {
    for (int i = 0; i < 3; ++i) {
        static_cast<void>(one.acquire());
        b.take_samples();
    }
    auto before = orders();
    b.remove(entry);
    pool<int> other{[] { return 2; }, {.name = "orders"}};
    entry = b.add(other.control());
    b.take_samples();
    auto after = orders();
    EXPECT_EQ(after.at("name"), before.at("name"));
    EXPECT_NE(after.at("id"), before.at("id"));
    EXPECT_TRUE(after.at("history").at("granted").as_array().empty());
    b.take_samples();
    EXPECT_EQ(orders().at("history").at("granted").at(0).to_number<double>(), 0);
    b.remove(entry);
}

}  // namespace
}  // namespace cenote::detail
