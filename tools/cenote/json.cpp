// Boost.JSON, compiled here once for the whole program, and how a document is written for people.
#include <boost/json/src.hpp>
#include <cstdio>

#include "command.hpp"

namespace command {

namespace json = boost::json;

namespace {

void write(const json::value& what, const std::string& indent, std::string& into);

/// Elements or members, each on a line of its own.
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

bool is_flat(const json::array& list) {
    for (const json::value& one : list)
        if (one.is_structured()) return false;
    return true;
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
