// The simulated world: decisions in, findings out.
#include "sim/world.hpp"

#include <algorithm>
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

bool earlier(const core::action& a, const core::action& b) {
    auto key = [](const core::action& x) {
        return std::tuple(x.what, x.slot, x.call, x.cookie, x.which, x.error);
    };
    return key(a) < key(b);
}

nanoseconds timeout_of(verb which, const options& o) {
    switch (which) {
        case verb::open: return o.open_timeout;
        case verb::probe: return o.probe_timeout;
        case verb::reset: return o.reset_timeout;
        case verb::close: break;
    }
    return o.close_timeout;
}

}  // namespace

void tallies::add(const tallies& other) {
    steps += other.steps;
    grants += other.grants;
    refusals += other.refusals;
    cancels += other.cancels;
    faults += other.faults;
}

world::world(const plan& p)
    : plan_(p),
      random_(p.seed),
      now_(epoch),
      machine_(p.settings, p.can, p.reports, p.seed, now_),
      model_(p.settings, p.can, p.seed, now_),
      borrowers_(p.borrowers),
      places_(p.settings.max) {
    machine_.start(now_, mine_);
    model_.start(now_, theirs_);
    absorb();
    look();
}

void world::require(bool holds, const char* what) {
    if (!holds) throw finding(what);
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
    if (d.what == decision::kind::answer && calls_.empty()) d.what = decision::kind::pass;
    d.b = static_cast<std::uint32_t>(random_.below(1000));
    if (d.what == decision::kind::answer || d.what == decision::kind::start ||
        d.what == decision::kind::late) {
        d.a = static_cast<std::uint32_t>(random_.below(16));
        bool fails = random_.chance(plan_.fault_percent);
        bool finally = fails && random_.chance(plan_.final_percent);
        d.b = static_cast<std::uint32_t>(finally ? outcome::failed_finally
                                         : fails ? outcome::failed
                                                 : outcome::ok);
    } else if (d.what == decision::kind::pass) {
        d.a = static_cast<std::uint32_t>(random_.below(100));
    } else if (d.what == decision::kind::acquire) {
        d.b = random_.chance(plan_.patient_percent)
                  ? 0
                  : 1 + static_cast<std::uint32_t>(random_.below(random_.chance(30) ? 20 : 600));
    } else if (d.what == decision::kind::release) {
        bool clean = !random_.chance(plan_.fault_percent);
        d.b = clean ? 0 : static_cast<std::uint32_t>(random_.below(4));
    }
    return d;
}

/// Finds a borrower who can do what was decided. False if there is none.
bool world::choose_borrower(decision& d) {
    auto fits = [&](const borrower& b) {
        switch (d.what) {
            case decision::kind::acquire:
            case decision::kind::attempt: return b.what == doing::nothing;
            case decision::kind::cancel: return b.what != doing::nothing;
            case decision::kind::release:
            case decision::kind::detach:
            case decision::kind::reject: return b.what == doing::holding;
            default: return true;
        }
    };
    auto first = static_cast<std::uint32_t>(random_.below(plan_.borrowers));
    for (std::uint32_t i = 0; i < borrowers_.size(); ++i) {
        d.a = static_cast<std::uint32_t>((first + i) % borrowers_.size());
        if (fits(borrowers_[d.a])) return true;
    }
    return false;
}

void world::step(const decision& d) {
    bool asked = d.what <= decision::kind::reject ? borrow(d, borrowers_[d.a % borrowers_.size()])
                                                  : happen(d);
    ++seen_.steps;
    if (!asked)
        return;  // time may have passed without the timer: the next one must not depend on it
    absorb();
    look();
    if (seen_.steps % 8 == 0) settle_again();
}

bool world::borrow(const decision& d, borrower& who) {
    bool free = who.what == doing::nothing;
    bool holding = who.what == doing::holding;
    switch (d.what) {
        case decision::kind::acquire:
            if (free) acquire(who, d.b == 0 ? never : now_ + milliseconds{d.b - 1}, 0, {});
            return free;
        case decision::kind::attempt:
            if (free) attempt(who);
            return free;
        case decision::kind::cancel:
            if (!free) cancel(who);
            return !free;
        case decision::kind::release:
            if (holding) release(who, static_cast<condition>(d.b % 4));
            return holding;
        case decision::kind::detach:
            if (holding) detach(who);
            return holding;
        case decision::kind::reject:
            if (holding) reject(who);
            return holding;
        default: return false;
    }
}

