// Whether the line is late, and so whom to refuse early (CoDel).
#pragma once

#include <algorithm>

#include "cenote/options.hpp"
#include "core/instant.hpp"

namespace cenote::core {

/// Looks at the shortest wait of each interval. If that was longer than the target, there was a
/// queue that did not go away, and the next interval is a late one: who has waited twice the target
/// is refused. Twice, so that the shortest wait stays above the target while demand exceeds
/// capacity, and falls below when it no longer does.
class shedder {
public:
    explicit shedder(const shed& s) : target_(s.target), interval_(s.interval) {}

    bool on() const { return target_ != duration::max(); }

    /// Somebody was served after so long; or nobody waits, which is as good as no wait at all.
    void served(instant now, duration waited) {
        if (!on()) return;
        roll(now);
        shortest_ = std::min(shortest_, waited);
    }

    /// The end of an interval may make it late, or not.
    void roll(instant now) {
        if (!on() || now < ends_) return;
        late_ = ends_ != long_ago && shortest_ > target_;
        shortest_ = duration::max();
        ends_ = after(now, interval_);
    }

    /// From when on somebody who came then is refused; `never` while the line is not late.
    instant limit(instant arrived) const {
        return late_ ? after(after(arrived, target_), target_) : never;
    }

    /// When roll() must be called next while somebody waits.
    instant rolls_at() const { return on() ? ends_ : never; }

private:
    duration target_;
    duration interval_;
    duration shortest_ = duration::max();
    instant ends_ = long_ago;
    bool late_ = false;
};

}  // namespace cenote::core
