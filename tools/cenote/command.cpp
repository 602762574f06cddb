// What the words have in common, as far as it concerns their options.
#include "command.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>

#include <CLI/CLI.hpp>

namespace command {

void add_look(CLI::App& word, look& into) {
    word.add_flag("--json", into.json,
                  "Answer with one JSON document on stdout, for other programs");
    word.add_option("--color", into.colors, "Colours: auto (on a terminal only), always, never")
        ->transform(CLI::CheckedTransformer(terminal::color_choices(), CLI::ignore_case)
                        .description("auto|always|never"))
        ->option_text("auto|always|never");
    word.add_flag_callback(
        "--no-color", [&into] { into.colors = terminal::color_choice::never; },
        "The same as --color never");
}

std::chrono::nanoseconds parse_duration(std::string_view text) {
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    double scale = unit.empty() || unit == "s" ? 1e9
                   : unit == "ns"              ? 1
                   : unit == "us"              ? 1e3
                   : unit == "ms"              ? 1e6
                   : unit == "min"             ? 60e9
                   : unit == "h"               ? 3600e9
                   : unit == "d"               ? 86400e9
                                               : 0;
    double nanoseconds = number * scale;
    if (error != std::errc() || scale == 0 || !std::isfinite(nanoseconds) || nanoseconds < 0 ||
        nanoseconds > 1e18)
        throw std::invalid_argument("'" + std::string(text) +
                                    "' is no time: say 250ms, 5s, 2min or 1h");
    return std::chrono::nanoseconds(std::llround(nanoseconds));
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
                              {1e3, 1e3, "us"},
                              {0, 1, "ns"}};
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

CLI::Option* add_duration(CLI::App& word, const std::string& name, std::chrono::nanoseconds& into,
                          const std::string& description) {
    return word
        .add_option_function<std::string>(
            name,
            [&into](const std::string& text) {
                try {
                    into = parse_duration(text);
                } catch (const std::invalid_argument& e) {
                    throw CLI::ValidationError(e.what());
                }
            },
            description)
        ->option_text("TIME");
}

}  // namespace command
