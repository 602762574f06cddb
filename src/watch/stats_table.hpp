// Names and help texts of all stats, for every format in which they are written.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cenote/stats.hpp"

namespace cenote::detail {

struct stats_number {
    const char* name;
    const char* help;
    std::uint64_t stats::* value;
};

inline constexpr std::array<stats_number, 2> stats_gauges{{
    {"max", "Most resources the pool may have.", &stats::max},
    {"waiting", "Callers in line.", &stats::waiting},
}};

inline constexpr std::array<stats_number, 14> stats_counters{{
    {"acquires", "Calls of acquire.", &stats::acquires},
    {"granted", "Leases granted.", &stats::granted},
    {"waited", "Leases granted after a wait.", &stats::waited},
    {"refused_after_wait", "Acquires refused after a wait.", &stats::refused_after_wait},
    {"released", "Leases released, including discarded ones.", &stats::released},
    {"discarded", "Released leases whose holder discarded the resource.", &stats::discarded},
    {"detached", "Leases whose holder took the resource out of the pool.", &stats::detached},
    {"opened", "Resources opened.", &stats::opened},
    {"open_failed", "Opens that failed.", &stats::open_failed},
    {"closed", "Resources closed.", &stats::closed},
    {"abandoned", "Connector calls that outlived their deadline.", &stats::abandoned},
    {"events_lost", "Events dropped because an observer was too slow.", &stats::events_lost},
    {"try_empty", "Calls of try_acquire that found nothing.", &stats::try_empty},
    {"leaks", "Leases held longer than leak_after.", &stats::leaks},
}};

inline constexpr std::array<std::pair<const char*, std::uint64_t stats::*>, 6> stats_states{{
    {"leased", &stats::leased},
    {"idle", &stats::idle},
    {"opening", &stats::opening},
    {"probing", &stats::probing},
    {"resetting", &stats::resetting},
    {"closing", &stats::closing},
}};

struct stats_time {
    const char* name;
    const char* help;
    histogram stats::* value;
};

inline constexpr std::array<stats_time, 3> stats_times{{
    {"wait", "How long granted acquires waited.", &stats::wait},
    {"hold", "How long leases were held (sampled on the fast lane).", &stats::hold},
    {"open", "How long opens took.", &stats::open},
}};

inline double seconds_of(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

/// The sum estimated from the middle of each bucket; the error is at most an eighth.
inline double sum_of(const histogram& h) {
    double sum = 0;
    std::chrono::nanoseconds below{0};
    for (std::size_t i = 0; i < histogram::bucket_count; ++i) {
        bool last = i + 1 == histogram::bucket_count;
        std::chrono::nanoseconds above = last ? below : histogram::upper_bound(i);
        sum += static_cast<double>(h.buckets[i]) * (seconds_of(below) + seconds_of(above)) / 2;
        below = above;
    }
    return sum;
}

}  // namespace cenote::detail
