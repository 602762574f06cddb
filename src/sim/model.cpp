// The rules of the reference model. "T" and a number name a tie of core/machine.hpp.
#include "sim/model.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <tuple>

namespace cenote::sim {

using namespace core;
using namespace std::chrono_literals;

namespace {

constexpr duration frozen_for = 2s;     // so late a timer means that the process was frozen
constexpr duration look_every = 1s;     // what is idle may have been frozen
constexpr duration tell_every = 100ms;  // successes to the strategy, in an active pool
constexpr duration patience = 50ms;     // with opens and returns, before one more is opened
constexpr duration suspicious = 1s;     // no open that is faster hangs
constexpr std::size_t most_strays = 8;
constexpr duration aside_for = 100us;
constexpr duration shortest_turn = 100us;
constexpr std::size_t nowhere = ~std::size_t{0};

/// How much more a is than b.
std::size_t excess(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }

}  // namespace

model::model(const options& settings, core::abilities can, std::uint64_t seed, instant now)
    : settings_(settings),
      can_(can),
      random_(seed),
      now_(now),
      keeps_minimum_(settings.warm_up != warm_up::none),
      last_sweep_(now),
      settled_at_(now),
      in_bucket_(price() * static_cast<std::int64_t>(settings.open_rate.burst)),
      filled_at_(now) {
    add_slots(settings.max);
}

/// T1: new slots count as vacated just now, from the last to the first.
void model::add_slots(std::size_t count) {
    const std::size_t had = slots_.size();
    slots_.resize(std::max(had, count));
    for (std::size_t i = slots_.size(); i-- > had;) slots_[i].since = ++changes_;
}

// Requests.

/// The process was frozen if nothing happened long after the timer was due.
void model::arrive(instant now) {
    now_ = now;
    if (after(wake_at(), frozen_for) <= now) suspect_at_ = now;
}

answer model::acquire(instant now, const request& who) {
    arrive(now);
    keeps_minimum_ = true;
    const answer result = decide(who, who.ticket != 0 ? who.ticket : ++last_ticket_);
    settle();
    return result;
}

/// What a request is answered at once.
answer model::decide(const request& who, std::uint64_t ticket) {
    const auto refused = [&](errc why) {
        return answer{.what = answer::kind::refused, .error = why, .ticket = ticket};
    };
    const auto granted = [&](slot_id id) {
        return answer{.what = answer::kind::granted, .slot = id, .ticket = ticket};
    };
    const waiter w{.cookie = who.cookie,
                   .ticket = ticket,
                   .holder = who.holder,
                   .arrived = who.ticket != 0 ? who.arrived : now_,
                   .deadline = who.deadline,
                   .count = who.count,
                   .rank = who.rank,
                   .bypassable = who.bypassable,
                   .is_thread = who.thread != 0 && who.count == 1};
    if (closed_) return refused(errc::closed);
    if (!lets_in(who.count)) return refused(errc::unavailable);
    if (who.count > settings_.max) return refused(errc::deadlock);
    if (const slot_id mine = own(who); mine != no_slot) {
        take_turn(mine, who.rank);
        return granted(mine);
    }
    if (may_lend())
        if (const auto all = lendable(who.count); all.size() == who.count) {
            waiter at_once = w;
            at_once.arrived = now_;
            for (const slot_id id : all) lend(id, at_once);
            if (who.count == 1) actions_.pop_back();  // the answer says so
            return granted(all.back());
        }
    if (who.deadline <= now_ || who.cannot_wait) {
        tried_ = true;
        return refused(who.deadline <= now_ ? errc::timed_out : errc::deadlock);
    }
    if (!who.queues && !who.again && must_queue(who.count)) return refused(errc::line_full);
    if (line_.size() >= settings_.line_max && !who.again && who.rank != priority::reserved) {
        tried_ = tried_ || line_.empty();
        return refused(errc::line_full);
    }
    if (deadlocks(who)) return refused(errc::deadlock);
    join(w);
    return {.what = answer::kind::waiting, .ticket = ticket};
}

std::optional<slot_id> model::try_acquire(instant now) {
    arrive(now);
    keeps_minimum_ = true;
    const bool let_in = !closed_ && lets_in();
    const auto found = let_in && may_lend() ? lendable(1) : std::vector<slot_id>{};
    if (found.empty()) {
        tried_ = let_in;
    } else {
        lend(found[0], {.arrived = now});
        actions_.pop_back();
    }
    settle();
    return found.empty() ? std::nullopt : std::optional{found[0]};
}

bool model::cancel(instant now, std::uint64_t cookie) {
    arrive(now);
    const std::size_t who = first_waiter([&](const waiter& w) { return w.cookie == cookie; },
                                         [](const waiter& w) { return w.ticket; });
    if (who != nowhere) refuse(who, errc::canceled);
    settle();
    return who != nowhere;
}

void model::release(instant now, slot_id id, condition how, std::uint64_t uses,
                    std::uint64_t thread) {
    arrive(now);
    place& s = slots_[id];
    s.uses += uses;
    s.idle_since = now;
    const bool owing = how == condition::owing || how == condition::owing_unused;
    s.owes = owing && defers_resets();
    const bool used = how == condition::clean || how == condition::dirty || how == condition::owing;
    const bool failed = how == condition::rejected || how == condition::broken;
    if (circuit_.to != breaker_state::recovering || (s.trial && s.trial_of == circuit_moves_)) {
        if (used) judge(circuit_news::succeeded, s.resource);
        if (failed) judge(circuit_news::failed, s.resource);
    }
    s.trial = false;
    const bool gives_up = failed || how == condition::discard || how == condition::unfit;
    const bool dirty =
        how == condition::dirty || how == condition::dirty_unused || (owing && !s.owes);
    const bool comes_again = how == condition::clean || how == condition::owing;
    if (closed_ || worn(s)) {
        begin(id, verb::close);
    } else if (gives_up) {
        if (how == condition::unfit && s.uses <= 1) open_failed(s.called_at);
        begin(id, verb::close);
    } else if (dirty) {
        begin(id, can_.reset ? verb::reset : verb::close);
    } else if (comes_again && turn_goes_on(s, thread)) {
        become_fresh(id);
        move(id, idle_kind::aside);
        s.holder = thread;
    } else {
        put_by(id);
    }
    settle();
}

void model::detach(instant now, slot_id id) {
    arrive(now);
    slots_[id].trial = false;
    vacate(id);
    settle();
}

void model::retire_all(instant now) {
    arrive(now);
    ++epoch_;
    failures_ = 0;
    doom_all();
    settle();
}

void model::suspect_all(instant now) {
    arrive(now);
    suspect_at_ = now;
    settle();
}

void model::resize(instant now, std::size_t max) {
    arrive(now);
    add_slots(max);
    settings_.max = max;
    const auto wants_too_many = [&](const waiter& w) { return w.count > max; };
    const auto key = [](const waiter& w) { return std::tuple{w.rank, w.ticket}; };  // T6
    for (std::size_t who; (who = first_waiter(wants_too_many, key)) != nowhere;)
        refuse(who, errc::deadlock);
    for (const idle_kind kind : {idle_kind::kept, idle_kind::aside})
        if (too_many()) move_all(kind, idle_kind::fresh);
    for (const idle_kind kind : {idle_kind::stale, idle_kind::fresh})
        while (too_many() && first(kind) != no_slot) move(first(kind), idle_kind::doomed);
    settle();
}

void model::pause(instant now, bool on) {
    arrive(now);
    paused_ = on;
    if (on) pay_debts(never);
    settle();
}

void model::maintain(instant now, bool on) {
    arrive(now);
    maintained_ = on;
    if (!on) pay_debts(never);
    settle();
}

void model::go(instant now, const breaker_move& where) {
    arrive(now);
    circuit_ = where;
    ++circuit_moves_;
    successes_ = 0;
    told_at_ = now;
    const bool inactive = where.to == breaker_state::inactive;
    ask_at_ = inactive ? after(now, where.cool_down) : never;
    if (inactive) tried_ = false;
    if (where.to != breaker_state::active) {
        const std::size_t stay = inactive ? 0 : excess(where.probes, trials());
        while (waiters_want() > stay) refuse(stay == 0 ? 0 : line_.size() - 1, errc::unavailable);
    }
    settle();
}

bool model::follow(instant now, std::uint64_t moves, const breaker_move& where) {
    if (moves != circuit_moves_) return false;
    go(now, where);
    return true;
}

void model::close(instant now) {
    arrive(now);
    if (!closed_) {
        closed_ = true;
        while (!line_.empty()) refuse(0, errc::closed);
        doom_all();
    }
    settle();
}

void model::tick(instant now) {
    arrive(now);
    settle();
}

// Calls and their answers.

void model::begun(instant now, slot_id id, std::uint64_t call) {
    place& s = slots_[id];
    if (s.call != call) return;
    now_ = now;
    s.called_at = now;
    s.begun = true;
    duration limit = settings_.close_timeout;
    if (s.state == slot_state::opening) limit = settings_.open_timeout;
    if (s.state == slot_state::probing) limit = settings_.probe_timeout;
    if (s.state == slot_state::resetting) limit = settings_.reset_timeout;
    s.due = after(now, limit);
    if (s.state != slot_state::opening) return;
    s.epoch = epoch_;
    fresh_at_ = now;
}

bool model::answered(instant now, slot_id id, std::uint64_t call, verb which, outcome how) {
    arrive(now);
    const bool counts = slots_[id].call == call;
    if (counts) {
        end_call(id);
        place& s = slots_[id];
        if (which == verb::close) {
            vacate(id);
        } else if (which == verb::open) {
            opened(id, how);
        } else if (which == verb::probe && how != outcome::ok) {
            fail_probe(id);
        } else {
            if (which == verb::reset) s.owes = false;
            if (which == verb::probe) {
                if (s.purpose == probe_purpose::heartbeat) beating_ = false;
                // If suspicion arose during the call, it is proven as of its beginning.
                s.checked_at = s.called_at > suspect_at_ ? now : s.called_at;
                dead_in_row_ = 0;
            }
            if (how != outcome::ok || closed_ || worn(s)) begin(id, verb::close);
            else if (which == verb::reset) put_by(id);
            else become_fresh(id);
        }
    }
    std::erase_if(strays_, [&](const auto& stray) { return stray.first == call; });
    settle();
    return counts;
}

void model::opened(slot_id id, outcome how) {
    if (how != outcome::ok) return fail_open(id, how == outcome::failed_finally);
    place& s = slots_[id];
    const instant called_at = s.called_at;
    s.expires_at = draw_expiry();
    s.uses = 0;
    s.idle_since = now_;
    s.checked_at = called_at > suspect_at_ ? now_ : called_at;
    if (closed_ || s.epoch < epoch_ || too_many(1)) begin(id, verb::close);
    else become_fresh(id);
    open_succeeded(called_at);
}

void model::fail_open(slot_id id, bool final) {
    judge(circuit_news::failed, slots_[id].resource);
    if (slots_[id].epoch == epoch_) open_failed(slots_[id].called_at);
    tried_ = false;
    vacate(id);
    if (!final && settings_.open_errors == open_errors::retry) return;
    // The head learns it at once, and so does every waiter that nothing else can serve.
    if (!line_.empty()) refuse(0, errc::open_failed);
    if (alive() + count(slot_state::opening) > 0) return;
    while (!line_.empty()) refuse(0, errc::open_failed);
}

/// Two in a row: all may be dead.
void model::fail_probe(slot_id id) {
    if (slots_[id].purpose == probe_purpose::heartbeat) beating_ = false;
    judge(circuit_news::failed, slots_[id].resource);
    if (++dead_in_row_ >= 2) suspect_at_ = now_;
    begin(id, verb::close);
}

/// What the strategy of the circuit is told. In an active pool it hears of successes as a sum.
void model::judge(circuit_news what, std::uint64_t resource) {
    if (closed_) return;
    const bool good = what == circuit_news::succeeded;
    if (good) {
        ++successes_;
        success_at_ = now_;
    }
    const bool sums_up = circuit_.to == breaker_state::active && told_at_ != long_ago;
    if (good && sums_up && now_ < told_at_ + tell_every) return;
    action& a = actions_.emplace_back();
    a.what = action::kind::judge;
    a.news = what;
    a.call = circuit_moves_;
    a.cookie = resource;
    if (what == circuit_news::cooled_down) return;
    a.successes = successes_;
    if (successes_ > 0) a.at = success_at_;
    successes_ = 0;
    told_at_ = now_;
}

// Changes of one slot or waiter.

void model::enter(slot_id id, slot_state state) {
    place& s = slots_[id];
    if (s.state == slot_state::idle) s.expiring = false;
    s.state = state;
    s.since = ++changes_;
}

void model::begin(slot_id id, verb which) {
    constexpr std::array states = {slot_state::opening, slot_state::probing, slot_state::resetting,
                                   slot_state::closing};
    enter(id, states[static_cast<std::size_t>(which)]);
    place& s = slots_[id];
    s.call = ++last_call_;
    s.called_at = now_;
    s.begun = false;
    s.due = never;
    actions_.push_back({.what = action::kind::call, .which = which, .slot = id, .call = s.call});
}

void model::end_call(slot_id id) {
    slots_[id].call = 0;
    slots_[id].due = never;
}

void model::vacate(slot_id id) {
    enter(id, slot_state::vacant);
    slots_[id].owes = false;
}

void model::become_fresh(slot_id id) {
    enter(id, slot_state::idle);
    place& s = slots_[id];
    s.idle = idle_kind::fresh;
    tried_ = false;
    sweep_due_ = std::min({sweep_due_, s.expires_at, idle_limit(s), spared_any_ ? now_ : never});
    beat_due_ = std::min(beat_due_, beat_at(s));
    if (s.owes) debt_due_ = std::min(debt_due_, debt_at(s));
}

void model::put_by(slot_id id) {
    if (!settings_.probe_on_release || !can_.probe) return become_fresh(id);
    slots_[id].purpose = probe_purpose::release;
    begin(id, verb::probe);
}

void model::move(slot_id id, idle_kind kind) {
    place& s = slots_[id];
    s.idle = kind;
    s.since = ++changes_;
    if (kind != idle_kind::stale) s.expiring = false;
}

void model::move_all(idle_kind from, idle_kind to) {
    for (const slot_id id : idle({from})) move(id, to);
}

void model::doom_all() {
    for (const idle_kind kind :
         {idle_kind::fresh, idle_kind::stale, idle_kind::kept, idle_kind::aside})
        move_all(kind, idle_kind::doomed);
}

/// The first lease of a turn.
void model::lend(slot_id id, const waiter& to) {
    enter(id, slot_state::leased);
    place& s = slots_[id];
    ++s.uses;
    ++lends_;
    s.holder = 0;
    s.trial = circuit_.to == breaker_state::recovering;
    s.trial_of = circuit_moves_;
    s.by_thread = to.is_thread;
    s.rank = to.rank;
    s.turns = 0;
    s.turn_began = now_;
    served(now_ - to.arrived);
    actions_.push_back({.what = action::kind::grant, .slot = id, .cookie = to.cookie});
}

/// A thread has its own back: the turn goes on.
void model::take_turn(slot_id id, priority rank) {
    enter(id, slot_state::leased);
    place& s = slots_[id];
    ++s.uses;
    ++lends_;
    s.holder = 0;
    s.rank = rank;
    ++s.turns;
    came_back_ = std::min<std::size_t>(came_back_ + 1, 32);
    no_turns_for_ = 64;
}

void model::join(const waiter& who) {
    const auto key = [this](const waiter& w) { return std::tuple{turn(w), w.ticket}; };
    const auto at = std::find_if(line_.begin(), line_.end(),
                                 [&](const waiter& other) { return key(other) > key(who); });
    line_.insert(at, who);
}

model::waiter model::leave(std::size_t place_in_line) {
    const waiter who = line_[place_in_line];
    line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(place_in_line));
    return who;
}

