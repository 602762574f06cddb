// Long timeouts for tests that are not about time, so that a busy machine does not fail them.
#pragma once

#include <cstddef>
#include <string>

#include "cenote/options.hpp"
#include "support/patience.hpp"

namespace support {

inline cenote::options patient(std::size_t max) {
    return {.max = max,
            .acquire_timeout = plenty,
            .open_timeout = plenty,
            .probe_timeout = plenty,
            .reset_timeout = plenty,
            .close_timeout = plenty};
}

/// The parameters of a URL, with a long connect_timeout unless they have one.
inline std::string patiently(const std::string& parameters) {
    if (parameters.find("connect_timeout=") != std::string::npos) return "?" + parameters;
    return "?connect_timeout=3min" + (parameters.empty() ? "" : "&" + parameters);
}

}  // namespace support
