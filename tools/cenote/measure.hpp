// Measurements for cenote size: a server at rising concurrency, and real pools of each size.
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

/// The result at one concurrency.
struct measured_level {
    cenote::sim::level level;
    double throughput = 0;  ///< With as many borrowers as connections.
    double crowded = 0;     ///< With more borrowers, so that the line is never empty.
};

struct measurement {
    std::vector<measured_level> levels;  ///< Empty if interrupted in the first round.
    std::chrono::nanoseconds open{};
    bool interrupted = false;

    cenote::sim::measured_server server() const;
};

/// All sizes are measured in each of several rounds and the medians are used, so that noise on the
/// machine affects all sizes alike.
struct measure_options {
    std::chrono::nanoseconds duration = std::chrono::seconds{20};
    std::size_t rounds = 5;
    std::stop_token stop;
    std::function<void(double)> on_progress;
};

/// Measures the server at concurrency 1, 2, 3, 4, 6, 8, 12, … `most`. Uses the write share and the
/// number of borrowers of `what`.
measurement measure(target& where, const plan& what, std::size_t most, const measure_options& o);

/// Runs the load through a pool of each size. Empty if interrupted in the first round.
std::vector<cenote::sim::sized> try_sizes(target& where, const plan& what,
                                          const std::vector<std::size_t>& sizes,
                                          const measure_options& o);

}  // namespace load
