// The machine: decides who gets which resource, and when one is opened, probed, reset or closed.
//
// It is a pure class over numbers. Slots and waiters are integers. Each call brings `now`, appends
// actions, and changes nothing but the machine. There is no template, clock, thread, I/O or
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
// An idle resource that owes a reset goes to resetting when the reset is due. An idle resource may
// be set aside for the thread that released it (machine_turns.cpp).
//
// Requests: acquire, try_acquire, cancel, release, detach, retire_all, suspect_all, resize, pause,
// resume, go and follow (the circuit breaker), close, tick. An action `call` is a call of the
// connector and has exactly one answer: on_open, on_probe, on_reset or on_close. A call can wait
// until a worker makes it; its timeout runs from begun(). An answer that comes after the machine
// has abandoned the call is recognized by its number, changes nothing, and returns false. Every
// order of requests and answers is handled; no order is forbidden.
//
// Every call ends with settle(): refuse the expired, lend the idle, sweep, open what is missing,
// always in this order. settle() is left out only where the guard of express (14) says that it
// would change nothing. After any call at `now`:
//
// 1. The slot states are exclusive and add up to the number of slots; the counts equal a recount.
// 2. opening, idle, leased, probing, resetting and closing together never exceed max; a slot counts
//    until its close has finished. After a resize to a smaller max, surplus resources are not idle,
//    and are closed when their lease ends.
// 3. Each slot has a call in flight exactly while it is opening, probing, resetting or closing, and
//    each such call has a deadline once it has begun.
// 4. There is no waiter while a fresh resource is idle, unless newcomers may bypass the head
//    (bounded fairness). Then the head gets the resource at a time that wake_at() knows.
// 5. There is no waiter while there is room for one more resource, unless enough resources are
//    about to become free, or opens are held back by opening_max or by the pacer (its width, the
//    backoff, the open rate). Strays take up room.
// 6. Quiescence: if a waiter has no deadline, then a resource is leased, a call is in flight, or
//    wake_at() is set. (4 to 6 do not hold while the pool is paused.)
// 7. Tickets rise along the queue of each priority; no waiter is queued again.
// 8. No waiter's deadline is at or before `now`; wake_at() > now.
// 9. At most opening_max opens are in flight, and no more than were ever missing.
// 10. granted = released + detached + leased; opened = closed + detached + present; acquires =
//     granted + refused + waiting.
// 11. After close no resource is idle, there is no waiter, and no open begins.
// 12. An inactive pool has no waiters and begins no open. In a recovering pool, waiters and leases
//     granted since the recovery began are together at most its probes, apart from those of an
//     earlier recovery that has not ended.
// 13. Resources are kept only while the head of the line wants several and fewer are idle than it
//     wants (or the pool is paused).
// 14. Before express_until_ nothing but a deadline in the line is due, the pool reports no events,
//     and lends and takes back without a trial or a probe. If there are waiters, the pool is full
//     and serves strictly in order. If there are none, the pool is calm: its minimum is open, no
//     try_acquire is owed an open, and more than lend_floor_ idle resources can be lent before the
//     minimum is short.
// 15. A resource that owes a reset is idle, leased, closing or resetting, never probing. In a pool
//     that is paused or without maintenance it is not idle. Where there is no waiter it is not idle
//     for longer than reset_after.
// 16. A resource is set aside only while the head of the line is a thread that wants one resource
//     and is not `reserved`, in a pool that lends; for a moment, whose end wake_at() knows; for a
//     thread that has not taken it back too often since another thread had it. To all others it
//     counts as leased.
//
// Tie-breaks, where the rules leave a choice:
//
// T1. An open fills the slot that became vacant last. New slots count as vacated from the last to
//     the first, so the first of them is filled first.
// T2. Of fresh resources whose last use ended at the same time, the one that became fresh later
//     counts as used later.
// T3. Stale, doomed, kept and aside resources are probed, closed, lent and freed in the order in
//     which they became so. A thread takes back the last of several resources that are aside for
//     it. Idle resources are retired, swept and reset in the order fresh, stale, kept, aside; of
//     equal heartbeats the first in this order is probed; a resize retires stale before fresh ones.
// T4. Waiters whose turns are equal are served by ticket.
// T5. Waiters with equal deadlines are refused by ticket, not by priority. Calls with equal
//     deadlines are abandoned by slot number.
// T6. A resize refuses waiters that want more than max by priority, then by ticket.
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

