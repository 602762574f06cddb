// The keeper and its connector: which calls are to be made, and what becomes of their answers.
//
// A resource has at most one call at a time. If the machine gives up on a probe or reset that still
// runs, it asks for a close: that waits until the call returns. If it gives up on a close, or on an
// open, the slot goes on without: what remains is an orphan, which is closed as soon as it can be,
// and nobody waits for it.
#include <algorithm>
#include <bit>
#include <chrono>
#include <random>
#include <utility>

#include "shell/enter.hpp"
#include "shell/keeper.hpp"
#include "shell/wait_thread.hpp"

namespace cenote::shell {

using core::action;
using core::instant;
using core::outcome;
using core::verb;
using detail::resource;

// From actions to errands, under the lock.

void keeper::sort_out(instant now, errands& todo) noexcept {
    bool settled = std::exchange(settles_, machine_.settles()) != machine_.settles();
    if (settled || settings_.fairness == fairness::bounded) mind_the_lane(now);
    for (const action& a : out_) sort_out(now, a, todo);
    out_.clear();
    todo.judges = umpire_.needs_telling();
    // If only the line or the shelf has moved, nothing else follows.
    if (settled) look_around(now, todo);
    else if (wake_at() < looked_for_ || has_jobs()) rouse(todo);
}

/// What follows when the machine has looked at the whole.
void keeper::look_around(instant now, errands& todo) noexcept {
    if (cause_ != nullptr) cause_ = nullptr;
    todo.forgotten = std::exchange(forgotten_, nullptr);
    if (bool occupied = machine_.total() > 0; occupied != occupied_) {
        if (occupied) add_ref();
        todo.left_empty = !occupied;
        occupied_ = occupied;
    }
    todo.alone = work_->stopped();
    tell_watchers();
    if (watching_ != nullptr) look_for_watchers(now, todo);
    rouse(todo);
}

/// The workplace hears of jobs and of an earlier time.
void keeper::rouse(errands& todo) {
    if (work_->look(mind_until())) todo.summons = true;
}

void keeper::sort_out(instant now, const action& a, errands& todo) noexcept {
    switch (a.what) {
        case action::kind::call: return queue_call(now, a);
        case action::kind::abandon: return abandon_call(now, a);
        case action::kind::make_way: return give_up(a);
        case action::kind::report: return note_event(a);
        case action::kind::judge:
            return umpire_.note({.what = a.news,
                                 .at = now,
                                 .moves = a.call,
                                 .successes = a.successes,
                                 .succeeded_at = a.at,
                                 .over_lane = count_lane(),
                                 .error = a.cookie == cause_of_ ? cause_ : nullptr});
        case action::kind::grant:
        case action::kind::refuse: break;
    }
    auto* w = std::bit_cast<detail::waiter*>(a.cookie);
    w->error = a.error;
    if (a.what == action::kind::grant) {
        w->got = places_[a.slot].held;
        prepare(now, w->got, borrower_of(*w));
        if (w->wants_several && !static_cast<many_waiter*>(w)->add(w->got)) return;
        if (w->asynchronous && looks_elsewhere_) return enqueue(*w);
    } else {
        if (w->withdrawn) return;
        if (w->asynchronous) keep_for(*w);
    }
    todo.add(*w);
}

/// The pool may be gone before somebody who got no lease has asked why, or wants to cancel.
void keeper::keep_for(detail::waiter& who) {
    who.keeps_keeper = true;
    add_ref();
}

constinit thread_local keeper::errands* keeper::carried_out_here = nullptr;

bool keeper::take_back(const detail::waiter& who) noexcept {
    for (errands* todo = carried_out_here; todo != nullptr; todo = todo->outer)
        if (todo->remove(who)) return true;
    return false;
}

void keeper::carry_out(errands& todo) noexcept {
    bool here = todo.needs_keeper();  // if not, it may be gone when the first waiter has run
    // First: the end of the pool waits for it, and may come in what a waiter does.
    if (todo.summons) work_->summon();
    for (resource* r = todo.foreign; r != todo.foreign_end; r = r->next_orphan) forsake(r);
    const detail::process_number this_one = detail::this_process;
    todo.outer = std::exchange(carried_out_here, &todo);
    while (detail::waiter* w = todo.pop()) {
        if (detail::this_process != this_one) break;  // forked by one of them: see keeper_fork.cpp
        if (is_unseen(*w) && !admit(*w, todo)) continue;
        w->process.store(detail::no_process, std::memory_order_relaxed);
        w->notify();
    }
    carried_out_here = todo.outer;
    if (!here) return;
    if (todo.summons) work_->follow_up();
    if (todo.judges) judge();
    if (todo.alone) make_calls_here();
    if (todo.left_empty) drop_ref();
    drop_ref();
}

void keeper::note_event(const action& a) {
    event e{.kind = a.event,
            .pool = name_,
            .resource = a.call,
            .took = a.took,
            .why = a.why,
            .breaker = a.circuit};
    bool may_fail = a.event == event_kind::open_failed || a.event == event_kind::probe_failed ||
                    a.event == event_kind::reset_failed || a.event == event_kind::closed;
    if (may_fail && a.call == cause_of_) e.cause = cause_;
    announcer_.note(e);
}

// The queue of calls, under the lock.

void keeper::queue_call(instant now, const action& a) {
    place& p = places_[a.slot];
    job next{.which = a.which, .slot = a.slot, .call = a.call, .on = p.held};
    std::uint64_t before = std::exchange(p.pending, next).call;
    if (p.queued) return;  // a probe that nobody was there to make has become a close
    if (p.held == nullptr || !p.held->busy) return enqueue(p);
    // A close that must wait for a call which does not return. It does not wait for ever.
    work_->abandoned(a.slot, before);
    machine_.begun(now, a.slot, a.call);
}

/// Nobody waits any more for this call.
void keeper::give_up(const action& a) {
    place& p = places_[a.slot];
    if (!p.queued) return work_->abandoned(a.slot, a.call);
    unqueue(p);
    if (p.held == nullptr) machine_.never_made(a.call);
}

void keeper::abandon_call(instant now, const action& a) {
    give_up(a);
    place& p = places_[a.slot];
    bool opens = p.held == nullptr;
    cause_ = opens ? open_timed_out_ : close_timed_out_;
    cause_of_ = a.cookie;
    if (opens) note_open(now, cause_);
    else make_orphan(std::exchange(p.held, nullptr));
}

void keeper::make_orphan(resource* r) {
    r->orphan = true;
    if (r->busy) return;  // whoever is at it sees the mark
    r->next_orphan = std::exchange(orphans_, r);
    ++orphan_count_;
}

void keeper::enqueue(place& p) {
    p.queued = true;
    p.next = nullptr;
    p.previous = queue_.last;
    (queue_.last == nullptr ? queue_.first : queue_.last->next) = &p;
    queue_.last = &p;
    ++queue_.waiting;
}

void keeper::unqueue(place& p) {
    p.queued = false;
    (p.previous == nullptr ? queue_.first : p.previous->next) = p.next;
    (p.next == nullptr ? queue_.last : p.next->previous) = p.previous;
    --queue_.waiting;
}

/// No thread can be had for the calls that wait. They do not wait for ever.
void keeper::let_time_run() {
    instant now = this->now();
    for (place* p = queue_.first; p != nullptr; p = p->next)
        machine_.begun(now, p->pending.slot, p->pending.call);
}

void keeper::enqueue(detail::waiter& who) {
    who.next = nullptr;
    (admissions_.last == nullptr ? admissions_.first : admissions_.last->next) = &who;
    admissions_.last = &who;
    ++admissions_.waiting;
}

/// False: it is not in the queue.
bool keeper::unqueue(detail::waiter& who) {
    detail::waiter* before = nullptr;
    for (detail::waiter* w = admissions_.first; w != nullptr; before = w, w = w->next) {
        if (w != &who) continue;
        (before == nullptr ? admissions_.first : before->next) = w->next;
        if (admissions_.last == w) admissions_.last = before;
        --admissions_.waiting;
        return true;
    }
    return false;
}

bool keeper::next_job(job& j) {
    if (is_behind()) return false;  // what is in the queues is the parent's
    if (announcer_.has_news()) {
        j = {.tells = true};
    } else if (admissions_.first != nullptr) {
        j = {.admits = admissions_.first};
        unqueue(*j.admits);
    } else if (queue_.first != nullptr) {
        place& p = *queue_.first;
        unqueue(p);
        j = p.pending;
        if (j.which == verb::open) j.by = detail::connector_ref(connector_.get()).release();
        machine_.begun(now(), j.slot, j.call);
        work_->look(mind_until());  // its worker sees to what follows
    } else if (orphans_ != nullptr) {
        resource* r = std::exchange(orphans_, orphans_->next_orphan);
        --orphan_count_;
        j = {.which = verb::close, .slot = r->slot, .call = 0, .on = r};
    } else {
        return false;
    }
    if (j.on != nullptr) {
        j.on->busy = true;
        j.by = j.on->made_by.get();
    }
    return true;
}

/// The pool object is gone and its threads with it: whoever ends a lease makes the calls.
void keeper::make_calls_here() noexcept {
    static constinit thread_local const keeper* at_it = nullptr;
    if (at_it == this) return;  // the loop below goes on when this call returns
    const keeper* outer = std::exchange(at_it, this);
    for (;;) {
        job j;
        std::unique_lock lock(mutex_);
        if (!next_job(j)) break;
        bool hopeless = j.call == 0 || work_->overwhelmed();
        lock.unlock();
        if (hopeless && !j.tells && j.admits == nullptr) skip(j);
        else run(j);
    }
    at_it = outer;
}

/// Does without a call that has hung before, or that nobody else lived to see the end of.
void keeper::skip(const job& j) noexcept { finish(j, j.which == verb::close, nullptr, nullptr); }

std::size_t keeper::calls_in_flight() const {
    using core::slot_state;
    return machine_.count(slot_state::opening) + machine_.count(slot_state::probing) +
           machine_.count(slot_state::resetting) + machine_.count(slot_state::closing);
}

// Making calls, outside the lock.

void keeper::tell() noexcept {
    announcer_.tell(mutex_);
    std::lock_guard lock(mutex_);
    tell_watchers();
}

void keeper::run(const job& j) noexcept {
    if (j.tells) return tell();
    if (j.admits == nullptr) return work_->call(j);
    errands todo;
    todo.add(*j.admits);
    carry_out(todo);
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
    if (j.which == verb::close) return finish_close(j, how, error);
    answer(j, how, error, std::move(opened));
}

/// The resource dies before its slot is vacant: a slot counts until its close has finished. The
/// block around it stays until the machine knows.
void keeper::finish_close(const job& j, outcome how, const std::exception_ptr& error) noexcept {
    j.on->destroy();
    answer(j, how, error, nullptr);
    delete j.on;
}

void keeper::answer(const job& j, outcome how, const std::exception_ptr& error,
                    std::unique_ptr<resource> opened) noexcept {
    if (j.call == 0) return;
    enter([&](instant now) noexcept {
        cause_ = error;
        cause_of_ = machine_.look(j.slot).resource;
        switch (j.which) {
            case verb::open: return answer_open(now, j, how, error, opened);
            case verb::close:
                if (machine_.look(j.slot).call == j.call) places_[j.slot].held = nullptr;
                machine_.on_close(now, j.slot, j.call, how, out_);
                return;
            case verb::probe:
            case verb::reset: break;
        }
        j.on->busy = false;
        bool wanted = j.which == verb::probe ? machine_.on_probe(now, j.slot, j.call, how, out_)
                                             : machine_.on_reset(now, j.slot, j.call, how, out_);
        if (wanted) return;
        if (j.on->orphan) make_orphan(j.on);
        else enqueue(places_[j.slot]);  // the close that had to wait for this call
    });
    // Nobody waited for it any more.
    if (opened == nullptr) return;
    detail::any_connector* by = opened->made_by.get();
    run({.which = verb::close, .slot = j.slot, .on = opened.release(), .by = by});
}

void keeper::answer_open(instant now, const job& j, outcome how, const std::exception_ptr& error,
                         std::unique_ptr<resource>& opened) {
    bool wanted = machine_.look(j.slot).call == j.call;
    bool for_good = how == outcome::failed && work_->stopped();  // the next would fail as well
    if (for_good) how = outcome::failed_finally;
    if (wanted) note_open(now, for_good && error == nullptr ? work_->why_stopped() : error);
    // What is final for one connector is not for the one that has replaced it.
    if (how == outcome::failed_finally && !for_good && j.by != connector_.get())
        how = outcome::failed;
    if (wanted && how == outcome::ok && opened != nullptr) {
        opened->home = this;
        opened->process = j.process;
        opened->slot = j.slot;
        opened->seen = &(*traces_)[j.slot];
        places_[j.slot].held = opened.release();
    }
    machine_.on_open(now, j.slot, j.call, how, out_);
}

void keeper::note_open(instant now, const std::exception_ptr& error) {
    open_ended_at_ = now;
    if (error != nullptr && first_open_error_ == nullptr) first_open_error_ = error;
    std::exception_ptr old = std::exchange(open_error_, error);
    // A second one in the same step is not the last of its kind: whoever brought it still has it.
    if (forgotten_ == nullptr) forgotten_ = std::move(old);
}

std::uint64_t keeper::pick_seed(const options& settings) {
    if (settings.seed != 0) return settings.seed;
    std::random_device entropy;
    return std::uint64_t{entropy()} << 32 | entropy();
}

}  // namespace cenote::shell
