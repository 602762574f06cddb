// What the dashboard remembers of a pool: a sample per second, for charts and for the overview.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "cenote/stats.hpp"

namespace cenote::detail {

/// One second of a pool, or several. NaN: not observed during this time.
struct sample {
    double granted = 0;  ///< Per second.
    double refused = 0;  ///< Per second.
    double leased = 0;   ///< At the end of the second, like the three below.
    double idle = 0;
    double max = 0;
    double waiting = 0;
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

/// The past of a pool in three resolutions, each with the same number of samples: five minutes, an
/// hour and a day. A dashboard numbers its seconds.
class history {
public:
    static constexpr std::size_t size_max = 300;
    /// The seconds of a sample, in each resolution.
    static constexpr std::array<std::uint64_t, 3> steps{1, 12, 288};
    /// The seconds that recently() covers.
    static constexpr std::size_t recent_max = 10;

    void add(std::uint64_t second, const sample& one);
    /// The samples that end after second `since` as JSON: the number of the first one, and an array
    /// per value. Sample `n` begins at second `n * step`. `step` is one of `steps`.
    std::string json(std::uint64_t since, std::uint64_t step = 1) const;
    recent recently() const;

private:
    struct resolution {
        void add(std::uint64_t second, std::uint64_t step, const sample& one);
        void end_sample();

        std::uint64_t last = 0;  // the number of the last sample
        std::deque<sample> samples;
        // The sample that is not complete yet.
        std::uint64_t next = 0;
        sample sum;
        std::size_t seconds = 0;
    };

    std::array<resolution, steps.size()> all_;
};

}  // namespace cenote::detail
