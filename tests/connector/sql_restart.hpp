// An SQL server is restarted under load: each open connection fails at most once, and the pool
// serves again as soon as the server does. A place is as in postgres_place.hpp.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "cenote/server_error.hpp"
#include "support/patience.hpp"
#include "support/real_server.hpp"

namespace restart {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using support::eventually;

inline constexpr std::size_t max = 5;
inline constexpr int workers = 12;

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

    template <class Place>
    void work(cenote::pool<typename Place::connection>& from, int who) {
        for (int i = 0; !over; ++i) {
            try {
                auto lease = from.acquire();
                int nonce = who * 1'000'000 + i;
                bool same = lease->execute(Place::echo, nonce).template scalar<int>() == nonce;
                ++(same ? right : wrong);
                served.note();
            } catch (const cenote::server_error&) {
                ++failed;
            } catch (const cenote::pool_error&) {
                ++refused;
            }
        }
    }
};

/// When the server lets somebody in, as seen by somebody who asks all the time.
template <class Place>
void knock(load& during, first_time& open) {
    typename Place::connector to(Place::url("connect_timeout=200ms"));
    while (!during.over && !open.known()) {
        try {
            to.open().execute("select 1");
            open.note();
        } catch (const cenote::connection_error&) {
            std::this_thread::sleep_for(2ms);
        }
    }
}

inline void report(const load& during, std::chrono::milliseconds later) {
    auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf(
        "%llu right, %llu failed, %llu refused; first served %lld ms after the first who "
        "knocked\n",
        number(during.right), number(during.failed), number(during.refused),
        static_cast<long long>(later.count()));
}

template <class Place>
void under_load(support::real_server::ending how) {
    cenote::pool<typename Place::connection> five{typename Place::connector{Place::url()},
                                                  {.max = max, .acquire_timeout = support::plenty}};
    load during;
    std::vector<std::thread> crew;
    for (int w = 0; w < workers; ++w) crew.emplace_back([&, w] { during.work<Place>(five, w); });
    ASSERT_TRUE(eventually([&] { return during.right > 500 && five.stats().total == max; }));
    Place::server().stop(how);
    EXPECT_TRUE(eventually([&] { return five.stats().open_failed > 2; }));
    auto failed = during.failed.load();
    during.served.ask();
    first_time open;
    open.ask();
    crew.emplace_back([&] { knock<Place>(during, open); });
    Place::server().start();
    EXPECT_TRUE(eventually([&] { return during.served.known() && open.known(); }));
    auto right = during.right.load();
    EXPECT_TRUE(eventually([&] { return during.right > right + 500; }));
    during.over = true;
    for (std::thread& each : crew) each.join();
    auto later = std::chrono::duration_cast<std::chrono::milliseconds>(during.served - open);
    report(during, later);
    EXPECT_EQ(during.wrong, 0u);
    EXPECT_LE(during.failed, max);
    EXPECT_EQ(during.failed, failed);  // none after it was back
    EXPECT_EQ(during.refused, 0u);
    EXPECT_LE(later, support::slowly ? 2500ms : 250ms);
    EXPECT_EQ(five.stats().max, max);
}

}  // namespace restart
