// Load shedding (CoDel): whether the line is late, and which waiters to refuse early.
#pragma once

#include <algorithm>

#include "cenote/options.hpp"
#include "core/instant.hpp"

namespace cenote::core {

/// Measures the shortest wait of each interval. If it was longer than the target, the queue did not
/// drain, and the next interval is late: waiters that have waited twice the target are refused.
/// Twice, so that the shortest wait stays above the target while demand exceeds capacity, and falls
/// below it when demand falls.
class shedder {
public:
    explicit shedder(const shed& s) : target_(s.target), interval_(s.interval) {}

    bool on() const { return target_ != duration::max(); }

    /// A waiter was served after `wait`; an empty line counts as a wait of zero.
    void served(instant now, duration waited) {
        if (!on()) return;
        roll(now);
        shortest_ = std::min(shortest_, waited);
    }

    /// Ends intervals, each of which can make the next one late.
    void roll(instant now) {
        if (!on() || now < ends_) return;
        late_ = ends_ != long_ago && shortest_ > target_;
        shortest_ = duration::max();
        ends_ = after(now, interval_);
    }

    /// When a waiter that arrived then is refused; `never` while the line is not late.
    instant limit(instant arrived) const {
        return late_ ? after(after(arrived, target_), target_) : never;
    }

    /// When roll() must be called next while there are waiters.
    instant rolls_at() const { return on() ? ends_ : never; }

private:
    duration target_;
    duration interval_;
    duration shortest_ = duration::max();
    instant ends_ = long_ago;
    bool late_ = false;
};

}  // namespace cenote::core
