// How large a pool should be: tries sizes on a measured server, and says which is large enough.
//
// The best size is the smallest that is about as good as any. What is good depends on what is
// known:
//
// - Without an arrival rate: leases per second while more borrowers want one than there are. About
//   as good is 80 % of the most, or whatever else is asked for.
// - With one: the time from coming to going that 95 of 100 stay below. About as good is within 25 %
//   of the shortest. A size that cannot keep up with the rate is no good.
//
// Where a curve rises slowly for long, a little noise would move that point by far. So no single
// measurement decides: each counts together with its neighbours.
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

/// What was seen of a pool of one size, simulated or real.
struct sized {
    std::size_t max = 1;
    double throughput = 0;  // leases per second
    core::duration wait_median{};
    core::duration wait_p99{};
    core::duration total_p95{};
};

/// What is asked of a size.
struct goal {
    double rate = 0;     // arrivals per second; zero: as many as possible
    double reach = 0.8;  // without a rate: the share of the most that it must reach
};

/// The best of these sizes, as said above; they rise. Zero if there are none.
std::size_t best_size(const std::vector<sized>& all, const goal& g);

/// The throughput of a size, seen together with that of its neighbours; there are at least three.
double smooth_throughput(const std::vector<sized>& all, std::size_t size);

/// The nearest values, by least squares, that rise to one of them and fall from there.
std::vector<double> unimodal(const std::vector<double>& values);

/// Sizes that are worth a try up to `most`: all the small ones, then steps of at most a quarter.
std::vector<std::size_t> sizes_to_try(std::size_t most);

/// What a server can spare for one pool.
struct server_share {
    std::size_t limit = 0;  // connections in all
    std::size_t processes = 1;
    /// Left for others: migrations, people who look, processes that are being replaced.
    std::size_t margin() const;
    /// For each process; zero if there is not one for each.
    std::size_t most() const;
};

/// What is asked.
struct question {
    double rate = 0;  // arrivals per second at each pool; zero: as many as possible
    double reach = goal{}.reach;
    std::size_t borrowers = 32;  // of each pool, without a rate
    core::duration hold{};
    std::size_t most = 32;      // what is tried at most, by all pools together
    std::size_t processes = 1;  // with a pool each, all alike, on this server
    std::optional<server_share> share = {};
    std::size_t leases = 20'000;  // simulated for each size
    std::uint64_t seed = 1;
};

/// What is advised, for each of the processes.
struct advice {
    std::size_t max = 1;
    std::size_t min_idle = 0;
    core::duration acquire_timeout{};
    /// What would be best if the server had connections for it.
    std::size_t unbounded_max = 1;
    /// What is best for the server, whoever has them. Each process needs one at least, so that they
    /// may have more together.
    std::size_t together = 1;
    /// With a rate: that is the largest that was tried. Without: the curve still rises there.
    /// Either way a larger one may be better.
    bool at_the_edge = false;
    bool limit_binds = false;
    /// The rate for which the rest was simulated: what was asked, or 70 % of what `max` can serve.
    double rate = 0;
    bool keeps_up = true;      // with it
    load_result at_rate;       // of one process, with `max`
    std::vector<sized> curve;  // every size that was tried, of all processes together
};

/// A server does not care whose statements it works on: all processes are simulated as one pool
/// with all their arrivals, and what is best for that is divided, rounded up. What each of them
/// will see is then simulated for one, on a server that has as much to do for each of the others.
///
/// Throws std::invalid_argument if the server has not one connection for each process. `told` hears
/// how much is done, from 0 to 1. If it was enough before its end, what
/// it returns is of no use.
advice advise(const measured_server& server, const question& q,
              const std::function<void(double)>& told = {}, const enough& is_enough = {});

}  // namespace cenote::sim
