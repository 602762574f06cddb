// The one lock of this room, for what happens seldom. Nothing else is called while it is held.
#pragma once

#include <mutex>

namespace cenote::c {

/// Held around a fork, so that the child finds nothing half-done.
std::mutex& the_lock() noexcept;

/// Has the system tell us of forks. Throws std::bad_alloc if it cannot.
void watch_forks();

}  // namespace cenote::c