void model::refuse(std::size_t place_in_line, errc error) {
    actions_.push_back(
        {.what = action::kind::refuse, .error = error, .cookie = leave(place_in_line).cookie});
}

// What follows from the whole, after each request and each answer.

void model::settle() {
    give_up_calls();
    std::erase_if(strays_, [&](const auto& stray) { return stray.second <= now_; });
    if (!closed_ && ask_at_ <= now_) {
        ask_at_ = after(now_, circuit_.cool_down);
        judge(circuit_news::cooled_down, 0);
    }
    refuse_expired();
    shed_late();
    if (!head_wants_many()) move_all(idle_kind::kept, idle_kind::fresh);
    look_at_aside();
    if (!paused_) lend_fresh();
    close_doomed();
    if (!paused_) {
        sweep();
        if (!closed_ && line_.empty() && debt_due_ <= now_) pay_debts(now_);
        beat();
        open_missing();
    }
    settled_at_ = now_;
}

/// T5: of several with the same deadline the first slot.
void model::give_up_calls() {
    for (;;) {
        const slot_id id = pick([](const place& s) { return s.due != never; },
                                [](const place& a, const place& b) { return a.due < b.due; });
        if (id == no_slot || slots_[id].due > now_) return;
        const place& s = slots_[id];
        if (s.state == slot_state::opening || s.state == slot_state::closing)
            actions_.push_back(
                {.what = action::kind::abandon, .slot = id, .call = s.call, .cookie = s.resource});
        end_call(id);
        switch (s.state) {
            case slot_state::opening: fail_open(id, false); break;
            case slot_state::probing: fail_probe(id); break;
            case slot_state::resetting: begin(id, verb::close); break;
            default: vacate(id); break;
        }
    }
}

