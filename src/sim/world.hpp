// The simulated world around the machine: borrowers, a connector and a clock, drawn from one seed.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "cenote/breaker.hpp"
#include "core/dice.hpp"
#include "core/machine.hpp"
#include "sim/lease_watch.hpp"
#include "sim/model.hpp"
#include "sim/plan.hpp"
#include "sim/spectator.hpp"

namespace cenote::sim {

/// The machine did something it must not do.
struct finding : std::logic_error {
    using std::logic_error::logic_error;
};

/// Throws a finding if this does not hold.
inline void require(bool holds, const char* what) {
    if (!holds) throw finding(what);
}

/// The timeout of a call of this verb.
std::chrono::nanoseconds timeout_of(core::verb which, const options& o);

/// Answers a call of the machine.
bool answer(core::machine& machine, core::instant now, core::verb which, core::slot_id slot,
            std::uint64_t call, core::outcome how, core::actions& out);

/// Throws `finding` if machine and model disagree in what can be seen from outside.
void compare(const core::machine& machine, const model& other, const stats& seen);

/// What a world has seen. Sums over runs say how much was tried.
struct tallies {
    std::uint64_t steps = 0;
    std::uint64_t grants = 0;
    std::uint64_t passed_on = 0;  // grants by express to the head of the line
    std::uint64_t lent_now = 0;   // grants by express of what was idle
    std::uint64_t turns = 0;      // grants of what a thread took back
    std::uint64_t refusals = 0;
    std::uint64_t cancels = 0;    // of waiters
    std::uint64_t destroyed = 0;  // coroutines, while suspended
    std::uint64_t faults = 0;

    void add(const tallies& other);
};

/// Carries out decisions on the machine and on the reference model side by side. After every step
/// both must have acted alike, the machine's invariants must hold, and so must what the world
/// itself knows: the lease of each borrower, the line, the calls in flight.
class world {
public:
    /// `watching`, if not null, is shown every step, beginning with the making of the pool.
    explicit world(const plan& p, spectator* watching = nullptr);

    /// The next decision, drawn from the seed and from what is going on.
    decision draw();

    /// Carries out one decision. Throws `finding`.
    void step(const decision& d);

    /// Failures stop. Every waiter must be served in time; then the pool is closed and must drain.
    /// Throws `finding`.
    void finish();

    bool closed() const { return closed_; }
    std::uint64_t hash() const { return hash_; }
    const tallies& seen() const { return seen_; }

private:
    enum class doing : std::uint8_t {
        nothing,
        waiting,    // in line
        admitting,  // a coroutine with a grant that a thread is to look at
        looked_at,  // and the thread does
        told,       // a coroutine, granted or refused, which its executor will resume
        holding,
    };
    struct borrower {
        doing what = doing::nothing;
        bool stopped = false;    // its stop token was triggered
        bool withdrawn = false;  // it is being destroyed, or needs no answer
        bool bypassable = false;
        bool cannot_wait = false;
        bool queues = true;
        priority rank = priority::normal;
        bool trial = false;  // lent while the circuit was recovering
        bool moved = false;  // it is unknown which thread has its lease
        core::waiter_id waiter{};
        std::uint64_t cookie = 0;
        std::uint64_t ticket = 0;
        std::uint64_t came = 0;  // its place by the world's own count
        core::instant arrived{};
        core::instant deadline{};
        core::slot_id slot = core::no_slot;
    };
    /// A caller that wants several at once, or none.
    struct gatherer {
        bool waits = false;
        std::uint32_t count = 0;
        core::waiter_id waiter{};
        std::uint64_t cookie = 0;
        std::uint64_t came = 0;
        core::instant arrived{};
        core::instant deadline{};
        std::vector<core::slot_id> slots;
    };
    struct call {
        core::verb which{};
        core::slot_id slot = core::no_slot;
        std::uint64_t number = 0;
        core::instant deadline = core::never;  // until it begins
        bool made_way = false;
    };
    /// What the world knows of the resource in a slot.
    struct place {
        bool exists = false;
        bool dirty = false;
        bool owes = false;  // a reset, since then
        core::instant owes_since{};
        bool given_up = false;  // discarded, rejected or dead: must not be lent again
        bool fit = false;       // before_acquire has said so, since it was lent
        std::uint64_t resource = 0;
        event_kind last_event = event_kind::closed;
        std::uint64_t given_back_by = 0;  // the thread
        std::uint64_t taken_back = 0;     // how often, since another borrower had it
        core::instant turn_began{};
    };

    bool carry_out(const decision& d);
    std::uint32_t draw_patience();
    bool choose_borrower(decision& d);
    bool choose_instead(decision& d);
    bool fits(const borrower& who, decision::kind what) const;
    bool borrow(const decision& d, borrower& who);
    bool happen(const decision& d);

