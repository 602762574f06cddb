// The keeper: lock, clock and resources of one pool around its machine.
//
// Every request takes the same four steps, written once in enter(): lock, ask the machine, unlock,
// carry out the actions. No user code (connector, observer, waiter) runs under the lock.
//
// The keeper puts its parts together. Each part has its own data:
//
//     machine       decides
//     lane          the shelf of hot resources in front of the lock
//     leases        who has which lease, since when
//     calls         the resource in each slot, and the connector calls to be made
//     opens         why the last calls failed
//     pool_waiters  waiters for the whole pool
//     events        what observers are told
//     reports       what the breaker's strategy is told
//     forks         what belongs to the parent process
//     work          where connector calls run, and the timer
//
// The operations on a pool are the members of gate that are not inline. Each is defined in the file
// of its group: acquire.cpp, acquire_async.cpp, release.cpp, control.cpp, breaker_control.cpp,
// close.cpp, inspect.cpp, explain.cpp. What these files do for each other is in operations.hpp.
//
// References keep a keeper alive (refs_): the pool object has one; each thread that works for the
// pool; each thread whose pending actions need the keeper; and all slots that are not vacant have
// one together. The last one deletes it. So a lease needs no reference and can outlive its pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "cenote/detail/gate.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/testing.hpp"
#include "core/machine.hpp"
#include "shell/breaker_reports.hpp"
#include "shell/call_queue.hpp"
#include "shell/event_queue.hpp"
#include "shell/fork.hpp"
#include "shell/fork_state.hpp"
#include "shell/job.hpp"
#include "shell/lane.hpp"
#include "shell/lane_pool.hpp"
#include "shell/lease_ledger.hpp"
#include "shell/lock.hpp"
#include "shell/open_log.hpp"
#include "shell/pending_actions.hpp"
#include "shell/pool_waiters.hpp"
#include "shell/read_clock.hpp"
#include "shell/suspension.hpp"
#include "shell/workplace.hpp"

namespace cenote::shell {

class keeper final : public detail::gate {
public:
    using workplace_maker = std::function<std::unique_ptr<shell::workplace>(keeper&)>;

    /// Makes the keeper of a pool and starts its warm-up. Throws what gate::open throws.
    static keeper* open(const options& settings, std::unique_ptr<detail::any_connector> connector,
                        const workplace_maker& make_workplace);
    keeper(const keeper&) = delete;
    keeper& operator=(const keeper&) = delete;

    // The four steps. `ask` gets the time and runs under the lock. `read`: the time that this
    // thread has just read for the same request; the clock is read otherwise.

    static constexpr core::instant unread{};

    template <class Ask>
    void enter(Ask&& ask, core::instant read = unread) noexcept(noexcept(ask(core::instant{})))
        CENOTE_EXCLUDES(lock);
    /// For an `ask` whose actions may need memory: makes room for them first, which is the only
    /// step that can throw (std::bad_alloc).
    template <class Ask>
    void enter_with_room(Ask&& ask, core::instant read = unread) CENOTE_EXCLUDES(lock);
    /// All steps but the last: the caller carries out `todo`.
    template <class Ask>
    void decide(Ask&& ask, pending_actions& todo,
                core::instant read = unread) noexcept(noexcept(ask(core::instant{})))
        CENOTE_EXCLUDES(lock);
    void carry_out(pending_actions& todo) noexcept CENOTE_EXCLUDES(lock);
    /// Tells the workplace of jobs and of an earlier timer.
    void schedule_work(pending_actions& todo) CENOTE_REQUIRES(lock);
    /// Gives a refused waiter a reference: the pool may be gone before the waiter has asked why, or
    /// before it is canceled.
    void add_ref_for(detail::waiter& who);
    /// For gate::withdraw_pending().
    static bool remove_pending(const detail::waiter& who) noexcept;

    // Time.

