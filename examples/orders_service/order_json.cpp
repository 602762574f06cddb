// Validates orders in JSON before they reach the database.
#include "examples/orders_service/order_json.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>

#include <cenote/service.hpp>

namespace orders_service {

namespace json = boost::json;

namespace {

constexpr std::size_t text_max = 100;
constexpr std::size_t lines_max = 100;
constexpr std::int64_t quantity_max = 10'000;
constexpr std::int64_t cents_max = 100'000'000;

[[noreturn]] void refuse(const std::string& why) {
    throw cenote::answer_error(cenote::answer(400, error_to_json(why), "application/json"));
}

const json::value& member(const json::object& of, std::string_view name) {
    const json::value* found = of.if_contains(name);
    if (found == nullptr) refuse(std::string(name) + " is missing");
    return *found;
}

/// Rejects unknown members, which may be misspelled.
void expect_only(const json::object& of, std::size_t count) {
    if (of.size() != count) refuse("there is an unknown member");
}

std::string text(const json::object& of, std::string_view name) {
    const json::string* found = member(of, name).if_string();
    bool fits = found != nullptr && !found->empty() && found->size() <= text_max &&
                std::ranges::none_of(*found, [](char c) { return c >= 0 && c < ' '; });
    if (!fits)
        refuse(std::string(name) + " must be a string of 1 to " + std::to_string(text_max) +
               " bytes without control characters");
    return std::string(*found);
}

std::int64_t number(const json::object& of, std::string_view name, std::int64_t min,
                    std::int64_t max) {
    const std::int64_t* found = member(of, name).if_int64();
    if (found == nullptr || *found < min || *found > max)
        refuse(std::string(name) + " must be an integer from " + std::to_string(min) + " to " +
               std::to_string(max));
    return *found;
}

order_line line_of(const json::value& from) {
    const json::object* members = from.if_object();
    if (members == nullptr) refuse("each line must be an object");
    order_line l{text(*members, "item"), number(*members, "quantity", 1, quantity_max),
                 number(*members, "cents", 0, cents_max)};
    expect_only(*members, 3);
    return l;
}

json::object as_object(const order& what) {
    json::array lines;
    for (const order_line& each : what.content.lines)
        lines.push_back(
            json::object{{"item", each.item}, {"quantity", each.quantity}, {"cents", each.cents}});
    return {{"id", what.id},
            {"customer", what.content.customer},
            {"status", what.status},
            {"total", what.total()},
            {"lines", std::move(lines)}};
}

}  // namespace

order_content content_from_json(std::string_view body) {
    boost::system::error_code error;
    json::value parsed = json::parse(body, error);
    if (error) refuse("the body is not valid JSON");
    const json::object* members = parsed.if_object();
    if (members == nullptr) refuse("the body must be an object");
    order_content all{text(*members, "customer"), {}};
    const json::array* lines = member(*members, "lines").if_array();
    if (lines == nullptr || lines->empty() || lines->size() > lines_max)
        refuse("lines must be an array of 1 to " + std::to_string(lines_max));
    for (const json::value& each : *lines) all.lines.push_back(line_of(each));
    expect_only(*members, 2);
    return all;
}

std::string to_json(const order& what) { return json::serialize(as_object(what)); }

std::string to_json(const std::vector<order>& all) {
    json::array list;
    for (const order& each : all) list.push_back(as_object(each));
    return json::serialize(json::object{{"orders", std::move(list)}});
}

std::string error_to_json(std::string_view text) {
    return json::serialize(json::object{{"error", text}});
}

}  // namespace orders_service
