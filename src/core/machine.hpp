// The machine decides: who gets which resource, when one is opened, probed, reset, retired, closed.
//
// It is a pure class over numbers. Slots and waiters are integers; every call brings `now`, appends
// actions, and touches nothing but the machine. There is no template, clock, thread, I/O or
// callback in it, and no allocation once the line has reached its length. The keeper drives it
// under a lock; the simulator drives this same class with a virtual clock.
//
//                 open            grant
//        vacant ───────▶ opening ──────▶ idle ◀──────────▶ leased
//          ▲                │            │  ▲               │  │
//          │                │      probe ▼  │ ok      reset ▼  │ discard, age,
//          │                │          probing ◀──── resetting │ uses, generation
//          │  closed        ▼            │ failed       │      ▼
//          └──────────────────────── closing ◀──────────┴──────┘
//
// An idle resource may be set aside for a moment, for the thread that gave it back: see
// machine_turns.cpp.
//
// Requests: acquire, try_acquire, cancel, release, detach, retire_all, suspect_all, resize, pause,
// resume, go and follow (the breaker), close, tick. Actions that leave the house (call) have
// exactly one answer each: on_open, on_probe, on_reset, on_close. A call may have to wait before it
// is made; from begun() on its time runs. An answer that comes after the machine gave the call up
// is recognised by its number and changes nothing (the function returns false). Every order of
// these is handled; none is forbidden.
//
// Every call ends with settle(): refuse the expired, lend the idle, sweep, open what is missing,
// always in this order. Only where the guard of express says that this would change nothing (14),
// it is left out. So after any call at `now`:
//
// 1. The slot states are exclusive and add up to the places; the counts equal a recount.
// 2. opening, idle, leased, probing, resetting and closing together never exceed max; a slot counts
//    until its close has finished. What a smaller max has left over is not idle, and goes when it
//    comes back.
// 3. Each slot has a call in flight exactly while it is opening, probing, resetting or closing, and
//    each such call has a deadline once it has begun.
// 4. Nobody waits while a fresh resource is idle, unless newcomers may bypass the head (bounded
//    fairness): then it is handed over to the head at a time that wake_at() knows.
// 5. Nobody waits while there is room for one more, unless enough resources are on their way
//    back, or opens are held back by opening_max, or by the pacer: its width, the backoff, the
//    bucket. Strays take up room.
// 6. Quiescence: if somebody waits for ever, then something is leased, or a call is in flight, or
//    wake_at() is set. (4 to 6 do not hold while the pool is paused.)
// 7. Tickets rise along each priority's queue; nobody is queued again.
// 8. Nobody's deadline lies at or before `now`; wake_at() > now. Waiters whose deadlines are equal
//    are refused by ticket, the smallest first, whatever their priority; calls whose deadlines are
//    equal are given up by slot.
// 9. Calls in flight: opens at most opening_max; of these not more than were ever missing.
// 10. granted = released + detached + leased; opened = closed + detached + present; acquires =
//     granted + refused + waiting.
// 11. After close nothing is idle, nobody waits, and nothing begins to open.
// 12. An inactive pool has no waiters and begins no open. In a recovering pool, waiters and leases
//     lent since the recovery began are together not more than its probes, but for those of an
//     earlier recovery that lasts.
// 13. Anything is kept only while the head of the line wants several, and more than that (or the
//     pool is paused).
// 14. Before express_until_ nothing but a deadline in line is due, and the pool reports nothing and
//     lends and takes back without a trial or a probe. If somebody waits, it is full and serves
//     strictly in order; if nobody does, it is calm: it has its minimum, nothing was tried in vain,
//     and more than lend_floor_ idle ones can be lent before the minimum is short.
// 15. What owes a reset is idle, leased, going, or being reset: never probed. It is not idle in a
//     pool that is paused or without maintenance, nor, where nobody waits, for reset_after.
// 16. Anything is set aside only while a thread heads the line that wants one and is not reserved,
//     in a pool that lends; for a moment, which wake_at() knows the end of; for a thread that has
//     not taken it back too often since somebody else had it. To everybody else it is as leased.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cenote/error.hpp"
#include "cenote/event.hpp"
#include "cenote/options.hpp"
#include "cenote/stats.hpp"
#include "core/circuit.hpp"
#include "core/comebacks.hpp"
#include "core/deadlines.hpp"
#include "core/dice.hpp"
#include "core/instant.hpp"
#include "core/line.hpp"
#include "core/pacer.hpp"
#include "core/rate.hpp"
#include "core/shedder.hpp"
#include "core/slots.hpp"
#include "core/tally.hpp"

