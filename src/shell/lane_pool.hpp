// The pool around the fast lane, as lane.hpp needs it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cenote/detail/processor.hpp"
#include "cenote/detail/resource.hpp"
#include "cenote/detail/shelf.hpp"
#include "core/machine.hpp"
#include "shell/breaker_reports.hpp"
#include "shell/lane.hpp"
#include "shell/lease_ledger.hpp"

namespace cenote::shell {

class lane_pool {
public:
    using item = detail::resource;
    using shelf = detail::basic_shelf<detail::resource>;
    using instant = core::instant;
    using date = std::uint64_t;
    using suspicion_mark = core::instant;
    static constexpr instant never = core::never;
    static constexpr suspicion_mark no_suspicion = core::long_ago;

    lane_pool(core::machine& machine, core::actions& out, lease_ledger& leases,
              breaker_reports& reports, core::duration sweep_interval, core::duration reset_after)
        : machine_(machine),
          out_(out),
          leases_(leases),
          reports_(reports),
          interval_(sweep_interval),
          interval_if_some_owe_(std::min(sweep_interval, reset_after)) {}

    // What the lane reads.

    static std::size_t cell() { return detail::processor(); }
    /// Whether a waiter is owed the next resource.
    bool owes_waiter(instant now) const { return machine_.owed_at() <= now; }
    instant suspicion() const { return machine_.suspect_at(); }
    std::size_t leased() const { return machine_.count(core::slot_state::leased); }
    /// Numbers, not times: the clock may say the same of a recall and of a later lease.
    date date_of(instant /*now*/) const { return machine_.lends(); }
    date lent_at(const item* r) const { return machine_.look(r->slot).lent; }
    bool is_expired(instant now, const item* r) const {
        return machine_.look(r->slot).expires_at <= now;
    }
    static bool is_used_up(const item* r) {
        return lease_ledger::hits(r) >= r->seen->limit.load(std::memory_order_relaxed);
    }
    static std::uint64_t touches(const item* r) { return lease_ledger::touches(r); }
    static bool owes_reset(const item* r) { return r->owes; }
    /// The next regular sweep, or earlier if a leased resource expires before it.
    instant next_sweep(instant now, bool some_owe) const {
        instant at = core::after(now, some_owe ? interval_if_some_owe_ : interval_);
        for (core::slot_id id = 0; id < machine_.places(); ++id) {
            const core::slot& s = machine_.look(id);
            if (s.state == core::slot_state::leased && s.expires_at > now)
                at = std::min(at, s.expires_at);
        }
        return at;
    }

    // What the lane does.

    void bring_back(instant now, const item* r, instant idle_since) {
        machine_.bring_back(now, r->slot, leases_.take_uses(r), idle_since, r->owes, out_);
    }

    /// What the trace said before a put.
    struct put {
        std::int64_t leased_at = 0;
        std::uint64_t puts = 0;
    };
    static put count_put(item* r) {
        put before{.leased_at = r->seen->leased_at.exchange(0, std::memory_order_relaxed),
                   .puts = r->seen->puts.load(std::memory_order_relaxed)};
        r->seen->puts.store(before.puts + 1, std::memory_order_release);
        return before;
    }
    static void undo_put(item* r, const put& before) {
        r->seen->puts.store(before.puts, std::memory_order_release);
        r->seen->leased_at.store(before.leased_at, std::memory_order_relaxed);
    }
    static void clear_lease_time(item* r) {
        r->seen->leased_at.store(0, std::memory_order_relaxed);
    }

    void before_sweep(instant now) {
        leases_.inspect(now, true);
        report_successes(now);
    }
    void woke_up(instant now) { leases_.expect_from_shelf(now); }
    void fell_asleep(instant now) { leases_.inspect(now, false); }

    /// How many leases came back over the shelf since the last call: the machine does not learn of
    /// single ones. Called when a report is added, not when it is delivered, which may be much
    /// later: a strategy is told of successes and failures in the order in which they happened.
    std::uint64_t count_successes() {
        std::uint64_t puts = leases_.all_puts();
        std::uint64_t before = std::exchange(puts_reported_, puts);
        bool counts = machine_.breaker().flows();
        return counts && puts > before ? puts - before : 0;  // undo_put() makes them fewer
    }
    void restart() { puts_reported_ = 0; }

private:
    void report_successes(instant now) {
        if (!machine_.breaker().flows()) return;
        reports_.add({.what = core::circuit_news::succeeded,
                      .at = now,
                      .moves = machine_.breaker().moves(),
                      .over_lane = count_successes()});
    }

    core::machine& machine_;
    core::actions& out_;
    lease_ledger& leases_;
    breaker_reports& reports_;
    const core::duration interval_;
    const core::duration interval_if_some_owe_;
    std::uint64_t puts_reported_ = 0;  // of all puts
};

using lane = basic_lane<lane_pool>;

}  // namespace cenote::shell
