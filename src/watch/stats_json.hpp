// The stats of a pool as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "cenote/stats.hpp"

namespace cenote::detail {

/// How much is said of a histogram: its sum and its percentiles, or each of its buckets as well.
enum class histograms : std::uint8_t { summed_up, whole };

/// Everything that was counted, as an object.
std::string stats_json(const stats& now, histograms how);

}  // namespace cenote::detail
