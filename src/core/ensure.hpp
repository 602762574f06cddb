// The core's assertions: on in every build, because a pool in a state nobody designed must stop.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace cenote::core {

/// What happens when an invariant is broken. Null: a line on stderr, then abort. The simulator sets
/// it to throw, so that it can name the seed and shrink the run; therefore nothing in the core that
/// may call ensure() is noexcept.
inline void (*when_broken)(const char* invariant) = nullptr;

[[noreturn, gnu::cold]] inline void invariant_broken(const char* invariant) {
    if (when_broken != nullptr) when_broken(invariant);
    std::fprintf(stderr, "cenote: invariant broken: %s\n", invariant);
    std::abort();
}

/// Stops the program if an invariant does not hold.
inline void ensure(bool holds, const char* invariant) {
    if (!holds) [[unlikely]]
        invariant_broken(invariant);
}

}  // namespace cenote::core
