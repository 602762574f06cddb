// The simulator's second opinion: the machine's rules once more, so plainly that they can be read.
//
// It shares no code with the machine but the types of its contract. Slots and waiters stand in
// vectors that are scanned whole; nothing is counted, sorted or remembered that can be found by
// looking. Stepped side by side with the machine, it must produce the same actions in the same
// order (without the reports, which it does not make). Waiters are named by their cookies.
#pragma once

#include <cstddef>
#include <cstdint>
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

    void start(core::instant now, core::actions& out);
    core::answer acquire(core::instant now, const core::request& who, core::actions& out);
    std::optional<core::slot_id> try_acquire(core::instant now, core::actions& out);
    bool cancel(core::instant now, std::uint64_t cookie, core::actions& out);
    void release(core::instant now, core::slot_id id, core::condition how, std::uint64_t uses,
                 core::actions& out, std::uint64_t thread = 0);
    void detach(core::instant now, core::slot_id id, core::actions& out);
    void retire_all(core::instant now, core::actions& out);
    void resize(core::instant now, std::size_t max, core::actions& out);
    void pause(core::instant now, core::actions& out);
    void resume(core::instant now, core::actions& out);
    void maintain(core::instant now, bool on, core::actions& out);
    void go(core::instant now, const breaker_move& where, core::actions& out);
    bool follow(core::instant now, std::uint64_t moves, const breaker_move& where,
                core::actions& out);
    void suspect_all(core::instant now, core::actions& out);
    void close(core::instant now, core::actions& out);
    void tick(core::instant now, core::actions& out);

    void held_by(core::slot_id id, std::uint64_t holder) { slots_[id].holder = holder; }
    void begun(core::instant now, core::slot_id id, std::uint64_t call);
    bool on_open(core::instant now, core::slot_id id, std::uint64_t call, core::outcome how,
                 core::actions& out);
    bool on_probe(core::instant now, core::slot_id id, std::uint64_t call, core::outcome how,
                  core::actions& out);
    bool on_reset(core::instant now, core::slot_id id, std::uint64_t call, core::outcome how,
                  core::actions& out);
    bool on_close(core::instant now, core::slot_id id, std::uint64_t call, core::outcome how,
                  core::actions& out);

    core::instant wake_at() const;
    std::size_t count(core::slot_state state) const;
    std::size_t waiting() const { return line_.size(); }

