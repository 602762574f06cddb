// The simulated world: decisions in, findings out.
#include "sim/world.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace cenote::sim {

using core::condition;
using core::instant;
using core::never;
using core::outcome;
using core::slot_id;
using core::slot_state;
using core::verb;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

const instant epoch = instant{} + std::chrono::hours{1};
constexpr nanoseconds forever_ns = forever;

}  // namespace

nanoseconds timeout_of(verb which, const options& o) {
    switch (which) {
        case verb::open: return o.open_timeout;
        case verb::probe: return o.probe_timeout;
        case verb::reset: return o.reset_timeout;
        case verb::close: break;
    }
    return o.close_timeout;
}

bool answer(core::machine& machine, instant now, verb which, slot_id slot, std::uint64_t call,
            outcome how, core::actions& out) {
    switch (which) {
        case verb::open: return machine.on_open(now, slot, call, how, out);
        case verb::probe: return machine.on_probe(now, slot, call, how, out);
        case verb::reset: return machine.on_reset(now, slot, call, how, out);
        case verb::close: break;
    }
    return machine.on_close(now, slot, call, how, out);
}

void compare(const core::machine& machine, const model& other, const stats& seen) {
    require(seen.leased == other.count(slot_state::leased), "as many leased as in the model");
    require(seen.idle == other.count(slot_state::idle), "as many idle as in the model");
    require(seen.opening == other.count(slot_state::opening), "as many opening as in the model");
    require(seen.probing == other.count(slot_state::probing), "as many probing as in the model");
    require(seen.closing == other.count(slot_state::closing), "as many closing as in the model");
    require(seen.waiting == other.waiting(), "as many waiting as in the model");
    require(machine.wake_at() == other.wake_at(), "the timer is set as in the model");
}

void tallies::add(const tallies& other) {
    steps += other.steps;
    grants += other.grants;
    passed_on += other.passed_on;
    lent_now += other.lent_now;
    turns += other.turns;
    refusals += other.refusals;
    cancels += other.cancels;
    destroyed += other.destroyed;
    faults += other.faults;
}

world::world(const plan& p, spectator* watching)
    : plan_(p),
      random_(p.seed),
      began_at_(epoch),
      now_(epoch),
      machine_(p.settings, p.can, p.reports, p.seed, now_),
      model_(p.settings, p.can, p.seed, now_),
      borrowers_(p.borrowers),
      gatherers_(p.gatherers),
      places_(p.settings.max),
      watch_(p.settings.max),
      max_(p.settings.max),
      most_(p.settings.max),
      strategy_({.failures = p.failures == 0 ? std::uint64_t{forever} : p.failures,
                 .cool_down = p.cool_down,
                 .probes = static_cast<std::size_t>(p.probes),
                 .successes = p.successes}),
      spectator_(watching) {
    machine_.start(now_, mine_);
    model_.tick(now_);
    absorb();
    look();
    if (spectator_ != nullptr) {
        scene begun;
        show(begun);
    }
}

// Drawing.

decision world::draw() {
    std::uint32_t sum = 0;
    for (auto w : plan_.weights) sum += w;
    auto pick = static_cast<std::uint32_t>(random_.below(sum));
    std::size_t kind = 0;
    while (pick >= plan_.weights[kind]) pick -= plan_.weights[kind++];
    decision d{.what = static_cast<decision::kind>(kind)};
    if (!choose_borrower(d)) d.what = decision::kind::answer;
    if (d.what == decision::kind::answer && calls_.empty() && !choose_instead(d))
        d.what = decision::kind::pass;
    d.b = static_cast<std::uint32_t>(random_.below(1000));
    switch (d.what) {
        case decision::kind::answer:
        case decision::kind::start:
        case decision::kind::late: {
            d.a = static_cast<std::uint32_t>(random_.below(16));
            bool fails = random_.chance(plan_.fault_percent);
            bool finally = fails && random_.chance(plan_.final_percent);
            d.b = static_cast<std::uint32_t>(finally ? outcome::failed_finally
                                             : fails ? outcome::failed
                                                     : outcome::ok);
            break;
        }
        case decision::kind::gather:
        case decision::kind::call_off:
        case decision::kind::scatter: d.a = static_cast<std::uint32_t>(random_.below(8)); break;
        case decision::kind::pass: d.a = static_cast<std::uint32_t>(random_.below(100)); break;
        case decision::kind::acquire:
        case decision::kind::demand:
        case decision::kind::crowd: d.b = draw_patience(); break;
        case decision::kind::release: {
            bool clean = !random_.chance(plan_.fault_percent);
            d.b = clean ? 0 : static_cast<std::uint32_t>(random_.below(5));
            if (clean && plan_.owing_percent > 0 && random_.chance(plan_.owing_percent)) d.b = 5;
            break;
        }
        case decision::kind::admit: d.b = random_.chance(plan_.fault_percent) ? 1 : 0; break;
        default: break;
    }
    return d;
}