    /// The only place where a pool reads the time, except for Asio's timers. The times of two
    /// threads may differ by a microsecond.
    core::instant now() const { return clock == nullptr ? read_clock() : clock->now(); }
    /// Never before the last time that was read here, on whichever thread: for decisions.
    core::instant now_in_order() const CENOTE_REQUIRES(lock) { return in_order(now()); }
    /// now_in_order() of a time that this thread has just read.
    core::instant in_order(core::instant read) const CENOTE_REQUIRES(lock) {
        if (read > latest_) latest_ = read;
        return latest_;
    }
    /// When tick() must be called next.
    core::instant wake_at() const CENOTE_REQUIRES(lock);
    /// Returns the next time at which the caller must call tick(), and remembers it as armed.
    core::instant arm_timer() CENOTE_REQUIRES(lock) {
        return armed_for_ = std::min(wake_at(), look_again_);
    }
    /// arm_timer() for a thread that does nothing else. While turns are taken it looks again soon:
    /// waking it for each turn would cost more.
    core::instant arm_thread_timer(core::instant now) CENOTE_REQUIRES(lock);
    /// The timer could not be set. The next request re-arms it.
    void disarm_timer() CENOTE_REQUIRES(lock) { armed_for_ = core::never; }
    bool is_timer_armed_by(core::instant at) const CENOTE_REQUIRES(lock) {
        return armed_for_ <= at;
    }
    /// Whether the timer must be set earlier, or cleared: on an executor a timer that is not needed
    /// would keep the loop running.
    bool must_rearm_timer() const CENOTE_REQUIRES(lock) {
        core::instant at = wake_at();
        bool ended = at == core::never && armed_for_ != core::never && !can.blocks;
        return at < armed_for_ || ended;
    }
    void tick() noexcept CENOTE_EXCLUDES(lock);
    /// Whether a thread that waits for this pool moves its manual clock.
    bool waits_move_clock() const {
        return clock != nullptr && clock->how() == manual_clock::waiting::moves_clock;
    }
    /// Moves the manual clock to its next timer, at most to `until`. False: neither is ever due.
    bool let_time_pass(core::instant until) noexcept { return clock->advance_to_next(until); }
    void leave_clock() noexcept {
        if (clock != nullptr) clock->remove(*this);
    }

    // Leases.

    bool has_before_acquire() const { return has_before_acquire_; }
    /// Calls before_acquire if the connector has one. False: `r` is unfit.
    bool passes_before_acquire(detail::resource* r) noexcept CENOTE_EXCLUDES(lock) {
        return !has_before_acquire_ || call_before_acquire(r);
    }
    /// Whether before_acquire still has to check what a coroutine or an operation was granted. The
    /// keeper is alive then: the resource is leased.
    bool needs_before_acquire(const detail::waiter& who) const {
        return who.asynchronous && who.got != nullptr && has_before_acquire_;
    }
    /// The machine has lent `r`.
    void granted(core::instant now, detail::resource* r, const borrower& who) CENOTE_REQUIRES(lock);
    /// Ends a lease at the machine, not on the shelf.
    void return_to_machine(core::instant now, detail::resource* r, core::condition how,
                           const std::optional<core::duration>& held, std::uint64_t thread = 0)
        CENOTE_REQUIRES(lock);

    /// About a wait that has ended at `now`, for observers.
    event event_of(event_kind kind, const detail::waiter& who, core::instant now) const;

    // Connector calls.

    bool has_jobs() const CENOTE_REQUIRES(lock) {
        return calls.waiting() > 0 || events.needs_delivery();
    }
    std::size_t jobs_waiting() const CENOTE_REQUIRES(lock) {
        return calls.waiting() + (events.needs_delivery() ? 1 : 0);
    }
    /// The one that opens; changes under the lock.
    detail::connector_ref& connector() CENOTE_REQUIRES(lock) { return connector_; }

    // References.

    void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
    void drop_ref() noexcept;

    // Forks: see keeper_fork.cpp.

    void after_fork_in_child() noexcept CENOTE_UNCHECKED_LOCKING;
    /// Restarts unless that was done in this process. Throws std::bad_alloc; the next caller tries
    /// again.
    void ensure_restarted() CENOTE_EXCLUDES(lock);
    /// Before an acquire: also opens the minimum in the child of a fork, as if the pool were new.
    void ensure_ready() CENOTE_EXCLUDES(lock) {
        if (ready_in_.load(std::memory_order_acquire) != detail::this_process) [[unlikely]]
            make_ready();
    }
    void restart(pending_actions& todo) CENOTE_REQUIRES(lock);

    // Constant.

    const options fixed;                    // the options, except `max` and the breaker
    manual_clock* const clock;              // null: the system's
    const detail::connector_abilities can;  // of every connector that the pool has
    const bool can_probe;
    const bool takes_turns;

    // The parts.

    mutable pool_lock lock;
    event_queue events;  // guarded by itself and the lock
    breaker_reports reports CENOTE_GUARDED_BY(lock);
    std::atomic<std::size_t> max_now;  // changes under the lock
    core::machine machine CENOTE_GUARDED_BY(lock);
    core::actions out CENOTE_GUARDED_BY(lock);
    lease_ledger leases CENOTE_GUARDED_BY(lock);
    shell::lane_pool lane_pool CENOTE_GUARDED_BY(lock);
    shell::lane lane CENOTE_GUARDED_BY(lock);
    call_queue calls CENOTE_GUARDED_BY(lock);
    open_log opens CENOTE_GUARDED_BY(lock);
    shell::suspension suspension CENOTE_GUARDED_BY(lock);
    shell::pool_waiters pool_waiters CENOTE_GUARDED_BY(lock);
    const std::unique_ptr<shell::workplace> work;  // says for each function which lock it needs
    fork_state forks;                              // guarded by itself and the lock

    /// Odd while the machine's numbers change: for readers without the lock.
    std::atomic<std::uint64_t> sequence{0};
    struct changing;

private:
    keeper(const options& settings, std::unique_ptr<detail::any_connector> connector,
           const workplace_maker& make_workplace);
    ~keeper() { unregister_keeper(*this); }

