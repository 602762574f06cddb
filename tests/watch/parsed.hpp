// Reads the JSON of the dashboard.
#pragma once

#include <boost/json.hpp>
#include <string>

namespace cenote::detail {

inline boost::json::value parsed(const std::string& text) { return boost::json::parse(text); }

inline std::string text(const boost::json::value& v) { return std::string(v.as_string()); }

}  // namespace cenote::detail
