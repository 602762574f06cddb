// Tests the destructor of a pool: leases may outlive the pool, all other parts end with it.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/process.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::eventually;
using support::latch;
using support::plenty;
using support::rounds;
using support::server;
using support::session;
using support::thread_count;
using session_pool = cenote::pool<session>;

TEST(pool_destroy, a_lease_outlives_its_pool_and_closes_its_resource_at_the_end) {
    auto to = server::start();
    cenote::lease<session> lease;
    {
        session_pool pool{connector{to}};
        lease = pool.acquire();
        (void)pool.acquire();
    }
    EXPECT_EQ(lease->id, 1);
    EXPECT_EQ(to->present, 1);
    EXPECT_EQ(to->closes, 1);
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return to->present == 0; }));
    EXPECT_EQ(to->closes, 2);
}

TEST(pool_destroy, every_way_a_lease_can_end_works_without_the_pool) {
    auto to = server::start();
    cenote::lease<session> returned, discarded, dirty, detached;
    {
        session_pool pool{connector{to}};
        for (auto* l : {&returned, &discarded, &dirty, &detached}) *l = pool.acquire();
    }
    auto mine = std::make_unique<session>(detached.detach());
    returned.give_back();
    discarded.discard();
    dirty.mark_dirty();
    dirty.give_back();
    EXPECT_TRUE(eventually([&] { return to->present == 1; }));
    EXPECT_EQ(to->closes, 3);
    mine.reset();
    EXPECT_EQ(to->present, 0);
}

TEST(pool_destroy, waits_for_connector_calls_in_flight) {
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    std::jthread opener;
    {
        session_pool pool{connector{to}, {.open_timeout = plenty}};
        EXPECT_FALSE(pool.try_acquire());
        ASSERT_TRUE(eventually([&] { return to->opening == 1; }));
        opener = std::jthread([&] { opens.open(); });
    }
    EXPECT_EQ(to->present, 0) << "the result of the open is closed";
}

TEST(pool_destroy, waits_for_a_hanging_call_only_until_its_timeout) {
    support::stopped_clock time;
    auto to = server::start();
    latch opens;
    to->on_open = [opens](int) { opens.wait(); };
    std::optional<session_pool> pool;
    pool.emplace(connector{to}, cenote::options{.open_timeout = 300ms});
    EXPECT_FALSE(pool->try_acquire());
    ASSERT_TRUE(eventually([&] { return to->opening == 1; }));
    auto destroyed = std::async(std::launch::async, [&] { pool.reset(); });
    time.advance(300ms - 1ns);
    EXPECT_TRUE(support::for_a_while(
        [&] { return destroyed.wait_for(0s) == std::future_status::timeout; }));
    time.advance(1ns);
    destroyed.get();
    EXPECT_EQ(to->opening, 1);
    opens.open();
    EXPECT_TRUE(eventually([&] { return to->opened == 1 && to->present == 0; }))
        << "the late result is closed";
}

TEST(pool_destroy, leaves_no_thread_and_no_descriptor) {
    std::size_t threads = thread_count();
    std::size_t descriptors = support::descriptor_count();
    for (int i = 0; i < 10; ++i) {
        auto to = server::start();
        session_pool pool{connector{to},
                          {.max = 4,
                           .min_size = 3,
                           .acquire_timeout = plenty,
                           .sweep_interval = 1ms,
                           .heartbeat = 1ms,
                           .observers = {std::make_shared<support::recorder>()}}};
        auto lease = pool.acquire();
        EXPECT_TRUE(pool.wait_ready(plenty));
        lease.discard();
    }
    EXPECT_TRUE(eventually([&] { return thread_count() <= threads; })) << thread_count();
    EXPECT_EQ(support::descriptor_count(), descriptors);
}

