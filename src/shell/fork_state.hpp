// A keeper's knowledge of forks: which resources belong to the parent process, and whether the
// keeper has restarted in this process. See keeper_fork.cpp for the rules.
#pragma once

#include <atomic>
#include <utility>

#include "cenote/detail/process.hpp"
#include "cenote/detail/resource.hpp"
#include "cenote/detail/waiter.hpp"
#include "core/machine.hpp"
#include "shell/call_queue.hpp"
#include "shell/pending_actions.hpp"

namespace cenote::shell {

/// Whether `r` was opened in another process than this one.
inline bool is_foreign(const detail::resource* r) { return r->process != detail::this_process; }

/// Whether `w` waits in another process than this one. Here no thread will notify it.
inline bool is_foreign(const detail::waiter& w) {
    detail::process_number waits_in = w.process.load(std::memory_order_relaxed);
    return waits_in != detail::no_process && waits_in != detail::this_process;
}

/// The resource keeps its memory, and its destructor does not run: it might write to the
/// connection.
inline void forsake(detail::resource* r) noexcept { r->made_by->forsake(*r); }

class fork_state {
public:
    /// The keeper has not restarted in this process yet. Also without the lock.
    bool must_restart() const {
        return restarted_in_.load(std::memory_order_acquire) != detail::this_process;
    }
    /// The minimum is not being opened yet. Also without the lock.
    bool must_warm_up() const { return must_warm_up_.load(std::memory_order_relaxed); }
    /// True: the caller has to start the machine.
    bool take_warm_up() { return must_warm_up_.exchange(false); }

    // Under the keeper's lock.

    /// Takes all resources out of the queue and sorts them: those that a borrower or a call may
    /// still use, and those to be forsaken. Once in each process.
    void take_foreign(const core::machine& machine, call_queue& calls) noexcept;
    /// Has the caller forsake what is to be forsaken, outside the lock.
    void forsake_later(pending_actions& todo);
    void restarted();

    /// Keeps the memory of a foreign resource that a call has brought here.
    void keep(detail::resource* r) { in_use_.add(*r); }
    /// The caller owns `r` from now on.
    void give_up(const detail::resource* r) { in_use_.remove(*r); }

    /// The machine was destroyed, and constructing it anew has not succeeded yet.
    bool machine_is_gone = false;

private:
    std::atomic<detail::process_number> restarted_in_{detail::this_process};
    std::atomic<bool> must_warm_up_{false};
    detail::process_number taken_in_ = detail::this_process;
    // The parent's resources. They are never destroyed.
    linked_list<detail::resource, &detail::resource::next_orphan> in_use_;  // at the fork
    detail::resource* to_forsake_ = nullptr;
    detail::resource* forsaken_ = nullptr;
};

}  // namespace cenote::shell
