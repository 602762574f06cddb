// What a keeper has to know of forks: whose its resources are, and whether it has begun again in
// this process. See keeper_fork.cpp for the rules.
#pragma once

#include <atomic>
#include <utility>

#include "cenote/detail/process.hpp"
#include "cenote/detail/resource.hpp"
#include "cenote/detail/waiter.hpp"
#include "core/machine.hpp"
#include "shell/call_queue.hpp"
#include "shell/errands.hpp"

namespace cenote::shell {

/// Made in another process than this one.
inline bool is_foreign(const detail::resource* r) { return r->process != detail::this_process; }

/// It waits in another process than this one: what notified it is gone.
inline bool is_forgotten(const detail::waiter& who) {
    detail::process_number waits_in = who.process.load(std::memory_order_relaxed);
    return waits_in != detail::no_process && waits_in != detail::this_process;
}

/// It stays where it is, and its destructor does not run: that might say goodbye.
inline void forsake(detail::resource* r) noexcept { r->made_by->forsake(*r); }

class fork_state {
public:
    /// The keeper has not begun in this process yet. Also without the lock.
    bool is_behind() const {
        return lives_in_.load(std::memory_order_acquire) != detail::this_process;
    }
    /// The minimum is not kept yet. Also without the lock.
    bool must_begin() const { return must_begin_.load(std::memory_order_relaxed); }
    /// True: the caller has to see to it.
    bool take_beginning() { return must_begin_.exchange(false); }

    // Under the keeper's lock.

    /// Sorts what is the parent's: what a borrower may hold, and what can be forsaken. Once in each
    /// process.
    void disown_all(const core::machine& machine, call_queue& calls) noexcept;
    /// What can be forsaken is to be forsaken outside the lock.
    void forsake_later(errands& todo);
    /// The keeper has begun again.
    void has_begun();

    /// `r` is the parent's, and was held here.
    void inherit(detail::resource* r) { r->next_orphan = std::exchange(inherited_, r); }
    void disinherit(const detail::resource* r);

    /// The machine was destroyed and is not there again yet.
    bool machine_is_gone = false;

private:
    std::atomic<detail::process_number> lives_in_{detail::this_process};
    std::atomic<bool> must_begin_{false};
    detail::process_number disowned_in_ = detail::this_process;
    detail::resource* inherited_ = nullptr;   // the parent's, held by a borrower or once held
    detail::resource* to_forsake_ = nullptr;  // the parent's, and held by no one here
    detail::resource* forsaken_ = nullptr;    // those it was said to; kept, never destroyed
};

}  // namespace cenote::shell
