// Options of cenote-sim and of its faulty twin, in one file, so CLI11 is compiled once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

namespace sim_options {

struct settings {
    std::string command = "build/bin/cenote-sim";  // to print how a run is repeated
    bool faulty = false;                           // whether there are options about faults
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

/// Reads the command line. Returns the exit status if the program must end, after --help or after a
/// message about a wrong option.
std::optional<int> read(int argc, char** argv, settings& into);

}  // namespace sim_options
