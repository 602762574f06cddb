// The interface through which a pool reports its events.
#pragma once

#include "cenote/event.hpp"

namespace cenote {

/// Derive from it and add it to `options::observers`.
///
/// A pool calls its observers outside every lock, shortly after each event, in the order of the
/// events. So an observer may call the pool, wait for a lease and close the pool. A slow observer
/// delays no acquire: the events it misses are dropped and counted in `stats::events_lost`. The
/// pool ignores exceptions from observers. Its destructor waits until all events are reported.
///
/// `exhausted` differs: the thread of the refused acquire reports it, before the refusal. If that
/// thread runs an observer at the time, the event is dropped and counted.
///
/// Thread safety: a pool reports from one of its threads at a time, except for `exhausted`, which
/// any number of threads report at once. An observer of several pools is called by several threads.
class observer {
public:
    virtual ~observer() = default;

    /// Called for each event. `what`, and what it points to, is valid during the call.
    virtual void on_event(const event& what) = 0;

    /// Whether to report events of this kind. Called once per kind, when the pool is made. Default:
    /// all kinds. `acquired` and `released` have a price: a pool that reports them takes its lock
    /// for every lease.
    virtual bool wants(event_kind kind) const {
        static_cast<void>(kind);
        return true;
    }
};

}  // namespace cenote
