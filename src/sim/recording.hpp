// A run as a text: all settings and decisions, so it outlives changes in how seeds are drawn.
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

/// Reads the text back. A setting that is missing keeps its default. Throws std::invalid_argument,
/// which names the line.
recording from_text(const std::string& text);

}  // namespace cenote::sim
