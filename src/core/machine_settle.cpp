// settle(): how every call of the machine ends. All global decisions, in one order.
#include <algorithm>

#include "core/ensure.hpp"
#include "core/machine.hpp"

namespace cenote::core {

void machine::settle(instant now, actions& out) {
    if (calls_.earliest() <= now) give_up_calls(now, out);
    if (!strays_.empty()) forget_late_strays(now);
    if (circuit_.ask_at() <= now) {
        circuit_.asked(now);
        judge(now, circuit_news::cooled_down, 0, out);
    }
    if (line_.earliest() <= now) refuse_expired(now, out);
    if (shedder_.on()) shed_late(now, out);
    if (slots_.kept() > 0) let_go_of_kept();
    if (slots_.aside() > 0) look_at_aside(now);
    if (!paused_ && (!line_.empty() || tried_)) lend_idle(now, out);
    if (slots_.doomed() > 0) close_idle(now, out);
    if (!paused_ && maintains_ && sweep_at() <= now) sweep(now, out);
    if (!paused_ && debt_due_ <= now) pay_debts(now, out);
    if (beats() && beat_due_ <= now) beat(now, out);
    if (!paused_) open_missing(now, out);
    settled_at_ = now;
    idle_news_until_ = news_limit();
    ++settles_;
    full_ = !line_.empty() && is_full();
    rest_at_ = rest_wake_at();
    bool looks = can_.probe && can_.sees_freezes && maintains_ && !closed_ && !paused_;
    look_every_ = looks ? look_after : duration::max();
    others_at_ = others_due();
    calm_until_ = line_.empty() ? calm_limit() : long_ago;
    lend_floor_ = count_reserve();
    express_until_ = line_.empty() ? std::min(others_at_, calm_until_) : express_limit();
}

/// Whether leases begin and end without reports, probes or trials.
bool machine::is_plain() const {
    bool probes =
        can_.probe && (settings_.probe_on_release || settings_.probe_after_idle <= duration{});
    bool tries = !circuit_.flows() || trials_ > 0;
    return !reports_ && !probes && !tries && !slots_.surplus();
}

/// Until when only the line can move (invariant 14).
instant machine::express_limit() const {
    if (!full_ || settings_.fairness == fairness::bounded || !is_plain()) return long_ago;
    return std::min(others_at_, circuit_.tell_at());
}

/// Until when only the idle list can move while no caller waits, if nothing else is due before.
/// With the minimum open the pacer has nothing to open. (A pool that opens it later is still
/// empty.)
instant machine::calm_limit() const {
    bool well = ready() && !tried_ && !shedder_.on();
    if (closed_ || paused_ || !well || !is_plain()) return long_ago;
    instant until = circuit_.tell_at();
    // From then on a resource that becomes idle makes a sweep due.
    if (spared_any_) until = std::min(until, after(last_sweep_, settings_.sweep_interval));
    return until;
}

/// How many idle resources must not be lent: those that cannot be lent, and those that min_idle
/// reserves, unless there is no room to open others.
std::size_t machine::count_reserve() const {
    std::size_t others = slots_.expiring() + slots_.doomed();
    supply s = present_supply();
    std::size_t coming = s.opening + s.returning;
    bool full = s.total >= s.max;
    return full || s.min_idle <= coming ? others : others + s.min_idle - coming;
}

/// Without a free slot, one waiter more or less changes only the line.
bool machine::is_full() const {
    bool plain = !closed_ && !paused_ && !shedder_.on();
    return plain && slots_.room() + count(slot_state::idle) == slots_.aside();
}

void machine::give_up_calls(instant now, actions& out) {
    while (calls_.earliest() <= now) {
        slot_id id = calls_.first();
        slot& s = slots_[id];
        calls_.remove(id);
        ++abandoned_;
        std::uint64_t call = s.call;
        s.call = 0;
        switch (s.state) {
            case slot_state::opening:
                abandon(id, call, out);
                fail_open(now, id, false, out);
                break;
            case slot_state::probing: fail_probe(now, id, out); break;
            case slot_state::resetting:
                report(event_kind::reset_failed, s.resource, out);
                retire(now, id, retire_reason::reset_failed, out);
                break;
            default:
                ensure(s.state == slot_state::closing, "only a call in flight has a deadline");
                abandon(id, call, out);
                vacate(id, out);
        }
    }
}

void machine::abandon(slot_id id, std::uint64_t call, actions& out) {
    out.push_back(
        {.what = action::kind::abandon, .slot = id, .call = call, .cookie = slots_[id].resource});
}

void machine::refuse_expired(instant now, actions& out) {
    while (line_.earliest() <= now) refuse(line_.first_due(), errc::timed_out, out);
}

/// Refuses the waiters that have waited too long while the line is late, before any lending.
void machine::shed_late(instant now, actions& out) {
    if (line_.empty() || paused_) return shedder_.served(now, duration{});
    shedder_.roll(now);
    while (shed_at() <= now) refuse(line_.oldest(), errc::shed, out);
}

void machine::lend_idle(instant now, actions& out) {
    while (!line_.empty()) {
        // Each turn of the loop may have another head.
        if (slots_.aside() > 0 && !head_grants_turns()) let_go_of_aside();
        if (line_.first().count > 1) {
            if (!gather(now, out)) break;
            if (slots_.kept() > 0) let_go_of_kept();
            continue;
        }
        slot_id id = next_fresh(now, out);
        if (id == no_slot) break;
        if (head_may_be_bypassed(now)) return;
        const waiter& w = line_.leave_first();
        begin_turn(now, slots_[id], w.is_thread, w.rank);
        lend(now, id, w.arrived, true, out);
        out.push_back({.what = action::kind::grant, .slot = id, .cookie = w.cookie});
    }
    if (line_.empty()) let_go_of_aside();
    probe_stale(now, out);
}

/// Keeps free resources for a head that wants several, and lends them all at once. Resources are
/// kept for the head alone, so no waiter waits for resources kept for another one. False: there are
/// too few yet.
bool machine::gather(instant now, actions& out) {
    look_at_kept(now);
    std::size_t wanted = line_.first().count;
    while (slots_.kept() < wanted) {
        slot_id id = next_fresh(now, out);
        if (id == no_slot) break;
        slots_.move(id, idle_kind::kept);
    }
    if (slots_.kept() < wanted) return false;
    const waiter& w = line_.leave_first();
    acquires_.add(wanted - 1);
    for (std::size_t i = 0; i < wanted; ++i) {
        slot_id id = slots_.oldest(idle_kind::kept);
        begin_turn(now, slots_[id], false, w.rank);
        lend(now, id, w.arrived, true, out);
        out.push_back({.what = action::kind::grant, .slot = id, .cookie = w.cookie});
    }
    return true;
}

/// Sends kept resources that became suspect to a probe. Their age is not checked again: gathering
/// for longer than resources live would never end.
void machine::look_at_kept(instant now) {
    if (!can_.probe) return;
    for (slot_id id = slots_.oldest(idle_kind::kept); id != no_slot;) {
        slot_id next = slots_[id].next;
        instant proven = slots_[id].checked_at;
        if (proven <= suspect_at_ && proven != now) slots_.move(id, idle_kind::stale);
        id = next;
    }
}

/// Frees kept resources if the head no longer wants several.
void machine::let_go_of_kept() {
    if (!line_.empty() && line_.first().count > 1) return;
    while (slots_.kept() > 0) slots_.move(slots_.oldest(idle_kind::kept), idle_kind::fresh);
}

void machine::probe_stale(instant now, actions& out) {
    while (line_.wanted() + (tried_ ? 1 : 0) > returning() + slots_.kept() &&
           slots_.oldest(idle_kind::stale) != no_slot) {
        slot_id id = slots_.oldest(idle_kind::stale);
        if (auto why = wear(slots_[id], now)) {
            retire(now, id, *why, out);
        } else if (slots_[id].owes) {
            begin(now, id, slot_state::resetting, verb::reset, out);  // is probed afterwards
        } else {
            slots_[id].purpose = probe_purpose::lend;
            begin(now, id, slot_state::probing, verb::probe, out);
        }
    }
}

/// Closes doomed resources: a few at a time, so that new ones can replace them; all at once when
/// the pool is closed.
void machine::close_idle(instant now, actions& out) {
    while (slots_.doomed() > 0 && (closed_ || count(slot_state::closing) < settings_.opening_max)) {
        slot_id id = slots_.oldest(idle_kind::doomed);
        if (closed_) begin_close(now, id, out);
        else
            retire(now, id, is_old(slots_[id]) ? retire_reason::generation : retire_reason::surplus,
                   out);
    }
}

/// Retires what is due. Not while callers wait: idle resources then go to the waiters, and their
/// age is checked on the way.
void machine::sweep(instant now, actions& out) {
    if (closed_ || !line_.empty()) return;
    last_sweep_ = now;
    sweep_due_ = never;
    spared_any_ = false;
    // First the resources that already wait for a replacement, before newly expired ones use it up.
    sweep_those(now, true, out);
    sweep_those(now, false, out);
}

void machine::sweep_those(instant now, bool expiring, actions& out) {
    for (idle_kind kind : {idle_kind::fresh, idle_kind::stale}) {
        slot_id id = slots_.oldest(kind);
        while (id != no_slot) {
            slot_id next = slots_[id].next;
            if (slots_[id].expiring == expiring) sweep_one(now, id, out);
            id = next;
        }
    }
}

void machine::sweep_one(instant now, slot_id id, actions& out) {
    const slot& s = slots_[id];
    instant idle_until = after(s.idle_since, settings_.idle_timeout);
    if (s.expires_at <= now) {
        if (!must_wait_for_replacement(s)) return retire(now, id, retire_reason::age, out);
        slots_.mark_expiring(id);
        spared_any_ = true;
        return;
    }
    if (idle_until <= now) {
        if (!minimum_needs(s)) return retire(now, id, retire_reason::idle, out);
        spared_any_ = true;
        idle_until = never;
    }
    sweep_due_ = std::min({sweep_due_, s.expires_at, idle_until});
}

/// Resets resources that have owed a reset for reset_after. Not while callers wait: idle resources
/// then go to the waiters.
void machine::pay_debts(instant now, actions& out) {
    if (closed_ || !line_.empty()) return;
    debt_due_ = never;
    for (idle_kind kind : {idle_kind::fresh, idle_kind::stale})
        for (slot_id id = slots_.oldest(kind); id != no_slot;) {
            slot_id next = slots_[id].next;
            const slot& s = slots_[id];
            instant due = s.owes ? debt_due(s) : never;
            if (due <= now) begin(now, id, slot_state::resetting, verb::reset, out);
            else debt_due_ = std::min(debt_due_, due);
            id = next;
        }
}

/// Resets all resources that owe a reset, before maintenance stops.
void machine::pay_all_debts(instant now, actions& out) {
    debt_due_ = never;
    for (idle_kind kind : {idle_kind::fresh, idle_kind::stale, idle_kind::kept, idle_kind::aside})
        for (slot_id id = slots_.oldest(kind); id != no_slot;) {
            slot_id next = slots_[id].next;
            if (slots_[id].owes) begin(now, id, slot_state::resetting, verb::reset, out);
            id = next;
        }
}

/// Probes the idle resource whose last proof of life is oldest, if its heartbeat is due; one at a
/// time, and only without waiters. A resource that owes a reset is reset instead.
void machine::beat(instant now, actions& out) {
    if (closed_ || !can_.probe || beating_) return;
    if (!line_.empty()) return;
    slot_id oldest = least_proven();
    while (beat_due_ <= now && slots_[oldest].owes) {
        begin(now, oldest, slot_state::resetting, verb::reset, out);
        oldest = least_proven();
    }
    if (beat_due_ > now) return;
    beating_ = true;
    slots_[oldest].purpose = probe_purpose::heartbeat;
    begin(now, oldest, slot_state::probing, verb::probe, out);
}

/// The idle resource whose heartbeat is due next; sets beat_due_ to that time.
slot_id machine::least_proven() {
    slot_id oldest = no_slot;
    instant good_until = never;
    for (idle_kind kind : {idle_kind::fresh, idle_kind::stale})
        for (slot_id id = slots_.oldest(kind); id != no_slot; id = slots_[id].next) {
            const slot& s = slots_[id];
            if (s.expiring) continue;
            instant until = after(std::max(s.idle_since, s.checked_at), settings_.heartbeat);
            if (until < good_until) {
                good_until = until;
                oldest = id;
            }
        }
    beat_due_ = good_until;
    return oldest;
}

void machine::open_missing(instant now, actions& out) {
    if (closed_) return;
    for (;;) {
        std::size_t n = pacer_.allowed(now, present_supply());
        if (n == 0 && pacer_.scout_is_due(now) && make_way(out)) continue;
        if (n == 0) return;
        for (; n > 0; --n) {
            begin(now, slots_.vacant(), slot_state::opening, verb::open, out);
            pacer_.started(now);
        }
    }
}

/// Abandons the youngest open that has begun, to make way for another. False: there is none.
bool machine::make_way(actions& out) {
    slot_id youngest = no_slot;
    for (slot_id id = 0; id < slots_.places(); ++id) {
        const slot& s = slots_[id];
        if (s.state != slot_state::opening || !s.begun) continue;
        if (youngest == no_slot || s.call > slots_[youngest].call) youngest = id;
    }
    if (youngest == no_slot) return pacer_.hold_scouts(), false;
    calls_.remove(youngest);
    ++abandoned_;
    const slot& s = slots_[youngest];
    strays_.push_back({.call = s.call, .deadline = after(s.called_at, settings_.open_timeout)});
    out.push_back({.what = action::kind::make_way, .slot = youngest, .call = s.call});
    vacate(youngest, out);
    return true;
}

// Queries.

/// When something is due, other than a waiter's deadline and a look for a freeze.
instant machine::rest_wake_at() const {
    if (closed_) return calls_.earliest();
    instant at = std::min(calls_.earliest(), circuit_.ask_at());
    if (paused_) return at;
    at = std::min(at, pacer_.next_chance());
    // Not sorted: the youngest open makes way first, then perhaps an older one.
    for (const stray& s : strays_) at = std::min(at, s.deadline);
    if (line_.empty()) return std::min(at, idle_wake_at());
    at = std::min({at, shedder_.rolls_at(), shed_at()});
    return slots_.oldest(idle_kind::fresh) != no_slot ? std::min(at, owed_at()) : at;
}

/// When idle resources are due to be swept, reset or probed while no caller waits.
instant machine::idle_wake_at() const {
    instant at = std::min(maintains_ ? sweep_at() : never, debt_due_);
    return can_.probe && !beating_ && beats() ? std::min(at, beat_due_) : at;
}

/// When the next waiter is shed if nothing changes.
instant machine::shed_at() const {
    waiter_id oldest = line_.oldest();
    return line_.has(oldest) ? shedder_.limit(line_.at(oldest).arrived) : never;
}

instant machine::sweep_at() const {
    if (sweep_due_ == never) return never;
    return std::max(after(last_sweep_, settings_.sweep_interval), sweep_due_);
}

bool machine::can_lend(instant now, actions& out, std::size_t count) {
    if (closed_ || paused_ || (!line_.empty() && !head_may_be_bypassed(now))) return false;
    if (count == 1) return next_fresh(now, out) != no_slot;
    return count_fresh(now, count, out) >= count;
}

/// How many resources could be lent now; stops at `enough`.
std::size_t machine::count_fresh(instant now, std::size_t enough, actions& out) {
    std::size_t found = 0;
    bool newest_first = settings_.order == order::lifo;
    slot_id id = newest_first ? slots_.newest(idle_kind::fresh) : slots_.oldest(idle_kind::fresh);
    while (id != no_slot && found < enough) {
        slot_id next = newest_first ? slots_[id].previous : slots_[id].next;
        if (auto why = wear(slots_[id], now)) retire(now, id, *why, out);
        else if (needs_probe(slots_[id], now)) slots_.move(id, idle_kind::stale);
        else ++found;
        id = next;
    }
    return found;
}

/// The fresh slot that is lent next. Retires worn-out slots that it meets, and makes those stale
/// that need a probe.
slot_id machine::next_fresh(instant now, actions& out) {
    for (;;) {
        slot_id id = settings_.order == order::lifo ? slots_.newest(idle_kind::fresh)
                                                    : slots_.oldest(idle_kind::fresh);
        if (id == no_slot) return no_slot;
        if (auto why = wear(slots_[id], now)) retire(now, id, *why, out);
        else if (needs_probe(slots_[id], now)) slots_.move(id, idle_kind::stale);
        else return id;
    }
}

bool machine::head_may_be_bypassed(instant now) const { return !line_.empty() && now < owed_at(); }

/// Whether the minimum would be short without this idle slot.
bool machine::minimum_needs(const slot& s) const {
    std::size_t self = s.expiring ? 0 : 1;
    return alive() - self < settings_.min_size || available() - self < settings_.min_idle;
}

/// A worn-out resource that the minimum needs is retired after its replacement was opened. Without
/// room for a replacement, they are retired one by one.
bool machine::must_wait_for_replacement(const slot& s) const {
    bool stuck =
        slots_.room() == 0 && count(slot_state::opening) == 0 && count(slot_state::closing) == 0;
    return minimum_needs(s) && !stuck;
}

std::size_t machine::returning() const {
    return count(slot_state::probing) + count(slot_state::resetting);
}

/// Idle slots that can still be lent.
std::size_t machine::available() const {
    return count(slot_state::idle) - slots_.expiring() - slots_.doomed();
}

supply machine::present_supply() const {
    // While the circuit is open nothing is opened for the minimum.
    bool inactive = circuit_.state() == breaker_state::inactive;
    bool fills = warmed_ && maintains_ && !inactive;
    return {.max = slots_.max(),
            .min_size = fills ? settings_.min_size : 0,
            .min_idle = fills ? settings_.min_idle : 0,
            .total = slots_.total() + strays_.size(),
            .idle = available(),
            .leased = count(slot_state::leased),
            .opening = count(slot_state::opening),
            .returning = returning(),
            .wanted = line_.wanted() + (tried_ ? 1 : 0),
            .strays = strays_.size()};
}

bool machine::ready() const {
    std::size_t spares = count(slot_state::leased) + settings_.min_idle;
    return alive() >= std::min(slots_.max(), std::max(settings_.min_size, spares));
}

}  // namespace cenote::core
