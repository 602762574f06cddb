// The lease ledger: what borrowers and the keeper write into traces, and what is read from them.
#include "shell/lease_ledger.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/machine_dialogue.hpp"
#include "support/recorder.hpp"

using namespace std::chrono_literals;
using cenote::lease_info;
using cenote::shell::borrower;
using cenote::shell::event_queue;
using cenote::shell::lease_ledger;
using testing::IsEmpty;
namespace core = cenote::core;
namespace detail = cenote::detail;

namespace {

struct thing final : detail::resource {
    void destroy() noexcept override {}
};

constexpr auto sweeps_every = 10s;

/// A pool with two leases, and the traces of both.
struct lease_ledger_test : testing::Test {
    explicit lease_ledger_test(std::uint64_t max_uses = cenote::forever)
        : heard(std::make_shared<support::recorder>()),
          settings{.name = "lent",
                   .max = 2,
                   .max_uses = max_uses,
                   .leak_after = 4s,
                   .observers = {heard}},
          talk(settings) {
        for (std::uint64_t who : {0U, 1U}) {
            talk.ask(who);
            talk.finish_calls();
            thing& r = things[who];
            r.slot = talk.slot_of(who);
            r.seen = &leases.trace_of(r.slot);
        }
    }

    std::shared_ptr<support::recorder> heard;
    cenote::options settings;
    core::dialogue talk;
    event_queue events{settings.observers};
    cenote::shell::pool_lock lock;
    lease_ledger leases{talk.it, events, settings.name, settings, sweeps_every};
    thing things[2];
    thing& a = things[0];
    thing& b = things[1];

    static borrower borrower_at(const char* task = nullptr, std::uint64_t thread = 0,
                                std::chrono::nanoseconds leak_after = 0s) {
        return {.site = std::source_location::current(),
                .task = task,
                .leak_after = leak_after,
                .holder = thread};
    }
    void grant(thing& r, const borrower& to = borrower_at(), bool swept = false) {
        leases.granted(talk.now, &r, to, swept);
    }
    // What a borrower does on the fast lane, without the keeper.
    static void put(thing& r) {
        r.seen->leased_at = 0;
        ++r.seen->puts;
    }
    static void hit(thing& r) { ++r.seen->hits; }

    std::vector<lease_info> list() {
        std::vector<lease_info> all;
        leases.list(talk.now, all);
        return all;
    }
    /// The leaks that an inspection reports.
    std::vector<cenote::event> leaks(bool swept = false) {
        std::size_t before = heard->count(cenote::event_kind::leak_suspected);
        leases.inspect(talk.now, swept);
        events.deliver(lock);
        auto all = heard->seen();
        return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
    }
};

struct lease_ledger_with_limit : lease_ledger_test {
    lease_ledger_with_limit() : lease_ledger_test(3) {}
};

}  // namespace

// The beginning and the end of leases.

TEST_F(lease_ledger_test, writes_a_grant_into_the_trace) {
    borrower who = borrower_at("report", 7, 3s);
    grant(a, who);
    EXPECT_EQ(a.seen->site.load().line(), who.site.line());
    EXPECT_STREQ(a.seen->task, "report");
    EXPECT_EQ(a.seen->leak_after, std::chrono::nanoseconds(3s).count());
    EXPECT_EQ(a.seen->holder, 7U);
    EXPECT_EQ(a.seen->hits, 0U);
    talk.now += 2s;
    EXPECT_EQ(lease_ledger::held(talk.now, &a), 2s);
}

TEST_F(lease_ledger_test, counts_a_lease_taken_under_the_lock) {
    grant(a);
    put(a);
    EXPECT_EQ(lease_ledger::held(talk.now, &a), std::nullopt);
    talk.now += 1s;
    leases.taken(talk.now, &a, borrower_at("taken"), true);
    EXPECT_EQ(lease_ledger::hits(&a), 1U);
    EXPECT_STREQ(a.seen->task, "taken");
    EXPECT_EQ(lease_ledger::held(talk.now, &a), 0s);
}

TEST_F(lease_ledger_test, counts_leases_that_passed_the_machine_by) {
    grant(a);
    EXPECT_EQ(leases.uses_since(&a), 0U);
    for (int i = 0; i < 3; ++i) put(a), hit(a);
    EXPECT_EQ(leases.uses_since(&a), 3U);
    EXPECT_EQ(leases.take_uses(&a), 3U);
    EXPECT_EQ(leases.take_uses(&a), 0U);
    put(a), hit(a);
    EXPECT_EQ(leases.uses_since(&a), 1U);
    grant(a);
    EXPECT_EQ(leases.uses_since(&a), 0U);
}

