// Interface of a spectator, which is shown each step of a simulated run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/machine.hpp"
#include "sim/plan.hpp"

namespace cenote::sim {

/// A borrower or a gatherer.
struct actor {
    enum class kind : std::uint8_t { none, thread, coroutine, gatherer };
    kind what = kind::none;
    std::size_t number = 0;  // among the borrowers (threads and coroutines) or the gatherers

    bool operator==(const actor&) const = default;
};

/// One thing that followed from a step.
struct consequence {
    enum class kind : std::uint8_t {
        waits,      // `who` is in line at `place`, until `deadline`
        granted,    // `who` gets `slot`
        refused,    // `who` gets `error`
        nothing,    // `who` tried, and nothing was free
        calls,      // `which` begins on `slot`, or waits to be made
        given_up,   // the call `which` on `slot` took too long
        makes_way,  // the open on `slot` hangs, and another one is tried
        retired,    // `slot` is to be closed because of `why`
        circuit,    // the breaker has moved to `breaker`
    };
    kind what{};
    actor who = {};
    core::slot_id slot = core::no_slot;
    core::verb which = {};
    std::size_t place = 0;  // in line, from 1
    core::instant deadline = core::never;
    errc error = {};
    retire_reason why = {};
    breaker_state breaker = {};
};

/// A step, and the pool after it.
struct scene {
    std::size_t step = 0;     // 0: the pool is made
    core::duration at{};      // since step 0
    core::duration passed{};  // in this step
    decision what{};
    bool passed_over = false;  // the decision did not fit and was skipped
    bool unnoticed = false;    // time has passed, and the machine was not told
    actor who;
    core::slot_id slot = core::no_slot;  // that `who` had, or that a call is about
    core::verb which{};                  // of that call
    std::size_t count = 0;               // with gather: how many
    std::span<const consequence> followed;

    std::vector<core::slot_state> slots;
    std::size_t max = 0;
    std::size_t waiting = 0;
    bool paused = false;
    bool closed = false;
    breaker_state circuit{};
};

class spectator {
public:
    spectator() = default;
    spectator(const spectator&) = delete;
    spectator& operator=(const spectator&) = delete;
    virtual ~spectator() = default;

    /// Is also called for the step with a finding, with the consequences until then.
    virtual void see(const scene& s) = 0;
};

}  // namespace cenote::sim
