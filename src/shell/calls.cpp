// Connector calls: which are to be made, and what becomes of their answers.
//
// A resource has at most one call at a time. If the machine gives up a probe or reset that still
// runs, it asks for a close, which waits until that call returns. If the machine gives up a close
// or an open, the slot goes on without it: what remains is an orphan, which is closed as soon as
// possible, and no caller waits for that.
#include <utility>

#include "shell/operations.hpp"

namespace cenote::shell {

using core::action;
using core::instant;
using core::outcome;
using core::verb;
using detail::resource;

// Under the lock.

void queue_call(keeper& k, instant now, const action& a) {
    std::uint64_t before = 0;
    job next{.which = a.which, .slot = a.slot, .call = a.call, .on = k.calls.in(a.slot)};
    if (k.calls.add(next, before) != call_queue::added::blocked) return;
    // The close waits for a call that does not return. Its timeout starts now.
    k.work->abandoned(a.slot, before);
    k.machine.begun(now, a.slot, a.call);
}

void give_up_call(keeper& k, const action& a) {
    if (!k.calls.remove(a.slot)) return k.work->abandoned(a.slot, a.call);
    if (k.calls.in(a.slot) == nullptr) k.machine.never_made(a.call);
}

void abandon_call(keeper& k, instant now, const action& a) {
    give_up_call(k, a);
    bool opening = k.calls.in(a.slot) == nullptr;
    const std::exception_ptr& why = k.opens.timed_out(opening);
    k.opens.begin_answer(why, a.cookie);
    if (opening) k.opens.record(now, why);
    else k.calls.add_orphan(std::exchange(k.calls.in(a.slot), nullptr));
}

void start_call_timeouts(keeper& k) {
    instant at = k.now_in_order();
    k.calls.for_each_call([&](const job& j) {
        k.lock.is_held();
        k.machine.begun(at, j.slot, j.call);
    });
}

bool next_job(keeper& k, job& j) {
    if (k.forks.must_restart()) return false;  // the queues are the parent's
    if (k.events.needs_delivery()) {
        j = {.tells_observers = true};
        return true;
    }
    if (!k.calls.next(j)) return false;
    if (!j.is_call() || j.is_orphans()) return true;
    if (j.which == verb::open) j.by = detail::connector_ref(k.connector().get()).release();
    k.machine.begun(k.now_in_order(), j.slot, j.call);
    k.work->schedule(k.arm_timer());  // the caller wakes the workplace if needed
    return true;
}

std::size_t calls_in_flight(const keeper& k) {
    using core::slot_state;
    return k.machine.count(slot_state::opening) + k.machine.count(slot_state::probing) +
           k.machine.count(slot_state::resetting) + k.machine.count(slot_state::closing);
}

// Outside the lock.

void run(keeper& k, const job& j) noexcept {
    if (j.tells_observers) {
        k.events.deliver(k.lock);
        pool_guard here(k.lock);
        return k.pool_waiters.notify();
    }
    if (j.is_call()) return k.work->call(j);
    pending_actions todo;
    todo.to_notify.add(*j.checks_for);
    k.carry_out(todo);
}

void make_calls_here(keeper& k) noexcept {
    static constinit thread_local const keeper* busy_with = nullptr;
    if (busy_with == &k) return;  // the loop below goes on when this call returns
    const keeper* outer = std::exchange(busy_with, &k);
    for (;;) {
        job j;
        pool_guard here(k.lock);
        if (!next_job(k, j)) break;
        // Skips a close that has hung before, and all calls once too many hang.
        bool skips = j.is_call() && (j.is_orphans() || k.work->too_many_hang());
        here.unlock();
        if (skips) finish(k, j, j.which == verb::close, nullptr, nullptr);
        else run(k, j);
    }
    busy_with = outer;
}

namespace {

void answer_open(keeper& k, instant now, const job& j, outcome how, const std::exception_ptr& error,
                 std::unique_ptr<resource>& opened) CENOTE_REQUIRES(k.lock) {
    bool wanted = k.machine.look(j.slot).call == j.call;
    // If the workplace has stopped, the next open would fail as well.
    bool for_good = how == outcome::failed && k.work->stopped();
    if (for_good) how = outcome::failed_finally;
    if (wanted) k.opens.record(now, for_good && error == nullptr ? k.work->why_stopped() : error);
    // An error that is final for a replaced connector may not be final for its successor.
    bool replaced = j.by != k.connector().get();
    if (how == outcome::failed_finally && !for_good && replaced) how = outcome::failed;
    if (wanted && how == outcome::ok && opened != nullptr) {
        opened->home = &k;
        opened->process = j.process;
        opened->slot = j.slot;
        opened->seen = &k.leases.trace_of(j.slot);
        k.calls.in(j.slot) = opened.release();
    }
    k.machine.on_open(now, j.slot, j.call, how, k.out);
}

void answer(keeper& k, const job& j, outcome how, const std::exception_ptr& error,
            std::unique_ptr<resource> opened) noexcept {
    if (j.is_orphans()) return;
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        k.opens.begin_answer(error, k.machine.look(j.slot).resource);
        switch (j.which) {
            case verb::open: return answer_open(k, now, j, how, error, opened);
            case verb::close:
                if (k.machine.look(j.slot).call == j.call) k.calls.in(j.slot) = nullptr;
                k.machine.on_close(now, j.slot, j.call, how, k.out);
                return;
            case verb::probe:
            case verb::reset: break;
        }
        j.on->busy = false;
        if (j.which == verb::reset) j.on->owes = false;
        bool wanted = j.which == verb::probe ? k.machine.on_probe(now, j.slot, j.call, how, k.out)
                                             : k.machine.on_reset(now, j.slot, j.call, how, k.out);
        if (wanted) return;
        if (j.on->orphan) k.calls.add_orphan(j.on);
        else k.calls.add_blocked(j.slot);
    });
    // Closes what an abandoned open has opened.
    if (opened == nullptr) return;
    detail::any_connector* by = opened->made_by.get();
    run(k, {.which = verb::close, .slot = j.slot, .on = opened.release(), .by = by});
}

/// In the child of a fork: a call that the parent began has ended.
void finish_foreign(keeper& k, const job& j, std::unique_ptr<resource> opened) noexcept {
    if (opened == nullptr) return;  // the copy of the open's reference to its connector stays
    if (j.which == verb::open) opened->made_by = detail::connector_ref::adopt(j.by);
    forsake(opened.get());
    pool_guard here(k.lock);
    k.forks.keep(opened.release());
}

}  // namespace

void finish(keeper& k, const job& j, bool well, const std::exception_ptr& error,
            std::unique_ptr<resource> opened) noexcept {
    if (j.process != detail::this_process) return finish_foreign(k, j, std::move(opened));
    outcome how = well ? outcome::ok : outcome::failed;
    // The open's reference to its connector goes to the opened resource, or ends here.
    auto opener = detail::connector_ref::adopt(j.which == verb::open ? j.by : nullptr);
    if (error != nullptr && j.which == verb::open && opener->classify_open(error) == verdict::final)
        how = outcome::failed_finally;
    if (opened != nullptr) opened->made_by = std::move(opener);
    if (j.which != verb::close) return answer(k, j, how, error, std::move(opened));
    // The user's object is destroyed before its slot is vacant: a slot counts until its close has
    // ended. The block around it stays until the machine knows.
    j.on->destroy();
    answer(k, j, how, error, nullptr);
    delete j.on;
}

}  // namespace cenote::shell