TEST(pool_destroy, leaves_no_thread_after_the_last_lease_ended) {
    std::size_t threads = thread_count();
    cenote::lease<session> lease;
    {
        session_pool pool{connector{server::start()}};
        lease = pool.acquire();
    }
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return thread_count() <= threads; }));
}

TEST(pool_destroy, the_connector_and_the_observers_end_with_the_pool) {
    auto to = server::start();
    auto watch = std::make_shared<support::recorder>();
    std::weak_ptr<server> server_lives = to;
    std::weak_ptr<support::recorder> watch_lives = watch;
    {
        session_pool pool{connector{std::move(to)}, {.observers = {std::move(watch)}}};
        (void)pool.acquire();
    }
    EXPECT_TRUE(eventually([&] { return server_lives.expired() && watch_lives.expired(); }));
}

TEST(pool_destroy, racing_the_end_of_leases_is_safe) {
    for (int i = 0; i < rounds(500); ++i) {
        auto to = server::start();
        auto pool = std::make_unique<session_pool>(connector{to}, cenote::options{.max = 4});
        std::vector<cenote::lease<session>> leases;
        for (int k = 0; k < 3; ++k) leases.push_back(pool->acquire());
        std::vector<std::jthread> threads;
        for (auto& lease : leases) threads.emplace_back([&lease] { lease.give_back(); });
        pool.reset();
        threads.clear();
        ASSERT_TRUE(eventually([&] { return to->present == 0; }));
    }
}

namespace {

/// Destroys its pool from inside a callback, once, after make() has returned.
class destroyer {
public:
    void make(connector c, cenote::options options) {
        pool_ = std::make_unique<session_pool>(std::move(c), std::move(options));
        ready_.open();
    }
    session_pool& pool() { return *pool_; }
    void destroy() {
        if (!ready_.wait() || used_.exchange(true)) return;
        pool_.reset();
        done_ = true;
    }
    bool done() const { return done_; }

private:
    std::unique_ptr<session_pool> pool_;
    latch ready_;
    std::atomic<bool> used_{false};
    std::atomic<bool> done_{false};
};

}  // namespace

TEST(pool_destroy, from_inside_an_observer_does_not_hang) {
    std::size_t threads = thread_count();
    auto to = server::start();
    destroyer it;
    auto watch = std::make_shared<support::recorder>();
    watch->then = [&](const cenote::event& e) {
        if (e.kind == cenote::event_kind::opened) it.destroy();
    };
    it.make(connector{to}, {.min_size = 2, .observers = {watch}});
    EXPECT_TRUE(eventually([&] { return it.done(); }));
    EXPECT_TRUE(eventually([&] { return to->present == 0; }));
    EXPECT_TRUE(eventually([&] { return thread_count() <= threads; }));
}

TEST(pool_destroy, from_inside_an_open_does_not_hang) {
    std::size_t threads = thread_count();
    auto to = server::start();
    destroyer it;
    to->on_open = [&](int) { it.destroy(); };
    it.make(connector{to}, {.min_size = 1});
    EXPECT_TRUE(eventually([&] { return it.done(); }));
    EXPECT_TRUE(eventually([&] { return to->present == 0; }));
    EXPECT_TRUE(eventually([&] { return thread_count() <= threads; }));
}

TEST(pool_destroy, from_inside_a_close_or_a_reset_does_not_hang) {
    std::size_t threads = thread_count();
    for (bool dirty : {false, true}) {
        auto to = server::start();
        destroyer it;
        to->on_close = [&](int) {
            if (!dirty) it.destroy();
        };
        to->on_reset = [&](int) { return it.destroy(), true; };
        it.make(connector{to}, {});
        auto lease = it.pool().acquire();
        if (dirty) lease.mark_dirty();
        else lease.discard();
        lease.give_back();
        EXPECT_TRUE(eventually([&] { return it.done(); }));
        EXPECT_TRUE(eventually([&] { return to->present == 0; }));
    }
    EXPECT_TRUE(eventually([&] { return thread_count() <= threads; }));
}
