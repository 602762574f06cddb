// Tests stats: each snapshot is consistent under load; and the arithmetic of histograms.
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"

using namespace std::chrono_literals;
using cenote::errc;
using cenote::histogram;
using support::connector;
using support::contradiction;
using support::eventually;
using support::latch;
using support::plenty;
using support::refused;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

/// Reads the stats all the time while `work` runs on several threads.
template <class Work>
void read_during(session_pool& pool, int threads, Work work) {
    std::atomic<int> running{threads};
    std::vector<std::jthread> workers;
    for (int w = 0; w < threads; ++w)
        workers.emplace_back([&, w] {
            for (int i = 0; i < rounds(5000); ++i) work(w, i);
            --running;
        });
    cenote::stats before;
    do {
        auto now = pool.stats();
        ASSERT_EQ(contradiction(now), "");
        ASSERT_GE(now.granted, before.granted);
        ASSERT_GE(now.released, before.released);
        ASSERT_GE(now.acquires, before.acquires);
        before = now;
    } while (running > 0);
    workers.clear();
    EXPECT_EQ(contradiction(pool.stats()), "");
    EXPECT_EQ(pool.stats().leased, 0U);
    EXPECT_EQ(pool.stats().waiting, 0U);
}

}  // namespace

TEST(stats, of_a_new_pool_are_zero) {
    session_pool pool{connector{server::start()}, {.max = 7}};
    auto s = pool.stats();
    EXPECT_EQ(s.max, 7U);
    EXPECT_EQ(s.total + s.acquires + s.granted + s.opened + s.closed + refused(s), 0U);
    EXPECT_EQ(s.wait.count() + s.hold.count() + s.open.count(), 0U);
    EXPECT_EQ(contradiction(s), "");
}

TEST(stats, show_every_state) {
    auto to = server::start();
    latch verbs;
    session_pool pool{connector{to},
                      {.max = 6,
                       .acquire_timeout = plenty,
                       .probe_timeout = plenty,
                       .reset_timeout = plenty,
                       .close_timeout = plenty,
                       .probe_on_release = true}};
    auto probing = pool.acquire();
    auto resetting = pool.acquire();
    auto closing = pool.acquire();
    auto leased = pool.acquire();
    pool.acquire().give_back();
    ASSERT_TRUE(eventually([&] { return pool.stats().idle == 1; }));
    auto hang = [verbs](int) { return verbs.wait(); };
    to->on_probe = hang;
    to->on_reset = hang;
    to->on_close = [verbs](int) { verbs.wait(); };
    to->on_open = [verbs](int) { verbs.wait(); };
    probing.give_back();
    resetting.mark_dirty();
    resetting.give_back();
    closing.discard();
    auto also_leased = pool.acquire();
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 3; ++i) waiters.emplace_back([&] { (void)pool.acquire(); });
    ASSERT_TRUE(support::lines_up(pool, 3));
    auto s = pool.stats();
    EXPECT_EQ(contradiction(s), "");
    EXPECT_EQ(s.leased, 2U);
    EXPECT_EQ(s.probing, 1U);
    EXPECT_EQ(s.resetting, 1U);
    EXPECT_EQ(s.closing, 1U);
    EXPECT_EQ(s.opening, 1U);
    EXPECT_EQ(s.total, 6U);
    EXPECT_EQ(s.waiting, 3U);
    verbs.open();
}

TEST(stats, count_how_every_acquire_ended) {
    session_pool pool{connector{server::start()}, {.max = 1, .line_max = 1}};
    std::error_code error;
    auto lease = pool.acquire();
    (void)pool.acquire({.timeout = 0ns}, error);
    std::stop_source stop;
    auto canceled = std::async(std::launch::async, [&] {
        std::error_code ignored;
        std::stop_token token = stop.get_token();
        (void)pool.acquire({.timeout = plenty, .stop = token}, ignored);
    });
    ASSERT_TRUE(support::lines_up(pool, 1));
    (void)pool.acquire({}, error);
    stop.request_stop();
    canceled.get();
    auto waited = std::async(std::launch::async, [&] { (void)pool.acquire_for(plenty); });
    ASSERT_TRUE(support::lines_up(pool, 1));
    lease.give_back();
    waited.get();
    (void)pool.try_acquire();
    pool.close();
    (void)pool.acquire({}, error);
    (void)pool.try_acquire();
    auto s = pool.stats();
    EXPECT_EQ(s.refused(errc::timed_out), 1U);
    EXPECT_EQ(s.refused(errc::canceled), 1U);
    EXPECT_EQ(s.refused(errc::line_full), 1U);
    EXPECT_EQ(s.refused(errc::closed), 1U);
    EXPECT_EQ(s.granted, 3U);
    EXPECT_EQ(s.released, 3U);
    EXPECT_EQ(s.acquires, 7U);
    EXPECT_EQ(s.waited, 2U) << "one for the open, one for the return";
    EXPECT_EQ(s.refused_after_wait, 1U) << "the canceled one; the others were refused at once";
    EXPECT_EQ(s.try_empty, 1U);
    EXPECT_EQ(contradiction(s), "");
}

