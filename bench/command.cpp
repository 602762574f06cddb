// Runs programs and parses their results.
#include "command.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace cenote::bench {

namespace {

/// Removes the first word and the space after it.
std::string_view take_word(std::string_view& from) {
    std::string_view word = from.substr(0, from.find(' '));
    from.remove_prefix(std::min(from.size(), word.size() + 1));
    return word;
}

double number(std::string_view text) {
    double value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        throw std::runtime_error("not a number: " + std::string(text));
    return value;
}

metric metric_of(std::string_view line) {
    double value = number(take_word(line));
    std::string_view unit = take_word(line);
    if (unit == "-") unit = "";
    if (unit == "us") unit = "µs";
    return {.name = std::string(line), .value = value, .unit = std::string(unit)};
}

}  // namespace

std::string output_of(const std::vector<std::string>& words) {
    std::string command;
    for (const std::string& word : words) command += "'" + word + "' ";
    FILE* out = ::popen((command + "2>&1").c_str(), "r");
    if (out == nullptr) throw std::runtime_error("cannot run " + command);
    std::string all;
    std::array<char, 4096> some{};
    while (std::size_t got = std::fread(some.data(), 1, some.size(), out))
        all.append(some.data(), got);
    if (::pclose(out) != 0) throw std::runtime_error("failed: " + command + all);
    return all;
}

measured metrics_of(const std::vector<std::string>& words) {
    measured m;
    try {
        std::string output = output_of(words);
        std::string_view left = output;
        while (!left.empty()) {
            std::string_view line = left.substr(0, left.find('\n'));
            left.remove_prefix(std::min(left.size(), line.size() + 1));
            add_line(m, line);
        }
    } catch (const std::exception& e) {
        m.failed = e.what();
    }
    return m;
}

void add_line(measured& to, std::string_view line) {
    std::string_view word = take_word(line);
    if (word == "declined") to.declined = line;
    else if (word == "failed") to.failed = line;
    else if (word == "cores") to.cores = number(line);
    else if (word == "metric") to.metrics.push_back(metric_of(line));
    else throw std::runtime_error("invalid line: " + std::string(word));
}

}  // namespace cenote::bench
