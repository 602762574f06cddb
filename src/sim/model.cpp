// The reference model's rules. Whatever can be found by looking at every slot is found that way.
#include "sim/model.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>

namespace cenote::sim {

using core::action;
using core::actions;
using core::after;
using core::answer;
using core::condition;
using core::duration;
using core::idle_kind;
using core::instant;
using core::long_ago;
using core::never;
using core::no_slot;
using core::outcome;
using core::probe_purpose;
using core::request;
using core::slot_id;
using core::slot_state;
using core::verb;

namespace {

constexpr duration patience = std::chrono::milliseconds{50};
constexpr duration moment = std::chrono::microseconds{100};  // that something is set aside for
constexpr std::size_t nowhere = ~std::size_t{0};

/// How much more a is than b.
std::size_t excess(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }

}  // namespace

model::model(const options& settings, core::abilities can, std::uint64_t seed, instant now)
    : settings_(settings),
      can_(can),
      random_(seed),
      slots_(settings.max),
      keeps_minimum_(settings.warm_up != warm_up::none),
      last_sweep_(now),
      settled_at_(now),
      in_bucket_(price() * static_cast<std::int64_t>(settings.open_rate.burst)),
      filled_at_(now) {
    // As if they had been vacated from the last to the first, so that slot 0 is taken first.
    for (std::size_t i = slots_.size(); i-- > 0;) slots_[i].moved = ++moves_;
    line_.reserve(32);
    in_turn_.reserve(slots_.size());
}

// Requests.

void model::start(instant now, actions& out) { settle(now, out); }

answer model::acquire(instant now, const request& who, actions& out) {
    notice_freeze(now);
    keeps_minimum_ = true;
    answer result;
    result.what = answer::kind::refused;
    result.ticket = who.ticket != 0 ? who.ticket : ++last_ticket_;
    if (const std::optional<errc> why = turned_away(who)) {
        result.error = *why;
    } else if (const slot_id mine = own(now, who); mine != no_slot) {
        place& s = slots_[mine];
        enter(mine, slot_state::leased);
        ++s.uses;
        ++lends_;
        ++s.turns;
        s.rank = who.rank;
        s.holder = 0;
        came_again_ = std::min<std::size_t>(came_again_ + 1, 32);
        no_turns_for_ = 64;
        result.what = answer::kind::granted;
        result.slot = mine;
    } else if (who.count > 1 && !paused_ && lendable_many(now, who.count, out)) {
        result.what = answer::kind::granted;
        for (std::size_t i = 0; i < who.count; ++i) {
            result.slot = next_fresh(now, out);
            lend(now, result.slot, {});
            action& a = out.emplace_back();
            a.what = action::kind::grant;
            a.slot = result.slot;
            a.cookie = who.cookie;
        }
    } else if (const slot_id id = paused_ || who.count > 1 ? no_slot : lendable(now, out);
               id != no_slot) {
        lend(now, id, {}, who.thread != 0, who.rank);
        result.what = answer::kind::granted;
        result.slot = id;
    } else if (who.deadline <= now) {
        tried_ = true;
        result.error = errc::timed_out;
    } else if (who.cannot_wait) {
        tried_ = true;
        result.error = errc::deadlock;
    } else if (!who.queues && !who.again && must_queue(who.count)) {
        result.error = errc::line_full;
    } else if (line_.size() >= settings_.line_max && !who.again && who.rank != priority::reserved) {
        if (line_.empty()) tried_ = true;
        result.error = errc::line_full;
    } else if (deadlocks(who)) {
        result.error = errc::deadlock;
    } else {
        result.what = answer::kind::waiting;
        join(now, who, result.ticket);
    }
    settle(now, out);
    return result;
}

/// Why somebody gets nothing, whatever there is.
std::optional<errc> model::turned_away(const request& who) const {
    if (closed_) return errc::closed;
    if (!lets_in(who.count)) return errc::unavailable;
    if (who.count > settings_.max) return errc::deadlock;
    return std::nullopt;
}

/// Is everything that could be had without a lease coming back wanted by those in line?
bool model::must_queue(std::size_t wanted) const {
    const std::size_t not_leased = excess(settings_.max, count(slot_state::leased));
    return paused_ || wanted + waiters_want() > not_leased;
}

std::optional<slot_id> model::try_acquire(instant now, actions& out) {
    notice_freeze(now);
    keeps_minimum_ = true;
    const slot_id id = closed_ || paused_ || !lets_in() ? no_slot : lendable(now, out);
    if (id != no_slot) {
        lend(now, id, {});
    } else {
        tried_ = !closed_ && lets_in();
    }
    settle(now, out);
    return id != no_slot ? std::optional{id} : std::nullopt;
}

bool model::cancel(instant now, std::uint64_t cookie, actions& out) {
    notice_freeze(now);
    const std::size_t who = find(cookie);
    if (who == nowhere) {
        settle(now, out);
        return false;
    }
    refuse(who, errc::canceled, out);
    settle(now, out);
    return true;
}

void model::release(instant now, slot_id id, condition how, std::uint64_t uses, actions& out,
                    std::uint64_t thread) {
    notice_freeze(now);
    place& s = slots_[id];
    s.uses += uses;
    s.idle_since = now;
    // Why it is closed is a matter of the reports alone.
    const bool owing = how == condition::owing || how == condition::owing_unused;
    s.owes = owing && debts_last();
    const bool used = how == condition::clean || how == condition::dirty || how == condition::owing;
    const bool dirty =
        how == condition::dirty || how == condition::dirty_unused || (owing && !s.owes);
    const bool kept = used || how == condition::unused || dirty || owing;
    const bool bad = how == condition::rejected || how == condition::broken;
    if (circuit_.to != breaker_state::recovering || (s.trial && s.trial_of == moves_of_circuit_)) {
        if (used) judge(now, core::circuit_news::succeeded, s.resource, out);
        if (bad) judge(now, core::circuit_news::failed, s.resource, out);
    }
    s.trial = false;
    if (closed_ || !kept || worn(s, now)) {
        const bool for_nothing = how == condition::unfit && s.uses <= 1;
        if (for_nothing && !closed_ && !worn(s, now)) open_failed(now, s.called_at);
        begin_close(now, id, out);
    } else if (dirty) {
        if (can_.reset) {
            begin(now, id, slot_state::resetting, verb::reset, out);
        } else {
            begin_close(now, id, out);
        }
    } else if ((how == condition::clean || how == condition::owing) &&
               turn_goes_on(now, s, thread)) {
        become_fresh(now, id);
        move(id, idle_kind::aside);
        s.set_aside_for = thread;
    } else {
        put_by(now, id, out);
    }
    settle(now, out);
}

void model::detach(instant now, slot_id id, actions& out) {
    notice_freeze(now);
    slots_[id].trial = false;
    vacate(id);
    settle(now, out);
}

void model::retire_all(instant now, actions& out) {
    notice_freeze(now);
    ++epoch_;
    failures_ = 0;
    doom_all();
    settle(now, out);
}

void model::resize(instant now, std::size_t max, actions& out) {
    // The new ones as if they had been vacated just now, from the last to the first.
    const std::size_t had = slots_.size();
    slots_.resize(std::max(had, max));
    for (std::size_t i = slots_.size(); i-- > had;) slots_[i].moved = ++moves_;
    notice_freeze(now);
    settings_.max = max;
    for (std::size_t i = 0; i < line_.size();) {
        if (line_[i].count > max) refuse(i, errc::deadlock, out);
        else ++i;
    }
    if (too_many()) let_go_of_kept();
    if (too_many()) let_go_of_aside();
    for (const idle_kind kind : {idle_kind::stale, idle_kind::fresh})
        while (too_many() && first(kind) != no_slot) move(first(kind), idle_kind::doomed);
    settle(now, out);
}

/// More than max if `more` came, without those that are going and those that are not there yet.
bool model::too_many(std::size_t more) const {
    std::size_t n = more;
    for (const place& s : slots_) {
        const bool counts = s.state != slot_state::vacant && s.state != slot_state::closing &&
                            s.state != slot_state::opening;
        const bool doomed = s.state == slot_state::idle && s.idle == idle_kind::doomed;
        n += counts && !doomed ? 1 : 0;
    }
    return n > settings_.max;
}

/// How many more may be opened.
std::size_t model::room() const {
    return excess(settings_.max, slots_.size() - count(slot_state::vacant));
}

void model::pause(instant now, actions& out) {
    notice_freeze(now);
    paused_ = true;
    pay_debts(now, never, out);
    settle(now, out);
}

void model::maintain(instant now, bool on, actions& out) {
    notice_freeze(now);
    maintained_ = on;
    if (!on) pay_debts(now, never, out);
    settle(now, out);
}

void model::resume(instant now, actions& out) {
    notice_freeze(now);
    paused_ = false;
    settle(now, out);
}

void model::go(instant now, const breaker_move& where, actions& out) {
    notice_freeze(now);
    circuit_ = where;
    ++moves_of_circuit_;
    successes_ = 0;
    told_at_ = now;
    ask_at_ = never;
    if (where.to == breaker_state::inactive) {
        tried_ = false;
        ask_at_ = after(now, where.cool_down);
        while (!line_.empty()) refuse(0, errc::unavailable, out);
    }
    if (where.to == breaker_state::recovering) {
        const bool none_stays = trials() >= where.probes;
        while (!line_.empty() && trials() + waiters_want() > where.probes)
            refuse(none_stays ? 0 : line_.size() - 1, errc::unavailable, out);
    }
    settle(now, out);
}

bool model::follow(instant now, std::uint64_t moves, const breaker_move& where, actions& out) {
    if (moves != moves_of_circuit_) return false;
    go(now, where, out);
    return true;
}

void model::judge(instant now, core::circuit_news what, std::uint64_t resource, actions& out) {
    if (closed_) return;
    const bool good = what == core::circuit_news::succeeded;
    if (good) {
        ++successes_;
        success_at_ = now;
    }
    const bool sums_up = circuit_.to == breaker_state::active && told_at_ != long_ago;
    if (good && sums_up && now < told_at_ + core::circuit::tell_every) return;
    action& a = out.emplace_back();
    a.what = action::kind::judge;
    a.news = what;
    a.call = moves_of_circuit_;
    a.cookie = resource;
    if (what == core::circuit_news::cooled_down) return;
    a.successes = successes_;
    if (successes_ > 0) a.at = success_at_;
    successes_ = 0;
    told_at_ = now;
}

/// Whether nobody could ever give anything back if this one waited, who has something himself.
bool model::deadlocks(const request& who) const {
    if (who.holder == 0 || !settings_.refuse_deadlock) return false;
    const auto waits = [&](std::uint64_t holder) {
        return holder == who.holder ||
               std::any_of(line_.begin(), line_.end(),
                           [&](const waiter& w) { return w.holder == holder; });
    };
    std::size_t own = 0;
    bool stuck = room() == 0;
    for (const place& s : slots_) {
        if (s.state == slot_state::vacant) continue;
        const bool kept = s.state == slot_state::idle && s.idle == idle_kind::kept;
        if (kept && line_.front().rank <= who.rank) continue;  // the head's, who waits
        const bool leased = s.state == slot_state::leased;
        if (!leased || s.holder == 0 || !waits(s.holder)) stuck = false;
        own += leased && s.holder == who.holder ? 1 : 0;
    }
    return own > 0 && (stuck || own + who.count > settings_.max);
}

std::size_t model::trials() const {
    std::size_t n = 0;
    for (const place& s : slots_) n += s.trial ? 1 : 0;
    return n;
}

std::size_t model::waiters_want() const {
    std::size_t n = 0;
    for (const waiter& w : line_) n += w.count;
    return n;
}

std::size_t model::kept() const {
    std::size_t n = 0;
    for (const place& s : slots_)
        n += s.state == slot_state::idle && s.idle == idle_kind::kept ? 1 : 0;
    return n;
}

bool model::lets_in(std::size_t count) const {
    if (circuit_.to == breaker_state::recovering)
        return trials() + waiters_want() + count <= circuit_.probes;
    return circuit_.to == breaker_state::active;
}

void model::suspect_all(instant now, actions& out) {
    suspect_at_ = now;
    settle(now, out);
}

void model::close(instant now, actions& out) {
    if (!closed_) {
        closed_ = true;
        while (!line_.empty()) refuse(0, errc::closed, out);
        doom_all();
    }
    settle(now, out);
}

void model::tick(instant now, actions& out) {
    notice_freeze(now);
    settle(now, out);
}

void model::notice_freeze(instant now) {
    if (after(wake_at(), core::machine::frozen_for) <= now) suspect_at_ = now;
}

// Answers.

void model::begun(instant now, slot_id id, std::uint64_t call) {
    place& s = slots_[id];
    if (s.call != call) return;
    duration limit = settings_.close_timeout;
    if (s.state == slot_state::opening) limit = settings_.open_timeout;
    if (s.state == slot_state::probing) limit = settings_.probe_timeout;
    if (s.state == slot_state::resetting) limit = settings_.reset_timeout;
    s.called_at = now;
    s.begun = true;
    if (s.state == slot_state::opening) {
        s.epoch = epoch_;
        fresh_at_ = now;
    }
    s.due = after(now, limit);
}

bool model::on_open(instant now, slot_id id, std::uint64_t call, outcome how, actions& out) {
    notice_freeze(now);
    if (!answered(id, call, slot_state::opening)) {
        std::erase_if(strays_, [&](const auto& each) { return each.first == call; });
        settle(now, out);
        return false;
    }
    if (how == outcome::ok) {
        place& s = slots_[id];
        const instant called_at = s.called_at;
        s.expires_at = draw_expiry(now);
        s.uses = 0;
        s.idle_since = now;
        s.checked_at = called_at > suspect_at_ ? now : called_at;
        if (closed_ || s.epoch < epoch_ || too_many(1)) {
            begin_close(now, id, out);
        } else {
            become_fresh(now, id);
        }
        open_succeeded(now, called_at);
    } else {
        fail_open(now, id, how == outcome::failed_finally, out);
    }
    settle(now, out);
    return true;
}

bool model::on_probe(instant now, slot_id id, std::uint64_t call, outcome how, actions& out) {
    notice_freeze(now);
    if (!answered(id, call, slot_state::probing)) {
        settle(now, out);
        return false;
    }
    if (how == outcome::ok) {
        if (slots_[id].purpose == probe_purpose::heartbeat) beating_ = false;
        const bool proven = slots_[id].called_at > suspect_at_;
        slots_[id].checked_at = proven ? now : slots_[id].called_at;
        dead_in_row_ = 0;
        if (closed_ || worn(slots_[id], now)) {
            begin_close(now, id, out);
        } else {
            become_fresh(now, id);
        }
    } else {
        fail_probe(now, id, out);
    }
    settle(now, out);
    return true;
}

bool model::on_reset(instant now, slot_id id, std::uint64_t call, outcome how, actions& out) {
    notice_freeze(now);
    if (!answered(id, call, slot_state::resetting)) {
        settle(now, out);
        return false;
    }
    slots_[id].owes = false;
    if (how != outcome::ok || closed_ || worn(slots_[id], now)) {
        begin_close(now, id, out);
    } else {
        put_by(now, id, out);
    }
    settle(now, out);
    return true;
}

bool model::on_close(instant now, slot_id id, std::uint64_t call, outcome /*how*/, actions& out) {
    notice_freeze(now);
    if (!answered(id, call, slot_state::closing)) {
        settle(now, out);
        return false;
    }
    vacate(id);
    settle(now, out);
    return true;
}

// Changes of one slot or waiter.

void model::enter(slot_id id, slot_state state) {
    place& s = slots_[id];
    if (s.state == slot_state::idle) s.expiring = false;
    s.state = state;
}

void model::begin(instant now, slot_id id, slot_state state, verb which, actions& out) {
    enter(id, state);
    place& s = slots_[id];
    s.call = ++last_call_;
    s.called_at = now;
    s.begun = false;
    s.due = never;
    action& a = out.emplace_back();
    a.what = action::kind::call;
    a.which = which;
    a.slot = id;
    a.call = s.call;
}

void model::begin_close(instant now, slot_id id, actions& out) {
    begin(now, id, slot_state::closing, verb::close, out);
}

void model::begin_probe(instant now, slot_id id, probe_purpose why, actions& out) {
    slots_[id].purpose = why;
    begin(now, id, slot_state::probing, verb::probe, out);
}

void model::vacate(slot_id id) {
    enter(id, slot_state::vacant);
    slots_[id].moved = ++moves_;
    slots_[id].owes = false;
}

void model::become_fresh(instant now, slot_id id) {
    place& s = slots_[id];
    enter(id, slot_state::idle);
    s.idle = idle_kind::fresh;
    s.moved = ++moves_;
    tried_ = false;
    sweep_due_ = std::min({sweep_due_, s.expires_at, idle_limit(s)});
    if (spared_any_) sweep_due_ = std::min(sweep_due_, now);
    beat_due_ = std::min(beat_due_, beat_at(s));
    if (s.owes) debt_due_ = std::min(debt_due_, debt_at(s));
}

void model::move(slot_id id, idle_kind kind) {
    place& s = slots_[id];
    s.idle = kind;
    s.moved = ++moves_;
    if (kind != idle_kind::stale) s.expiring = false;
}

void model::doom_all() {
    for (const slot_id id : fresh_then_stale()) move(id, idle_kind::doomed);
    for (const idle_kind kind : {idle_kind::kept, idle_kind::aside})
        while (first(kind) != no_slot) move(first(kind), idle_kind::doomed);
}

void model::lend(instant now, slot_id id, duration waited, bool to_thread, priority rank) {
    enter(id, slot_state::leased);
    ++lends_;
    slots_[id].turns = 0;
    slots_[id].turn_began = now;
    slots_[id].by_thread = to_thread;
    slots_[id].rank = rank;
    ++slots_[id].uses;
    slots_[id].trial = circuit_.to == breaker_state::recovering;
    slots_[id].trial_of = moves_of_circuit_;
    slots_[id].holder = 0;
    served(now, waited);
}

void model::put_by(instant now, slot_id id, actions& out) {
    if (settings_.probe_on_release && can_.probe) {
        begin_probe(now, id, probe_purpose::release, out);
    } else {
        become_fresh(now, id);
    }
}

void model::fail_open(instant now, slot_id id, bool final, actions& out) {
    judge(now, core::circuit_news::failed, slots_[id].resource, out);
    if (slots_[id].epoch == epoch_) open_failed(now, slots_[id].called_at);
    tried_ = false;
    vacate(id);
    if (!final && settings_.open_errors == open_errors::retry) return;
    if (!line_.empty()) refuse(0, errc::open_failed, out);
    if (alive() + count(slot_state::opening) > 0) return;
    while (!line_.empty()) refuse(0, errc::open_failed, out);
}

void model::fail_probe(instant now, slot_id id, actions& out) {
    if (slots_[id].purpose == probe_purpose::heartbeat) beating_ = false;
    judge(now, core::circuit_news::failed, slots_[id].resource, out);
    if (++dead_in_row_ >= 2) suspect_at_ = now;
    begin_close(now, id, out);
}

void model::end_call(slot_id id) {
    slots_[id].call = 0;
    slots_[id].due = never;
}

bool model::answered(slot_id id, std::uint64_t call, slot_state expected) {
    if (slots_[id].state != expected || slots_[id].call != call) return false;
    end_call(id);
    return true;
}

void model::join(instant now, const request& who, std::uint64_t ticket) {
    waiter w;
    w.cookie = who.cookie;
    w.ticket = ticket;
    w.arrived = who.ticket != 0 ? who.arrived : now;
    w.bypassable = who.bypassable;
    w.is_thread = who.thread != 0 && who.count == 1;
    w.rank = who.rank;
    w.count = who.count;
    w.holder = who.holder;
    w.deadline = who.deadline;
    std::size_t at = line_.size();
    const auto later = [&](const waiter& other) {
        return std::tuple{turn(other), other.ticket} > std::tuple{turn(w), w.ticket};
    };
    while (at > 0 && later(line_[at - 1])) --at;
    line_.insert(line_.begin() + static_cast<std::ptrdiff_t>(at), w);
}

void model::refuse(std::size_t place_in_line, errc error, actions& out) {
    action& a = out.emplace_back();
    a.what = action::kind::refuse;
    a.error = error;
    a.cookie = line_[place_in_line].cookie;
    line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(place_in_line));
}

