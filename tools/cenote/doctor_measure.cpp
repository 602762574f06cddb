// Measurements and parsing that the examinations share.
#include <algorithm>
#include <charconv>
#include <vector>

#include "command.hpp"
#include "doctor_servers.hpp"

namespace doctor {

using std::chrono::steady_clock;

void throw_if_interrupted(const examination& how) {
    if (how.stop.happened()) throw command::failure("interrupted", "", command::interrupted);
}

times repeat(const examination& how, const char* title, std::size_t most, nanoseconds limit,
             const std::function<void()>& operation, const std::function<void()>& before) {
    terminal::progress bar(title);
    std::vector<nanoseconds> each;
    auto end = steady_clock::now() + limit;
    while (each.size() < most && (each.empty() || steady_clock::now() < end)) {
        throw_if_interrupted(how);
        if (before) before();
        auto begun = steady_clock::now();
        operation();
        each.emplace_back(steady_clock::now() - begun);
        bar.at(static_cast<double>(each.size()) / static_cast<double>(most));
    }
    std::sort(each.begin(), each.end());
    return {.count = each.size(),
            .p50 = each[each.size() / 2],
            .p99 = each[(each.size() - 1) * 99 / 100]};
}

void stay_idle(const examination& how) {
    using namespace std::chrono_literals;
    terminal::progress bar("keeping a connection idle");
    auto begun = steady_clock::now();
    for (auto now = begun; now - begun < *how.idle; now = steady_clock::now()) {
        nanoseconds left = *how.idle - (now - begun);
        bar.at(1 - static_cast<double>(left.count()) / static_cast<double>(how.idle->count()),
               command::in_words(std::chrono::ceil<std::chrono::seconds>(left)) + " left");
        how.stop.sleep_for(std::min<nanoseconds>(left, 100ms));
        throw_if_interrupted(how);
    }
}

void compare_clocks(std::chrono::system_clock::time_point before,
                    std::chrono::system_clock::time_point after, nanoseconds theirs_since_1970,
                    facts& into) {
    nanoseconds round_trip = after - before;
    nanoseconds ours = before.time_since_epoch() + round_trip / 2;
    into.clock_ahead = theirs_since_1970 - ours;
    into.clock_error = std::max(into.clock_error, round_trip / 2);
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t value = 0;
    auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> number(const setting_map& settings, std::string_view name) {
    auto found = settings.find(name);
    return found == settings.end() ? std::nullopt : parse_number(found->second);
}

nanoseconds seconds_from(std::uint64_t count) {
    return std::chrono::seconds(std::min<std::uint64_t>(count, 1'000'000'000));
}

std::optional<std::uint64_t> without_own(std::optional<std::uint64_t> connections) {
    if (connections) *connections -= std::min<std::uint64_t>(*connections, 1);
    return connections;
}

}  // namespace doctor
