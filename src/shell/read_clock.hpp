// The time for the keeper: the steady clock, or the processor's counter where that is cheaper.
#pragma once

#include "core/instant.hpp"

namespace cenote::shell {

/// See tick_clock.hpp for the error bounds. Where the counter cannot be trusted, reads the steady
/// clock.
///
/// Not inline, and in its own source file: in test programs the linker replaces it by a clock that
/// can be stopped.
core::instant read_clock() noexcept;

}  // namespace cenote::shell
