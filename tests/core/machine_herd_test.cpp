// What was opened together does not die together: a hundred resources and their age limits.
#include <algorithm>
#include <vector>

#include "core/machine_dialogue.hpp"
#include "support/patience.hpp"

namespace cenote::core {
namespace {

constexpr std::size_t herd = 100;
constexpr std::size_t room = 10;  // for replacements, where there is any
constexpr int seeds = support::slowly ? 4 : 20;

/// With the default jitter of 10 % the age limits lie in the last three minutes.
constexpr duration youngest = 27min;
constexpr duration oldest = 30min;
constexpr duration call_time = 500ms;

struct deaths {
    std::vector<duration> at;  // ages of the first herd, in order
    std::size_t most_closing = 0;
    std::size_t most_opening = 0;
    std::size_t fewest = herd;  // alive at any time
};

options of_a_herd(std::size_t max = herd) {
    return {.max = max,
            .min_size = herd,
            .opening_max = herd,
            .idle_timeout = forever,
            .probe_after_idle = forever};
}

/// Opens all at one instant, then lets an hour pass. Each open and each close takes half a second.
deaths live(const options& settings, std::uint64_t seed, duration time = 1h) {
    dialogue d(settings, {}, false, seed);
    if (settings.min_size < herd) d.fill(herd);
    d.finish_calls();
    EXPECT_EQ(d.idle(), herd);
    deaths seen;
    instant birth = d.now;
    std::uint64_t before = 0;
    while (d.now < birth + time) {
        d.pass(call_time);
        for (std::uint64_t died = d.look().retired(retire_reason::age); before < died; ++before)
            if (seen.at.size() < herd) seen.at.push_back(d.now - birth);
        seen.most_closing = std::max(seen.most_closing, d.in_flight(verb::close));
        seen.most_opening = std::max(seen.most_opening, d.opening());
        seen.fewest = std::min(seen.fewest, d.idle());
        std::vector<slot_id> busy;
        for (slot_id id = 0; id < d.it.max(); ++id)
            if (d.call_of(id) != 0) busy.push_back(id);
        for (slot_id id : busy)
            if (d.it.look(id).state == slot_state::opening) d.opened(id);
            else d.closed(id);
    }
    return seen;
}

/// The largest distance between the ages at death and an even distribution over the window.
double unevenness(const deaths& seen) {
    double worst = 0;
    auto count = static_cast<double>(seen.at.size());
    for (std::size_t i = 0; i < seen.at.size(); ++i) {
        double even = std::chrono::duration<double>(seen.at[i] - youngest) /
                      std::chrono::duration<double>(oldest - youngest);
        worst = std::max({worst, even - static_cast<double>(i) / count,
                          static_cast<double>(i + 1) / count - even});
    }
    return worst;
}

/// The most deaths within `window`.
std::size_t densest(const deaths& seen, duration window) {
    std::size_t most = 0;
    for (std::size_t i = 0, j = 0; i < seen.at.size(); ++i) {
        while (seen.at[i] - seen.at[j] > window) ++j;
        most = std::max(most, i - j + 1);
    }
    return most;
}

TEST(machine_herd, spreads_its_deaths_evenly_over_the_jitter) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        options alone = of_a_herd();
        alone.min_size = 0;
        deaths seen = live(alone, seed, oldest + 2s);
        ASSERT_EQ(seen.at.size(), herd);
        EXPECT_GE(seen.at.front(), youngest);
        EXPECT_LE(seen.at.back(), oldest + 1s);  // a sweep_interval
        // Kolmogorov and Smirnov: an even distribution exceeds it once in ten thousand times.
        EXPECT_LT(unevenness(seen), 0.22) << seed;
        EXPECT_LE(densest(seen, 10s), 20U) << seed;  // 5.6 on average
        EXPECT_LE(seen.most_closing, 7U) << seed;    // within one sweep; 0.6 on average
    }
}

TEST(machine_herd, is_replaced_a_few_at_a_time) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        deaths seen = live(of_a_herd(herd + room), seed, oldest + 10s);
        ASSERT_EQ(seen.at.size(), herd);
        EXPECT_LE(seen.most_opening, 7U) << seed;
        EXPECT_LE(seen.most_closing, 7U) << seed;
        EXPECT_EQ(seen.fewest, herd) << seed;  // each after its replacement has come
    }
}