/// T5: of several with the same deadline the one with the smallest ticket.
void model::refuse_expired() {
    const auto key = [](const waiter& w) { return std::tuple{w.deadline, w.ticket}; };
    const auto expired = [this](const waiter& w) { return w.deadline <= now_; };
    for (std::size_t who; (who = first_waiter(expired, key)) != nowhere;)
        refuse(who, errc::timed_out);
}

/// The shortest wait of each interval says whether the line is late in the next one.
void model::served(duration waited) {
    if (settings_.shed.target == duration::max()) return;
    if (now_ >= interval_ends_) {
        late_ = interval_ends_ != long_ago && shortest_wait_ > settings_.shed.target;
        shortest_wait_ = duration::max();
        interval_ends_ = after(now_, settings_.shed.interval);
    }
    shortest_wait_ = std::min(shortest_wait_, waited);
}

void model::shed_late() {
    const bool calm = line_.empty() || paused_;
    served(calm ? duration{} : duration::max());
    if (calm) return;
    while (shed_at(oldest()) <= now_) refuse(oldest(), errc::shed);
}

/// What is aside becomes fresh when its moment is over, or when it cannot be taken back. If too
/// many threads miss their moment, turns stop for a while.
void model::look_at_aside() {
    if (!head_grants_turns()) return move_all(idle_kind::aside, idle_kind::fresh);
    for (const slot_id id : idle({idle_kind::aside})) {
        const place& s = slots_[id];
        const bool missed = s.idle_since + aside_for <= now_;
        if (missed && lends_ >= no_turns_before_) {
            if (came_back_ < 16) {
                no_turns_before_ = lends_ + no_turns_for_;
                no_turns_for_ = std::min<std::uint64_t>(2 * no_turns_for_, 4096);
            }
            came_back_ = excess(came_back_, 16);
        }
        if (missed || s.expires_at <= now_ || needs_probe(s)) move(id, idle_kind::fresh);
    }
}

