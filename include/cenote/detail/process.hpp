// A number for the present process, to tell in the child of a fork what belongs to the parent.
#pragma once

#include <cstdint>

namespace cenote::detail {

/// Differs between a parent and its child.
using process_number = std::uint16_t;
inline constexpr process_number no_process = 0xffff;

/// Changes in the child before fork() returns there, while the child has only one thread.
extern constinit process_number this_process;

}  // namespace cenote::detail
