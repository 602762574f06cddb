// Pools for tests that are not about time: whatever is asked of a server may take long, since the
// machine may have much else to do.
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

/// The parameters of a URL, with one for the same.
inline std::string patiently(const std::string& parameters) {
    if (parameters.find("connect_timeout=") != std::string::npos) return "?" + parameters;
    return "?connect_timeout=3min" + (parameters.empty() ? "" : "&" + parameters);
}

}  // namespace support
