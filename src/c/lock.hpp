// The mutex of the C API, for infrequent operations. Nothing is called while it is locked.
#pragma once

#include <mutex>

namespace cenote::c {

/// Locked during a fork, so that the child gets a consistent state.
std::mutex& api_mutex() noexcept;

}  // namespace cenote::c
