// Other programs that are run to their end.
#pragma once

#include <string>
#include <vector>

#include "report.hpp"

namespace cenote::bench {

/// What a command prints, both ways. Throws std::runtime_error if it cannot be run, or fails.
std::string output_of(const std::vector<std::string>& words);

/// What it prints as peers/README.md has it: lines of `metric`. What goes wrong is in the answer.
measured metrics_of(const std::vector<std::string>& words);

/// Adds what a line of an answer says. Throws std::runtime_error if it says nothing known.
void add_line(measured& to, std::string_view line);

}  // namespace cenote::bench