std::uint32_t world::draw_patience() {
    if (random_.chance(plan_.patient_percent)) return 0;
    return 1 + static_cast<std::uint32_t>(random_.below(random_.chance(30) ? 20 : 600));
}

/// Finds a borrower that fits the decision. False if there is none.
bool world::choose_borrower(decision& d) {
    auto first = static_cast<std::uint32_t>(random_.below(plan_.borrowers));
    for (std::uint32_t i = 0; i < borrowers_.size(); ++i) {
        d.a = static_cast<std::uint32_t>((first + i) % borrowers_.size());
        if (fits(borrowers_[d.a], d.what)) return true;
    }
    return false;
}

/// In a world of turns little time passes: a borrower acquires or, if none can, releases.
bool world::choose_instead(decision& d) {
    if (plan_.can.turns == 0 || random_.chance(5)) return false;
    d.what = decision::kind::acquire;
    if (choose_borrower(d)) return true;
    d.what = decision::kind::release;
    return choose_borrower(d);
}

/// Whether the borrower can do this now.
bool world::fits(const borrower& who, decision::kind what) const {
    switch (what) {
        case decision::kind::acquire:
        case decision::kind::attempt: return who.what == doing::nothing;
        case decision::kind::demand: return who.what == doing::nothing && !is_coroutine(who);
        case decision::kind::cancel: return who.what != doing::nothing;
        case decision::kind::release:
        case decision::kind::detach:
        case decision::kind::hand_on: return who.what == doing::holding;
        case decision::kind::reject: return who.what == doing::holding && !is_coroutine(who);
        case decision::kind::stop: return who.what == doing::nothing && is_coroutine(who);
        case decision::kind::resume: return who.what == doing::told;
        case decision::kind::destroy:
            return is_suspended(who) && is_coroutine(who) && !who.withdrawn;
        case decision::kind::look: return who.what == doing::admitting;
        case decision::kind::admit:
            return who.what == doing::admitting || who.what == doing::looked_at;
        default: return true;
    }
}

void world::step(const decision& d) {
    if (spectator_ == nullptr) carry_out(d);
    else step_watched(d);
}

/// False: the machine was not called.
bool world::carry_out(const decision& d) {
    bool called = d.what <= decision::kind::admit ? borrow(d, borrowers_[d.a % borrowers_.size()])
                                                  : happen(d);
    ++seen_.steps;
    // Time may have passed without the timer, so nothing is checked before the next call.
    if (!called) return false;
    absorb();
    look();
    if (seen_.steps % 8 == 0) settle_again();
    return true;
}

/// False: the machine was not called.
bool world::borrow(const decision& d, borrower& who) {
    if (!fits(who, d.what)) return false;
    switch (d.what) {
        case decision::kind::acquire: acquire(who, d.b, false); return true;
        case decision::kind::demand: acquire(who, d.b, true); return true;
        case decision::kind::attempt: attempt(who); return true;
        case decision::kind::cancel: cancel(who); return true;
        case decision::kind::release: {
            constexpr std::array how = {condition::clean,    condition::dirty,  condition::discard,
                                        condition::rejected, condition::broken, condition::owing};
            return release(who, how[d.b % how.size()]), true;
        }
        case decision::kind::detach: detach(who); return true;
        case decision::kind::reject: reject(who); return true;
        case decision::kind::hand_on: hand_on(who); return false;
        case decision::kind::stop: who.stopped = true; return false;
        case decision::kind::resume: resume(who); return false;
        case decision::kind::destroy: destroy(who); return true;
        case decision::kind::look: who.what = doing::looked_at; return false;
        case decision::kind::admit: return admit(who, d.b == 0);
        default: return false;
    }
}

bool world::happen(const decision& d) {
    bool gathers = d.what >= decision::kind::gather && d.what <= decision::kind::scatter;
    if (gathers && gatherers_.empty()) return false;
    switch (d.what) {
        case decision::kind::gather: return gather(gatherers_[d.a % gatherers_.size()], d.b);
        case decision::kind::call_off: return call_off(gatherers_[d.a % gatherers_.size()]);
        case decision::kind::scatter: return scatter(gatherers_[d.a % gatherers_.size()]);
        case decision::kind::crowd: return crowd(d.a, d.b);
        case decision::kind::storm: return storm(d.a, d.b % 2 != 0);
        case decision::kind::answer:
            if (calls_.empty()) return false;
            start(calls_[d.a % calls_.size()]);
            answer(call(calls_[d.a % calls_.size()]), static_cast<outcome>(d.b % 3), true);
            return true;
        case decision::kind::start:
            if (calls_.empty()) return false;
            start(calls_[d.a % calls_.size()]);
            machine_.tick(now_, mine_);
            model_.tick(now_);
            return true;
        case decision::kind::late:
            if (given_up_.empty()) return false;
            answer(call(given_up_[d.a % given_up_.size()]), static_cast<outcome>(d.b % 3), false);
            return true;
        case decision::kind::pass: return pass(d.a, d.b);
        case decision::kind::retire_all:
            machine_.retire_all(now_, mine_);
            model_.retire_all(now_);
            return true;
        case decision::kind::suspect_all:
            machine_.suspect_all(now_, mine_);
            model_.suspect_all(now_);
            return true;
        case decision::kind::resize: resize(1 + d.b % 8); return true;
        case decision::kind::pause: pause(true); return true;
        case decision::kind::unpause: pause(false); return true;
        case decision::kind::suspend: maintain(false); return true;
        case decision::kind::restore: maintain(true); return true;
        case decision::kind::judge: return judge();
        case decision::kind::breaker: {
            auto to = static_cast<breaker_state>(d.a % 3);
            return move({.to = to, .cool_down = plan_.cool_down, .probes = 1 + d.b % 3}), true;
        }
        case decision::kind::close: close(); return true;
        default: return false;
    }
}

