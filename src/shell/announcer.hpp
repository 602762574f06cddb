// Tells observers what happened, in order, outside the lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cenote/observer.hpp"
#include "shell/lock.hpp"

namespace cenote::shell {

/// Events are noted under the keeper's lock, in the order of the machine's decisions, and told by
/// one thread of the pool at a time. So observers hear everything in order, and a slow one holds up
/// nobody but itself: what it cannot follow is dropped and counted.
class announcer {
public:
    explicit announcer(const std::vector<std::shared_ptr<observer>>& observers);

    bool wants(event_kind kind) const { return wanted_[static_cast<std::size_t>(kind)]; }
    bool wants_any() const { return any_; }
    /// Leases must be reported one by one.
    bool wants_leases() const;

    // Under the keeper's lock.

    /// Never throws: an event for which there is no room is dropped.
    void note(const event& what) noexcept;
    /// Somebody has to tell.
    bool has_news() const { return !noted_.empty() && !telling_; }
    /// Somebody has to tell, or is at it; but not if that is the calling thread.
    bool busy() const;
    /// How many events were dropped. Also without the lock.
    std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

    /// In the child of a fork: what the parent noted is the parent's to tell.
    void start_anew() noexcept;

    /// Outside the lock. Tells what has been noted so far, unless another thread is at it. What
    /// follows from that is for the next time: it might never end.
    void tell(pool_lock& keeper_lock) noexcept;

    /// Outside the lock. Tells one event at once, on this thread. If that is in the middle of an
    /// observer, of whichever pool, the event is dropped and counted: an observer that acquires
    /// when it is told of a refusal would be told of its own, and so on.
    void tell_now(const event& what) noexcept;

private:
    void tell_listeners(const event& what) const noexcept;

    using kinds = std::array<bool, event_kind_count>;
    struct listener {
        std::shared_ptr<observer> who;
        kinds wants{};
    };

    std::vector<listener> listeners_;
    kinds wanted_{};
    bool any_ = false;

    // Guarded by the keeper's lock.
    std::vector<event> noted_;
    std::vector<event> untold_;  // the parent's
    bool telling_ = false;

    std::atomic<std::uint64_t> lost_{0};
};

}  // namespace cenote::shell