private:
    struct place {
        core::slot_state state = core::slot_state::vacant;
        core::idle_kind idle = core::idle_kind::fresh;
        core::probe_purpose purpose{};
        bool expiring = false;
        bool trial = false;
        std::uint64_t trial_of = 0;  // how often the circuit had moved then
        std::uint64_t call = 0;
        std::uint64_t uses = 0;
        std::uint64_t epoch = 0;
        std::uint64_t holder = 0;
        bool begun = false;          // the call in flight is being made
        bool owes = false;           // a reset, which its next use makes
        std::uint64_t resource = 0;  // the number of the call that opened it
        std::uint64_t moved = 0;     // when it came to its idle kind, or became vacant
        core::instant called_at{};
        core::instant expires_at{};
        core::instant idle_since{};
        core::instant checked_at{};
        core::instant due = core::never;  // the deadline of its call
        // Of the one who was lent it last, and of his turn.
        bool by_thread = false;
        priority rank = priority::normal;
        std::size_t turns = 0;
        core::instant turn_began{};
        std::uint64_t set_aside_for = 0;
    };

    struct waiter {
        std::uint64_t cookie = 0;
        std::uint64_t ticket = 0;
        core::instant arrived{};
        bool bypassable = false;
        bool is_thread = false;
        priority rank = priority::normal;
        std::size_t count = 1;
        std::uint64_t holder = 0;
        core::instant deadline = core::never;
    };

    struct shortage {
        std::size_t of_minimum = 0;
        std::size_t of_spares = 0;
        bool any() const { return of_minimum + of_spares > 0; }
    };

    // Changes of one slot or waiter.
    void enter(core::slot_id id, core::slot_state state);
    void begin(core::instant now, core::slot_id id, core::slot_state state, core::verb which,
               core::actions& out);
    void begin_close(core::instant now, core::slot_id id, core::actions& out);
    void begin_probe(core::instant now, core::slot_id id, core::probe_purpose why,
                     core::actions& out);
    void vacate(core::slot_id id);
    void become_fresh(core::instant now, core::slot_id id);
    void move(core::slot_id id, core::idle_kind kind);
    void doom_all();
    void lend(core::instant now, core::slot_id id, core::duration waited, bool to_thread = false,
              priority rank = priority::normal);
    void put_by(core::instant now, core::slot_id id, core::actions& out);
    void fail_open(core::instant now, core::slot_id id, bool final, core::actions& out);
    void fail_probe(core::instant now, core::slot_id id, core::actions& out);
    void end_call(core::slot_id id);
    bool answered(core::slot_id id, std::uint64_t call, core::slot_state expected);
    void join(core::instant now, const core::request& who, std::uint64_t ticket);
    void notice_freeze(core::instant now);
    void judge(core::instant now, core::circuit_news what, std::uint64_t resource,
               core::actions& out);
    bool deadlocks(const core::request& who) const;
    bool lets_in(std::size_t count = 1) const;
    std::size_t waiters_want() const;
    std::optional<errc> turned_away(const core::request& who) const;
    bool must_queue(std::size_t wanted) const;
    bool too_many(std::size_t more = 0) const;
    std::size_t room() const;
    std::size_t room_for_opens() const;
    core::instant scout_at() const;
    void make_way(core::actions& out);
    std::size_t kept() const;
    std::vector<core::slot_id> all_in_turn(core::idle_kind kind) const;
    void look_at_kept(core::instant now);
    bool gather(core::instant now, core::actions& out);
    void let_go_of_kept();
    bool head_grants_turns() const;
    bool turn_goes_on(core::instant now, const place& s, std::uint64_t thread) const;
    core::slot_id own(core::instant now, const core::request& who) const;
    void look_at_aside(core::instant now);
    void let_go_of_aside();
    std::size_t trials() const;
    void refuse(std::size_t place_in_line, errc error, core::actions& out);
    void grant(core::instant now, std::size_t place_in_line, core::slot_id id, core::actions& out);

    // The steps of settle().
    void settle(core::instant now, core::actions& out);
    void give_up_calls(core::instant now, core::actions& out);
    void refuse_expired(core::instant now, core::actions& out);
    void shed_late(core::instant now, core::actions& out);
    void served(core::instant now, core::duration waited);
    std::size_t oldest() const;
    core::instant shed_at(std::size_t who) const;
    core::instant turn(const waiter& w) const;
    void lend_fresh(core::instant now, core::actions& out);
    void probe_stale(core::instant now, core::actions& out);
    void close_doomed(core::instant now, core::actions& out);
    void sweep(core::instant now, core::actions& out);
    void sweep_one(core::instant now, core::slot_id id, core::actions& out);
    void pay_debts(core::instant now, core::instant by, core::actions& out);
    void beat(core::instant now, core::actions& out);
    void open_missing(core::instant now, core::actions& out);

    // Looks.
    bool earlier(const place& a, const place& b) const;
    core::slot_id first(core::idle_kind kind) const;
    core::slot_id last(core::idle_kind kind) const;
    const std::vector<core::slot_id>& fresh_then_stale();
    core::slot_id next_fresh(core::instant now, core::actions& out);
    core::slot_id lendable(core::instant now, core::actions& out);
    bool lendable_many(core::instant now, std::size_t count, core::actions& out);
    bool needs_probe(const place& s, core::instant now) const;
    bool worn(const place& s, core::instant now) const;
    bool minimum_needs(const place& s) const;
    bool must_wait_for_replacement(const place& s) const;
    core::slot_id vacated_last() const;
    core::slot_id first_due_call() const;
    std::size_t first_due_waiter() const;
    std::size_t find(std::uint64_t cookie) const;
    std::size_t returning() const;
    std::size_t available() const;
    std::size_t alive() const;
    bool head_may_be_bypassed(core::instant now) const;
    core::instant idle_limit(const place& s) const;
    core::instant beat_at(const place& s) const;
    bool debts_last() const;
    core::instant debt_at(const place& s) const;
    core::instant sweep_at() const;
    core::instant draw_expiry(core::instant now);

    // How fast opens follow each other.
    std::size_t wanted() const { return waiters_want() + (tried_ ? 1 : 0); }
    shortage missing() const;
    std::size_t allowed(core::instant now);
    std::size_t regular(core::instant now);
    std::size_t present_width(core::instant now);
    void widen();
    void open_succeeded(core::instant now, core::instant called_at);
    void open_failed(core::instant now, core::instant called_at);
    core::instant open_due(bool somebody_waits) const;
    void fill_bucket(core::instant now);
    core::duration price() const;

    options settings_;
    core::abilities can_;
    core::dice random_;
    std::vector<place> slots_;
    std::vector<waiter> line_;
    std::vector<core::slot_id> in_turn_;  // lent by fresh_then_stale(), to spare allocations

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
    std::uint64_t moves_ = 0;
    std::uint64_t dead_in_row_ = 0;
    std::uint64_t lends_ = 0;
    std::uint64_t no_turns_before_ = 0;  // so many lends
    std::uint64_t no_turns_for_ = 64;    // lends, if the next one does not come again
    std::size_t came_again_ = 0;         // less what those who did not have used up
    core::instant suspect_at_ = core::long_ago;
    core::instant last_sweep_;
    core::instant settled_at_;
    core::instant sweep_due_ = core::never;
    core::instant beat_due_ = core::never;
    core::instant debt_due_ = core::never;

    std::size_t width_ = 1;
    core::instant widen_at_ = core::never;
    core::instant relying_since_ = core::never;
    std::size_t failures_ = 0;
    core::instant last_failure_ = core::long_ago;
    core::instant failed_call_ = core::long_ago;   // the beginning of the last open that failed
    core::instant fresh_at_ = core::never;         // when the last open was begun
    core::instant fruitless_since_ = core::never;  // since when opens only fail or hang
    core::duration usual_{};                       // what an open takes
    std::vector<std::pair<std::uint64_t, core::instant>> strays_;  // what made way: call, deadline
    std::int64_t permille_ = 1000;
    core::instant retry_at_ = core::never;
    bool held_back_ = false;
    core::duration shortest_wait_ = core::duration::max();  // of this interval
    core::instant interval_ends_ = core::long_ago;
    bool late_ = false;
    breaker_move circuit_;  // the last one
    std::uint64_t moves_of_circuit_ = 0;
    core::instant ask_at_ = core::never;
    std::uint64_t successes_ = 0;  // since the strategy was told
    core::instant told_at_ = core::long_ago;
    core::instant success_at_ = core::long_ago;
    core::duration in_bucket_;  // so much time's worth of tokens
    core::instant filled_at_;
};

}  // namespace cenote::sim
