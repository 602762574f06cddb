// Who is let in to the dashboard, and what is understood.
#include "watch/dashboard_request.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cenote::detail {
namespace {

constexpr const char* read_token = "a-token-for-reading";
constexpr const char* control_token = "a-token-for-controlling";

/// A request that is as it should be, but for what a test changes.
struct letter {
    std::string method = "GET";
    std::string target = "/state";
    std::vector<std::pair<std::string, std::string>> fields = {{"Host", "127.0.0.1:8080"}};
    std::string body = {};

    letter with(std::string name, std::string value) const {
        letter other = *this;
        other.fields.emplace_back(std::move(name), std::move(value));
        return other;
    }
    letter to(std::string target_) const {
        letter other = *this;
        other.target = std::move(target_);
        return other;
    }
    letter by(std::string method_) const {
        letter other = *this;
        other.method = std::move(method_);
        return other;
    }
    letter saying(std::string body_) const {
        letter other = *this;
        other.body = std::move(body_);
        return other;
    }
    letter host(std::string name) const {
        letter other = *this;
        other.fields[0].second = std::move(name);
        return other;
    }
};

house_rules rules(bool reading = false, bool controlling = true) {
    house_rules all;
    all.hosts = {"127.0.0.1:8080", "localhost:8080", "ops.example.com"};
    all.files = {"/", "/dashboard.js"};
    if (reading) all.read_token = secret(read_token);
    if (controlling) all.control_token = secret(control_token);
    return all;
}

asked understood(const letter& l, const house_rules& by = rules()) {
    std::vector<header_field> fields;
    for (const auto& [name, value] : l.fields) fields.push_back({name, value});
    asked a = understand({l.method, l.target, fields, l.body}, by);
    // Views into the letter, which is gone when the test looks.
    static std::string file;
    static std::string none_match;
    file = a.file;
    none_match = a.if_none_match;
    a.file = file;
    a.if_none_match = none_match;
    return a;
}

unsigned status_of(const letter& l, const house_rules& by = rules()) {
    return understood(l, by).status;
}

const letter look;
const letter pause =
    letter{.method = "POST", .target = "/control", .body = R"({"pool":"orders","action":"pause"})"}
        .with("Content-Type", "application/json")
        .with("Authorization", std::string("Bearer ") + control_token);

TEST(dashboard_request, finds_the_page_and_its_files) {
    EXPECT_EQ(understood(look.to("/")).what, wanted::file);
    EXPECT_EQ(understood(look.to("/dashboard.js")).file, "/dashboard.js");
    EXPECT_EQ(understood(look.to("/").by("HEAD")).status, 200);
    EXPECT_EQ(understood(look.to("/").with("If-None-Match", "\"x\"")).if_none_match, "\"x\"");
}

TEST(dashboard_request, finds_the_state_since_a_sample) {
    EXPECT_EQ(understood(look).what, wanted::state);
    EXPECT_EQ(understood(look).since, 0);
    EXPECT_EQ(understood(look.to("/state?since=17")).since, 17);
    for (const char* bad :
         {"/state?since=", "/state?since=-1", "/state?since=1x", "/state?sinc=1", "/state?x",
          "/state?since=99999999999999999999999", "/state?since=1&since=2"})
        EXPECT_EQ(status_of(look.to(bad)), 400) << bad;
}

TEST(dashboard_request, knows_no_other_path) {
    for (const char* other :
         {"", "*", "/index.html", "/../etc/passwd", "/..%2f..%2fetc/passwd", "//", "/./",
          "/dashboard.js/", "/Dashboard.js", "/state/", "http://127.0.0.1:8080/state", "/%73tate",
          "/dashboard.js?x", "/control?x"})
        EXPECT_EQ(status_of(look.to(other)), 404) << other;
}

TEST(dashboard_request, is_served_only_under_its_own_names) {
    EXPECT_EQ(status_of(look.host("LOCALHOST:8080")), 200);
    EXPECT_EQ(status_of(look.host("ops.example.com")), 200);
    for (const char* other :
         {"", "127.0.0.1", "127.0.0.1:8081", "evil.example.com:8080",
          "127.0.0.1:8080.evil.example.com", "ops.example.com:8080", "localhost"})
        for (const letter& any : {look, look.to("/"), pause})
            EXPECT_EQ(status_of(any.host(other)), 421) << other;
    letter nameless = look;
    nameless.fields.clear();
    EXPECT_EQ(status_of(nameless), 400);
}

TEST(dashboard_request, has_each_field_that_matters_once) {
    for (const char* twice : {"Host", "host", "Origin", "Authorization", "Content-Type"}) {
        letter doubled =
            pause.with("Origin", "http://127.0.0.1:8080").with(twice, "127.0.0.1:8080");
        EXPECT_EQ(status_of(doubled), 400) << twice;
    }
    EXPECT_EQ(
        status_of(pause.with("Origin", "http://127.0.0.1:8080").with("X-Y", "1").with("X-Y", "2")),
        200);
}

TEST(dashboard_request, comes_from_the_page_itself_or_from_no_page) {
    for (const letter& any : {look, pause}) {
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
    EXPECT_EQ(status_of(look.to("/").with("Sec-Fetch-Site", "cross-site")), 200) << "a link";
}

TEST(dashboard_request, may_look_without_a_token_unless_there_is_one) {
    house_rules locked = rules(true);
    EXPECT_EQ(status_of(look), 200);
    EXPECT_EQ(status_of(look, locked), 401);
    EXPECT_EQ(status_of(look.to("/"), locked), 200) << "the page itself tells nothing";
    auto with = [](const char* text) { return look.with("Authorization", text); };
    EXPECT_EQ(status_of(with("Bearer a-token-for-reading"), locked), 200);
    EXPECT_EQ(status_of(with("bearer a-token-for-reading"), locked), 200);
    EXPECT_EQ(status_of(with("Bearer a-token-for-controlling"), locked), 200);
    for (const char* other :
         {"", "Bearer", "Bearer ", "Bearer a-token-for-readinG", "Bearer a-token-for-readin",
          "Bearer a-token-for-reading ", "Basic a-token-for-reading", "a-token-for-reading"})
        EXPECT_EQ(status_of(with(other), locked), 401) << other;
}

TEST(dashboard_request, controls_only_with_the_control_token) {
    letter without = pause;
    without.fields.pop_back();
    EXPECT_EQ(status_of(pause), 200);
    EXPECT_EQ(status_of(without), 401);
    EXPECT_EQ(
        status_of(without.with("Authorization", std::string("Bearer ") + read_token), rules(true)),
        401);
    EXPECT_EQ(status_of(pause, rules(false, false)), 403);
    EXPECT_EQ(status_of(without.with("Authorization", "Bearer "), rules(false, false)), 403);
}

TEST(dashboard_request, controls_by_post_and_json_alone) {
    for (const char* other : {"GET", "HEAD", "PUT", "OPTIONS", "post", ""})
        EXPECT_EQ(status_of(pause.by(other)), 405) << other;
    letter plain = pause;
    plain.fields[1].second = "text/plain";
    EXPECT_EQ(status_of(plain), 415);
    plain.fields[1].second = "application/json; charset=utf-8";
    EXPECT_EQ(status_of(plain), 200);
    plain.fields[1].second = "application/jsonp";
    EXPECT_EQ(status_of(plain), 415);
    for (const char* other : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE"})
        EXPECT_EQ(status_of(look.by(other)), 405) << other;
    EXPECT_EQ(status_of(look.saying("x")), 400);
}

TEST(dashboard_request, understands_every_order) {
    for (std::size_t i = 0; i < pool_action_count; ++i) {
        auto action = static_cast<pool_action>(i);
        std::string max = action == pool_action::resize ? R"(,"max":12)" : "";
        asked a = understood(pause.saying(std::string(R"({"pool":"a b","action":")") +
                                          to_string(action) + '"' + max + '}'));
        ASSERT_EQ(a.status, 200) << to_string(action);
        EXPECT_EQ(a.what, wanted::control);
        EXPECT_EQ(a.order.pool, "a b");
        EXPECT_EQ(a.order.action, action);
        EXPECT_EQ(a.order.max, max.empty() ? 0 : 12);
    }
    asked odd =
        understood(pause.saying(R"( { "action" : "pause" , "pool" : "\u00e9\n\ud83d\ude00\"" } )"));
    EXPECT_EQ(odd.order.pool, "é\n😀\"");
}

TEST(dashboard_request, understands_no_other_order) {
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
        EXPECT_EQ(status_of(pause.saying(other)), 400) << other;
}

}  // namespace
}  // namespace cenote::detail