/// A call of the connector.
enum class verb : std::uint8_t { open, probe, reset, close };

/// An action that the caller carries out after the call, outside its lock, in order.
struct action {
    enum class kind : std::uint8_t {
        call,      // call `which` for `slot`; answer with `call`
        abandon,   // the call is abandoned and the slot free: close a resource that still comes
        make_way,  // abandons an open that has not failed, so that another one can begin
        grant,     // waiter `cookie` gets `slot`
        refuse,    // waiter `cookie` gets `error`
        report,    // tell the observers `event`
        judge,     // tell the breaker's strategy `news`; its answer goes to follow(`call`)
    };
    kind what{};
    verb which{};
    event_kind event{};
    retire_reason why{};
    errc error{};
    circuit_news news{};
    breaker_state circuit{};  // with report of breaker_changed
    slot_id slot = no_slot;
    std::uint64_t call = 0;  // with report: the resource's number; with judge: the move's
    // The waiter's; with abandon and judge: the resource's number.
    std::uint64_t cookie = 0;
    instant at{};                 // with judge: when the last success ended
    std::uint64_t successes = 0;  // with judge: successful uses since the last judge
    duration took{};

    bool operator==(const action&) const = default;
};

using actions = std::vector<action>;

/// A request for a resource.
struct request {
    instant deadline = never;
    std::uint64_t cookie = 0;
    bool bypassable = false;   // newcomers may overtake it (bounded fairness)
    std::uint64_t ticket = 0;  // its place in line, if it has one (see answer)
    instant arrived = {};      // with a ticket: when it arrived
    bool again = false;        // it was granted a resource before, which was unfit
    bool cannot_wait = false;  // waiting would block what it waits for
    bool queues = true;        // false: it waits for calls of the connector, not for leases
    priority rank = priority::normal;
    std::uint32_t count = 1;   // the number of resources, all or none
    std::uint64_t holder = 0;  // the thread that would wait; 0: unknown, or it has no lease
    std::uint64_t thread = 0;  // the thread that asks; 0: the borrower is no thread
};

/// The immediate answer to a request. A request for several resources is granted by actions, and
/// `slot` has no meaning.
struct answer {
    enum class kind : std::uint8_t { granted, refused, waiting };
    kind what{};
    errc error{};
    slot_id slot = no_slot;
    waiter_id waiter{};
    std::uint64_t ticket = 0;
    bool nested = false;  // it waits and has a lease

    bool operator==(const answer&) const = default;
};

/// The condition of a resource at the end of its lease.
enum class condition : std::uint8_t {
    clean,         // can be lent again
    dirty,         // must be reset before its next use
    discard,       // discarded by its holder
    rejected,      // rejected by before_release
    unfit,         // rejected by before_acquire: it was never used
    broken,        // discarded by its holder with a cause
    unused,        // clean: the borrower went away before it could use it
    dirty_unused,  // dirty, and the borrower went away before it could use it
    owing,         // can be lent again, and owes a reset, which its next use makes
    owing_unused,  // owing, and the borrower went away before it could use it
};

/// How a call ended. `failed_finally`: another try will fail, too.
enum class outcome : std::uint8_t { ok, failed, failed_finally };

/// Abilities of the connector and of the shell.
struct abilities {
    bool probe = false;
    bool reset = false;
    bool sees_freezes = true;  // the timer may be set for this alone; see machine::look_after
    std::uint32_t turns = 0;   // how often a thread takes its resource back; 0: turns are off
};