/// A second settle at the same time has nothing left to decide.
void world::settle_again() {
    machine_.tick(now_, mine_);
    require(mine_.empty(), "settling twice changes nothing");
    model_.tick(now_);
    absorb();
}

// Borrowers. What is special about coroutines is in world_coroutine.cpp.

/// `patience`: 0 for no deadline, else 1 plus the milliseconds to wait.
void world::acquire(borrower& who, std::uint32_t patience, bool cannot_wait) {
    who.cannot_wait = cannot_wait;
    who.deadline = patience == 0 ? never : now_ + milliseconds{patience - 1};
    ask(who);
    if (who.what == doing::waiting && who.stopped) leave_at_once(who);
}

/// Acquires from machine and model. A borrower that was granted something unfit has a ticket.
void world::ask(borrower& who) {
    bool again = who.ticket != 0;
    if (!again) {
        who.came = ++begun_;
        who.arrived = now_;
    }
    who.cookie = ++asks_ * borrowers_.size() + index_of(who);
    who.bypassable = asks_ % 4 != 0;
    if (!again) who.queues = !plan_.hasty || begun_ % 3 != 0;
    if (plan_.ranks && !again) who.rank = static_cast<priority>(begun_ * 7 / 3 % priority_count);
    core::request r{.deadline = who.deadline,
                    .cookie = who.cookie,
                    .bypassable = who.bypassable,
                    .ticket = who.ticket,
                    .arrived = who.arrived,
                    .again = again,
                    .cannot_wait = who.cannot_wait,
                    .queues = who.queues,
                    .rank = who.rank,
                    .holder = thread_of(who),
                    .thread = is_coroutine(who) ? 0 : runs_on(who)};
    bool stuck = deadlocks(who);
    // Looked up before the call, which may grant the last one.
    const bool all_leased = machine_.count(core::slot_state::leased) >= machine_.max();
    core::answer mine = machine_.acquire(now_, r, mine_);
    core::answer theirs = model_.acquire(now_, r);
    compare_answers(mine, theirs);
    if (spectator_ != nullptr)
        note(actor_of(who), mine, place_in_line(turn(who), who.came), who.deadline);
    who.ticket = mine.ticket;
    who.waiter = mine.waiter;
    switch (mine.what) {
        case core::answer::kind::granted:
            receive(who, mine.slot, false);
            granted(who, false);
            break;
        case core::answer::kind::waiting:
            require(!who.cannot_wait, "a caller that cannot wait does not wait");
            require(!stuck, "no caller waits in a deadlock");
            require(who.queues || again || !all_leased,
                    "a caller that does not queue waits for no lease");
            who.what = doing::waiting;
            break;
        case core::answer::kind::refused:
            require(mine.error != errc::closed || closed_,
                    "only a closed pool refuses with closed");
            require(mine.error != errc::unavailable || circuit_.to != breaker_state::active,
                    "only an interrupted circuit makes a pool unavailable");
            require(mine.error != errc::deadlock || who.cannot_wait || stuck,
                    "only a deadlock is refused as one");
            require(mine.error != errc::line_full || !again,
                    "a waiter that goes back to its place meets no full line");
            require(mine.error != errc::line_full || who.rank != priority::reserved || !who.queues,
                    "priority reserved meets no full line");
            refused(who);
    }
}

void world::attempt(borrower& who) {
    auto mine = machine_.try_acquire(now_, mine_);
    require(mine == model_.try_acquire(now_), "try_acquire as in the model");
    if (spectator_ != nullptr)
        followed_.push_back({.what = mine ? consequence::kind::granted : consequence::kind::nothing,
                             .who = actor_of(who),
                             .slot = mine.value_or(core::no_slot)});
    if (!mine) return;
    ++attempts_;
    who.came = ++begun_;
    who.arrived = now_;
    who.deadline = now_;
    receive(who, *mine, false);
    places_[*mine].fit = true;  // the caller looks itself
    hold(who);
}

