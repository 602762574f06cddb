// Somebody who watches a simulated run, step by step, and changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/machine.hpp"
#include "sim/plan.hpp"

namespace cenote::sim {

/// Who does something, or has something done to it.
struct actor {
    enum class kind : std::uint8_t { nobody, thread, coroutine, gatherer };
    kind what = kind::nobody;
    std::size_t number = 0;  // of the borrowers, which threads and coroutines are, or the gatherers

    bool operator==(const actor&) const = default;
};

/// One thing that came of a step.
struct consequence {
    enum class kind : std::uint8_t {
        waits,      // who is in line, at `place`, until `deadline`
        granted,    // who gets `slot`
        refused,    // who gets `error`
        nothing,    // who tried, and nothing was free
        calls,      // `which` begins on `slot`, or waits to be made
        given_up,   // the call `which` on `slot` took too long
        makes_way,  // the open on `slot` hangs, so that another one is tried
        retired,    // `slot` is to be closed: `why`
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

/// A step, and what the pool looks like after it.
struct scene {
    std::size_t step = 0;  // 0: the pool is made
    core::duration at{};   // since then
    core::duration passed{};
    decision what{};
    bool passed_over = false;  // it did not fit, and nothing happened
    bool unnoticed = false;    // time has passed, and nobody has told the machine
    actor who;
    core::slot_id slot = core::no_slot;  // that `who` had, or that a call is about
    core::verb which{};                  // of that call
    std::size_t count = 0;               // with gather: how many it wants
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

    /// Also of the step in which something wrong was found, as far as it came.
    virtual void see(const scene& s) = 0;
};

}  // namespace cenote::sim
