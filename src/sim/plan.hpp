// What one simulated run is made of: everything that follows from its seed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cenote/options.hpp"
#include "core/machine.hpp"

namespace cenote::sim {

/// One decision of the world. What `a` and `b` mean depends on the kind; a decision that does not
/// fit the state of the world is passed over, so any subset of a run is a run.
struct decision {
    enum class kind : std::uint8_t {
        acquire,  // borrower a; b: how long it is willing to wait
        demand,   // the same by a thread that cannot wait
        attempt,  // borrower a calls try_acquire
        cancel,   // borrower a, if it waits
        release,  // borrower a, if it holds; b: in what condition
        detach,   // borrower a, if it holds
        reject,   // borrower a, a thread, if it holds: its before_acquire says no
        hand_on,  // borrower a, if it holds: its lease is moved, perhaps to another thread
        // These are for borrowers that are coroutines.
        stop,     // borrower a, before it asks: it is canceled as soon as it does
        resume,   // borrower a, if it has been told
        destroy,  // borrower a, if it is suspended
        look,     // what borrower a was granted: a thread begins to look at it
        admit,    // what borrower a was granted; b: whether before_acquire said no
        // And these for all from borrower a on, at once.
        crowd,  // they acquire; b: how long each is willing to wait
        storm,  // they cancel; b odd: those that can be are destroyed instead
        // These are for gatherers, who want several at once.
        gather,    // gatherer a; b: how many, and how long it is willing to wait
        call_off,  // gatherer a, if it waits
        scatter,   // gatherer a, if it holds
        // What the rest of the world does.
        answer,  // the a-th call in flight; b: how it ends
        start,   // the a-th call in flight is being made, after it has waited for that
        late,    // the a-th call that was given up ends after all; b: how
        pass,    // time: a = how, b = how much
        retire_all,
        suspect_all,
        resize,  // b: to how many
        pause,
        unpause,
        suspend,  // maintenance
        restore,
        judge,    // the strategy hears the oldest news that waits for it
        breaker,  // by hand: a = to which state, b = with how many probes
        close,
    };
    static constexpr std::size_t kinds = 32;

    kind what{};
    std::uint32_t a = 0;
    std::uint32_t b = 0;
};

/// Writes a decision as a line, and reads it back.
std::string to_string(const decision& d);
bool parse(const std::string& text, decision& d);

/// Options, abilities and habits drawn from a seed. Every seed has its own mix: some have no
/// faults, some one kind only, some are all faults.
struct plan {
    std::uint64_t seed = 0;
    options settings;
    core::abilities can;
    bool reports = false;
    bool calls_wait = false;  // calls do not begin at once
    bool ends_live = false;   // liveness: at the end faults stop, and everybody must be served
    std::size_t borrowers = 0;
    std::size_t coroutines = 0;  // so many of the borrowers, the first ones
    bool looks = false;          // before_acquire is asked about what coroutines are granted
    std::size_t gatherers = 0;   // besides the borrowers
    bool pairs = false;          // two borrowers each are one thread, if they are threads
    bool ranks = false;          // borrowers differ in priority
    bool hasty = false;          // some borrowers do not queue
    std::uint64_t failures = 0;  // that open the circuit; 0: it is moved by hand alone
    std::uint64_t probes = 1;    // and what else the strategy is told
    std::uint64_t successes = 1;
    std::chrono::nanoseconds cool_down = std::chrono::milliseconds{100};
    std::size_t steps = 0;
    std::uint64_t fault_percent = 0;    // answers that are failures
    std::uint64_t owing_percent = 0;    // clean leases that owe a reset
    std::uint64_t final_percent = 0;    // failed opens that are final
    std::uint64_t patient_percent = 0;  // borrowers that wait for ever
    std::array<std::uint32_t, decision::kinds> weights{};
};

plan draw_plan(std::uint64_t seed, std::size_t steps);

}  // namespace cenote::sim