void model::grant(instant now, std::size_t place_in_line, slot_id id, actions& out) {
    const waiter& w = line_[place_in_line];
    lend(now, id, now - w.arrived, w.is_thread, w.rank);
    action& a = out.emplace_back();
    a.what = action::kind::grant;
    a.slot = id;
    a.cookie = line_[place_in_line].cookie;
    line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(place_in_line));
}

// The steps of settle().

void model::settle(instant now, actions& out) {
    give_up_calls(now, out);
    std::erase_if(strays_, [&](const auto& each) { return each.second <= now; });
    if (!closed_ && ask_at_ <= now) {
        ask_at_ = after(now, circuit_.cool_down);
        judge(now, core::circuit_news::cooled_down, 0, out);
    }
    refuse_expired(now, out);
    shed_late(now, out);
    if (line_.empty() || line_.front().count == 1) let_go_of_kept();
    look_at_aside(now);
    if (!paused_) lend_fresh(now, out);
    close_doomed(now, out);
    if (!paused_) {
        sweep(now, out);
        if (!closed_ && line_.empty() && debt_due_ <= now) pay_debts(now, now, out);
        beat(now, out);
        open_missing(now, out);
    }
    settled_at_ = now;
}

void model::give_up_calls(instant now, actions& out) {
    for (;;) {
        const slot_id id = first_due_call();
        if (id == no_slot || slots_[id].due > now) return;
        const slot_state state = slots_[id].state;
        if (state == slot_state::opening || state == slot_state::closing) {
            action& a = out.emplace_back();
            a.what = action::kind::abandon;
            a.slot = id;
            a.call = slots_[id].call;
            a.cookie = slots_[id].resource;
        }
        end_call(id);
        switch (state) {
            case slot_state::opening: fail_open(now, id, false, out); break;
            case slot_state::probing: fail_probe(now, id, out); break;
            case slot_state::resetting: begin_close(now, id, out); break;
            default: vacate(id); break;
        }
    }
}

