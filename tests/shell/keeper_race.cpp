// The keeper under threads: everything a user may call, at once, against connectors that misbehave.
#include <cstdlib>
#include <pthread.h>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "shell/race.hpp"

namespace cenote::race {
namespace {

/// How the calls of all threads ended.
struct outcomes {
    std::atomic<std::uint64_t> acquires{0};
    std::atomic<std::uint64_t> granted{0};
    std::atomic<std::uint64_t> try_empty{0};
    std::atomic<std::uint64_t> discarded{0};
    std::atomic<std::uint64_t> detached{0};
    std::array<std::atomic<std::uint64_t>, errc_count + 1> refused{};
    std::atomic<std::uint64_t> strange{0};
};

/// One thread of the random mix.
class borrower {
public:
    borrower(pool<session>& p, stop_cords& cords, outcomes& ends, std::size_t number)
        : pool_(p), cords_(cords), ends_(ends), number_(number), random_(number + 1) {}

    void work(std::size_t times) {
        for (std::size_t i = 0; i < times; ++i) {
            if (random_.one_in(16)) cords_.pull(random_.next());
            if (random_.one_in(64)) check_sums(pool_.stats());
            if (random_.one_in(4000)) pool_.retire_all();
            lease<session> held = get();
            if (held) use(held);
        }
    }

private:
    lease<session> get() {
        if (random_.one_in(4)) {
            lease<session> held = pool_.try_acquire();
            if (held) ++ends_.granted, ++ends_.acquires;
            else ++ends_.try_empty;
            return held;
        }
        ++ends_.acquires;
        std::error_code error;
        lease<session> held;
        auto briefly = std::chrono::microseconds{random_.below(300)};
        std::stop_token stop = cords_.take(number_);
        switch (random_.below(5)) {
            case 0: held = pool_.acquire({.timeout = briefly}, error); break;
            case 1: held = pool_.acquire({.stop = stop}, error); break;
            case 2: held = pool_.acquire({.timeout = briefly, .stop = stop}, error); break;
            case 3: held = acquire_or_throw(error); break;
            default: held = pool_.acquire({}, error);
        }
        if (held) ++ends_.granted;
        else if (error.category() == pool_category())
            ++ends_.refused[static_cast<std::size_t>(error.value())];
        else ++ends_.strange;
        return held;
    }

    lease<session> acquire_or_throw(std::error_code& error) {
        try {
            return pool_.acquire();
        } catch (const pool_error& e) {
            error = e.code();
            return {};
        }
    }

    void use(lease<session>& held) {
        {
            user in_use(held);
            if (random_.one_in(64)) std::this_thread::yield();
        }
        switch (random_.below(32)) {
            case 0: ++ends_.discarded; return held.discard();
            case 1: return held.mark_dirty();
            case 2: {
                ++ends_.detached;
                held->stop_counting();
                session mine = held.detach();
                return mine.touch();
            }
            default: return;
        }
    }