namespace cenote::core {

/// What a connector can be asked to do.
enum class verb : std::uint8_t { open, probe, reset, close };

/// Something the caller must do after the call, outside its lock, in order.
struct action {
    enum class kind : std::uint8_t {
        call,      // run `which` on `slot`; answer with `call`
        abandon,   // the call is given up and the slot is free: close whatever still comes of it
        make_way,  // the same for an open that has not failed, so that another one can begin
        grant,     // waiter `cookie` gets `slot`
        refuse,    // waiter `cookie` gets `error`
        report,    // tell the observers `event`
        judge,     // tell the breaker's strategy `news`; what it rules is for follow(`call`)
    };
    kind what{};
    verb which{};
    event_kind event{};
    retire_reason why{};
    errc error{};
    circuit_news news{};
    breaker_state circuit{};  // with report of breaker_changed
    slot_id slot = no_slot;
    std::uint64_t call = 0;  // with report: the number of the resource; with judge: of the move
    // Of the waiter; with abandon and judge: the number of the resource.
    std::uint64_t cookie = 0;
    instant at{};                 // with judge: when the last of the successes ended
    std::uint64_t successes = 0;  // with judge: uses that succeeded since the last judge
    duration took{};

    bool operator==(const action&) const = default;
};

using actions = std::vector<action>;

/// How somebody asks for a resource.
struct request {
    instant deadline = never;
    std::uint64_t cookie = 0;
    bool bypassable = false;   // bounded fairness applies to it
    std::uint64_t ticket = 0;  // its place, if it has one already (see answer)
    instant arrived = {};      // with a ticket: when it came
    bool again = false;        // it was granted before, and its resource turned out unfit
    bool cannot_wait = false;  // what it would wait for would wait for it
    bool queues = true;        // false: it waits for calls of the connector, not for leases
    priority rank = priority::normal;
    std::uint32_t count = 1;   // so many resources or none
    std::uint64_t holder = 0;  // the thread that would wait; 0: unknown, or it holds no lease
    std::uint64_t thread = 0;  // the thread that asks; 0: it is none
};

/// What an acquire is answered at once. Whoever wants several gets them by actions in any case:
/// then `slot` says nothing.
struct answer {
    enum class kind : std::uint8_t { granted, refused, waiting };
    kind what{};
    errc error{};
    slot_id slot = no_slot;
    waiter_id waiter{};
    std::uint64_t ticket = 0;
    bool nested = false;  // it waits, and holds a lease already

    bool operator==(const answer&) const = default;
};

/// In what condition a lease comes back.
enum class condition : std::uint8_t {
    clean,         // can be lent again
    dirty,         // must be reset before anyone else gets it
    discard,       // its holder gives it up
    rejected,      // before_release said no
    unfit,         // before_acquire said no: it was never used
    broken,        // its holder gives it up, for a cause
    unused,        // clean, because its borrower went away before it could use it
    dirty_unused,  // the same, and must be reset
    owing,         // can be lent again, and owes a reset, which its next use makes
    owing_unused,  // the same, and its borrower went away before it could use it
};

/// How a call ended. `failed_finally`: trying again is no use.
enum class outcome : std::uint8_t { ok, failed, failed_finally };

/// What the connector is able to do.
struct abilities {
    bool probe = false;
    bool reset = false;
    bool sees_freezes = true;  // the timer may come for nothing else; see machine::look_after
    std::uint32_t turns = 0;   // so often a thread takes its own back; 0: there is no time for that
};

class machine {
public:
    /// So late a timer means that the process was frozen (suspended, stopped), not just busy.
    static constexpr duration frozen_for = std::chrono::seconds{2};
    /// So often a thread may take its own back, unless somebody asks for another number.
    static constexpr std::uint32_t usual_turns = 4;
    /// For so long something is set aside.
    static constexpr duration aside_for = std::chrono::microseconds{100};
    /// A turn lasts so long at least, however short its leases are.
    static constexpr duration shortest_turn = std::chrono::microseconds{100};
    /// While anything that can be probed is idle, the timer comes at least so often to see that.
    static constexpr duration look_after = std::chrono::seconds{1};