void model::refuse_expired(instant now, actions& out) {
    for (;;) {
        const std::size_t who = first_due_waiter();
        if (who == nowhere || line_[who].deadline > now) return;
        refuse(who, errc::timed_out, out);
    }
}

/// The line is kept in the order of turns: arrival, later by a head start for each lower priority.
instant model::turn(const waiter& w) const {
    if (w.rank == priority::reserved) return long_ago;
    instant at = w.arrived;
    if (w.rank != priority::high) at += settings_.head_start;
    if (w.rank == priority::low) at += settings_.head_start;
    return at;
}

void model::served(instant now, duration waited) {
    if (settings_.shed.target == duration::max()) return;
    if (now >= interval_ends_) {
        late_ = interval_ends_ != long_ago && shortest_wait_ > settings_.shed.target;
        shortest_wait_ = duration::max();
        interval_ends_ = after(now, settings_.shed.interval);
    }
    shortest_wait_ = std::min(shortest_wait_, waited);
}

std::size_t model::oldest() const {
    std::size_t found = nowhere;
    for (std::size_t i = 0; i < line_.size(); ++i) {
        if (line_[i].rank == priority::reserved) continue;
        if (found == nowhere || line_[i].ticket < line_[found].ticket) found = i;
    }
    return found;
}

instant model::shed_at(std::size_t who) const {
    if (!late_ || who == nowhere) return never;
    return line_[who].arrived + 2 * settings_.shed.target;
}

