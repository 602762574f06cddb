// The results of cenote bench as text, JSON and HTML.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "bench.hpp"
#include "load.hpp"

namespace bench {

/// The result for one pool size.
struct outcome {
    std::size_t max = 0;
    load::result seen;
};

struct findings {
    std::string server;
    std::vector<outcome> all;  ///< Fewer than requested if interrupted.
    bool interrupted = false;
};

/// The number of refused acquires, for all reasons.
std::uint64_t refusals(const load::result& r);

std::string to_text(const settings& how, const findings& f, const terminal::palette& paint);
boost::json::value to_json(const settings& how, const findings& f);
/// A page without external files.
std::string to_html(const settings& how, const findings& f);

}  // namespace bench
