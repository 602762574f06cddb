// Which process this is: what was made before a fork belongs to the parent, also in the child.
#pragma once

#include <cstdint>

namespace cenote::detail {

/// Another one in the child of a fork than in its parent.
using process_number = std::uint16_t;
inline constexpr process_number no_process = 0xffff;

/// Changes in the child before fork() returns there, when it has only one thread.
extern constinit process_number this_process;

}  // namespace cenote::detail
