// Runs whole simulations from a seed or from recorded decisions, and shrinks those that fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan.hpp"
#include "sim/world.hpp"

namespace cenote::sim {

struct verdict {
    bool failed = false;
    std::string what;                 // the finding
    std::uint64_t hash = 0;           // of the trace
    std::vector<decision> decisions;  // made until the end, or until the finding
    tallies seen;
};

/// Draws decisions from the plan's seed. `keep`: whether to record them. `watching`, if not null,
/// is shown every step, which changes nothing.
verdict run(const plan& p, bool keep, spectator* watching = nullptr);

/// Carries out recorded decisions.
verdict replay(const plan& p, const std::vector<decision>& decisions,
               spectator* watching = nullptr);

/// Leaves out decisions as long as the run fails with the same finding.
std::vector<decision> shrink(const plan& p, std::vector<decision> decisions);

}  // namespace cenote::sim
