// Waiters for the whole pool: until it is ready, or drained. Threads sleep here; coroutines and
// Asio operations are in a list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cenote/detail/waiter.hpp"
#include "core/instant.hpp"
#include "shell/linked_list.hpp"
#include "shell/lock.hpp"

namespace cenote::shell {

/// Everything here runs under the keeper's lock.
class pool_waiters {
public:
    /// The state of the pool has changed: wakes the threads, which look again.
    void notify() {
        ++changes_;
        if (threads_ > 0) changed_.notify_all();
    }
    /// How often notify() was called.
    std::uint64_t changes() const { return changes_; }

    // Threads. notify() wakes a thread between its begin() and its end().

    void begin() { ++threads_; }
    void end() { --threads_; }
    void sleep(pool_guard& g, core::instant limit = core::never) { changed_.wait_until(g, limit); }

    // Coroutines and Asio operations.

    waiter_list list;

    core::instant earliest_deadline() const {
        core::instant at = core::never;
        for (const detail::waiter* w = list.first(); w != nullptr; w = w->next)
            at = std::min(at, w->deadline);
        return at;
    }

    /// In the child of a fork. The sleeping threads are gone, so `changed_` is not destroyed first:
    /// that would wait for them.
    void restart() {
        list.clear();
        threads_ = 0;
        std::construct_at(&changed_);
    }

private:
    pool_condition changed_;
    std::size_t threads_ = 0;
    std::uint64_t changes_ = 0;
};

}  // namespace cenote::shell
