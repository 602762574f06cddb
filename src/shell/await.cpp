// How waiters without a thread acquire: coroutines and Asio operations, for a lease or for the
// whole pool.
#include <bit>
#include <new>
#include <optional>
#include <utility>

#include "shell/around.hpp"
#include "shell/enter.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;
using detail::wait_target;

namespace {

/// Takes a waiter out of the line, as canceled and without telling it. False: it is not there.
bool take_out(keeper& k, instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock) {
    bool said_before = std::exchange(who.withdrawn, true);
    bool was_there = k.machine.cancel(now, std::bit_cast<core::waiter_id>(who.place), k.out);
    who.withdrawn = was_there || said_before;
    if (was_there) who.error = errc::canceled;
    return was_there;
}

/// Whether an answer is still to come: it is in line, or its resource has to be looked at, and not
/// where it waits.
bool ask_awaited(keeper& k, instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock) {
    if (ask_for_lease(k, now, who)) return !who.stopped || !take_out(k, now, who);
    if (who.got == nullptr || !k.looks_elsewhere()) return false;
    k.calls.add_admission(who);
    return true;
}

/// Whether it has what it waits for, or waits in vain.
bool has_come(keeper& k, instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock) {
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

/// Waits for the whole pool. False: it need not.
bool watch_for(keeper& k, instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock) {
    if (who.what == wait_target::ready) k.machine.warm(now, k.out);
    else k.machine.tick(now, k.out);
    if (who.stopped) who.error = errc::canceled;
    if (who.stopped || has_come(k, now, who)) return false;
    k.watchers.add(who);
    return true;
}

/// True: it waits.
bool ask_now(keeper& k, instant now, detail::waiter& who) CENOTE_REQUIRES(k.lock) {
    k.machine.make_room(k.out);
    bool waits = who.what == wait_target::lease ? ask_awaited(k, now, who) : watch_for(k, now, who);
    if (!waits && who.got == nullptr) k.keep_for(who);
    who.process.store(waits || k.is_unseen(who) ? detail::this_process : detail::no_process,
                      std::memory_order_relaxed);
    return waits;
}

// What before_acquire still has to look at, outside the lock: on a thread of the pool, or, if that
// is quick, where it is granted.

/// Sends back what is unfit, and its borrower to its place in line. True: it waits there, and may
/// be gone.
bool ask_again(keeper& k, detail::waiter& who, errands& todo) noexcept {
    resource* unfit = who.got;
    bool waits = false;
    auto give_back = [&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        k.give_to_machine(now, unfit, core::condition::unfit, std::nullopt);
        who.got = nullptr;
    };
    errands more;
    try {
        k.decide(
            [&](instant now) CENOTE_REQUIRES(k.lock) {
                k.machine.make_room(k.out);
                give_back(now);
                who.error = errc::canceled;
                if (!who.withdrawn && !who.stopped) waits = ask_for_lease(k, now, who);
                if (!waits && who.got == nullptr) k.keep_for(who);
            },
            more);
    } catch (const std::bad_alloc&) {
        k.decide(
            [&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
                give_back(now);
                who.error = errc::open_failed;
                k.keep_for(who);
            },
            more);
    }
    while (detail::waiter* other = more.pop()) todo.add(*other);
    if (more.any()) k.carry_out(more);
    return waits;
}

/// A waiter that asks looks at what it got at once, until something is fit. False: it waits after
/// all.
bool look_here(keeper& k, detail::waiter& who) {
    while (who.got != nullptr && !k.admits(who.got)) {
        errands todo;
        bool waits = ask_again(k, who, todo);
        if (todo.any()) k.carry_out(todo);
        if (waits) return false;
    }
    who.process.store(detail::no_process, std::memory_order_relaxed);
    return true;
}

/// What could not be done at once. Not inlined: those who can do without it need no stack.
[[gnu::noinline]] bool ask_slowly(keeper& k, detail::waiter& who) {
    if (who.what == wait_target::drained) k.close();
    bool waits = false;
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        if (who.timeout.count() >= 0) who.deadline = core::after(now, who.timeout);
        waits = ask_now(k, now, who);
    });
    return waits || (k.is_unseen(who) && !look_here(k, who));
}

bool ask(keeper& k, detail::waiter& who) {
    k.get_ready();
    bool joins = k.has_waiters();
    if (joins ? join_line(k, who) : lend_at_once(k, who)) return joins;
    return ask_slowly(k, who);
}

// In the child of a fork.

/// Ends the wait of a waiter that nothing knows any more. False: it is not one.
bool withdraw_forgotten(detail::waiter& who) noexcept {
    if (!is_forgotten(who)) return false;
    who.process.store(detail::no_process, std::memory_order_relaxed);
    if (resource* r = std::exchange(who.got, nullptr); r != nullptr) forsake(r);
    return true;
}

bool cancel_forgotten(keeper& k, detail::waiter& who) noexcept {
    if (!withdraw_forgotten(who)) return false;
    who.error = errc::canceled;
    who.stopped = true;
    k.keep_for(who);
    who.notify();
    return true;
}

}  // namespace

/// What comes once more in `todo` comes behind all others, and not in a call within this one,
/// however many are unfit.
bool admit(keeper& k, detail::waiter& who, errands& todo) noexcept {
    if (k.admits(who.got)) return true;
    if (!ask_again(k, who, todo)) todo.add(who);
    return false;
}

void look_for_watchers(keeper& k, instant now, errands& todo) {
    k.watchers.take_out(
        [&](detail::waiter& w) {
            k.lock.is_held();
            return has_come(k, now, w);
        },
        [&](detail::waiter& w) {
            k.keep_for(w);
            todo.add(w);
        });
}

}  // namespace cenote::shell

namespace cenote::detail {

using core::instant;
using shell::keeper;
using shell::keeper_of;

bool gate::ask(waiter& who) {
    if (this_threads_mark == nullptr) register_this_thread();
    return shell::ask(keeper_of(this), who);
}

void gate::cancel(waiter& who) noexcept {
    keeper& k = keeper_of(this);
    if (shell::cancel_forgotten(k, who)) return;
    bool was_watching = false;
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        who.stopped = true;
        k.machine.cancel(now, std::bit_cast<core::waiter_id>(who.place), k.out);
        was_watching = k.watchers.remove(who);
        if (!was_watching) return;
        who.error = errc::canceled;
        who.process.store(no_process, std::memory_order_relaxed);
        k.keep_for(who);
    });
    if (was_watching) who.notify();
}

bool gate::withdraw(waiter& who) noexcept {
    if (shell::withdraw_forgotten(who)) return true;
    keeper& k = keeper_of(this);
    bool was_there = false;
    resource* unseen = nullptr;
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        who.withdrawn = true;
        was_there = shell::take_out(k, now, who);
        if (was_there || !k.calls.remove_admission(who)) return;
        was_there = true;
        unseen = std::exchange(who.got, nullptr);
    });
    if (unseen != nullptr) {
        unseen->state = condition::unused;
        k.release(unseen);
    }
    return was_there;
}

bool gate::take_back(waiter& who) noexcept { return keeper::take_back(who); }
void gate::forget() noexcept { keeper_of(this).drop_ref(); }

}  // namespace cenote::detail