void model::shed_late(instant now, actions& out) {
    const bool calm = line_.empty() || paused_;
    served(now, calm ? duration{} : duration::max());
    if (calm) return;
    while (shed_at(oldest()) <= now) refuse(oldest(), errc::shed, out);
}

std::vector<slot_id> model::all_in_turn(idle_kind kind) const {
    std::vector<slot_id> all;
    for (slot_id id = 0; id < slots_.size(); ++id)
        if (slots_[id].state == slot_state::idle && slots_[id].idle == kind) all.push_back(id);
    std::sort(all.begin(), all.end(),
              [this](slot_id a, slot_id b) { return slots_[a].moved < slots_[b].moved; });
    return all;
}

/// What is kept for the head may become suspect; its age was looked at when it came.
void model::look_at_kept(instant now) {
    for (const slot_id id : all_in_turn(idle_kind::kept)) {
        const instant proven = slots_[id].checked_at;
        if (can_.probe && proven <= suspect_at_ && proven != now) move(id, idle_kind::stale);
    }
}

void model::let_go_of_kept() {
    while (kept() > 0) move(first(idle_kind::kept), idle_kind::fresh);
}

// Turns: see core/machine_turns.cpp.

bool model::head_grants_turns() const {
    const bool lends = !closed_ && !paused_ && circuit_.to == breaker_state::active;
    return can_.turns > 0 && settings_.fairness == fairness::turns && lends && !line_.empty() &&
           line_.front().is_thread && line_.front().rank != priority::reserved;
}

