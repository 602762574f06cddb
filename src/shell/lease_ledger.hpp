// Who holds which lease, where it was taken, since when, and which is held for suspiciously long.
//
// Borrowers on the fast lane write the traces without the lock; everything here runs under it,
// unless it says otherwise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "cenote/detail/resource.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/stats.hpp"
#include "core/leaks.hpp"
#include "core/machine.hpp"
#include "shell/announcer.hpp"
#include "shell/stable_array.hpp"

namespace cenote::shell {

/// Who takes a lease, as it is written into the trace.
struct borrower {
    std::source_location site;
    detail::lease_terms how;
    std::uint64_t holder = 0;
};

inline borrower borrower_of(const detail::waiter& w) { return {w.site, w.wants, w.holder}; }

class lease_ledger {
public:
    /// `sweep_interval`: of the shelf. Leases from there are found by sweeps, and by looks in
    /// between if `leak_after` asks for them.
    /// `name`: the pool's own, by whose address observers tell pools of equal names apart.
    lease_ledger(const core::machine& machine, announcer& news, const std::string& name,
                 const options& settings, core::duration sweep_interval);

    /// There are so many slots now. Throws std::bad_alloc before anything has changed.
    void grow(std::size_t count);

    detail::trace& seen(core::slot_id id) { return (*traces_)[id]; }

    // The beginning and the end of leases.

    /// The machine has lent `r`. `swept`: sweeps of the shelf look for holders, too.
    void granted(core::instant now, detail::resource* r, const borrower& who, bool swept);
    /// It went from one borrower to the next, in a pool whose leases all pass the machine. `uses`:
    /// those that the machine had not heard of. False: that is not so simple here; nothing has
    /// changed.
    bool passed_on(core::instant now, detail::resource* r, std::uint64_t uses,
                   const detail::waiter& to);
    /// It was taken from the shelf, under the lock.
    void taken(core::instant now, detail::resource* r, const borrower& who, bool swept);
    /// Leases of `r` that the machine has not heard of.
    std::uint64_t uses_since(const detail::resource* r) const {
        return hits(r) - entries_[r->slot].hits_known;
    }
    /// The same; from now on it has.
    std::uint64_t take_uses(const detail::resource* r) {
        std::uint64_t so_far = hits(r);
        return so_far - std::exchange(entries_[r->slot].hits_known, so_far);
    }
    /// How long its lease has lasted, if that is known.
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

    // Who has what.

    /// Whether a borrower has it. To the machine, what lies on the shelf is leased, too.
    bool is_out(core::slot_id id) const;
    /// Tells the machine which thread holds which lease, if `thread` holds any. False: it does not.
    bool name_holders(std::uint64_t thread, core::machine& machine) const;
    /// Oldest first. Does not allocate if there is room for all.
    void list(core::instant now, std::vector<lease_info>& into) const;

    /// All leases taken from the shelf, and put there. Also without the lock; read the puts first:
    /// a put counts after its hit, so there are never more of them.
    std::uint64_t all_puts() const;
    std::uint64_t all_hits() const;

    // Leaks.

    /// When to look at all leases, because one may have been held for too long.
    core::instant look_at() const {
        bool looks = machine_.count(core::slot_state::leased) > 0 && machine_.maintains();
        return looks ? leaks_.look_at() : core::never;
    }
    /// Looks at all leases.
    void look(core::instant now, bool swept);
    /// From now on leases may come from the shelf.
    void expect_some_from_shelf(core::instant now);
    std::uint64_t reported() const { return leaks_.reported(); }

    // In the child of a fork.

    /// No lease of the parent gets onto the shelf.
    void shut() noexcept;
    /// Throws std::bad_alloc before anything has changed.
    void prepare_anew(std::size_t count);
    void start_anew() noexcept;

private:
    using trace_array = stable_array<detail::trace>;

    /// Of the machine's grants of a slot: how many, and what the trace said at the last.
    struct entry {
        std::uint64_t hits_known = 0;  // those that the machine knows about
        std::uint64_t grants = 0;
        std::uint64_t hits = 0;
        std::uint64_t puts = 0;
    };
    /// A lease, as its trace shows it.
    struct holding_info {
        std::uint64_t number = 0;  // of all leases of its slot
        std::source_location site;
        core::instant since;  // long_ago: not known
        core::duration leak_after{};
        const char* task = nullptr;
    };

    static void sign(detail::trace& seen, core::instant now, std::source_location site,
                     const detail::lease_terms& how, std::uint64_t holder);
    static void sign(detail::trace& seen, core::instant now, const borrower& who) {
        sign(seen, now, who.site, who.how, who.holder);
    }
    void lent(core::instant now, const borrower& who, bool swept);
    std::optional<holding_info> holding_of(core::slot_id id) const;
    void look_for_leak(core::instant now, core::slot_id id, const holding_info& h);

    const core::machine& machine_;
    announcer& news_;
    const std::string& name_;
    const std::uint64_t max_uses_;
    const core::duration interval_;  // of looks
    const bool looks_between_sweeps_;
    std::unique_ptr<trace_array> traces_;
    stable_array<entry> entries_;
    core::leaks leaks_;

    std::unique_ptr<trace_array> next_traces_;  // in the child of a fork, until it begins
    std::vector<std::unique_ptr<trace_array>> old_traces_;  // leases of the parent write there
};

// Inline, because everybody who waits comes through here.

inline void lease_ledger::sign(detail::trace& seen, core::instant now, std::source_location site,
                               const detail::lease_terms& how, std::uint64_t holder) {
    seen.site.store(site, std::memory_order_relaxed);
    seen.leased_at.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    seen.task.store(how.task, std::memory_order_relaxed);
    seen.leak_after.store(how.leak_after.count(), std::memory_order_relaxed);
    seen.holder.store(holder, std::memory_order_relaxed);
}

/// Without a hit since the grant there was no put either that is still good, so what is known of
/// both stays as it is.
inline bool lease_ledger::passed_on(core::instant now, detail::resource* r, std::uint64_t uses,
                                    const detail::waiter& to) {
    constexpr std::uint64_t unlimited = forever;
    if (uses != 0 || max_uses_ != unlimited) return false;
    ++entries_[r->slot].grants;
    sign(*r->seen, now, to.site, to.wants, to.holder);
    leaks_.lent(now, to.wants.leak_after);
    return true;
}

}  // namespace cenote::shell