void model::lend_fresh() {
    while (!line_.empty()) {
        if (!head_grants_turns()) move_all(idle_kind::aside, idle_kind::fresh);
        if (head_wants_many()) {
            if (!gather()) break;
            if (!head_wants_many()) move_all(idle_kind::kept, idle_kind::fresh);
            continue;
        }
        const auto found = lendable(1);
        if (found.empty()) break;
        if (head_may_be_bypassed()) return;
        lend(found[0], leave(0));
    }
    if (line_.empty()) move_all(idle_kind::aside, idle_kind::fresh);
    probe_stale();
}

/// The head that wants several gets all of them or none. What is kept for it may become suspect;
/// its age was looked at when it came.
bool model::gather() {
    for (const slot_id id : idle({idle_kind::kept})) {
        const instant proven = slots_[id].checked_at;
        if (can_.probe && proven <= suspect_at_ && proven != now_) move(id, idle_kind::stale);
    }
    for (const slot_id id : lendable(excess(line_.front().count, kept())))
        move(id, idle_kind::kept);
    if (kept() < line_.front().count) return false;
    const waiter who = leave(0);
    for (std::size_t i = 0; i < who.count; ++i) lend(first(idle_kind::kept), who);
    return true;
}

void model::probe_stale() {
    while (wanted() > returning() + kept()) {
        const slot_id id = first(idle_kind::stale);
        if (id == no_slot) return;
        if (worn(slots_[id])) {
            begin(id, verb::close);
        } else if (slots_[id].owes) {
            begin(id, verb::reset);
        } else {
            slots_[id].purpose = probe_purpose::lend;
            begin(id, verb::probe);
        }
    }
}

