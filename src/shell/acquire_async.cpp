// How coroutines and Asio operations wait: for a lease, or for the whole pool.
#include <bit>
#include <new>
#include <optional>
#include <utility>

#include "shell/operations.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;
using detail::wait_target;

namespace {

/// Takes a waiter out of the line, as canceled and without a notification. False: it is not there.
bool leave_line(keeper& k, instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock) {
    bool withdrawn_before = std::exchange(who.withdrawn, true);
    bool was_there = k.machine.cancel(now, std::bit_cast<core::waiter_id>(who.place), k.out);
    who.withdrawn = was_there || withdrawn_before;
    if (was_there) who.error = errc::canceled;
    return was_there;
}

/// True: the waiter is in line, or a worker has to check what it was granted.
bool begin_lease_wait(keeper& k, instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock) {
    if (request_lease(k, now, who)) return !who.stopped || !leave_line(k, now, who);
    if (who.got == nullptr || !k.before_acquire_may_block()) return false;
    k.calls.add_check(who);
    return true;
}

bool begin_pool_wait(keeper& k, instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock) {
    arrive(who, now);
    if (who.what == wait_target::ready) k.machine.warm(now, k.out);
    else k.machine.tick(now, k.out);
    if (who.stopped) who.error = errc::canceled;
    if (who.stopped || pool_wait_ends(k, now, who)) return false;
    k.pool_waiters.list.add(who);
    return true;
}

// What before_acquire has to check, outside the lock: on a worker, or, if it is quick, where the
// lease was granted.

/// Returns an unfit resource, and its borrower to its place in line. True: the borrower waits
/// there, and may be gone.
bool request_another(keeper& k, detail::waiter& who, pending_actions& todo) noexcept {
    resource* unfit = who.got;
    bool waits = false;
    auto give_back = [&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        k.return_to_machine(now, unfit, core::condition::unfit, std::nullopt);
        who.got = nullptr;
    };
    pending_actions more;
    try {
        k.decide(
            [&](instant now) CENOTE_REQUIRES(k.lock) {
                k.machine.make_room(k.out);
                give_back(now);
                who.error = errc::canceled;
                if (!who.withdrawn && !who.stopped) waits = request_lease(k, now, who);
                if (!waits && who.got == nullptr) k.add_ref_for(who);
            },
            more);
    } catch (const std::bad_alloc&) {
        k.decide(
            [&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
                give_back(now);
                who.error = errc::open_failed;
                k.add_ref_for(who);
            },
            more);
    }
    while (detail::waiter* other = more.to_notify.pop()) todo.to_notify.add(*other);
    if (more.any()) k.carry_out(more);
    return waits;
}

/// Checks what a waiter was granted when it came, until a resource is fit. True: it has to wait
/// after all.
bool check_at_once(keeper& k, detail::waiter& who) {
    while (who.got != nullptr && !k.passes_before_acquire(who.got)) {
        pending_actions todo;
        bool waits = request_another(k, who, todo);
        if (todo.any()) k.carry_out(todo);
        if (waits) return true;
    }
    who.process.store(detail::no_process, std::memory_order_relaxed);
    return false;
}

/// Not inlined: callers that do not need it then need no stack.
[[gnu::noinline]] bool begin_wait_slowly(keeper& k, detail::waiter& who) {
    if (who.what == wait_target::drained) k.close();
    bool waits = false;
    auto ask = [&](instant now) CENOTE_REQUIRES(k.lock) {
        bool lease = who.what == wait_target::lease;
        waits = lease ? begin_lease_wait(k, now, who) : begin_pool_wait(k, now, who);
        if (!waits && who.got == nullptr) k.add_ref_for(who);
        bool pending = waits || k.needs_before_acquire(who);
        who.process.store(pending ? detail::this_process : detail::no_process,
                          std::memory_order_relaxed);
    };
    k.enter_with_room(ask, who.arrived);  // an attempt before may have read the clock
    return waits || (k.needs_before_acquire(who) && check_at_once(k, who));
}

/// In the child of a fork: ends the wait of a waiter of the parent, which no thread would notify.
/// False: it is not one.
bool end_foreign_wait(detail::waiter& who) noexcept {
    if (!is_foreign(who)) return false;
    who.process.store(detail::no_process, std::memory_order_relaxed);
    if (resource* r = std::exchange(who.got, nullptr); r != nullptr) forsake(r);
    return true;
}

}  // namespace

/// A waiter that is added to `todo` again is the last one there, and is checked by the caller's
/// loop: the stack does not grow, however many resources are unfit.
bool check_granted(keeper& k, detail::waiter& who, pending_actions& todo) noexcept {
    if (k.passes_before_acquire(who.got)) return true;
    if (!request_another(k, who, todo)) todo.to_notify.add(who);
    return false;
}

void end_pool_waits(keeper& k, instant now, pending_actions& todo) {
    k.pool_waiters.list.remove_if(
        [&](detail::waiter& w) {
            k.lock.is_held();
            return pool_wait_ends(k, now, w);
        },
        [&](detail::waiter& w) {
            k.add_ref_for(w);
            todo.to_notify.add(w);
        });
}

bool pool_wait_ends(keeper& k, instant now, detail::waiter& who) {
    if (who.what == wait_target::ready) {
        if (k.machine.closed()) who.error = errc::closed;
        if (k.machine.closed() || k.machine.ready()) return true;
        if (who.deadline > now) return false;
        who.error = k.opens.error() == nullptr ? errc::timed_out : errc::open_failed;
        return true;
    }
    who.left = k.machine.count(core::slot_state::leased);
    return k.machine.drained() || who.deadline <= now || k.work->stopped();
}

}  // namespace cenote::shell

namespace cenote::detail {

using core::instant;
using shell::keeper;
using shell::keeper_of;

bool gate::begin_wait(waiter& who) {
    if (this_threads_mark == nullptr) register_this_thread();
    keeper& k = keeper_of(this);
    k.ensure_ready();
    bool joins = has_waiters();
    if (joins ? shell::join_line(k, who) : shell::lend_at_once(k, who))
        return joins || (k.needs_before_acquire(who) && shell::check_at_once(k, who));
    return shell::begin_wait_slowly(k, who);
}

void gate::cancel(waiter& who) noexcept {
    keeper& k = keeper_of(this);
    bool ended = shell::end_foreign_wait(who);
    if (ended) {
        who.stopped = true;
        k.add_ref_for(who);
    } else {
        k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
            who.stopped = true;
            k.machine.cancel(now, std::bit_cast<core::waiter_id>(who.place), k.out);
            ended = k.pool_waiters.list.remove(who);
            if (!ended) return;
            who.process.store(no_process, std::memory_order_relaxed);
            k.add_ref_for(who);  // the pool may end once the lock is released
        });
    }
    if (!ended) return;
    who.error = errc::canceled;
    who.notify();
}

bool gate::withdraw(waiter& who) noexcept {
    if (shell::end_foreign_wait(who)) return true;
    keeper& k = keeper_of(this);
    bool was_there = false;
    resource* unchecked = nullptr;
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        who.withdrawn = true;
        was_there = shell::leave_line(k, now, who);
        if (was_there || !k.calls.remove_check(who)) return;
        was_there = true;
        unchecked = std::exchange(who.got, nullptr);
    });
    if (unchecked != nullptr) put_unused(unchecked);
    return was_there;
}

}  // namespace cenote::detail
