// The keeper and its connector: which calls are to be made, and what becomes of their answers.
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

void keeper::queue_call(instant now, const action& a) {
    std::uint64_t before = 0;
    job next{.which = a.which, .slot = a.slot, .call = a.call, .on = calls.in(a.slot)};
    if (calls.add(next, before) != call_queue::added::blocked) return;
    // A close that must wait for a call which does not return. It does not wait for ever.
    work->abandoned(a.slot, before);
    machine.begun(now, a.slot, a.call);
}

/// Nobody waits any more for this call.
void keeper::give_up_call(const action& a) {
    if (!calls.remove(a.slot)) return work->abandoned(a.slot, a.call);
    if (calls.in(a.slot) == nullptr) machine.never_made(a.call);
}

void keeper::abandon_call(instant now, const action& a) {
    give_up_call(a);
    bool opening = calls.in(a.slot) == nullptr;
    const std::exception_ptr& why = opens.timed_out(opening);
    opens.begin_answer(why, a.cookie);
    if (opening) opens.note(now, why);
    else calls.add_orphan(std::exchange(calls.in(a.slot), nullptr));
}

void keeper::let_time_run() {
    instant at = now_in_order();
    calls.each_call([&](const job& j) {
        lock.is_held();
        machine.begun(at, j.slot, j.call);
    });
}

bool keeper::next_job(job& j) {
    if (forks.is_behind()) return false;  // what is in the queues is the parent's
    if (news.has_news()) {
        j = {.tells = true};
        return true;
    }
    if (!calls.next(j)) return false;
    if (j.admits != nullptr || j.call == 0) return true;
    if (j.which == verb::open) j.by = detail::connector_ref(connector_.get()).release();
    machine.begun(now_in_order(), j.slot, j.call);
    work->look(mind_until());  // its worker sees to what follows
    return true;
}

std::size_t keeper::calls_in_flight() const {
    using core::slot_state;
    return machine.count(slot_state::opening) + machine.count(slot_state::probing) +
           machine.count(slot_state::resetting) + machine.count(slot_state::closing);
}

// Outside the lock.

void keeper::run(const job& j) noexcept {
    if (j.tells) {
        news.tell(lock);
        holding here(lock);
        return watchers.tell();
    }
    if (j.admits == nullptr) return work->call(j);
    errands todo;
    todo.add(*j.admits);
    carry_out(todo);
}

/// The pool object is gone and its threads with it: the thread that ends a lease makes the calls.
void keeper::make_calls_here() noexcept {
    static constinit thread_local const keeper* at_it = nullptr;
    if (at_it == this) return;  // the loop below goes on when this call returns
    const keeper* outer = std::exchange(at_it, this);
    for (;;) {
        job j;
        holding here(lock);
        if (!next_job(j)) break;
        bool hopeless = j.call == 0 || work->overwhelmed();
        here.unlock();
        bool is_call = !j.tells && j.admits == nullptr;
        // Does without a call that has hung before, or that nothing lived to see the end of.
        if (hopeless && is_call) finish(j, j.which == verb::close, nullptr, nullptr);
        else run(j);
    }
    at_it = outer;
}

void keeper::finish(const job& j, bool well, const std::exception_ptr& error,
                    std::unique_ptr<resource> opened) noexcept {
    if (j.process != detail::this_process) return finish_foreign(j, std::move(opened));
    outcome how = well ? outcome::ok : outcome::failed;
    // What the open kept goes to what it opened, or ends here.
    auto opener = detail::connector_ref::adopt(j.which == verb::open ? j.by : nullptr);
    if (error != nullptr && j.which == verb::open && opener->classify_open(error) == verdict::final)
        how = outcome::failed_finally;
    if (opened != nullptr) opened->made_by = std::move(opener);
    if (j.which != verb::close) return answer(j, how, error, std::move(opened));
    // The resource dies before its slot is vacant: a slot counts until its close has finished. The
    // block around it stays until the machine knows.
    j.on->destroy();
    answer(j, how, error, nullptr);
    delete j.on;
}

void keeper::answer(const job& j, outcome how, const std::exception_ptr& error,
                    std::unique_ptr<resource> opened) noexcept {
    if (j.call == 0) return;
    enter([&](instant now) CENOTE_REQUIRES(lock) noexcept {
        opens.begin_answer(error, machine.look(j.slot).resource);
        switch (j.which) {
            case verb::open: return answer_open(now, j, how, error, opened);
            case verb::close:
                if (machine.look(j.slot).call == j.call) calls.in(j.slot) = nullptr;
                machine.on_close(now, j.slot, j.call, how, out);
                return;
            case verb::probe:
            case verb::reset: break;
        }
        j.on->busy = false;
        bool wanted = j.which == verb::probe ? machine.on_probe(now, j.slot, j.call, how, out)
                                             : machine.on_reset(now, j.slot, j.call, how, out);
        if (wanted) return;
        if (j.on->orphan) calls.add_orphan(j.on);
        else calls.add_blocked(j.slot);
    });
    // Nothing waited for it any more.
    if (opened == nullptr) return;
    detail::any_connector* by = opened->made_by.get();
    run({.which = verb::close, .slot = j.slot, .on = opened.release(), .by = by});
}

void keeper::answer_open(instant now, const job& j, outcome how, const std::exception_ptr& error,
                         std::unique_ptr<resource>& opened) {
    bool wanted = machine.look(j.slot).call == j.call;
    bool for_good = how == outcome::failed && work->stopped();  // the next would fail as well
    if (for_good) how = outcome::failed_finally;
    if (wanted) opens.note(now, for_good && error == nullptr ? work->why_stopped() : error);
    // What is final for one connector is not for the one that has replaced it.
    if (how == outcome::failed_finally && !for_good && j.by != connector_.get())
        how = outcome::failed;
    if (wanted && how == outcome::ok && opened != nullptr) {
        opened->home = this;
        opened->process = j.process;
        opened->slot = j.slot;
        opened->seen = &leases.seen(j.slot);
        calls.in(j.slot) = opened.release();
    }
    machine.on_open(now, j.slot, j.call, how, out);
}

}  // namespace cenote::shell