void model::close_doomed() {
    while (first(idle_kind::doomed) != no_slot &&
           (closed_ || count(slot_state::closing) < settings_.opening_max))
        begin(first(idle_kind::doomed), verb::close);
}

/// First what waits for its replacement: that is not for one that has only just grown old.
void model::sweep() {
    if (closed_ || !maintained_ || !line_.empty() || sweep_at() > now_) return;
    last_sweep_ = now_;
    sweep_due_ = never;
    spared_any_ = false;
    std::vector<slot_id> waiting;
    std::vector<slot_id> others;
    std::ranges::partition_copy(idle({idle_kind::fresh, idle_kind::stale}),
                                std::back_inserter(waiting), std::back_inserter(others),
                                [this](slot_id id) { return slots_[id].expiring; });
    for (const slot_id id : waiting) sweep_one(id);
    for (const slot_id id : others) sweep_one(id);
}

void model::sweep_one(slot_id id) {
    place& s = slots_[id];
    const bool old = s.expires_at <= now_;
    const bool unused = idle_limit(s) <= now_;
    const bool spared = old ? must_wait_for_replacement(s) : minimum_needs(s);
    if ((old || unused) && !spared) return begin(id, verb::close);
    if (old) s.expiring = true;
    if (old || unused) spared_any_ = true;
    if (!old) sweep_due_ = std::min({sweep_due_, s.expires_at, unused ? never : idle_limit(s)});
}

/// Resets what owes that and is due by then.
void model::pay_debts(instant by) {
    debt_due_ = never;
    for (const slot_id id :
         idle({idle_kind::fresh, idle_kind::stale, idle_kind::kept, idle_kind::aside})) {
        if (!slots_[id].owes) continue;
        if (debt_at(slots_[id]) <= by) begin(id, verb::reset);
        else debt_due_ = std::min(debt_due_, debt_at(slots_[id]));
    }
}

/// Probes what has gone unproven longest, one at a time. A reset proves as much as a probe.
void model::beat() {
    if (closed_ || !can_.probe || beating_ || now_ < beat_due_ || !line_.empty()) return;
    if (circuit_.to != breaker_state::active || !maintained_) return;
    for (;;) {
        slot_id next = no_slot;
        beat_due_ = never;
        for (const slot_id id : idle({idle_kind::fresh, idle_kind::stale})) {
            if (slots_[id].expiring || beat_at(slots_[id]) >= beat_due_) continue;
            beat_due_ = beat_at(slots_[id]);
            next = id;
        }
        if (beat_due_ > now_) return;
        beating_ = !slots_[next].owes;
        slots_[next].purpose = probe_purpose::heartbeat;
        begin(next, beating_ ? verb::probe : verb::reset);
        if (beating_) return;
    }
}

void model::open_missing() {
    if (closed_) return;
    if (count(slot_state::opening) == 0) fruitless_since_ = never;
    if (allowed() == 0 && scout_at() <= now_) make_way();
    while (std::size_t n = allowed()) {
        for (; n > 0; --n) {
            // T1: the slot vacated last.
            const slot_id id =
                pick([](const place& s) { return s.state == slot_state::vacant; },
                     [](const place& a, const place& b) { return a.since > b.since; });
            begin(id, verb::open);
            slots_[id].epoch = epoch_;
            slots_[id].resource = slots_[id].call;
            widen_at_ = after(now_, patience);
            fresh_at_ = never;
            if (fruitless_since_ == never) fruitless_since_ = now_;
            in_bucket_ -= price();
        }
    }
}

/// Opens hang: gives up the youngest that is being made, so that another one can be tried.
void model::make_way() {
    const slot_id youngest =
        pick([](const place& s) { return s.state == slot_state::opening && s.begun; },
             [](const place& a, const place& b) { return a.call > b.call; });
    if (youngest == no_slot) {
        fresh_at_ = never;
        return;
    }
    const place& s = slots_[youngest];
    actions_.push_back({.what = action::kind::make_way, .slot = youngest, .call = s.call});
    strays_.emplace_back(s.call, after(s.called_at, settings_.open_timeout));
    end_call(youngest);
    vacate(youngest);
}

// Looks at the slots.

