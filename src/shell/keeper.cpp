// The keeper: how it is made, its four steps, its timer.
#include "shell/keeper.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <thread>
#include <utility>

#include "shell/operations.hpp"
#include "shell/wait_thread.hpp"
#include "shell/work_inline.hpp"
#include "shell/work_thread.hpp"

namespace cenote::shell {

using core::action;
using core::instant;
using detail::resource;

namespace {

/// If `probe_after_idle` is shorter, the sweeps of the fast lane are too coarse for it.
constexpr auto fine_idle_time = std::chrono::seconds{1};

/// Sweeps find what was idle for two of these intervals.
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
    // On an executor a timer keeps the loop running. Only options may require one there.
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
        if (opens || k->events.wants_any()) k->work->start();
        k->enter([&](instant now) CENOTE_REQUIRES(k->lock) { k->machine.start(now, k->out); });
        if (settings.warm_up == warm_up::wait) wait_warm(*k);
    } catch (...) {
        k->shut_down();
        throw;
    }
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete): the pool's own reference remains.
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
      events(settings.observers),
      reports(settings.breaker),
      max_now(settings.max),
      machine(settings, abilities_of(can, clock), events.wants_any(), pick_seed(settings), now()),
      leases(machine, events, name_, settings, sweep_interval(settings, can_probe)),
      lane_pool(machine, out, leases, reports, sweep_interval(settings, can_probe),
                settings.reset_after),
      lane(lane_pool, shelf_),
      calls(settings.max),
      suspension(core::machine::frozen_for, now(), time_since_boot()),
      work(make_workplace(*this)) {
    // The fast lane has no clock: its sweeps see that a resource was idle for long, not how long.
    bool probes_soon =
        can_probe && (settings.probe_on_release || settings.probe_after_idle < fine_idle_time);
    bool exact = clock != nullptr;
    if (probes_soon || exact || events.wants_leases() || settings.order == order::fifo)
        shelf_.raise(detail::lane_off);
    machine.make_room(out);
    register_keeper(*this);  // last: a fork in another thread locks it
}

options settings_with(const keeper& k, std::size_t max) {
    options o = k.fixed;
    o.max = max;
    return o;
}

// From the machine's actions to pending ones, under the lock.

void keeper::dispatch(instant now, pending_actions& todo) noexcept {
    bool settled = std::exchange(settles_, machine.settles()) != machine.settles();
    if (settled || fixed.fairness == fairness::bounded) lane.follow_line(now);
    for (const action& a : out) dispatch(now, a, todo);
    out.clear();
    todo.report_to_breaker = reports.need_delivery();
    // If only the line or the shelf has changed, nothing else follows.
    if (settled) after_settling(now, todo);
    else if (must_rearm_timer() || has_jobs()) schedule_work(todo);
}

/// What follows when the machine has settled.
void keeper::after_settling(instant now, pending_actions& todo) noexcept {
    opens.end_answer();
    todo.forgotten = opens.take_replaced();
    if (bool occupied = machine.total() > 0; occupied != occupied_) {
        if (occupied) add_ref();
        todo.drop_occupied = !occupied;
        occupied_ = occupied;
    }
    todo.make_calls = work->stopped();
    pool_waiters.notify();
    if (!pool_waiters.list.empty()) end_pool_waits(*this, now, todo);
    schedule_work(todo);
}

void keeper::schedule_work(pending_actions& todo) {
    if (work->schedule(arm_timer())) todo.wake_workplace = true;
}

void keeper::dispatch(instant now, const action& a, pending_actions& todo) noexcept {
    switch (a.what) {
        case action::kind::call: return queue_call(*this, now, a);
        case action::kind::abandon: return abandon_call(*this, now, a);
        case action::kind::make_way: return give_up_call(*this, a);
        case action::kind::report: return queue_event(a);
        case action::kind::judge:
            return reports.add({.what = a.news,
                                .at = now,
                                .moves = a.call,
                                .successes = a.successes,
                                .succeeded_at = a.at,
                                .over_lane = lane_pool.count_successes(),
                                .error = opens.cause_of(a.cookie)});
        case action::kind::grant:
        case action::kind::refuse: break;
    }
    auto* w = std::bit_cast<detail::waiter*>(a.cookie);
    w->error = a.error;
    if (a.what == action::kind::grant) {
        w->got = calls.in(a.slot);
        granted(now, w->got, borrower_of(*w));
        if (w->wants_several && !static_cast<thread_waiter*>(w)->add(w->got)) return;
        if (events.wants(event_kind::waited) && w->was_in_line()) report_wait(now, *w, a.slot);
        if (w->asynchronous && before_acquire_may_block_) return calls.add_check(*w);
    } else {
        if (w->withdrawn) return;
        if (w->asynchronous) add_ref_for(*w);
    }
    todo.to_notify.add(*w);
}

