// Planting bugs and finding them: what the simulator is judged by.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "core/fault.hpp"

namespace cenote::sim {

/// Whether this build can plant faults.
bool can_plant();

/// The name of a fault, as in the enum.
const char* name_of(core::fault f);

/// Plants a fault by name. False if there is none of this name or they cannot be planted.
bool plant(const std::string& name);

/// Lets the machine take the long way always, or express again. False: this build cannot.
bool switch_express_off(bool off = true);

/// Plants each fault in turn and looks for it with up to `seeds` seeds. Prints a line for each and
/// returns whether all were found.
bool find_planted_faults(std::ostream& out, std::size_t steps, std::uint64_t seeds);

}  // namespace cenote::sim