class machine {
public:
    /// A timer that is late by this much means that the process was frozen (suspended, stopped).
    static constexpr duration frozen_for = std::chrono::seconds{2};
    /// How often a thread may take its resource back by default.
    static constexpr std::uint32_t usual_turns = 4;
    /// How long a resource is set aside.
    static constexpr duration aside_for = std::chrono::microseconds{100};
    /// The shortest duration of a turn.
    static constexpr duration shortest_turn = std::chrono::microseconds{100};
    /// While a resource that can be probed is idle, the timer fires at least this often, to notice
    /// a freeze.
    static constexpr duration look_after = std::chrono::seconds{1};

    /// Requires validated options. `reports`: whether report actions are wanted.
    machine(const options& settings, abilities can, bool reports, std::uint64_t seed, instant now);

    /// Makes room for one more waiter and for all actions that a call can append. Requests that can
    /// join the line call it first. Only this and make_places() throw std::bad_alloc.
    void make_room(actions& out) {
        if (!has_room(out)) grow(out);
    }
    bool has_room(const actions& out) const {
        return line_.has_room() && out.capacity() >= most_actions_;
    }

    // Requests. `out` keeps its content; actions are appended.
    void start(instant now, actions& out);
    /// Keeps the minimum open from now on, even with `warm_up::none`.
    void warm(instant now, actions& out);
    answer acquire(instant now, const request& who, actions& out);
    // Express requests. In a full pool in which nothing is due, only the line moves: a newcomer
    // joins it, and a released resource goes to its head. In a calm pool, without waiters and with
    // nothing due, only the idle list moves. These requests do what acquire() and release() do in
    // such a pool, without actions and without settle(); acquire() and release() use them, too.
    // They return false if the guard does not hold; nothing has changed then.

    /// For a waiter that wants one resource, queues, and has no lease. Draws a ticket if the waiter
    /// has none. Also returns false if make_room() has to be called first.
    bool queue_up(instant now, waiter& who, waiter_id& id);
    /// A clean or owing lease ends, and the resource goes to the head of the line, whose cookie is
    /// `to`.
    bool pass_on(instant now, slot_id id, std::uint64_t uses, const std::optional<duration>& held,
                 bool owes, std::uint64_t& to);
    /// A clean or owing lease of `thread` ends, and the resource is set aside for the thread.
    bool set_aside(instant now, slot_id id, std::uint64_t uses, const std::optional<duration>& held,
                   bool owes, std::uint64_t thread);
    /// Without it set_aside() refuses.
    bool has_thread_at_head() const { return !line_.empty() && line_.first().is_thread; }
    /// The cookie of the head. Requires a waiter.
    std::uint64_t head_cookie() const { return line_.first().cookie; }
    /// `thread` takes the resource that is set aside for it.
    bool claim(instant now, std::uint64_t thread, priority rank, slot_id& id);
    /// Whether any resource is set aside. A hint when called without the lock.
    bool has_aside() const { return slots_.aside() > 0; }
    /// How often a resource was set aside.
    std::uint64_t set_asides() const { return set_asides_; }
    /// Lends an idle resource. lent_to() must follow; a borrower that may need a place in line
    /// later calls draw_ticket().
    bool lend_now(instant now, slot_id& id);
    /// Says to whom lend_now() lent a resource. `thread`: the borrower is a thread.
    void lent_to(instant now, slot_id id, bool thread, priority rank) {
        begin_turn(now, slots_[id], thread, rank);
    }
    /// A clean or owing lease ends, and the resource becomes idle.
    bool put_back(instant now, slot_id id, std::uint64_t uses, const std::optional<duration>& held,
                  bool owes);
    /// How many leases express has passed on, and lent at once.
    std::uint64_t passed_on() const { return passed_on_.get(); }
    std::uint64_t lent_now() const { return lent_now_.get(); }

