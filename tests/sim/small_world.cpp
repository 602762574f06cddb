// Plays the script of a small world and checks everything after every step.
#include "sim/small_world.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <ostream>
#include <tuple>
#include <utility>

#include "core/ensure.hpp"
#include "sim/world.hpp"

namespace cenote::sim {

using core::action;
using core::after;
using core::condition;
using core::duration;
using core::instant;
using core::never;
using core::outcome;
using core::slot_id;
using core::slot_state;
using core::verb;
using std::chrono::milliseconds;

namespace {

const instant beginning = instant{} + std::chrono::hours{1};
constexpr std::size_t steps_max = 2000;
constexpr duration usual = milliseconds{1};  // of a connector's call after the script
// How long the executor of a coroutine and the threads of the pool are busy with others.
constexpr duration busy = std::chrono::microseconds{500};
constexpr char not_yet = '-';

char letter_of(errc e) {
    switch (e) {
        case errc::timed_out: return 't';
        case errc::closed: return 'c';
        case errc::open_failed: return 'f';
        case errc::canceled: return 'x';
        default: throw finding("this world knows every reason for a refusal");
    }
}

class small_world {
public:
    small_world(const script& s, const std::vector<cancellation>& cancels, std::ostream* trace);
    account run();

private:
    // If there is a before_acquire, a coroutine with a grant is admitting until a thread looks at
    // its resource, and looked_at while the thread does. It is told until it is resumed.
    enum class doing : std::uint8_t { nothing, waiting, admitting, looked_at, told, holding };
    struct borrower {
        doing what = doing::nothing;
        std::size_t visits = 0;  // begun
        std::string ends;
        core::waiter_id waiter{};
        std::uint64_t cookie = 0;
        std::uint64_t ticket = 0;
        std::uint64_t came = 0;  // its place in line by the world's own count
        instant arrived{};
        instant deadline{};
        slot_id slot = core::no_slot;
        bool wants_out = false;     // is being canceled
        bool stopped = false;       // was canceled
        bool withdrawn = false;     // was destroyed: must not be told
        char told = not_yet;        // how its visit ends when it is resumed
        bool hook_is_mute = false;  // its hook does not answer, so its lease does not end
        bool fit = false;           // before_acquire has said yes
    };
    struct call {
        verb which{};
        slot_id slot = core::no_slot;
        std::uint64_t number = 0;
        instant deadline{};
    };
    struct place {
        bool exists = false;
        bool dirty = false;
        bool given_up = false;  // discarded, rejected or dead: must not be lent again
    };
    struct event {
        enum class kind : std::uint8_t {
            arrive,
            look,
            looked,
            resume,
            leave,
            let_go,
            answer,
            happen
        };
        instant at{};
        std::uint64_t since = 0;  // of two at the same time the smaller is first
        kind what{};
        std::uint64_t whose = 0;  // borrower, call or happening
        outcome how{};
    };

    // The course of time.
    bool step();
    void tick();
    void happen(const event& e);
    void happen(happening::kind what);
    void play_to_the_end();
    void stop_faults();
    void close_and_drain();
    instant next_at() const;
    void plan(event::kind what, instant at, std::uint64_t whose, outcome how = outcome::ok);
    reply next_reply(party who);

    // Borrowers.
    void arrive(borrower& who);
    void acquire(borrower& who, bool again);
    void receive(borrower& who, slot_id slot, bool from_line);
    void be_looked_at(borrower& who);
    void granted(borrower& who, bool from_line);
    void tell(borrower& who, char how);
    void resume(borrower& who);
    void give_back(borrower& who);
    void looked(borrower& who, outcome how);
    void be_served(borrower& who);
    void send_back(borrower& who);
    void leave(borrower& who);
    void let_go(borrower& who, condition how);
    void detach(borrower& who);
    void cancel(borrower& who);
    void destroy(borrower& who);
    void take_out(borrower& who);
    void vanish(borrower& who);
    void end(borrower& who, char how);
    void come_again(borrower& who);
    bool none(doing what) const;
    bool none_is_suspended() const;
    static bool is_suspended(const borrower& who) {
        return who.what != doing::nothing && who.what != doing::holding;
    }
    bool is_coroutine(const borrower& who) const {
        return script_.played_by == cast::coroutines ||
               (script_.played_by == cast::mixed && index_of(who) % 2 != 0);
    }
    std::uint64_t index_of(const borrower& who) const {
        return static_cast<std::uint64_t>(&who - borrowers_.data());
    }
    const visit& present_visit(const borrower& who) const {
        return script_.borrowers[index_of(who)][who.visits - 1];
    }