TEST_F(lease_ledger_test, sees_each_touch) {
    grant(a);
    auto before = lease_ledger::touches(&a);
    put(a);
    EXPECT_EQ(lease_ledger::touches(&a), before + 1);
    hit(a);
    EXPECT_EQ(lease_ledger::touches(&a), before + 2);
}

TEST_F(lease_ledger_test, sets_no_limit_without_max_uses) {
    hit(a);
    grant(a);
    EXPECT_EQ(a.seen->limit, std::uint64_t{cenote::forever});
}

TEST_F(lease_ledger_with_limit, sets_the_limit_from_max_uses) {
    a.seen->hits = 40;
    grant(a);
    EXPECT_EQ(a.seen->limit, 40 + 3 - talk.it.look(a.slot).uses);
}

// Who has which lease.

TEST_F(lease_ledger_test, sees_whether_a_lease_is_out_or_on_the_shelf) {
    grant(a);
    EXPECT_TRUE(leases.is_out(a.slot));
    put(a);
    EXPECT_FALSE(leases.is_out(a.slot));
    hit(a);
    EXPECT_TRUE(leases.is_out(a.slot));
    talk.release(a.slot);
    EXPECT_FALSE(leases.is_out(a.slot));
    put(a);
    talk.ask(5);
    grant(a);  // earlier puts and hits do not count
    EXPECT_TRUE(leases.is_out(a.slot));
}

TEST_F(lease_ledger_test, lists_the_longest_held_first_and_unknown_times_last) {
    grant(b, borrower_at("first"));
    talk.now += 1s;
    grant(a, borrower_at("second"));
    talk.now += 1s;
    std::vector<lease_info> all = list();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_STREQ(all[0].task, "first");
    EXPECT_EQ(all[0].held, 2s);
    EXPECT_EQ(all[0].resource, talk.it.look(b.slot).resource);
    EXPECT_STREQ(all[1].task, "second");
    put(b), hit(b);
    all = list();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_STREQ(all[0].task, "second");
    EXPECT_EQ(all[1].held, 0s);
    put(a), put(b);
    EXPECT_THAT(list(), IsEmpty());
}

TEST_F(lease_ledger_test, names_all_holders_if_the_asking_thread_is_one) {
    grant(a, borrower_at(nullptr, 7));
    grant(b, borrower_at(nullptr, 8));
    put(b);
    EXPECT_FALSE(leases.name_holders(9, talk.it));
    EXPECT_FALSE(leases.name_holders(8, talk.it));  // it held b last, and holds it no more
    EXPECT_TRUE(leases.name_holders(7, talk.it));
    EXPECT_EQ(talk.it.look(a.slot).holder, 7U);
    EXPECT_EQ(talk.it.look(b.slot).holder, 0U);
}

TEST_F(lease_ledger_test, adds_up_all_slots) {
    grant(a);
    grant(b);
    put(a), hit(a), put(a);
    put(b);
    EXPECT_EQ(leases.all_puts(), 3U);
    EXPECT_EQ(leases.all_hits(), 1U);
}

TEST_F(lease_ledger_test, grows_without_moving_traces) {
    grant(a, borrower_at("stays"));
    talk.resize(3);
    leases.grow(3);
    EXPECT_EQ(&leases.trace_of(a.slot), a.seen);
    EXPECT_STREQ(leases.trace_of(a.slot).task, "stays");
    talk.ask(2);
    talk.finish_calls();
    thing c;
    c.slot = talk.slot_of(2);
    c.seen = &leases.trace_of(c.slot);
    grant(c, borrower_at("new"));
    put(b), put(a);
    ASSERT_EQ(list().size(), 1U);
    EXPECT_STREQ(list()[0].task, "new");
    talk.now += 4s;
    EXPECT_EQ(leaks().size(), 1U);
}

// Leaks.

TEST_F(lease_ledger_test, inspects_when_the_first_lease_can_be_too_old) {
    EXPECT_EQ(leases.inspect_at(), core::never);
    grant(a);
    grant(b, borrower_at(nullptr, 0, 1s));  // its own limit
    EXPECT_EQ(leases.inspect_at(), talk.now + 1s);
    talk.release(a.slot);
    talk.release(b.slot);
    EXPECT_EQ(leases.inspect_at(), core::never);  // nothing is leased
    talk.ask(5);
    grant(talk.slot_of(5) == a.slot ? a : b);  // the earlier leases have ended
    EXPECT_EQ(leases.inspect_at(), talk.now + 4s);
}

