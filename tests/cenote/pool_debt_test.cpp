// Tests verdict::reset_later: the resource owes a reset, which its next use or the pool makes in
// time.
#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using cenote::retire_reason;
using cenote::verdict;
using support::connector;
using support::eventually;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

/// The sessions that owe a reset, by id, and how many probes met such a session.
struct debt_book {
    std::mutex mutex;
    std::set<int> owing;
    int probed_owing = 0;

    void owe(int id) {
        std::lock_guard lock(mutex);
        owing.insert(id);
    }
    bool pay(int id) {
        std::lock_guard lock(mutex);
        return owing.erase(id) > 0;
    }
    bool owes(int id) {
        std::lock_guard lock(mutex);
        return owing.contains(id);
    }
};

/// Its sessions owe a reset after each use.
struct late_connector : connector {
    std::shared_ptr<debt_book> debts = std::make_shared<debt_book>();

    verdict before_release(session& s) const {
        ++to->releases;
        return debts->owes(s.id) ? verdict::reset_later : verdict::keep;
    }
    bool reset(session& s) const {
        debts->pay(s.id);
        return to->reset(s);
    }
    bool probe(session& s) const {
        if (debts->owes(s.id)) ++debts->probed_owing;
        return to->probe(s);
    }
};

struct pool_debt : testing::Test {
    /// One use: pays the debt of the last use and leaves a debt.
    void use(session& s) {
        auto claim = s.use();
        paid += debts->pay(s.id) ? 1 : 0;
        debts->owe(s.id);
    }
    static cenote::options of(std::size_t max) {
        cenote::options how = support::patient(max);
        how.probe_after_idle = cenote::forever;
        how.sweep_interval = 1h;
        how.reset_after = 50ms;
        how.fairness = cenote::fairness::strict;  // turns need a clock that moves
        return how;
    }
    /// Uses the pool until its resource is on the shelf.
    void warm(session_pool& pool) {
        for (int i = 0; i < 20; ++i) use(*pool.acquire());
    }
    /// Moves the clock, unless a connector call is under way, which could time out.
    static void pass(support::stopped_clock& time, const session_pool& pool,
                     std::chrono::nanoseconds by = 5ms) {
        auto s = pool.stats();
        if (s.opening + s.probing + s.resetting + s.closing == 0) time.advance(by);
    }
    /// Whether all debts are paid in time.
    bool all_is_paid(support::stopped_clock& time, const session_pool& pool) {
        return eventually([&] {
            pass(time, pool);
            std::lock_guard lock(debts->mutex);
            return debts->owing.empty();
        });
    }

    std::shared_ptr<server> to = server::start();
    std::shared_ptr<debt_book> debts = std::make_shared<debt_book>();
    std::atomic<int> paid{0};  // by uses
};

}  // namespace

TEST_F(pool_debt, is_paid_by_the_next_use_and_costs_the_pool_nothing) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(1)};
    for (int i = 0; i < 1000; ++i) use(*pool.acquire());
    EXPECT_EQ(to->resets, 0);
    EXPECT_EQ(paid, 999);
    EXPECT_EQ(to->opens, 1);
    EXPECT_EQ(pool.stats().granted, 1000U);
}

TEST_F(pool_debt, is_paid_by_the_pool_without_a_next_use_between_sweeps) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(1)};
    warm(pool);
    EXPECT_TRUE(all_is_paid(time, pool));
    EXPECT_EQ(to->resets, 1);
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 1; }));
    for (int i = 0; i < 20; ++i) time.advance(50ms);
    EXPECT_EQ(to->resets, 1) << "one reset is enough";
}

TEST_F(pool_debt, of_each_resource_is_paid_in_time) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(4)};
    for (int round = 0; round < 3; ++round) {
        std::vector<cenote::lease<session>> all;
        for (int i = 0; i < 4; ++i) use(*all.emplace_back(pool.acquire()));
        all.clear();
        EXPECT_TRUE(all_is_paid(time, pool));
    }
    EXPECT_EQ(to->closes, 0);
}

TEST_F(pool_debt, the_first_one_moves_a_distant_sweep_forward) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(2)};
    for (int i = 0; i < 20; ++i) (void)pool.acquire();  // no debt, and the fast lane is open
    warm(pool);
    EXPECT_TRUE(all_is_paid(time, pool));
    EXPECT_GE(to->resets, 1);
}

TEST_F(pool_debt, is_paid_before_the_next_borrower_where_a_reset_is_due_at_once) {
    support::stopped_clock time;
    cenote::options at_once = of(1);
    at_once.reset_after = 0ms;
    session_pool pool{late_connector{{to}, debts}, at_once};
    for (int i = 0; i < 10; ++i) use(*pool.acquire());
    EXPECT_TRUE(eventually([&] { return to->resets == 10; }));
    EXPECT_EQ(paid, 0);
}

TEST_F(pool_debt, goes_with_the_resource_to_a_waiter) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(1)};
    auto lease = pool.acquire();
    std::thread waiting([&] { use(*pool.acquire()); });
    ASSERT_TRUE(eventually([&] { return pool.stats().waiting == 1; }));
    use(*lease);
    lease.give_back();
    waiting.join();
    EXPECT_EQ(paid, 1);
}

TEST_F(pool_debt, of_a_resource_that_was_leased_and_not_used_stays) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(1)};
    warm(pool);
    (void)pool.acquire();
    EXPECT_TRUE(all_is_paid(time, pool));
    EXPECT_EQ(to->resets, 1);
}

TEST_F(pool_debt, is_paid_at_once_if_the_borrower_marks_it_dirty) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(1)};
    warm(pool);
    auto lease = pool.acquire();
    lease.mark_dirty();
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return to->resets == 1; }));
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->resets, 1);
}