void world::cancel(borrower& who) {
    // A cancel after the grant must change nothing.
    who.stopped = who.what == doing::waiting || is_coroutine(who);
    take_out(who);
}

/// Cancels in machine and model. False: the borrower is not in line.
bool world::take_out(borrower& who) {
    bool in_line = who.what == doing::waiting;
    seen_.cancels += in_line;
    require(machine_.cancel(now_, who.waiter, mine_) == in_line,
            "a cancel counts exactly while its caller waits");
    require(model_.cancel(now_, who.cookie) == in_line, "a cancel counts as in the model");
    return in_line;
}

void world::detach(borrower& who) {
    slot_id slot = who.slot;
    places_[slot] = {};
    who = {};
    machine_.detach(now_, slot, mine_);
    model_.detach(now_, slot);
}

void world::release(borrower& who, condition how) {
    place& p = places_[who.slot];
    bool owes = how == condition::owing;
    bool accepted = how == condition::clean || how == condition::dirty || owes;
    trials_well_ += who.trial && accepted;
    p.dirty = how == condition::dirty;
    p.given_up = !accepted;
    p.owes = owes;
    p.owes_since = now_;
    slot_id slot = who.slot;
    p.given_back_by = runs_on(who) + (who.moved ? 1 : 0);
    who = {};
    machine_.release(now_, slot, how, 0, nanoseconds{0}, mine_, p.given_back_by);
    model_.release(now_, slot, how, 0, p.given_back_by);
}

/// before_acquire refuses the resource of a thread: the resource goes, and the thread goes back to
/// its place in line.
void world::reject(borrower& who) {
    who.what = doing::nothing;
    if (who.ticket != 0) --ended_;  // its acquire continues
    send_back(who);
    ask(who);
}

/// The keeper tells the machine of holders before a waiter joins the line; the world does so here.
void world::hand_on(borrower& who) {
    who.moved = true;
    model_.held_by(who.slot, 0);
    machine_.held_by(who.slot, 0);
}

void world::send_back(borrower& who) {
    slot_id slot = std::exchange(who.slot, core::no_slot);
    places_[slot].given_up = true;
    machine_.release(now_, slot, condition::unfit, 0, std::nullopt, mine_);
    model_.release(now_, slot, condition::unfit, 0);
    absorb();
}

/// Checks a grant: its borrower came before all waiters, unless it may bypass the head, or takes
/// back its own.
void world::receive(borrower& who, slot_id slot, bool from_line) {
    place& p = places_[slot];
    require(!closed_, "a closed pool lends nothing");
    require(!paused_, "a paused pool lends nothing");
    require(circuit_.to != breaker_state::inactive, "an inactive pool lends nothing");
    require(p.exists && !p.dirty && !p.given_up, "only a good resource is lent");
    for (const call& c : calls_) require(c.slot != slot, "no resource is lent during a call");
    const borrower* head = &who;
    for (const borrower& b : borrowers_) {
        require(b.slot != slot, "one borrower at a time");
        if (b.what == doing::waiting && comes_before(b, *head)) head = &b;
    }
    for (const gatherer& g : gatherers_) {
        instant turn_of_it = g.arrived + plan_.settings.head_start;
        bool first =
            g.waits && std::tuple(turn_of_it, g.came) < std::tuple(turn(*head), head->came);
        require(!first, "a gatherer that came first is served first");
    }
    require(!is_gatherers(slot), "one borrower at a time");
    bool bypasses = plan_.settings.fairness == fairness::bounded && !from_line &&
                    head->bypassable && head->rank != priority::reserved &&
                    now_ < core::after(head->arrived, plan_.settings.bypass_for);
    // In a world of turns nothing else is granted at once while there are waiters.
    bool takes_turn = plan_.settings.fairness == fairness::turns && !from_line && has_waiters();
    if (takes_turn) require(take_turn(who, slot), "only a turn overtakes the line");
    require(head == &who || bypasses || takes_turn, "first come, first served");
    p.taken_back = takes_turn ? p.taken_back + 1 : 0;
    if (!takes_turn) p.turn_began = now_;
    seen_.turns += takes_turn;
    require(!from_line || now_ < who.deadline, "no grant comes after the deadline");
    ++seen_.grants;
    who.slot = slot;
    who.moved = false;
    p.fit = false;
    machine_.held_by(slot, thread_of(who));
    model_.held_by(slot, thread_of(who));
    who.trial = circuit_.to == breaker_state::recovering;
    if (!who.trial) return;
    std::size_t trials = 0;
    for (const borrower& b : borrowers_) trials += b.trial && b.slot != core::no_slot;
    require(trials <= circuit_.probes, "a recovering pool lends at most its probes");
}

bool world::has_waiters() const {
    return head() != nullptr || std::any_of(gatherers_.begin(), gatherers_.end(),
                                            [](const gatherer& g) { return g.waits; });
}

