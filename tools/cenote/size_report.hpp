// What `cenote size` has to say, for people, for programs, and as a picture.
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

/// What real pools were seen to do.
struct trial {
    std::vector<cenote::sim::sized> curve;
    std::size_t best = 0;
    /// How far the advice is off: 0.25 if it says 5 where 4 is best.
    double difference = 0;
    bool agrees() const { return difference <= 0.25 && difference >= -0.25; }
};

struct findings {
    std::string server;
    std::optional<load::server_limit> limit;  ///< The server's own.
    std::string limit_said_by;                ///< Of the one that counts.
    load::measurement measured;
    cenote::sim::question question;
    std::optional<cenote::sim::advice> advice;  ///< None, if it was interrupted before.
    std::optional<trial> tried;
    bool no_more_to_try = false;  ///< The server would not take as many as were to be tried.
    bool interrupted = false;
};

/// Why, in two sentences.
std::string reason(const findings& f);

std::string to_text(const findings& f, const terminal::palette& paint);
boost::json::value to_json(const findings& f);
std::string to_svg(const findings& f);

}  // namespace sizing