    void make_ready() CENOTE_EXCLUDES(lock);
    bool call_before_acquire(detail::resource* r) noexcept CENOTE_EXCLUDES(lock);

    // The parts of enter().
    template <class Ask>
    void ask_machine(core::instant now, Ask&& ask) noexcept(noexcept(ask(core::instant{})));
    bool must_dispatch() const CENOTE_REQUIRES(lock);
    void dispatch(core::instant now, pending_actions& todo) noexcept CENOTE_REQUIRES(lock);
    void dispatch(core::instant now, const core::action& a, pending_actions& todo) noexcept
        CENOTE_REQUIRES(lock);
    void after_settling(core::instant now, pending_actions& todo) noexcept CENOTE_REQUIRES(lock);
    void queue_event(const core::action& a) CENOTE_REQUIRES(lock);
    void report_wait(core::instant now, const detail::waiter& who, core::slot_id granted)
        CENOTE_REQUIRES(lock);

    /// What this thread is carrying out, for the innermost pool.
    static constinit thread_local pending_actions* carried_out_here;

    std::atomic<std::size_t> refs_{1};
    std::atomic<detail::process_number> ready_in_{detail::no_process};       // make_ready() is done
    mutable core::instant latest_ CENOTE_GUARDED_BY(lock) = core::long_ago;  // see now_in_order()
    std::uint64_t settles_ CENOTE_GUARDED_BY(lock) = 0;  // the machine's, at the last dispatch
    core::instant armed_for_ CENOTE_GUARDED_BY(lock) = core::long_ago;  // see arm_timer()
    core::instant look_again_ CENOTE_GUARDED_BY(lock) = core::never;    // see arm_thread_timer()
    std::uint64_t turns_seen_ CENOTE_GUARDED_BY(lock) = 0;              // see arm_thread_timer()
    bool occupied_ CENOTE_GUARDED_BY(lock) = false;  // the slots' common reference exists
};

inline keeper& keeper_of(detail::gate* g) { return *static_cast<keeper*>(g); }
inline const keeper& keeper_of(const detail::gate* g) { return *static_cast<const keeper*>(g); }

inline core::instant keeper::wake_at() const {
    core::instant at = std::min(machine.wake_at(), lane.sweep_at());
    at = std::min(at, leases.inspect_at());
    if (!pool_waiters.list.empty()) at = std::min(at, pool_waiters.earliest_deadline());
    // While the lane is open to newcomers, what the head of the line is owed may be on the shelf.
    if (!lane.is_shut_for_waiters()) at = std::min(at, machine.owed_at());
    return at;
}

// The four steps.

/// Makes the sequence odd while the machine's numbers change. It becomes even again also if `ask`
/// throws, which happens only before anything has changed.
struct keeper::changing {
    explicit changing(std::atomic<std::uint64_t>& sequence)
        : n(sequence), even(sequence.load(std::memory_order_relaxed)) {
        n.store(even + 1, std::memory_order_relaxed);
    }
    ~changing() { n.store(even + 2, std::memory_order_release); }
    changing(const changing&) = delete;
    changing& operator=(const changing&) = delete;

    std::atomic<std::uint64_t>& n;
    std::uint64_t even;
};

template <class Ask>
void keeper::enter(Ask&& ask, core::instant read) noexcept(noexcept(ask(core::instant{}))) {
    pending_actions todo;
    decide(std::forward<Ask>(ask), todo, read);
    if (todo.any()) carry_out(todo);
}

/// Clang does not see that the lock `ask` requires is this one; nor in ask_machine().
template <class Ask>
void keeper::enter_with_room(Ask&& ask, core::instant read) {
    enter(
        [&](core::instant now) CENOTE_UNCHECKED_LOCKING {
            machine.make_room(out);
            ask(now);
        },
        read);
}

template <class Ask>
void keeper::decide(Ask&& ask, pending_actions& todo,
                    core::instant read) noexcept(noexcept(ask(core::instant{}))) {
    pool_guard here(lock);
    if (forks.must_restart()) [[unlikely]]
        restart(todo);
    core::instant now = in_order(read == unread ? this->now() : read);
    changing bracket(sequence);
    ask_machine(now, ask);
    if (must_dispatch()) dispatch(now, todo);
    if (todo.need_keeper()) add_ref();
}

template <class Ask>
CENOTE_UNCHECKED_LOCKING void keeper::ask_machine(core::instant now, Ask&& ask) noexcept(
    noexcept(ask(core::instant{}))) {
    std::forward<Ask>(ask)(now);
}

/// False if a waiter has only joined the line of a crowded pool.
inline bool keeper::must_dispatch() const {
    bool settled = settles_ != machine.settles();
    return !out.empty() || settled || fixed.fairness == fairness::bounded || has_jobs() ||
           must_rearm_timer();
}

}  // namespace cenote::shell
