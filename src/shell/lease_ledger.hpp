// Who has which lease, where it was taken, since when, and which is held for suspiciously long.
//
// Borrowers on the fast lane write the traces without the lock. Everything here runs under it,
// unless a comment says otherwise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cenote/detail/resource.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/stats.hpp"
#include "core/leaks.hpp"
#include "core/machine.hpp"
#include "shell/event_queue.hpp"
#include "shell/stable_array.hpp"

namespace cenote::shell {

/// A borrower, as its lease shows it.
struct borrower {
    std::source_location site;
    const char* task = nullptr;
    core::duration leak_after{};  // as in detail::lease_terms
    std::uint64_t holder = 0;
    core::instant arrived{};
    bool was_in_line = false;
};

inline borrower borrower_of(const detail::waiter& w) {
    return {w.site, w.wants.task, w.wants.leak_after, w.holder, w.arrived, w.was_in_line()};
}

class lease_ledger {
public:
    /// `sweep_interval`: of the shelf. Sweeps find who has the leases from there; if `leak_after`
    /// is shorter, inspections in between do. `name`: the pool's own string, by whose address
    /// observers tell pools of equal names apart.
    lease_ledger(const core::machine& machine, event_queue& events, const std::string& name,
                 const options& settings, core::duration sweep_interval);

    /// Makes room for this many slots. Throws std::bad_alloc before anything has changed.
    void grow(std::size_t count);

    detail::trace& trace_of(core::slot_id id) { return (*traces_)[id]; }

    // The beginning and the end of leases.

    /// The machine has lent `r`. `swept`: sweeps of the shelf run, and look for holders, too.
    void granted(core::instant now, detail::resource* r, const borrower& who, bool swept);
    /// The machine has passed `r` on to `to`, after `uses` leases that the machine had not been
    /// told of. False: granted() must be called instead.
    bool passed_on(core::instant now, detail::resource* r, std::uint64_t uses,
                   const detail::waiter& to);
    /// The keeper has taken `r` from the shelf.
    void taken(core::instant now, detail::resource* r, const borrower& who, bool swept);
    /// How many leases of `r` the machine has not been told of.
    std::uint64_t uses_since(const detail::resource* r) const {
        return hits(r) - entries_[r->slot].hits_known;
    }
    /// uses_since(), of which the caller tells the machine now.
    std::uint64_t take_uses(const detail::resource* r) {
        std::uint64_t so_far = hits(r);
        return so_far - std::exchange(entries_[r->slot].hits_known, so_far);
    }
    /// How long the lease of `r` has lasted, if that is known.
    static std::optional<core::duration> held(core::instant now, const detail::resource* r) {
        auto since = r->seen->leased_at.load(std::memory_order_relaxed);
        if (since == 0) return std::nullopt;
        core::duration lasted = now.time_since_epoch() - core::duration{since};
        return lasted < core::duration{} ? core::duration{} : lasted;
    }

    static std::uint64_t hits(const detail::resource* r) {
        return r->seen->hits.load(std::memory_order_relaxed);
    }
    /// Changes whenever the resource is taken from the shelf or put there.
    static std::uint64_t touches(const detail::resource* r) {
        return hits(r) + r->seen->puts.load(std::memory_order_relaxed);
    }

    // Who has which lease.

    /// Whether a borrower has the resource. (To the machine, what is on the shelf is leased, too.)
    bool is_out(core::slot_id id) const;
    /// Tells the machine which thread holds which lease. False: `thread` holds none; nothing was
    /// told.
    bool name_holders(std::uint64_t thread, core::machine& machine) const;
    /// Longest-held first. `waiting`: the threads with leases that are in line, sorted. Does not
    /// allocate if there is room for all.
    void list(core::instant now, std::vector<lease_info>& into,
              std::span<const std::uint64_t> waiting = {}) const;

    /// The sums of all traces. Also without the lock; read the puts first: a put is counted after
    /// its hit, so there are never more puts than hits.
    std::uint64_t all_puts() const { return sum_of(&detail::trace::puts); }
    std::uint64_t all_hits() const { return sum_of(&detail::trace::hits); }