/// The best of the slots that match; of several as good the first.
template <class Is, class Before>
slot_id model::pick(Is is, Before before) const {
    slot_id found = no_slot;
    for (slot_id id = 0; id < slots_.size(); ++id)
        if (is(slots_[id]) && (found == no_slot || before(slots_[id], slots_[found]))) found = id;
    return found;
}

template <class Is>
std::size_t model::count_if(Is is) const {
    return static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), is));
}

/// The idle slots of these kinds, kind by kind. T2: the fresh by the end of their last use. T3:
/// equal ones, and all others, in the order in which they became so.
std::vector<slot_id> model::idle(std::initializer_list<idle_kind> kinds) const {
    std::vector<slot_id> all;
    for (const idle_kind kind : kinds) {
        const auto begin = static_cast<std::ptrdiff_t>(all.size());
        for (slot_id id = 0; id < slots_.size(); ++id)
            if (slots_[id].state == slot_state::idle && slots_[id].idle == kind) all.push_back(id);
        std::sort(all.begin() + begin, all.end(), [&](slot_id x, slot_id y) {
            const place& a = slots_[x];
            const place& b = slots_[y];
            if (kind != idle_kind::fresh || a.idle_since == b.idle_since) return a.since < b.since;
            return a.idle_since < b.idle_since;
        });
    }
    return all;
}

slot_id model::first(idle_kind kind) const {
    const auto all = idle({kind});
    return all.empty() ? no_slot : all.front();
}

/// Up to `count` that can be lent at once, in the order in which they are. What it comes across is
/// closed if it is worn, and stale if it must be probed.
std::vector<slot_id> model::lendable(std::size_t count) {
    auto fresh = idle({idle_kind::fresh});
    if (settings_.order == order::lifo) std::reverse(fresh.begin(), fresh.end());
    std::vector<slot_id> found;
    for (const slot_id id : fresh) {
        if (found.size() == count) break;
        if (worn(slots_[id])) begin(id, verb::close);
        else if (needs_probe(slots_[id])) move(id, idle_kind::stale);
        else found.push_back(id);
    }
    return found;
}

std::size_t model::count(slot_state state) const {
    return count_if([&](const place& s) { return s.state == state; });
}

std::size_t model::kept() const { return idle({idle_kind::kept}).size(); }

std::size_t model::returning() const {
    return count(slot_state::probing) + count(slot_state::resetting);
}

std::size_t model::available() const {
    return count_if([](const place& s) {
        return s.state == slot_state::idle && s.idle != idle_kind::doomed && !s.expiring;
    });
}

std::size_t model::alive() const { return available() + count(slot_state::leased) + returning(); }

std::size_t model::trials() const {
    return count_if([](const place& s) { return s.trial; });
}

/// How many more there may be.
std::size_t model::room() const {
    return excess(settings_.max, slots_.size() - count(slot_state::vacant));
}

/// More than max if `more` came, without those that are going and those that are not there yet.
bool model::too_many(std::size_t more) const {
    const std::size_t doomed = idle({idle_kind::doomed}).size();
    return count(slot_state::idle) + count(slot_state::leased) + returning() + more >
           settings_.max + doomed;
}

bool model::worn(const place& s) const {
    return s.epoch < epoch_ || too_many() || s.expires_at <= now_ || s.uses >= settings_.max_uses;
}

