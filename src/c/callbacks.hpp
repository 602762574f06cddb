// Adapts callbacks of C to the C++ interfaces: connector, observer, breaker.
#pragma once

#include <memory>

#include "c/pool_entries.hpp"
#include "cenote/breaker.hpp"
#include "cenote/cenote.h"
#include "cenote/observer.hpp"

namespace cenote::c {

/// The callbacks of a connector. The destructor calls their `end` and releases the pool's entry:
/// not before, since a call that has exceeded its timeout may outlive the pool.
struct c_connector {
    /// Throws std::bad_alloc; then the caller must call `end`.
    explicit c_connector(const cenote_connector& c) : callbacks(c), entry(pool_entry::allocate()) {}
    ~c_connector() {
        {
            callback_scope scope(entry);
            if (callbacks.end != nullptr) callbacks.end(callbacks.context);
        }
        entry.release();
    }
    c_connector(const c_connector&) = delete;
    c_connector& operator=(const c_connector&) = delete;

    const cenote_connector callbacks;
    pool_entry& entry;
};

/// A pool with this connector, without the features whose callbacks are null. Throws what the
/// pool's constructor throws.
std::unique_ptr<pool_entry::pool_type> make_pool(std::unique_ptr<c_connector> by,
                                                 const options& settings);

std::shared_ptr<observer> make_observer(const cenote_observer& callbacks, const pool_entry& entry);
std::shared_ptr<breaker> make_breaker(const cenote_breaker& callbacks, const pool_entry& entry);

}  // namespace cenote::c
