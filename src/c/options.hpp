// Options between C and C++.
#pragma once

#include "c/hosts.hpp"
#include "cenote/cenote.h"
#include "cenote/options.hpp"

namespace cenote::c {

/// What `from` says, or the defaults if it is null, for the pool at `at`. Throws invalid_option,
/// and std::invalid_argument for a structure that cannot be read.
options read_options(const cenote_options* from, const host& at);

/// The same for one acquire. False: it cannot be read.
bool read_wish(const cenote_wish* from, acquire_options& into) noexcept;

}  // namespace cenote::c
