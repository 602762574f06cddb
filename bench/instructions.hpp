// Counts the instructions of a cycle with callgrind; the same on every run and machine.
#pragma once

#include <cstdint>
#include <string>

#include "report.hpp"

namespace cenote::bench {

/// Counts for each pool, in processes of `self` under valgrind. Without valgrind, the workload
/// reports that it is missing.
workload instructions(const std::string& self);

/// Runs `count` cycles of the pool with this name, in such a process. False: there is no such pool.
bool make_cycles(const std::string& name, std::uint64_t count);

}  // namespace cenote::bench
