// Detects that the system was suspended: the monotonic clock stood still while time went on.
#pragma once

#include <chrono>
#include <ctime>

#include "core/instant.hpp"

namespace cenote::shell {

/// After a suspension no timer is late, so nothing else reveals it. But the servers went on, and
/// may have dropped our connections.
class suspension {
public:
    /// Ignores suspensions shorter than `tolerated`. `boot`: the time since boot, which includes
    /// suspensions.
    suspension(core::duration tolerated, core::instant now, core::duration boot)
        : tolerated_(tolerated), asleep_(boot - now.time_since_epoch()) {}

    /// Whether there was one since the last call of take().
    bool happened(core::instant now, core::duration boot) const {
        return boot - now.time_since_epoch() - asleep_ > tolerated_;
    }
    /// happened(), once for each suspension.
    bool take(core::instant now, core::duration boot) {
        bool was = happened(now, boot);
        asleep_ = boot - now.time_since_epoch();
        return was;
    }

private:
    core::duration tolerated_;
    core::duration asleep_;  // in total, up to a constant
};

/// Includes suspensions. Not inlined: its callers rarely get here.
[[gnu::noinline]] inline core::duration time_since_boot() {
    timespec at{};
    clock_gettime(CLOCK_BOOTTIME, &at);
    return std::chrono::seconds{at.tv_sec} + std::chrono::nanoseconds{at.tv_nsec};
}

}  // namespace cenote::shell
