// Leak detection: which leases have been held for long, and when to look at them next.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/instant.hpp"
#include "core/slots.hpp"
#include "core/tally.hpp"

namespace cenote::core {

/// The end of a lease is not reported to it, so that a short lease costs nothing. Instead it says
/// when to look. The caller then shows it all present leases, and it says for each whether a report
/// is due: when the lease reaches its limit, and each time its duration has doubled.
///
///     if (now >= leaks.look_at()) {
///         leaks.begin_look();
///         for (each lease) if (auto held = leaks.see(now, lease)) report(*held);
///     }
class leaks {
public:
    /// The shortest interval between two reports of a lease.
    static constexpr duration shortest = std::chrono::milliseconds{1};

    /// A lease. `number` tells the leases of a slot apart, and is never zero. `limit` zero: the
    /// pool's.
    struct lease {
        slot_id slot = no_slot;
        std::uint64_t number = 0;
        instant since{};
        duration limit{};
    };

    /// For slots below `count`. `limit`: the default for leases.
    leaks(std::size_t count, duration limit) : limit_(limit), seen_(count) {}

    /// Changes the number of slots. Throws std::bad_alloc without any change.
    void grow(std::size_t count) { seen_.resize(std::max(count, seen_.size())); }

    /// A lease has begun.
    void lent(instant now, duration limit) { look_by(limit_ends(now, limit)); }
    /// There may be leases that did not go through begun().
    void look_by(instant at) { look_at_ = std::min(look_at_, at); }
    /// When to look at all leases; `never`: no look is needed.
    instant look_at() const { return look_at_; }

    /// Begins a look: see() follows for each lease.
    void begin_look() { look_at_ = never; }
    /// Looks at a lease. Returns how long it has been held if a report is due.
    std::optional<duration> see(instant now, const lease& found) {
        sight& s = seen_[found.slot];
        if (s.number != found.number)
            s = {.number = found.number, .due = limit_ends(found.since, found.limit)};
        std::optional<duration> held;
        if (s.due <= now) {
            held = now - found.since;
            if (!std::exchange(s.reported, true)) ++reported_;
            s.due = after(now, std::max(*held, shortest));
        }
        look_by(s.due);
        return held;
    }

    /// In the child of a fork: forgets all leases.
    void start_anew() {
        std::fill(seen_.begin(), seen_.end(), sight{});
        look_at_ = never;
        reported_.set(0);
    }

    /// The number of leases that were reported. May be read beside a writer.
    std::uint64_t reported() const { return reported_.get(); }

private:
    struct sight {
        std::uint64_t number = 0;
        instant due = never;
        bool reported = false;
    };

    instant limit_ends(instant since, duration limit) const {
        if (limit == duration::zero()) limit = limit_;
        return after(since, limit);
    }

    duration limit_;
    std::vector<sight> seen_;
    instant look_at_ = never;
    tally reported_;
};

}  // namespace cenote::core