TEST_F(lease_ledger_test, reports_a_lease_held_for_too_long) {
    grant(a, borrower_at("long"));
    talk.now += 3s;
    EXPECT_THAT(leaks(), IsEmpty());
    talk.now += 1s;
    std::vector<cenote::event> reported = leaks();
    ASSERT_EQ(reported.size(), 1U);
    EXPECT_EQ(reported[0].kind, cenote::event_kind::leak_suspected);
    EXPECT_STREQ(reported[0].task, "long");
    EXPECT_EQ(reported[0].took, 4s);
    EXPECT_EQ(reported[0].resource, talk.it.look(a.slot).resource);
    EXPECT_EQ(reported[0].pool, "lent");
    EXPECT_EQ(leases.reported(), 1U);
    EXPECT_THAT(leaks(), IsEmpty());
}

TEST_F(lease_ledger_test, times_a_lease_from_the_shelf_from_its_inspection) {
    grant(a);
    put(a), hit(a);
    EXPECT_THAT(leaks(true), IsEmpty());
    EXPECT_EQ(lease_ledger::held(talk.now, &a), 0s);
    talk.now += 4s;
    EXPECT_EQ(leaks(true).size(), 1U);
}

/// Observers tell pools of equal names apart by the address of the name.
TEST_F(lease_ledger_test, reports_leaks_with_the_pools_own_name) {
    grant(a);
    talk.now += 4s;
    std::vector<cenote::event> reported = leaks();
    ASSERT_EQ(reported.size(), 1U);
    EXPECT_EQ(reported[0].pool.data(), settings.name.data());
}

/// A lease from the shelf may begin now, so half of leak_after from now is early enough.
TEST_F(lease_ledger_test, inspects_between_sweeps_if_a_leak_is_due_before) {
    leases.expect_from_shelf(talk.now);
    EXPECT_EQ(leases.inspect_at(), talk.now + 2s);
    talk.now += 2s;
    leases.inspect(talk.now, true);
    EXPECT_EQ(leases.inspect_at(), talk.now + 2s);
}

TEST_F(lease_ledger_test, leaves_inspections_to_frequent_sweeps) {
    settings.leak_after = 1h;
    lease_ledger patient(talk.it, events, settings.name, settings, sweeps_every);
    patient.expect_from_shelf(talk.now);
    EXPECT_EQ(patient.inspect_at(), core::never);
}

TEST_F(lease_ledger_test, inspects_again_soon_while_one_is_being_taken) {
    grant(a);
    grant(b);
    put(a);
    leases.inspect(talk.now, false);  // without sweeps
    EXPECT_EQ(leases.inspect_at(), talk.now + 2s);
}

TEST_F(lease_ledger_test, keeps_the_expired_off_the_shelf) {
    grant(a);
    leases.inspect(talk.it.look(a.slot).expires_at, false);
    EXPECT_EQ(a.seen->limit, 0U);
}

// In the child of a fork.

TEST_F(lease_ledger_test, keeps_the_parents_leases_off_the_shelf) {
    grant(a);
    leases.forbid_puts();
    EXPECT_EQ(a.seen->limit, 0U);
}

TEST_F(lease_ledger_test, restarts_with_new_traces_and_keeps_the_parents) {
    grant(a);
    put(a), hit(a);
    leases.take_uses(&a);
    a.seen->leased_at = (talk.now - 4s).time_since_epoch().count();
    ASSERT_EQ(leaks().size(), 1U);
    leases.prepare_restart(5);
    EXPECT_EQ(&leases.trace_of(a.slot), a.seen);
    leases.restart();
    EXPECT_NE(&leases.trace_of(a.slot), a.seen);
    EXPECT_EQ(leases.all_hits(), 0U);
    EXPECT_EQ(leases.trace_of(4).puts, 0U);
    EXPECT_EQ(leases.reported(), 0U);
    put(a);  // a lease of the parent ends
    EXPECT_EQ(leases.all_puts(), 0U);
    a.seen = &leases.trace_of(a.slot);
    EXPECT_EQ(leases.uses_since(&a), 0U);
}
