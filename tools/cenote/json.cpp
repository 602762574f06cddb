// Writes indented JSON documents.
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "command.hpp"

namespace command {

namespace json = boost::json;

namespace {

void write(const json::value& what, const std::string& indent, std::string& into);

/// Writes one element or member per line.
template <class Sequence, class Each>
void write_list(const Sequence& all, const char* brackets, const std::string& indent,
                std::string& into, Each each) {
    into += brackets[0];
    const char* separator = "\n";
    for (const auto& one : all) {
        into += separator + indent + "  ";
        each(one);
        separator = ",\n";
    }
    if (!all.empty()) into += "\n" + indent;
    into += brackets[1];
}

/// The shortest text that keeps the value, recognizable as a floating-point number.
std::string to_text(double number) {
    if (!std::isfinite(number)) return "null";
    std::array<char, 64> text{};
    auto end = std::to_chars(text.data(), text.data() + text.size(), number);
    std::string digits(text.data(), end.ptr);
    bool whole = digits.find_first_of(".e") == std::string::npos;
    return whole ? digits + ".0" : digits;
}

bool is_flat(const json::array& list) {
    for (const json::value& one : list)
        if (one.is_structured()) return false;
    return true;
}

void write_list_in_line(const json::array& list, std::string& into) {
    into += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (i > 0) into += ", ";
        write(list[i], "", into);
    }
    into += ']';
}

void write(const json::value& what, const std::string& indent, std::string& into) {
    if (const json::object* object = what.if_object()) {
        write_list(*object, "{}", indent, into, [&](const json::key_value_pair& member) {
            into += json::serialize(json::string(member.key())) + ": ";
            write(member.value(), indent + "  ", into);
        });
    } else if (const json::array* list = what.if_array(); list != nullptr && !is_flat(*list)) {
        write_list(*list, "[]", indent, into,
                   [&](const json::value& one) { write(one, indent + "  ", into); });
    } else if (list != nullptr) {
        write_list_in_line(*list, into);
    } else if (what.is_double()) {
        into += to_text(what.get_double());
    } else {
        into += json::serialize(what);
    }
}

}  // namespace

std::string to_text(const json::value& document) {
    std::string text;
    write(document, "", text);
    return text;
}

void print_json(const json::value& document) {
    std::string text = to_text(document) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

}  // namespace command