    /// The number of leases so far. Later leases have greater numbers (slot::lent).
    std::uint64_t lends() const { return lends_; }

    /// Reserves a place in line.
    std::uint64_t draw_ticket() { return ++last_ticket_; }
    std::uint64_t last_ticket() const { return last_ticket_; }
    std::optional<slot_id> try_acquire(instant now, actions& out);
    /// False: the waiter was granted or refused before.
    bool cancel(instant now, waiter_id id, actions& out);
    /// `uses`: fast-lane leases since its grant. `held`: the duration of the last lease, if known.
    /// `thread`: the releasing thread, if it may acquire again at once.
    void release(instant now, slot_id id, condition how, std::uint64_t uses,
                 const std::optional<duration>& held, actions& out, std::uint64_t thread = 0);
    /// Brings a resource from the shelf to the machine. Its last lease ended at `idle_since`.
    void bring_back(instant now, slot_id id, std::uint64_t uses, instant idle_since, bool owes,
                    actions& out);
    /// The holder removes the resource from the pool.
    void detach(instant now, slot_id id, actions& out);
    /// Closes all resources that are open now: idle ones at once, leased ones when their lease
    /// ends.
    void retire_all(instant now, actions& out);
    /// Makes room for `count` resources, before resize(). Throws std::bad_alloc without any change.
    void make_places(std::size_t count, actions& out);
    /// Changes max. Surplus resources are closed: idle ones at once, longest idle first, leased
    /// ones when their lease ends. Waiters that want more than `max` at once are refused.
    void resize(instant now, std::size_t max, actions& out);
    /// Stops lending, and opens, sweeps and probes that no caller asks for, until resume(). Waiters
    /// keep their place and deadline; newcomers wait.
    void pause(instant now, actions& out);
    void resume(instant now, actions& out);
    /// Stops sweeps, background probes and opens for the minimum, and their timer, until
    /// resume_maintenance(). Lending goes on.
    void suspend_maintenance(instant now, actions& out);
    void resume_maintenance(instant now, actions& out);
    /// Moves the circuit breaker manually.
    void go(instant now, const breaker_move& where, actions& out);
    /// Moves the circuit breaker by an answer of the strategy to a report made after `moves` moves.
    /// False: the breaker has moved since.
    bool follow(instant now, std::uint64_t moves, const breaker_move& where, actions& out);
    /// Requires a probe of every resource that is open now before it is lent again.
    void suspect_all(instant now, actions& out);
    void close(instant now, actions& out);
    /// The timer. If a call comes much later than wake_at(), the process was frozen, and all idle
    /// resources become suspect.
    void tick(instant now, actions& out);
    /// Says which thread has the lease of a slot; until then the holder is unknown.
    void held_by(slot_id id, std::uint64_t holder) { slots_[id].holder = holder; }
    /// Another strategy takes over. It learns nothing of earlier successes.
    void forget_successes(instant now) { circuit_.take_successes(now); }
    /// Whether every lease is held by a waiting thread if this request waits, too.
    bool waits_in_vain(const request& who) const;
    /// Records the duration of a fast-lane lease.
    void note_hold(duration held) { hold_.record(held); }

    /// A worker makes a call: its timeout runs from now. The time before does not count, because
    /// the resource is not to blame for it.
    void begun(instant now, slot_id id, std::uint64_t call);

    /// An open that made way was not made by any worker: no resource will come of it.
    void never_made(std::uint64_t call) {
        forget_stray(call);
        express_until_ = long_ago;  // there may be room for another open
    }

    // Answers. False: the call was abandoned before, and its result is not wanted.
    bool on_open(instant now, slot_id id, std::uint64_t call, outcome how, actions& out);
    bool on_probe(instant now, slot_id id, std::uint64_t call, outcome how, actions& out);
    bool on_reset(instant now, slot_id id, std::uint64_t call, outcome how, actions& out);
    bool on_close(instant now, slot_id id, std::uint64_t call, outcome how, actions& out);

