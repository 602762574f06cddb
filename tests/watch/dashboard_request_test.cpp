// Which requests to the dashboard are allowed, and how they are parsed.
#include "watch/dashboard_request.hpp"

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "watch/history.hpp"

namespace cenote::detail {
namespace {

constexpr const char* read_token = "a-token-for-reading";
constexpr const char* control_token = "a-token-for-controlling";

/// A valid request, which a test changes.
struct test_request {
    std::string method = "GET";
    std::string target = "/state";
    std::vector<std::pair<std::string, std::string>> fields = {{"Host", "127.0.0.1:8080"}};
    std::string body = {};

    test_request with(std::string name, std::string value) const {
        test_request other = *this;
        other.fields.emplace_back(std::move(name), std::move(value));
        return other;
    }
    test_request to(std::string target_) const {
        test_request other = *this;
        other.target = std::move(target_);
        return other;
    }
    test_request by(std::string method_) const {
        test_request other = *this;
        other.method = std::move(method_);
        return other;
    }
    test_request with_body(std::string body_) const {
        test_request other = *this;
        other.body = std::move(body_);
        return other;
    }
    test_request host(std::string name) const {
        test_request other = *this;
        other.fields[0].second = std::move(name);
        return other;
    }
};

access_policy policy(bool reading = false, bool controlling = true) {
    access_policy all;
    all.hosts = {"127.0.0.1:8080", "localhost:8080", "ops.example.com"};
    all.files = {"/", "/dashboard.js"};
    if (reading) all.read_token = secret(read_token);
    if (controlling) all.control_token = secret(control_token);
    return all;
}

parsed_request parsed(const test_request& r, const access_policy& by = policy()) {
    std::vector<header_field> fields;
    for (const auto& [name, value] : r.fields) fields.push_back({name, value});
    parsed_request p = parse_request({r.method, r.target, fields, r.body}, by);
    // The result refers to the request, which is destroyed before the test reads it.
    static std::string file;
    static std::string none_match;
    file = p.file;
    none_match = p.if_none_match;
    p.file = file;
    p.if_none_match = none_match;
    return p;
}

unsigned status_of(const test_request& r, const access_policy& by = policy()) {
    return parsed(r, by).status;
}

const test_request read;
const test_request pause = test_request{.method = "POST",
                                        .target = "/control",
                                        .body = R"({"pool":"orders","action":"pause"})"}
                               .with("Content-Type", "application/json")
                               .with("Authorization", std::string("Bearer ") + control_token);

TEST(dashboard_request, finds_the_page_and_its_files) {
    EXPECT_EQ(parsed(read.to("/")).kind, resource_kind::file);
    EXPECT_EQ(parsed(read.to("/dashboard.js")).file, "/dashboard.js");
    EXPECT_EQ(parsed(read.to("/").by("HEAD")).status, 200);
    EXPECT_EQ(parsed(read.to("/").with("If-None-Match", "\"x\"")).if_none_match, "\"x\"");
}

TEST(dashboard_request, finds_the_state_since_a_sample) {
    EXPECT_EQ(parsed(read).kind, resource_kind::state);
    EXPECT_EQ(parsed(read).since, 0);
    EXPECT_EQ(parsed(read.to("/state?since=17")).since, 17);
    for (const char* bad :
         {"/state?since=", "/state?since=-1", "/state?since=1x", "/state?sinc=1", "/state?x",
          "/state?since=99999999999999999999999", "/state?since=1&since=2"})
        EXPECT_EQ(status_of(read.to(bad)), 400) << bad;
}

TEST(dashboard_request, finds_the_pools_whose_details_are_wanted) {
    EXPECT_FALSE(parsed(read).details) << "all";
    EXPECT_FALSE(parsed(read.to("/state?since=1")).details);
    auto none = parsed(read.to("/state?since=1&details="));
    ASSERT_TRUE(none.details);
    EXPECT_TRUE(none.details->empty());
    auto some = parsed(read.to("/state?details=7,12&since=3"));
    EXPECT_EQ(some.since, 3);
    EXPECT_EQ(some.step, 1);
    for (std::uint64_t step : history::steps)
        EXPECT_EQ(parsed(read.to("/state?since=3&step=" + std::to_string(step))).step, step);
    EXPECT_EQ(some.details, (std::vector<std::uint64_t>{7, 12}));
    for (const char* bad : {"/state?details=1,", "/state?details=,1", "/state?details=1,,2",
                            "/state?details=a", "/state?details=1&details=2", "/state?details=1&",
                            "/state?&details=1", "/state?details=-1", "/state?step=0",
                            "/state?step=13", "/state?step=1&step=12", "/state?details=1;since=2"})
        EXPECT_EQ(status_of(read.to(bad)), 400) << bad;
}

TEST(dashboard_request, finds_metrics_and_health_if_they_are_served) {
    for (auto [path, member, kind] :
         {std::tuple("/metrics", &access_policy::metrics, resource_kind::metrics),
          std::tuple("/health", &access_policy::health, resource_kind::health)}) {
        EXPECT_EQ(status_of(read.to(path)), 404) << path;
        access_policy serving = policy();
        serving.*member = true;
        EXPECT_EQ(parsed(read.to(path), serving).status, 200) << path;
        EXPECT_EQ(parsed(read.to(path), serving).kind, kind) << path;
        EXPECT_EQ(status_of(read.to(path).by("HEAD"), serving), 200) << path;
        EXPECT_EQ(status_of(read.to(path).by("POST"), serving), 405) << path;
        EXPECT_EQ(status_of(read.to(std::string(path) + "?x"), serving), 404) << path;
        EXPECT_EQ(status_of(read.to(path).with("Origin", "http://evil.example.com"), serving), 403);
        access_policy reading = policy(true);
        reading.*member = true;
        EXPECT_EQ(status_of(read.to(path), reading), 401) << path;
        auto by = [&](const char* token) {
            return read.to(path).with("Authorization", std::string("Bearer ") + token);
        };
        EXPECT_EQ(status_of(by(read_token), reading), 200) << path;
        EXPECT_EQ(status_of(by(control_token), reading), 200) << path;
    }
}

TEST(dashboard_request, refuses_every_other_path) {
    for (const char* other :
         {"", "*", "/index.html", "/../etc/passwd", "/..%2f..%2fetc/passwd", "//", "/./",
          "/dashboard.js/", "/Dashboard.js", "/state/", "http://127.0.0.1:8080/state", "/%73tate",
          "/dashboard.js?x", "/control?x"})
        EXPECT_EQ(status_of(read.to(other)), 404) << other;
}

TEST(dashboard_request, is_served_only_under_its_own_names) {
    EXPECT_EQ(status_of(read.host("LOCALHOST:8080")), 200);
    EXPECT_EQ(status_of(read.host("ops.example.com")), 200);
    for (const char* other :
         {"", "127.0.0.1", "127.0.0.1:8081", "evil.example.com:8080",
          "127.0.0.1:8080.evil.example.com", "ops.example.com:8080", "localhost"})
        for (const test_request& any : {read, read.to("/"), pause})
            EXPECT_EQ(status_of(any.host(other)), 421) << other;
    test_request nameless = read;
    nameless.fields.clear();
    EXPECT_EQ(status_of(nameless), 400);
}

TEST(dashboard_request, must_not_repeat_relevant_fields) {
    for (const char* twice : {"Host", "host", "Origin", "Authorization", "Content-Type"}) {
        test_request doubled =
            pause.with("Origin", "http://127.0.0.1:8080").with(twice, "127.0.0.1:8080");
        EXPECT_EQ(status_of(doubled), 400) << twice;
    }
    EXPECT_EQ(
        status_of(pause.with("Origin", "http://127.0.0.1:8080").with("X-Y", "1").with("X-Y", "2")),
        200);
}

TEST(dashboard_request, must_come_from_the_page_itself_or_from_no_page) {
    for (const test_request& any : {read, pause}) {
        EXPECT_EQ(status_of(any.with("Origin", "http://127.0.0.1:8080")), 200);
        EXPECT_EQ(status_of(any.with("Sec-Fetch-Site", "same-origin")), 200);
        EXPECT_EQ(status_of(any.host("ops.example.com").with("Origin", "https://ops.example.com")),
                  200);
        for (const char* other :
             {"null", "", "http://localhost:8080", "http://127.0.0.1:8081",
              "http://evil.example.com", "https://127.0.0.1:8080.evil.example.com",
              "127.0.0.1:8080", "http://127.0.0.1:8080/"})
            EXPECT_EQ(status_of(any.with("Origin", other)), 403) << other;
        for (const char* other : {"cross-site", "same-site", "else"})
            EXPECT_EQ(status_of(any.with("Sec-Fetch-Site", other)), 403) << other;
    }
    EXPECT_EQ(status_of(read.to("/").with("Sec-Fetch-Site", "cross-site")), 200) << "a link";
}

TEST(dashboard_request, may_read_without_a_token_unless_one_is_set) {
    access_policy locked = policy(true);
    EXPECT_EQ(status_of(read), 200);
    EXPECT_EQ(status_of(read, locked), 401);
    EXPECT_EQ(status_of(read.to("/"), locked), 200) << "the page itself contains no data";
    auto with = [](const char* text) { return read.with("Authorization", text); };
    EXPECT_EQ(status_of(with("Bearer a-token-for-reading"), locked), 200);
    EXPECT_EQ(status_of(with("bearer a-token-for-reading"), locked), 200);
    EXPECT_EQ(status_of(with("Bearer a-token-for-controlling"), locked), 200);
    for (const char* other :
         {"", "Bearer", "Bearer ", "Bearer a-token-for-readinG", "Bearer a-token-for-readin",
          "Bearer a-token-for-reading ", "Basic a-token-for-reading", "a-token-for-reading"})
        EXPECT_EQ(status_of(with(other), locked), 401) << other;
}

TEST(dashboard_request, controls_only_with_the_control_token) {
    test_request without = pause;
    without.fields.pop_back();
    EXPECT_EQ(status_of(pause), 200);
    EXPECT_EQ(status_of(without), 401);
    EXPECT_EQ(
        status_of(without.with("Authorization", std::string("Bearer ") + read_token), policy(true)),
        401);
    EXPECT_EQ(status_of(pause, policy(false, false)), 403);
    EXPECT_EQ(status_of(without.with("Authorization", "Bearer "), policy(false, false)), 403);
}

TEST(dashboard_request, controls_only_by_post_with_json) {
    for (const char* other : {"GET", "HEAD", "PUT", "OPTIONS", "post", ""})
        EXPECT_EQ(status_of(pause.by(other)), 405) << other;
    test_request plain = pause;
    plain.fields[1].second = "text/plain";
    EXPECT_EQ(status_of(plain), 415);
    plain.fields[1].second = "application/json; charset=utf-8";
    EXPECT_EQ(status_of(plain), 200);
    plain.fields[1].second = "application/jsonp";
    EXPECT_EQ(status_of(plain), 415);
    for (const char* other : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE"})
        EXPECT_EQ(status_of(read.by(other)), 405) << other;
    EXPECT_EQ(status_of(read.with_body("x")), 400);
}

TEST(dashboard_request, parses_every_command) {
    for (std::size_t i = 0; i < pool_action_count; ++i) {
        auto action = static_cast<pool_action>(i);
        std::string max = action == pool_action::resize ? R"(,"max":12)" : "";
        parsed_request p = parsed(pause.with_body(std::string(R"({"pool":"a b","action":")") +
                                                  to_string(action) + '"' + max + '}'));
        ASSERT_EQ(p.status, 200) << to_string(action);
        EXPECT_EQ(p.kind, resource_kind::control);
        EXPECT_EQ(p.command.pool, "a b");
        EXPECT_EQ(p.command.action, action);
        EXPECT_EQ(p.command.max, max.empty() ? 0 : 12);
    }
    parsed_request odd =
        parsed(pause.with_body(R"( { "action" : "pause" , "pool" : "\u00e9\n\ud83d\ude00\"" } )"));
    EXPECT_EQ(odd.command.pool, "é\n😀\"");
}

TEST(dashboard_request, refuses_every_other_command) {
    for (const char* other : {"",
                              "{}",
                              "[]",
                              "null",
                              R"({"pool":"orders"})",
                              R"({"action":"pause"})",
                              R"({"pool":"orders","action":"explode"})",
                              R"({"pool":"orders","action":"pause","max":1})",
                              R"({"pool":"orders","action":"resize"})",
                              R"({"pool":"orders","action":"resize","max":"12"})",
                              R"({"pool":"orders","action":"resize","max":-1})",
                              R"({"pool":"orders","action":"resize","max":1.5})",
                              R"({"pool":"orders","action":"resize","max":1e3})",
                              R"({"pool":"orders","action":"resize","max":012})",
                              R"({"pool":"orders","action":"resize","max":99999999999999999999})",
                              R"({"pool":7,"action":"pause"})",
                              R"({"pool":"orders","action":"pause","more":1})",
                              R"({"pool":"orders","pool":"orders","action":"pause"})",
                              R"({"pool":"orders","action":"pause"}x)",
                              R"({"pool":"orders","action":"pause")",
                              R"({"pool":"orders","action":"pause",})",
                              R"({"pool":"orders" "action":"pause"})",
                              R"({"pool":"\ud800","action":"pause"})",
                              R"({"pool":"\x41","action":"pause"})",
                              R"({"pool":"\u12","action":"pause"})",
                              "{\"pool\":\"a\nb\",\"action\":\"pause\"}",
                              "{\"pool\":\"\xff\",\"action\":\"pause\"}",
                              R"({"pool":{"a":1},"action":"pause"})"})
        EXPECT_EQ(status_of(pause.with_body(other)), 400) << other;
}

}  // namespace
}  // namespace cenote::detail
