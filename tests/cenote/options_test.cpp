// Tests options: the documented defaults, and that errors have the option, its value and the rule.
#include "cenote/options.hpp"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/pool.hpp"

using namespace std::chrono_literals;
using cenote::options;
using testing::HasSubstr;

TEST(options, defaults_are_as_documented) {
    options o;
    EXPECT_EQ(o.name, "pool");
    EXPECT_EQ(o.max, 10U);
    EXPECT_EQ(o.min_size, 0U);
    EXPECT_EQ(o.min_idle, 0U);
    EXPECT_EQ(o.warm_up, cenote::warm_up::background);
    EXPECT_EQ(o.acquire_timeout, 5s);
    EXPECT_EQ(o.open_timeout, 10s);
    EXPECT_EQ(o.probe_timeout, 1s);
    EXPECT_EQ(o.reset_timeout, 1s);
    EXPECT_EQ(o.close_timeout, 1s);
    EXPECT_EQ(o.opening_max, 4U);
    EXPECT_EQ(o.idle_timeout, 5min);
    EXPECT_EQ(o.max_lifetime, 30min);
    EXPECT_DOUBLE_EQ(o.lifetime_jitter, 0.1);
    EXPECT_EQ(o.max_uses, std::uint64_t{cenote::forever});
    EXPECT_EQ(o.sweep_interval, 1s);
    EXPECT_EQ(o.probe_after_idle, 5s);
    EXPECT_EQ(o.reset_after, 50ms);
    EXPECT_FALSE(o.probe_on_release);
    EXPECT_EQ(o.heartbeat, std::chrono::nanoseconds::max());
    EXPECT_EQ(o.order, cenote::order::lifo);
    EXPECT_EQ(o.fairness, cenote::fairness::turns);
    EXPECT_EQ(o.bypass_for, 1ms);
    EXPECT_EQ(o.line_max, 10'000U);
    EXPECT_EQ(o.backoff, (cenote::backoff{.first = 20ms, .cap_waiting = 200ms, .cap_idle = 5s}));
    EXPECT_EQ(o.seed, 0U);
    EXPECT_TRUE(o.observers.empty());
    EXPECT_NO_THROW(cenote::validate(o));
}

namespace {

struct bad_value {
    const char* option;
    const char* value;  // a part of the message
    std::function<void(options&)> set;
};

void PrintTo(const bad_value& bad, std::ostream* to) { *to << bad.option << " = " << bad.value; }

class bad_option : public testing::TestWithParam<bad_value> {};

std::vector<bad_value> bad_values() {
    std::vector<bad_value> all{
        {"name", "\"\"", [](options& o) { o.name = ""; }},
        {"name", "\"a?b\"", [](options& o) { o.name = "a\nb"; }},
        {"name", "\"a\"b\"", [](options& o) { o.name = "a\"b"; }},
        {"name", "\"a\\b\"", [](options& o) { o.name = "a\\b"; }},
        {"name", "\"gr??n\"", [](options& o) { o.name = "grün"; }},
        {"name", "aaa", [](options& o) { o.name = std::string(101, 'a'); }},
        {"max", "0", [](options& o) { o.max = 0; }},
        {"min_size", "11", [](options& o) { o.min_size = 11; }},
        {"min_idle", "11", [](options& o) { o.min_idle = 11; }},
        {"opening_max", "0", [](options& o) { o.opening_max = 0; }},
        {"max_uses", "0", [](options& o) { o.max_uses = 0; }},
        {"bypass_for", "1000000001", [](options& o) { o.bypass_for = 1s + 1ns; }},
        {"bypass_for", "forever", [](options& o) { o.bypass_for = cenote::forever; }},
        {"lifetime_jitter", "-0.1", [](options& o) { o.lifetime_jitter = -0.1; }},
        {"lifetime_jitter", "1.5", [](options& o) { o.lifetime_jitter = 1.5; }},
        {"lifetime_jitter", "nan",
         [](options& o) { o.lifetime_jitter = std::numeric_limits<double>::quiet_NaN(); }},
    };
    struct duration {
        const char* name;
        std::chrono::nanoseconds options::* member;
    };
    for (auto [name, member] :
         {duration{"acquire_timeout", &options::acquire_timeout},
          duration{"open_timeout", &options::open_timeout},
          duration{"probe_timeout", &options::probe_timeout},
          duration{"reset_timeout", &options::reset_timeout},
          duration{"close_timeout", &options::close_timeout},
          duration{"idle_timeout", &options::idle_timeout},
          duration{"max_lifetime", &options::max_lifetime},
          duration{"sweep_interval", &options::sweep_interval},
          duration{"probe_after_idle", &options::probe_after_idle},
          duration{"reset_after", &options::reset_after},
          duration{"heartbeat", &options::heartbeat}, duration{"bypass_for", &options::bypass_for}})
        all.push_back({name, "-3", [m = member](options& o) { o.*m = -3s; }});
    struct delay {
        const char* name;
        std::chrono::nanoseconds cenote::backoff::* member;
    };
    for (auto [name, member] : {delay{"backoff.first", &cenote::backoff::first},
                                delay{"backoff.cap_waiting", &cenote::backoff::cap_waiting},
                                delay{"backoff.cap_idle", &cenote::backoff::cap_idle}})
        all.push_back({name, "-3", [m = member](options& o) { o.backoff.*m = -3s; }});
    return all;
}

}  // namespace

TEST_P(bad_option, is_refused_by_name_value_and_rule) {
    options o;
    GetParam().set(o);
    try {
        cenote::validate(o);
        FAIL() << "accepted";
    } catch (const cenote::invalid_option& e) {
        EXPECT_EQ(e.option(), GetParam().option);
        EXPECT_THAT(e.what(), HasSubstr(GetParam().option));
        EXPECT_THAT(e.what(), HasSubstr(GetParam().value));
        EXPECT_THAT(e.what(), HasSubstr("must "));
    }
}

TEST_P(bad_option, is_refused_when_the_pool_is_made) {
    options o;
    GetParam().set(o);
    int opened = 0;
    auto make = [&] { cenote::pool pool([&] { return ++opened; }, o); };
    EXPECT_THROW(make(), cenote::invalid_option);
    EXPECT_EQ(opened, 0);
}

INSTANTIATE_TEST_SUITE_P(each, bad_option, testing::ValuesIn(bad_values()));

TEST(options, forever_is_the_longest_duration_however_it_is_written) {
    std::chrono::nanoseconds copied = cenote::forever;
    std::chrono::nanoseconds braces{cenote::forever};
    std::chrono::nanoseconds parentheses(cenote::forever);
    auto cast = static_cast<std::chrono::nanoseconds>(cenote::forever);
    for (auto each : {copied, braces, parentheses, cast})
        EXPECT_EQ(each, std::chrono::nanoseconds::max());
    std::uint64_t count{cenote::forever};
    EXPECT_EQ(count, std::numeric_limits<std::uint64_t>::max());
}

TEST(options, a_null_observer_is_refused) {
    options o{.observers = {nullptr}};
    EXPECT_THROW(cenote::validate(o), cenote::invalid_option);
}

TEST(options, limits_of_the_allowed_ranges_are_accepted) {
    options o;
    o.max = 1;
    o.min_size = 1;
    o.min_idle = 1;
    o.acquire_timeout = 0s;
    o.probe_after_idle = 0s;
    o.lifetime_jitter = 0;
    o.max_uses = 1;
    o.opening_max = 1;
    o.line_max = 0;
    o.bypass_for = 0s;
    EXPECT_NO_THROW(cenote::validate(o));
    o.bypass_for = 1s;
    o.opening_max = cenote::forever;
    EXPECT_NO_THROW(cenote::validate(o));
}

TEST(options, opening_max_may_exceed_max) {
    options o{.max = 3, .min_size = 3, .warm_up = cenote::warm_up::wait};
    o.opening_max = cenote::forever;
    cenote::pool pool([] { return 1; }, o);
    EXPECT_EQ(pool.stats().idle, 3U);
    EXPECT_EQ(pool.close(10s), 0U);
}

TEST(options, of_probing_are_refused_if_the_connector_cannot_probe) {
    auto refused = [](const options& o) -> std::string {
        try {
            cenote::pool pool([] { return 1; }, o);
        } catch (const cenote::invalid_option& e) {
            EXPECT_THAT(e.what(), testing::HasSubstr("needs a connector with probe()"));
            return e.option();
        }
        return "";
    };
    EXPECT_EQ(refused({.probe_after_idle = 0s}), "probe_after_idle");
    EXPECT_EQ(refused({.probe_after_idle = 1min}), "probe_after_idle");
    EXPECT_EQ(refused({.probe_on_release = true}), "probe_on_release");
    EXPECT_EQ(refused({.heartbeat = 1ms}), "heartbeat");
    EXPECT_EQ(refused({.probe_after_idle = cenote::forever}), "");
    EXPECT_EQ(refused({}), "");
}

TEST(options, forever_is_accepted_wherever_a_limit_can_be_off) {
    options o{.acquire_timeout = cenote::forever,
              .open_timeout = cenote::forever,
              .probe_timeout = cenote::forever,
              .reset_timeout = cenote::forever,
              .close_timeout = cenote::forever,
              .idle_timeout = cenote::forever,
              .max_lifetime = cenote::forever,
              .max_uses = cenote::forever,
              .sweep_interval = cenote::forever,
              .probe_after_idle = cenote::forever,
              .heartbeat = cenote::forever};
    EXPECT_NO_THROW(cenote::validate(o));
    cenote::pool pool([] { return 1; }, o);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*pool.acquire(), 1);
    EXPECT_EQ(pool.close(10s), 0U);
}

TEST(options, a_huge_max_works) {
    cenote::pool pool([] { return 1; }, {.max = 10'000});
    EXPECT_EQ(pool.stats().max, 10'000U);
    EXPECT_EQ(*pool.acquire(), 1);
}

TEST(options, the_pool_has_the_name) {
    cenote::pool pool([] { return 1; }, {.name = "orders"});
    EXPECT_EQ(pool.name(), "orders");
}

TEST(options, invalid_option_is_an_invalid_argument_and_can_be_copied) {
    cenote::invalid_option one("max", "0", "must be at least 1");
    const std::invalid_argument& base = one;
    EXPECT_THAT(base.what(), HasSubstr("max"));
    cenote::invalid_option two = one;  // NOLINT: the copy is the test
    EXPECT_EQ(two.option(), "max");
    EXPECT_STREQ(two.what(), one.what());
}