bool model::needs_probe(const place& s) const {
    if (!can_.probe || s.checked_at == now_) return false;
    const instant good = std::max(s.idle_since, s.checked_at);
    return s.checked_at <= suspect_at_ || after(good, settings_.probe_after_idle) <= now_;
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

/// Whether what owes a reset may go back without it.
bool model::defers_resets() const {
    const bool probed = settings_.probe_on_release && can_.probe;
    return can_.reset && !probed && !paused_ && maintained_ && settings_.reset_after > duration{};
}

instant model::idle_limit(const place& s) const {
    return after(s.idle_since, settings_.idle_timeout);
}

instant model::beat_at(const place& s) const {
    return after(std::max(s.idle_since, s.checked_at), settings_.heartbeat);
}

instant model::debt_at(const place& s) const { return after(s.idle_since, settings_.reset_after); }

instant model::sweep_at() const {
    if (sweep_due_ == never) return never;
    return std::max(after(last_sweep_, settings_.sweep_interval), sweep_due_);
}

instant model::draw_expiry() {
    const std::uint64_t drawn = random_.below(1'000'001);
    if (settings_.max_lifetime == duration::max()) return never;
    const auto ppm = static_cast<std::uint64_t>(settings_.lifetime_jitter * 1e6);
    const auto cut = static_cast<std::int64_t>(drawn * ppm / 1'000'000);
    return after(now_, settings_.max_lifetime - settings_.max_lifetime / 1'000'000 * cut);
}

instant model::wake_at() const {
    instant at = never;
    for (const waiter& w : line_) at = std::min(at, w.deadline);
    for (const place& s : slots_) at = std::min(at, s.due);
    if (closed_) return at;
    at = std::min(at, ask_at_);
    if (paused_) return at;
    at = std::min({at, held_back_ ? widen_at_ : retry_at_, scout_at()});
    for (const auto& [call, deadline] : strays_) at = std::min(at, deadline);
    if (line_.empty()) {
        at = std::min({at, debt_due_, maintained_ ? sweep_at() : never});
        const bool beats = can_.probe && !beating_ && circuit_.to == breaker_state::active;
        if (beats && maintained_) at = std::min(at, beat_due_);
    } else {
        if (settings_.shed.target != duration::max())
            at = std::min({at, interval_ends_, shed_at(oldest())});
        if (first(idle_kind::fresh) != no_slot)
            at = std::min(at, after(line_.front().arrived, settings_.bypass_for));
    }
    const auto aside = idle({idle_kind::aside});
    for (const slot_id id : aside) at = std::min(at, slots_[id].idle_since + aside_for);
    const bool looks = can_.probe && can_.sees_freezes && maintained_;
    if (looks && count(slot_state::idle) > aside.size())
        at = std::min(at, after(settled_at_, look_every));
    return at;
}

// Looks at the line.

/// The place in line of the waiter that matches and has the smallest key; nowhere if there is none.
template <class Is, class Key>
std::size_t model::first_waiter(Is is, Key key) const {
    std::size_t found = nowhere;
    for (std::size_t i = 0; i < line_.size(); ++i)
        if (is(line_[i]) && (found == nowhere || key(line_[i]) < key(line_[found]))) found = i;
    return found;
}

std::size_t model::oldest() const {
    return first_waiter([](const waiter& w) { return w.rank != priority::reserved; },
                        [](const waiter& w) { return w.ticket; });
}

std::size_t model::waiters_want() const {
    std::size_t n = 0;
    for (const waiter& w : line_) n += w.count;
    return n;
}

/// Arrival, later by a head start for each lower priority. T4: of equal turns the smallest ticket
/// is first.
instant model::turn(const waiter& w) const {
    if (w.rank == priority::reserved) return long_ago;
    return w.arrived +
           settings_.head_start * (static_cast<int>(w.rank) - static_cast<int>(priority::high));
}

instant model::shed_at(std::size_t place_in_line) const {
    if (!late_ || place_in_line == nowhere) return never;
    return line_[place_in_line].arrived + 2 * settings_.shed.target;
}

bool model::head_may_be_bypassed() const {
    return settings_.fairness == fairness::bounded && !line_.empty() && line_.front().bypassable &&
           line_.front().rank != priority::reserved &&
           now_ < after(line_.front().arrived, settings_.bypass_for);
}

/// Only a thread that wants one waits for the turns of others to end.
bool model::head_grants_turns() const {
    const bool lends = !closed_ && !paused_ && circuit_.to == breaker_state::active;
    return can_.turns > 0 && settings_.fairness == fairness::turns && lends && !line_.empty() &&
           line_.front().is_thread && line_.front().rank != priority::reserved;
}

/// Of a lease that comes back clean, and not worn.
bool model::turn_goes_on(const place& s, std::uint64_t thread) const {
    const bool goes_on = s.turns < can_.turns || now_ < s.turn_began + shortest_turn;
    const bool fit = !needs_probe(s) && !(settings_.probe_on_release && can_.probe);
    return thread != 0 && s.by_thread && head_grants_turns() && s.rank <= line_.front().rank &&
           goes_on && fit && lends_ >= no_turns_before_;
}

/// What this thread may take back. T3: of several what it gave back last.
slot_id model::own(const request& who) const {
    if (line_.empty() || who.count > 1 || who.rank > line_.front().rank) return no_slot;
    slot_id found = no_slot;
    for (const slot_id id : idle({idle_kind::aside})) {
        const place& s = slots_[id];
        const bool in_time = now_ < s.idle_since + aside_for;
        if (s.holder == who.thread && in_time && !worn(s) && !needs_probe(s)) found = id;
    }
    return found;
}

bool model::lets_in(std::size_t count) const {
    if (circuit_.to == breaker_state::recovering)
        return trials() + waiters_want() + count <= circuit_.probes;
    return circuit_.to == breaker_state::active;
}

/// Whether a newcomer may be lent something. Requires that the pool is not closed.
bool model::may_lend() const { return !paused_ && (line_.empty() || head_may_be_bypassed()); }

/// Is everything that could be had without a lease coming back wanted by the line?
bool model::must_queue(std::size_t wanted) const {
    const std::size_t not_leased = excess(settings_.max, count(slot_state::leased));
    return paused_ || wanted + waiters_want() > not_leased;
}

/// Whether no lease could ever come back if this thread waited, which has a lease itself.
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
        if (kept && line_.front().rank <= who.rank) continue;  // the head's, which waits
        const bool leased = s.state == slot_state::leased;
        if (!leased || s.holder == 0 || !waits(s.holder)) stuck = false;
        own += leased && s.holder == who.holder ? 1 : 0;
    }
    return own > 0 && (stuck || own + who.count > settings_.max);
}

// How fast opens follow each other: see core/pacer.hpp.

