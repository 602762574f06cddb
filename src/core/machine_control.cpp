// Requests that concern the whole pool: retire, resize, pause, close, the circuit breaker.
#include <algorithm>
#include <utility>

#include "core/machine.hpp"

namespace cenote::core {

void machine::retire_all(instant now, actions& out) {
    notice_freeze(now);
    ++epoch_;
    pacer_.forget_failures();  // failures of the last generation say nothing about the next
    for (idle_kind kind : {idle_kind::fresh, idle_kind::stale, idle_kind::kept, idle_kind::aside})
        while (slots_.oldest(kind) != no_slot) slots_.move(slots_.oldest(kind), idle_kind::doomed);
    settle(now, out);
}

void machine::make_places(std::size_t count, actions& out) {
    std::size_t places = std::max(count, slots_.places());
    calls_.reserve(places);
    make_room_for_actions(places, out);
    slots_.make_places(places);
}

void machine::resize(instant now, std::size_t max, actions& out) {
    notice_freeze(now);
    slots_.resize(max);
    for (waiter_id id; line_.has(id = line_.who_wants_more_than(max));)
        refuse(id, errc::deadlock, out);
    doom_surplus();
    settle(now, out);
}

/// Dooms surplus resources: stale ones first, then the longest unused, kept ones included.
void machine::doom_surplus() {
    if (!slots_.surplus()) return;
    while (slots_.kept() > 0) slots_.move(slots_.oldest(idle_kind::kept), idle_kind::fresh);
    let_go_of_aside();
    for (idle_kind kind : {idle_kind::stale, idle_kind::fresh})
        while (slots_.surplus() && slots_.oldest(kind) != no_slot)
            slots_.move(slots_.oldest(kind), idle_kind::doomed);
}

void machine::pause(instant now, actions& out) {
    notice_freeze(now);
    if (!paused_ && !closed_) report(event_kind::paused, 0, out);
    paused_.set(true);
    pay_all_debts(now, out);
    settle(now, out);
}

void machine::resume(instant now, actions& out) {
    notice_freeze(now);
    if (paused_ && !closed_) report(event_kind::resumed, 0, out);
    paused_.set(false);
    settle(now, out);
}

void machine::suspend_maintenance(instant now, actions& out) {
    notice_freeze(now);
    maintains_ = false;
    pay_all_debts(now, out);
    settle(now, out);
}

void machine::resume_maintenance(instant now, actions& out) {
    notice_freeze(now);
    maintains_ = true;
    settle(now, out);
}

void machine::suspect_all(instant now, actions& out) {
    suspect_at_ = now;
    settle(now, out);
}

void machine::close(instant now, actions& out) {
    if (!closed_) {
        closed_.set(true);
        report(event_kind::closing, 0, out);
        while (!line_.empty()) refuse(line_.head(), errc::closed, out);
        for (idle_kind kind :
             {idle_kind::fresh, idle_kind::stale, idle_kind::kept, idle_kind::aside})
            while (slots_.oldest(kind) != no_slot)
                slots_.move(slots_.oldest(kind), idle_kind::doomed);
        if (slots_.total() == 0) report(event_kind::closed_pool, 0, out);
    }
    settle(now, out);
}

void machine::tick(instant now, actions& out) {
    notice_freeze(now);
    settle(now, out);
}

// The circuit breaker.

void machine::go(instant now, const breaker_move& where, actions& out) {
    notice_freeze(now);
    circuit_.go(now, where);
    if (where.to == breaker_state::inactive) tried_ = false;  // no open comes now
    if (reports_)
        out.push_back({.what = action::kind::report,
                       .event = event_kind::breaker_changed,
                       .circuit = where.to});
    refuse_shut_out(out);
    settle(now, out);
}

bool machine::follow(instant now, std::uint64_t moves, const breaker_move& where, actions& out) {
    if (moves != circuit_.moves()) return false;
    go(now, where, out);
    return true;
}

/// Refuses waiters that the circuit does not let in: all of them, or the last ones.
void machine::refuse_shut_out(actions& out) {
    if (circuit_.flows()) return;
    std::size_t stay = 0;
    if (circuit_.state() == breaker_state::recovering && circuit_.probes() > trials_)
        stay = circuit_.probes() - trials_;
    while (line_.wanted() > stay)
        refuse(stay == 0 ? line_.head() : line_.last(), errc::unavailable, out);
}

/// While the circuit is open: the time until it may recover. Otherwise: the time until the present
/// waiters are served at the present rate of releases.
duration machine::retry_after(instant now) const {
    if (!circuit_.flows()) return circuit_.retry_after(now);
    constexpr duration least = std::chrono::milliseconds{1};
    constexpr duration most = std::chrono::minutes{1};
    duration each = releases_.interval(now, std::chrono::milliseconds{100});
    auto ahead = static_cast<std::int64_t>(line_.size()) + 1;
    return std::clamp(each > most / ahead ? most : each * ahead, least, most);
}

void machine::judge(instant now, circuit_news what, std::uint64_t resource, actions& out) {
    if (closed_) return;
    if (what == circuit_news::succeeded && !circuit_.note_success(now)) return;
    std::uint64_t count = what == circuit_news::cooled_down ? 0 : circuit_.take_successes(now);
    out.push_back({.what = action::kind::judge,
                   .news = what,
                   .call = circuit_.moves(),
                   .cookie = resource,
                   .at = count == 0 ? instant{} : circuit_.success_at(),
                   .successes = count});
}

/// Only uses show whether the server works; in a brown-out opens still succeed. While the circuit
/// recovers, only leases of this recovery count; others began before the circuit opened.
void machine::judge_use(instant now, const slot& s, condition how, actions& out) {
    bool this_one = s.trial && s.trial_of == circuit_.moves();
    bool earlier = circuit_.state() == breaker_state::recovering && !this_one;
    if (earlier) return;
    if (how == condition::clean || how == condition::dirty || how == condition::owing)
        judge(now, circuit_news::succeeded, s.resource, out);
    if (how == condition::rejected || how == condition::broken)
        judge(now, circuit_news::failed, s.resource, out);
}

void machine::end_trial(slot& s) {
    if (!s.trial) return;
    s.trial = false;
    --trials_;
}

}  // namespace cenote::core
