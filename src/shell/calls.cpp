// A pool and its connector: which calls are to be made, and what becomes of their answers.
//
// A resource has at most one call at a time. If the machine gives up on a probe or reset that still
// runs, it asks for a close: that waits until the call returns. If it gives up on a close, or on an
// open, the slot goes on without: what remains is an orphan, which is closed as soon as it can be,
// and nothing waits for it.
#include <utility>

#include "shell/around.hpp"
#include "shell/enter.hpp"
#include "shell/keeper.hpp"

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
    // A close that must wait for a call which does not return. It does not wait for ever.
    k.work->abandoned(a.slot, before);
    k.machine.begun(now, a.slot, a.call);
}

/// Nobody waits any more for this call.
void give_up_call(keeper& k, const action& a) {
    if (!k.calls.remove(a.slot)) return k.work->abandoned(a.slot, a.call);
    if (k.calls.in(a.slot) == nullptr) k.machine.never_made(a.call);
}

void abandon_call(keeper& k, instant now, const action& a) {
    give_up_call(k, a);
    bool opening = k.calls.in(a.slot) == nullptr;
    const std::exception_ptr& why = k.opens.timed_out(opening);
    k.opens.begin_answer(why, a.cookie);
    if (opening) k.opens.note(now, why);
    else k.calls.add_orphan(std::exchange(k.calls.in(a.slot), nullptr));
}

void let_time_run(keeper& k) {
    instant at = k.now_in_order();
    k.calls.each_call([&](const job& j) {
        k.lock.is_held();
        k.machine.begun(at, j.slot, j.call);
    });
}

bool next_job(keeper& k, job& j) {
    if (k.forks.is_behind()) return false;  // what is in the queues is the parent's
    if (k.news.has_news()) {
        j = {.tells = true};
        return true;
    }
    if (!k.calls.next(j)) return false;
    if (j.admits != nullptr || j.call == 0) return true;
    if (j.which == verb::open) j.by = detail::connector_ref(k.connector()).release();
    k.machine.begun(k.now_in_order(), j.slot, j.call);
    k.work->look(k.mind_until());  // its worker sees to what follows
    return true;
}

std::size_t calls_in_flight(const keeper& k) {
    using core::slot_state;
    return k.machine.count(slot_state::opening) + k.machine.count(slot_state::probing) +
           k.machine.count(slot_state::resetting) + k.machine.count(slot_state::closing);
}

// Outside the lock.

void run(keeper& k, const job& j) noexcept {
    if (j.tells) {
        k.news.tell(k.lock);
        holding here(k.lock);
        return k.watchers.tell();
    }
    if (j.admits == nullptr) return k.work->call(j);
    errands todo;
    todo.add(*j.admits);
    k.carry_out(todo);
}

/// The pool object is gone and its threads with it: the thread that ends a lease makes the calls.
void make_calls_here(keeper& k) noexcept {
    static constinit thread_local const keeper* at_it = nullptr;
    if (at_it == &k) return;  // the loop below goes on when this call returns
    const keeper* outer = std::exchange(at_it, &k);
    for (;;) {
        job j;
        holding here(k.lock);
        if (!next_job(k, j)) break;
        bool hopeless = j.call == 0 || k.work->overwhelmed();
        here.unlock();
        bool is_call = !j.tells && j.admits == nullptr;
        // Does without a call that has hung before, or that nothing lived to see the end of.
        if (hopeless && is_call) finish(k, j, j.which == verb::close, nullptr, nullptr);
        else run(k, j);
    }
    at_it = outer;
}

namespace {

void answer_open(keeper& k, instant now, const job& j, outcome how, const std::exception_ptr& error,
                 std::unique_ptr<resource>& opened) CENOTE_REQUIRES(k.lock) {
    bool wanted = k.machine.look(j.slot).call == j.call;
    bool for_good = how == outcome::failed && k.work->stopped();  // the next would fail as well
    if (for_good) how = outcome::failed_finally;
    if (wanted) k.opens.note(now, for_good && error == nullptr ? k.work->why_stopped() : error);
    // What is final for one connector is not for the one that has replaced it.
    if (how == outcome::failed_finally && !for_good && j.by != k.connector()) how = outcome::failed;
    if (wanted && how == outcome::ok && opened != nullptr) {
        opened->home = &k;
        opened->process = j.process;
        opened->slot = j.slot;
        opened->seen = &k.leases.seen(j.slot);
        k.calls.in(j.slot) = opened.release();
    }
    k.machine.on_open(now, j.slot, j.call, how, k.out);
}

void answer(keeper& k, const job& j, outcome how, const std::exception_ptr& error,
            std::unique_ptr<resource> opened) noexcept {
    if (j.call == 0) return;
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
    // Nothing waited for it any more.
    if (opened == nullptr) return;
    detail::any_connector* by = opened->made_by.get();
    run(k, {.which = verb::close, .slot = j.slot, .on = opened.release(), .by = by});
}

/// What a call brought that began before a fork and ends in the child.
void finish_foreign(keeper& k, const job& j, std::unique_ptr<resource> opened) noexcept {
    if (opened == nullptr) return;  // what the open kept of its connector stays: it is a copy
    if (j.which == verb::open) opened->made_by = detail::connector_ref::adopt(j.by);
    forsake(opened.get());
    holding here(k.lock);
    k.forks.inherit(opened.release());
}

}  // namespace

void finish(keeper& k, const job& j, bool well, const std::exception_ptr& error,
            std::unique_ptr<resource> opened) noexcept {
    if (j.process != detail::this_process) return finish_foreign(k, j, std::move(opened));
    outcome how = well ? outcome::ok : outcome::failed;
    // What the open kept goes to what it opened, or ends here.
    auto opener = detail::connector_ref::adopt(j.which == verb::open ? j.by : nullptr);
    if (error != nullptr && j.which == verb::open && opener->classify_open(error) == verdict::final)
        how = outcome::failed_finally;
    if (opened != nullptr) opened->made_by = std::move(opener);
    if (j.which != verb::close) return answer(k, j, how, error, std::move(opened));
    // The resource dies before its slot is vacant: a slot counts until its close has finished. The
    // block around it stays until the machine knows.
    j.on->destroy();
    answer(k, j, how, error, nullptr);
    delete j.on;
}

}  // namespace cenote::shell
