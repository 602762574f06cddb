// Checks that long leases are reported.
#include "sim/lease_watch.hpp"

#include <algorithm>

namespace cenote::sim {

using core::duration;
using core::instant;

/// A lease is one use of one resource.
std::uint64_t lease_watch::number_of(const core::slot& s) { return s.resource << 24 | s.uses; }

/// The limit of a lease; zero: the pool's.
duration lease_watch::own_limit(std::uint64_t number) {
    if (number % 7 == 0) return duration::max();
    return std::chrono::milliseconds{number % 3 == 0 ? 5 : 0};
}

/// A report is due at the limit, and whenever the lease is twice as long as at the last report.
bool lease_watch::is_due(const record& r, duration held) {
    if (r.reports > 0)
        return held >= std::max(2 * r.reported_at, r.reported_at + core::leaks::shortest);
    duration own = own_limit(r.number);
    return held >= (own == duration::zero() ? limit : own);
}

/// Records leases that are new.
void lease_watch::meet(const core::machine& it) {
    if (records_.size() < it.places()) {
        records_.resize(it.places());
        leaks_.grow(it.places());
    }
    for (core::slot_id id = 0; id < it.places(); ++id) {
        const core::slot& s = it.look(id);
        record& r = records_[id];
        if (s.state != core::slot_state::leased || r.number == number_of(s)) continue;
        r = {.number = number_of(s)};
        leaks_.lent(s.leased_at, own_limit(r.number));
    }
}

/// Shows a lease; returns whether it was reported exactly if a report was due.
bool lease_watch::shows(instant now, core::slot_id id, const core::slot& s) {
    record& r = records_[id];
    duration held = now - s.leased_at;
    auto told = leaks_.see(
        now, {.slot = id, .number = r.number, .since = s.leased_at, .limit = own_limit(r.number)});
    bool right = told.has_value() == is_due(r, held);
    if (told) {
        r.reported_at = held;
        reported_ += r.reports++ == 0;
    }
    return right;
}

const char* lease_watch::look(instant now, const core::machine& it) {
    meet(it);
    bool looks = leaks_.look_at() <= now;
    if (looks) leaks_.begin_look();
    for (core::slot_id id = 0; id < it.places(); ++id) {
        const core::slot& s = it.look(id);
        if (s.state != core::slot_state::leased) continue;
        if (!looks && is_due(records_[id], now - s.leased_at))
            return "a long lease is looked at in time";
        if (looks && !shows(now, id, s))
            return "a lease is reported at its limit, and whenever its length has doubled";
    }
    return reported_ == leaks_.reported() ? nullptr : "each long lease is counted once";
}

}  // namespace cenote::sim
