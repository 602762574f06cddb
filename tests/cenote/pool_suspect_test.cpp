// Suspicion: one resource shows that the others may be dead, too.
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"

using namespace std::chrono_literals;
using cenote::retire_reason;
using cenote::verdict;
using support::connector;
using support::eventually;
using support::plenty;
using support::refused_by_server;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

struct restarted : std::runtime_error {
    restarted() : runtime_error("the server was restarted") {}
};

/// Takes every exception for a sign that the server was restarted.
struct wary : connector {
    static verdict classify(const std::exception_ptr&) { return verdict::suspect; }
};

/// The same without a probe.
struct wary_and_blind {
    std::shared_ptr<server> to;

    session open() const { return to->open(); }
    void close(session& s) const { to->close(s); }
    static verdict classify(const std::exception_ptr&) { return verdict::suspect; }
};

/// Nothing is probed but for suspicion.
cenote::options trusting(std::size_t max) {
    return {.max = max,
            .acquire_timeout = plenty,
            .probe_timeout = plenty,
            .close_timeout = plenty,
            .probe_after_idle = cenote::forever};
}

std::vector<cenote::lease<session>> hold_many(session_pool& pool, int count) {
    std::vector<cenote::lease<session>> all;
    for (int i = 0; i < count; ++i) all.push_back(pool.acquire());
    return all;
}

}  // namespace

TEST(pool_suspect, a_verdict_has_the_one_discarded_and_the_others_probed) {
    auto to = server::start();
    std::array<std::atomic<int>, 4> probes{};
    to->on_probe = [&](int id) { return ++probes.at(static_cast<std::size_t>(id)) > 0; };
    session_pool pool{wary{{to}}, trusting(4)};
    hold_many(pool, 3).clear();
    int discarded = 0;
    EXPECT_THROW(pool.with([&](session& s) {
        discarded = s.id;
        throw restarted();
    }),
                 restarted);
    EXPECT_TRUE(eventually([&] { return to->closes == 1; }));
    EXPECT_EQ(pool.stats().discarded, 1U);
    for (int twice = 0; twice < 2; ++twice)
        for (auto& lease : hold_many(pool, 2)) {
            EXPECT_NE(lease->id, discarded);
            if (lease->id > 3) continue;  // opened meanwhile: probes may be slow
            EXPECT_EQ(probes.at(static_cast<std::size_t>(lease->id)), 1) << "once is enough";
        }
}

TEST(pool_suspect, the_dead_are_replaced) {
    auto to = server::start();
    session_pool pool{wary{{to}}, trusting(4)};
    hold_many(pool, 3).clear();
    to->on_probe = [](int id) { return id > 3; };
    EXPECT_THROW(pool.with([](session&) { throw restarted(); }), restarted);
    for (auto& lease : hold_many(pool, 3)) EXPECT_GT(lease->id, 3);
    EXPECT_TRUE(eventually([&] { return to->closes == 3; }));
}

TEST(pool_suspect, a_lease_can_say_so) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(2)};
    auto held = hold_many(pool, 2);
    held[0].discard_and_suspect();
    EXPECT_FALSE(held[0]);
    held[0] = pool.acquire();
    EXPECT_EQ(held[0]->id, 3);
    EXPECT_EQ(to->closes, 1);
    EXPECT_EQ(held[1]->id, 2) << "goes on";
    held[1].give_back();
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->probes, 1) << "that its holder brought it back is no proof";
}

TEST(pool_suspect, so_can_somebody_without_a_lease) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(1)};
    for (int i = 0; i < 20; ++i) (void)pool.acquire();  // now it goes over the shelf
    pool.suspect_all();
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->probes, 1);
    EXPECT_EQ(pool.stats().discarded, 0U);
}

TEST(pool_suspect, try_acquire_finds_nothing_ready) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(1)};
    (void)pool.acquire();
    pool.suspect_all();
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_TRUE(eventually([&] { return bool{pool.try_acquire()}; }));
    EXPECT_EQ(to->probes, 1);
}

TEST(pool_suspect, without_a_probe_everything_is_retired) {
    auto to = server::start();
    session_pool pool{wary_and_blind{to}, trusting(4)};
    hold_many(pool, 3).clear();
    auto held = pool.acquire();
    EXPECT_THROW(pool.with([](session&) { throw restarted(); }), restarted);
    EXPECT_TRUE(eventually([&] { return to->closes == 2; }));
    EXPECT_GT(pool.acquire()->id, 3);
    held.give_back();
    EXPECT_TRUE(eventually([&] { return to->closes == 3; }));
    EXPECT_EQ(pool.stats().retired(retire_reason::generation), 2U);
    pool.suspect_all();
    EXPECT_GT(pool.acquire()->id, 4);
}

TEST(pool_suspect, many_who_say_the_same_say_it_once) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(4)};
    auto held = hold_many(pool, 3);
    held[0].discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 4);
    held[1].discard_and_suspect();
    held[2].discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 4) << "not what they spoke of";
    EXPECT_EQ(to->probes, 0);
    EXPECT_EQ(pool.stats().discarded, 3U);
    pool.acquire().discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 5);
}

TEST(pool_suspect, many_who_say_the_same_retire_once) {
    auto to = server::start();
    session_pool pool{wary_and_blind{to}, trusting(4)};
    auto held = hold_many(pool, 3);
    held[0].discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 4);
    held[1].discard_and_suspect();
    held[2].discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 4);
    EXPECT_EQ(pool.stats().retired(retire_reason::generation), 0U);
}