TEST(machine_herd, that_fills_the_pool_loses_one_at_a_time) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        deaths seen = live(of_a_herd(), seed);
        ASSERT_EQ(seen.at.size(), herd);
        EXPECT_GE(seen.at.front(), youngest);
        EXPECT_EQ(seen.most_opening, 1U) << seed;
        EXPECT_EQ(seen.most_closing, 1U) << seed;
        EXPECT_EQ(seen.fewest, herd - 1) << seed;
    }
}

TEST(machine_herd, stays_scattered_for_generations) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        deaths seen = live(of_a_herd(herd + room), seed, 3h);
        EXPECT_LE(seen.most_opening, 7U) << seed;
        EXPECT_LE(seen.most_closing, 7U) << seed;
    }
}

/// When opens began, after a failover: everything is retired, and a crowd wants new ones.
std::vector<instant> opens_after_failover(const options& settings, std::size_t crowd) {
    dialogue d(settings, {});
    for (int i = 0; i < 200 && d.idle() < herd; ++i) {
        d.finish_calls();
        d.pass(100ms);
    }
    EXPECT_EQ(d.idle(), herd);
    d.pass(1min);  // the bucket is full again
    std::vector<instant> began;
    auto listen = [&] {
        for (const action& a : d.heard())
            if (a.what == action::kind::call && a.which == verb::open) began.push_back(d.now);
    };
    d.check_every = 100;
    d.retire_all();
    listen();
    for (std::uint64_t i = 0; i < crowd; ++i) d.ask(1000 + i), listen();
    for (int i = 0; i < 60'000 && d.idle() + d.leased() < herd; ++i) {
        for (slot_id id = 0; id < herd; ++id) {
            bool opens = d.it.look(id).state == slot_state::opening;
            if (d.call_of(id) == 0) continue;
            opens ? d.opened(id) : d.closed(id);
            listen();
        }
        d.pass(1ms);
        listen();
    }
    EXPECT_EQ(d.idle() + d.leased(), herd);
    return began;
}

TEST(machine_herd, comes_back_after_a_failover_no_faster_than_the_bucket_allows) {
    for (std::size_t crowd : {0U, 10U, 500U}) {
        options settings = of_a_herd();
        settings.open_rate = {.per_second = 20, .burst = 5};
        std::vector<instant> began = opens_after_failover(settings, crowd);
        ASSERT_EQ(began.size(), herd);
        std::size_t most = 0;
        for (std::size_t i = 0, j = 0; i < began.size(); ++i) {
            while (began[i] - began[j] >= 1s) ++j;
            most = std::max(most, i - j + 1);
        }
        EXPECT_LE(most, 25U);
        EXPECT_GE(most, 20U);  // and no slower
        EXPECT_LE(began.back() - began.front(), 5s);
    }
}

// Without a bucket the opens are not held back: so it is the bucket that does it above.
TEST(machine_herd, comes_back_at_once_without_a_bucket) {
    std::vector<instant> began = opens_after_failover(of_a_herd(), 500);
    ASSERT_EQ(began.size(), herd);
    EXPECT_LT(began.back() - began.front(), 1s);
}

// The other side of it: without jitter they do die together, so the tests above see something.
TEST(machine_herd, dies_at_one_instant_without_jitter) {
    options alone = of_a_herd();
    alone.min_size = 0;
    alone.lifetime_jitter = 0;
    deaths seen = live(alone, 1, oldest + 2s);
    EXPECT_EQ(densest(seen, 0s), herd);
    EXPECT_EQ(seen.most_closing, herd);
}

// 1. Of two, the minimum, A grows too old. It stays until its replacement C has come.
// 2. Before the next sweep B, which the sweep looks at before A, grows too old as well.
// 3. If C counted as the replacement of B, A would stay; and as long as something grows old in
//    every interval, no resource would go, and then all at once.
TEST(machine_herd, goes_when_replaced_though_another_one_has_grown_old) {
    constexpr slot_id a = 0;
    constexpr slot_id b = 1;
    constexpr slot_id c = 2;
    dialogue d({.max = 4,
                .min_size = 2,
                .idle_timeout = forever,
                .max_lifetime = 100s,
                .lifetime_jitter = 0},
               {});
    d.opened(a);
    d.pass(1s);
    d.opened(b);
    d.ask(1);
    d.ask(2);
    d.release(b);
    d.pass(1s);
    d.release(a);  // used last, so looked at last
    d.pass(98s);
    ASSERT_EQ(d.said(), "open 2");
    d.opened(c);
    d.pass(1s);
    EXPECT_EQ(d.said(), "close 0, open 3");
}

}  // namespace
}  // namespace cenote::core