/// The borrower that is served next, if no gatherer is.
const world::borrower* world::head() const {
    const borrower* first = nullptr;
    for (const borrower& b : borrowers_)
        if (b.what == doing::waiting && (first == nullptr || comes_before(b, *first))) first = &b;
    return first;
}

/// Whether this thread may have its own back although there are waiters.
bool world::take_turn(const borrower& who, slot_id slot) const {
    const borrower* first = head();
    const place& p = places_[slot];
    if (first == nullptr || is_coroutine(*first) || is_coroutine(who)) return false;
    for (const gatherer& g : gatherers_) {
        instant turn_of_it = g.arrived + plan_.settings.head_start;
        if (g.waits && std::tuple(turn_of_it, g.came) < std::tuple(turn(*first), first->came))
            return false;
    }
    if (first->rank == priority::reserved || who.rank > first->rank) return false;
    constexpr nanoseconds at_least = core::machine::shortest_turn + core::machine::aside_for;
    bool goes_on = p.taken_back < plan_.can.turns || now_ < p.turn_began + at_least;
    return goes_on && p.given_back_by == runs_on(who);
}

/// The number of the thread; coroutines share one.
std::uint64_t world::runs_on(const borrower& who) const {
    if (is_coroutine(who)) return 1'000'000;
    return 1 + index_of(who) / (plan_.pairs ? 2 : 1);
}

/// The thread that the keeper knows as the holder of its leases; 0: none.
std::uint64_t world::thread_of(const borrower& who) const {
    if (!plan_.pairs || is_coroutine(who)) return 0;
    return 1 + index_of(who) / 2;
}

/// The thread that has its lease; 0: unknown.
std::uint64_t world::holder_of(const borrower& who) const { return who.moved ? 0 : thread_of(who); }

/// Whether every lease would be held by a thread that waits, if this one did.
bool world::deadlocks(const borrower& who) const {
    std::uint64_t me = thread_of(who);
    if (me == 0 || !plan_.settings.refuse_deadlock) return false;
    std::size_t leases = 0;
    std::size_t own = 0;
    bool all_wait = true;
    for (const borrower& b : borrowers_) {
        if (b.slot == core::no_slot) continue;
        std::uint64_t thread = holder_of(b);
        bool waits = thread == me;
        for (const borrower& other : borrowers_)
            waits = waits || (other.what == doing::waiting && thread_of(other) == thread);
        if (thread == 0 || !waits) all_wait = false;
        ++leases;
        own += thread == me;
    }
    // While a pool shrinks, nothing is opened in place of what goes.
    std::size_t total = machine_.total();
    std::size_t kept = 0;  // for a waiting gatherer that is served before this borrower
    for (slot_id id = 0; id < machine_.places(); ++id) {
        const core::slot& s = machine_.look(id);
        kept += s.state == slot_state::idle && s.idle == core::idle_kind::kept;
    }
    if (who.rank < priority::normal) kept = 0;
    bool stuck = all_wait && leases + kept == total && total >= max_;
    return own > 0 && (stuck || own + 1 > max_);
}

/// Its arrival, later by a head start for each lower priority.
instant world::turn(const borrower& who) const {
    if (who.rank == priority::reserved) return core::long_ago;
    return who.arrived + plan_.settings.head_start * (static_cast<int>(who.rank) - 1);
}

bool world::comes_before(const borrower& a, const borrower& b) const {
    return std::tuple(turn(a), a.came) < std::tuple(turn(b), b.came);
}

/// The acquire ends with a lease.
void world::hold(borrower& who) {
    const place& p = places_[who.slot];
    require(p.exists && !p.dirty && !p.given_up, "only a good resource is used");
    require(p.fit || !plan_.looks || !is_coroutine(who),
            "before_acquire has looked at what is used");
    ++ended_;
    who.what = doing::holding;
}

/// The acquire ends without a lease.
void world::end(borrower& who) {
    ++ended_;
    who = {};
}

// The connector and the clock.

void world::answer(const call& c, outcome how, bool believed) {
    if (how != outcome::ok) ++seen_.faults;
    auto same = [&](const call& other) { return other.number == c.number; };
    std::erase_if(believed ? calls_ : given_up_, same);
    if (believed) call_ended(c, how);
    bool mine = sim::answer(machine_, now_, c.which, c.slot, c.number, how, mine_);
    bool theirs = model_.answered(now_, c.slot, c.number, c.which, how);
    require(mine == believed, "an answer counts exactly while its call is waited for");
    require(mine == theirs, "answers count as in the model");
}

void world::call_ended(const call& c, outcome how) {
    place& p = places_[c.slot];
    if (c.which == verb::open && how == outcome::ok) p = {.exists = true, .resource = c.number};
    if (c.which == verb::probe && how != outcome::ok) p.given_up = true;
    if (c.which == verb::reset) (how == outcome::ok ? p.dirty : p.given_up) = how != outcome::ok;
    if (c.which == verb::reset) p.owes = false;
    if (c.which == verb::close) p.exists = false;
}

