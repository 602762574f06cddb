// Runs other programs and parses their results.
#pragma once

#include <string>
#include <vector>

#include "report.hpp"

namespace cenote::bench {

/// The output of a command on stdout and stderr. Throws std::runtime_error if it fails.
std::string output_of(const std::vector<std::string>& words);

/// Runs a command that prints results in the format of peers/README.md. An error is in the result.
measured metrics_of(const std::vector<std::string>& words);

/// Parses a line in the format of peers/README.md. Throws std::runtime_error if it is invalid.
void add_line(measured& to, std::string_view line);

}  // namespace cenote::bench
