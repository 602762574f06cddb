// What the dashboard shows of one pool.
#include "watch/watched_pool.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "watch/dashboard_state.hpp"
#include "watch/parsed.hpp"

namespace cenote::detail {
namespace {

using namespace std::chrono_literals;
using support::eventually;
using testing::ElementsAre;
using testing::HasSubstr;

/// A dashboard with one pool, which a test makes.
struct watching : testing::Test {
    dashboard_state b;

    boost::json::value shown() { return parsed(b.json(0, false)).at("pools").at(0); }
    boost::json::value overview() { return shown().at("overview"); }
    std::string cause(const char* kind) {
        auto all = overview().at("causes").as_array();
        for (const auto& each : all)
            if (text(each.at("kind")) == kind) return text(each.at("text"));
        return "none";
    }
};

TEST_F(watching, without_details_shows_a_row) {
    pool<int> one{[] { return 1; }, {.name = "orders", .max = 3}};
    auto entry = b.add(one.control());
    auto held = one.acquire();
    auto row = parsed(b.json(0, false, std::vector<std::uint64_t>{})).at("pools").at(0);
    EXPECT_FALSE(row.as_object().contains("slots"));
    EXPECT_FALSE(row.as_object().contains("history"));
    EXPECT_EQ(row.at("overview").at("leased"), 1);
    EXPECT_EQ(row.at("overview").at("max"), 3);
    EXPECT_EQ(text(row.at("overview").at("state")), "lending");
    EXPECT_TRUE(row.at("overview").at("suspects").is_null());
    EXPECT_FALSE(row.at("overview").at("deadlock").as_bool());
    auto chosen = parsed(b.json(0, false, std::vector{entry->id})).at("pools").at(0);
    EXPECT_EQ(text(chosen.at("slots")), "L..");
    auto other = parsed(b.json(0, false, std::vector{entry->id + 1})).at("pools").at(0);
    EXPECT_FALSE(other.as_object().contains("slots"));
    b.remove(entry);
}

/// A connector whose calls fail with a text, as long as it is not null.
struct broken {
    std::shared_ptr<std::atomic<const char*>> error =
        std::make_shared<std::atomic<const char*>>(nullptr);
    bool in_open = false;
    bool in_probe = false;

    void fail_in(bool here) const {
        const char* why = *error;
        if (here && why != nullptr) throw std::runtime_error(why);
    }
    int open() const {
        fail_in(in_open);
        return 1;
    }
    void probe(int&) const { fail_in(in_probe); }
};

TEST_F(watching, shows_why_an_open_failed_without_an_observer) {
    broken server{.in_open = true};
    *server.error = "no route\nto host";
    pool<int> one{server, {.name = "orders", .acquire_timeout = 1h}};
    auto entry = b.add(one.control());
    EXPECT_EQ(cause("open_failed"), "none");
    std::stop_source stop;
    std::jthread caller([&] {
        std::error_code error;
        auto token = stop.get_token();
        auto held = one.acquire({.stop = token}, error);
    });
    ASSERT_TRUE(eventually([&] { return one.stats().open_failed > 0; }));
    b.take_samples();
    EXPECT_TRUE(eventually([&] { return cause("open_failed") == "no route to host"; }));
    *server.error = nullptr;
    caller.join();
    b.take_samples();
    EXPECT_EQ(cause("open_failed"), "no route to host") << "the last error stays";
    b.remove(entry);
}

TEST_F(watching, shows_why_a_probe_failed) {
    broken server{.in_probe = true};
    pool<int> one{server, {.name = "orders", .probe_on_release = true, .observers = {b.events()}}};
    auto entry = b.add(one.control());
    static_cast<void>(one.acquire());
    *server.error = "connection reset";
    static_cast<void>(one.acquire());
    EXPECT_TRUE(eventually([&] { return cause("probe_failed") == "connection reset"; }));
    EXPECT_EQ(cause("open_failed"), "none");
    b.remove(entry);
}

TEST_F(watching, groups_holders_and_waiters_by_call_site_and_task) {
    pool<int> one{[] { return 1; }, {.name = "orders", .max = 3}};
    auto entry = b.add(one.control());
    std::vector<lease<int>> held;
    for (const char* task : {"report", "import", "report"})
        held.push_back(one.acquire({.task = task}));
    std::stop_source stop;
    auto wait = [&](const char* task) {
        std::error_code error;
        auto token = stop.get_token();
        auto more = one.acquire({.timeout = 1h, .stop = token, .task = task}, error);
    };
    std::vector<std::jthread> callers;
    for (const char* task : {"mail", "mail", "mail", "cart"}) callers.emplace_back(wait, task);
    ASSERT_TRUE(eventually([&] { return one.stats().waiting == 4; }));
    auto tasks_in = [&](const char* part) {
        std::vector<std::string> all;
        auto now = shown();
        for (const auto& each : now.at(part).at("shown").as_array())
            all.push_back(text(each.at("task")) + ' ' +
                          std::to_string(each.at("count").to_number<int>()));
        return all;
    };
    EXPECT_TRUE(eventually([&] { return tasks_in("waiters").size() == 2; }));
    EXPECT_THAT(tasks_in("waiters"), ElementsAre("mail 3", "cart 1"));
    EXPECT_THAT(tasks_in("holders"), ElementsAre("report 2", "import 1"));
    auto first = shown().at("waiters");
    EXPECT_EQ(first.at("listed"), 4);
    EXPECT_THAT(text(first.at("shown").at(0).at("file")), HasSubstr("watched_pool_test.cpp"));
    stop.request_stop();
    callers.clear();
    EXPECT_TRUE(eventually([&] { return tasks_in("waiters").empty(); }));
    b.remove(entry);
}

TEST_F(watching, names_a_deadlock_and_the_nested_acquire_before_it) {
    pool<int> one{[] { return 1; }, {.name = "orders", .max = 1, .observers = {b.events()}}};
    auto entry = b.add(one.control());
    std::stop_source stop;
    std::jthread caller([&] {
        auto first = one.acquire();
        std::error_code error;
        auto token = stop.get_token();
        auto second = one.acquire({.timeout = 1h, .stop = token}, error);
    });
    EXPECT_TRUE(eventually([&] { return overview().at("deadlock").as_bool(); }));
    EXPECT_TRUE(
        eventually([&] { return cause("nested_acquire").find("watched_pool_test.cpp:") == 0; }));
    stop.request_stop();
    caller.join();
    EXPECT_TRUE(eventually([&] { return !overview().at("deadlock").as_bool(); }));
    b.remove(entry);
}

TEST_F(watching, names_the_oldest_suspect_in_the_row) {
    pool<int> one{[] { return 1; },
                  {.name = "orders", .max = 2, .leak_after = 20ms, .observers = {b.events()}}};
    auto entry = b.add(one.control());
    auto held = one.acquire({.task = "export"});
    EXPECT_TRUE(eventually([&] { return overview().at("suspects").is_object(); }));
    auto suspects = overview().at("suspects");
    EXPECT_EQ(suspects.at("count"), 1);
    EXPECT_EQ(text(suspects.at("task")), "export");
    EXPECT_THAT(text(suspects.at("site")), HasSubstr("watched_pool_test.cpp:"));
    EXPECT_EQ(shown().at("holders").at("shown").at(0).at("suspects"), 1);
    held.give_back();
    EXPECT_TRUE(eventually([&] { return overview().at("suspects").is_null(); }));
    b.remove(entry);
}

}  // namespace
}  // namespace cenote::detail
