// Tests resources that before_acquire refuses: the borrower keeps its place in line, and new opens
// obey the backoff.
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::eventually;
using support::hooked_connector;
using support::lines_up;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

/// Two borrowers: before_acquire refuses the resource of the first while the second waits.
struct two_borrowers {
    explicit two_borrowers(std::size_t line_max)
        : pool{hooked_connector{to}, {.max = 1, .acquire_timeout = plenty, .line_max = line_max}} {
        to->on_acquire = [this](int id) { return id != 1 || (lines_up(pool, 1), false); };
    }

    void borrow(int who) {
        auto lease = pool.acquire();
        std::lock_guard lock(mutex);
        served.push_back(who);
    }
    void run() {
        std::jthread first([this] { borrow(1); });
        ASSERT_TRUE(eventually([this] { return to->acquires == 1; }));
        std::jthread second([this] { borrow(2); });
    }

    std::shared_ptr<server> to = server::start();
    session_pool pool;
    std::mutex mutex;
    std::vector<int> served;
};

}  // namespace

TEST(pool_unfit, costs_its_borrower_no_place) {
    two_borrowers it(100);
    it.run();
    EXPECT_EQ(it.served, (std::vector{1, 2}));
}

TEST(pool_unfit, gives_its_borrower_a_place_in_a_full_line) {
    two_borrowers it(1);
    it.run();
    EXPECT_EQ(it.served, (std::vector{1, 2}));
}

TEST(pool_unfit, new_ones_are_not_opened_in_a_tight_loop) {
    support::stopped_clock time;
    auto to = server::start();
    to->on_acquire = [](int) { return false; };
    session_pool pool{hooked_connector{to}, {.max = 4, .backoff = {.first = 100ms}}};
    auto borrower = std::async(std::launch::async, [&] {
        std::error_code error;
        EXPECT_FALSE(pool.acquire({.timeout = 400ms}, error));
        EXPECT_TRUE(error);
    });
    EXPECT_TRUE(eventually([&] {
        // The clock moves while the borrower waits for the next open, and not during a call.
        auto now = pool.stats();
        if (now.waiting == 1 && now.opening + now.closing == 0) time.advance(5ms);
        return borrower.wait_for(0s) == std::future_status::ready;
    }));
    EXPECT_GT(to->opens, 1);
    EXPECT_LE(to->opens, 10);  // 400 ms in steps of at least 80 ms, and opens that overlap
}