void world::close() {
    closed_ = true;
    machine_.close(now_, mine_);
    model_.close(now_);
}

void world::resize(std::size_t max) {
    max_ = std::max({max, plan_.settings.min_size, plan_.settings.min_idle});
    most_ = std::max(most_, max_);
    places_.resize(std::max(places_.size(), max_));
    machine_.make_places(max_, mine_);
    machine_.resize(now_, max_, mine_);
    model_.resize(now_, max_);
}

void world::pause(bool on) {
    paused_ = on;
    if (on) machine_.pause(now_, mine_);
    else machine_.resume(now_, mine_);
    model_.pause(now_, on);
}

void world::maintain(bool on) {
    maintained_ = on;
    if (on) machine_.resume_maintenance(now_, mine_);
    else machine_.suspend_maintenance(now_, mine_);
    model_.maintain(now_, on);
}

/// The strategy rules on the oldest news, perhaps too late.
bool world::judge() {
    if (news_.empty()) return false;
    core::action heard = news_.front();
    news_.erase(news_.begin());
    breaker_report what{
        .pool = "world", .state = circuit_.to, .at = heard.at, .count = heard.successes};
    std::optional<breaker_move> ruling;
    if (heard.successes > 0) ruling = strategy_.succeeded(what);
    if (heard.news == core::circuit_news::failed)
        if (auto said = strategy_.failed(what)) ruling = said;
    if (heard.news == core::circuit_news::cooled_down) ruling = strategy_.cooled_down(what);
    if (!ruling) return false;
    bool mine = machine_.follow(now_, heard.call, *ruling, mine_);
    bool theirs = model_.follow(now_, heard.call, *ruling);
    require(mine == theirs, "rulings are followed as in the model");
    if (!mine) return false;
    bool recovered =
        circuit_.to == breaker_state::recovering && ruling->to == breaker_state::active;
    require(!recovered || trials_well_ > 0, "only a use that went well ends a recovery");
    circuit_ = *ruling;
    trials_well_ = 0;
    return true;
}

void world::move(const breaker_move& where) {
    circuit_ = where;
    trials_well_ = 0;
    machine_.go(now_, where, mine_);
    model_.go(now_, where);
}

/// False: the timer is late, and the machine was not called.
bool world::pass(std::uint32_t how, std::uint32_t much) {
    instant wake = machine_.wake_at();
    bool a_little = plan_.can.turns > 0 && how % 2 == 1;  // something may still be set aside
    if (a_little) now_ += std::chrono::microseconds{much / 8};
    else if (how < 55 && wake != never) now_ = std::max(now_, wake);
    else if (how < 70) now_ += milliseconds{much % 50};
    else if (how < 80) now_ += milliseconds{much * 4};
    else if (how < 85) now_ += nanoseconds{much};
    else if (how < 95) {
        now_ += milliseconds{much % 50};
        return false;
    }
    machine_.tick(now_, mine_);
    model_.tick(now_);
    return true;
}

// The machine's actions.

void world::absorb() {
    compare_actions();
    for (const core::action& a : mine_) absorb(a);
    mine_.clear();
    model_.actions().clear();
    look_at_gatherers();
}

void world::absorb(const core::action& a) {
    mix(static_cast<std::uint64_t>(a.what) << 8 | static_cast<std::uint64_t>(a.which));
    mix(a.slot);
    mix(a.call);
    mix(a.cookie);
    if (spectator_ != nullptr) note(a);
    switch (a.what) {
        case core::action::kind::call: began(a); break;
        case core::action::kind::abandon: give_up(a); break;
        case core::action::kind::make_way: make_way(a); break;
        case core::action::kind::grant: {
            if (gatherer* g = gatherer_named(a.cookie)) return gathered(*g, a.slot);
            borrower& who = by_cookie(a.cookie);
            receive(who, a.slot, true);
            granted(who, true);
            break;
        }
        case core::action::kind::refuse: {
            if (gatherer* g = gatherer_named(a.cookie)) return sent_away(*g, a);
            borrower& who = by_cookie(a.cookie);
            require((a.error == errc::closed) == closed_,
                    "closed pools refuse with closed, others never");
            require(a.error != errc::canceled || who.stopped || who.withdrawn,
                    "only a canceled waiter is refused with canceled");
            require(a.error != errc::timed_out || now_ >= who.deadline, "no timeout comes early");
            require(a.error != errc::shed || (plan_.settings.shed.target != forever_ns &&
                                              who.rank != priority::reserved &&
                                              now_ >= who.arrived + 2 * plan_.settings.shed.target),
                    "only a waiter that has waited long is shed");
            require(a.error != errc::unavailable || circuit_.to != breaker_state::active,
                    "only an interrupted circuit makes a pool unavailable");
            refused(who);
            break;
        }
        case core::action::kind::report: reported(a); break;
        case core::action::kind::judge: news_.push_back(a); break;
    }
}