    // The connector.
    void began(const action& a);
    void answer(std::uint64_t number, outcome how);
    bool tell(const call& c, outcome how);
    void call_ended(const call& c, outcome how);
    void give_up(std::size_t index);

    // Looking.
    void absorb();
    void absorb(const action& a);
    void refused(borrower& who, errc error);
    void compare_actions();
    void look();
    void look_at_counts();
    void note_who_is_suspended();
    void balance();
    void say(const char* what, std::uint64_t whose, std::uint64_t more = 0);

    const script& script_;
    const std::vector<cancellation>& cancels_;
    std::ostream* trace_;
    instant now_ = beginning;
    core::machine machine_;
    model model_;
    core::actions mine_;
    std::vector<borrower> borrowers_;
    std::vector<event> events_;
    std::vector<call> calls_, given_up_;
    std::vector<place> places_;
    stats seen_;
    account account_;
    bool closed_ = false;
    bool faults_ = true;
    bool failed_finally_ = false;  // an open has
    std::uint64_t last_event_ = 0, last_cookie_ = 0, last_came_ = 0;
    std::uint64_t acquires_ = 0, canceled_ = 0, opened_ = 0, closes_ = 0, detached_ = 0;
};

small_world::small_world(const script& s, const std::vector<cancellation>& cancels,
                         std::ostream* trace)
    : script_(s),
      cancels_(cancels),
      trace_(trace),
      machine_(s.settings, {.probe = true, .reset = true}, false, 1, beginning),
      model_(s.settings, {.probe = true, .reset = true}, 1, beginning),
      borrowers_(s.borrowers.size()),
      places_(s.settings.max) {
    for (std::size_t i = 0; i < borrowers_.size(); ++i) {
        borrowers_[i].ends.assign(s.borrowers[i].size(), not_yet);
        come_again(borrowers_[i]);
    }
    for (std::size_t i = 0; i < s.happenings.size(); ++i)
        plan(event::kind::happen, beginning + s.happenings[i].at, i);
}

account small_world::run() {
    machine_.start(now_, mine_);
    model_.tick(now_);
    absorb();
    look();
    play_to_the_end();
    stop_faults();
    close_and_drain();
    balance();
    for (const borrower& b : borrowers_) account_.ends += b.ends;
    return account_;
}

// The course of time.

void small_world::play_to_the_end() {
    auto over = [&] {
        if (next_at() > after(beginning, script_.lasts)) return true;
        return none_is_suspended() && none(doing::holding) &&
               std::none_of(events_.begin(), events_.end(), [](const event& e) {
                   return e.what == event::kind::arrive || e.what == event::kind::happen;
               });
    };
    while (!over()) require(step(), "no waiter is forgotten");
}

/// From now on there are no failures and no new acquires. Every waiter must be served in time.
void small_world::stop_faults() {
    faults_ = false;
    std::erase_if(events_, [](const event& e) { return e.what == event::kind::arrive; });
    for (borrower& b : borrowers_) {
        if (!std::exchange(b.hook_is_mute, false)) continue;
        plan(b.fit ? event::kind::let_go : event::kind::looked, now_, index_of(b));
    }
    instant limit = now_ + std::chrono::seconds{1};
    while (!none(doing::waiting)) {
        require(step(), "no waiter is forgotten once failures have stopped");
        require(now_ <= limit, "every waiter is served in time once failures have stopped");
    }
}

void small_world::close_and_drain() {
    happen(happening::kind::close);
    absorb();
    look();
    // Late answers are part of it.
    while (!machine_.drained() || !events_.empty()) require(step(), "a closed pool drains");
}

instant small_world::next_at() const {
    instant at = machine_.wake_at();
    for (const event& e : events_) at = std::min(at, e.at);
    return at;
}

bool small_world::step() {
    instant at = next_at();
    if (at == never) return false;
    require(++account_.steps < steps_max, "every script comes to its end");
    now_ = std::max(now_, at);
    auto earlier = [](const event& a, const event& b) {
        return std::tie(a.at, a.since) < std::tie(b.at, b.since);
    };
    auto next = std::min_element(events_.begin(), events_.end(), earlier);
    if (next != events_.end() && next->at <= at) {
        event e = *next;
        events_.erase(next);
        happen(e);
    } else {
        say("the timer", 0);
        tick();
    }
    absorb();
    look();
    note_who_is_suspended();
    for (const cancellation& c : cancels_) {
        if (c.step != account_.steps) continue;
        if (c.destroys) destroy(borrowers_[c.who]);
        else cancel(borrowers_[c.who]);
    }
    return true;
}

/// Also called for an event that the machine does not see: its timer may be due now.
void small_world::tick() {
    machine_.tick(now_, mine_);
    model_.tick(now_);
}

void small_world::happen(const event& e) {
    switch (e.what) {
        case event::kind::arrive: return arrive(borrowers_[e.whose]);
        case event::kind::look: be_looked_at(borrowers_[e.whose]); return tick();
        case event::kind::resume: resume(borrowers_[e.whose]); return tick();
        case event::kind::looked: return looked(borrowers_[e.whose], e.how);
        case event::kind::leave: return leave(borrowers_[e.whose]);
        case event::kind::let_go: {
            borrower& who = borrowers_[e.whose];
            bool dirty = present_visit(who).by == ending::mark_dirty;
            condition kept = dirty ? condition::dirty : condition::clean;
            return let_go(who, e.how == outcome::ok ? kept : condition::rejected);
        }
        case event::kind::answer: return answer(e.whose, e.how);
        case event::kind::happen: return happen(script_.happenings[e.whose].what);
    }
}

void small_world::happen(happening::kind what) {
    say("happening", static_cast<std::uint64_t>(what));
    switch (what) {
        case happening::kind::close:
            closed_ = true;
            machine_.close(now_, mine_);
            model_.close(now_);
            break;
        case happening::kind::retire_all:
            machine_.retire_all(now_, mine_);
            model_.retire_all(now_);
            break;
        case happening::kind::suspect_all:
            machine_.suspect_all(now_, mine_);
            model_.suspect_all(now_);
    }
}

void small_world::plan(event::kind what, instant at, std::uint64_t whose, outcome how) {
    if (at == never) return;
    events_.push_back({.at = at, .since = ++last_event_, .what = what, .whose = whose, .how = how});
}

reply small_world::next_reply(party who) {
    auto index = static_cast<std::size_t>(who);
    std::size_t n = account_.calls[index]++;
    const std::vector<reply>& told = script_.replies[index];
    if (faults_ && n < told.size()) return told[n];
    if (faults_ && script_.last_reply_stays && !told.empty()) return told.back();
    return {.after = who < party::before_acquire ? usual : duration{}};
}

// Borrowers.

void small_world::come_again(borrower& who) {
    const std::vector<visit>& visits = script_.borrowers[index_of(who)];
    if (who.visits == visits.size() || !faults_) return;
    plan(event::kind::arrive, std::max(now_, beginning + visits[who.visits].at), index_of(who));
}

void small_world::arrive(borrower& who) {
    ++who.visits;
    who.ticket = 0;
    who.stopped = who.withdrawn = false;
    who.came = ++last_came_;
    who.arrived = now_;
    who.deadline = after(now_, present_visit(who).patience);
    acquire(who, false);
}

void small_world::acquire(borrower& who, bool again) {
    say(again ? "acquires again" : "acquires", index_of(who));
    ++acquires_;
    who.cookie = ++last_cookie_;
    core::request r{.deadline = std::max(who.deadline, now_),
                    .cookie = who.cookie,
                    .bypassable = true,
                    .ticket = who.ticket,
                    .arrived = who.arrived,
                    .again = again};
    core::answer mine = machine_.acquire(now_, r, mine_);
    core::answer theirs = model_.acquire(now_, r);
    theirs.waiter = mine.waiter;  // the model names waiters by their cookies
    require(mine == theirs, "acquire is answered as in the model");
    who.ticket = mine.ticket;
    who.waiter = mine.waiter;
    switch (mine.what) {
        case core::answer::kind::granted: return receive(who, mine.slot, false);
        case core::answer::kind::waiting: who.what = doing::waiting; break;
        case core::answer::kind::refused: refused(who, mine.error);
    }
}

void small_world::receive(borrower& who, slot_id slot, bool from_line) {
    say("gets", index_of(who), slot);
    const place& p = places_[slot];
    require(!closed_, "a closed pool lends nothing");
    require(p.exists && !p.dirty && !p.given_up, "only a good resource is lent");
    for (const call& c : calls_) require(c.slot != slot, "no resource is lent during a call");
    bool strict = script_.settings.fairness == fairness::strict;
    for (const borrower& b : borrowers_) {
        require(b.slot != slot, "one borrower at a time");
        bool overtaken = b.what == doing::waiting && b.came < who.came;
        require(!overtaken || !strict, "first come, first served");
    }
    require(!from_line || now_ < who.deadline, "no grant comes after the deadline");
    who.slot = slot;
    who.fit = false;
    granted(who, from_line);
}

/// A thread looks at its resource itself. A coroutine that is granted something at once is not
/// suspended, unless a thread has to look at the resource first.
void small_world::granted(borrower& who, bool from_line) {
    if (!is_coroutine(who) || who.what == doing::looked_at) return be_looked_at(who);
    bool has_hook = !script_.replies[static_cast<std::size_t>(party::before_acquire)].empty();
    if (has_hook) {
        who.what = doing::admitting;
        return plan(event::kind::look, after(now_, busy), index_of(who));
    }
    if (from_line) return tell(who, 's');
    be_served(who);
}

void small_world::be_looked_at(borrower& who) {
    bool by_itself = !is_coroutine(who);
    who.what = by_itself ? doing::holding : doing::looked_at;
    reply r = next_reply(party::before_acquire);
    if (by_itself && r.after == duration{} && r.how == outcome::ok) return be_served(who);
    who.hook_is_mute = after(now_, r.after) == never;
    plan(event::kind::looked, after(now_, r.after), index_of(who), r.how);
}

void small_world::looked(borrower& who, outcome how) {
    if (how != outcome::ok) return send_back(who);
    if (who.withdrawn) return give_back(who);
    if (is_coroutine(who)) tell(who, 's');
    else be_served(who);
    tick();
}

/// The executor of a coroutine is given its handle.
void small_world::tell(borrower& who, char how) {
    say("is told", index_of(who));
    require(!who.withdrawn, "a destroyed coroutine is told nothing");
    require(who.what == doing::waiting || who.what == doing::looked_at, "an outcome is told once");
    who.what = doing::told;
    who.told = how;
    plan(event::kind::resume, after(now_, busy), index_of(who));
}

void small_world::resume(borrower& who) {
    say("is resumed", index_of(who));
    require((who.told == 's') == (who.slot != core::no_slot), "what is granted exists");
    if (who.told == 's') return be_served(who);
    who.what = doing::nothing;
    end(who, who.told);
    come_again(who);
}

void small_world::be_served(borrower& who) {
    end(who, 's');
    who.what = doing::holding;
    who.fit = true;
    plan(event::kind::leave, after(now_, present_visit(who).hold), index_of(who));
}

/// before_acquire said no: the resource goes, and the borrower goes back to its place, unless it
/// was canceled or destroyed.
void small_world::send_back(borrower& who) {
    say("sends back", index_of(who), who.slot);
    slot_id slot = std::exchange(who.slot, core::no_slot);
    places_[slot].given_up = true;
    if (!is_coroutine(who)) who.what = doing::nothing;
    machine_.release(now_, slot, condition::unfit, 0, std::nullopt, mine_);
    model_.release(now_, slot, condition::unfit, 0);
    absorb();
    if (who.withdrawn) return vanish(who);
    if (who.stopped) return tell(who, 'x');
    acquire(who, true);
}

/// The visit is over. before_release looks at a resource that is released.
void small_world::leave(borrower& who) {
    ending by = present_visit(who).by;
    if (by == ending::detach) return detach(who);
    if (by == ending::discard) return let_go(who, condition::discard);
    reply r = next_reply(party::before_release);
    who.hook_is_mute = after(now_, r.after) == never;
    event e{.at = now_, .what = event::kind::let_go, .whose = index_of(who), .how = r.how};
    if (r.after == duration{}) return happen(e);
    say("asks whether to keep", index_of(who), who.slot);
    plan(e.what, after(now_, r.after), e.whose, e.how);
    tick();
}

void small_world::let_go(borrower& who, condition how) {
    say("lets go", index_of(who), static_cast<std::uint64_t>(how));
    place& p = places_[who.slot];
    p.dirty = how == condition::dirty;
    p.given_up = how == condition::discard || how == condition::rejected;
    who.what = doing::nothing;
    machine_.release(now_, who.slot, how, 0, duration{}, mine_);
    model_.release(now_, who.slot, how, 0);
    who.slot = core::no_slot;
    come_again(who);
}

void small_world::detach(borrower& who) {
    say("detaches", index_of(who), who.slot);
    ++detached_;
    places_[who.slot] = {};
    who.what = doing::nothing;
    machine_.detach(now_, who.slot, mine_);
    model_.detach(now_, who.slot);
    who.slot = core::no_slot;
    come_again(who);
}

/// A cancel after the grant or another refusal changes nothing.
void small_world::cancel(borrower& who) {
    say("cancels", index_of(who));
    if (who.withdrawn) return;
    who.stopped = is_suspended(who) && is_coroutine(who);
    take_out(who);
    require(who.wants_out || mine_.empty(), "a cancel that comes too late changes nothing");
    absorb();
    look();
    require(!who.wants_out, "a canceled waiter leaves the line at once");
}

/// While its resource is being looked at, the frame of a coroutine has to stay.
void small_world::destroy(borrower& who) {
    say("is destroyed", index_of(who));
    if (!is_suspended(who) || who.withdrawn) return;
    require(is_coroutine(who), "threads are not destroyed");
    who.withdrawn = true;
    take_out(who);
    if (who.what == doing::admitting || who.what == doing::told) give_back(who);
    absorb();
    look();
    require(!who.wants_out, "a destroyed waiter leaves the line at once");
}

void small_world::take_out(borrower& who) {
    bool in_line = who.what == doing::waiting;
    who.wants_out = in_line;
    canceled_ += in_line;
    require(machine_.cancel(now_, who.waiter, mine_) == in_line,
            "a cancel counts exactly while its caller waits");
    require(model_.cancel(now_, who.cookie) == in_line, "a cancel counts as in the model");
}

/// A lease that was granted ends unused.
void small_world::give_back(borrower& who) {
    slot_id slot = who.slot;
    vanish(who);
    if (slot == core::no_slot) return;
    say("gives back", index_of(who), slot);
    machine_.release(now_, slot, condition::clean, 0, duration{}, mine_);
    model_.release(now_, slot, condition::clean, 0);
}

void small_world::vanish(borrower& who) {
    std::erase_if(events_, [&](const event& e) {
        bool its_own = e.what == event::kind::look || e.what == event::kind::resume;
        return its_own && e.whose == index_of(who);
    });
    who.what = doing::nothing;
    who.slot = core::no_slot;
    end(who, 'd');
    come_again(who);
}

/// Each visit ends in exactly one way.
void small_world::end(borrower& who, char how) {
    char& noted = who.ends[who.visits - 1];
    require(noted == not_yet, "every acquire ends once");
    noted = how;
}

bool small_world::none(doing what) const {
    return std::none_of(borrowers_.begin(), borrowers_.end(),
                        [what](const borrower& b) { return b.what == what; });
}

bool small_world::none_is_suspended() const {
    return std::none_of(borrowers_.begin(), borrowers_.end(), is_suspended);
}

// The connector.

void small_world::began(const action& a) {
    say(a.which == verb::open    ? "open"
        : a.which == verb::probe ? "probe"
        : a.which == verb::reset ? "reset"
                                 : "close",
        a.slot, a.call);
    require(places_[a.slot].exists == (a.which != verb::open),
            "opens fill empty slots, other calls full ones");
    for (std::size_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i].slot != a.slot) continue;
        // The call before was given up: a resource that does not answer is closed.
        require(a.which == verb::close && now_ >= calls_[i].deadline, "one call at a time");
        places_[a.slot].given_up = true;
        give_up(i);
        break;
    }
    for (const borrower& b : borrowers_) require(b.slot != a.slot, "no call on a leased resource");
    instant deadline = after(now_, timeout_of(a.which, script_.settings));
    calls_.push_back({.which = a.which, .slot = a.slot, .number = a.call, .deadline = deadline});
    machine_.begun(now_, a.slot, a.call);
    model_.begun(now_, a.slot, a.call);
    reply r = next_reply(static_cast<party>(a.which));
    plan(event::kind::answer, after(now_, r.after), a.call, r.how);
}