    /// Requires validated options. `reports`: whether anyone wants report actions.
    machine(const options& settings, abilities can, bool reports, std::uint64_t seed, instant now);

    /// Makes room for one more waiter and for every action a call can append. May throw
    /// std::bad_alloc, which nothing else does but make_places(); those that let somebody wait call
    /// it first.
    void make_room(actions& out) {
        if (!has_room(out)) grow(out);
    }
    bool has_room(const actions& out) const {
        return line_.has_room() && out.capacity() >= most_actions_;
    }

    // Requests. `out` keeps its content; actions are appended.
    void start(instant now, actions& out);
    /// The minimum is to be kept from now on, whatever `warm_up` said.
    void warm(instant now, actions& out);
    answer acquire(instant now, const request& who, actions& out);
    // Express. In a full pool where nothing is due only the line moves: who comes joins it, and
    // what comes back goes to its head. In a calm pool, where nobody waits and nothing is due, only
    // the idle move: who comes is lent one of them, and what comes back is one more. These do what
    // acquire() and release() do then, without an action and without a look at the whole; those use
    // them, too. False: nothing has changed, and it takes the long way.

    /// For a waiter that wants one, waits for leases of others, and holds none itself. Without a
    /// ticket it gets one. False also if there is no room, which make_room() makes.
    bool queue_up(instant now, waiter& who, waiter_id& id);
    /// A clean lease comes back, or an owing one. `to`: the cookie of the waiter that gets it;
    /// lent_to() follows.
    bool pass_on(instant now, slot_id id, std::uint64_t uses, const std::optional<duration>& held,
                 bool owes, std::uint64_t& to);
    /// A clean lease comes back from `thread`, or an owing one, and is set aside for it.
    bool set_aside(instant now, slot_id id, std::uint64_t uses, const std::optional<duration>& held,
                   bool owes, std::uint64_t thread);
    /// `thread` comes for what is set aside for it.
    bool claim(instant now, std::uint64_t thread, priority rank, slot_id& id);
    /// Whether there may be any such. Also without the lock.
    bool has_aside() const { return slots_.aside() > 0; }
    /// How often something was set aside.
    std::uint64_t set_asides() const { return set_asides_; }
    /// One idle resource is lent, to lent_to(); draw_ticket() for whoever may need its place again.
    bool lend_now(instant now, slot_id& id);
    /// Whom lend_now() has lent it to, or pass_on(). `thread`: it waits for its leases, if it has
    /// to.
    void lent_to(instant now, slot_id id, bool thread, priority rank) {
        begin_turn(now, slots_[id], thread, rank);
    }
    /// A clean lease comes back, or an owing one, and becomes idle.
    bool put_back(instant now, slot_id id, std::uint64_t uses, const std::optional<duration>& held,
                  bool owes);
    /// How many leases were passed on, and lent at once, by express.
    std::uint64_t passed_on() const { return passed_on_.get(); }
    std::uint64_t lent_now() const { return lent_now_.get(); }

    /// How many leases were lent. One that is lent from now on has a greater number (slot::lent).
    std::uint64_t lends() const { return lends_; }

