// Every keeper hears of a fork, so that its lock is in a known state on both sides of it.
#pragma once

#include <mutex>

namespace cenote::shell {

class keeper;

/// A keeper's entry in the list of those that are told.
class fork_watch {
public:
    /// Throws std::bad_alloc if the system cannot tell us.
    explicit fork_watch(keeper& of);
    ~fork_watch();
    fork_watch(const fork_watch&) = delete;
    fork_watch& operator=(const fork_watch&) = delete;

    keeper& of() const { return of_; }
    fork_watch* next() const { return next_; }

private:
    keeper& of_;
    fork_watch* next_ = nullptr;
    fork_watch* previous_ = nullptr;
};

/// The lock of that list, for other lists of keepers: it is taken before any keeper's lock, and
/// held across a fork.
std::mutex& keeper_list_lock();

}  // namespace cenote::shell