void world::give_up(const core::action& a) {
    auto found = std::find_if(calls_.begin(), calls_.end(),
                              [&](const call& c) { return c.number == a.call; });
    require(found != calls_.end(), "only a call in flight is given up");
    require(now_ >= found->deadline, "no call is given up before its deadline");
    if (found->which == verb::close) places_[a.slot].exists = false;
    given_up_.push_back(*found);
    calls_.erase(found);
}

/// Only the youngest open makes way, and another one stays.
void world::make_way(const core::action& a) {
    auto found = std::find_if(calls_.begin(), calls_.end(),
                              [&](const call& c) { return c.number == a.call; });
    require(found != calls_.end() && found->which == verb::open, "an open makes way");
    bool others = false;
    for (const call& c : calls_) {
        if (c.which != verb::open || c.number == a.call || c.deadline == never) continue;
        others = true;
        require(c.number < a.call, "the youngest makes way");
    }
    require(others || plan_.calls_wait, "an open makes way only for another");
    given_up_.push_back(*found);
    given_up_.back().made_way = true;
    calls_.erase(found);
}

void world::began(const core::action& a) {
    place& p = places_[a.slot];
    require(p.exists == (a.which != verb::open), "opens fill empty slots, other calls full ones");
    require(a.which != verb::open || !paused_, "a paused pool opens nothing");
    require(a.which != verb::probe || !p.owes, "what owes a reset is not probed");
    require(a.which != verb::open || circuit_.to != breaker_state::inactive,
            "an inactive pool opens nothing");
    for (std::size_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i].slot != a.slot) continue;
        // The call before was given up: a resource that does not answer is closed.
        require(a.which == verb::close && now_ >= calls_[i].deadline, "one call at a time");
        given_up_.push_back(calls_[i]);
        calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(i));
        break;
    }
    for (const borrower& b : borrowers_) require(b.slot != a.slot, "no call on a leased resource");
    require(!is_gatherers(a.slot), "no call on a leased resource");
    calls_.push_back({.which = a.which, .slot = a.slot, .number = a.call});
    if (!plan_.calls_wait) start(calls_.back());
}

void world::start(call& c) {
    if (c.deadline != never) return;
    c.deadline = core::after(now_, timeout_of(c.which, plan_.settings));
    machine_.begun(now_, c.slot, c.number);
    model_.begun(now_, c.slot, c.number);
}

/// Checks the order of the events of a resource.
void world::reported(const core::action& a) {
    place* p = nullptr;
    for (place& candidate : places_)
        if (candidate.resource == a.call) p = &candidate;
    if (p == nullptr) return;
    auto last = std::exchange(p->last_event, a.event);
    switch (a.event) {
        case event_kind::acquired:
            require(last != event_kind::acquired && last != event_kind::retired,
                    "acquired follows opened or released");
            break;
        case event_kind::released:
        case event_kind::detached:
            require(last == event_kind::acquired, "released follows acquired");
            break;
        case event_kind::closed:
            require(last != event_kind::acquired, "closed never follows acquired");
            break;
        default: break;
    }
}

// Comparing and checking.

void world::compare_answers(const core::answer& mine, const core::answer& theirs) {
    require(mine.what == theirs.what && mine.error == theirs.error && mine.slot == theirs.slot &&
                mine.ticket == theirs.ticket,
            "acquire is answered as in the model");
    mix(static_cast<std::uint64_t>(mine.what));
    mix(mine.slot);
}

void world::compare_actions() {
    static thread_local core::actions left;
    left.clear();
    for (const core::action& a : mine_)
        if (a.what != core::action::kind::report) left.push_back(a);
    require(left == model_.actions(), "machine and model act alike, in the same order");
}

void world::look() {
    machine_.check(now_);
    seen_.passed_on = machine_.passed_on();
    seen_.lent_now = machine_.lent_now();
    stats s;
    machine_.read(s);
    compare(machine_, model_, s);
    look_at_borrowers(s);
    look_at_debts(s);
    if (const char* wrong = watch_.look(now_, machine_)) throw finding(wrong);
    std::size_t existing = 0;
    for (const place& p : places_) existing += p.exists;
    std::size_t opening = 0;
    for (const call& c : calls_) opening += c.which == verb::open;
    require(existing + opening == s.total, "every resource is counted");
    std::size_t strays = 0;  // they may still come to be
    for (const call& c : given_up_) strays += c.made_way && now_ < c.deadline;
    std::size_t all = existing + opening + strays;
    require(all <= most_, "never more than max, but for what a resize left over");
    most_ = std::max(max_, all);
    mix(static_cast<std::uint64_t>(now_.time_since_epoch().count()));
}

