// What the files around the keeper do for each other and for it: functions on a keeper, each in the
// file it is listed under.
#pragma once

#include <cstddef>
#include <source_location>

#include "shell/keeper.hpp"

namespace cenote::shell {

// keeper.cpp

/// Its options, with another maximum.
options settings_with(const keeper& k, std::size_t max);
core::abilities abilities_of(const detail::connector_abilities& can, const manual_clock* clock);
std::uint64_t pick_seed(const options& settings);
/// No timer is late after the system was suspended, and what is idle may be dead all the same.
void notice_suspension(keeper& k, core::instant now) CENOTE_REQUIRES(k.lock);

// calls.cpp: connector calls, from an action of the machine to an answer.

void queue_call(keeper& k, core::instant now, const core::action& a) CENOTE_REQUIRES(k.lock);
void give_up_call(keeper& k, const core::action& a) CENOTE_REQUIRES(k.lock);
void abandon_call(keeper& k, core::instant now, const core::action& a) CENOTE_REQUIRES(k.lock);
/// What is to be done next. False: nothing.
bool next_job(keeper& k, job& j) CENOTE_REQUIRES(k.lock);
/// Does it. A connector's call goes to the workplace, and ends with finish().
void run(keeper& k, const job& j) noexcept CENOTE_EXCLUDES(k.lock);
/// A call has ended: with what was opened, with a yes or a no, or with an error.
void finish(keeper& k, const job& j, bool well, const std::exception_ptr& error,
            std::unique_ptr<detail::resource> opened) noexcept CENOTE_EXCLUDES(k.lock);
/// No thread can be had for the calls that wait. They do not wait for ever.
void let_time_run(keeper& k) CENOTE_REQUIRES(k.lock);
std::size_t calls_in_flight(const keeper& k) CENOTE_REQUIRES(k.lock);
/// On this thread: no other one is left for it.
void make_calls_here(keeper& k) noexcept CENOTE_EXCLUDES(k.lock);

// acquire.cpp: one lease, for threads and others.

/// Asks for a lease on behalf of `who`. True: it has to wait. False: it has got one, or an error.
bool ask_for_lease(keeper& k, core::instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock);
/// The same in a full pool where only the line can move. False: nothing has changed.
bool join_line(keeper& k, detail::waiter& who) CENOTE_EXCLUDES(k.lock);
/// Lends at once in a calm pool, where only the idle move. False: nothing has changed.
bool lend_at_once(keeper& k, detail::waiter& who) CENOTE_EXCLUDES(k.lock);
/// Sees whether the system was suspended before what is open is lent.
void notice_suspension_before_lending(keeper& k, core::instant now) CENOTE_REQUIRES(k.lock);
/// A thread that will have to wait may hold a lease already, or be the last one of a deadlock. Has
/// the machine know who holds what. Returns the thread if it holds anything, else 0.
std::uint64_t name_holders(keeper& k, std::uint64_t thread, std::size_t wanted)
    CENOTE_REQUIRES(k.lock);

/// notice_suspension() would notice one.
bool was_suspended(const keeper& k, core::instant now) CENOTE_REQUIRES(k.lock);

// turns.cpp: a thread has its own back.

/// The thread that gives `r` back, if it may have acquired it, too; else 0.
std::uint64_t thread_that_returns(const keeper& k, const detail::resource* r)
    CENOTE_REQUIRES(k.lock);
/// A clean lease of this thread comes back, or an owing one, and is set aside for it. False: it is
/// not; nothing has changed.
bool set_aside(keeper& k, detail::resource* r) CENOTE_EXCLUDES(k.lock);
/// This thread comes for what was set aside for it. False: nothing has changed.
bool claim(keeper& k, detail::waiter& who) CENOTE_EXCLUDES(k.lock);

// release.cpp: how a lease ends.

/// The clock must be minded from earlier on. Lets go of a reference that keeps the keeper for that.
void rouse_and_drop(keeper& k) noexcept CENOTE_EXCLUDES(k.lock);

// look.cpp: looks from outside.

/// How many slots there are, or were before `max` became less. Without the lock.
std::size_t places(const keeper& k);

// await.cpp: waiters without a thread.

/// Has before_acquire look at what a waiter got. False: it is unfit; the waiter is in line again,
/// or comes once more in `todo`.
bool admit(keeper& k, detail::waiter& who, errands& todo) noexcept CENOTE_EXCLUDES(k.lock);

// end.cpp: waiting for the whole pool, and its end.

/// Those that wait for the whole pool without a thread, and need not any longer.
void look_for_watchers(keeper& k, core::instant now, errands& todo) CENOTE_REQUIRES(k.lock);
/// Waits until the minimum is open. Throws what the first open that failed threw.
void wait_warm(keeper& k) CENOTE_EXCLUDES(k.lock);
/// False: the calling thread is one that the pool needs, and must not be blocked. If it is such a
/// one, this is told in any case.
bool may_block(keeper& k, std::source_location site) noexcept CENOTE_EXCLUDES(k.lock);
/// Whether waiting on this thread is refused, because the pool needs it.
bool cannot_wait_here(const keeper& k);

// breaking.cpp: the circuit breaker.

/// Tells the strategy what was noted for it, and follows its rulings.
void tell_strategy(keeper& k) noexcept CENOTE_EXCLUDES(k.lock);
/// The pool has ended: its strategy may have another one.
void let_go_of_strategy(keeper& k) noexcept CENOTE_EXCLUDES(k.lock);

}  // namespace cenote::shell
