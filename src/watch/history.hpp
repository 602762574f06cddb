// What the dashboard remembers of a pool: a sample per second, for charts and for the overview.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "cenote/stats.hpp"

namespace cenote::detail {

/// One second of a pool. NaN: not observed during this second.
struct sample {
    double granted = 0;   ///< Per second.
    double refused = 0;   ///< Per second.
    double leased = 0;    ///< At the end of the second.
    double waiting = 0;   ///< At the end of the second.
    double wait_p50 = 0;  ///< In seconds, like the three below.
    double wait_p99 = 0;
    double hold_p50 = 0;
    double hold_p99 = 0;
    double unserved = 0;     ///< Refusals in this second, except `canceled` and `closed`.
    double open_failed = 0;  ///< Failed opens in this second.
};

/// The sample for the time between two stats of a pool.
sample between(const stats& before, const stats& after, double seconds);

/// The last seconds of a pool, for a row of the overview.
struct recent {
    double granted = 0;   ///< Per second.
    double unserved = 0;  ///< In all these seconds, like the next.
    double open_failed = 0;
    double wait_p99 = 0;  ///< Of the worst second; NaN if there is none.
    double hold_p99 = 0;
    std::size_t seconds = 0;
    std::size_t waiting = 0;  ///< In how many of the seconds callers waited.
};

/// The last five minutes of a pool, one sample per second. A dashboard numbers its samples.
class history {
public:
    static constexpr std::size_t size_max = 300;
    /// The seconds that recently() covers.
    static constexpr std::size_t recent_max = 10;

    void add(std::uint64_t number, const sample& one);
    /// The samples after number `since` as JSON: the first one's number, and an array per value.
    std::string json(std::uint64_t since) const;
    recent recently() const;

private:
    std::uint64_t last_ = 0;
    std::deque<sample> samples_;
};

}  // namespace cenote::detail
