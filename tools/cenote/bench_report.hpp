// What `cenote bench` has seen, for people, for programs, and as a page.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "bench.hpp"
#include "load.hpp"

namespace bench {

/// One pool size, and what it did.
struct outcome {
    std::size_t max = 0;
    load::result seen;
};

struct findings {
    std::string server;
    std::vector<outcome> all;  ///< As far as it got.
    bool interrupted = false;
};

/// Of all kinds.
std::uint64_t refusals(const load::result& r);

std::string to_text(const settings& how, const findings& f, const terminal::palette& paint);
boost::json::value to_json(const settings& how, const findings& f);
/// A page that needs nothing from elsewhere.
std::string to_html(const settings& how, const findings& f);

}  // namespace bench
