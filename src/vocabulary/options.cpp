// Checks options: the range of each option, and the exception that names the option and its rule.
#include "cenote/options.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

namespace cenote {

namespace {

using std::chrono::nanoseconds;

std::string text_of(nanoseconds value) {
    if (value == nanoseconds::max()) return "forever";
    return std::to_string(value.count()) + " ns";
}

void require(bool valid, std::string_view option, const std::string& value, std::string_view rule) {
    if (!valid) throw invalid_option(option, value, rule);
}

void require_positive(std::initializer_list<std::pair<const char*, nanoseconds>> options) {
    for (const auto& [name, value] : options)
        require(value > nanoseconds::zero(), name, text_of(value), "must be greater than zero");
}

void require_not_negative(std::initializer_list<std::pair<const char*, nanoseconds>> options) {
    for (const auto& [name, value] : options)
        require(value >= nanoseconds::zero(), name, text_of(value), "must not be negative");
}

void validate_sizes(const options& o) {
    constexpr std::size_t most = 1'000'000;
    require(o.max >= 1, "max", std::to_string(o.max), "must be at least 1");
    require(o.max <= most, "max", std::to_string(o.max), "must be at most 1000000");
    require(o.min_size <= o.max, "min_size", std::to_string(o.min_size),
            "must be at most max (" + std::to_string(o.max) + ")");
    require(o.min_idle <= o.max, "min_idle", std::to_string(o.min_idle),
            "must be at most max (" + std::to_string(o.max) + ")");
    require(o.opening_max >= 1, "opening_max", std::to_string(o.opening_max), "must be at least 1");
    require(o.line_max <= 10 * most, "line_max", std::to_string(o.line_max),
            "must be at most 10000000");
    require(o.max_uses >= 1, "max_uses", std::to_string(o.max_uses), "must be at least 1");
}

void validate_backoff(const backoff& b) {
    constexpr nanoseconds day = std::chrono::hours{24};
    require_positive({{"backoff.first", b.first}});
    require(b.cap_waiting >= b.first, "backoff.cap_waiting", text_of(b.cap_waiting),
            "must be at least backoff.first (" + text_of(b.first) + ")");
    require(b.cap_idle >= b.first, "backoff.cap_idle", text_of(b.cap_idle),
            "must be at least backoff.first (" + text_of(b.first) + ")");
    require(b.cap_waiting <= day, "backoff.cap_waiting", text_of(b.cap_waiting),
            "must be at most a day");
    require(b.cap_idle <= day, "backoff.cap_idle", text_of(b.cap_idle), "must be at most a day");
}

void validate_rate(const open_rate& r) {
    constexpr std::uint64_t most = 1'000'000;
    bool limited = r.per_second != std::uint64_t{forever};
    require(r.per_second >= 1 && (!limited || r.per_second <= most), "open_rate.per_second",
            std::to_string(r.per_second), "must be between 1 and 1000000, or forever");
    require(r.burst >= 1 && r.burst <= most, "open_rate.burst", std::to_string(r.burst),
            "must be between 1 and 1000000");
}

/// Without probe() these options have no effect, so setting one is an error.
void validate_without_probe(const options& o) {
    const char* rule = "needs a connector with probe()";
    require(o.heartbeat == nanoseconds{forever}, "heartbeat", text_of(o.heartbeat), rule);
    require(!o.probe_on_release, "probe_on_release", "true", rule);
    bool is_default = o.probe_after_idle == options{}.probe_after_idle;
    require(is_default || o.probe_after_idle == nanoseconds{forever}, "probe_after_idle",
            text_of(o.probe_after_idle), rule);
}

}  // namespace

invalid_option::invalid_option(std::string_view option, std::string_view value,
                               std::string_view rule)
    : std::invalid_argument("cenote: option " + std::string(option) + " = " + std::string(value) +
                            ": " + std::string(rule)),
      option_(std::make_shared<const std::string>(option)) {}

void validate_name(std::string_view name) {
    auto is_allowed = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
    constexpr std::size_t longest = 100;
    if (!name.empty() && name.size() <= longest && std::ranges::all_of(name, is_allowed)) return;
    std::string shown(name.substr(0, longest));
    std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    throw invalid_option("name", '"' + shown + '"',
                         "must have 1 to 100 printable ASCII characters other than \" and \\");
}

void validate(const options& o, bool can_probe) {
    if (!can_probe) validate_without_probe(o);
    validate_name(o.name);
    validate_sizes(o);
    require_positive({{"open_timeout", o.open_timeout},
                      {"probe_timeout", o.probe_timeout},
                      {"reset_timeout", o.reset_timeout},
                      {"close_timeout", o.close_timeout},
                      {"idle_timeout", o.idle_timeout},
                      {"max_lifetime", o.max_lifetime},
                      {"sweep_interval", o.sweep_interval},
                      {"heartbeat", o.heartbeat},
                      {"leak_after", o.leak_after}});
    require_positive({{"shed.target", o.shed.target}, {"shed.interval", o.shed.interval}});
    require(o.head_start <= std::chrono::hours{24}, "head_start", text_of(o.head_start),
            "must be at most a day");
    require_not_negative({{"acquire_timeout", o.acquire_timeout},
                          {"head_start", o.head_start},
                          {"probe_after_idle", o.probe_after_idle},
                          {"reset_after", o.reset_after},
                          {"bypass_for", o.bypass_for}});
    require(o.bypass_for <= std::chrono::seconds{1}, "bypass_for", text_of(o.bypass_for),
            "must be at most a second");
    require(o.lifetime_jitter >= 0 && o.lifetime_jitter < 1, "lifetime_jitter",
            std::to_string(o.lifetime_jitter), "must be at least 0 and less than 1");
    require(o.warm_up <= warm_up::none, "warm_up", std::to_string(static_cast<int>(o.warm_up)),
            "must be background, wait or none");
    require(o.order <= order::fifo, "order", std::to_string(static_cast<int>(o.order)),
            "must be lifo or fifo");
    require(o.fairness <= fairness::turns, "fairness", std::to_string(static_cast<int>(o.fairness)),
            "must be strict, bounded or turns");
    require(o.open_errors <= open_errors::fail_fast, "open_errors",
            std::to_string(static_cast<int>(o.open_errors)), "must be retry or fail_fast");
    validate_backoff(o.backoff);
    validate_rate(o.open_rate);
    for (const auto& each : o.observers)
        require(each != nullptr, "observers", "null", "must not contain a null pointer");
}

}  // namespace cenote