    /// A place in line for somebody who may need one later.
    std::uint64_t draw_ticket() { return ++last_ticket_; }
    std::uint64_t last_ticket() const { return last_ticket_; }
    std::optional<slot_id> try_acquire(instant now, actions& out);
    /// False: it was granted or refused before.
    bool cancel(instant now, waiter_id id, actions& out);
    /// `uses`: leases that passed without the machine since its grant. `held`: how long the last
    /// one took, if that is known. `thread`: the one that releases it, if it may come again.
    void release(instant now, slot_id id, condition how, std::uint64_t uses,
                 const std::optional<duration>& held, actions& out, std::uint64_t thread = 0);
    /// A lease that ended at `idle_since` without the machine, clean or owing, is brought to it.
    void bring_back(instant now, slot_id id, std::uint64_t uses, instant idle_since, bool owes,
                    actions& out);
    /// The holder takes the resource out for good.
    void detach(instant now, slot_id id, actions& out);
    /// Everything open now is closed when it is idle or comes back.
    void retire_all(instant now, actions& out);
    /// Makes room for so many resources, before resize(). Throws std::bad_alloc, and nothing has
    /// changed.
    void make_places(std::size_t count, actions& out);
    /// From now on there are at most `max`. What is too many is closed when it is idle or comes
    /// back, the longest idle first. Whoever wants more at once than that is refused.
    void resize(instant now, std::size_t max, actions& out);
    /// Nothing is lent and nothing is opened, swept or probed of the pool's own accord until
    /// resume(). Whoever waits keeps place and deadline; who comes waits.
    void pause(instant now, actions& out);
    void resume(instant now, actions& out);
    /// Lending goes on, but nothing is swept, probed or opened of the pool's own accord, and no
    /// timer is wanted for that, until resume_maintenance().
    void suspend_maintenance(instant now, actions& out);
    void resume_maintenance(instant now, actions& out);
    /// The circuit breaker moves, by hand.
    void go(instant now, const breaker_move& where, actions& out);
    /// The same by the strategy's ruling on what it was told after so many moves. False: there was
    /// another one meanwhile.
    bool follow(instant now, std::uint64_t moves, const breaker_move& where, actions& out);
    /// Everything open now must be probed before it is lent again.
    void suspect_all(instant now, actions& out);
    void close(instant now, actions& out);
    /// The timer. If it, or anybody else, comes much later than wake_at(), the process was frozen
    /// meanwhile, and everything idle is suspect.
    void tick(instant now, actions& out);
    /// The thread that leases a slot. Whoever is granted something is unknown until then.
    void held_by(slot_id id, std::uint64_t holder) { slots_[id].holder = holder; }
    /// Another strategy is told from now on, and of nothing that was before.
    void forget_successes(instant now) { circuit_.take_successes(now); }
    /// Whether every lease is held by a thread that waits, this one included.
    bool waits_in_vain(const request& who) const;
    /// A lease ended without the machine; it took so long.
    void note_hold(duration held) { hold_.record(held); }

    /// A call is being made: its timeout runs from now. Before that it waits for somebody to make
    /// it, which is not the resource's fault.
    void begun(instant now, slot_id id, std::uint64_t call);

    /// An open was given up that had only been waiting to be made: nothing will come of it.
    void never_made(std::uint64_t call) {
        forget_stray(call);
        express_until_ = long_ago;  // there may be room for one more
    }

    // Answers. False: the call was given up before, its result is not wanted.
    bool on_open(instant now, slot_id id, std::uint64_t call, outcome how, actions& out);
    bool on_probe(instant now, slot_id id, std::uint64_t call, outcome how, actions& out);
    bool on_reset(instant now, slot_id id, std::uint64_t call, outcome how, actions& out);
    bool on_close(instant now, slot_id id, std::uint64_t call, outcome how, actions& out);

    /// When tick() must be called next if nothing else happens.
    instant wake_at() const { return std::min(line_.earliest(), others_at_); }
    /// When something is no longer set aside for the thread that gave it back.
    instant aside_at() const {
        slot_id first = slots_.oldest(idle_kind::aside);
        return first == no_slot ? never : aside_until(slots_[first]);
    }

    /// How often the whole was looked at. If it has not grown, only the line has moved.
    std::uint64_t settles() const { return settles_; }

    bool closed() const { return closed_; }
    bool paused() const { return paused_; }
    bool maintains() const { return maintains_; }
    pool_state state() const {
        if (closed_) return pool_state::closed;
        return paused_ ? pool_state::paused : pool_state::lending;
    }
    const circuit& breaker() const { return circuit_; }
    /// Closed, and nothing is left.
    bool drained() const { return closed_ && slots_.total() == 0; }
    /// The minimum is open.
    bool ready() const;
    bool anyone_waits() const { return !line_.empty(); }
    /// From when on a resource that becomes free belongs to the head of the line: long ago, unless
    /// newcomers may bypass it for a while; `never` if nobody waits.
    instant owed_at() const {
        if (line_.empty()) return never;
        const waiter& head = line_.first();
        bool waits_its_turn = settings_.fairness != fairness::bounded || !head.bypassable ||
                              head.rank == priority::reserved;
        return waits_its_turn ? long_ago : after(head.arrived, settings_.bypass_for);
    }
    /// Could an acquire be granted at once? Worn-out resources it comes across are retired.
    bool can_lend(instant now, actions& out, std::size_t count = 1);
    const slot& look(slot_id id) const { return slots_[id]; }
    std::size_t max() const { return slots_.max(); }
    std::size_t places() const { return slots_.places(); }
    std::size_t total() const { return slots_.total(); }
    std::size_t count(slot_state s) const { return slots_.count(s); }
    /// How many retire_all there were.
    std::uint64_t generation() const { return epoch_; }
    /// When the last suspicion against everything then open arose.
    instant suspect_at() const { return suspect_at_; }

