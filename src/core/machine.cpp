// Requests and answers of the machine: the local change that each makes before settle().
#include "core/machine.hpp"

#include <algorithm>

#include "core/ensure.hpp"
#include "core/machine_express.hpp"

namespace cenote::core {

namespace {

/// The timeout of the call that a slot in this state has in flight.
duration timeout_of(slot_state state, const options& settings) {
    switch (state) {
        case slot_state::opening: return settings.open_timeout;
        case slot_state::probing: return settings.probe_timeout;
        case slot_state::resetting: return settings.reset_timeout;
        default: return settings.close_timeout;
    }
}

}  // namespace

machine::machine(const options& settings, abilities can, bool reports, std::uint64_t seed,
                 instant now)
    : settings_(settings),
      can_(can),
      reports_(reports),
      random_(seed),
      slots_(settings.max),
      line_(settings.head_start),
      pacer_(settings.backoff, settings.opening_max, settings.open_rate),
      shedder_(settings.shed),
      warmed_(settings.warm_up != warm_up::none),
      last_sweep_(now),
      settled_at_(now) {
    settings_.name.clear();
    settings_.observers.clear();
    calls_.reserve(settings.max);
    strays_.reserve(pacer::most_strays);
}

void machine::grow(actions& out) {
    line_.make_room();
    make_room_for_actions(slots_.places(), out);
}

void machine::make_room_for_actions(std::size_t places, actions& out) {
    std::size_t most = line_.capacity() + 8 * places + 16;
    out.reserve(most);
    most_actions_ = most;
}

void machine::start(instant now, actions& out) {
    make_room(out);
    settle(now, out);
}

void machine::warm(instant now, actions& out) {
    warmed_ = true;
    settle(now, out);
}

waiter machine::waiter_of(instant now, const request& who) {
    return {.cookie = who.cookie,
            .ticket = who.ticket,
            .holder = who.holder,
            .arrived = who.ticket != 0 ? who.arrived : now,
            .deadline = who.deadline,
            .count = who.count,
            .rank = who.rank,
            .bypassable = who.bypassable,
            .is_thread = who.thread != 0 && who.count == 1};
}

answer machine::acquire(instant now, const request& who, actions& out) {
    make_room(out);
    if (slot_id id = no_slot; who.count == 1 && lend_at_once(now, who, id))
        return {.what = answer::kind::granted,
                .slot = id,
                .ticket = who.ticket != 0 ? who.ticket : draw_ticket()};
    bool plain = who.queues && !who.cannot_wait && who.count == 1 && who.holder == 0;
    if (plain) {
        waiter w = waiter_of(now, who);
        if (waiter_id id; queue_up(now, w, id))
            return {.what = answer::kind::waiting, .waiter = id, .ticket = w.ticket};
    }
    notice_freeze(now);
    ++acquires_;
    warmed_ = true;
    std::uint64_t ticket = who.ticket != 0 ? who.ticket : ++last_ticket_;
    auto refused = [&](errc error) {
        ++refused_[static_cast<std::size_t>(error) - 1];
        settle(now, out);
        return answer{.what = answer::kind::refused, .error = error, .ticket = ticket};
    };
    if (closed_) return refused(errc::closed);
    if (!lets_in(who.count)) return refused(errc::unavailable);
    if (who.count > slots_.max()) return refused(errc::deadlock);  // there will never be that many
    if (slot_id own = lend_own(now, who, out); own != no_slot)
        return {.what = answer::kind::granted, .slot = own, .ticket = ticket};
    bool nothing_free = crowded(now);
    if (!nothing_free && can_lend(now, out, who.count)) {
        slot_id id = no_slot;
        for (std::uint32_t i = 0; i < who.count; ++i) {
            id = next_fresh(now, out);
            begin_turn(now, slots_[id], who.thread != 0 && who.count == 1, who.rank);
            lend(now, id, now, false, out);
            if (who.count > 1)
                out.push_back({.what = action::kind::grant, .slot = id, .cookie = who.cookie});
        }
        acquires_.add(who.count - 1);
        settle(now, out);
        return {.what = answer::kind::granted, .slot = id, .ticket = ticket};
    }
    if (who.deadline <= now) {
        tried_ = true;
        return refused(errc::timed_out);
    }
    if (who.cannot_wait) {
        tried_ = true;
        return refused(errc::deadlock);
    }
    if (!who.queues && !who.again && must_queue(who.count)) return refused(errc::line_full);
    bool has_a_place = who.again || who.rank == priority::reserved;
    if (line_.size() >= settings_.line_max && !has_a_place) {
        tried_ = tried_ || line_.empty();  // no caller waits, so the next one must find it open
        return refused(errc::line_full);
    }
    std::size_t has = who.holder == 0 ? 0 : leases_of(who.holder);
    if (has > 0 && would_deadlock(who, has)) return refused(errc::deadlock);
    waiter w = waiter_of(now, who);
    w.ticket = ticket;
    waiter_id id = line_.join(w);
    // The waiter may be the head now, and may not grant turns.
    if (!nothing_free || slots_.aside() > 0) settle(now, out);
    return {.what = answer::kind::waiting, .waiter = id, .ticket = ticket, .nested = has > 0};
}

/// By an express request.
bool machine::lend_at_once(instant now, const request& who, slot_id& id) {
    if (lend_now(now, id)) return lent_to(now, id, who.thread != 0, who.rank), true;
    return claim(now, who.thread, who.rank, id);
}

std::size_t machine::leases_of(std::uint64_t holder) const {
    std::size_t n = 0;
    for (slot_id id = 0; id < slots_.places(); ++id)
        n += slots_[id].state == slot_state::leased && slots_[id].holder == holder;
    return n;
}

/// Whether `count` more would have to wait for a lease to end. Resources that are not leased are
/// free or return from the connector, and serve the line first.
bool machine::must_queue(std::size_t count) const {
    if (paused_) return true;
    return slots_.count(slot_state::leased) + line_.wanted() + count > slots_.max();
}

bool machine::would_deadlock(const request& who, std::size_t has) const {
    return settings_.refuse_deadlock && waits_in_vain(who, has);
}

bool machine::waits_in_vain(const request& who) const {
    std::size_t has = who.holder == 0 ? 0 : leases_of(who.holder);
    return has > 0 && waits_in_vain(who, has);
}

/// Whether every lease would be held by a waiting thread if this one waits, or whether the thread
/// would need its own leases.
bool machine::waits_in_vain(const request& who, std::size_t has) const {
    if (has + who.count > slots_.max()) return true;
    if (slots_.room() > 0) return false;
    // A kept resource counts as held by the waiting head, unless this request may overtake the
    // head.
    bool behind = !line_.empty() && who.rank >= line_.first().rank;
    for (slot_id id = 0; id < slots_.places(); ++id) {
        const slot& s = slots_[id];
        if (s.state == slot_state::vacant) continue;  // and must stay vacant
        if (behind && s.state == slot_state::idle && s.idle == idle_kind::kept) continue;
        bool waits = s.holder == who.holder || (s.holder != 0 && line_.has_thread(s.holder));
        if (s.state != slot_state::leased || !waits) return false;
    }
    return true;
}

std::optional<slot_id> machine::try_acquire(instant now, actions& out) {
    make_room(out);
    if (slot_id id = no_slot; lend_now(now, id))
        return lent_to(now, id, false, priority::normal), id;
    notice_freeze(now);
    warmed_ = true;
    std::optional<slot_id> got;
    if (lets_in() && can_lend(now, out)) got = next_fresh(now, out);
    if (got) {
        ++acquires_;
        begin_turn(now, slots_[*got], false, priority::normal);
        lend(now, *got, now, false, out);
    } else {
        ++try_empty_;
        tried_ = !closed_ && lets_in();
    }
    settle(now, out);
    return got;
}

bool machine::cancel(instant now, waiter_id id, actions& out) {
    notice_freeze(now);
    bool in_line = line_.has(id);
    if (in_line) refuse(id, errc::canceled, out);
    settle(now, out);
    return in_line;
}

void machine::release(instant now, slot_id id, condition how, std::uint64_t uses,
                      const std::optional<duration>& held, actions& out, std::uint64_t thread) {
    std::uint64_t to = 0;
    bool plain = how == condition::clean || how == condition::owing;
    bool owes = how == condition::owing || how == condition::owing_unused;
    if (plain && set_aside(now, id, uses, held, owes, thread)) return;
    if (plain && pass_on(now, id, uses, held, owes, to)) {
        out.push_back({.what = action::kind::grant, .slot = id, .cookie = to});
        return;
    }
    if (plain && put_back(now, id, uses, held, owes)) return;
    notice_freeze(now);
    slot& s = slots_[id];
    ensure(s.state == slot_state::leased, "a released slot was leased");
    ++released_;
    s.uses += uses;
    if (held) hold_.record(*held);
    report(event_kind::released, s.resource, out, held.value_or(duration{}));
    s.idle_since = now;
    judge_use(now, s, how, out);
    end_trial(s);
    s.owes = owes;
    bool clean = how == condition::clean || how == condition::unused || (owes && defers());
    if (plain && clean && turn_goes_on(now, s, thread) && is_fit_to_lend(now, s)) {
        put_aside(now, id, thread);
        return settle(now, out);
    }
    releases_.note(now);
    if (clean && hand_over(now, id, out)) return;
    take_back(now, id, how, out);
    settle(now, out);
}

void machine::bring_back(instant now, slot_id id, std::uint64_t uses, instant idle_since, bool owes,
                         actions& out) {
    notice_freeze(now);
    slot& s = slots_[id];
    ensure(s.state == slot_state::leased, "a slot brought back was leased");
    ++released_;
    s.uses += uses;
    report(event_kind::released, s.resource, out);
    s.idle_since = idle_since;
    s.owes = owes;
    take_back(now, id, owes ? condition::owing : condition::clean, out);
    settle(now, out);
}

void machine::take_back(instant now, slot_id id, condition how, actions& out) {
    const slot& s = slots_[id];
    bool discarded = how == condition::discard || how == condition::broken;
    if (discarded) {
        ++discarded_;
        report(event_kind::discarded, s.resource, out);
    }
    if (closed_ || discarded) return begin_close(now, id, out);
    if (auto why = wear(s, now)) return retire(now, id, *why, out);
    if (how == condition::unfit && s.uses <= 1) {
        // An immediate retry would open and close in a loop.
        pacer_.failed(now, s.called_at, random_);
    }
    if (how == condition::rejected || how == condition::unfit)
        return retire(now, id, retire_reason::rejected, out);
    bool owes = s.owes && !defers();
    bool dirty = how == condition::dirty || how == condition::dirty_unused || owes;
    if (dirty) {
        if (!can_.reset) return retire(now, id, retire_reason::reset_failed, out);
        return begin(now, id, slot_state::resetting, verb::reset, out);
    }
    put_by(now, id, out);
}

void machine::put_by(instant now, slot_id id, actions& out) {
    if (!settings_.probe_on_release || !can_.probe) return become_idle(now, id);
    slots_[id].purpose = probe_purpose::release;
    begin(now, id, slot_state::probing, verb::probe, out);
}

/// A clean release in a crowded pool: the resource goes to the head of the line, exactly as if it
/// had been idle in between.
bool machine::hand_over(instant now, slot_id id, actions& out) {
    slot& s = slots_[id];
    // The last waiter leaves through settle(): without a line other things are due.
    if (line_.size() < 2 || owed_at() > now || !crowded(now)) return false;
    // A resource that is set aside may be owed to the next head.
    if (line_.first().count > 1 || slots_.aside() > 0) return false;
    if (!is_fit_to_lend(now, s)) return false;
    note_idle(now, s);
    const waiter& w = line_.leave_first();
    begin_turn(now, s, w.is_thread, w.rank);
    grant(now, s, w.arrived, true, out);
    action& a = out.emplace_back();
    a.what = action::kind::grant;
    a.slot = id;
    a.cookie = w.cookie;
    express_until_ = express_limit();  // the strategy may have been told just now
    return true;
}

/// Whether a released resource can be lent as it is.
bool machine::is_fit_to_lend(instant now, const slot& s) const {
    return !wear(s, now) && !needs_probe(s, now) && !(settings_.probe_on_release && can_.probe);
}

void machine::detach(instant now, slot_id id, actions& out) {
    notice_freeze(now);
    slot& s = slots_[id];
    ensure(s.state == slot_state::leased, "a detached slot was leased");
    ++detached_;
    end_trial(s);
    report(event_kind::detached, s.resource, out);
    vacate(id, out);
    settle(now, out);
}

// Answers.

void machine::begun(instant now, slot_id id, std::uint64_t call) {
    slot& s = slots_[id];
    if (s.call != call || s.begun) return;
    s.begun = true;
    s.called_at = now;
    if (s.state == slot_state::opening) {
        s.epoch = epoch_;
        pacer_.begun(now, present_supply());
        if (!closed_ && !paused_) rest_at_ = std::min(rest_at_, pacer_.next_chance());
    }
    instant deadline = after(now, timeout_of(s.state, settings_));
    calls_.add(id, deadline);
    rest_at_ = std::min(rest_at_, deadline);
    others_at_ = std::min(others_at_, rest_at_);
    express_until_ = std::min(express_until_, others_at_);
}

bool machine::answered(slot_id id, std::uint64_t call, slot_state expected) {
    slot& s = slots_[id];
    if (s.state != expected || s.call != call) return false;
    calls_.remove(id);
    s.call = 0;
    return true;
}

/// The time for which a successful call proves that the resource works. If suspicion arose during
/// the call, that is its beginning.
instant machine::proof_of(const slot& s, instant now) const {
    return s.called_at <= suspect_at_ ? s.called_at : now;
}

bool machine::on_open(instant now, slot_id id, std::uint64_t call, outcome how, actions& out) {
    notice_freeze(now);
    if (!answered(id, call, slot_state::opening)) {
        forget_stray(call);
        return settle(now, out), false;
    }
    slot& s = slots_[id];
    if (how != outcome::ok) {
        fail_open(now, id, how == outcome::failed_finally, out);
    } else {
        ++opened_;
        instant called_at = s.called_at;
        duration took = now - called_at;
        open_.record(took);
        report(event_kind::opened, s.resource, out, took);
        s.uses = 0;
        s.expires_at = draw_expiry(now);
        s.idle_since = now;
        s.checked_at = proof_of(s, now);
        if (closed_) begin_close(now, id, out);
        else if (is_old(s)) retire(now, id, retire_reason::generation, out);
        else if (slots_.surplus(1)) retire(now, id, retire_reason::surplus, out);
        else become_idle(now, id);
        pacer_.succeeded(now, called_at, !closed_ && missing(present_supply()).any());
    }
    settle(now, out);
    return true;
}

bool machine::on_probe(instant now, slot_id id, std::uint64_t call, outcome how, actions& out) {
    notice_freeze(now);
    if (!answered(id, call, slot_state::probing)) return settle(now, out), false;
    slot& s = slots_[id];
    if (s.purpose == probe_purpose::heartbeat) beating_ = false;
    if (how != outcome::ok) {
        fail_probe(now, id, out);
    } else {
        s.checked_at = proof_of(s, now);
        dead_in_row_ = 0;
        if (closed_) begin_close(now, id, out);
        else if (auto why = wear(s, now)) retire(now, id, *why, out);
        else become_idle(now, id);
    }
    settle(now, out);
    return true;
}

bool machine::on_reset(instant now, slot_id id, std::uint64_t call, outcome how, actions& out) {
    notice_freeze(now);
    if (!answered(id, call, slot_state::resetting)) return settle(now, out), false;
    slot& s = slots_[id];
    s.owes = false;
    if (how != outcome::ok) {
        report(event_kind::reset_failed, s.resource, out);
        retire(now, id, retire_reason::reset_failed, out);
    } else if (closed_) {
        begin_close(now, id, out);
    } else if (auto why = wear(s, now)) {
        retire(now, id, *why, out);
    } else {
        put_by(now, id, out);
    }
    settle(now, out);
    return true;
}

bool machine::on_close(instant now, slot_id id, std::uint64_t call, outcome, actions& out) {
    notice_freeze(now);
    if (!answered(id, call, slot_state::closing)) return settle(now, out), false;
    vacate(id, out);
    settle(now, out);
    return true;
}

// Local changes.

void machine::lend(instant now, slot_id id, instant arrived, bool waited, actions& out) {
    slots_.enter(id, slot_state::leased);
    grant(now, slots_[id], arrived, waited, out);
}

void machine::grant(instant now, slot& s, instant arrived, bool waited, actions& out) {
    s.leased_at = now;
    s.lent = ++lends_;
    s.holder = 0;
    ++s.uses;
    if (circuit_.state() == breaker_state::recovering) {
        s.trial = true;
        s.trial_of = circuit_.moves();
        ++trials_;
    }
    ++granted_;
    // A thread that takes its own resource back did not pass the line, so the line's lateness is
    // unknown.
    if (s.turns == 0) shedder_.served(now, now - arrived);
    if (waited) {
        ++waited_;
        wait_.record(now - arrived);
    }
    report(event_kind::acquired, s.resource, out, now - arrived);
}

void machine::begin(instant now, slot_id id, slot_state state, verb which, actions& out) {
    slot& s = slots_[id];
    slots_.enter(id, state);
    s.call = ++last_call_;
    s.called_at = now;
    s.begun = false;
    if (which == verb::open) {
        s.resource = s.call;
        s.epoch = epoch_;
    }
    out.push_back({.what = action::kind::call, .which = which, .slot = id, .call = s.call});
}

void machine::begin_close(instant now, slot_id id, actions& out) {
    begin(now, id, slot_state::closing, verb::close, out);
}

void machine::retire(instant now, slot_id id, retire_reason why, actions& out) {
    ++retired_[static_cast<std::size_t>(why)];
    report(event_kind::retired, slots_[id].resource, out, {}, why);
    begin_close(now, id, out);
}

void machine::become_idle(instant now, slot_id id) {
    slots_.make_fresh(id);
    note_idle(now, slots_[id]);
}

/// Updates the timers for a resource that has become idle.
void machine::note_news(instant now, const slot& s) {
    tried_ = false;
    instant idle_until = after(s.idle_since, settings_.idle_timeout);
    sweep_due_ = std::min(sweep_due_, std::min(s.expires_at, idle_until));
    if (spared_any_) sweep_due_ = std::min(sweep_due_, now);
    beat_due_ =
        std::min(beat_due_, after(std::max(s.idle_since, s.checked_at), settings_.heartbeat));
    if (s.owes) debt_due_ = std::min(debt_due_, debt_due(s));
    idle_news_until_ = news_limit();
}

/// A release changes no timer if it comes later than the releases that set the times of the next
/// sweep and heartbeat.
instant machine::news_limit() const {
    if (tried_) return never;
    instant until = std::max(before(sweep_due_, settings_.idle_timeout),
                             before(beat_due_, settings_.heartbeat));
    // A resource that the last sweep kept may have a replacement now: the next sweep is due.
    return spared_any_ ? std::max(until, sweep_due_) : until;
}

void machine::vacate(slot_id id, actions& out) {
    slot& s = slots_[id];
    bool was_closing = s.state == slot_state::closing;
    slots_.enter(id, slot_state::vacant);
    s.call = 0;
    s.owes = false;
    if (was_closing) {
        ++closed_count_;
        report(event_kind::closed, s.resource, out);
    }
    if (drained()) report(event_kind::closed_pool, 0, out);
}

void machine::refuse(waiter_id id, errc error, actions& out) {
    waiter w = line_.leave(id);
    ++refused_[static_cast<std::size_t>(error) - 1];
    ++refused_after_wait_;
    out.push_back({.what = action::kind::refuse, .error = error, .cookie = w.cookie});
}

void machine::fail_open(instant now, slot_id id, bool final, actions& out) {
    slot& s = slots_[id];
    ++open_failed_;
    report(event_kind::open_failed, s.resource, out, now - s.called_at);
    judge(now, circuit_news::failed, s.resource, out);
    if (s.epoch == epoch_) pacer_.failed(now, s.called_at, random_);
    tried_ = false;
    vacate(id, out);
    if (!final && settings_.open_errors != open_errors::fail_fast) return;
    // The head is refused at once; all waiters are if nothing else can serve them.
    bool hopeless = alive() + count(slot_state::opening) == 0;
    for (bool more = !line_.empty(); more; more = hopeless && !line_.empty())
        refuse(line_.head(), errc::open_failed, out);
}

void machine::fail_probe(instant now, slot_id id, actions& out) {
    const slot& s = slots_[id];
    if (s.purpose == probe_purpose::heartbeat) beating_ = false;
    report(event_kind::probe_failed, s.resource, out);
    judge(now, circuit_news::failed, s.resource, out);
    // Two dead resources in a row: probably all of them are dead.
    if (++dead_in_row_ >= 2) suspect_at_ = now;
    retire(now, id, retire_reason::probe_failed, out);
}

void machine::report(event_kind kind, std::uint64_t resource, actions& out, duration took,
                     retire_reason why) const {
    if (!reports_) return;
    out.push_back(
        {.what = action::kind::report, .event = kind, .why = why, .call = resource, .took = took});
}

instant machine::draw_expiry(instant now) {
    std::uint64_t drawn = random_.below(1'000'001);
    if (settings_.max_lifetime == duration::max()) return never;
    // Integers only, so that every compiler draws the same.
    auto ppm = static_cast<std::uint64_t>(settings_.lifetime_jitter * 1'000'000);
    auto cut = static_cast<std::int64_t>(drawn * ppm / 1'000'000);
    return after(now, settings_.max_lifetime - settings_.max_lifetime / 1'000'000 * cut);
}

}  // namespace cenote::core
