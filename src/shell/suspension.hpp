// Notices that the system was suspended: its monotonic clock stood still while time went on.
#pragma once

#include "core/instant.hpp"

namespace cenote::shell {

/// No timer is late after that, so nothing else tells. But the peers have gone on, and may have
/// given up on us.
class suspension {
public:
    /// Shorter ones than `tolerated` are of no interest. `boot`: the time since boot, which counts
    /// those in which the system was suspended.
    suspension(core::duration tolerated, core::instant now, core::duration boot)
        : tolerated_(tolerated), asleep_(boot - now.time_since_epoch()) {}

    /// Whether there was one since it was last noticed.
    bool happened(core::instant now, core::duration boot) const {
        return boot - now.time_since_epoch() - asleep_ > tolerated_;
    }
    /// The same; it is noticed now.
    bool noticed(core::instant now, core::duration boot) {
        bool was = happened(now, boot);
        asleep_ = boot - now.time_since_epoch();
        return was;
    }

private:
    core::duration tolerated_;
    core::duration asleep_;  // in all, up to a constant
};

core::duration time_since_boot();

}  // namespace cenote::shell