TEST(pool_suspect, what_is_retired_says_nothing_about_its_successors) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(4)};
    auto held = pool.acquire();
    pool.replace_connector(connector{to});
    EXPECT_EQ(pool.acquire()->id, 2);
    held.discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->probes, 0);
}

TEST(pool_suspect, from_open_it_means_try_again) {
    auto to = server::start();
    to->on_open = [](int id) {
        if (id == 2) throw refused_by_server("not now");
    };
    session_pool pool{wary{{to}}, trusting(4)};
    auto held = pool.acquire();
    EXPECT_EQ(pool.acquire()->id, 3);
    held.give_back();
    EXPECT_EQ(hold_many(pool, 2).size(), 2U);
    EXPECT_EQ(to->probes, 0);
    EXPECT_EQ(to->opens, 3);
}

TEST(pool_suspect, an_empty_lease_says_nothing) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(4)};
    auto held = pool.acquire();
    auto other = std::move(held);
    held.discard_and_suspect();  // NOLINT(bugprone-use-after-move): empty is what it is meant to be
    other.give_back();
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->probes, 0);
}

TEST(pool_suspect, does_no_harm_to_a_pool_that_is_closed_or_gone) {
    auto to = server::start();
    std::optional<session_pool> pool{std::in_place, connector{to}, trusting(4)};
    auto held = hold_many(*pool, 2);
    pool->close();
    pool->suspect_all();
    held[0].discard_and_suspect();
    EXPECT_EQ(pool->close(0ns), 1U);
    pool.reset();
    held[1].discard_and_suspect();
    EXPECT_EQ(to->closes, 2);
    EXPECT_EQ(to->present, 0);
}

namespace {

/// Three threads that acquire and release as fast as they can, and can be asked to pause.
class traffic {
public:
    template <class Use>
    traffic(session_pool& pool, Use use) {
        for (auto& mine : served_)
            threads_.emplace_back([&, use](const std::stop_token& stop) {
                for (int turn = 0; !stop.stop_requested(); ++turn) {
                    if (paused_) {
                        ++resting_;
                        paused_.wait(true);
                        --resting_;
                    }
                    use(pool, turn);
                    ++mine;
                    if (turn % 16 == 0) std::this_thread::yield();  // there are few processors
                }
            });
    }

    bool pause() {
        paused_ = true;
        return eventually([&] { return resting_ == 3; });
    }
    bool go_on() {
        paused_ = false;
        paused_.notify_all();
        return eventually([&] { return resting_ == 0; }) && everybody_is_served();
    }
    bool everybody_is_served() {
        std::array<int, 3> before{};
        for (std::size_t i = 0; i < before.size(); ++i) before.at(i) = served_.at(i);
        return eventually([&] {
            for (std::size_t i = 0; i < before.size(); ++i)
                if (served_.at(i) <= before.at(i) + 3) return false;
            return true;
        });
    }

private:
    std::atomic<bool> paused_{false};
    std::atomic<int> resting_{0};
    std::array<std::atomic<int>, 3> served_{};
    std::vector<std::jthread> threads_;
};

}  // namespace

TEST(pool_suspect, reaches_the_fast_lane) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(3)};
    std::array<std::atomic<int>, 4> proven{};  // the round in which each was probed last
    std::atomic<int> round{0}, suspected{0}, unproven{0};
    to->on_probe = [&](int id) {
        proven.at(static_cast<std::size_t>(id)) = round.load();
        return true;
    };
    {
        traffic on_the_lane(pool, [&](session_pool& from, int) {
            int limit = suspected;
            auto held = from.acquire();
            auto claim = held->use();
            if (proven.at(static_cast<std::size_t>(held->id)) < limit) ++unproven;
        });
        for (int n = 1; n <= rounds(300); ++n) {
            // No probe is under way when suspicion arises: it would count as a proof.
            ASSERT_TRUE(on_the_lane.pause());
            hold_many(pool, 3).clear();
            round = n;
            ASSERT_TRUE(on_the_lane.go_on());
            pool.suspect_all();
            suspected = n;
            ASSERT_TRUE(on_the_lane.everybody_is_served());
        }
    }
    EXPECT_EQ(unproven, 0);
    EXPECT_EQ(to->opens, 3);
    EXPECT_EQ(to->overlaps, 0);
}

TEST(pool_suspect, a_thousand_restarts_under_load) {
    auto to = server::start();
    session_pool pool{wary_and_blind{to},
                      {.max = 3, .acquire_timeout = plenty, .close_timeout = plenty}};
    std::atomic<int> last_old{0}, outdated{0};
    {
        traffic on_the_lane(pool, [&](session_pool& from, int turn) {
            int limit = last_old;
            try {
                from.with([&](session& s) {
                    auto claim = s.use();
                    if (s.id <= limit) ++outdated;
                    if (turn % 100 == 3) throw restarted();
                });
            } catch (const restarted&) {
                return;
            }
        });
        for (int n = 1; n <= 1000; ++n) {
            int last = to->opens;
            pool.suspect_all();
            last_old = last;
            bool served = n % 20 != 0 || on_the_lane.everybody_is_served();
            ASSERT_TRUE(served);
        }
    }
    EXPECT_EQ(outdated, 0);
    EXPECT_EQ(to->overlaps, 0);
    EXPECT_LE(to->peak, 3);
    EXPECT_EQ(support::contradiction(pool.stats()), "");
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->present, 0);
}
