// How to be told what happens in a pool.
#pragma once

#include "cenote/event.hpp"

namespace cenote {

/// Derive from it and put it into `options::observers`.
///
/// Thread safety: a pool calls its observers one at a time, in the order in which things happened,
/// outside every lock (`exhausted` excepted: it comes on the thread that is about to be refused,
/// before it is). So an observer may call the pool, also close(). An observer that serves several
/// pools is called by several threads.
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
