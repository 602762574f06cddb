// Which program this is, and with which options its pools run.
#pragma once

#include <chrono>
#include <string>

#include "cenote/options.hpp"

namespace cenote::detail {

/// When this process was started; `otherwise` if the system does not say.
std::chrono::system_clock::time_point process_start(
    std::chrono::system_clock::time_point otherwise);

/// The program, the host, the process, the version of cenote, and the start, as JSON.
std::string process_json();

/// The options in force as JSON: [{"name", "value", "default"}]. `default` is null for an option
/// that has its default value. Options without a text (observers, clock, breaker) say what is set.
std::string options_json(const options& in_force);

}  // namespace cenote::detail
