// What `cenote size` finds out by trying: a server at rising concurrency, and real pools of each
// size.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <vector>

#include "load.hpp"
#include "sim/load.hpp"
#include "sim/sizing.hpp"
#include "target.hpp"

namespace load {

/// What was found at one concurrency.
struct measured_level {
    cenote::sim::level level;
    double throughput = 0;  ///< With as many borrowers as connections.
    double crowded = 0;     ///< With more of them, so that there is always a line.
};

struct measurement {
    std::vector<measured_level> levels;  ///< None, if it was interrupted in its first round.
    std::chrono::nanoseconds open{};
    bool interrupted = false;

    cenote::sim::measured_server server() const;
};

/// How thoroughly. Sizes are tried in turn, in several rounds, and the median counts: so what else
/// happens on the machine meanwhile happens to all of them.
struct effort {
    std::chrono::nanoseconds duration = std::chrono::seconds{20};
    std::size_t rounds = 5;
    std::stop_token stop;
    std::function<void(double)> told;
};

/// The server under rising concurrency: 1, 2, 3, 4, 6, 8, 12, … `most`. Of `what` the mix
/// counts, and how many borrowers a crowd is.
measurement measure(target& where, const plan& what, std::size_t most, const effort& e);

/// Pools of these sizes, each under this load. Empty if it was interrupted in its first round.
std::vector<cenote::sim::sized> try_sizes(target& where, const plan& what,
                                          const std::vector<std::size_t>& sizes, const effort& e);

}  // namespace load
