// A restart of an SQL server under load: each open connection fails at most once, and the pool
// serves again when the server does. A `Place` is as in postgres_place.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "cenote/server_error.hpp"
#include "support/patience.hpp"
#include "support/real_server.hpp"

namespace restart {

using support::eventually;

inline constexpr std::size_t max = 5;
inline constexpr unsigned workers = 12;

struct load {
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> right{0};
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::uint64_t> failed{0};
    std::atomic<std::uint64_t> refused{0};

    template <class Place>
    void work(cenote::pool<typename Place::connection>& from, unsigned who) {
        for (unsigned i = 0; !over; ++i) {
            try {
                auto lease = from.acquire();
                int nonce = static_cast<int>(who * 1'000'000 + i % 1'000'000);
                bool same = lease->execute(Place::echo, nonce).template scalar<int>() == nonce;
                ++(same ? right : wrong);
            } catch (const cenote::server_error&) {
                ++failed;
            } catch (const cenote::pool_error&) {
                ++refused;
            }
        }
    }
};

template <class Place>
void under_load(support::real_server::ending how) {
    cenote::pool<typename Place::connection> five{
        typename Place::connector{Place::url()},
        {.max = max, .acquire_timeout = 4 * support::plenty}};
    load during;
    std::vector<std::thread> threads;
    for (unsigned w = 0; w < workers; ++w)
        threads.emplace_back([&, w] { during.work<Place>(five, w); });
    ASSERT_TRUE(eventually([&] { return during.right > 500 && five.stats().total == max; }));
    Place::server().stop(how);
    // All threads wait, and the pool has tried to open connections in vain.
    EXPECT_TRUE(eventually(
        [&] { return five.stats().waiting == workers && five.stats().open_failed > 2; }));
    auto failed = during.failed.load();
    auto right = during.right.load();
    Place::server().start();
    EXPECT_TRUE(eventually([&] { return during.right > right + 500; }));
    during.over = true;
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(during.wrong, 0u);
    EXPECT_LE(during.failed, max);
    EXPECT_EQ(during.failed, failed);  // none after it was back
    EXPECT_EQ(during.refused, 0u);
    EXPECT_EQ(five.stats().max, max);
}

}  // namespace restart
