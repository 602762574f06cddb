// Options, durations, redaction and output files, shared by all subcommands.
#include "command.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <CLI/CLI.hpp>

#include "checks.hpp"

namespace command {

void add_look(CLI::App& subcommand, look& into) {
    subcommand.add_flag("--json", into.json, "Print one JSON document on stdout");
    subcommand
        .add_option_function<std::string>(
            "--color",
            [&into](const std::string& word) { into.colors = terminal::color_choices().at(word); },
            "When to use color; auto: only on a terminal")
        ->check(one_of({"auto", "always", "never"}))
        ->option_text("auto|always|never");
    subcommand.add_flag_callback(
        "--no-color", [&into] { into.colors = terminal::color_choice::never; },
        "Same as --color never");
}

std::chrono::nanoseconds parse_duration(std::string_view text) {
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    double scale = unit.empty() || unit == "s" ? 1e9
                   : unit == "ns"              ? 1
                   : unit == "us"              ? 1e3
                   : unit == "µs"              ? 1e3  // U+00B5, and Greek mu:
                   : unit == "μs"              ? 1e3
                   : unit == "ms"              ? 1e6
                   : unit == "min"             ? 60e9
                   : unit == "h"               ? 3600e9
                   : unit == "d"               ? 86400e9
                                               : 0;
    double nanoseconds = number * scale;
    if (error != std::errc() || scale == 0 || !std::isfinite(nanoseconds) || nanoseconds < 0 ||
        nanoseconds > 1e18)
        throw std::invalid_argument("must be a duration such as 250ms, 5s, 2min or 1h, not '" +
                                    std::string(text) + "'");
    return std::chrono::nanoseconds(std::llround(nanoseconds));
}

namespace {

/// Where the value begins, in `--name=value` and in a bare value.
std::size_t value_in(std::string_view argument) {
    std::size_t equals = argument.starts_with('-') ? argument.find('=') : std::string_view::npos;
    return equals == std::string_view::npos ? 0 : equals + 1;
}

/// Where a password begins in `host=db password=…` or `Server=db;Pwd=…`; npos if there is none.
std::size_t secret_in(std::string_view argument) {
    std::string text(argument);
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    std::size_t first = std::string::npos;
    for (const char* key : {"password", "passwd", "pass", "pwd"})
        for (std::size_t at = text.find(key); at != std::string::npos;
             at = text.find(key, at + 1)) {
            std::size_t equals = text.find_first_not_of(' ', at + std::string_view(key).size());
            bool is_key =
                at == 0 || std::string_view(" ;?&:").find(text[at - 1]) != std::string::npos;
            if (is_key && equals != std::string::npos && text[equals] == '=')
                first = std::min(first, equals + 1);
        }
    return first;
}

/// "app", or "app:***" as in redacted URLs.
bool is_user_without_password(std::string_view text) {
    if (text.ends_with(":***")) text.remove_suffix(4);
    return std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '_' || c == '-' || c == '.' || c == '%';
    });
}

void replace_all(std::string& in, std::string_view what, std::string_view by) {
    for (std::size_t at = in.find(what); at != std::string::npos;
         at = in.find(what, at + by.size()))
        in.replace(at, what.size(), by);
}

}  // namespace

std::string redacted(std::string_view argument) {
    std::size_t value = value_in(argument), colon = argument.find("://", value);
    std::size_t secret = secret_in(argument);
    if (secret < colon) return std::string(argument.substr(0, secret)) + "***";
    if (colon != std::string_view::npos) return std::string(argument.substr(0, colon + 3)) + "***";
    std::size_t at = argument.rfind('@');
    if (at == std::string_view::npos || at < value) return std::string(argument);
    return std::string(argument.substr(0, value)) + "***" + std::string(argument.substr(at));
}

std::string without_passwords(std::string text, const std::vector<std::string>& arguments) {
    // Whole arguments: a password may contain spaces.
    for (const std::string& argument : arguments) {
        std::string hidden = redacted(argument);
        if (hidden == argument) continue;
        std::size_t value = value_in(argument);
        replace_all(text, std::string_view(argument).substr(value),
                    std::string_view(hidden).substr(value));
    }
    for (std::size_t from = text.find("://"); from != std::string::npos;
         from = text.find("://", from + 3)) {
        std::size_t end = std::min(text.find_first_of(" \t\n'\"", from), text.size());
        std::size_t at = text.rfind('@', end - 1);
        if (at == std::string::npos || at <= from) continue;
        if (!is_user_without_password(std::string_view(text).substr(from + 3, at - from - 3)))
            text.replace(from + 3, at - from - 3, "***");
    }
    return text;
}

std::string in_words(std::chrono::nanoseconds time) {
    if (time < std::chrono::nanoseconds::zero()) return "-" + in_words(-time);
    struct unit {
        double from;  // nanoseconds
        double is;
        const char* name;
    };
    constexpr unit units[] = {{86400e9 * 2, 86400e9, "days"},
                              {3600e9 * 2, 3600e9, "h"},
                              {60e9 * 2, 60e9, "min"},
                              {1e9, 1e9, "s"},
                              {1e6, 1e6, "ms"},
                              {0, 1e3, "µs"}};
    auto count = static_cast<double>(time.count());
    const unit* u = units;
    while (count < u->from) ++u;
    double value = count / u->is;
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
    std::string digits = text;
    if (digits.find('.') != std::string::npos) {
        digits.erase(digits.find_last_not_of('0') + 1);
        if (digits.back() == '.') digits.pop_back();
    }
    return digits + " " + u->name;
}

std::string seconds_in_words(double seconds) {
    return in_words(std::chrono::nanoseconds(std::llround(seconds * 1e9)));
}

std::string without_prefix(std::string text) {
    constexpr std::string_view name = "cenote: ";
    if (text.starts_with(name)) text.erase(0, name.size());
    return text;
}

void check_output() {
    if (std::ferror(stdout) == 0) return;
    if (terminal::output_is_closed()) throw failure("the output was closed", "", output_closed);
    throw failure("cannot write the output: the disk is full, or the file cannot be written");
}

double in_seconds(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

output_file::output_file(std::string path) : path_(std::move(path)) {
    if (path_.empty()) return;
    std::error_code ignored;
    bool is_new = !std::filesystem::exists(path_, ignored);
    file_.open(path_, std::ios::binary | std::ios::app);
    if (!file_) throw failure("cannot write " + path_);
    is_new_and_empty_ = is_new;
}

output_file::~output_file() {
    std::error_code ignored;
    if (is_new_and_empty_) std::filesystem::remove(path_, ignored);
}

void output_file::write(const std::function<std::string()>& text) {
    if (path_.empty()) return;
    is_new_and_empty_ = false;
    file_.close();
    file_.open(path_, std::ios::binary | std::ios::trunc);
    file_ << text();
    file_.close();
    if (!file_) throw failure("cannot write " + path_);
}

CLI::Option* add_duration(CLI::App& subcommand, const std::string& name,
                          std::chrono::nanoseconds& into, const std::string& description) {
    return subcommand
        .add_option_function<std::string>(
            name,
            [&into, name](const std::string& text) {
                try {
                    into = parse_duration(text);
                } catch (const std::invalid_argument& e) {
                    throw CLI::ValidationError(name, e.what());
                }
            },
            description)
        ->option_text("TIME");
}

}  // namespace command
