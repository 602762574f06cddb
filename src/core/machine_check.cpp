// The invariants of machine.hpp as code, with the same numbers.
#include <numeric>

#include "core/ensure.hpp"
#include "core/machine.hpp"

namespace cenote::core {

void machine::check(instant now) const {
    slots_.check();  // 1, 2
    line_.check();   // 7
    check_calls(now);
    check_waiters(now);
    check_aside(now);
    check_counters();
    ensure(!slots_.surplus() || count(slot_state::idle) == slots_.doomed(),
           "2: nothing is idle of what is too many");
    ensure(wake_at() > now, "8: the timer lies in the future");
    if (circuit_.state() == breaker_state::inactive)
        ensure(line_.empty(), "12: an inactive pool has no waiters");
    if (circuit_.state() == breaker_state::recovering)
        ensure(line_.size() <= circuit_.probes(), "12: a recovering pool has few waiters");
    if (now < express_until_) check_express();
    ensure(idle_news_until_ >= news_limit(), "no release that changes a timer goes unnoticed");
    if (closed_) {
        ensure(line_.empty(), "11: a closed pool has no waiters");
        ensure(count(slot_state::idle) == 0, "11: a closed pool has no idle resource");
    }
}

void machine::check_express() const {
    ensure(express_until_ <= others_at_, "14: nothing is due before express ends");
    ensure(!reports_ && circuit_.flows(), "14: express is for plain pools");
    ensure(trials_ == 0 && !slots_.surplus(), "14: express knows no trials and no surplus");
    if (!line_.empty()) {
        ensure(full_ && is_full(), "14: with waiters, express is for full pools");
        ensure(settings_.fairness != fairness::bounded, "14: with waiters, order is strict");
        return;
    }
    ensure(!closed_ && !paused_, "14: a calm pool lends");
    ensure(warmed_ || slots_.total() == 0, "14: a pool that is not warmed up is empty");
    ensure(!tried_ && !shedder_.on(), "14: a calm pool owes no open to a try_acquire");
    ensure(!missing(present_supply()).any() || slots_.room() <= strays_.size(),
           "14: a calm pool has its minimum");
    ensure(lend_floor_ == count_reserve(), "14: a calm pool knows how many it must keep");
    ensure(rest_at_ == rest_wake_at(), "14: a calm pool knows what is due");
    ensure(others_at_ == std::min(rest_at_, look_at()), "14: a calm pool notices a freeze in time");
}

void machine::check_calls(instant now) const {
    std::size_t begun = 0;
    std::size_t trials = 0;
    std::size_t beats = 0;
    for (slot_id id = 0; id < slots_.places(); ++id) {
        const slot& s = slots_[id];
        bool calling = s.state == slot_state::opening || s.state == slot_state::probing ||
                       s.state == slot_state::resetting || s.state == slot_state::closing;
        ensure(calling == (s.call != 0), "3: a call is in flight exactly in the calling states");
        begun += calling && s.begun;
        trials += s.trial;
        ensure(!s.trial || s.state == slot_state::leased, "only leases are trials");
        beats += s.state == slot_state::probing && s.purpose == probe_purpose::heartbeat;
        ensure(s.state != slot_state::idle || s.idle == idle_kind::doomed || s.epoch == epoch_,
               "only resources of this generation may be lent");
        ensure(s.state != slot_state::idle || s.uses < settings_.max_uses,
               "what is used up is not kept");
        if (s.owes) check_debt(now, s);
    }
    calls_.check();
    ensure(trials == trials_, "the trials are counted");
    ensure(begun == calls_.size(), "3: every call that is being made has a deadline");
    ensure(calls_.earliest() > now, "8: no call is past its deadline");
    ensure(beats == (beating_ ? 1 : 0), "one heartbeat at a time");
    ensure(count(slot_state::opening) <= settings_.opening_max, "9: opens within opening_max");
}

void machine::check_debt(instant now, const slot& s) const {
    ensure(can_.reset || s.state == slot_state::leased || s.state == slot_state::closing,
           "15: only what can be reset owes it");
    ensure(s.state != slot_state::probing, "15: a resource that owes a reset is not probed");
    bool stays = s.state == slot_state::idle && s.idle != idle_kind::doomed;
    if (!stays) return;
    ensure(defers(), "15: without maintenance no idle resource owes a reset");
    ensure(debt_due_ <= debt_due(s), "15: no owed reset becomes due unnoticed");
    if (!line_.empty()) return;
    ensure(now < debt_due(s), "15: without waiters no owed reset is older than reset_after");
    ensure(wake_at() <= debt_due(s), "15: the timer comes when an owed reset is due");
}

void machine::check_waiters(instant now) const {
    ensure(line_.earliest() > now, "8: no waiter is past its deadline");
    bool for_many = !line_.empty() && line_.first().count > 1 &&
                    (line_.first().count > slots_.kept() || paused_);
    ensure(slots_.kept() == 0 || for_many,
           "13: resources are kept only for a head that wants more");
    if (line_.empty() || paused_) return;
    if (slots_.oldest(idle_kind::fresh) != no_slot) {
        ensure(now < owed_at(), "4: no caller waits while a fresh resource is idle");
        ensure(wake_at() <= owed_at(), "4: a bypassed head gets a resource in time");
    } else {
        ensure(slots_.oldest(idle_kind::stale) == no_slot ||
                   returning() + slots_.kept() >= line_.wanted(),
               "4: no caller waits while an idle resource could be probed");
    }
    std::size_t coming = returning() + count(slot_state::opening) + available();
    bool room = slots_.room() > strays_.size();
    bool held_back =
        count(slot_state::opening) >= settings_.opening_max || pacer_.next_chance() != never;
    ensure(coming >= line_.wanted() || !room || held_back,
           "5: no caller waits beside a vacant slot without a reason");
    std::size_t calls = returning() + count(slot_state::opening) + count(slot_state::closing);
    ensure(count(slot_state::leased) + calls > 0 || wake_at() != never,
           "6: a caller waits, so something will happen");
}

void machine::check_aside(instant now) const {
    if (slots_.aside() == 0) return;
    ensure(head_grants_turns() && line_.first().count == 1,
           "16: only a thread that wants one is made to wait for what is set aside");
    ensure(wake_at() <= aside_at(), "16: resources that are set aside are looked at in time");
    for (slot_id id = slots_.oldest(idle_kind::aside); id != no_slot; id = slots_[id].next) {
        const slot& s = slots_[id];
        ensure(now < aside_until(s), "16: a resource is set aside for a moment");
        ensure(s.holder != 0 && s.by_thread, "16: a resource is set aside for a thread");
        bool ended = s.turns >= can_.turns && s.idle_since >= after(s.turn_began, shortest_turn);
        ensure(!ended, "16: a turn ends");
        ensure(!needs_probe(s, now), "16: a resource that needs a probe is not set aside");
    }
}

void machine::check_counters() const {
    auto sum = [](const auto& tallies) {
        return std::accumulate(tallies.begin(), tallies.end(), std::uint64_t{0},
                               [](std::uint64_t n, const tally& t) { return n + t.get(); });
    };
    std::size_t present = slots_.total() - count(slot_state::opening);
    stats s;
    read(s);
    ensure(s.granted == s.released + s.detached + s.leased,
           "10: granted = released + detached + leased");
    ensure(opened_.get() == closed_count_.get() + detached_.get() + present,
           "10: opened = closed + detached + present");
    ensure(s.acquires == s.granted + sum(refused_) + line_.size(),
           "10: acquires = granted + refused + waiting");
}

void machine::read(stats& into) const {
    into.leased = count(slot_state::leased);
    into.idle = count(slot_state::idle);
    into.opening = count(slot_state::opening);
    into.probing = count(slot_state::probing);
    into.resetting = count(slot_state::resetting);
    into.closing = count(slot_state::closing);
    into.waiting = line_.size();
    into.breaker = circuit_.state();
    into.state = state();
    std::uint64_t lent_now = lent_now_.get();
    into.acquires = acquires_.get() + lent_now;
    std::uint64_t passed_on = passed_on_.get();
    into.granted = granted_.get() + lent_now + passed_on;
    into.waited = waited_.get() + passed_on;
    into.refused_after_wait = refused_after_wait_.get();
    into.released = released_.get() + passed_on;
    into.discarded = discarded_.get();
    into.detached = detached_.get();
    into.opened = opened_.get();
    into.open_failed = open_failed_.get();
    into.closed = closed_count_.get();
    into.abandoned = abandoned_.get();
    into.try_empty = try_empty_.get();
    for (std::size_t i = 0; i < retire_reason_count; ++i)
        into.retired_by_reason[i] = retired_[i].get();
    for (std::size_t i = 0; i < errc_count; ++i) into.refused_by_reason[i] = refused_[i].get();
    into.total =
        into.leased + into.idle + into.opening + into.probing + into.resetting + into.closing;
}

void machine::read_histograms(stats& into) const {
    wait_.read(into.wait);
    hold_.read(into.hold);
    open_.read(into.open);
    // Borrowers that did not have to wait count as a wait of zero.
    into.wait.buckets[0] += into.granted - into.waited;
}

}  // namespace cenote::core
