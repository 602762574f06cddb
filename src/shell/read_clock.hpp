// The steady clock, read by the processor's counter where that is cheaper and can be trusted.
#pragma once

#include "core/instant.hpp"

namespace cenote::shell {

/// See tick_clock.hpp for the bounds. Where the counter cannot be trusted: the steady clock.
///
/// Not inline, and in a file of its own: the linker replaces it in test programs, whose clock can
/// be stopped.
core::instant read_clock() noexcept;

}  // namespace cenote::shell