void world::look_at_borrowers(const stats& s) const {
    std::size_t leases = 0;
    std::size_t waiting = 0;
    std::size_t suspended = 0;
    for (const borrower& b : borrowers_) {
        leases += b.slot != core::no_slot;
        waiting += b.what == doing::waiting;
        suspended += is_suspended(b);
        require(b.what != doing::waiting || now_ < b.deadline, "no waiter waits past its deadline");
        require(b.what != doing::waiting || !(b.stopped || b.withdrawn),
                "a canceled waiter is not in line");
    }
    for (const gatherer& g : gatherers_) {
        leases += g.slots.size();
        waiting += g.waits;
        suspended += g.waits;
        require(!g.waits || now_ < g.deadline, "no waiter waits past its deadline");
    }
    require(s.leased == leases, "every lease has a borrower");
    require(s.waiting == waiting, "the line holds the waiting borrowers");
    require((s.state == pool_state::closed) == closed_, "closed is reported as it is");
    require((s.state == pool_state::paused) == (paused_ && !closed_),
            "paused is reported as it is");
    require(begun_ == ended_ + suspended, "every acquire is in progress or has ended, once");
    require(s.acquires == asks_ + attempts_, "acquires are counted once");
    require(s.refused(errc::canceled) == seen_.cancels, "cancels are counted once");
}

/// What owes a reset is reset in time, unless it is leased or a waiter will get it.
void world::look_at_debts(const stats& s) const {
    for (slot_id id = 0; id < places_.size(); ++id) {
        const place& p = places_[id];
        const core::slot& is = machine_.look(id);
        bool stays = is.state == slot_state::idle && is.idle != core::idle_kind::doomed;
        if (!p.exists || !p.owes || !stays) continue;
        require(!paused_ && maintained_, "nothing idle owes a reset where none is made");
        require(s.waiting > 0 || now_ < core::after(p.owes_since, plan_.settings.reset_after),
                "a reset that is owed is made in time");
    }
}

void world::mix(std::uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001b3u; }

std::size_t world::index_of(const borrower& who) const {
    return static_cast<std::size_t>(&who - borrowers_.data());
}

/// The waiter with this cookie.
world::borrower& world::by_cookie(std::uint64_t cookie) {
    borrower& who = borrowers_[cookie % borrowers_.size()];
    require(who.cookie == cookie && who.what == doing::waiting, "only a waiter is answered");
    return who;
}

// Liveness.

/// One step of a world without failures: answers a call, resumes a borrower, or ends a lease.
/// False: there is nothing to do but to wait.
bool world::serve_once() {
    if (!calls_.empty()) {
        step({.what = decision::kind::answer, .a = 0, .b = 0});
        return true;
    }
    for (std::uint32_t i = 0; i < gatherers_.size(); ++i)
        if (!gatherers_[i].slots.empty()) {
            step({.what = decision::kind::scatter, .a = i, .b = 0});
            return true;
        }
    for (std::uint32_t i = 0; i < borrowers_.size(); ++i)
        for (auto what : {decision::kind::admit, decision::kind::resume, decision::kind::release})
            if (fits(borrowers_[i], what)) {
                step({.what = what, .a = i, .b = 0});
                return true;
            }
    return false;
}

void world::finish() {
    // Every waiter is served within the longest backoff, in a number of steps that depends only on
    // the number of borrowers.
    step({.what = decision::kind::unpause});
    step({.what = decision::kind::breaker, .a = 0});
    std::size_t steps_max = 2000 + 20 * borrowers_.size();
    instant limit = now_ + plan_.settings.backoff.cap_waiting * 2 + plan_.settings.bypass_for +
                    std::chrono::seconds{1};
    std::size_t opens_at_most =
        2 * borrowers_.size() + (1 + gatherers_.size()) * places_.size() + 4;
    if (auto rate = plan_.settings.open_rate.per_second; rate != std::uint64_t{forever})
        limit += nanoseconds{std::chrono::seconds{1}} / static_cast<std::int64_t>(rate) *
                 static_cast<std::int64_t>(opens_at_most);
    auto any = [&](bool (*is)(const borrower&)) {
        return std::any_of(borrowers_.begin(), borrowers_.end(), is);
    };
    for (std::size_t i = 0; any(is_suspended) || has_waiters(); ++i) {
        require(i < steps_max, "every waiter is served once failures have stopped");
        require(now_ <= limit, "every waiter is served in time once failures have stopped");
        if (!serve_once()) step({.what = decision::kind::pass, .a = 0, .b = 0});
    }
    step({.what = decision::kind::close});
    for (std::size_t i = 0; !machine_.drained(); ++i) {
        require(i < steps_max, "a closed pool drains");
        if (!serve_once()) step({.what = decision::kind::pass, .a = 0, .b = 0});
    }
    require(!any([](const borrower& b) { return b.what != doing::nothing; }) && calls_.empty(),
            "nothing stays behind");
    for (const place& p : places_) require(!p.exists, "everything is closed at the end");
}

}  // namespace cenote::sim
