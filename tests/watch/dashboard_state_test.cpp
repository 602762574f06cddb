// What the dashboard remembers of pools, and how it tells it.
#include "watch/dashboard_state.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
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

namespace cenote::detail {
namespace {

using namespace std::chrono_literals;
using support::eventually;
using testing::HasSubstr;

boost::json::value parsed(const std::string& text) { return boost::json::parse(text); }

boost::json::value state_of(board& b, std::uint64_t since = 0) {
    return parsed(b.json(since, false));
}

std::string text(const boost::json::value& v) { return std::string(v.as_string()); }

event told(event_kind kind, std::uint64_t resource = 1, const char* pool = "orders") {
    event e;
    e.kind = kind;
    e.pool = pool;
    e.resource = resource;
    return e;
}

struct watched : testing::Test {
    board b;
    pool<int> one{[] { return 1; }, {.name = "orders", .max = 3, .observers = {b.told()}}};
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

TEST_F(watched, shows_what_is_done_to_it) {
    EXPECT_EQ(b.carry_out({"orders", pool_action::pause}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("state")), "paused");
    EXPECT_EQ(b.carry_out({"orders", pool_action::resume}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("state")), "lending");
    EXPECT_EQ(b.carry_out({"orders", pool_action::deactivate}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("breaker")), "inactive");
    EXPECT_EQ(b.carry_out({"orders", pool_action::recover}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("breaker")), "recovering");
    EXPECT_EQ(b.carry_out({"orders", pool_action::activate}).status, 200);
    EXPECT_EQ(text(orders().at("stats").at("breaker")), "active");
    EXPECT_EQ(b.carry_out({"orders", pool_action::resize, 5}).status, 200);
    EXPECT_EQ(text(orders().at("slots")).size(), 5);
    EXPECT_EQ(b.carry_out({"orders", pool_action::resize, 2}).status, 200);
    EXPECT_EQ(text(orders().at("slots")).size(), 2) << "places that are no more are not shown";
    static_cast<void>(one.acquire());
    EXPECT_EQ(b.carry_out({"orders", pool_action::retire_all}).status, 200);
    EXPECT_TRUE(eventually([&] { return one.stats().retired(retire_reason::generation) == 1; }));
    EXPECT_EQ(b.carry_out({"orders", pool_action::suspect_all}).status, 200);
}

TEST_F(watched, says_why_something_cannot_be_done) {
    auto no = b.carry_out({"orders", pool_action::resize, 0});
    EXPECT_EQ(no.status, 422);
    EXPECT_THAT(no.error, HasSubstr("max"));
    EXPECT_EQ(b.carry_out({"others", pool_action::pause}).status, 404);
    EXPECT_EQ(one.stats().state, pool_state::lending);
}

TEST_F(watched, is_gone_when_its_entry_is) {
    b.remove(entry);
    EXPECT_TRUE(state_of(b).at("pools").as_array().empty());
    EXPECT_EQ(b.carry_out({"orders", pool_action::pause}).status, 404);
    b.look();
}

/// Does something as soon as it has a lease.
support::task once_it_has_a_lease(pool<int>& from, const std::function<void()>* something) {
    auto held = co_await from.co_acquire();
    (*something)();
}

/// Somebody waits for a paused pool, and gets a lease on the thread that resumes it.
struct waited_for : watched {
    waited_for() {
        static_cast<void>(one.acquire());
        one.pause();
    }
};

TEST_F(waited_for, may_be_taken_off_by_whoever_it_resumes) {
    std::function<void()> take_off = [&] { b.remove(entry); };
    auto waiter = once_it_has_a_lease(one, &take_off);
    waiter.start();
    ASSERT_FALSE(waiter.done());
    EXPECT_EQ(b.carry_out({"orders", pool_action::resume}).status, 200);
    EXPECT_TRUE(waiter.done());
    EXPECT_TRUE(state_of(b).at("pools").as_array().empty());
}

TEST_F(waited_for, is_taken_off_by_others_when_nothing_is_done_to_it) {
    support::door busy;
    std::function<void()> block = [&] { busy.pass_through(); };
    auto waiter = once_it_has_a_lease(one, &block);
    waiter.start();
    std::jthread acting(
        [&] { EXPECT_EQ(b.carry_out({"orders", pool_action::resume}).status, 200); });
    ASSERT_TRUE(eventually([&] { return busy.waiting() == 1; }));
    EXPECT_EQ(orders().at("stats").at("leased"), 1) << "others may look";
    EXPECT_EQ(b.carry_out({"orders", pool_action::pause}).status, 409);
    std::atomic<bool> off{false};
    std::jthread leaving([&] {
        b.remove(entry);
        off = true;
    });
    EXPECT_TRUE(support::for_a_while([&] { return !off; }));
    busy.open();
    EXPECT_TRUE(eventually([&] { return off.load(); }));
    acting.join();
    EXPECT_TRUE(waiter.done());
}

TEST_F(watched, has_a_number_if_the_name_is_taken) {
    pool<int> two{[] { return 2; }, {.name = "orders"}};
    auto second = b.add(two.control());
    EXPECT_EQ(second->name, "orders 2");
    EXPECT_EQ(b.carry_out({"orders 2", pool_action::pause}).status, 200);
    EXPECT_EQ(two.stats().state, pool_state::paused);
    EXPECT_EQ(one.stats().state, pool_state::lending);
    b.remove(second);
}

TEST_F(watched, has_a_history_from_which_the_known_is_left_out) {
    b.look();
    EXPECT_TRUE(orders().at("history").at("granted").as_array().empty()) << "nothing to compare";
    for (int i = 0; i < 3; ++i) {
        static_cast<void>(one.acquire());
        b.look();
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

TEST_F(watched_at_times, is_looked_at_closely_no_more_often_than_anybody_can_see) {
    EXPECT_EQ(text(orders().at("slots")), "...");
    auto first = entry->looked_closely;
    auto held = one.acquire();
    time.advance(249ms);
    for (int i = 0; i < 20; ++i) state_of(b);
    EXPECT_EQ(entry->looked_closely, first);
    time.advance(1ms);
    EXPECT_EQ(text(orders().at("slots")), "L..");
}

TEST(dashboard_leak, is_marked_until_its_lease_ends) {
    board b;
    pool<int> one{[] { return 1; },
                  {.name = "orders", .max = 1, .leak_after = 20ms, .observers = {b.told()}}};
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

TEST(dashboard_leak, is_not_that_of_another_pool_with_the_same_name) {
    support::stopped_clock time;
    board b;
    options settings{.name = "orders", .max = 1, .leak_after = 1h, .observers = {b.told()}};
    pool<int> well{[] { return 1; }, settings};
    settings.leak_after = 20ms;
    pool<int> leaky{[] { return 1; }, settings};
    auto first = b.add(well.control());
    auto second = b.add(leaky.control());
    auto held = well.acquire();
    lease<int> leaked;
    // On a thread of its own: this one already has a lease.
    std::jthread([&] { leaked = leaky.acquire(); }).join();
    ASSERT_EQ(well.leases().at(0).resource, leaky.leases().at(0).resource);
    auto lease_of = [&](std::size_t i) { return state_of(b).at("pools").at(i).at("leases").at(0); };
    ASSERT_TRUE(eventually([&] {
        time.advance(20ms);
        return lease_of(1).at("suspect").as_bool();
    }));
    EXPECT_TRUE(support::for_a_while([&] {
        time.advance(20ms);
        return !lease_of(0).at("suspect").as_bool();
    }));

    well.pause();
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

TEST_F(watched, begins_anew_if_replaced_by_another_of_its_name) {
    for (int i = 0; i < 3; ++i) {
        static_cast<void>(one.acquire());
        b.look();
    }
    auto before = orders();
    b.remove(entry);
    pool<int> other{[] { return 2; }, {.name = "orders"}};
    entry = b.add(other.control());
    b.look();
    auto after = orders();
    EXPECT_EQ(after.at("name"), before.at("name"));
    EXPECT_NE(after.at("id"), before.at("id"));
    EXPECT_TRUE(after.at("history").at("granted").as_array().empty());
    b.look();
    EXPECT_EQ(orders().at("history").at("granted").at(0).to_number<double>(), 0);
    b.remove(entry);
}

TEST(dashboard_sample, is_what_lies_between_two_looks) {
    stats before;
    before.granted = 100;
    before.wait.buckets[histogram::bucket_of(1s)] = 50;
    stats after = before;
    after.granted = 150;
    after.refused_by_reason[0] = 5;
    after.leased = 3;
    after.waiting = 2;
    after.wait.buckets[histogram::bucket_of(1ms)] += 99;
    after.wait.buckets[histogram::bucket_of(10ms)] += 1;
    sample s = between(before, after, 0.5);
    EXPECT_EQ(s.granted, 100);
    EXPECT_EQ(s.refused, 10);
    EXPECT_EQ(s.leased, 3);
    EXPECT_EQ(s.waiting, 2);
    EXPECT_NEAR(s.wait_p50, 1e-3, 0.3e-3);
    EXPECT_LT(s.wait_p99, 0.02);
    EXPECT_TRUE(std::isnan(s.hold_p50)) << "nothing was given back";
}

TEST(dashboard_sample, never_goes_below_zero) {
    stats before;
    before.granted = 10;
    before.refused_by_reason[1] = 5;
    before.wait.buckets[3] = 7;
    EXPECT_EQ(between(before, stats{}, 0).granted, 0);
    sample s = between(before, stats{}, 1);
    EXPECT_EQ(s.granted, 0);
    EXPECT_EQ(s.refused, 0);
    EXPECT_TRUE(std::isnan(s.wait_p50));
}

TEST(dashboard_history, keeps_five_minutes) {
    history h;
    for (std::uint64_t i = 1; i <= 1000; ++i) h.add(i, {.granted = static_cast<double>(i)});
    auto all = parsed(h.json(0));
    EXPECT_EQ(all.at("first"), 701);
    EXPECT_EQ(all.at("granted").as_array().size(), 300);
    EXPECT_EQ(all.at("granted").at(299).to_number<int>(), 1000);
}

TEST(chronicle, wants_nothing_that_costs_the_fast_lane) {
    chronicle c;
    EXPECT_FALSE(c.wants(event_kind::acquired));
    EXPECT_FALSE(c.wants(event_kind::released));
    EXPECT_TRUE(c.wants(event_kind::leak_suspected));
}

TEST(chronicle, tells_the_same_thing_once_and_the_latest_first) {
    chronicle c;
    for (std::uint64_t i = 1; i <= 1000; ++i) c.on_event(told(event_kind::opened, i));
    c.on_event(told(event_kind::paused));
    c.on_event(told(event_kind::opened, 1001));
    c.on_event(told(event_kind::opened, 1, "others"));
    auto all = parsed(c.json()).as_array();
    ASSERT_EQ(all.size(), 3);
    EXPECT_EQ(text(all[0].at("pool")), "others");
    EXPECT_THAT(text(all[1].at("text")), HasSubstr("resource 1001"));
    EXPECT_EQ(all[1].at("times"), 1001);
    EXPECT_EQ(text(all[2].at("kind")), "paused");
}

TEST(chronicle, has_words_for_every_kind_and_an_end) {
    chronicle c;
    for (int round = 0; round < 20; ++round)
        for (std::size_t i = 0; i < event_kind_count; ++i) {
            event e = told(static_cast<event_kind>(i));
            e.error = errc::timed_out;
            e.cause = std::make_exception_ptr(std::runtime_error(
                "line one\nline \"two\" \xff " + std::to_string(round) + std::string(2000, 'x')));
            e.task = "<b>task</b>";
            c.on_event(e);
        }
    std::string json = c.json();
    auto all = parsed(json).as_array();
    EXPECT_LE(all.size(), chronicle::most);
    EXPECT_LT(json.size(), 100'000);
    for (const auto& each : all) EXPECT_FALSE(text(each.at("text")).empty());
}

}  // namespace
}  // namespace cenote::detail
