// MariaDB is restarted under load: each open connection fails at most once, and the pool serves
// again as soon as the server does.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "connector/mariadb_place.hpp"
#include "support/patience.hpp"

namespace cenote::mariadb {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using support::eventually;
using support::mariadb_url;
using support::plenty;
using support::the_mariadb;

constexpr std::size_t max = 5;
constexpr int workers = 12;

/// When something first happened after it was asked for.
class first_time {
public:
    void ask() { at_ = no_time; }
    void note() {
        clock::rep expected = no_time;
        at_.compare_exchange_strong(expected, clock::now().time_since_epoch().count());
    }
    bool known() const { return at_ > 0; }
    clock::duration operator-(const first_time& other) const {
        return clock::duration(at_ - other.at_);
    }

private:
    static constexpr clock::rep no_time = -1;
    std::atomic<clock::rep> at_{0};
};

struct load {
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> right{0};
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::uint64_t> failed{0};
    std::atomic<std::uint64_t> refused{0};
    first_time served;

    void work(pool<connection>& from, int who) {
        for (int i = 0; !over; ++i) {
            try {
                auto lease = from.acquire();
                int nonce = who * 1'000'000 + i;
                bool same = lease->execute("select ?", nonce).scalar<int>() == nonce;
                ++(same ? right : wrong);
                served.note();
            } catch (const server_error&) {
                ++failed;
            } catch (const pool_error&) {
                ++refused;
            }
        }
    }
};

/// When the server lets somebody in, as seen by somebody who asks all the time.
void knock(load& during, first_time& open) {
    connector to(mariadb_url("connect_timeout=200ms"));
    while (!during.over && !open.known()) {
        try {
            to.open().execute("select 1");
            open.note();
        } catch (const connection_error&) {
            std::this_thread::sleep_for(2ms);
        }
    }
}

void restart_under_load(support::real_server::ending how) {
    pool<connection> five{connector{mariadb_url()}, {.max = max, .acquire_timeout = plenty}};
    load during;
    std::vector<std::thread> crew;
    for (int w = 0; w < workers; ++w) crew.emplace_back([&, w] { during.work(five, w); });
    ASSERT_TRUE(eventually([&] { return during.right > 500 && five.stats().total == max; }));
    the_mariadb().stop(how);
    EXPECT_TRUE(eventually([&] { return five.stats().open_failed > 2; }));
    auto failed = during.failed.load();
    during.served.ask();
    first_time open;
    open.ask();
    crew.emplace_back([&] { knock(during, open); });
    the_mariadb().start();
    EXPECT_TRUE(eventually([&] { return during.served.known() && open.known(); }));
    auto right = during.right.load();
    EXPECT_TRUE(eventually([&] { return during.right > right + 500; }));
    during.over = true;
    for (std::thread& each : crew) each.join();
    auto later = std::chrono::duration_cast<std::chrono::milliseconds>(during.served - open);
    std::printf(
        "%llu right, %llu failed, %llu refused; first served %lld ms after the first who "
        "knocked\n",
        static_cast<unsigned long long>(during.right),
        static_cast<unsigned long long>(during.failed),
        static_cast<unsigned long long>(during.refused), static_cast<long long>(later.count()));
    EXPECT_EQ(during.wrong, 0u);
    EXPECT_LE(during.failed, max);
    EXPECT_EQ(during.failed, failed);  // none after it was back
    EXPECT_EQ(during.refused, 0u);
    EXPECT_LE(later, support::slowly ? 2500ms : 250ms);
    EXPECT_EQ(five.stats().max, max);
}

TEST(mariadb_restart, costs_each_connection_one_operation_at_most) {
    restart_under_load(support::real_server::ending::fast);
}

TEST(mariadb_restart, after_a_crash_costs_no_more) {
    restart_under_load(support::real_server::ending::immediate);
}

}  // namespace
}  // namespace cenote::mariadb