    pool<session>& pool_;
    stop_cords& cords_;
    outcomes& ends_;
    std::size_t number_;
    dice random_;
};

void check_outcomes(const stats& s, const outcomes& ends, std::uint64_t rejected = 0) {
    check_sums(s);
    EXPECT_EQ(ends.strange, 0u);
    EXPECT_EQ(s.waiting, 0u);
    EXPECT_EQ(s.acquires, ends.acquires + rejected);
    EXPECT_EQ(s.granted, ends.granted + rejected);
    EXPECT_EQ(s.try_empty, ends.try_empty);
    EXPECT_EQ(s.discarded, ends.discarded);
    EXPECT_EQ(s.detached, ends.detached);
    for (std::size_t i = 1; i <= errc_count; ++i)
        EXPECT_EQ(s.refused(static_cast<errc>(i)), ends.refused[i])
            << make_error_code(static_cast<errc>(i)).message();
}

/// Threads, and how many connector calls hang.
struct mix {
    std::size_t factor;
    std::int64_t hangs;
};

class keeper_mix : public testing::TestWithParam<mix> {};

TEST_P(keeper_mix, ends_every_acquire_once_and_counts_it) {
    const mix how = GetParam();
    const std::size_t threads = oversubscribed(how.factor);
    const std::size_t each = times(600'000, 100'000) / threads;
    const std::size_t threads_before = threads_of_this_process();
    constexpr std::size_t max = 6;
    census counts;
    mishaps bad;
    bad.hangs_left = how.hangs;
    const auto timeout = how.hangs > 0 ? std::chrono::nanoseconds{100ms} : patience;
    {
        pool<session> p{moody_connector(counts, bad),
                        {.name = "mix",
                         .max = max,
                         .min_idle = 1,
                         .acquire_timeout = patience,
                         .open_timeout = timeout,
                         .probe_timeout = timeout,
                         .reset_timeout = timeout,
                         .close_timeout = timeout,
                         .max_lifetime = 20ms,
                         .max_uses = 5000,
                         .sweep_interval = 1ms,
                         .probe_after_idle = 100us,
                         .backoff = {.first = 10us, .cap_waiting = 100us, .cap_idle = 1ms}}};
        stop_cords cords(threads);
        outcomes ends;
        party(threads, [&](std::size_t number) { borrower(p, cords, ends, number).work(each); });
        EXPECT_EQ(p.close(patience), 0u);
        stats s = p.stats();
        check_outcomes(s, ends);
        EXPECT_EQ(ends.refused[static_cast<std::size_t>(errc::closed)], 0u);
        EXPECT_EQ(s.total, 0u);
        EXPECT_EQ(s.opened, s.closed + s.detached);
        if (how.hangs == 0) {
            EXPECT_EQ(s.abandoned, 0u);
            EXPECT_EQ(bad.opens, s.opened + s.open_failed);
            EXPECT_LE(counts.most, static_cast<std::int64_t>(max));
        } else {
            EXPECT_GT(s.abandoned, 0u);
            EXPECT_LE(counts.most, static_cast<std::int64_t>(max + s.abandoned));
        }
        bad.end_hangs();
    }
    check_nothing_left(counts, threads_before);
}

INSTANTIATE_TEST_SUITE_P(all, keeper_mix,
                         testing::Values(mix{2, 0}, mix{8, 0}, mix{32, 0}, mix{8, 6}),
                         [](const auto& test) {
                             return std::to_string(test.param.factor) + "_times" +
                                    (test.param.hangs > 0 ? "_with_hanging_calls" : "");
                         });

/// A connector that looks at each resource before it is lent and before it comes back.
class wary_connector {
public:
    wary_connector(census& counts, mishaps& bad) : counts_(counts), bad_(bad) {}

    session open() {
        counts_.arrive();
        return session(counts_);
    }
    bool before_acquire(session& s) {
        s.touch();
        if (!my_dice().one_in(50)) return true;
        ++bad_.rejected;
        if (my_dice().one_in(2)) throw std::runtime_error("looks bad");
        return false;
    }
    bool before_release(session& s) {
        s.touch();
        return !my_dice().one_in(50);
    }

private:
    census& counts_;
    mishaps& bad_;
};

TEST(keeper_hooks, reject_without_losing_a_place_or_a_resource) {
    const std::size_t threads = oversubscribed(8);
    const std::size_t each = times(200'000, 30'000) / threads;
    const std::size_t threads_before = threads_of_this_process();
    census counts;
    mishaps bad;
    {
        pool<session> p{wary_connector(counts, bad),
                        {.max = 3, .acquire_timeout = patience, .sweep_interval = 1ms}};
        outcomes ends;
        stop_cords cords(threads);
        party(threads, [&](std::size_t number) { borrower(p, cords, ends, number).work(each); });
        check_outcomes(p.stats(), ends, bad.rejected);
        EXPECT_LE(counts.most, 3);
    }
    check_nothing_left(counts, threads_before);
}

TEST(keeper_close, answers_every_call_in_progress) {
    const std::size_t threads = oversubscribed(4);
    const std::size_t threads_before = threads_of_this_process();
    census counts;
    for (std::size_t round = 0; round < times(1000, 100); ++round) {
        pool<session> p{opens_well(counts), {.max = 2, .acquire_timeout = patience}};
        std::atomic<std::uint64_t> other{0};
        party(threads, [&](std::size_t number) {
            for (std::size_t i = 0;; ++i) {
                if (number == 0 && i == round % 64) p.close();
                std::error_code error;
                lease<session> held = p.acquire({}, error);
                if (held) {
                    user in_use(held);
                    continue;
                }
                if (error != errc::closed) ++other;
                return;
            }
        });
        ASSERT_EQ(other, 0u);
        ASSERT_EQ(p.close(patience), 0u);
        check_sums(p.stats());
        ASSERT_EQ(p.stats().total, 0u);
    }
    check_nothing_left(counts, threads_before);
}

/// Hands leases to threads that end them at once.
class enders {
public:
    explicit enders(std::size_t size) : boxes_(size) {
        for (box& each : boxes_)
            threads_.emplace_back([&each] {
                for (;;) {
                    int full = 0;
                    while ((full = each.full.load()) == 0) std::this_thread::yield();
                    if (full < 0) return;
                    {
                        lease<session> ends_here = std::move(each.held);
                    }
                    each.full = 0;
                }
            });
    }
    ~enders() {
        for (box& each : boxes_) each.full = -1;
        for (std::thread& each : threads_) each.join();
    }
    enders(const enders&) = delete;
    enders& operator=(const enders&) = delete;

