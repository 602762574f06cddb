// The one lock of this room, for what happens seldom. Nothing else is called while it is held.
#pragma once

#include <mutex>

namespace cenote::c {

/// Held around a fork, so that the child finds nothing half-done.
std::mutex& the_lock() noexcept;

}  // namespace cenote::c
