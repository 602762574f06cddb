// Converts options from C to C++.
#pragma once

#include "c/pool_entries.hpp"
#include "cenote/cenote.h"
#include "cenote/options.hpp"

namespace cenote::c {

/// The options of the pool in `entry`; the defaults if `from` is null. Throws invalid_option, and
/// std::invalid_argument for a structure of invalid size or with unknown members.
options read_options(const cenote_options* from, const pool_entry& entry);

/// The options of one acquire; the defaults if `from` is null. False if `from` is invalid.
bool read_acquire_options(const cenote_acquire_options* from, acquire_options& into) noexcept;

}  // namespace cenote::c