/// Of a lease that comes back clean, and not worn.
bool model::turn_goes_on(instant now, const place& s, std::uint64_t thread) const {
    const bool goes_on = s.turns < can_.turns || now < s.turn_began + moment;
    const bool fit = !needs_probe(s, now) && !(settings_.probe_on_release && can_.probe);
    return thread != 0 && s.by_thread && head_grants_turns() && s.rank <= line_.front().rank &&
           goes_on && fit && lends_ >= no_turns_before_;
}

/// What this thread may take back.
slot_id model::own(instant now, const request& who) const {
    slot_id found = no_slot;
    for (slot_id id = 0; id < slots_.size(); ++id) {
        const place& s = slots_[id];
        const bool aside = s.state == slot_state::idle && s.idle == idle_kind::aside;
        if (!aside || who.count > 1 || s.set_aside_for != who.thread) continue;
        if (now >= s.idle_since + moment || worn(s, now) || needs_probe(s, now)) continue;
        if (who.rank > line_.front().rank) continue;
        if (found == no_slot || s.moved > slots_[found].moved) found = id;
    }
    return found;
}

void model::look_at_aside(instant now) {
    if (!head_grants_turns()) {
        let_go_of_aside();
        return;
    }
    for (const slot_id id : all_in_turn(idle_kind::aside)) {
        const place& s = slots_[id];
        const bool missed = s.idle_since + moment <= now;
        const bool counts = missed && lends_ >= no_turns_before_;
        if (counts && came_again_ >= 16) {
            came_again_ -= 16;
        } else if (counts) {
            came_again_ = 0;
            no_turns_before_ = lends_ + no_turns_for_;
            no_turns_for_ = std::min<std::uint64_t>(2 * no_turns_for_, 4096);
        }
        if (missed || s.expires_at <= now || needs_probe(s, now)) move(id, idle_kind::fresh);
    }
}

void model::let_go_of_aside() {
    while (first(idle_kind::aside) != no_slot) move(first(idle_kind::aside), idle_kind::fresh);
}

/// All that a head wants who wants several, or nothing.
bool model::gather(instant now, actions& out) {
    look_at_kept(now);
    while (kept() < line_.front().count) {
        const slot_id id = next_fresh(now, out);
        if (id == no_slot) return false;
        move(id, idle_kind::kept);
    }
    const waiter w = line_.front();
    line_.erase(line_.begin());
    for (std::size_t i = 0; i < w.count; ++i) {
        const slot_id id = first(idle_kind::kept);
        lend(now, id, now - w.arrived);
        action& a = out.emplace_back();
        a.what = action::kind::grant;
        a.slot = id;
        a.cookie = w.cookie;
    }
    return true;
}

void model::lend_fresh(instant now, actions& out) {
    while (!line_.empty()) {
        if (!head_grants_turns()) let_go_of_aside();
        if (line_.front().count > 1) {
            if (!gather(now, out)) break;
            if (line_.empty() || line_.front().count == 1) let_go_of_kept();
            continue;
        }
        const slot_id id = next_fresh(now, out);
        if (id == no_slot) break;
        if (head_may_be_bypassed(now)) return;
        grant(now, 0, id, out);
    }
    if (line_.empty()) let_go_of_aside();
    probe_stale(now, out);
}

void model::probe_stale(instant now, actions& out) {
    while (wanted() > returning() + kept()) {
        const slot_id id = first(idle_kind::stale);
        if (id == no_slot) return;
        if (worn(slots_[id], now)) {
            begin_close(now, id, out);
        } else if (slots_[id].owes) {
            begin(now, id, slot_state::resetting, verb::reset, out);
        } else {
            begin_probe(now, id, probe_purpose::lend, out);
        }
    }
}

void model::close_doomed(instant now, actions& out) {
    while (closed_ || count(slot_state::closing) < settings_.opening_max) {
        const slot_id id = first(idle_kind::doomed);
        if (id == no_slot) return;
        begin_close(now, id, out);
    }
}

