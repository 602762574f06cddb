// The list of all keepers, whose locks a fork handler locks around a fork.
#pragma once

#include <mutex>

namespace cenote::shell {

class keeper;

/// Throws std::bad_alloc, also if the fork handlers cannot be registered.
void register_keeper(keeper& k);
void unregister_keeper(keeper& k) noexcept;

/// The lock of the list, also for other lists of keepers. Lock order: before any keeper's lock. The
/// fork handlers lock it across a fork.
std::mutex& keeper_list_lock();

}  // namespace cenote::shell