void keeper::granted(instant now, resource* r, const borrower& who) {
    leases.granted(now, r, who, lane.is_swept());
    lane.sweep_by(machine.look(r->slot).expires_at);
}

void keeper::report_wait(instant now, const detail::waiter& who, core::slot_id granted) {
    event e = event_of(event_kind::waited, who, now);
    e.resource = machine.look(granted).resource;
    e.opened_here = who.got->opened_here;
    events.add(e);
}

event keeper::event_of(event_kind kind, const detail::waiter& who, instant now) const {
    instant ended = std::max(now, who.arrived);  // the clock may be read by another thread
    return {.kind = kind,
            .pool = name_,
            .took = ended - who.arrived,
            .site = who.site,
            .task = who.wants.task,
            .trace = who.trace == nullptr ? trace_context{} : *who.trace,
            .at = ended};
}

void keeper::queue_event(const action& a) {
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
    events.add(e);
}

void keeper::add_ref_for(detail::waiter& who) {
    who.keeps_keeper = true;
    add_ref();
}

// Outside the lock.

constinit thread_local pending_actions* keeper::carried_out_here = nullptr;

bool keeper::remove_pending(const detail::waiter& who) noexcept {
    for (pending_actions* todo = carried_out_here; todo != nullptr; todo = todo->outer)
        if (todo->to_notify.remove(who)) return true;
    return false;
}

void keeper::carry_out(pending_actions& todo) noexcept {
    bool has_ref = todo.need_keeper();  // without one it may be gone after the first notify()
    // First: the end of the pool waits for this, and may come in the code of a waiter.
    if (todo.wake_workplace) work->wake();
    for (resource* r = todo.foreign; r != todo.foreign_end; r = r->next_orphan) forsake(r);
    todo.outer = std::exchange(carried_out_here, &todo);
    while (detail::waiter* w = todo.to_notify.pop()) {
        if (needs_before_acquire(*w) && !check_granted(*this, *w, todo)) continue;
        w->process.store(detail::no_process, std::memory_order_relaxed);
        w->notify();
    }
    carried_out_here = todo.outer;
    if (!has_ref) return;
    if (todo.wake_workplace) work->run_inline();
    if (todo.report_to_breaker) deliver_reports(*this);
    if (todo.make_calls) make_calls_here(*this);
    if (todo.drop_occupied) drop_ref();
    drop_ref();
}

void keeper::drop_ref() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    detail::wait_for_marks(this);
    delete this;
}

// The timer.

instant keeper::arm_thread_timer(instant now) {
    bool taken = std::exchange(turns_seen_, machine.set_asides()) != machine.set_asides();
    look_again_ = taken ? core::after(now, core::machine::aside_for) : core::never;
    return arm_timer();
}

void keeper::tick() noexcept {
    enter([&](instant now) CENOTE_REQUIRES(lock) noexcept {
        // A sweep that is this late shows a freeze, like a late timer of the machine.
        if (core::after(lane.sweep_at(), core::machine::frozen_for) <= now)
            machine.suspect_all(now, out);
        notice_suspension(*this, now);
        machine.tick(now, out);
        if (now >= lane.sweep_at()) lane.sweep(now);
        else if (now >= leases.inspect_at()) leases.inspect(now, lane.is_swept());
    });
}

void notice_suspension(keeper& k, instant now) {
    if (!k.can_probe || k.clock != nullptr || !k.suspension.take(now, time_since_boot())) return;
    k.machine.suspect_all(now, k.out);
    k.lane.suspicion_is_handled();
    k.lane.recall(now);
}

}  // namespace cenote::shell

namespace cenote::detail {

gate::gate(const options& settings, std::unique_ptr<any_connector> connector, std::uint32_t reasons)
    : shelf_(std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 256), reasons),
      connector_(connector.release()),
      acquire_timeout_(settings.acquire_timeout),
      name_(settings.name) {
    connector_abilities can = connector_->abilities();
    has_before_acquire_ = can.before_acquire;
    sample_mask_ = has_before_acquire_ ? 0 : sample - 1;
    has_before_release_ = can.before_release;
    before_acquire_may_block_ = can.before_acquire && !can.before_acquire_is_quick;
}

gate* gate::open(const options& settings, std::unique_ptr<blocking_connector> connector) {
    using workplace = std::unique_ptr<shell::workplace>;
    return shell::keeper::open(settings, std::move(connector),
                               [&](shell::keeper& home) -> workplace {
                                   if (settings.clock != nullptr)
                                       return std::make_unique<shell::work_inline>(home);
                                   return std::make_unique<shell::work_thread>(home, settings);
                               });
}

void gate::drop_reference() noexcept { shell::keeper_of(this).drop_ref(); }

bool gate::withdraw_pending(waiter& who) noexcept { return shell::keeper::remove_pending(who); }

instant gate::now() const noexcept { return shell::keeper_of(this).now(); }

}  // namespace cenote::detail