void small_world::give_up(std::size_t index) {
    given_up_.push_back(calls_[index]);
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(index));
}

void small_world::answer(std::uint64_t number, outcome how) {
    auto in = [number](std::vector<call>& calls) {
        return std::find_if(calls.begin(), calls.end(),
                            [number](const call& c) { return c.number == number; });
    };
    auto found = in(calls_);
    bool believed = found != calls_.end();
    say(believed ? "answer" : "late answer", number, static_cast<std::uint64_t>(how));
    if (!believed) {
        found = in(given_up_);
        require(found != given_up_.end(), "only a call is answered");
    }
    call c = *found;
    (believed ? calls_ : given_up_).erase(found);
    if (believed) call_ended(c, how);
    require(tell(c, how) == believed, "an answer counts exactly while its call is waited for");
}

/// Whether the answer counted.
bool small_world::tell(const call& c, outcome how) {
    bool counts = sim::answer(machine_, now_, c.which, c.slot, c.number, how, mine_);
    require(counts == model_.answered(now_, c.slot, c.number, c.which, how),
            "answers count as in the model");
    return counts;
}

void small_world::call_ended(const call& c, outcome how) {
    place& p = places_[c.slot];
    bool ok = how == outcome::ok;
    switch (c.which) {
        case verb::open:
            require(!p.exists, "a slot holds one resource");
            opened_ += ok;
            failed_finally_ = failed_finally_ || how == outcome::failed_finally;
            p = {.exists = ok};
            break;
        case verb::probe: p.given_up = p.given_up || !ok; break;
        case verb::reset:
            p.dirty = !ok;
            p.given_up = p.given_up || !ok;
            break;
        case verb::close:
            require(p.exists, "a resource is closed once");
            ++closes_;
            p = {};
    }
}