void model::sweep(instant now, actions& out) {
    if (closed_ || !maintained_ || !line_.empty() || sweep_at() > now) return;
    last_sweep_ = now;
    sweep_due_ = never;
    spared_any_ = false;
    const std::vector<slot_id> all = fresh_then_stale();
    std::vector<bool> spared_before(slots_.size());
    for (const slot_id id : all) spared_before[id] = slots_[id].expiring;
    for (const bool spared : {true, false})
        for (const slot_id id : all)
            if (spared_before[id] == spared) sweep_one(now, id, out);
}

void model::sweep_one(instant now, slot_id id, actions& out) {
    place& s = slots_[id];
    if (s.expires_at <= now) {
        if (must_wait_for_replacement(s)) {
            s.expiring = true;
            spared_any_ = true;
        } else {
            begin_close(now, id, out);
        }
        return;
    }
    instant limit = idle_limit(s);
    if (limit <= now) {
        if (!minimum_needs(s)) {
            begin_close(now, id, out);
            return;
        }
        spared_any_ = true;
        limit = never;
    }
    sweep_due_ = std::min({sweep_due_, s.expires_at, limit});
}

/// Resets what owes that and must have done it by then, in the order in which things are swept.
void model::pay_debts(instant now, instant by, actions& out) {
    std::vector<slot_id> all = fresh_then_stale();
    for (const idle_kind kind : {idle_kind::kept, idle_kind::aside})
        for (const slot_id id : all_in_turn(kind)) all.push_back(id);
    debt_due_ = never;
    for (const slot_id id : all) {
        if (!slots_[id].owes) continue;
        if (debt_at(slots_[id]) <= by) begin(now, id, slot_state::resetting, verb::reset, out);
        else debt_due_ = std::min(debt_due_, debt_at(slots_[id]));
    }
}

/// Whether what owes a reset may go back without it.
bool model::debts_last() const {
    const bool probed = settings_.probe_on_release && can_.probe;
    return can_.reset && !probed && !paused_ && maintained_ && settings_.reset_after > duration{};
}

instant model::debt_at(const place& s) const { return after(s.idle_since, settings_.reset_after); }

void model::beat(instant now, actions& out) {
    if (closed_ || !can_.probe || beating_ || now < beat_due_ || !line_.empty()) return;
    if (circuit_.to != breaker_state::active || !maintained_) return;
    for (;;) {
        slot_id next = no_slot;
        for (const slot_id id : fresh_then_stale()) {
            if (slots_[id].expiring) continue;
            if (next == no_slot || beat_at(slots_[id]) < beat_at(slots_[next])) next = id;
        }
        beat_due_ = next == no_slot ? never : beat_at(slots_[next]);
        if (next == no_slot || beat_due_ > now) return;
        beating_ = !slots_[next].owes;
        if (beating_) return begin_probe(now, next, probe_purpose::heartbeat, out);
        begin(now, next, slot_state::resetting, verb::reset, out);
    }
}

void model::open_missing(instant now, actions& out) {
    if (closed_) return;
    if (count(slot_state::opening) == 0) fruitless_since_ = never;
    if (allowed(now) == 0 && scout_at() <= now) make_way(out);
    while (std::size_t n = allowed(now)) {
        for (; n > 0; --n) {
            const slot_id id = vacated_last();
            slots_[id].epoch = epoch_;
            begin(now, id, slot_state::opening, verb::open, out);
            slots_[id].resource = slots_[id].call;
            widen_at_ = after(now, patience);
            fresh_at_ = never;
            if (fruitless_since_ == never) fruitless_since_ = now;
            in_bucket_ -= price();
        }
    }
}

/// Opens hang: gives up the youngest that is being made, so that another one can be tried.
void model::make_way(actions& out) {
    slot_id youngest = no_slot;
    for (slot_id id = 0; id < slots_.size(); ++id) {
        if (slots_[id].state != slot_state::opening || !slots_[id].begun) continue;
        if (youngest == no_slot || slots_[id].call > slots_[youngest].call) youngest = id;
    }
    if (youngest == no_slot) {
        fresh_at_ = never;
        return;
    }
    action& a = out.emplace_back();
    a.what = action::kind::make_way;
    a.slot = youngest;
    a.call = slots_[youngest].call;
    strays_.emplace_back(a.call, after(slots_[youngest].called_at, settings_.open_timeout));
    end_call(youngest);
    vacate(youngest);
}

// Looks.

bool model::earlier(const place& a, const place& b) const {
    if (a.idle == idle_kind::fresh && a.idle_since != b.idle_since)
        return a.idle_since < b.idle_since;
    return a.moved < b.moved;
}

slot_id model::first(idle_kind kind) const {
    slot_id found = no_slot;
    for (slot_id id = 0; id < slots_.size(); ++id) {
        const place& s = slots_[id];
        if (s.state != slot_state::idle || s.idle != kind) continue;
        if (found == no_slot || earlier(s, slots_[found])) found = id;
    }
    return found;
}

slot_id model::last(idle_kind kind) const {
    slot_id found = no_slot;
    for (slot_id id = 0; id < slots_.size(); ++id) {
        const place& s = slots_[id];
        if (s.state != slot_state::idle || s.idle != kind) continue;
        if (found == no_slot || earlier(slots_[found], s)) found = id;
    }
    return found;
}

const std::vector<slot_id>& model::fresh_then_stale() {
    in_turn_.clear();
    for (slot_id id = 0; id < slots_.size(); ++id) {
        const place& s = slots_[id];
        const bool listed = s.idle == idle_kind::fresh || s.idle == idle_kind::stale;
        if (s.state == slot_state::idle && listed) in_turn_.push_back(id);
    }
    std::sort(in_turn_.begin(), in_turn_.end(), [this](slot_id a, slot_id b) {
        const place& x = slots_[a];
        const place& y = slots_[b];
        return x.idle != y.idle ? x.idle == idle_kind::fresh : earlier(x, y);
    });
    return in_turn_;
}