    void end(std::size_t number, lease<session> held) {
        box& mine = boxes_[number];
        while (mine.full.load() != 0) std::this_thread::yield();
        mine.held = std::move(held);
        mine.full = 1;
    }
    void wait() {
        for (box& each : boxes_)
            while (each.full.load() > 0) std::this_thread::yield();
    }

private:
    struct box {
        std::atomic<int> full{0};
        lease<session> held;
    };
    std::vector<box> boxes_;
    std::vector<std::thread> threads_;
};

/// The race that mark.hpp is about: leases that came from the shelf go back to it while their pool
/// is destroyed.
TEST(keeper_end, may_come_while_leases_end) {
    const std::size_t threads_before = threads_of_this_process();
    census counts;
    {
        enders others(3);
        for (std::size_t round = 0; round < times(12'000, 1'500); ++round) {
            pool<session> p{opens_well(counts),
                            {.max = 3, .acquire_timeout = patience, .sweep_interval = 20us}};
            std::array<lease<session>, 3> held;
            for (auto& each : held) each = p.acquire();
            for (auto& each : held) {
                each.give_back();
                each = p.acquire();  // from the shelf
            }
            for (std::size_t i = 0; i < held.size(); ++i) others.end(i, std::move(held[i]));
            for (std::uint64_t n = my_dice().below(200); n > 0; --n)
                std::atomic_signal_fence(std::memory_order_seq_cst);
        }
        others.wait();
    }
    check_nothing_left(counts, threads_before);
}

TEST(keeper_end, may_come_long_before_the_leases_end) {
    const std::size_t threads_before = threads_of_this_process();
    census counts;
    const std::size_t size = times(2000, 300);
    std::vector<lease<session>> held(size);
    {
        pool<session> p{opens_well(counts),
                        {.max = size, .acquire_timeout = patience, .opening_max = 16}};
        for (auto& each : held) each = p.acquire();
    }
    EXPECT_EQ(counts.present, static_cast<std::int64_t>(size));
    party(4, [&](std::size_t number) {
        for (std::size_t i = number; i < size; i += 4) {
            held[i]->touch();
            held[i].give_back();
        }
    });
    EXPECT_EQ(counts.bodies, 0);
    check_nothing_left(counts, threads_before);
}

/// A thread keeps a lease for itself, as threads do with connections. Order of events: the thread's
/// own lease is made before its first release; so at the thread's end, what the library keeps per
/// thread goes first, and the lease ends after it.
void keep_leases_in_threads(census& counts) {
    for (std::size_t round = 0; round < 50; ++round) {
        pool<session> p{opens_well(counts), {.max = 2, .acquire_timeout = patience}};
        std::thread([&] {
            static thread_local lease<session> mine;
            for (int i = 0; i < 3; ++i) {
                mine.give_back();
                mine = p.acquire();
            }
        }).join();
        std::thread([&] { lease<session> held = p.acquire(); }).join();
        if (p.stats().leased != 0) throw std::logic_error("a lease did not end with its thread");
    }
}

TEST(keeper_end, may_meet_a_lease_that_ends_with_its_thread) {
    // In a process of its own: what went wrong here was a list that became a ring.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            alarm(30);
            census counts;
            keep_leases_in_threads(counts);
            std::_Exit(counts.bodies == 0 ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
}

/// The line is known, because each one joins it after the one before was seen in it. Newcomers and
/// try_acquire do their worst meanwhile.
TEST(keeper_line, is_first_come_first_served) {
    constexpr std::size_t waiters = 6;
    for (std::size_t round = 0; round < times(300, 40); ++round) {
        census counts;
        pool<session> p{opens_well(counts),
                        {.max = 1, .acquire_timeout = patience, .sweep_interval = 100us}};
        std::vector<std::size_t> log;  // guarded by the one lease there is
        lease<session> first = p.acquire();
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < waiters; ++i) {
            threads.emplace_back([&, i] {
                lease<session> held = p.acquire();
                user in_use(held);
                log.push_back(i);
            });
            ASSERT_TRUE(eventually([&] { return p.stats().waiting == i + 1; }));
        }
        std::atomic<std::size_t> hurrying{0};
        for (std::size_t i = 0; i < 2; ++i)
            threads.emplace_back([&, i] {
                ++hurrying;
                for (int n = 0; n < 20; ++n) {
                    lease<session> held = i == 0 ? p.try_acquire() : p.acquire();
                    if (!held) continue;
                    user in_use(held);
                    log.push_back(waiters + i);
                }
            });
        ASSERT_TRUE(eventually([&] { return hurrying == 2; }));
        first.give_back();
        for (std::thread& each : threads) each.join();
        ASSERT_GE(log.size(), waiters);
        for (std::size_t i = 0; i < waiters; ++i) ASSERT_EQ(log[i], i) << "in round " << round;
    }
}

/// A chain of hand-overs must not nest: each thread of it has a small stack.
struct chain {
    census counts;
    // Strict: with turns most leases go back to the thread that released, and none is handed over.
    pool<session> p{opens_well(counts),
                    {.max = 1, .acquire_timeout = patience, .fairness = fairness::strict}};
    const std::uint64_t wanted = times(1'000'000, 100'000);
    std::atomic<std::uint64_t> left{wanted};
    std::atomic<std::uint64_t> failed{0};
    std::uint64_t links = 0;  // guarded by the one lease there is

    static void* link(void* self) {
        auto& all = *static_cast<chain*>(self);
        for (;;) {
            std::error_code error;
            lease<session> held = all.p.acquire({}, error);
            if (!held) return ++all.failed, nullptr;
            ++all.links;
            if (all.left.load() == 0) return nullptr;
            all.left.fetch_sub(1);
            eventually([&] { return all.p.stats().waiting > 0 || all.left.load() == 0; });
        }
    }
};

TEST(keeper_release, hands_over_any_number_of_times_on_a_small_stack) {
    chain all;
    pthread_attr_t small;
    ASSERT_EQ(pthread_attr_init(&small), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&small, (sanitized ? 512 : 64) * 1024), 0);
    std::array<pthread_t, 3> threads{};
    {
        // Released when all threads wait: from then on one of them always waits.
        lease<session> first = all.p.acquire();
        for (pthread_t& each : threads)
            ASSERT_EQ(pthread_create(&each, &small, chain::link, &all), 0);
        ASSERT_TRUE(eventually([&] { return all.p.stats().waiting == threads.size(); }));
    }
    for (pthread_t each : threads) pthread_join(each, nullptr);
    pthread_attr_destroy(&small);
    EXPECT_EQ(all.failed, 0u);
    EXPECT_GE(all.links, all.wanted);
    stats s = all.p.stats();
    check_sums(s);
    EXPECT_EQ(s.granted, all.links + 1);
    EXPECT_GE(s.waited + threads.size(), all.wanted);
}

}  // namespace
}  // namespace cenote::race
