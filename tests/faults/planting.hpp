// Plants a fault by its name, in a program that links the faulty sources.
#pragma once

#include <algorithm>
#include <string_view>

#include "faults/names.hpp"
#include "faults/switch.hpp"

namespace cenote::faults {

/// Plants this fault alone, or "none". False: there is no such fault.
inline bool plant(std::string_view name) {
    auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return false;
    switched_on = static_cast<unsigned>(found - names.begin());
    return true;
}

}  // namespace cenote::faults
