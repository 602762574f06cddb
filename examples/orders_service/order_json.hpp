// Converts orders to and from JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "examples/orders_service/orders.hpp"

namespace orders_service {

/// Throws cenote::answer_error (400) with the reason if the JSON is invalid.
order_content content_from_json(std::string_view text);

std::string to_json(const order& what);
std::string to_json(const std::vector<order>& all);
/// {"error": text}
std::string error_to_json(std::string_view text);

}  // namespace orders_service