bool world::happen(const decision& d) {
    switch (d.what) {
        case decision::kind::answer:
            if (calls_.empty()) return false;
            start(calls_[d.a % calls_.size()]);
            answer(call(calls_[d.a % calls_.size()]), static_cast<outcome>(d.b % 3), true);
            return true;
        case decision::kind::start:
            if (calls_.empty()) return false;
            start(calls_[d.a % calls_.size()]);
            machine_.tick(now_, mine_);
            model_.tick(now_, theirs_);
            return true;
        case decision::kind::late:
            if (given_up_.empty()) return false;
            answer(call(given_up_[d.a % given_up_.size()]), static_cast<outcome>(d.b % 3), false);
            return true;
        case decision::kind::pass: return pass(d.a, d.b);
        case decision::kind::retire_all:
            machine_.retire_all(now_, mine_);
            model_.retire_all(now_, theirs_);
            return true;
        case decision::kind::suspect_all:
            machine_.suspect_all(now_, mine_);
            model_.suspect_all(now_, theirs_);
            return true;
        case decision::kind::close:
            closed_ = true;
            machine_.close(now_, mine_);
            model_.close(now_, theirs_);
            return true;
        default: return false;
    }
}

/// Whatever could be decided has been: asking again at the same time changes nothing.
void world::settle_again() {
    machine_.tick(now_, mine_);
    require(mine_.empty(), "settling twice changes nothing");
    model_.tick(now_, theirs_);
    absorb();
}

// What borrowers and the connector do.

void world::acquire(borrower& who, instant deadline, std::uint64_t ticket, instant arrived) {
    who.cookie = ++last_cookie_;
    who.deadline = deadline;
    who.arrived = ticket != 0 ? arrived : now_;
    core::request r{.deadline = deadline,
                    .cookie = who.cookie,
                    .bypassable = who.cookie % 4 != 0,
                    .ticket = ticket,
                    .arrived = arrived,
                    .again = ticket != 0};
    core::answer mine = machine_.acquire(now_, r, mine_);
    core::answer theirs = model_.acquire(now_, r, theirs_);
    compare_answers(mine, theirs);
    who.ticket = mine.ticket;
    who.waiter = mine.waiter;
    switch (mine.what) {
        case core::answer::kind::granted: lent(who, mine.slot, false); break;
        case core::answer::kind::waiting: who.what = doing::waiting; break;
        case core::answer::kind::refused:
            ++seen_.refusals;
            require(mine.error != errc::closed || closed_, "only a closed pool says closed");
            who = {};
    }
}

void world::attempt(borrower& who) {
    auto mine = machine_.try_acquire(now_, mine_);
    require(mine == model_.try_acquire(now_, theirs_), "try_acquire as in the model");
    if (mine) {
        who.arrived = now_;
        who.deadline = now_;
        who.ticket = 0;
        lent(who, *mine, false);
    }
}

void world::cancel(borrower& who) {
    bool in_line = who.what == doing::waiting;
    seen_.cancels += in_line;
    // If the grant came first, the cancel finds nobody and must change nothing.
    require(machine_.cancel(now_, who.waiter, mine_) == in_line, "who waits can cancel, no other");
    require(model_.cancel(now_, who.cookie, theirs_) == in_line, "so it is in the model");
}

void world::detach(borrower& who) {
    slot_id slot = who.slot;
    places_[slot] = {};
    who = {};
    machine_.detach(now_, slot, mine_);
    model_.detach(now_, slot, theirs_);
}

void world::release(borrower& who, condition how) {
    place& p = places_[who.slot];
    p.dirty = how == condition::dirty;
    p.given_up = how == condition::discard || how == condition::rejected;
    slot_id slot = who.slot;
    who = {};
    machine_.release(now_, slot, how, 0, nanoseconds{0}, mine_);
    model_.release(now_, slot, how, 0, theirs_);
}

/// A lease whose resource its hook refused: the resource goes, and the borrower back to its place.
void world::reject(borrower& who) {
    borrower before = who;
    places_[who.slot].given_up = true;
    who.what = doing::nothing;
    machine_.release(now_, before.slot, condition::unfit, 0, std::nullopt, mine_);
    model_.release(now_, before.slot, condition::unfit, 0, theirs_);
    absorb();
    acquire(who, std::max(before.deadline, now_), before.ticket, before.arrived);
}

