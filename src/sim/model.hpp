// The rules of the machine once more, as a specification that the simulator compares it with.
//
// The model shares no code with the machine but the types of its contract. It finds what it needs
// to know by scanning all slots and all waiters, and remembers only what cannot be found that way.
// Side by side with the machine it must give the same answers, the same actions in the same order
// (without the reports) and the same timer. Among equals it follows the ties in core/machine.hpp.
// Waiters are named by their cookies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "cenote/error.hpp"
#include "cenote/options.hpp"
#include "core/dice.hpp"
#include "core/instant.hpp"
#include "core/machine.hpp"
#include "core/slots.hpp"

namespace cenote::sim {

class model {
public:
    model(const options& settings, core::abilities can, std::uint64_t seed, core::instant now);

    // The requests of the machine. What they lead to is appended to actions().
    core::answer acquire(core::instant now, const core::request& who);
    std::optional<core::slot_id> try_acquire(core::instant now);
    bool cancel(core::instant now, std::uint64_t cookie);
    void release(core::instant now, core::slot_id id, core::condition how, std::uint64_t uses,
                 std::uint64_t thread = 0);
    void detach(core::instant now, core::slot_id id);
    void retire_all(core::instant now);
    void suspect_all(core::instant now);
    void resize(core::instant now, std::size_t max);
    void pause(core::instant now, bool on);
    void maintain(core::instant now, bool on);
    void go(core::instant now, const breaker_move& where);
    bool follow(core::instant now, std::uint64_t moves, const breaker_move& where);
    void close(core::instant now);
    void tick(core::instant now);

    void held_by(core::slot_id id, std::uint64_t holder) { slots_[id].holder = holder; }
    void begun(core::instant now, core::slot_id id, std::uint64_t call);
    /// on_open, on_probe, on_reset and on_close.
    bool answered(core::instant now, core::slot_id id, std::uint64_t call, core::verb which,
                  core::outcome how);

    core::actions& actions() { return actions_; }
    core::instant wake_at() const;
    std::size_t count(core::slot_state state) const;
    std::size_t waiting() const { return line_.size(); }

private:
    struct place {
        core::slot_state state = core::slot_state::vacant;
        core::idle_kind idle = core::idle_kind::fresh;
        std::uint64_t since = 0;  // number of the change that made it vacant, or idle of this kind
        // Of the resource.
        std::uint64_t resource = 0;  // the number of the call that opened it
        std::uint64_t epoch = 0;
        std::uint64_t uses = 0;
        core::instant expires_at{};
        core::instant idle_since{};
        core::instant checked_at{};
        bool owes = false;
        bool expiring = false;  // too old, and kept until its replacement is there
        // Of the call in flight.
        std::uint64_t call = 0;
        core::probe_purpose purpose{};
        bool begun = false;
        core::instant called_at{};
        core::instant due = core::never;
        // Of the lease, or of the last one.
        std::uint64_t holder = 0;  // the thread that has it, or for which it is set aside
        bool trial = false;
        std::uint64_t trial_of = 0;  // after how many moves of the circuit
        bool by_thread = false;
        priority rank = priority::normal;
        std::size_t turns = 0;
        core::instant turn_began{};
    };

    struct waiter {
        std::uint64_t cookie = 0;
        std::uint64_t ticket = 0;
        std::uint64_t holder = 0;
        core::instant arrived{};
        core::instant deadline{};
        std::size_t count = 1;
        priority rank = priority::normal;
        bool bypassable = false;
        bool is_thread = false;
    };

    struct shortage {
        std::size_t of_minimum = 0;
        std::size_t of_spares = 0;
        bool any() const { return of_minimum + of_spares > 0; }
    };

    void arrive(core::instant now);
    core::answer decide(const core::request& who, std::uint64_t ticket);

    // Changes of slots and waiters.
    void add_slots(std::size_t count);
    void enter(core::slot_id id, core::slot_state state);
    void begin(core::slot_id id, core::verb which);
    void end_call(core::slot_id id);
    void vacate(core::slot_id id);
    void become_fresh(core::slot_id id);
    void put_by(core::slot_id id);
    void move(core::slot_id id, core::idle_kind kind);
    void move_all(core::idle_kind from, core::idle_kind to);
    void doom_all();
    void lend(core::slot_id id, const waiter& to);
    void take_turn(core::slot_id id, priority rank);
    void opened(core::slot_id id, core::outcome how);
    void fail_open(core::slot_id id, bool final);
    void fail_probe(core::slot_id id);
    void join(const waiter& who);
    waiter leave(std::size_t place_in_line);
    void refuse(std::size_t place_in_line, errc error);
    void judge(core::circuit_news what, std::uint64_t resource);

    // The steps of settle().
    void settle();
    void give_up_calls();
    void refuse_expired();
    void shed_late();
    void look_at_aside();
    void lend_fresh();
    bool gather();
    void probe_stale();
    void close_doomed();
    void sweep();
    void sweep_one(core::slot_id id);
    void pay_debts(core::instant by);
    void beat();
    void open_missing();
    void make_way();