    // Leaks.

    /// When the leases must be inspected, because one may have been held for too long.
    core::instant inspect_at() const {
        bool inspects = machine_.count(core::slot_state::leased) > 0 && machine_.maintains();
        return inspects ? leaks_.look_at() : core::never;
    }
    /// Notes the time for leases that have none, and reports suspected leaks.
    void inspect(core::instant now, bool swept);
    /// From now on leases may come from the shelf.
    void expect_from_shelf(core::instant now);
    std::uint64_t reported() const { return leaks_.reported(); }

    // In the child of a fork.

    /// From now on no lease of the parent can be put on the shelf.
    void forbid_puts() noexcept;
    /// Throws std::bad_alloc before anything has changed.
    void prepare_restart(std::size_t count);
    void restart() noexcept;

private:
    using trace_array = stable_array<detail::trace>;

    /// The machine's grants of a slot: their number, and what the trace said at the last one.
    struct entry {
        std::uint64_t hits_known = 0;  // of which the machine was told
        std::uint64_t grants = 0;
        std::uint64_t hits = 0;
        std::uint64_t puts = 0;
    };
    /// A lease, as its trace shows it.
    struct lease_trace {
        std::uint64_t number = 0;  // among all leases of its slot
        std::source_location site;
        core::instant since;  // long_ago: not known
        core::duration leak_after{};
        const char* task = nullptr;
        std::uint64_t holder = 0;  // the thread; 0: unknown
    };

    static void write_trace(detail::trace& seen, core::instant now, std::source_location site,
                            const char* task, core::duration leak_after, std::uint64_t holder);
    /// What lease::waited and lease::opened_here say.
    static void write_wait(detail::resource* r, core::instant now, const borrower& who,
                           bool opened_here) {
        r->waited = now - who.arrived;
        r->opened_here = opened_here;
        r->hits_at_grant = hits(r);
    }
    static bool was_opened_for(const core::slot& s, const borrower& who);
    void lease_began(core::instant now, const borrower& who, bool swept);
    std::optional<lease_trace> lease_of(core::slot_id id) const;
    void report_leak(core::instant now, core::slot_id id, const lease_trace& lease);
    std::uint64_t sum_of(std::atomic<std::uint64_t> detail::trace::* counter) const;

    const core::machine& machine_;
    event_queue& events_;
    const std::string& name_;
    const std::uint64_t max_uses_;
    const core::duration interval_;  // of inspections
    const bool inspects_between_sweeps_;
    std::unique_ptr<trace_array> traces_;
    stable_array<entry> entries_;
    core::leaks leaks_;

    std::unique_ptr<trace_array> next_traces_;  // between prepare_restart() and restart()
    std::vector<std::unique_ptr<trace_array>> parents_traces_;  // leases of the parent write there
};

// Inline, because every hand-over calls them.

inline void lease_ledger::write_trace(detail::trace& seen, core::instant now,
                                      std::source_location site, const char* task,
                                      core::duration leak_after, std::uint64_t holder) {
    seen.site.store(site, std::memory_order_relaxed);
    seen.leased_at.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    seen.task.store(task, std::memory_order_relaxed);
    seen.leak_after.store(leak_after.count(), std::memory_order_relaxed);
    seen.holder.store(holder, std::memory_order_relaxed);
}

/// Without a hit since the grant there was no put either, so the entry's hits and puts stay valid,
/// and so does hits_at_grant.
inline bool lease_ledger::passed_on(core::instant now, detail::resource* r, std::uint64_t uses,
                                    const detail::waiter& to) {
    constexpr std::uint64_t unlimited = forever;
    if (uses != 0 || max_uses_ != unlimited) return false;
    ++entries_[r->slot].grants;
    write_trace(*r->seen, now, to.site, to.wants.task, to.wants.leak_after, to.holder);
    r->waited = now - to.arrived;
    r->opened_here = false;
    leaks_.lent(now, to.wants.leak_after);
    return true;
}

}  // namespace cenote::shell
