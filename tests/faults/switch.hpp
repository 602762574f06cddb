// Switches for changes that are compiled into sources: faults (faults.py), mutants
// (scripts/mutate).
#pragma once

#include <type_traits>

namespace cenote::faults {

/// The number of the change that is on; 0: none.
inline unsigned switched_on = 0;

/// Constants are computed without changes.
constexpr bool is_on(unsigned number) {
    return !std::is_constant_evaluated() && number == switched_on;
}

}  // namespace cenote::faults
