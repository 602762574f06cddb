// A load on a real server, through a real pool: who comes, and what became of them.
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

/// Who comes, and for what.
struct plan {
    std::size_t borrowers = 16;
    /// Arrivals per second, independent of each other; borrowers take them up one by one. Zero:
    /// each borrower comes again as soon as it is done.
    double rate = 0;
    double writes = 0.2;  ///< The share of errands that write.
    std::chrono::nanoseconds hold{};
    std::chrono::nanoseconds warm_up{};
    std::chrono::nanoseconds duration = std::chrono::seconds{5};
    /// Borrowers are coroutines on so many threads. Zero: each is a thread.
    std::size_t loops = 0;
    std::uint64_t seed = 1;
};

/// What became of them. Looked at are those who came after the warm-up.
struct result {
    double seconds = 0;
    std::uint64_t leases = 0;
    std::uint64_t writes = 0;
    times wait;   ///< From coming to the lease.
    times work;   ///< The server's.
    times hold;   ///< From the lease to its end.
    times total;  ///< From coming to going.
    std::array<std::uint64_t, cenote::errc_count> refused{};
    std::uint64_t unserved = 0;  ///< Arrivals that nobody had come to when it was over.
    std::uint64_t failures = 0;
    std::string first_failure;
    bool interrupted = false;
    cenote::stats stats;  ///< The pool's, when all had gone.

    double throughput() const { return seconds > 0 ? static_cast<double>(leases) / seconds : 0; }
    result& operator+=(const result& other);
};

/// Runs it to its end or until `stop`. `told` hears how much of it is over, from 0 to 1.
result run(target_pool& pool, const plan& p, std::stop_token stop,
           const std::function<void(double)>& told = {});

}  // namespace load