TEST_F(pool_debt, is_paid_before_a_probe_at_acquire) {
    support::stopped_clock time;
    cenote::options probing = of(1);
    probing.probe_after_idle = 1s;
    probing.reset_after = 1min;
    session_pool pool{late_connector{{to}, debts}, probing};
    warm(pool);
    EXPECT_TRUE(eventually([&] {
        pass(time, pool, 1500ms);
        use(*pool.acquire());
        return to->probes >= 3;
    }));
    EXPECT_GE(to->resets, 3);
    EXPECT_EQ(debts->probed_owing, 0);
}

TEST_F(pool_debt, is_paid_before_a_heartbeat) {
    support::stopped_clock time;
    cenote::options beating = of(2);
    beating.heartbeat = 20ms;
    beating.reset_after = cenote::forever;
    session_pool pool{late_connector{{to}, debts}, beating};
    warm(pool);
    EXPECT_TRUE(eventually([&] { return pass(time, pool), to->probes >= 3; }));
    EXPECT_EQ(to->resets, 1);
    EXPECT_EQ(debts->probed_owing, 0);
}

TEST_F(pool_debt, is_paid_before_a_probe_at_release) {
    support::stopped_clock time;
    cenote::options probing = of(1);
    probing.probe_on_release = true;
    session_pool pool{late_connector{{to}, debts}, probing};
    for (int i = 0; i < 5; ++i) use(*pool.acquire());
    EXPECT_TRUE(eventually([&] { return to->probes == 5; }));
    EXPECT_EQ(debts->probed_owing, 0);
}

TEST_F(pool_debt, is_paid_when_the_pool_is_paused_or_not_maintained) {
    support::stopped_clock time;
    for (bool pauses : {true, false}) {
        int before = to->resets;
        session_pool pool{late_connector{{to}, debts}, of(2)};
        auto lease = pool.acquire();
        warm(pool);
        use(*lease);
        if (pauses) pool.pause();
        else pool.suspend_maintenance();
        EXPECT_TRUE(eventually([&] { return to->resets == before + 1; }));
        lease.give_back();
        EXPECT_TRUE(eventually([&] { return to->resets == before + 2; }))
            << "no sweep would do it later";
    }
}

TEST_F(pool_debt, of_a_closed_resource_is_not_paid) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(2)};
    warm(pool);
    pool.retire_all();
    EXPECT_TRUE(eventually([&] { return to->closes == 1; }));
    warm(pool);
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_TRUE(eventually([&] { return to->closes == 2; }));
    EXPECT_EQ(to->resets, 0);
}

TEST_F(pool_debt, that_cannot_be_paid_retires_the_resource) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(1)};
    to->on_reset = [](int id) { return id != 1; };
    warm(pool);
    EXPECT_TRUE(eventually([&] {
        pass(time, pool);
        return pool.stats().retired(retire_reason::reset_failed) == 1;
    }));
    EXPECT_EQ(pool.acquire()->id, 2);
}

TEST_F(pool_debt, without_a_reset_function_is_reported_as_an_error) {
    struct without_reset {
        std::shared_ptr<server> to;
        session open() const { return to->open(); }
        static verdict before_release(session&) { return verdict::reset_later; }
    };
    auto events = std::make_shared<support::recorder>();
    cenote::options observed = of(1);
    observed.observers.push_back(events);
    session_pool pool{without_reset{to}, observed};
    (void)pool.acquire();
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_TRUE(eventually([&] { return pool.stats().retired(retire_reason::rejected) == 2; }));
    auto has_reason = [](const cenote::event& e) {
        try {
            if (e.cause != nullptr) std::rethrow_exception(e.cause);
        } catch (const std::logic_error& error) {
            return std::string(error.what()).find("has no reset") != std::string::npos;
        }
        return false;
    };
    EXPECT_TRUE(eventually([&] { return std::ranges::any_of(events->seen(), has_reason); }));
}

TEST_F(pool_debt, is_paid_where_observers_want_every_lease) {
    support::stopped_clock time;
    cenote::options observed = of(2);
    observed.observers.push_back(std::make_shared<support::recorder>());
    session_pool pool{late_connector{{to}, debts}, observed};
    warm(pool);
    EXPECT_EQ(paid, 19);
    EXPECT_TRUE(all_is_paid(time, pool));
}

TEST_F(pool_debt, goes_with_a_detached_resource) {
    support::stopped_clock time;
    session_pool pool{late_connector{{to}, debts}, of(1)};
    warm(pool);
    session mine = pool.acquire().detach();
    EXPECT_TRUE(debts->owes(mine.id));
    use(mine);
    EXPECT_EQ(paid, 20);
    EXPECT_EQ(pool.acquire()->id, 2);
}

/// Threads leave debts and pay them. Each debt is paid once, and no reset of the pool overlaps a
/// use.
TEST_F(pool_debt, is_paid_exactly_once_under_load) {
    cenote::options soon = of(3);
    soon.reset_after = 1ms;
    session_pool pool{late_connector{{to}, debts}, soon};
    std::vector<std::thread> users;
    for (int t = 0; t < 6; ++t)
        users.emplace_back([&, t] {
            for (int i = 0; i < 400; ++i) {
                use(*pool.acquire());
                if ((i + t) % 50 == 0) std::this_thread::sleep_for(3ms);
            }
        });
    for (std::thread& u : users) u.join();
    EXPECT_TRUE(eventually([&] {
        std::lock_guard lock(debts->mutex);
        return debts->owing.empty();
    }));
    EXPECT_TRUE(eventually([&] { return paid + to->resets == 6 * 400; }));
    EXPECT_EQ(to->overlaps, 0);
}