// Looking.

void small_world::absorb() {
    compare_actions();
    for (const action& a : mine_) absorb(a);
    mine_.clear();
    model_.actions().clear();
}

void small_world::absorb(const action& a) {
    auto borrower_of = [&]() -> borrower& {
        for (borrower& b : borrowers_)
            if (b.cookie == a.cookie && b.what == doing::waiting) return b;
        throw finding("only a waiter is answered");
    };
    switch (a.what) {
        case action::kind::call: return began(a);
        case action::kind::grant: return receive(borrower_of(), a.slot, true);
        case action::kind::refuse: return refused(borrower_of(), a.error);
        case action::kind::report:
        case action::kind::judge: return;
        case action::kind::abandon:
        case action::kind::make_way: break;
    }
    say("abandon", a.slot, a.call);
    auto found = std::find_if(calls_.begin(), calls_.end(),
                              [&](const call& c) { return c.number == a.call; });
    require(found != calls_.end(), "only a call in flight is given up");
    bool makes_way = a.what == action::kind::make_way && found->which == verb::open;
    require(makes_way || now_ >= found->deadline, "no call is given up before its deadline");
    bool closes = found->which == verb::close;
    call_ended(*found, closes ? outcome::ok : outcome::failed);
    give_up(static_cast<std::size_t>(found - calls_.begin()));
}