    /// When tick() must be called if no other call comes before.
    instant wake_at() const { return std::min(line_.earliest(), others_at_); }
    /// When the first resource ceases to be set aside.
    instant aside_at() const {
        slot_id first = slots_.oldest(idle_kind::aside);
        return first == no_slot ? never : aside_until(slots_[first]);
    }

    /// The number of settle() so far. While it does not grow, only the line and the idle list move.
    std::uint64_t settles() const { return settles_; }

    bool closed() const { return closed_; }
    bool paused() const { return paused_; }
    bool maintains() const { return maintains_; }
    pool_state state() const {
        if (closed_) return pool_state::closed;
        return paused_ ? pool_state::paused : pool_state::lending;
    }
    const circuit& breaker() const { return circuit_; }
    /// Closed, and all slots are vacant.
    bool drained() const { return closed_ && slots_.total() == 0; }
    /// The minimum is open.
    bool ready() const;
    bool anyone_waits() const { return !line_.empty(); }
    /// As line::visit.
    template <class F>
    void visit_line(F f) const {
        line_.visit(f);
    }
    /// From when on the head of the line is owed the next free resource: long ago, unless newcomers
    /// may bypass the head for a while; `never` without a waiter.
    instant owed_at() const {
        if (line_.empty()) return never;
        const waiter& head = line_.first();
        bool waits_its_turn = settings_.fairness != fairness::bounded || !head.bypassable ||
                              head.rank == priority::reserved;
        return waits_its_turn ? long_ago : after(head.arrived, settings_.bypass_for);
    }
    /// Whether an acquire could be granted at once. Retires worn-out resources that it meets.
    bool can_lend(instant now, actions& out, std::size_t count = 1);
    const slot& look(slot_id id) const { return slots_[id]; }
    std::size_t max() const { return slots_.max(); }
    std::size_t places() const { return slots_.places(); }
    std::size_t total() const { return slots_.total(); }
    std::size_t count(slot_state s) const { return slots_.count(s); }
    /// The number of retire_all so far.
    std::uint64_t generation() const { return epoch_; }
    /// When all resources last became suspect.
    instant suspect_at() const { return suspect_at_; }

    /// Estimated delay after which a caller that is refused now should retry.
    duration retry_after(instant now) const;

    /// Fills gauges and counters, without `max` and the histograms. May run beside a writer: each
    /// number is read whole, and the caller makes the numbers consistent.
    void read(stats& into) const;
    void read_histograms(stats& into) const;

    /// Asserts the invariants. O(slots + waiters).
    void check(instant now) const;

private:
    /// An open that made way. Until its deadline it may still return a resource.
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
        s.turns = 0;
        s.by_thread = thread;
        if (!thread) return;
        s.turn_began = now;
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

    // Global changes, called by settle() alone.
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

    // Queries.
    slot_id next_fresh(instant now, actions& out);
    std::size_t count_fresh(instant now, std::size_t enough, actions& out);
    bool needs_probe(const slot& s, instant now) const;
    bool is_old(const slot& s) const { return s.epoch < epoch_; }
    /// Whether a resource that owes a reset may become idle: the pool maintains it, and nothing but
    /// a use comes next.
    bool defers() const {
        bool probes = settings_.probe_on_release && can_.probe;
        return can_.reset && settings_.reset_after > duration{} && !paused_ && maintains_ &&
               !probes;
    }
    instant debt_due(const slot& s) const { return after(s.idle_since, settings_.reset_after); }
    std::optional<retire_reason> wear(const slot& s, instant now) const;
    bool head_may_be_bypassed(instant now) const;
    bool head_grants_turns() const;
    /// If false, the waiter may become the head, and may not grant turns as the present head does.
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
    /// Whether idle resources are probed in the background.
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
    deadlines calls_;  // of calls in flight, by slot
    std::vector<stray> strays_;