slot_id model::next_fresh(instant now, actions& out) {
    for (;;) {
        const bool newest = settings_.order == order::lifo;
        const slot_id id = newest ? last(idle_kind::fresh) : first(idle_kind::fresh);
        if (id == no_slot) return id;
        if (worn(slots_[id], now)) begin_close(now, id, out);
        else if (needs_probe(slots_[id], now)) move(id, idle_kind::stale);
        else return id;
    }
}

/// What a newcomer may be lent at once. Requires that the pool is not closed.
slot_id model::lendable(instant now, actions& out) {
    if (!line_.empty() && !head_may_be_bypassed(now)) return no_slot;
    return next_fresh(now, out);
}

/// Whether a newcomer may be lent so many at once. Looks at no more than it must.
bool model::lendable_many(instant now, std::size_t count, actions& out) {
    if (!line_.empty() && !head_may_be_bypassed(now)) return false;
    std::vector<slot_id> fresh;
    for (const slot_id id : fresh_then_stale())
        if (slots_[id].idle == idle_kind::fresh) fresh.push_back(id);
    if (settings_.order == order::lifo) std::reverse(fresh.begin(), fresh.end());
    std::size_t found = 0;
    for (const slot_id id : fresh) {
        if (found == count) break;
        if (worn(slots_[id], now)) begin_close(now, id, out);
        else if (needs_probe(slots_[id], now)) move(id, idle_kind::stale);
        else ++found;
    }
    return found == count;
}

bool model::needs_probe(const place& s, instant now) const {
    if (!can_.probe || s.checked_at == now) return false;
    const instant good = std::max(s.idle_since, s.checked_at);
    return s.checked_at <= suspect_at_ || after(good, settings_.probe_after_idle) <= now;
}

bool model::worn(const place& s, instant now) const {
    return s.epoch < epoch_ || too_many() || s.expires_at <= now || s.uses >= settings_.max_uses;
}

bool model::minimum_needs(const place& s) const {
    const std::size_t self = s.expiring ? 0 : 1;
    return alive() - self < settings_.min_size || available() - self < settings_.min_idle;
}

bool model::must_wait_for_replacement(const place& s) const {
    const bool none_can_come =
        room() == 0 && count(slot_state::opening) == 0 && count(slot_state::closing) == 0;
    return minimum_needs(s) && !none_can_come;
}

slot_id model::vacated_last() const {
    slot_id found = no_slot;
    for (slot_id id = 0; id < slots_.size(); ++id) {
        if (slots_[id].state != slot_state::vacant) continue;
        if (found == no_slot || slots_[id].moved > slots_[found].moved) found = id;
    }
    return found;
}

/// Of several with the same deadline the first slot.
slot_id model::first_due_call() const {
    slot_id found = no_slot;
    for (slot_id id = 0; id < slots_.size(); ++id) {
        if (slots_[id].due == never) continue;
        if (found == no_slot || slots_[id].due < slots_[found].due) found = id;
    }
    return found;
}

/// Of several with the same deadline the one with the smallest ticket.
std::size_t model::first_due_waiter() const {
    const auto key = [](const waiter& w) { return std::tuple{w.deadline, w.ticket}; };
    std::size_t found = nowhere;
    for (std::size_t i = 0; i < line_.size(); ++i) {
        if (line_[i].deadline == never) continue;
        if (found == nowhere || key(line_[i]) < key(line_[found])) found = i;
    }
    return found;
}

std::size_t model::find(std::uint64_t cookie) const {
    for (std::size_t i = 0; i < line_.size(); ++i)
        if (line_[i].cookie == cookie) return i;
    return nowhere;
}

std::size_t model::count(slot_state state) const {
    std::size_t n = 0;
    for (const place& s : slots_) n += s.state == state ? 1 : 0;
    return n;
}

std::size_t model::returning() const {
    return count(slot_state::probing) + count(slot_state::resetting);
}

std::size_t model::available() const {
    std::size_t n = 0;
    for (const place& s : slots_)
        if (s.state == slot_state::idle && s.idle != idle_kind::doomed && !s.expiring) ++n;
    return n;
}

std::size_t model::alive() const { return available() + count(slot_state::leased) + returning(); }

bool model::head_may_be_bypassed(instant now) const {
    return settings_.fairness == fairness::bounded && !line_.empty() && line_.front().bypassable &&
           line_.front().rank != priority::reserved &&
           now < after(line_.front().arrived, settings_.bypass_for);
}

instant model::idle_limit(const place& s) const {
    return after(s.idle_since, settings_.idle_timeout);
}

instant model::beat_at(const place& s) const {
    return after(std::max(s.idle_since, s.checked_at), settings_.heartbeat);
}

instant model::sweep_at() const {
    if (sweep_due_ == never) return never;
    return std::max(after(last_sweep_, settings_.sweep_interval), sweep_due_);
}

instant model::draw_expiry(instant now) {
    const std::uint64_t drawn = random_.below(1000001);
    if (settings_.max_lifetime == duration::max()) return never;
    const auto ppm = static_cast<std::uint64_t>(settings_.lifetime_jitter * 1e6);
    const auto cut = static_cast<std::int64_t>(drawn * ppm / 1000000);
    return after(now, settings_.max_lifetime - settings_.max_lifetime / 1000000 * cut);
}

instant model::wake_at() const {
    instant at = never;
    for (const waiter& w : line_) at = std::min(at, w.deadline);
    for (const place& s : slots_) at = std::min(at, s.due);
    if (closed_) return at;
    at = std::min(at, ask_at_);
    if (paused_) return at;
    if (!line_.empty() && settings_.shed.target != duration::max())
        at = std::min({at, interval_ends_, shed_at(oldest())});
    at = std::min({at, held_back_ ? widen_at_ : retry_at_, scout_at()});
    for (const auto& [call, deadline] : strays_) at = std::min(at, deadline);
    if (line_.empty()) at = std::min(at, debt_due_);
    if (line_.empty() && maintained_) {
        at = std::min(at, sweep_at());
        if (can_.probe && !beating_ && circuit_.to == breaker_state::active)
            at = std::min(at, beat_due_);
    }
    for (const place& s : slots_)
        if (s.state == slot_state::idle && s.idle == idle_kind::aside)
            at = std::min(at, s.idle_since + moment);
    if (!line_.empty() && first(idle_kind::fresh) != no_slot)
        at = std::min(at, after(line_.front().arrived, settings_.bypass_for));
    bool looks = false;
    for (const place& s : slots_)
        if (s.state == slot_state::idle && s.idle != idle_kind::aside) looks = true;
    if (can_.probe && can_.sees_freezes && maintained_ && looks)
        at = std::min(at, after(settled_at_, core::machine::look_after));
    return at;
}

