// How many instructions a cycle takes: callgrind counts them, the same each time on any machine.
#pragma once

#include <cstdint>
#include <string>

#include "report.hpp"

namespace cenote::bench {

/// Counts for each pool of this program, in processes of `self` under valgrind. What is not
/// installed is said instead of measured.
workload instructions(const std::string& self);

/// What such a process does: `count` cycles of the pool that is called so, and no more. False:
/// there is none.
bool make_cycles(const std::string& name, std::uint64_t count);

}  // namespace cenote::bench