TEST(stats, add_up_at_every_read_on_the_fast_lane) {
    session_pool pool{connector{server::start()}, {.max = 4, .acquire_timeout = plenty}};
    read_during(pool, 3, [&](int, int) { (void)pool.acquire(); });
    EXPECT_EQ(pool.stats().granted, 3U * static_cast<unsigned>(rounds(5000)));
    EXPECT_EQ(pool.stats().acquires, pool.stats().granted);
}

TEST(stats, add_up_at_every_read_when_contended) {
    session_pool pool{connector{server::start()}, {.max = 2, .acquire_timeout = plenty}};
    read_during(pool, 4, [&](int, int) { (void)pool.acquire(); });
    EXPECT_EQ(pool.stats().acquires, 4U * static_cast<unsigned>(rounds(5000)));
}

TEST(stats, add_up_at_every_read_with_every_kind_of_call) {
    auto to = server::start();
    to->on_open = [](int id) {
        if (id % 7 == 0) throw support::refused_by_server("each seventh");
    };
    to->on_reset = [](int id) { return id % 3 != 0; };
    session_pool pool{connector{to},
                      {.max = 3,
                       .min_idle = 1,
                       .idle_timeout = 1ms,
                       .max_uses = 50,
                       .sweep_interval = 1ms,
                       .backoff = {.first = 1ms, .cap_waiting = 1ms, .cap_idle = 1ms}}};
    read_during(pool, 4, [&](int w, int i) {
        std::error_code error;
        auto lease = (i + w) % 3 == 0
                         ? pool.try_acquire()
                         : pool.acquire({.timeout = std::chrono::microseconds(i % 200)}, error);
        if (!lease) return;
        if (i % 11 == 0) lease.discard();
        else if (i % 13 == 0) lease.mark_dirty();
        else if (i % 17 == 0) (void)lease.detach();
        if (i % 1000 == 999) pool.retire_all();
    });
}

TEST(stats, add_up_at_every_read_when_leases_are_sent_back) {
    auto to = server::start();
    std::atomic<int> turn{0};
    std::atomic<unsigned> sent_back{0}, acquired{0}, tried{0}, in_vain{0};
    to->on_acquire = [&](int) {
        if (++turn % 7 != 0) return true;
        ++sent_back;
        return false;
    };
    session_pool pool{support::hooked_connector{{to}}, {.max = 3, .acquire_timeout = plenty}};
    read_during(pool, 4, [&](int w, int i) {
        if ((i + w) % 2 == 0) {
            (void)pool.acquire();
            ++acquired;
        } else if (pool.try_acquire()) {
            ++tried;
        } else {
            ++in_vain;
        }
    });
    auto s = pool.stats();
    EXPECT_GT(sent_back, 0U);
    EXPECT_EQ(s.try_empty, in_vain) << "each call that found nothing is counted once";
    EXPECT_EQ(s.acquires, acquired + tried + sent_back);
    EXPECT_EQ(s.granted, s.acquires);
    EXPECT_EQ(s.retired(cenote::retire_reason::rejected), sent_back);
}

TEST(stats, opened_is_closed_or_open_or_detached) {
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 3}};
    for (int i = 0; i < 5; ++i) pool.acquire().discard();
    (void)pool.acquire().detach();
    (void)pool.acquire();
    EXPECT_EQ(pool.close(plenty), 0U);
    auto s = pool.stats();
    EXPECT_EQ(s.opened, static_cast<unsigned>(to->opened));
    EXPECT_EQ(s.opened, s.closed + s.detached);
}

TEST(stats, histograms_count_every_open_and_every_wait) {
    session_pool pool{connector{server::start()}, {.max = 2}};
    for (int i = 0; i < 1000; ++i) (void)pool.acquire();
    auto s = pool.stats();
    EXPECT_EQ(s.open.count(), 1U);
    EXPECT_EQ(s.wait.count(), s.granted) << "how long granted acquires waited";
    EXPECT_GT(s.hold.count(), 0U) << "a sample";
}

TEST(stats, histograms_show_how_long_it_took) {
    support::stopped_clock time;
    auto to = server::start();
    to->on_open = [&](int) { time.advance(20ms); };
    session_pool pool{connector{to}, {.max = 1}};
    auto lease = pool.acquire();
    time.advance(20ms);
    lease.give_back();
    auto s = pool.stats();
    EXPECT_GE(s.open.quantile(0.5), 20ms);
    EXPECT_GE(s.wait.quantile(1), 20ms);
    EXPECT_GE(s.hold.quantile(1), 20ms);
}

TEST(stats, of_several_pools_are_the_sum_of_every_number) {
    constexpr std::size_t count = sizeof(cenote::stats) / sizeof(std::uint64_t);
    using numbers = std::array<std::uint64_t, count>;
    numbers some{};
    std::iota(some.begin(), some.end(), 1);
    auto sum = std::bit_cast<cenote::stats>(some);
    sum += std::bit_cast<cenote::stats>(some);
    for (std::uint64_t& n : some) n *= 2;
    // `state` is not a number.
    sum.breaker = std::bit_cast<cenote::stats>(some).breaker;
    EXPECT_EQ(std::bit_cast<numbers>(sum), some);
}

