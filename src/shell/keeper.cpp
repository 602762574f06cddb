// The keeper: how it is made, its four steps, its time.
#include "shell/keeper.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

#include "shell/around.hpp"
#include "shell/enter.hpp"
#include "shell/wait_thread.hpp"

namespace cenote::shell {

using core::action;
using core::instant;
using detail::resource;

namespace {

/// Below this `probe_after_idle` is too fine for the sweeps of the fast lane.
constexpr auto fine_idle_time = std::chrono::seconds{1};

/// Sweeps of the shelf find what was idle for two of these.
core::duration sweep_interval(const options& settings, bool probes) {
    core::duration interval = settings.sweep_interval;
    if (!probes) return interval;
    return std::min({interval, core::duration{settings.probe_after_idle / 2},
                     core::duration{settings.heartbeat / 2}, core::machine::look_after});
}

}  // namespace

std::uint64_t pick_seed(const options& settings) {
    if (settings.seed != 0) return settings.seed;
    std::random_device entropy;
    return std::uint64_t{entropy()} << 32 | entropy();
}

core::abilities abilities_of(const detail::connector_abilities& can, const manual_clock* clock) {
    // On an executor a timer keeps the loop running. Only options may ask for one.
    bool has_timer = can.blocks && clock == nullptr;
    return {.probe = can.probe,
            .reset = can.reset,
            .sees_freezes = has_timer,
            .turns = has_timer ? core::machine::usual_turns : 0};
}

keeper* keeper::open(const options& settings, std::unique_ptr<detail::any_connector> connector,
                     const workplace_maker& make_workplace) {
    validate(settings, connector->abilities().probe);
    auto* k = new keeper(settings, std::move(connector), make_workplace);
    try {
        if (k->clock != nullptr) k->clock->add(*k);
        bool opens = settings.warm_up != warm_up::none && settings.min_size + settings.min_idle > 0;
        if (opens || k->news.wants_any()) k->work->start();
        k->enter([&](instant now) CENOTE_REQUIRES(k->lock) { k->machine.start(now, k->out); });
        if (settings.warm_up == warm_up::wait) wait_warm(*k);
    } catch (...) {
        k->end();
        throw;
    }
    return k;
}

keeper::keeper(const options& settings, std::unique_ptr<detail::any_connector> connector,
               const workplace_maker& make_workplace)
    : gate(settings, std::move(connector), detail::sweeper_asleep),
      fixed(settings),
      clock(fixed.clock.get()),
      can(connector_->abilities()),
      can_probe(can.probe),
      takes_turns(settings.fairness == fairness::turns && abilities_of(can, clock).turns > 0),
      news(settings.observers),
      strategy(settings.breaker),
      max_now(settings.max),
      machine(settings, abilities_of(can, clock), news.wants_any(), pick_seed(settings), now()),
      leases(machine, news, name_, settings, sweep_interval(settings, can_probe)),
      around_lane(machine, out, leases, strategy, sweep_interval(settings, can_probe),
                  settings.reset_after),
      lane(around_lane, shelf_),
      calls(settings.max),
      suspension(core::machine::frozen_for, now(), time_since_boot()),
      work(make_workplace(*this)) {
    // The fast lane has no clock: it sees that a resource was idle for long, but not for how long.
    bool probes_soon =
        can_probe && (settings.probe_on_release || settings.probe_after_idle < fine_idle_time);
    bool exact = clock != nullptr;
    if (probes_soon || exact || news.wants_leases() || settings.order == order::fifo)
        shelf_.raise(detail::lane_off);
    machine.make_room(out);
}

options settings_with(const keeper& k, std::size_t max) {
    options o = k.fixed;
    o.max = max;
    return o;
}

// From actions to errands, under the lock.

void keeper::sort_out(instant now, errands& todo) noexcept {
    bool settled = std::exchange(settles_, machine.settles()) != machine.settles();
    if (settled || fixed.fairness == fairness::bounded) lane.mind(now);
    for (const action& a : out) sort_out(now, a, todo);
    out.clear();
    todo.judges = strategy.needs_telling();
    // If only the line or the shelf has moved, nothing else follows.
    if (settled) look_around(now, todo);
    else if (must_tell_clock() || has_jobs()) rouse(todo);
}

/// What follows when the machine has looked at the whole.
void keeper::look_around(instant now, errands& todo) noexcept {
    opens.end_answer();
    todo.forgotten = opens.take_forgotten();
    if (bool occupied = machine.total() > 0; occupied != occupied_) {
        if (occupied) add_ref();
        todo.left_empty = !occupied;
        occupied_ = occupied;
    }
    todo.alone = work->stopped();
    watchers.tell();
    if (watchers.any()) look_for_watchers(*this, now, todo);
    rouse(todo);
}

void keeper::rouse(errands& todo) {
    if (work->look(mind_until())) todo.summons = true;
}

void keeper::sort_out(instant now, const action& a, errands& todo) noexcept {
    switch (a.what) {
        case action::kind::call: return queue_call(*this, now, a);
        case action::kind::abandon: return abandon_call(*this, now, a);
        case action::kind::make_way: return give_up_call(*this, a);
        case action::kind::report: return note_event(a);
        case action::kind::judge:
            return strategy.note({.what = a.news,
                                  .at = now,
                                  .moves = a.call,
                                  .successes = a.successes,
                                  .succeeded_at = a.at,
                                  .over_lane = around_lane.count_successes(),
                                  .error = opens.cause_of(a.cookie)});
        case action::kind::grant:
        case action::kind::refuse: break;
    }
    auto* w = std::bit_cast<detail::waiter*>(a.cookie);
    w->error = a.error;
    if (a.what == action::kind::grant) {
        w->got = calls.in(a.slot);
        granted(now, w->got, borrower_of(*w));
        if (w->wants_several && !static_cast<many_waiter*>(w)->add(w->got)) return;
        if (w->asynchronous && looks_elsewhere_) return calls.add_admission(*w);
    } else {
        if (w->withdrawn) return;
        if (w->asynchronous) keep_for(*w);
    }
    todo.add(*w);
}

/// The machine has lent `r`.
void keeper::granted(instant now, resource* r, const borrower& who) {
    leases.granted(now, r, who, lane.is_swept());
    lane.sweep_by(machine.look(r->slot).expires_at);
}

void keeper::note_event(const action& a) {
    event e{.kind = a.event,
            .pool = name_,
            .resource = a.call,
            .took = a.took,
            .why = a.why,
            .breaker = a.circuit};
    bool rejected = a.event == event_kind::retired && a.why == retire_reason::rejected;
    bool may_fail = a.event == event_kind::open_failed || a.event == event_kind::probe_failed ||
                    a.event == event_kind::reset_failed || a.event == event_kind::closed ||
                    rejected;
    if (may_fail) e.cause = opens.cause_of(a.call);
    news.note(e);
}

void keeper::keep_for(detail::waiter& who) {
    who.keeps_keeper = true;
    add_ref();
}

// Outside the lock.

constinit thread_local errands* keeper::carried_out_here = nullptr;

bool keeper::take_back(const detail::waiter& who) noexcept {
    for (errands* todo = carried_out_here; todo != nullptr; todo = todo->outer)
        if (todo->remove(who)) return true;
    return false;
}

void keeper::carry_out(errands& todo) noexcept {
    bool here = todo.need_keeper();  // if not, it may be gone when the first waiter has run
    // First: the end of the pool waits for it, and may come in what a waiter does.
    if (todo.summons) work->summon();
    for (resource* r = todo.foreign; r != todo.foreign_end; r = r->next_orphan) forsake(r);
    todo.outer = std::exchange(carried_out_here, &todo);
    while (detail::waiter* w = todo.pop()) {
        if (is_unseen(*w) && !admit(*this, *w, todo)) continue;
        w->process.store(detail::no_process, std::memory_order_relaxed);
        w->notify();
    }
    carried_out_here = todo.outer;
    if (!here) return;
    if (todo.summons) work->follow_up();
    if (todo.judges) tell_strategy(*this);
    if (todo.alone) make_calls_here(*this);
    if (todo.left_empty) drop_ref();
    drop_ref();
}

// Time.

instant keeper::mind_closely(instant now) {
    bool taken = std::exchange(turns_seen_, machine.set_asides()) != machine.set_asides();
    look_again_ = taken ? core::after(now, core::machine::aside_for) : core::never;
    return mind_until();
}

void keeper::tick() noexcept {
    enter([&](instant now) CENOTE_REQUIRES(lock) noexcept {
        // A shelf's sweep that comes so late says the same as a timer of the machine's.
        if (core::after(lane.sweep_at(), core::machine::frozen_for) <= now)
            machine.suspect_all(now, out);
        notice_suspension(*this, now);
        machine.tick(now, out);
        if (now >= lane.sweep_at()) lane.sweep(now);
        else if (now >= leases.look_at()) leases.look(now, lane.is_swept());
    });
}

void notice_suspension(keeper& k, instant now) {
    if (!k.can_probe || k.clock != nullptr || !k.suspension.noticed(now, time_since_boot())) return;
    k.machine.suspect_all(now, k.out);
    k.lane.has_heard_of_suspicion();
    k.lane.recall(now);
}

}  // namespace cenote::shell
