// Wraps help texts and compares names.
#include "help.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <vector>

#include "terminal.hpp"

namespace command {

namespace {

std::size_t width() { return std::min<std::size_t>(terminal::width(), 100); }

/// On a narrow terminal descriptions begin below the options.
std::size_t left_column() { return width() < 70 ? 8 : 30; }

std::string wrapped(const std::string& text) {
    std::string lines;
    for (const std::string& line : terminal::wrap(text, width() - left_column()))
        lines += (lines.empty() ? "" : "\n") + line;
    return lines;
}

/// A line of two columns, wrapped in the second one if it is too long. An example stays one line.
std::string hanging(const std::string& line) {
    std::size_t column = line.find_first_not_of(' ', std::min(line.find("  ", 2), line.size()));
    if (terminal::columns_of(line) <= width() || column == std::string::npos) return line + "\n";
    std::string lines = line.substr(0, column);
    if (column > width() / 2) lines += "\n" + std::string(column = 7, ' ');
    std::string rest = line.substr(line.find_first_not_of(' ', line.find("  ", 2)));
    std::string indent;
    for (const std::string& part : terminal::wrap(rest, width() - column)) {
        lines += indent + part + "\n";
        indent = std::string(column, ' ');
    }
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

/// The most similar text in less than `least` changes.
std::string closest(const std::string& name, const std::vector<std::string>& all,
                    std::size_t least) {
    std::string best;
    for (const std::string& one : all)
        if (std::size_t far = distance(name, one); far < least) {
            least = far;
            best = one;
        }
    return best;
}

}  // namespace

help::help() {
    column_width(left_column());
    label("Positionals", "Arguments");
}

std::string help::make_description(const CLI::App* subcommand) const {
    std::string lines;
    for (const std::string& line : terminal::wrap(subcommand->get_description(), width()))
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

std::string help::make_footer(const CLI::App* subcommand) const {
    std::string lines;
    std::istringstream footer(subcommand->get_footer());
    for (std::string line; std::getline(footer, line);) {
        if (line.starts_with(' ')) lines += hanging(line);
        else
            for (const std::string& part : terminal::wrap(line, width())) lines += part + "\n";
    }
    return lines;
}

void add_footer(CLI::App& subcommand, const std::string& notes,
                const std::vector<std::pair<int, std::string>>& exit_status) {
    std::string text = notes + (notes.empty() ? "" : "\n") + "Exit status:\n";
    for (const auto& [code, meaning] : exit_status) {
        std::string number = std::to_string(code);
        text += "  " + number + std::string(5 - number.size(), ' ') + meaning + "\n";
    }
    subcommand.footer(text);
}

const CLI::App* subcommand_named(const std::string& name, const CLI::App& app) {
    for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
        if (each->get_name() == name) return each;
    return nullptr;
}

std::string closest_subcommand(const std::string& name, const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(each->get_name());
    return closest(name, names, std::max<std::size_t>(name.size() / 2, 1) + 1);
}

std::string closest_option(const std::string& name, const CLI::App& of) {
    std::vector<std::string> names;
    for (const CLI::Option* each : of.get_options([](const CLI::Option*) { return true; }))
        for (const std::string& one : each->get_lnames()) names.push_back("--" + one);
    return name.size() > 3 ? closest(name, names, (name.size() - 2) / 3 + 1) : "";
}

}  // namespace command