    /// In how long it may be worth while to come again for somebody who was refused now.
    duration retry_after(instant now) const;

    /// Fills gauges and counters (not `max`, nor the histograms). Safe against a concurrent writer
    /// in so far as every number is read whole; the caller makes the numbers fit together.
    void read(stats& into) const;
    void read_histograms(stats& into) const;

    /// Asserts the invariants above. O(slots + waiters).
    void check(instant now) const;

private:
    /// An open that made way. Until its time is over it may still bring a resource.
    struct stray {
        std::uint64_t call = 0;
        instant deadline{};
    };

    // Local changes.
    void forget_stray(std::uint64_t call) {
        std::erase_if(strays_, [&](const stray& s) { return s.call == call; });
    }
    static waiter waiter_of(instant now, const request& who);
    void lend(instant now, slot_id id, instant arrived, bool waited, actions& out);
    void begin(instant now, slot_id id, slot_state state, verb which, actions& out);
    void begin_close(instant now, slot_id id, actions& out);
    void retire(instant now, slot_id id, retire_reason why, actions& out);
    void become_idle(instant now, slot_id id);
    void note_idle(instant now, const slot& s);
    bool is_news(const slot& s) const {
        return s.idle_since < idle_news_until_ || s.expires_at < sweep_due_ ||
               (s.owes && debt_due(s) < debt_due_);
    }
    void note_news(instant now, const slot& s);
    instant news_limit() const;
    void grow(actions& out);
    void make_room_for_actions(std::size_t places, actions& out);
    void notice_freeze(instant now) {
        if (wake_at() > now) return;
        if (after(wake_at(), frozen_for) <= now) suspect_at_ = now;
    }
    void grant(instant now, slot& s, instant arrived, bool waited, actions& out);
    bool hand_over(instant now, slot_id id, actions& out);
    void begin_turn(instant now, slot& s, bool thread, priority rank) {
        if (can_.turns == 0) return;
        s.turns = 0;
        s.turn_began = now;
        s.by_thread = thread;
        s.rank = rank;
    }
    void go_on(slot& s, priority rank);
    void put_aside(instant now, slot_id id, std::uint64_t thread);
    void let_go_of_aside();
    void vacate(slot_id id, actions& out);
    void judge(instant now, circuit_news what, std::uint64_t resource, actions& out);
    void judge_use(instant now, const slot& s, condition how, actions& out);
    void end_trial(slot& s);
    void refuse_shut_out(actions& out);
    void doom_surplus();
    bool lets_in(std::size_t count = 1) const {
        return circuit_.lets_in(trials_ + line_.wanted() + count - 1);
    }
    void refuse(waiter_id id, errc error, actions& out);
    instant proof_of(const slot& s, instant now) const;
    bool answered(slot_id id, std::uint64_t call, slot_state expected);
    void fail_open(instant now, slot_id id, bool final, actions& out);
    void fail_probe(instant now, slot_id id, actions& out);
    void take_back(instant now, slot_id id, condition how, actions& out);
    void put_by(instant now, slot_id id, actions& out);
    void report(event_kind kind, std::uint64_t resource, actions& out, duration took = {},
                retire_reason why = {}) const;

