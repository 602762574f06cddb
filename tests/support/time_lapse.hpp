// Time that passes while something goes on whose beginning a test cannot see.
#pragma once

#include <chrono>

#include "support/clock.hpp"
#include "support/patience.hpp"

namespace support {

/// Moves the clock in small steps until `over`, but only while the pool has waiters and no open is
/// under way: an open takes no time, however slow the machine is. False: the end does not come.
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