    // Borrowers.
    void acquire(borrower& who, std::uint32_t patience, bool cannot_wait);
    void ask(borrower& who);
    void attempt(borrower& who);
    void cancel(borrower& who);
    bool take_out(borrower& who);
    void detach(borrower& who);
    void release(borrower& who, core::condition how);
    void reject(borrower& who);
    void hand_on(borrower& who);
    void send_back(borrower& who);
    void receive(borrower& who, core::slot_id slot, bool from_line);
    void hold(borrower& who);
    void end(borrower& who);

    // Gatherers.
    bool gather(gatherer& who, std::uint32_t how);
    bool call_off(gatherer& who);
    bool scatter(gatherer& who);
    void gathered(gatherer& who, core::slot_id slot);
    void sent_away(gatherer& who, const core::action& a);
    void look_at_gatherers() const;
    bool is_gatherers(core::slot_id slot) const;
    gatherer* gatherer_named(std::uint64_t cookie);

    // For the spectator.
    void step_watched(const decision& d);
    scene foresee(const decision& d) const;
    void show(scene& s);
    void note(const actor& who, const core::answer& a, std::size_t in_line, core::instant deadline);
    void note(const core::action& a);
    void note_report(const core::action& a);
    actor actor_of(const borrower& who) const;
    actor actor_of(const gatherer& who) const;
    actor actor_called(std::uint64_t cookie);
    std::size_t place_in_line(core::instant turn_of_it, std::uint64_t came) const;

    // Coroutines, and what the keeper does for them.
    bool is_coroutine(const borrower& who) const;
    static bool is_suspended(const borrower& who) {
        return who.what != doing::nothing && who.what != doing::holding;
    }
    void leave_at_once(borrower& who);
    void granted(borrower& who, bool from_line);
    void refused(borrower& who);
    void tell(borrower& who);
    void resume(borrower& who);
    void destroy(borrower& who);
    bool admit(borrower& who, bool fit);
    void give_back(borrower& who);
    bool crowd(std::uint32_t first, std::uint32_t patience);
    bool storm(std::uint32_t first, bool destroys);

    // The connector and the clock.
    void answer(const call& c, core::outcome how, bool believed);
    bool pass(std::uint32_t how, std::uint32_t much);
    void call_ended(const call& c, core::outcome how);
    void close();
    void resize(std::size_t max);
    void pause(bool on);
    void maintain(bool on);
    bool judge();
    void move(const breaker_move& where);

    void settle_again();
    void absorb();
    void absorb(const core::action& a);
    void began(const core::action& a);
    void give_up(const core::action& a);
    void make_way(const core::action& a);
    void start(call& c);
    void reported(const core::action& a);
    void compare_answers(const core::answer& mine, const core::answer& theirs);
    void compare_actions();
    void look();
    void look_at_borrowers(const stats& s) const;
    void look_at_debts(const stats& s) const;
    void mix(std::uint64_t value);
    std::uint64_t thread_of(const borrower& who) const;
    std::uint64_t holder_of(const borrower& who) const;
    std::uint64_t runs_on(const borrower& who) const;
    bool take_turn(const borrower& who, core::slot_id slot) const;
    const borrower* head() const;
    bool has_waiters() const;
    bool deadlocks(const borrower& who) const;
    core::instant turn(const borrower& who) const;
    bool comes_before(const borrower& a, const borrower& b) const;
    std::size_t index_of(const borrower& who) const;
    borrower& by_cookie(std::uint64_t cookie);
    bool serve_once();

    plan plan_;
    core::dice random_;
    core::instant began_at_;
    core::instant now_;
    core::machine machine_;
    model model_;
    core::actions mine_;
    std::vector<borrower> borrowers_;
    std::vector<gatherer> gatherers_;
    bool scattering_ = false;     // a gatherer is giving back its resources
    std::vector<call> calls_;     // in flight
    std::vector<call> given_up_;  // in flight, but the machine no longer waits for them
    std::vector<place> places_;
    lease_watch watch_;
    std::size_t max_;             // at present
    std::size_t most_;            // that may exist: max, or what a resize has left over
    std::uint64_t asks_ = 0;      // acquires as the machine counts them
    std::uint64_t attempts_ = 0;  // try_acquires that were granted
    std::uint64_t begun_ = 0;     // acquires as borrowers count them
    std::uint64_t ended_ = 0;
    bool closed_ = false;
    bool paused_ = false;
    bool maintained_ = true;
    threshold_breaker strategy_;
    core::actions news_;  // that the strategy has not heard yet
    breaker_move circuit_;
    std::uint64_t trials_well_ = 0;  // successful leases of a recovery since the last move
    std::uint64_t hash_ = 0xcbf29ce484222325u;
    spectator* spectator_;
    std::vector<consequence> followed_;  // in this step, for the spectator
    tallies seen_;
};

}  // namespace cenote::sim
