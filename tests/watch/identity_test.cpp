// What the dashboard says of the program and of the options of its pools.
#include "watch/identity.hpp"

#include <chrono>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>

#include "cenote/breaker.hpp"
#include "cenote/version.hpp"
#include "watch/event_log.hpp"
#include "watch/parsed.hpp"

namespace cenote::detail {
namespace {

using namespace std::chrono_literals;

/// The value of an option, and its default after a slash if it differs.
std::string shown(const options& in_force, const std::string& name) {
    auto all = parsed(options_json(in_force));
    for (const auto& each : all.as_array()) {
        if (text(each.at("name")) != name) continue;
        std::string value = text(each.at("value"));
        return each.at("default").is_null() ? value : value + " / " + text(each.at("default"));
    }
    return "missing";
}

TEST(dashboard_identity, shows_values_in_units_that_people_use) {
    options o;
    EXPECT_EQ(shown(o, "max"), "10");
    EXPECT_EQ(shown(o, "acquire_timeout"), "5 s");
    EXPECT_EQ(shown(o, "idle_timeout"), "5 min");
    EXPECT_EQ(shown(o, "reset_after"), "50 ms");
    EXPECT_EQ(shown(o, "heartbeat"), "forever");
    EXPECT_EQ(shown(o, "max_uses"), "forever");
    EXPECT_EQ(shown(o, "lifetime_jitter"), "0.1");
    EXPECT_EQ(shown(o, "warm_up"), "background");
    EXPECT_EQ(shown(o, "fairness"), "turns");
    EXPECT_EQ(shown(o, "shed"), "off");
    EXPECT_EQ(shown(o, "open_rate"), "no limit");
    EXPECT_EQ(shown(o, "observers"), "none");
    EXPECT_EQ(shown(o, "backoff"), "20 ms to 200 ms while callers wait, to 5 s otherwise");
}

TEST(dashboard_identity, shows_what_was_changed) {
    options o{.name = "orders",
              .max = 32,
              .warm_up = warm_up::wait,
              .acquire_timeout = 1500ms,
              .open_rate = {.per_second = 20, .burst = 5},
              .idle_timeout = 90s,
              .probe_after_idle = 0s,
              .heartbeat = 1h,
              .order = order::fifo,
              .fairness = fairness::strict,
              .shed = {.target = 25us},
              .refuse_on_loop = true,
              .breaker = std::make_shared<threshold_breaker>(),
              .open_errors = open_errors::fail_fast,
              .observers = {std::make_shared<event_log>()}};
    EXPECT_EQ(shown(o, "name"), "orders / pool");
    EXPECT_EQ(shown(o, "max"), "32 / 10");
    EXPECT_EQ(shown(o, "warm_up"), "wait / background");
    EXPECT_EQ(shown(o, "acquire_timeout"), "1.5 s / 5 s");
    EXPECT_EQ(shown(o, "open_rate"), "20 per second, burst 5 / no limit");
    EXPECT_EQ(shown(o, "idle_timeout"), "90 s / 5 min");
    EXPECT_EQ(shown(o, "probe_after_idle"), "0 / 5 s");
    EXPECT_EQ(shown(o, "heartbeat"), "1 h / forever");
    EXPECT_EQ(shown(o, "order"), "fifo / lifo");
    EXPECT_EQ(shown(o, "fairness"), "strict / turns");
    EXPECT_EQ(shown(o, "shed"), "target 25 µs, interval 100 ms / off");
    EXPECT_EQ(shown(o, "refuse_on_loop"), "true / as the library was built");
    EXPECT_EQ(shown(o, "breaker"), "set / none");
    EXPECT_EQ(shown(o, "open_errors"), "fail_fast / retry");
    EXPECT_EQ(shown(o, "observers"), "1 / none");
}

/// The members of `struct options` in the header.
std::set<std::string> declared_options() {
    std::ifstream header(CENOTE_TEST_SOURCE "/include/cenote/options.hpp");
    std::set<std::string> names;
    bool inside = false;
    const std::regex member(R"(^    [A-Za-z_:<>0-9]+ ([a-z_]+) = .*;.*)");
    for (std::string line; std::getline(header, line);) {
        if (line == "struct options {") inside = true;
        if (line == "};") inside = false;
        std::smatch found;
        if (inside && std::regex_match(line, found, member)) names.insert(found[1]);
    }
    return names;
}

TEST(dashboard_identity, shows_every_option) {
    std::set<std::string> all = declared_options();
    EXPECT_GT(all.size(), 30U);
    std::set<std::string> listed;
    auto shown = parsed(options_json({}));
    for (const auto& each : shown.as_array()) listed.insert(text(each.at("name")));
    EXPECT_EQ(listed, all);
}

TEST(dashboard_identity, names_the_program_and_its_process) {
    auto before = std::chrono::system_clock::now();
    auto now = parsed(process_json());
    EXPECT_EQ(now.at("pid"), ::getpid());
    EXPECT_EQ(text(now.at("version")), version_text);
    EXPECT_THAT(text(now.at("program")), testing::StartsWith("dashboard_state"));
    EXPECT_FALSE(text(now.at("host")).empty());
    auto started = process_start(before);
    EXPECT_LE(started, before + 1s) << "a tick is 10 ms";
    EXPECT_GT(started, before - 1h) << "this test does not run that long";
    EXPECT_NE(started, before) << "the system was asked";
}

}  // namespace
}  // namespace cenote::detail