    // Global ones, called by settle() alone.
    void settle(instant now, actions& out);
    void give_up_calls(instant now, actions& out);
    void abandon(slot_id id, std::uint64_t call, actions& out);
    void refuse_expired(instant now, actions& out);
    void shed_late(instant now, actions& out);
    void lend_idle(instant now, actions& out);
    bool gather(instant now, actions& out);
    void look_at_kept(instant now);
    void let_go_of_kept();
    void look_at_aside(instant now);
    void probe_stale(instant now, actions& out);
    void close_idle(instant now, actions& out);
    void sweep(instant now, actions& out);
    void sweep_those(instant now, bool expiring, actions& out);
    void sweep_one(instant now, slot_id id, actions& out);
    void pay_debts(instant now, actions& out);
    void pay_all_debts(instant now, actions& out);
    void beat(instant now, actions& out);
    slot_id least_proven();
    void open_missing(instant now, actions& out);
    bool make_way(actions& out);
    void forget_late_strays(instant now) {
        std::erase_if(strays_, [&](const stray& s) { return s.deadline <= now; });
    }

    // Looks.
    slot_id next_fresh(instant now, actions& out);
    std::size_t count_fresh(instant now, std::size_t enough, actions& out);
    bool needs_probe(const slot& s, instant now) const;
    bool is_old(const slot& s) const { return s.epoch < epoch_; }
    /// Whether what owes a reset may go back: somebody looks after it, and nothing but a use comes
    /// next.
    bool defers() const {
        bool probes = settings_.probe_on_release && can_.probe;
        return can_.reset && settings_.reset_after > duration{} && !paused_ && maintains_ &&
               !probes;
    }
    instant debt_due(const slot& s) const { return after(s.idle_since, settings_.reset_after); }
    std::optional<retire_reason> wear(const slot& s, instant now) const;
    bool head_may_be_bypassed(instant now) const;
    bool head_grants_turns() const;
    /// If not, it may become the head, and not grant what this one does.
    bool stays_behind_head(const waiter& who) const {
        return who.ticket == 0 && who.rank == line_.first().rank;
    }
    bool turn_goes_on(instant now, const slot& s, std::uint64_t thread) const;
    slot_id lend_own(instant now, const request& who, actions& out);
    slot_id find_own(instant now, std::uint64_t thread, priority rank) const;
    bool may_stay_aside(instant now, const slot& s) const;
    static instant aside_until(const slot& s) { return after(s.idle_since, aside_for); }
    bool lend_at_once(instant now, const request& who, slot_id& id);
    bool is_fit_to_lend(instant now, const slot& s) const;
    bool comes_back_fit(instant now, const slot& s, std::uint64_t uses) const;
    bool is_full() const;
    bool crowded(instant now) const;
    bool is_plain() const;
    instant express_limit() const;
    instant calm_limit() const;
    std::size_t count_reserve() const;
    bool is_calm(instant now) const { return now < express_until_ && line_.empty(); }
    void stay_calm(instant now);
    bool is_express(instant now) const { return now < express_until_ && now < line_.earliest(); }
    /// Whether idle resources are probed of the pool's own accord.
    bool beats() const { return !paused_ && maintains_ && circuit_.flows(); }
    instant rest_wake_at() const;
    instant idle_wake_at() const;
    instant look_at() const;
    instant others_due() const;
    bool minimum_needs(const slot& s) const;
    bool must_wait_for_replacement(const slot& s) const;
    std::size_t leases_of(std::uint64_t holder) const;
    bool must_queue(std::size_t count) const;
    bool would_deadlock(const request& who, std::size_t has) const;
    bool waits_in_vain(const request& who, std::size_t has) const;
    std::size_t returning() const;
    std::size_t available() const;
    std::size_t alive() const { return available() + count(slot_state::leased) + returning(); }
    supply present_supply() const;
    instant sweep_at() const;
    instant shed_at() const;
    instant draw_expiry(instant now);
    void check_waiters(instant now) const;
    void check_calls(instant now) const;
    void check_counters() const;
    void check_debt(instant now, const slot& s) const;
    void check_express() const;
    void check_aside(instant now) const;

    options settings_;
    abilities can_;
    bool reports_;
    dice random_;

    slots slots_;
    line line_;
    pacer pacer_;
    circuit circuit_;
    rate releases_;
    shedder shedder_;
    comebacks comebacks_;
    deadlines calls_;  // of the calls in flight, by slot
    std::vector<stray> strays_;