void world::answer(const call& c, outcome how, bool believed) {
    if (how != outcome::ok) ++seen_.faults;
    auto same = [&](const call& other) { return other.number == c.number; };
    std::erase_if(believed ? calls_ : given_up_, same);
    if (believed) call_ended(c, how);
    bool mine = false;
    bool theirs = false;
    switch (c.which) {
        case verb::open:
            mine = machine_.on_open(now_, c.slot, c.number, how, mine_);
            theirs = model_.on_open(now_, c.slot, c.number, how, theirs_);
            break;
        case verb::probe:
            mine = machine_.on_probe(now_, c.slot, c.number, how, mine_);
            theirs = model_.on_probe(now_, c.slot, c.number, how, theirs_);
            break;
        case verb::reset:
            mine = machine_.on_reset(now_, c.slot, c.number, how, mine_);
            theirs = model_.on_reset(now_, c.slot, c.number, how, theirs_);
            break;
        case verb::close:
            mine = machine_.on_close(now_, c.slot, c.number, how, mine_);
            theirs = model_.on_close(now_, c.slot, c.number, how, theirs_);
    }
    require(mine == believed, "an answer counts exactly while its call is waited for");
    require(mine == theirs, "answers count as in the model");
}

void world::call_ended(const call& c, outcome how) {
    place& p = places_[c.slot];
    if (c.which == verb::open && how == outcome::ok) p = {.exists = true, .resource = c.number};
    if (c.which == verb::probe && how != outcome::ok) p.given_up = true;
    if (c.which == verb::reset) (how == outcome::ok ? p.dirty : p.given_up) = how != outcome::ok;
    if (c.which == verb::close) p.exists = false;
}

/// False: the timer is late, and nobody has told the machine of the time.
bool world::pass(std::uint32_t how, std::uint32_t much) {
    instant wake = machine_.wake_at();
    if (how < 55 && wake != never) now_ = std::max(now_, wake);
    else if (how < 70) now_ += milliseconds{much % 50};
    else if (how < 80) now_ += milliseconds{much * 4};
    else if (how < 85) now_ += nanoseconds{much};
    else if (how < 95) {
        now_ += milliseconds{much % 50};
        return false;
    }
    machine_.tick(now_, mine_);
    model_.tick(now_, theirs_);
    return true;
}

// What the machine did.

void world::absorb() {
    compare_actions();
    for (const core::action& a : mine_) absorb(a);
    mine_.clear();
    theirs_.clear();
}

void world::absorb(const core::action& a) {
    mix(static_cast<std::uint64_t>(a.what) << 8 | static_cast<std::uint64_t>(a.which));
    mix(a.slot);
    mix(a.call);
    mix(a.cookie);
    switch (a.what) {
        case core::action::kind::call: began(a); break;
        case core::action::kind::abandon: {
            auto found = std::find_if(calls_.begin(), calls_.end(),
                                      [&](const call& c) { return c.number == a.call; });
            require(found != calls_.end(), "only a call in flight is given up");
            require(now_ >= found->deadline, "no call is given up before its deadline");
            if (found->which == verb::close) places_[a.slot].exists = false;
            given_up_.push_back(*found);
            calls_.erase(found);
            break;
        }
        case core::action::kind::grant: {
            borrower* who = by_cookie(a.cookie);
            require(who != nullptr && who->what == doing::waiting, "who is granted, waits");
            lent(*who, a.slot, true);
            break;
        }
        case core::action::kind::refuse: {
            borrower* who = by_cookie(a.cookie);
            require(who != nullptr && who->what == doing::waiting, "who is refused, waits");
            require((a.error == errc::closed) == closed_, "closed is said by closed pools, always");
            require(a.error != errc::timed_out || now_ >= who->deadline, "no timeout comes early");
            ++seen_.refusals;
            *who = {};
            break;
        }
        case core::action::kind::report: reported(a); break;
    }
}

void world::began(const core::action& a) {
    place& p = places_[a.slot];
    require(p.exists == (a.which != verb::open), "opens fill empty slots, other calls full ones");
    for (std::size_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i].slot != a.slot) continue;
        // The call before it was given up: a resource that does not answer is closed.
        require(a.which == verb::close && now_ >= calls_[i].deadline, "one call at a time");
        given_up_.push_back(calls_[i]);
        calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(i));
        break;
    }
    for (const borrower& b : borrowers_)
        require(b.what != doing::holding || b.slot != a.slot, "no call on a leased resource");
    calls_.push_back({.which = a.which, .slot = a.slot, .number = a.call});
    if (!plan_.calls_wait) start(calls_.back());
}

void world::start(call& c) {
    if (c.deadline != never) return;
    c.deadline = core::after(now_, timeout_of(c.which, plan_.settings));
    machine_.begun(now_, c.slot, c.number);
    model_.begun(now_, c.slot, c.number);
}

