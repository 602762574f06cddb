// Tests suspicion: one resource shows that all others may be dead, too.
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

/// Takes every exception as a sign that the server was restarted.
struct suspecting : connector {
    static verdict classify(const std::exception_ptr&) { return verdict::suspect; }
};

/// Suspects like `suspecting`, and has no probe.
struct suspecting_without_probe {
    std::shared_ptr<server> to;

    session open() const { return to->open(); }
    void close(session& s) const { to->close(s); }
    static verdict classify(const std::exception_ptr&) { return verdict::suspect; }
};

/// Only suspicion causes probes.
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

TEST(pool_suspect, a_verdict_discards_one_and_probes_the_others) {
    auto to = server::start();
    std::array<std::atomic<int>, 4> probes{};
    to->on_probe = [&](int id) { return ++probes.at(static_cast<std::size_t>(id)) > 0; };
    session_pool pool{suspecting{{to}}, trusting(4)};
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
            if (lease->id > 3) continue;  // opened because a probe was slow
            EXPECT_EQ(probes.at(static_cast<std::size_t>(lease->id)), 1) << "one probe is enough";
        }
}

TEST(pool_suspect, the_dead_are_replaced) {
    auto to = server::start();
    session_pool pool{suspecting{{to}}, trusting(4)};
    hold_many(pool, 3).clear();
    to->on_probe = [](int id) { return id > 3; };
    EXPECT_THROW(pool.with([](session&) { throw restarted(); }), restarted);
    for (auto& lease : hold_many(pool, 3)) EXPECT_GT(lease->id, 3);
    EXPECT_TRUE(eventually([&] { return to->closes == 3; }));
}

TEST(pool_suspect, a_lease_can_report_it) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(2)};
    auto leases = hold_many(pool, 2);
    leases[0].discard_and_suspect();
    EXPECT_FALSE(leases[0]);
    leases[0] = pool.acquire();
    EXPECT_EQ(leases[0]->id, 3);
    EXPECT_EQ(to->closes, 1);
    EXPECT_EQ(leases[1]->id, 2) << "the lease continues";
    leases[1].give_back();
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->probes, 1) << "a release does not prove that the resource works";
}

TEST(pool_suspect, suspect_all_reports_it_without_a_lease) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(1)};
    for (int i = 0; i < 20; ++i) (void)pool.acquire();  // from now on over the shelf
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
    session_pool pool{suspecting_without_probe{to}, trusting(4)};
    hold_many(pool, 3).clear();
    auto lease = pool.acquire();
    EXPECT_THROW(pool.with([](session&) { throw restarted(); }), restarted);
    EXPECT_TRUE(eventually([&] { return to->closes == 2; }));
    EXPECT_GT(pool.acquire()->id, 3);
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return to->closes == 3; }));
    EXPECT_EQ(pool.stats().retired(retire_reason::generation), 2U);
    pool.suspect_all();
    EXPECT_GT(pool.acquire()->id, 4);
}

TEST(pool_suspect, many_reports_of_one_failure_count_once) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(4)};
    auto leases = hold_many(pool, 3);
    leases[0].discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 4);
    leases[1].discard_and_suspect();
    leases[2].discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 4) << "opened after the restart that they report";
    EXPECT_EQ(to->probes, 0);
    EXPECT_EQ(pool.stats().discarded, 3U);
    pool.acquire().discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 5);
}

TEST(pool_suspect, many_reports_of_one_failure_retire_once) {
    auto to = server::start();
    session_pool pool{suspecting_without_probe{to}, trusting(4)};
    auto leases = hold_many(pool, 3);
    leases[0].discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 4);
    leases[1].discard_and_suspect();
    leases[2].discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 4);
    EXPECT_EQ(pool.stats().retired(retire_reason::generation), 0U);
}

TEST(pool_suspect, a_retired_resource_does_not_make_its_successors_suspect) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(4)};
    auto lease = pool.acquire();
    pool.replace_connector(connector{to});
    EXPECT_EQ(pool.acquire()->id, 2);
    lease.discard_and_suspect();
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->probes, 0);
}

TEST(pool_suspect, from_open_means_retry) {
    auto to = server::start();
    to->on_open = [](int id) {
        if (id == 2) throw refused_by_server("not now");
    };
    session_pool pool{suspecting{{to}}, trusting(4)};
    auto lease = pool.acquire();
    EXPECT_EQ(pool.acquire()->id, 3);
    lease.give_back();
    EXPECT_EQ(hold_many(pool, 2).size(), 2U);
    EXPECT_EQ(to->probes, 0);
    EXPECT_EQ(to->opens, 3);
}

TEST(pool_suspect, an_empty_lease_reports_nothing) {
    auto to = server::start();
    session_pool pool{connector{to}, trusting(4)};
    auto lease = pool.acquire();
    auto other = std::move(lease);
    lease.discard_and_suspect();  // NOLINT(bugprone-use-after-move): empty leases are tested
    other.give_back();
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->probes, 0);
}

TEST(pool_suspect, has_no_effect_on_a_closed_or_destroyed_pool) {
    auto to = server::start();
    std::optional<session_pool> pool{std::in_place, connector{to}, trusting(4)};
    auto leases = hold_many(*pool, 2);
    pool->close();
    pool->suspect_all();
    leases[0].discard_and_suspect();
    EXPECT_EQ(pool->close(0ns), 1U);
    pool.reset();
    leases[1].discard_and_suspect();
    EXPECT_EQ(to->closes, 2);
    EXPECT_EQ(to->present, 0);
}

namespace {

/// Three threads that acquire and release as fast as they can, and can be paused.
class borrowers {
public:
    template <class Use>
    borrowers(session_pool& pool, Use use) {
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
                    if (turn % 16 == 0) std::this_thread::yield();  // with few processors
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
        return eventually([&] { return resting_ == 0; }) && all_are_served();
    }
    bool all_are_served() {
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
    std::array<std::atomic<int>, 4> proven{};  // the round of the last probe of each session
    std::atomic<int> round{0}, suspected{0}, unproven{0};
    to->on_probe = [&](int id) {
        proven.at(static_cast<std::size_t>(id)) = round.load();
        return true;
    };
    {
        borrowers on_the_lane(pool, [&](session_pool& from, int) {
            int limit = suspected;
            auto lease = from.acquire();
            auto claim = lease->use();
            if (proven.at(static_cast<std::size_t>(lease->id)) < limit) ++unproven;
        });
        for (int n = 1; n <= rounds(300); ++n) {
            // No probe is under way when suspicion arises: its success would clear the suspicion.
            ASSERT_TRUE(on_the_lane.pause());
            hold_many(pool, 3).clear();
            round = n;
            ASSERT_TRUE(on_the_lane.go_on());
            pool.suspect_all();
            suspected = n;
            ASSERT_TRUE(on_the_lane.all_are_served());
        }
    }
    EXPECT_EQ(unproven, 0);
    EXPECT_EQ(to->opens, 3);
    EXPECT_EQ(to->overlaps, 0);
}

TEST(pool_suspect, a_thousand_restarts_under_load) {
    auto to = server::start();
    session_pool pool{suspecting_without_probe{to},
                      {.max = 3, .acquire_timeout = plenty, .close_timeout = plenty}};
    std::atomic<int> last_old{0}, outdated{0};
    {
        borrowers on_the_lane(pool, [&](session_pool& from, int turn) {
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
            bool served = n % 20 != 0 || on_the_lane.all_are_served();
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
