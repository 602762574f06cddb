// Delivers events to observers, in order and outside the lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cenote/observer.hpp"
#include "shell/lock.hpp"

namespace cenote::shell {

/// Events are added under the keeper's lock, in the order of the machine's decisions, and delivered
/// by one thread of the pool at a time. So observers are told everything in order, and a slow
/// observer delays only itself: events that do not fit into the queue are dropped and counted.
class event_queue {
public:
    explicit event_queue(const std::vector<std::shared_ptr<observer>>& observers);

    bool wants(event_kind kind) const { return wanted_[static_cast<std::size_t>(kind)]; }
    bool wants_any() const { return any_; }
    /// Whether an observer wants events of single leases.
    bool wants_leases() const;

    // Under the keeper's lock.

    /// Never throws: an event for which there is no memory is dropped.
    void add(const event& what) noexcept;
    /// Whether a thread is needed to deliver.
    bool needs_delivery() const { return !queued_.empty() && !delivering_; }
    /// Whether events are queued or being delivered. False if the calling thread delivers them.
    bool busy() const;
    /// How many events were dropped. Also without the lock.
    std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

    /// In the child of a fork: the parent delivers what was queued.
    void restart() noexcept;

    // Outside the lock.

    /// Delivers what is queued now, unless another thread is delivering. Events that follow from
    /// the delivery wait for the next one: it might never end.
    void deliver(pool_lock& keeper_lock) noexcept;

    /// Delivers one event on this thread at once. Within an observer of any pool, drops and counts
    /// the event: an observer that acquires when it is told of a refusal would be told of its own
    /// refusal, and so on.
    void deliver_now(const event& what) noexcept;

private:
    void tell_listeners(const event& what) const noexcept;

    struct listener {
        std::shared_ptr<observer> who;
        std::array<bool, event_kind_count> wants{};
    };

    std::vector<listener> listeners_;
    std::array<bool, event_kind_count> wanted_{};  // by any listener
    bool any_ = false;

    // Guarded by the keeper's lock.
    std::vector<event> queued_;
    std::vector<event> parents_;  // in the child of a fork; kept, because events hold exceptions
    bool delivering_ = false;

    std::atomic<std::uint64_t> lost_{0};
};

}  // namespace cenote::shell
