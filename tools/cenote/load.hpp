// Runs a load against a real server through a real pool, and counts the results.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "target.hpp"
#include "times.hpp"
#include <cenote/error.hpp>
#include <cenote/stats.hpp>

namespace load {

struct plan {
    std::size_t borrowers = 16;
    /// Arrivals per second (a Poisson process), handled by the borrowers. Zero: each borrower
    /// starts its next operation as soon as the last one ends.
    double rate = 0;
    double writes = 0.2;  ///< The share of operations that write.
    std::chrono::nanoseconds hold{};
    std::chrono::nanoseconds warm_up{};
    std::chrono::nanoseconds duration = std::chrono::seconds{5};
    /// The number of threads that run the borrowers as coroutines. Zero: each borrower is a thread.
    std::size_t loops = 0;
    std::uint64_t seed = 1;
};

/// Covers the time after the warm-up.
struct result {
    double seconds = 0;
    std::uint64_t leases = 0;
    std::uint64_t writes = 0;
    times wait;   ///< From arrival to the lease.
    times work;   ///< The statement.
    times hold;   ///< From the lease to its release.
    times total;  ///< From arrival to the release.
    std::array<std::uint64_t, cenote::errc_count> refused{};
    std::uint64_t unserved = 0;  ///< Arrivals that no borrower had started at the end.
    std::uint64_t failures = 0;
    std::string first_failure;
    bool interrupted = false;
    cenote::stats stats;  ///< Of the pool, at the end.

    double throughput() const { return seconds > 0 ? static_cast<double>(leases) / seconds : 0; }
    result& operator+=(const result& other);
};

/// Runs the load to its end or until `stop`. `on_progress` gets the elapsed share, from 0 to 1.
result run(target_pool& pool, const plan& p, std::stop_token stop,
           const std::function<void(double)>& on_progress = {});

}  // namespace load
