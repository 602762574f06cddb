// Which leases have been held for suspiciously long, and when to look at them next.
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

/// Nobody tells it when a lease ends, so that a short one costs nothing. Instead it says when to
/// look; whoever looks shows it what is leased then, and it says of each whether a report is due:
/// once when the lease has reached its limit, then whenever it has lasted twice as long as at the
/// last report.
///
///     if (now >= leaks.look_at()) {
///         leaks.begin_look();
///         for (each lease) if (auto held = leaks.see(now, lease)) report(*held);
///     }
class leaks {
public:
    /// Not even a lease without patience is reported more often than this.
    static constexpr duration shortest = std::chrono::milliseconds{1};

    /// A lease as it was found. `number` tells the leases of a slot apart, and is never zero.
    /// `limit`: its own; zero: the pool's.
    struct lease {
        slot_id slot = no_slot;
        std::uint64_t number = 0;
        instant since{};
        duration limit{};
    };

    /// For slots below `count`. `limit`: of leases that have none of their own.
    leaks(std::size_t count, duration limit) : limit_(limit), seen_(count) {}

    /// There are so many slots now. Throws std::bad_alloc before anything has changed.
    void grow(std::size_t count) { seen_.resize(std::max(count, seen_.size())); }

    /// A lease has begun.
    void lent(instant now, duration limit) { look_by(limit_ends(now, limit)); }
    /// There may be leases that nobody has told of.
    void look_by(instant at) { look_at_ = std::min(look_at_, at); }
    /// When to look at all leases; `never` if there is no need to.
    instant look_at() const { return look_at_; }

    /// All leases are about to be shown; or there are none.
    void begin_look() { look_at_ = never; }
    /// Shows a lease. How long it has been held, if that is to be reported now.
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

    /// In the child of a fork: there are no leases.
    void start_anew() {
        std::fill(seen_.begin(), seen_.end(), sight{});
        look_at_ = never;
        reported_.set(0);
    }

    /// How many leases were ever reported. May be read while it changes.
    std::uint64_t reported() const { return reported_.get(); }

private:
    struct sight {
        std::uint64_t number = 0;
        instant due = never;
        bool reported = false;
    };

    instant limit_ends(instant since, duration limit) const {
        return after(since, limit == duration::zero() ? limit_ : limit);
    }

    duration limit_;
    std::vector<sight> seen_;
    instant look_at_ = never;
    tally reported_;
};

}  // namespace cenote::core