TEST(stats, of_several_pools_have_the_state_of_the_worst) {
    using enum cenote::breaker_state;
    auto both = [](cenote::breaker_state a, cenote::breaker_state b) {
        cenote::stats one;
        cenote::stats other;
        one.breaker = a;
        other.breaker = b;
        return (one += other).breaker;
    };
    EXPECT_EQ(both(active, active), active);
    EXPECT_EQ(both(active, recovering), recovering);
    EXPECT_EQ(both(inactive, recovering), inactive);
    EXPECT_EQ(both(recovering, inactive), inactive);
}

TEST(histogram, of_nothing_is_zero) {
    histogram h;
    EXPECT_EQ(h.count(), 0U);
    EXPECT_EQ(h.quantile(0.5), 0ns);
}

TEST(histogram, buckets_are_at_most_a_quarter_wide_and_cover_an_hour) {
    std::chrono::nanoseconds before{-1};
    for (std::size_t b = 0; b < histogram::bucket_count; ++b) {
        auto top = histogram::upper_bound(b);
        if (top == before) continue;  // tiny values need fewer buckets than there are
        ASSERT_GT(top, before);
        bool wide =
            static_cast<double>(top.count()) > 1.25 * static_cast<double>(before.count() + 1);
        EXPECT_FALSE(wide && top > 4ns && b + 1 < histogram::bucket_count) << b;
        before = top;
    }
    EXPECT_GT(before, 1h);
}

TEST(histogram, every_value_lies_in_its_bucket) {
    std::mt19937_64 dice(1);
    for (int i = 0; i < 10'000; ++i) {
        std::chrono::nanoseconds value(static_cast<std::int64_t>(dice() >> (22 + i % 40)));
        auto bucket = histogram::bucket_of(value);
        ASSERT_LT(bucket, histogram::bucket_count);
        ASSERT_LE(value, histogram::upper_bound(bucket)) << value.count();
        ASSERT_TRUE(bucket == 0 || value > histogram::upper_bound(bucket - 1)) << value.count();
    }
    EXPECT_LT(histogram::bucket_of(0ns), histogram::bucket_count);
    EXPECT_LT(histogram::bucket_of(-1s), histogram::bucket_count);
    EXPECT_EQ(histogram::bucket_of(std::chrono::nanoseconds::max()), histogram::bucket_count - 1);
}

TEST(histogram, quantiles_are_upper_bounds_within_a_quarter) {
    histogram h;
    for (int i = 1; i <= 1000; ++i) ++h.buckets[histogram::bucket_of(std::chrono::microseconds(i))];
    EXPECT_EQ(h.count(), 1000U);
    for (double q : {0.01, 0.5, 0.9, 0.99, 1.0}) {
        double exact = 1000.0 * q * 1000;
        double seen = static_cast<double>(h.quantile(q).count());
        EXPECT_GE(seen, exact * 0.999) << q;
        EXPECT_LE(seen, exact * 1.26) << q;
    }
    EXPECT_LE(h.quantile(0), h.quantile(1));
    EXPECT_GE(h.quantile(0), 1ns);
}

TEST(stats, every_retire_reason_has_a_name) {
    std::set<std::string> names;
    for (std::size_t i = 0; i < cenote::retire_reason_count; ++i)
        names.insert(cenote::to_string(static_cast<cenote::retire_reason>(i)));
    EXPECT_EQ(names.size(), cenote::retire_reason_count);
    EXPECT_TRUE(names.contains("probe_failed"));
}

TEST(pool_settings, are_the_options_in_force) {
    auto strategy = std::make_shared<cenote::threshold_breaker>();
    cenote::pool<session> pool{connector{server::start()},
                               {.name = "orders", .max = 3, .idle_timeout = 7s}};
    EXPECT_EQ(pool.settings().name, "orders");
    EXPECT_EQ(pool.settings().idle_timeout, 7s);
    EXPECT_EQ(pool.settings().max, 3U);
    EXPECT_EQ(pool.settings().breaker, nullptr);
    pool.resize(5);
    pool.set_breaker(strategy);
    EXPECT_EQ(pool.settings().max, 5U);
    EXPECT_EQ(pool.control().settings().breaker, strategy);
    pool.set_breaker(nullptr);
    EXPECT_EQ(pool.settings().breaker, nullptr);
}

TEST(pool_settings, that_are_copied_leave_the_strategy_to_another_pool) {
    cenote::options kept;
    auto strategy = std::make_shared<cenote::threshold_breaker>();
    {
        cenote::pool<session> first{connector{server::start()}, {.breaker = strategy}};
        kept = first.settings();
    }
    EXPECT_EQ(kept.breaker, strategy);
    EXPECT_NO_THROW((cenote::pool<session>{connector{server::start()}, kept}));
}

TEST(pool_closed, tells_whether_close_was_called) {
    cenote::pool<session> pool{connector{server::start()}, {.max = 1}};
    auto lease = pool.acquire();
    EXPECT_FALSE(pool.closed());
    pool.close();
    EXPECT_TRUE(pool.closed());
    EXPECT_TRUE(pool.control().closed());
}
