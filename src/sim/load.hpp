// Predicts what a pool of some size would do: a simulated load on a measured server, through the
// machine that decides in production.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "cenote/options.hpp"
#include "core/instant.hpp"

namespace cenote::sim {

/// What was measured of a server at one concurrency.
struct level {
    std::size_t at_once = 1;  // leases in service
    /// The service time of a lease: quantiles in the middle of equal shares, shortest first.
    std::vector<core::duration> service = {};
    /// How long the reset after a lease takes.
    core::duration reset{};
    /// How much longer a lease takes if its borrower waited and has to wake up first.
    core::duration handover{};
};

/// A server, as it was measured at rising concurrency.
///
/// Values between two levels are interpolated. Beyond the last level the throughput stays the same:
/// each lease takes longer.
class measured_server {
public:
    /// The resolution of service times.
    static constexpr std::size_t shares = 500;

    /// Requires levels of rising `at_once`, each with service times. Throws std::invalid_argument.
    explicit measured_server(std::vector<level> levels, core::duration open = {});

    /// The service time of the lease with this share (below `shares`) at this concurrency.
    core::duration service(std::size_t at_once, std::size_t share) const;
    core::duration mean_service(std::size_t at_once) const;
    core::duration reset(std::size_t at_once) const;
    core::duration handover(std::size_t at_once) const;
    /// Whether leases are reset at all.
    bool resets() const;
    core::duration open() const { return open_; }
    /// Leases per second at this concurrency, if no borrower waits.
    double throughput(std::size_t at_once) const;

private:
    template <class Of>
    core::duration at(std::size_t at_once, Of of) const;

    std::vector<level> levels_;
    std::vector<core::duration> means_;
    core::duration open_;
};

/// The borrowers.
struct load {
    /// Arrivals per second, independent of each other (Poisson). Zero: each of `borrowers` acquires
    /// again as soon as its lease has ended.
    double rate = 0;
    std::size_t borrowers = 32;
    /// How long a borrower keeps its lease beyond the service time.
    core::duration hold{};
    /// How many leases are measured, after a tenth as many that are not.
    std::size_t leases = 20'000;
    std::uint64_t seed = 1;
};

/// The result of a load.
struct load_result {
    double throughput = 0;              // leases per second
    std::vector<core::duration> wait;   // for the lease, shortest first
    std::vector<core::duration> total;  // from the acquire to the release, shortest first
    std::uint64_t refused = 0;
    /// The fraction of the time in which n resources were leased or reset; adds up to one.
    std::vector<double> busy;

    /// The quantile `q` of `wait` or `total`.
    static core::duration quantile(const std::vector<core::duration>& of, double q);
    /// The quantile `q` of `busy`.
    std::size_t busy_quantile(double q) const;
};

/// Says from time to time whether the caller wants a run to end early. By default it never does.
class enough {
public:
    enough() = default;
    explicit enough(std::function<bool()> said) : said_(std::move(said)) {}
    bool operator()() const { return said_ && said_(); }

private:
    std::function<bool()> said_;
};

/// Runs a pool with these options under this load. Equal calls give equal results. The result of a
/// run that `is_enough` has ended is meaningless.
load_result run(const options& pool, const measured_server& server, const load& who,
                const enough& is_enough = {});

}  // namespace cenote::sim
