// The keeper in the child of a fork: it restarts, empty, and forsakes the parent's resources.
//
// The child must not write to a connection that the parent uses, too. So a resource that was open
// at the fork is foreign here: it is never lent, probed, reset, closed or destroyed. If no borrower
// has it, it is forsaken when the pool is first used; if a borrower has it, when that lease ends.
// If a thread that is gone had it, or was in a connector's call on it, it is left alone: its state
// is unknown.
//
// The threads of the pool and the threads that waited are gone. Coroutines and operations that
// waited are foreign, too: they are not resumed unless they are canceled, because they are the
// parent's requests.
//
// A child that is forked in a callback must not return from it: the code of the pool that made the
// call could not go on after the restart.
//
// The keeper's memory is never freed in the child, because leases, coroutines and the references of
// threads that are gone may still refer to it.
#include <memory>
#include <utility>

#include "shell/operations.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;

/// In the fork handler. Does only what cannot wait for the first use of the pool, because the fast
/// lane checks nothing: it empties the shelf, and no trace allows a put.
void keeper::after_fork_in_child() noexcept {
    add_ref();
    leases.forbid_puts();
    for (std::size_t i = 0; i < shelf_.size(); ++i)
        if (resource* r = shelf_.collect(i); r != nullptr) r->orphan = true;
    lock.unlock();
}

void keeper::ensure_restarted() {
    if (forks.must_restart()) enter([](instant) noexcept {});
}

void keeper::make_ready() {
    ensure_restarted();
    work->start();
    if (forks.must_warm_up())
        enter([&](instant now) CENOTE_REQUIRES(lock) {
            if (forks.take_warm_up() && !machine.closed()) machine.start(now, out);
        });
    ready_in_.store(detail::this_process, std::memory_order_release);
}

/// May throw before anything has changed, or while it constructs the machine. The next call goes on
/// from there.
void keeper::restart(pending_actions& todo) {
    forks.take_foreign(machine, calls);
    leases.prepare_restart(calls.slots());
    latest_ = core::long_ago;  // the child may be in another time namespace
    instant now = now_in_order();
    if (!std::exchange(forks.machine_is_gone, true)) std::destroy_at(&machine);
    std::construct_at(&machine, settings_with(*this, max_now), abilities_of(can, clock),
                      events.wants_any(), pick_seed(fixed), now);
    forks.machine_is_gone = false;
    out.clear();
    machine.make_room(out);
    machine.make_places(calls.slots(), out);

    bool was_closed = (shelf_.raised() & detail::pool_closed) != 0;
    leases.restart();
    calls.restart();
    pool_waiters.restart();
    lane.restart();
    lane_pool.restart();
    opens.restart();
    events.restart();
    reports.restart();
    work->restart();
    settles_ = 0;
    armed_for_ = core::long_ago;
    look_again_ = core::never;
    turns_seen_ = 0;
    occupied_ = false;
    forks.forsake_later(todo);
    if (was_closed) machine.close(now, out);
    out.clear();  // the parent's observers were told
    forks.restarted();
}

// The parent's resources.

/// The list of those to be forsaken ends in the list of those that were forsaken before, so that it
/// can be put in front of them at once.
void fork_state::take_foreign(const core::machine& machine, call_queue& calls) noexcept {
    if (std::exchange(taken_in_, detail::this_process) == detail::this_process) return;
    to_forsake_ = nullptr;
    auto add = [&](resource* r, bool used) {
        if (used || r->busy) return in_use_.add(*r);
        r->next_orphan = to_forsake_ == nullptr ? forsaken_ : to_forsake_;
        to_forsake_ = r;
    };
    for (resource* r = calls.next_orphan(); r != nullptr;) {
        resource* next = r->next_orphan;
        add(r, false);
        r = next;
    }
    for (core::slot_id id = 0; id < calls.slots(); ++id) {
        resource* r = std::exchange(calls.in(id), nullptr);
        if (r == nullptr) continue;
        // The child's fork handler marks what was on the shelf as an orphan.
        add(r, machine.look(id).state == core::slot_state::leased && !r->orphan);
    }
}

void fork_state::forsake_later(pending_actions& todo) {
    if (to_forsake_ == nullptr) return;
    todo.foreign = std::exchange(to_forsake_, nullptr);
    todo.foreign_end = std::exchange(forsaken_, todo.foreign);
}

void fork_state::restarted() {
    must_warm_up_.store(true, std::memory_order_relaxed);
    restarted_in_.store(detail::this_process, std::memory_order_release);
}

}  // namespace cenote::shell
