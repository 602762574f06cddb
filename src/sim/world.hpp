// A world for the machine to live in: borrowers, a connector, a clock, all drawn from one seed.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/dice.hpp"
#include "core/machine.hpp"
#include "sim/model.hpp"
#include "sim/plan.hpp"

namespace cenote::sim {

/// The machine did something it must not do.
struct finding : std::logic_error {
    using std::logic_error::logic_error;
};

/// What a world has seen; sums over runs say how much was tried.
struct tallies {
    std::uint64_t steps = 0;
    std::uint64_t grants = 0;
    std::uint64_t refusals = 0;
    std::uint64_t cancels = 0;
    std::uint64_t faults = 0;

    void add(const tallies& other);
};

/// Carries out decisions on the machine and on the reference model side by side. After every step
/// both must have acted alike, the machine's invariants must hold, and so must what the world
/// itself knows: who holds what, who waits since when, which calls are in flight.
class world {
public:
    explicit world(const plan& p);

    /// The next decision, drawn from the seed and from what is going on.
    decision draw();

    /// Carries out one decision. Throws `finding`.
    void step(const decision& d);

    /// Faults stop. Everybody who waits must be served in time; then the pool is closed and must
    /// drain. Throws `finding`.
    void finish();

    bool closed() const { return closed_; }
    std::uint64_t hash() const { return hash_; }
    const tallies& seen() const { return seen_; }

private:
    enum class doing : std::uint8_t { nothing, waiting, holding };
    struct borrower {
        doing what = doing::nothing;
        core::waiter_id waiter{};
        std::uint64_t cookie = 0;
        std::uint64_t ticket = 0;
        core::instant arrived{};
        core::instant deadline{};
        core::slot_id slot = core::no_slot;
    };
    struct call {
        core::verb which{};
        core::slot_id slot = core::no_slot;
        std::uint64_t number = 0;
        core::instant deadline = core::never;  // until it begins
    };
    /// What the world knows of the resource in a slot.
    struct place {
        bool exists = false;
        bool dirty = false;
        bool given_up = false;  // discarded, rejected, dead: must not be lent again
        std::uint64_t resource = 0;
        event_kind last_event = event_kind::closed;
    };

    bool choose_borrower(decision& d);
    bool borrow(const decision& d, borrower& who);
    bool happen(const decision& d);
    void acquire(borrower& who, core::instant deadline, std::uint64_t ticket,
                 core::instant arrived);
    void attempt(borrower& who);
    void cancel(borrower& who);
    void detach(borrower& who);
    void release(borrower& who, core::condition how);
    void reject(borrower& who);
    void answer(const call& c, core::outcome how, bool believed);
    bool pass(std::uint32_t how, std::uint32_t much);
    void call_ended(const call& c, core::outcome how);

    void settle_again();
    void absorb();
    void absorb(const core::action& a);
    void lent(borrower& who, core::slot_id slot, bool from_line);
    void began(const core::action& a);
    void start(call& c);
    void reported(const core::action& a);
    void compare_answers(const core::answer& mine, const core::answer& theirs);
    void compare_actions();
    void look();
    void mix(std::uint64_t value);
    borrower* by_cookie(std::uint64_t cookie);
    bool serve_once();
    static void require(bool holds, const char* what);

    plan plan_;
    core::dice random_;
    core::instant now_;
    core::machine machine_;
    model model_;
    core::actions mine_;
    core::actions theirs_;
    std::vector<borrower> borrowers_;
    std::vector<call> calls_;     // in flight
    std::vector<call> given_up_;  // in flight, but the machine no longer waits for them
    std::vector<place> places_;
    std::uint64_t last_cookie_ = 0;
    bool closed_ = false;
    std::uint64_t hash_ = 0xcbf29ce484222325u;
    tallies seen_;
};

}  // namespace cenote::sim
