// What the files of the shell do for each other: functions on a keeper, listed by the file that
// defines them.
#pragma once

#include <cstddef>
#include <source_location>

#include "shell/keeper.hpp"

namespace cenote::shell {

// keeper.cpp

/// The pool's options with another maximum.
options settings_with(const keeper& k, std::size_t max);
core::abilities abilities_of(const detail::connector_abilities& can, const manual_clock* clock);
std::uint64_t pick_seed(const options& settings);
/// After a suspension of the system, suspects everything that is open: no timer is late then.
void notice_suspension(keeper& k, core::instant now) CENOTE_REQUIRES(k.lock);

// calls.cpp: connector calls, from an action of the machine to an answer.

void queue_call(keeper& k, core::instant now, const core::action& a) CENOTE_REQUIRES(k.lock);
void give_up_call(keeper& k, const core::action& a) CENOTE_REQUIRES(k.lock);
void abandon_call(keeper& k, core::instant now, const core::action& a) CENOTE_REQUIRES(k.lock);
/// Takes out the next job. False: there is none.
bool next_job(keeper& k, job& j) CENOTE_REQUIRES(k.lock);
/// Does a job. A connector's call goes to the workplace and ends with finish().
void run(keeper& k, const job& j) noexcept CENOTE_EXCLUDES(k.lock);
/// A call has ended: with a result, with an opened resource, or with an exception.
void finish(keeper& k, const job& j, bool well, const std::exception_ptr& error,
            std::unique_ptr<detail::resource> opened) noexcept CENOTE_EXCLUDES(k.lock);
/// Starts the timeouts of the queued calls, because no thread can be started to make them.
void start_call_timeouts(keeper& k) CENOTE_REQUIRES(k.lock);
std::size_t calls_in_flight(const keeper& k) CENOTE_REQUIRES(k.lock);
/// Makes the queued calls on this thread: the pool's own threads have ended.
void make_calls_here(keeper& k) noexcept CENOTE_EXCLUDES(k.lock);

// acquire.cpp: one lease, for waiters of every kind.

/// Notes the time of a waiter's arrival, from which its timeout counts.
inline void arrive(detail::waiter& who, core::instant now) {
    who.arrived = now;
    if (who.timeout.count() >= 0)
        who.deadline = std::min(who.deadline, core::after(now, who.timeout));
}
/// Requests a lease for `who`. True: it waits in line. False: it has a lease or an error.
bool request_lease(keeper& k, core::instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock);
/// In a full pool where only the line can change: puts `who` in line. False: nothing has changed.
bool join_line(keeper& k, detail::waiter& who) noexcept CENOTE_EXCLUDES(k.lock);
/// In a calm pool where only the idle resources change: lends one to `who`. False: nothing has
/// changed.
bool lend_at_once(keeper& k, detail::waiter& who) noexcept CENOTE_EXCLUDES(k.lock);
/// Calls notice_suspension() if there is anything to lend.
void notice_suspension_before_lending(keeper& k, core::instant now) CENOTE_REQUIRES(k.lock);
/// Before a thread waits, tells the machine which threads hold the leases: the thread may hold one
/// itself, or complete a deadlock. Returns `thread` if it holds a lease, else 0.
std::uint64_t name_holders(keeper& k, std::uint64_t thread, std::size_t wanted)
    CENOTE_REQUIRES(k.lock);

// acquire_async.cpp: coroutines and Asio operations.

/// Has before_acquire check what a waiter was granted. False: it was unfit, and the waiter is in
/// line again, or once more in `todo`.
bool check_granted(keeper& k, detail::waiter& who, pending_actions& todo) noexcept
    CENOTE_EXCLUDES(k.lock);
/// Moves the waiters for the whole pool whose wait has ended into `todo`.
void end_pool_waits(keeper& k, core::instant now, pending_actions& todo) CENOTE_REQUIRES(k.lock);
/// Whether a waiter for the whole pool has reached its target or its deadline.
bool pool_wait_ends(keeper& k, core::instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock);

// close.cpp: waiting for the whole pool, and its end.

/// Waits until the minimum is open. Throws the exception of the first failed open.
void wait_warm(keeper& k) CENOTE_EXCLUDES(k.lock);
/// Whether the calling thread may block. Tells observers if the pool needs this thread.
bool may_block(keeper& k, std::source_location site) noexcept CENOTE_EXCLUDES(k.lock);
/// Whether an acquire that would block this thread is refused, because the pool needs the thread.
bool refuses_to_block(const keeper& k);

// breaker_control.cpp

/// Delivers the queued reports to the strategy, and follows its answers.
void deliver_reports(keeper& k) noexcept CENOTE_EXCLUDES(k.lock);
/// At the end of the pool: its strategy may belong to another pool then.
void drop_strategy(keeper& k) noexcept CENOTE_EXCLUDES(k.lock);

// inspect.cpp

/// The number of slots; more than `max` after a resize to a smaller one. Without the lock.
std::size_t places(const keeper& k);

}  // namespace cenote::shell
