// What is used all the time passes over the shelf. It grows old and is looked after all the same.
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

TEST(pool_shelf, does_not_keep_what_is_too_old) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 1, .max_lifetime = 50ms, .sweep_interval = 1h}};
    EXPECT_TRUE(eventually([&] { return pool.acquire()->id >= 4; }));
}

TEST(pool_shelf, takes_nothing_back_that_grew_too_old_with_its_holder) {
    auto to = server::start();
    session_pool pool{
        connector{to},
        {.max = 1, .max_lifetime = 100ms, .lifetime_jitter = 0, .sweep_interval = 1h}};
    for (int i = 0; i < 20; ++i) (void)pool.acquire();  // now it goes over the shelf
    auto held = pool.acquire();
    support::pass(200ms);
    held.give_back();
    EXPECT_EQ(pool.acquire()->id, 2);
}

TEST(pool_shelf, hides_nothing_from_the_heartbeat) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 1, .sweep_interval = 1h, .heartbeat = 50ms}};
    for (int i = 0; i < 20; ++i) (void)pool.acquire();
    EXPECT_TRUE(eventually([&] { return to->probes >= 3; }));
}