    flag closed_;
    flag paused_;
    bool maintains_ = true;
    bool full_ = false;        // somebody waits, and only the line moves unless something is due
    bool warmed_ = true;       // the minimum is being kept
    bool tried_ = false;       // a try_acquire found nothing; one open is for the next
    bool beating_ = false;     // a heartbeat probe is in flight
    bool spared_any_ = false;  // the last sweep spared a due one for the sake of the minimum
    std::uint64_t epoch_ = 0;  // how many retire_all there were
    std::uint64_t last_call_ = 0;
    std::uint64_t last_ticket_ = 0;
    std::uint64_t lends_ = 0;
    std::uint64_t set_asides_ = 0;
    std::uint64_t settles_ = 0;
    std::uint32_t dead_in_row_ = 0;
    std::size_t trials_ = 0;         // leases from the time of a recovery
    instant suspect_at_ = long_ago;  // whatever was good before this is not known to be good
    instant last_sweep_;
    instant sweep_due_ = never;  // nothing is due to be retired before this
    instant beat_due_ = never;   // no heartbeat is due before this
    instant debt_due_ = never;   // nothing idle owes a reset for too long before this
    instant others_at_ = never;  // when anything but a waiter's deadline is due
    instant rest_at_ = never;    // the same but for a look at the idle
    instant express_until_ = long_ago;
    instant calm_until_ = long_ago;  // how long it could be calm if others_at_ did not matter
    duration look_every_ = duration::max();  // at the idle, which may have been frozen
    std::size_t lend_floor_ = 0;             // so many idle ones are needed
    instant idle_news_until_ = never;        // from then on a return is no news; see note_idle()
    instant settled_at_;
    std::size_t most_actions_ = 0;  // that one call can append

    // Passed on: released, granted and waited for, all in one.
    // Lent now: acquires and granted.
    tally acquires_, granted_, waited_, passed_on_, lent_now_, refused_after_wait_, released_,
        discarded_, detached_;
    tally opened_, open_failed_, closed_count_, abandoned_, try_empty_;
    std::array<tally, retire_reason_count> retired_;
    std::array<tally, errc_count> refused_;
    tally_histogram wait_, hold_, open_;
};

// Looks that every hand-over takes.

/// Settling is for what follows from the whole. In a crowded pool, where no place is free and
/// nothing is due, only the line moves.
inline bool machine::crowded(instant now) const {
    return full_ && !line_.empty() && now < wake_at();
}

/// What follows for the rest when a resource becomes idle: usually nothing, since an earlier one
/// has said when it is due to be swept or probed.
inline void machine::note_idle(instant now, const slot& s) {
    if (is_news(s)) [[unlikely]]
        note_news(now, s);
}

/// After a lend or a return in a calm pool the timer is as settle() would set it.
inline void machine::stay_calm(instant now) {
    settled_at_ = now;
    others_at_ = std::min(rest_at_, look_at());
    express_until_ = std::min(others_at_, calm_until_);
}

inline instant machine::look_at() const {
    return count(slot_state::idle) > 0 ? after(settled_at_, look_every_) : never;
}

/// The same where something may be set aside.
inline instant machine::others_due() const {
    instant at = count(slot_state::idle) > slots_.aside() ? look_at() : never;
    at = std::min(rest_at_, at);
    return std::min(at, aside_at());
}

inline bool machine::needs_probe(const slot& s, instant now) const {
    if (!can_.probe || s.checked_at == now) return false;  // proven at this very instant
    instant good_at = std::max(s.idle_since, s.checked_at);
    // That somebody has used it since does not clear it of suspicion: he may not have looked.
    bool suspect = s.checked_at <= suspect_at_;
    return suspect || after(good_at, settings_.probe_after_idle) <= now;
}

/// Whether a lease can be lent again as it comes back, in a pool in which only these things wear.
inline bool machine::comes_back_fit(instant now, const slot& s, std::uint64_t uses) const {
    if (is_old(s) || s.expires_at <= now || s.uses + uses >= settings_.max_uses) return false;
    return s.checked_at > suspect_at_ || !can_.probe;
}

inline std::optional<retire_reason> machine::wear(const slot& s, instant now) const {
    if (is_old(s)) return retire_reason::generation;
    if (slots_.surplus()) return retire_reason::surplus;
    if (s.expires_at <= now) return retire_reason::age;
    if (s.uses >= settings_.max_uses) return retire_reason::uses;
    return std::nullopt;
}

}  // namespace cenote::core
