// The results of cenote size as text, JSON and SVG.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measure.hpp"
#include "sim/sizing.hpp"
#include "size.hpp"
#include "target.hpp"

namespace sizing {

/// Measurements of real pools (--brute-force).
struct trial {
    std::vector<cenote::sim::sized> curve;
    std::size_t best = 0;
    /// The relative error of the advice: 0.25 if it is 5 and 4 is best.
    double difference = 0;
    bool agrees() const { return difference <= 0.25 && difference >= -0.25; }
};

struct findings {
    std::string server;
    std::optional<load::server_limit> limit;  ///< The server's limit.
    std::string limit_said_by;                ///< The setting, or --limit.
    load::measurement measured;
    cenote::sim::question question;
    std::optional<cenote::sim::advice> advice;  ///< Nothing if interrupted before.
    std::optional<trial> tried;
    bool no_more_to_try = false;  ///< The server's limit prevented trying larger sizes.
    bool interrupted = false;
};

/// Explains the advice in two sentences.
std::string reason(const findings& f);

std::string to_text(const findings& f, const terminal::palette& paint);
boost::json::value to_json(const findings& f);
std::string to_svg(const findings& f);

}  // namespace sizing
