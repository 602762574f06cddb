// A load on a simulated server, through the machine that decides in production: what a pool of some
// size would do, before anybody has built it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "cenote/options.hpp"
#include "core/instant.hpp"

namespace cenote::sim {

/// What was measured of a server while so many leases were worked on at once.
struct level {
    std::size_t at_once = 1;
    /// How long it worked for a lease: the middles of as many equal shares, the shortest first.
    std::vector<core::duration> service = {};
    /// How long a resource is away after its lease, until it can be lent again.
    core::duration reset{};
    /// How much longer a lease takes that was waited for: somebody has to wake up first.
    core::duration handover{};
};

/// A server, as it was measured at rising concurrency.
///
/// Between two levels it is interpolated. Beyond the last one it is taken to have no more to give:
/// the more there are, the longer each of them takes.
class measured_server {
public:
    /// How finely service times are told apart.
    static constexpr std::size_t shares = 500;

    /// Levels of rising `at_once`, each with some service time. Throws std::invalid_argument.
    explicit measured_server(std::vector<level> levels, core::duration open = {});

    /// How long the lease with this share (below `shares`) takes if so many are worked on.
    core::duration service(std::size_t at_once, std::size_t share) const;
    core::duration mean_service(std::size_t at_once) const;
    core::duration reset(std::size_t at_once) const;
    core::duration handover(std::size_t at_once) const;
    /// Whether there is any at all.
    bool resets() const;
    core::duration open() const { return open_; }
    /// Leases per second if so many are worked on all the time, and none was waited for.
    double throughput(std::size_t at_once) const;

private:
    template <class Of>
    core::duration at(std::size_t at_once, Of of) const;

    std::vector<level> levels_;
    std::vector<core::duration> means_;
    core::duration open_;
};

/// Who comes.
struct load {
    /// Arrivals per second, independent of each other (Poisson). Zero: there are `borrowers`, each
    /// of whom comes again as soon as it is done.
    double rate = 0;
    std::size_t borrowers = 32;
    /// How long each keeps its lease beyond what the server works for it.
    core::duration hold{};
    /// How many leases are looked at; a tenth of that comes before.
    std::size_t leases = 20'000;
    std::uint64_t seed = 1;
};

/// What came of it.
struct load_result {
    double throughput = 0;              // leases per second
    std::vector<core::duration> wait;   // for the lease, the shortest first
    std::vector<core::duration> total;  // from coming to going
    std::uint64_t refused = 0;
    /// For how much of the time so many were leased or being reset; adds up to one.
    std::vector<double> busy;

    /// Of `wait` or `total`: the value below which the fraction `q` of them lies.
    static core::duration quantile(const std::vector<core::duration>& of, double q);
    /// How many were busy, for the fraction `q` of the time at most.
    std::size_t busy_quantile(double q) const;
};

/// Asked now and then whether somebody wants it to end. Without it, nobody does.
class enough {
public:
    enough() = default;
    explicit enough(std::function<bool()> said) : said_(std::move(said)) {}
    bool operator()() const { return said_ && said_(); }

private:
    std::function<bool()> said_;
};

/// Runs a pool with these options under this load. The same call gives the same result, unless it
/// was enough before: then it is of no use.
load_result run(const options& pool, const measured_server& server, const load& who,
                const enough& is_enough = {});

}  // namespace cenote::sim