model::shortage model::missing() const {
    const bool fills = keeps_minimum_ && maintained_ && circuit_.to != breaker_state::inactive;
    const std::size_t min_size = fills ? settings_.min_size : 0;
    const std::size_t min_idle = fills ? settings_.min_idle : 0;
    const std::size_t soon = available() + returning() + count(slot_state::opening);
    return {.of_minimum = excess(min_size, soon + count(slot_state::leased)),
            .of_spares = excess(wanted(), soon) + excess(min_idle, excess(soon, wanted()))};
}

std::size_t model::room_for_opens() const {
    return std::min(excess(room(), strays_.size()),
                    excess(settings_.opening_max, count(slot_state::opening)));
}

/// When a scout is sent because the opens in flight hang; never if they do not, or none can be
/// sent.
instant model::scout_at() const {
    const std::size_t opening = count(slot_state::opening);
    if (wanted() <= available() || opening == 0 || fresh_at_ == never) return never;
    const bool can_make_way =
        opening > 1 && strays_.size() < most_strays && room() > strays_.size();
    if (room_for_opens() == 0 && !can_make_way) return never;
    const instant token_at = price() > in_bucket_ ? filled_at_ + (price() - in_bucket_) : long_ago;
    return std::max({after(fresh_at_, settings_.backoff.cap_waiting), open_due(true), token_at,
                     after(fruitless_since_, std::max(suspicious, 4 * usual_))});
}

std::size_t model::allowed() {
    fill_bucket();
    const std::size_t n = regular();
    return n == 0 && room_for_opens() > 0 && scout_at() <= now_ ? 1 : n;
}

/// How many may be opened now, without scouts.
std::size_t model::regular() {
    held_back_ = false;
    retry_at_ = never;
    if (room() <= strays_.size()) {
        relying_since_ = never;
        return 0;
    }
    shortage m = missing();
    const std::size_t opening = count(slot_state::opening);
    // Nothing is missing only because of what is probed or reset: relied on for a while.
    const bool relying = !m.any() && wanted() > opening + available();
    if (!relying) relying_since_ = never;
    else if (relying_since_ == never) relying_since_ = now_;
    if (relying && now_ >= after(relying_since_, patience)) m.of_spares = 1;
    if (!m.any()) {
        if (relying) retry_at_ = after(relying_since_, patience);
        width_ = 1;
        return 0;
    }
    const std::size_t most = room_for_opens();
    if (most == 0) return 0;
    std::size_t tokens = most;
    instant at = open_due(wanted() > 0);
    if (at <= now_ && price() > duration{}) {
        tokens = static_cast<std::size_t>(in_bucket_ / price());
        if (tokens == 0) at = now_ + (price() - in_bucket_);
    }
    if (at > now_) {
        retry_at_ = at;
        return 0;
    }
    const std::size_t lanes = excess(present_width(), opening);
    const std::size_t all = std::max(m.of_minimum, m.of_spares);
    const std::size_t paced = failures_ == 0 ? std::max(m.of_minimum, std::min(m.of_spares, lanes))
                                             : std::min(all, lanes);
    held_back_ = std::min(paced, most) < std::min(all, most);
    return std::min({paced, most, tokens});
}

/// How many opens may be in flight: one at a time while resources circulate, twice as many each
/// time that one succeeds, or that none ends for a while.
std::size_t model::present_width() {
    if (alive() == 0 && failures_ == 0) return settings_.opening_max;
    if (count(slot_state::opening) > 0 && now_ >= widen_at_) {
        width_ = std::min(2 * width_, settings_.opening_max);
        widen_at_ = after(now_, patience);
    }
    return width_;
}

/// The time in which one token comes; zero if there is no open_rate.
duration model::price() const {
    if (settings_.open_rate.per_second == std::uint64_t{forever}) return {};
    const auto count = static_cast<std::int64_t>(settings_.open_rate.per_second);
    return duration{(1'000'000'000 + count - 1) / count};
}

void model::fill_bucket() {
    const duration full = price() * static_cast<std::int64_t>(settings_.open_rate.burst);
    in_bucket_ = std::min(full, in_bucket_ + (now_ - filled_at_));
    filled_at_ = now_;
}

void model::open_succeeded(instant called_at) {
    usual_ = now_ - called_at;
    fruitless_since_ = now_;
    if (called_at > last_failure_) failures_ = 0;
    if (!closed_ && missing().any()) width_ = std::min(2 * width_, settings_.opening_max);
}

/// Opens that fail together are one failure.
void model::open_failed(instant called_at) {
    width_ = 1;
    failed_call_ = std::max(failed_call_, called_at);
    if (called_at <= last_failure_) return;
    failures_ = std::min<std::size_t>(failures_ + 1, 30);
    last_failure_ = now_;
    permille_ = 800 + static_cast<std::int64_t>(random_.below(401));
}

/// The backoff: twice as long after each failure, up to the cap.
instant model::open_due(bool for_waiters) const {
    if (failures_ == 0) return long_ago;
    const duration cap = for_waiters ? settings_.backoff.cap_waiting : settings_.backoff.cap_idle;
    duration delay = std::min(settings_.backoff.first, cap);
    for (std::size_t i = 1; i < failures_ && delay < cap; ++i)
        delay = delay > cap / 2 ? cap : 2 * delay;
    return after(failed_call_, delay / 1000 * permille_);
}

}  // namespace cenote::sim