    flag closed_;
    flag paused_;
    bool maintains_ = true;
    bool full_ = false;        // there are waiters, and only the line moves unless something is due
    bool warmed_ = true;       // the minimum is kept open
    bool tried_ = false;       // a try_acquire found nothing; one open is for the next one
    bool beating_ = false;     // a heartbeat probe is in flight
    bool spared_any_ = false;  // the last sweep kept a due resource because of the minimum
    std::uint64_t epoch_ = 0;  // the number of retire_all
    std::uint64_t last_call_ = 0;
    std::uint64_t last_ticket_ = 0;
    std::uint64_t lends_ = 0;
    std::uint64_t set_asides_ = 0;
    std::uint64_t settles_ = 0;
    std::uint32_t dead_in_row_ = 0;
    std::size_t trials_ = 0;         // leases granted during a recovery
    instant suspect_at_ = long_ago;  // proofs of life up to this time do not count
    instant last_sweep_;
    instant sweep_due_ = never;  // no resource is due to be retired before this
    instant beat_due_ = never;   // no heartbeat is due before this
    instant debt_due_ = never;   // no owed reset is due before this
    instant others_at_ = never;  // when something other than a waiter's deadline is due
    instant rest_at_ = never;    // others_at_ without the look for a freeze
    instant express_until_ = long_ago;
    instant calm_until_ = long_ago;          // until when the pool is calm, others_at_ aside
    duration look_every_ = duration::max();  // interval of looks for a freeze
    std::size_t lend_floor_ = 0;             // idle resources that must not be lent
    instant idle_news_until_ = never;  // from then on a release changes no timer; see note_idle()
    instant settled_at_;
    std::size_t most_actions_ = 0;  // upper bound for one call

    // passed_on_ counts as released, granted and waited; lent_now_ as acquires and granted.
    tally acquires_, granted_, waited_, passed_on_, lent_now_, refused_after_wait_, released_,
        discarded_, detached_;
    tally opened_, open_failed_, closed_count_, abandoned_, try_empty_;
    std::array<tally, retire_reason_count> retired_;
    std::array<tally, errc_count> refused_;
    tally_histogram wait_, hold_, open_;
};

// Queries of every hand-over.

/// Whether only the line moves: no slot is free, and nothing is due.
inline bool machine::crowded(instant now) const {
    return full_ && !line_.empty() && now < wake_at();
}

/// Updates the timers when a resource becomes idle. Usually an earlier resource has set them.
inline void machine::note_idle(instant now, const slot& s) {
    if (is_news(s)) [[unlikely]]
        note_news(now, s);
}

/// Sets the timer as settle() would after a lend or a release in a calm pool.
inline void machine::stay_calm(instant now) {
    settled_at_ = now;
    others_at_ = std::min(rest_at_, look_at());
    express_until_ = std::min(others_at_, calm_until_);
}

inline instant machine::look_at() const {
    return count(slot_state::idle) > 0 ? after(settled_at_, look_every_) : never;
}

/// When something other than a waiter's deadline is due.
inline instant machine::others_due() const {
    instant at = count(slot_state::idle) > slots_.aside() ? look_at() : never;
    at = std::min(rest_at_, at);
    return std::min(at, aside_at());
}

inline bool machine::needs_probe(const slot& s, instant now) const {
    if (!can_.probe || s.checked_at == now) return false;  // proven at this very instant
    instant good_at = std::max(s.idle_since, s.checked_at);
    // A later lease does not clear the suspicion: the borrower may not have touched the server.
    bool suspect = s.checked_at <= suspect_at_;
    return suspect || after(good_at, settings_.probe_after_idle) <= now;
}

/// Whether a released resource can be lent again as it is, in a pool in which express is allowed.
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
