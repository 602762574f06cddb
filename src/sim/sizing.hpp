// Finds how large a pool should be, by simulating pools of many sizes on a measured server.
//
// The best size is the smallest one that is about as good as any:
//
// - Without an arrival rate, the measure is leases per second under more demand than the pool can
//   serve. About as good means 80 % of the highest throughput, or another goal::reach.
// - With an arrival rate, the measure is the 95th percentile of the time from acquire to release.
//   About as good means within 25 % of the shortest. A size must keep up with the rate.
//
// Where a curve rises slowly, a little noise would move that point far. Therefore each measurement
// counts together with its neighbors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/instant.hpp"
#include "sim/load.hpp"

namespace cenote::sim {

/// The measurements of a pool of one size, simulated or real.
struct sized {
    std::size_t max = 1;
    double throughput = 0;  // leases per second
    core::duration wait_median{};
    core::duration wait_p99{};
    core::duration total_p95{};
};

/// The goal of a size.
struct goal {
    double rate = 0;     // arrivals per second; zero: as many as possible
    double reach = 0.8;  // without a rate: the required share of the highest throughput
};

/// The best of these sizes, which must rise; zero if there are none.
std::size_t best_size(const std::vector<sized>& all, const goal& g);

/// The throughput of a size, smoothed over its neighbors. Requires at least three sizes.
double smooth_throughput(const std::vector<sized>& all, std::size_t size);

/// The nearest values, by least squares, that rise to a peak and then fall.
std::vector<double> unimodal(const std::vector<double>& values);

/// The sizes to try, up to `most`: all small ones, then steps of at most a quarter.
std::vector<std::size_t> sizes_to_try(std::size_t most);

/// The connections of a server, shared by processes.
struct server_share {
    std::size_t limit = 0;  // of the server
    std::size_t processes = 1;
    /// Connections reserved for migrations, for administrators, for processes during a deployment.
    std::size_t margin() const;
    /// Connections for each process; zero if there are fewer than processes.
    std::size_t most() const;
};

/// What advise() is to answer.
struct question {
    double rate = 0;  // arrivals per second at each pool; zero: as many as possible
    double reach = goal{}.reach;
    std::size_t borrowers = 32;  // of each pool, without a rate
    core::duration hold{};
    std::size_t most = 32;      // the largest size to try, for all pools together
    std::size_t processes = 1;  // with equal pools on this server
    std::optional<server_share> share = {};
    std::size_t leases = 20'000;  // simulated for each size
    std::uint64_t seed = 1;
};

/// The advice for each of the processes.
struct advice {
    std::size_t max = 1;
    std::size_t min_idle = 0;
    core::duration acquire_timeout{};
    /// The best max if the server had enough connections.
    std::size_t unbounded_max = 1;
    /// The best size of all pools together. The pools may be larger, since each needs a connection.
    std::size_t together = 1;
    /// With a rate: `together` is the largest size that was tried. Without: the curve still rises
    /// there. In both cases a larger size may be better.
    bool at_the_edge = false;
    bool limit_binds = false;
    /// The rate of the final simulation: the one in question, or 70 % of what `max` can serve.
    double rate = 0;
    bool keeps_up = true;      // with that rate
    load_result at_rate;       // of one process, with `max`
    std::vector<sized> curve;  // every size that was tried, of all processes together
};

/// Simulates all processes as one pool with all their arrivals, since the server makes no
/// difference between them, and divides the best size, rounded up. Then simulates one process, on a
/// server that does as much work for each of the others.
///
/// Throws std::invalid_argument if the server has fewer connections than there are processes.
/// `told` is called with the progress, from 0 to 1. The result is meaningless if `is_enough` has
/// ended the simulation.
advice advise(const measured_server& server, const question& q,
              const std::function<void(double)>& told = {}, const enough& is_enough = {});

}  // namespace cenote::sim
