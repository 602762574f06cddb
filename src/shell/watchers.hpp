// Those who wait for the whole pool, not for a lease: until it is ready, or drained. Threads sleep
// here; others are in a list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cenote/detail/waiter.hpp"
#include "core/instant.hpp"
#include "shell/errands.hpp"
#include "shell/lock.hpp"

namespace cenote::shell {

/// Everything here runs under the keeper's lock.
class watchers {
public:
    /// Something has changed.
    void tell() {
        ++changes_;
        if (threads_ > 0) changed_.tell_all();
    }
    std::uint64_t changes() const { return changes_; }

    // Threads. A thread is told of what happens between its begin() and its end().

    void begin() { ++threads_; }
    void end() { --threads_; }
    void sleep(holding& h) { changed_.wait(h); }
    void sleep(holding& h, core::instant limit) {
        if (limit == core::never) changed_.wait(h);
        else changed_.wait_until(h, limit);
    }

    // Waiters without a thread.

    bool any() const { return first_ != nullptr; }
    void add(detail::waiter& who) {
        who.next = first_;
        first_ = &who;
    }
    /// False: it is not in the list.
    bool remove(const detail::waiter& who) {
        for (detail::waiter** at = &first_; *at != nullptr; at = &(*at)->next) {
            if (*at != &who) continue;
            *at = who.next;
            return true;
        }
        return false;
    }
    /// Takes out all for whom `is_done` says so, into `done`.
    template <class IsDone, class Done>
    void take_out(IsDone is_done, Done done) {
        for (detail::waiter** at = &first_; *at != nullptr;) {
            detail::waiter* w = *at;
            if (!is_done(*w)) {
                at = &w->next;
                continue;
            }
            *at = w->next;
            done(*w);
        }
    }
    core::instant earliest_deadline() const {
        core::instant at = core::never;
        for (const detail::waiter* w = first_; w != nullptr; w = w->next)
            at = std::min(at, w->deadline);
        return at;
    }

    /// In the child of a fork. What slept is gone, so `changed_` is not destroyed: that would wait.
    void start_anew() {
        first_ = nullptr;
        threads_ = 0;
        std::construct_at(&changed_);
    }

private:
    condition changed_;
    std::size_t threads_ = 0;
    std::uint64_t changes_ = 0;  // how often they were told
    detail::waiter* first_ = nullptr;
};

}  // namespace cenote::shell