void world::lent(borrower& who, slot_id slot, bool from_line) {
    const place& p = places_[slot];
    require(!closed_, "a closed pool lends nothing");
    require(p.exists && !p.dirty && !p.given_up, "only a good resource is lent");
    for (const call& c : calls_) require(c.slot != slot, "no resource is lent during a call");
    for (const borrower& b : borrowers_) {
        require(b.what != doing::holding || b.slot != slot, "one borrower at a time");
        bool overtaken =
            b.what == doing::waiting && &b != &who && (!from_line || b.ticket < who.ticket);
        bool bypassed = plan_.settings.fairness == fairness::bounded;
        require(!overtaken || bypassed, "first come, first served");
    }
    require(!from_line || now_ < who.deadline, "nobody is granted after the deadline");
    ++seen_.grants;
    who.what = doing::holding;
    who.slot = slot;
}

/// Events come in a legal order per resource.
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
    // The model settles ties between equal deadlines its own way, so the order is not compared.
    static thread_local core::actions left;
    left.clear();
    for (const core::action& a : mine_)
        if (a.what != core::action::kind::report) left.push_back(a);
    std::sort(left.begin(), left.end(), earlier);
    std::sort(theirs_.begin(), theirs_.end(), earlier);
    require(left == theirs_, "machine and model act alike");
}

void world::look() {
    machine_.check(now_);
    stats s;
    machine_.read(s);
    require(s.leased == model_.count(slot_state::leased), "as many leased as in the model");
    require(s.idle == model_.count(slot_state::idle), "as many idle as in the model");
    require(s.opening == model_.count(slot_state::opening), "as many opening as in the model");
    require(s.probing == model_.count(slot_state::probing), "as many probing as in the model");
    require(s.closing == model_.count(slot_state::closing), "as many closing as in the model");
    require(s.waiting == model_.waiting(), "as many waiting as in the model");
    require(machine_.wake_at() == model_.wake_at(), "the timer is set as in the model");
    std::size_t holding = 0;
    std::size_t waiting = 0;
    for (const borrower& b : borrowers_) {
        holding += b.what == doing::holding;
        waiting += b.what == doing::waiting;
        require(b.what != doing::waiting || now_ < b.deadline, "nobody waits past the deadline");
    }
    require(s.leased == holding, "leased is what borrowers hold");
    require(s.waiting == waiting, "in line is who waits");
    std::size_t existing = 0;
    for (const place& p : places_) existing += p.exists;
    std::size_t opening = 0;
    for (const call& c : calls_) opening += c.which == verb::open;
    require(existing + opening == s.total, "what counts is what exists");
    require(existing + opening <= plan_.settings.max, "never more than max");
    mix(static_cast<std::uint64_t>(now_.time_since_epoch().count()));
}

void world::mix(std::uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001b3u; }

world::borrower* world::by_cookie(std::uint64_t cookie) {
    for (borrower& b : borrowers_)
        if (b.cookie == cookie && b.what != doing::nothing) return &b;
    return nullptr;
}

// Liveness.

/// One step of a world in which everything works: answer a call, return a lease, or let time
/// pass. False if there was nothing left to do but to wait.
bool world::serve_once() {
    if (!calls_.empty()) {
        step({.what = decision::kind::answer, .a = 0, .b = 0});
        return true;
    }
    for (std::uint32_t i = 0; i < borrowers_.size(); ++i) {
        if (borrowers_[i].what == doing::holding) {
            step({.what = decision::kind::release, .a = i, .b = 0});
            return true;
        }
    }
    return false;
}

void world::finish() {
    auto somebody = [&](doing what) {
        return std::any_of(borrowers_.begin(), borrowers_.end(),
                           [&](const borrower& b) { return b.what == what; });
    };
    // Whoever waits when the faults stop is served within the longest backoff, and that by a number
    // of steps that only depends on how many there are.
    instant limit = now_ + plan_.settings.backoff.cap_waiting * 2 + plan_.settings.bypass_for +
                    std::chrono::seconds{1};
    for (std::size_t i = 0; somebody(doing::waiting); ++i) {
        require(i < 2000, "everybody is served once faults have stopped");
        require(now_ <= limit, "everybody is served in time once faults have stopped");
        if (!serve_once()) step({.what = decision::kind::pass, .a = 0, .b = 0});
    }
    step({.what = decision::kind::close});
    for (std::size_t i = 0; !machine_.drained(); ++i) {
        require(i < 2000, "a closed pool drains");
        if (!serve_once()) step({.what = decision::kind::pass, .a = 0, .b = 0});
    }
    require(!somebody(doing::holding) && calls_.empty(), "nothing stays behind");
    for (const place& p : places_) require(!p.exists, "everything is closed at the end");
}

}  // namespace cenote::sim
