// The stats of one pool as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "cenote/stats.hpp"

namespace cenote::detail {

/// `summary`: count, sum and percentiles of each histogram. `full`: its buckets as well.
enum class histograms : std::uint8_t { summary, full };

/// All gauges, counters and histograms as an object.
std::string stats_json(const stats& now, histograms how);

}  // namespace cenote::detail
