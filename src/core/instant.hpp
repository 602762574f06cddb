// Time in the core: a number that each call brings along. No code here reads a clock.
#pragma once

#include <chrono>

namespace cenote::core {

using instant = std::chrono::steady_clock::time_point;
using duration = std::chrono::nanoseconds;

inline constexpr instant never = instant::max();
inline constexpr instant long_ago = instant::min();

/// t + d, staying at `never` instead of overflowing. Requires d >= 0.
constexpr instant after(instant t, duration d) {
    if (t == long_ago) return d == duration::max() ? never : t;
    return d >= never - t ? never : t + d;
}

/// t - d, staying at `long_ago`, and at `never` unless d is infinite. Requires t and d >= 0.
constexpr instant before(instant t, duration d) {
    if (t == long_ago) return t;
    if (t == never) return d == duration::max() ? long_ago : t;
    return t - d;
}

}  // namespace cenote::core
