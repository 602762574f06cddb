// Tests pool_control, the handle for monitoring and control, and the list of slots.
#include "cenote/pool_control.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/metrics.hpp"
#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using cenote::pool_state;
using cenote::slot_info;
using cenote::slot_state;
using support::connector;
using support::eventually;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

std::vector<slot_state> states_of(const std::vector<slot_info>& all) {
    std::vector<slot_state> states;
    std::ranges::transform(all, std::back_inserter(states), &slot_info::state);
    return states;
}

TEST(pool_control, does_what_the_pool_does) {
    auto s = server::start();
    session_pool pool(connector{s}, {.name = "orders", .max = 2});
    cenote::pool_control it = pool.control();
    EXPECT_EQ(it.name(), "orders");
    {
        auto lease = pool.acquire();
        EXPECT_EQ(it.stats().leased, 1u);
        ASSERT_EQ(it.leases().size(), 1u);
        EXPECT_EQ(it.leases()[0].site.line(), __LINE__ - 3u);
        EXPECT_EQ(it.slots()[0].resource, it.leases()[0].resource);
    }
    it.pause();
    EXPECT_FALSE(pool.try_acquire());
    it.resume();
    EXPECT_TRUE(pool.try_acquire());
    it.deactivate();
    EXPECT_THROW(std::ignore = pool.acquire(), cenote::unavailable_error);
    EXPECT_GT(it.retry_after(), 0ns);
    it.recover();
    EXPECT_EQ(pool.stats().breaker, cenote::breaker_state::recovering);
    it.activate();
    EXPECT_TRUE(pool.acquire());
    it.resize(5);
    EXPECT_EQ(pool.stats().max, 5u);
    // retire_all() does not retire a resource that is being opened.
    ASSERT_TRUE(eventually([&] { return it.stats().opening == 0; }));
    std::uint64_t open = it.stats().total;
    it.retire_all();
    EXPECT_TRUE(eventually(
        [&] { return pool.stats().retired(cenote::retire_reason::generation) == open; }));
    EXPECT_NO_THROW(it.suspect_all());
}

TEST(pool_control, tells_whether_the_pool_lends) {
    auto s = server::start();
    session_pool pool(connector{s}, {});
    cenote::pool_control it = pool.control();
    EXPECT_EQ(it.stats().state, pool_state::lending);
    it.pause();
    EXPECT_EQ(it.stats().state, pool_state::paused);
    it.resume();
    EXPECT_EQ(it.stats().state, pool_state::lending);
    it.pause();
    pool.close();
    EXPECT_EQ(it.stats().state, pool_state::closed);
    EXPECT_STREQ(to_string(it.stats().state), "closed");
}

TEST(pool_control, is_enough_for_metrics) {
    auto s = server::start();
    session_pool pool(connector{s}, {.name = "orders"});
    cenote::metrics all;
    auto entry = all.add(pool.control());
    EXPECT_NE(all.prometheus().find("cenote_pool_max{pool=\"orders\"} 10"), std::string::npos);
}

TEST(pool_slots, list_every_slot_at_a_fixed_index) {
    auto s = server::start();
    session_pool pool(connector{s}, {.max = 4, .warm_up = cenote::warm_up::none});
    EXPECT_EQ(states_of(pool.slots()), std::vector(4, slot_state::vacant));
    auto first = pool.acquire();
    auto second = pool.acquire();
    std::vector<slot_info> both = pool.slots();
    EXPECT_EQ(std::ranges::count(both, slot_state::leased, &slot_info::state), 2);
    first.give_back();
    std::vector<slot_info> one = pool.slots();
    EXPECT_EQ(std::ranges::count(one, slot_state::leased, &slot_info::state), 1);
    // The resource is on the shelf, which counts as idle.
    EXPECT_EQ(std::ranges::count(one, slot_state::idle, &slot_info::state), 1);
    for (std::size_t i = 0; i < both.size(); ++i) EXPECT_EQ(one[i].resource, both[i].resource) << i;
}

TEST(pool_slots, show_an_open_in_flight) {
    auto s = server::start();
    support::latch opens;
    opens.close();
    s->on_open = [opens](int) { opens.wait(); };
    session_pool pool(connector{s}, {.max = 2, .min_size = 1});
    ASSERT_TRUE(eventually([&] { return pool.slots()[0].state == slot_state::opening; }));
    EXPECT_EQ(pool.slots()[0].resource, 0u);
    opens.open();
    ASSERT_TRUE(eventually([&] { return pool.slots()[0].state == slot_state::idle; }));
    EXPECT_NE(pool.slots()[0].resource, 0u);
}

TEST(pool_slots, include_leases_beyond_a_smaller_max) {
    auto s = server::start();
    session_pool pool(connector{s}, {.max = 3});
    auto all = pool.acquire_many(3);
    pool.resize(1);
    EXPECT_EQ(states_of(pool.slots()), std::vector(3, slot_state::leased));
    all.clear();
    EXPECT_TRUE(eventually([&] {
        std::vector<slot_info> left = pool.slots();
        auto none = std::ranges::count(left, slot_state::vacant, &slot_info::state);
        return left.size() - static_cast<std::size_t>(none) == 1;
    }));
}

TEST(pool_slots, states_and_errors_have_names) {
    EXPECT_STREQ(to_string(slot_state::vacant), "vacant");
    EXPECT_STREQ(to_string(slot_state::closing), "closing");
    EXPECT_STREQ(to_string(cenote::errc::timed_out), "timed_out");
    EXPECT_STREQ(to_string(cenote::errc::deadlock), "deadlock");
}

}  // namespace
