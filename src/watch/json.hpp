// Writes JSON, and parses flat JSON objects. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cenote::detail {

/// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

std::string number_text(std::uint64_t value);
/// `null` for NaN and infinities.
std::string number_text(double value);

/// Builds an object. Values are JSON; names must not need escaping.
class json_object {
public:
    json_object& add(std::string_view name, std::string_view value);
    std::string take();

private:
    std::string text_ = "{";
};

/// Builds an array. Values are JSON.
class json_array {
public:
    json_array& add(std::string_view value);
    std::string take();

private:
    std::string text_ = "[";
};

/// A member of a parsed object: a string or a number.
struct json_member {
    std::string name;
    std::string text;
    std::optional<std::uint64_t> number;  ///< Set for a number; then `text` is empty.
};

/// Parses an object that contains only strings and unsigned integers, at most 16, under different
/// names. Empty for any other input.
std::optional<std::vector<json_member>> parse_flat_object(std::string_view json);

}  // namespace cenote::detail
