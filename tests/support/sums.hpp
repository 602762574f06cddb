// Checks the identities between the counters of stats.hpp.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>

#include "cenote/stats.hpp"

namespace support {

/// The number of refused acquires, for all reasons.
inline std::uint64_t refused(const cenote::stats& s) {
    return std::accumulate(s.refused_by_reason.begin(), s.refused_by_reason.end(),
                           std::uint64_t{0});
}

/// The first identity that does not hold, for a pool with at most `most` resources; empty if all
/// hold.
inline std::string contradiction(const cenote::stats& s, std::uint64_t most) {
    auto number = [](std::uint64_t n) { return std::to_string(n) + " "; };
    if (s.total != s.leased + s.idle + s.opening + s.probing + s.resetting + s.closing)
        return "states do not add up: total " + number(s.total) + "leased " + number(s.leased) +
               "idle " + number(s.idle) + "opening " + number(s.opening) + "probing " +
               number(s.probing) + "resetting " + number(s.resetting) + "closing " +
               number(s.closing);
    if (s.total > most) return "total beyond max: " + number(s.total);
    if (s.acquires != s.granted + s.waiting + refused(s))
        return "acquires " + number(s.acquires) + "!= granted " + number(s.granted) + "+ waiting " +
               number(s.waiting) + "+ refused " + number(refused(s));
    if (s.granted != s.released + s.detached + s.leased)
        return "granted " + number(s.granted) + "!= released " + number(s.released) +
               "+ detached " + number(s.detached) + "+ leased " + number(s.leased);
    return "";
}
inline std::string contradiction(const cenote::stats& s) { return contradiction(s, s.max); }

}  // namespace support
