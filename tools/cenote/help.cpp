// Wraps help texts and compares subcommand names.
#include "help.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <vector>

#include "terminal.hpp"

namespace command {

namespace {

constexpr std::size_t left_column = 30;

std::string wrapped(const std::string& text) {
    std::size_t room = std::min<std::size_t>(terminal::width(), 100) - left_column;
    std::string lines;
    for (const std::string& line : terminal::wrap(text, std::max<std::size_t>(room, 30)))
        lines += (lines.empty() ? "" : "\n") + line;
    return lines;
}

/// The Levenshtein distance.
std::size_t distance(const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
        }
    }
    return row.back();
}

}  // namespace

help::help() {
    column_width(left_column);
    label("Positionals", "Arguments");
}

std::string help::make_description(const CLI::App* subcommand) const {
    std::string lines;
    for (const std::string& line : terminal::wrap(subcommand->get_description(),
                                                  std::min<std::size_t>(terminal::width(), 100)))
        lines += line + "\n";
    return lines;
}

std::string help::make_subcommand(const CLI::App* subcommand) const {
    std::ostringstream out;
    CLI::detail::format_help(out, subcommand->get_display_name(true),
                             wrapped(subcommand->get_description()), get_column_width());
    return out.str();
}

std::string value_placeholder(const CLI::Option& option) {
    if (!option.get_option_text().empty()) return option.get_option_text();
    if (option.get_type_size() == 0) return "";
    std::string type = option.get_type_name();
    type.erase(std::min(type.find_first_of(":{["), type.size()));  // the names of its checks
    if (type == "UINT" || type == "INT" || type == "FLOAT") type = "N";
    if (!option.get_default_str().empty()) type += "=" + option.get_default_str();
    return type;
}

std::string help::make_option_opts(const CLI::Option* option) const {
    std::string value = value_placeholder(*option);
    return value.empty() || option->get_positional() ? "" : " " + value;
}

std::string help::make_option_desc(const CLI::Option* option) const {
    return wrapped(option->get_description());
}

std::string closest_subcommand(const std::string& name, const CLI::App& app) {
    std::string best;
    std::size_t least = std::max<std::size_t>(name.size() / 2, 1) + 1;
    for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
        if (std::size_t far = distance(name, each->get_name()); far < least) {
            least = far;
            best = each->get_name();
        }
    return best;
}

}  // namespace command
