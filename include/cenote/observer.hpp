// How to be told what happens in a pool.
#pragma once

#include "cenote/event.hpp"

namespace cenote {

/// Derive from it and put it into `options::observers`.
///
/// Thread safety: a pool calls its observers on one thread of its own at a time, in the order in
/// which things happened and outside every lock, soon after they happened. (`exhausted` comes on
/// the thread that is about to be refused, before it is.) So an observer may call the pool, wait
/// for a lease, and close the pool; and a slow one holds up nobody, but what it cannot follow is
/// dropped and counted in `stats::events_lost`. So is an `exhausted` that an observer brings about
/// while it is being told of something. An observer that serves several pools is called by
/// several threads. Destroying a pool waits until everything has been told.
///
/// An exception from an observer is dropped.
class observer {
public:
    virtual ~observer() = default;

    virtual void on_event(const event& what) = 0;

    /// Which kinds it wants; asked once, when the pool is made. `acquired` and `released` cost the
    /// fast lane: a pool that must report every lease takes its lock for every lease.
    virtual bool wants(event_kind kind) const {
        static_cast<void>(kind);
        return true;
    }
};

}  // namespace cenote
