// Checks of option values, with error texts that follow the option's name: "must be from 1 to 8".
#pragma once

#include <charconv>
#include <concepts>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

namespace command {

/// The value of an option is a number in this range.
template <class Number>
CLI::Validator from_to(Number least, Number most) {
    auto text_of = [](Number value) {
        char text[32];
        if constexpr (std::integral<Number>)
            std::snprintf(text, sizeof text, "%lld", static_cast<long long>(value));
        else std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
        return std::string(text);
    };
    std::string rule = std::integral<Number> ? "must be a whole number from " : "must be from ";
    rule += text_of(least) + " to " + text_of(most);
    return CLI::Validator(
        [=](const std::string& text) {
            Number value{};
            auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            bool fits = error == std::errc() && end == text.data() + text.size() &&
                        value >= least && value <= most;
            return fits ? std::string() : rule + ", not '" + text + "'";
        },
        "");
}

/// The value of an option is one of these words.
inline CLI::Validator one_of(const std::vector<std::string>& words) {
    std::string rule = "must be ";
    for (std::size_t i = 0; i < words.size(); ++i)
        rule += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    return CLI::Validator(
        [=](const std::string& text) {
            for (const std::string& word : words)
                if (word == text) return std::string();
            return rule + ", not '" + text + "'";
        },
        "");
}

}  // namespace command
