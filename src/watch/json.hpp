// As much of JSON as watching needs: written whole, read only where it is flat; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cenote::detail {

/// The text as a string of JSON, quotes included. What is not UTF-8 in it becomes U+FFFD.
std::string json_text(std::string_view text);

std::string number_text(std::uint64_t value);
/// `null` for what is no number.
std::string number_text(double value);

/// An object in the making. Names and values are JSON already; no name needs escaping.
class json_object {
public:
    json_object& add(std::string_view name, std::string_view value);
    std::string take();

private:
    std::string text_ = "{";
};

/// An array in the making.
class json_array {
public:
    json_array& add(std::string_view value);
    std::string take();

private:
    std::string text_ = "[";
};

/// One member of an object that was read: a text or a number.
struct json_member {
    std::string name;
    std::string text;
    std::optional<std::uint64_t> number;  ///< Set: it is a number, and there is no text.
};

/// The members of an object that has only texts and whole numbers in it, each name once; nothing
/// for whatever else it is.
std::optional<std::vector<json_member>> flat_json_object(std::string_view json);

}  // namespace cenote::detail
