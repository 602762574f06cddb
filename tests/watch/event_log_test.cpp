// What the dashboard remembers of the events of pools.
#include "watch/event_log.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

#include "watch/parsed.hpp"

namespace cenote::detail {
namespace {

using testing::HasSubstr;

event event_of(event_kind kind, std::uint64_t resource = 1, const char* pool = "orders") {
    event e;
    e.kind = kind;
    e.pool = pool;
    e.resource = resource;
    return e;
}

event failure_of(event_kind kind, const char* why, const char* pool = "orders") {
    event e = event_of(kind, 1, pool);
    if (why != nullptr) e.cause = std::make_exception_ptr(std::runtime_error(why));
    return e;
}

TEST(event_log, wants_no_event_that_costs_the_fast_lane) {
    event_log c;
    EXPECT_FALSE(c.wants(event_kind::acquired));
    EXPECT_FALSE(c.wants(event_kind::released));
    EXPECT_FALSE(c.wants(event_kind::waited));
    EXPECT_TRUE(c.wants(event_kind::leak_suspected));
}

TEST(event_log, counts_repetitions_and_lists_the_latest_first) {
    event_log c;
    for (std::uint64_t i = 1; i <= 1000; ++i) c.on_event(event_of(event_kind::opened, i));
    c.on_event(event_of(event_kind::paused));
    c.on_event(event_of(event_kind::opened, 1001));
    c.on_event(event_of(event_kind::opened, 1, "others"));
    auto all = parsed(c.json()).as_array();
    ASSERT_EQ(all.size(), 3);
    EXPECT_EQ(text(all[0].at("pool")), "others");
    EXPECT_THAT(text(all[1].at("text")), HasSubstr("resource 1001"));
    EXPECT_EQ(all[1].at("times"), 1001);
    EXPECT_EQ(text(all[2].at("kind")), "paused");
}

TEST(event_log, has_a_text_for_every_kind_and_is_bounded) {
    event_log c;
    for (int round = 0; round < 20; ++round)
        for (std::size_t i = 0; i < event_kind_count; ++i) {
            event e = event_of(static_cast<event_kind>(i));
            e.error = errc::timed_out;
            e.cause = std::make_exception_ptr(std::runtime_error(
                "line one\nline \"two\" \xff " + std::to_string(round) + std::string(2000, 'x')));
            e.task = "<b>task</b>";
            c.on_event(e);
        }
    std::string json = c.json();
    auto all = parsed(json).as_array();
    EXPECT_LE(all.size(), event_log::size_max);
    EXPECT_LT(json.size(), 100'000);
    for (const auto& each : all) EXPECT_FALSE(text(each.at("text")).empty());
}

TEST(event_log, keeps_the_last_error_of_each_kind_for_each_pool) {
    event_log c;
    const char* orders = "orders";
    const char* others = "others";
    EXPECT_TRUE(c.causes_of(orders).empty());
    c.on_event(failure_of(event_kind::open_failed, "refused", orders));
    c.on_event(failure_of(event_kind::probe_failed, nullptr, orders));
    c.on_event(failure_of(event_kind::reset_failed, "reset", others));
    c.on_event(failure_of(event_kind::open_failed, "no\nroute", orders));
    c.on_event(event_of(event_kind::opened, 1, orders));
    auto all = c.causes_of(orders);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_GE(all[0].at, all[1].at) << "the latest first";
    const cause& open = all[0].kind == event_kind::open_failed ? all[0] : all[1];
    EXPECT_EQ(open.text, "no route");
    EXPECT_EQ(open.times, 2U);
    ASSERT_EQ(c.causes_of(others).size(), 1U);
    EXPECT_EQ(c.causes_of(others)[0].text, "reset");
    c.forget(orders);
    EXPECT_TRUE(c.causes_of(orders).empty());
    EXPECT_EQ(c.causes_of(others).size(), 1U);
}

TEST(event_log, knows_which_pools_have_leaks) {
    event_log c;
    const char* orders = "orders";
    EXPECT_FALSE(c.has_leaks(orders));
    auto before = std::chrono::steady_clock::now();
    c.on_event(event_of(event_kind::leak_suspected, 7, orders));
    EXPECT_TRUE(c.has_leaks(orders));
    EXPECT_TRUE(c.is_suspect(orders, 7, before));
    EXPECT_FALSE(c.is_suspect(orders, 8, before));
    EXPECT_FALSE(c.is_suspect("others", 7, before));
    EXPECT_FALSE(c.is_suspect(orders, 7, std::chrono::steady_clock::now() + std::chrono::hours(1)));
}

TEST(event_log, forgets_the_pool_that_was_quiet_longest) {
    event_log c;
    std::string names(event_log::pools_max + 1, 'p');  // each byte is the address of a pool
    for (std::size_t i = 0; i < event_log::pools_max; ++i)
        c.on_event(failure_of(event_kind::open_failed, "down", &names[i]));
    c.on_event(failure_of(event_kind::open_failed, "still down", names.data()));
    c.on_event(failure_of(event_kind::open_failed, "down", &names[event_log::pools_max]));
    EXPECT_EQ(c.causes_of(names.data()).size(), 1U);
    EXPECT_TRUE(c.causes_of(&names[1]).empty());
    EXPECT_EQ(c.causes_of(&names[event_log::pools_max]).size(), 1U);
}

}  // namespace
}  // namespace cenote::detail