// How fast opens follow each other.

model::shortage model::missing() const {
    const bool fills = keeps_minimum_ && maintained_ && circuit_.to != breaker_state::inactive;
    const std::size_t min_size = fills ? settings_.min_size : 0;
    const std::size_t min_idle = fills ? settings_.min_idle : 0;
    const std::size_t idle = available();
    const std::size_t coming = count(slot_state::opening) + returning();
    const std::size_t present = idle + count(slot_state::leased) + coming;
    const std::size_t spares = excess(idle + coming, wanted());
    shortage m;
    m.of_minimum = excess(min_size, present);
    m.of_spares = excess(wanted(), coming + idle) + excess(min_idle, spares);
    return m;
}

std::size_t model::room_for_opens() const {
    return std::min(excess(room(), strays_.size()),
                    excess(settings_.opening_max, count(slot_state::opening)));
}

/// When another open is tried because those in flight hang; never if they do not, or none can be.
instant model::scout_at() const {
    const std::size_t opening = count(slot_state::opening);
    if (wanted() <= available() || opening == 0 || fresh_at_ == never) return never;
    const bool can_make_way = opening > 1 && strays_.size() < 8 && room() > strays_.size();
    if (room_for_opens() == 0 && !can_make_way) return never;
    const duration every = settings_.backoff.cap_waiting;
    instant at = std::max(after(fresh_at_, every), open_due(true));
    at = std::max(at,
                  after(fruitless_since_, std::max<duration>(std::chrono::seconds{1}, 4 * usual_)));
    if (price() > in_bucket_) at = std::max(at, filled_at_ + (price() - in_bucket_));
    return at;
}

std::size_t model::allowed(instant now) {
    fill_bucket(now);
    const std::size_t n = regular(now);
    return n == 0 && room_for_opens() > 0 && scout_at() <= now ? 1 : n;
}

std::size_t model::regular(instant now) {
    held_back_ = false;
    retry_at_ = never;
    if (room() <= strays_.size()) {
        relying_since_ = never;
        return 0;
    }
    shortage m = missing();
    const std::size_t opening = count(slot_state::opening);
    // Nothing is missing only because of what is being probed or reset: believed for a while.
    const bool relying = !m.any() && wanted() > opening + available();
    if (!relying) relying_since_ = never;
    else if (relying_since_ == never) relying_since_ = now;
    if (relying && now >= after(relying_since_, patience)) m.of_spares = 1;
    if (!m.any()) {
        if (relying) retry_at_ = after(relying_since_, patience);
        width_ = 1;
        return 0;
    }
    const std::size_t most = room_for_opens();
    if (most == 0) return 0;
    const instant at = open_due(wanted() > 0);
    if (at > now) {
        retry_at_ = at;
        return 0;
    }
    std::size_t tokens = most;
    if (price() > duration{}) {
        tokens = static_cast<std::size_t>(in_bucket_ / price());
        if (tokens == 0) {
            retry_at_ = now + (price() - in_bucket_);
            return 0;
        }
    }
    const std::size_t lanes = excess(present_width(now), opening);
    const std::size_t all = std::max(m.of_minimum, m.of_spares);
    const std::size_t paced = failures_ == 0 ? std::max(m.of_minimum, std::min(m.of_spares, lanes))
                                             : std::min(all, lanes);
    held_back_ = std::min(paced, most) < std::min(all, most);
    return std::min({paced, most, tokens});
}

/// The time in which one token comes; zero if nobody counts.
duration model::price() const {
    if (settings_.open_rate.per_second == std::uint64_t{forever}) return {};
    const auto count = static_cast<std::int64_t>(settings_.open_rate.per_second);
    return duration{(1'000'000'000 + count - 1) / count};
}

void model::fill_bucket(instant now) {
    const duration full = price() * static_cast<std::int64_t>(settings_.open_rate.burst);
    in_bucket_ = std::min(full, in_bucket_ + (now - filled_at_));
    filled_at_ = now;
}

std::size_t model::present_width(instant now) {
    if (alive() == 0 && failures_ == 0) return settings_.opening_max;
    if (count(slot_state::opening) > 0 && now >= widen_at_) {
        widen();
        widen_at_ = after(now, patience);
    }
    return width_;
}

void model::widen() { width_ = std::min(2 * width_, settings_.opening_max); }

void model::open_succeeded(instant now, instant called_at) {
    usual_ = now - called_at;
    fruitless_since_ = now;
    if (called_at > last_failure_) failures_ = 0;
    if (!closed_ && missing().any()) widen();
}

void model::open_failed(instant now, instant called_at) {
    width_ = 1;
    failed_call_ = std::max(failed_call_, called_at);
    if (called_at <= last_failure_) return;
    failures_ = std::min<std::size_t>(failures_ + 1, 30);
    last_failure_ = now;
    permille_ = 800 + static_cast<std::int64_t>(random_.below(401));
}

instant model::open_due(bool somebody_waits) const {
    if (failures_ == 0) return long_ago;
    const duration cap =
        somebody_waits ? settings_.backoff.cap_waiting : settings_.backoff.cap_idle;
    duration delay = std::min(settings_.backoff.first, cap);
    for (std::size_t i = 1; i < failures_ && delay < cap; ++i)
        delay = delay > cap / 2 ? cap : 2 * delay;
    return after(failed_call_, delay / 1000 * permille_);
}

}  // namespace cenote::sim
