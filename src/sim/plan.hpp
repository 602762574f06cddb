// What follows from the seed of a simulated run: options, abilities, habits, kinds of decisions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cenote/options.hpp"
#include "core/machine.hpp"

namespace cenote::sim {

/// One decision of the world. What `a` and `b` mean depends on the kind. A decision that does not
/// fit the state of the world is skipped, so every subset of a run is a run.
struct decision {
    enum class kind : std::uint8_t {
        acquire,  // borrower a; b: how long it waits
        demand,   // borrower a, a thread that cannot wait
        attempt,  // borrower a calls try_acquire
        cancel,   // borrower a, if it waits
        release,  // borrower a, if it holds; b: in what condition
        detach,   // borrower a, if it holds
        reject,   // borrower a, a thread, if it holds: its before_acquire says no
        hand_on,  // borrower a, if it holds: its lease is moved, perhaps to another thread
        // Borrowers that are coroutines.
        stop,     // borrower a, before it acquires: it is canceled as soon as it does
        resume,   // borrower a, if its acquire has ended
        destroy,  // borrower a, if it is suspended
        look,     // a thread begins to look at what borrower a was granted
        admit,    // what borrower a was granted; b: whether before_acquire said no
        // All borrowers from a on, at once.
        crowd,  // acquire; b: how long each waits
        storm,  // cancel; b odd: are destroyed, if they can be
        // Gatherers, which want several at once.
        gather,    // gatherer a; b: how many, and how long it waits
        call_off,  // gatherer a, if it waits
        scatter,   // gatherer a, if it holds
        // The rest of the world.
        answer,  // the a-th call in flight; b: how it ends
        start,   // the a-th call in flight, which waited to be made, is made
        late,    // the a-th call that was given up ends after all; b: how
        pass,    // time passes; a: how, b: how much
        retire_all,
        suspect_all,
        resize,  // b: the new max
        pause,
        unpause,
        suspend,  // maintenance
        restore,
        judge,    // the strategy hears the oldest news that waits for it
        breaker,  // moved manually; a: to which state, b: with how many probes
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
/// failures, some one kind only, in some nearly every call fails.
struct plan {
    std::uint64_t seed = 0;
    options settings;
    core::abilities can;
    bool reports = false;
    bool calls_wait = false;  // calls wait to be made
    bool ends_live = false;   // at the end failures stop, and every waiter must be served
    std::size_t borrowers = 0;
    std::size_t coroutines = 0;  // how many of the borrowers, the first ones
    bool looks = false;          // there is a before_acquire for what coroutines are granted
    std::size_t gatherers = 0;   // in addition to the borrowers
    bool pairs = false;          // two borrowers each are one thread, if they are threads
    bool ranks = false;          // borrowers differ in priority
    bool hasty = false;          // some borrowers do not queue
    std::uint64_t failures = 0;  // that open the circuit; 0: manual control only
    std::uint64_t probes = 1;    // of the strategy, as are the next two
    std::uint64_t successes = 1;
    std::chrono::nanoseconds cool_down = std::chrono::milliseconds{100};
    std::size_t steps = 0;
    std::uint64_t fault_percent = 0;    // answers that are failures
    std::uint64_t owing_percent = 0;    // clean leases that owe a reset
    std::uint64_t final_percent = 0;    // failed opens that are final
    std::uint64_t patient_percent = 0;  // borrowers that wait without a deadline
    std::array<std::uint32_t, decision::kinds> weights{};
};

plan draw_plan(std::uint64_t seed, std::size_t steps);

}  // namespace cenote::sim
