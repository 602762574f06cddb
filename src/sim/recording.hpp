// A run in a file: its settings and its decisions in full. The way seeds are drawn may change
// without losing it.
#pragma once

#include <string>
#include <vector>

#include "sim/plan.hpp"

namespace cenote::sim {

struct recording {
    plan from;
    std::vector<decision> decisions;
};

/// One setting or decision per line.
std::string to_text(const recording& r);

/// Reads it back. A setting that is not named keeps its default. Throws std::invalid_argument,
/// which names the line.
recording from_text(const std::string& text);

}  // namespace cenote::sim
