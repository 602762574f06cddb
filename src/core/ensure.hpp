// Assertions of the core. They are on in every build: a pool in an undesigned state must stop.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace cenote::core {

/// Called when an invariant is broken. Null: prints a line to stderr and aborts. The simulator sets
/// a function that throws, so that it can print the seed and shrink the run; so functions of the
/// core that call ensure() are not noexcept.
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
