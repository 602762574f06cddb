// The options of cenote-sim, in a file of their own: so CLI11 is compiled once for both variants.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

namespace sim_options {

struct settings {
    std::string command = "build/bin/cenote-sim";  // that repeats a run
    bool faulty = false;                           // whether there are options for faults
    std::uint64_t seed = 0;
    std::uint64_t from = 0;
    std::uint64_t seeds = 0;
    std::uint64_t fresh = 0;
    std::size_t steps = 2000;
    unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
    std::string replay;
    std::string save;
    std::string plant;
    bool plants = false;
    bool list_plants = false;
    bool without_express = false;
    bool verbose = false;
};

/// Reads the command line. Returns the exit status if the program is to end: after --help, or after
/// a message about a wrong option.
std::optional<int> read(int argc, char** argv, settings& into);

}  // namespace sim_options