    // Looks at the slots.
    template <class Is, class Before>
    core::slot_id pick(Is is, Before before) const;
    template <class Is>
    std::size_t count_if(Is is) const;
    core::slot_id first(core::idle_kind kind) const;
    std::vector<core::slot_id> idle(std::initializer_list<core::idle_kind> kinds) const;
    std::vector<core::slot_id> lendable(std::size_t count);
    std::size_t kept() const;
    std::size_t returning() const;
    std::size_t available() const;
    std::size_t alive() const;
    std::size_t trials() const;
    std::size_t room() const;
    bool too_many(std::size_t more = 0) const;
    bool worn(const place& s) const;
    bool needs_probe(const place& s) const;
    bool minimum_needs(const place& s) const;
    bool must_wait_for_replacement(const place& s) const;
    bool defers_resets() const;
    core::instant idle_limit(const place& s) const;
    core::instant beat_at(const place& s) const;
    core::instant debt_at(const place& s) const;
    core::instant sweep_at() const;
    core::instant draw_expiry();

    // Looks at the line.
    template <class Is, class Key>
    std::size_t first_waiter(Is is, Key key) const;
    std::size_t oldest() const;
    std::size_t waiters_want() const;
    core::instant turn(const waiter& w) const;
    core::instant shed_at(std::size_t place_in_line) const;
    bool head_may_be_bypassed() const;
    bool head_wants_many() const { return !line_.empty() && line_.front().count > 1; }
    bool head_grants_turns() const;
    bool turn_goes_on(const place& s, std::uint64_t thread) const;
    core::slot_id own(const core::request& who) const;
    bool lets_in(std::size_t count = 1) const;
    bool may_lend() const;
    bool must_queue(std::size_t wanted) const;
    bool deadlocks(const core::request& who) const;
    void served(core::duration waited);

    // How fast opens follow each other.
    std::size_t wanted() const { return waiters_want() + (tried_ ? 1 : 0); }
    shortage missing() const;
    std::size_t allowed();
    std::size_t regular();
    std::size_t present_width();
    std::size_t room_for_opens() const;
    core::instant scout_at() const;
    void open_succeeded(core::instant called_at);
    void open_failed(core::instant called_at);
    core::instant open_due(bool for_waiters) const;
    void fill_bucket();
    core::duration price() const;

    options settings_;
    core::abilities can_;
    core::dice random_;
    core::instant now_;
    core::actions actions_;
    std::vector<place> slots_;
    std::vector<waiter> line_;  // in the order of their turns

    bool closed_ = false;
    bool paused_ = false;
    bool maintained_ = true;
    bool keeps_minimum_;
    bool tried_ = false;
    bool beating_ = false;
    bool spared_any_ = false;
    std::uint64_t epoch_ = 0;
    std::uint64_t last_call_ = 0;
    std::uint64_t last_ticket_ = 0;
    std::uint64_t changes_ = 0;
    std::uint64_t dead_in_row_ = 0;
    core::instant suspect_at_ = core::long_ago;
    core::instant last_sweep_;
    core::instant settled_at_;
    // Not before these: the timer of a resource that has gone stays.
    core::instant sweep_due_ = core::never;
    core::instant beat_due_ = core::never;
    core::instant debt_due_ = core::never;

    // Turns.
    std::uint64_t lends_ = 0;
    std::uint64_t no_turns_before_ = 0;  // turns are off until this many lends
    std::uint64_t no_turns_for_ = 64;    // lends, if the next thread does not come back
    std::size_t came_back_ = 0;          // less what the threads that did not have used up

    // Opens.
    std::size_t width_ = 1;
    core::instant widen_at_ = core::never;
    core::instant relying_since_ = core::never;
    std::size_t failures_ = 0;
    core::instant last_failure_ = core::long_ago;
    core::instant failed_call_ = core::long_ago;   // when the last open began that failed
    std::int64_t permille_ = 1000;                 // of the backoff, drawn for the last failure
    core::instant fresh_at_ = core::never;         // when the last open was begun
    core::instant fruitless_since_ = core::never;  // since when opens only fail or hang
    core::duration usual_{};                       // what an open takes
    std::vector<std::pair<std::uint64_t, core::instant>> strays_;  // call and deadline
    core::instant retry_at_ = core::never;
    bool held_back_ = false;
    core::duration in_bucket_;  // tokens, as the time in which they come
    core::instant filled_at_;

    // Early refusal.
    core::duration shortest_wait_ = core::duration::max();  // of this interval
    core::instant interval_ends_ = core::long_ago;
    bool late_ = false;

    // The circuit.
    breaker_move circuit_;  // the last one
    std::uint64_t circuit_moves_ = 0;
    core::instant ask_at_ = core::never;
    std::uint64_t successes_ = 0;  // that the strategy was not told of
    core::instant told_at_ = core::long_ago;
    core::instant success_at_ = core::long_ago;
};

}  // namespace cenote::sim
