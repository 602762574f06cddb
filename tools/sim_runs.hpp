// What cenote-sim does, with the machine as it is and, for its faulty twin, with planted faults.
#pragma once

#include "sim_options.hpp"

namespace sim_runs {

/// Runs what the settings ask for and returns the exit status.
int run(const sim_options::settings& s);

}  // namespace sim_runs
