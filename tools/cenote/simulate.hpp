// cenote sim: a simulated run from its seed, told step by step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"

namespace simulation {

struct settings {
    std::uint64_t seed = 0;
    std::size_t steps = 200;
    std::string replay;  // a file, instead of the seed
    std::string from;    // a step's number, or a time
    std::string to;
    std::vector<std::string> only;  // "borrower", "3", …
    bool summary = false;           // without the steps
    command::look look;
};

CLI::App* add_to(CLI::App& app, settings& into);
int run(const settings& how);

}  // namespace simulation