/// Every refusal has a reason that fits.
void small_world::refused(borrower& who, errc error) {
    say("is refused", index_of(who), static_cast<std::uint64_t>(error));
    require((error == errc::closed) == closed_, "closed pools refuse with closed, others never");
    require((error == errc::canceled) == who.wants_out,
            "the waiter that cancels is canceled, and no other");
    require(error != errc::timed_out || now_ >= who.deadline, "no timeout comes early");
    require(error != errc::open_failed || failed_finally_,
            "open_failed follows an open that failed finally");
    who.wants_out = false;
    if (who.withdrawn) return vanish(who);
    if (is_coroutine(who) && is_suspended(who)) return tell(who, letter_of(error));
    who.what = doing::nothing;
    end(who, letter_of(error));
    come_again(who);
}

void small_world::compare_actions() {
    require(mine_ == model_.actions(), "machine and model act alike, in the same order");
}

void small_world::look() {
    machine_.check(now_);
    machine_.read(seen_);
    compare(machine_, model_, seen_);
    look_at_counts();
}

void small_world::look_at_counts() {
    std::size_t leases = 0;
    std::size_t waiting = 0;
    for (const borrower& b : borrowers_) {
        leases += b.slot != core::no_slot;
        waiting += b.what == doing::waiting;
        require(b.what != doing::waiting || now_ < b.deadline, "no waiter waits past its deadline");
        require(b.what != doing::waiting || !(b.stopped || b.withdrawn),
                "a canceled waiter is not in line");
    }
    require(seen_.leased == leases, "every lease has a borrower");
    require(seen_.waiting == waiting, "the line holds the waiting borrowers");
    std::size_t present = 0;
    for (const place& p : places_) present += p.exists;
    for (const call& c : calls_) present += c.which == verb::open;
    require(present == seen_.total, "every resource is counted");
    require(present <= script_.settings.max, "never more than max");
}

