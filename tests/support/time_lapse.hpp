// Advances the clock while an operation runs whose start a test cannot observe.
#pragma once

#include <chrono>

#include "support/clock.hpp"
#include "support/patience.hpp"

namespace support {

/// Advances the clock in small steps until `over`, but only while the pool has waiters and no open
/// is under way, so that an open takes no time even on a slow machine.
template <class Pool, class Over>
bool time_passes_in_line(stopped_clock& time, const Pool& pool, Over&& over) {
    return eventually([&] {
        if (over()) return true;
        auto now = pool.stats();
        if (now.waiting > 0 && now.opening == 0) time.advance(5ms);
        return false;
    });
}

}  // namespace support