void small_world::note_who_is_suspended() {
    account_.waits += seen_.waiting;
    for (const borrower& b : borrowers_) {
        if (!is_suspended(b) || b.withdrawn) continue;
        auto where = b.what == doing::waiting ? suspension::kind::in_line
                     : b.what == doing::told  ? suspension::kind::told
                                              : suspension::kind::admitted;
        account_.points.push_back({account_.steps, index_of(b), where, is_coroutine(b)});
    }
}

/// At the end nothing is left, and everything adds up.
void small_world::balance() {
    require(machine_.drained() && calls_.empty(), "nothing stays behind");
    require(none_is_suspended() && none(doing::holding), "no borrower stays behind");
    for (const place& p : places_) require(!p.exists, "everything is closed at the end");
    require(opened_ == closes_ + detached_, "what was opened was closed or detached, once");
    machine_.read(seen_);
    require(seen_.opened == opened_ && seen_.closed == closes_ && seen_.detached == detached_,
            "resources are counted as they came and went");
    std::uint64_t refused = std::accumulate(seen_.refused_by_reason.begin(),
                                            seen_.refused_by_reason.end(), std::uint64_t{0});
    require(seen_.acquires == acquires_ && acquires_ == seen_.granted + refused,
            "every acquire is counted as granted or refused");
    require(seen_.refused(errc::canceled) == canceled_, "canceled waiters are counted");
    for (const borrower& b : borrowers_)
        for (std::size_t i = 0; i < b.visits; ++i)
            require(b.ends[i] != not_yet, "every acquire has ended");
}

void small_world::say(const char* what, std::uint64_t whose, std::uint64_t more) {
    if (trace_ == nullptr) return;
    auto us = std::chrono::duration_cast<std::chrono::microseconds>(now_ - beginning).count();
    *trace_ << "  step " << account_.steps << ", " << us << " us: " << what << ' ' << whose << ' '
            << more << '\n';
}

}  // namespace

account play(const script& s, const std::vector<cancellation>& cancels, std::ostream* trace) {
    core::when_broken = [](const char* invariant) { throw finding(invariant); };
    return small_world(s, cancels, trace).run();
}

}  // namespace cenote::sim
