// Texts of options, and what the system says of this process.
#include "watch/identity.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <unistd.h>

#include "cenote/version.hpp"
#include "watch/event_log.hpp"
#include "watch/json.hpp"

namespace cenote::detail {

namespace {

using std::chrono::nanoseconds;
using std::chrono::system_clock;

/// "5 s", "1.5 ms", "30 min", "forever".
std::string text_of(nanoseconds time) {
    if (time == nanoseconds::max()) return "forever";
    struct unit {
        const char* name;
        nanoseconds length;
    };
    constexpr std::array<unit, 6> units{{{"h", std::chrono::hours(1)},
                                         {"min", std::chrono::minutes(1)},
                                         {"s", std::chrono::seconds(1)},
                                         {"ms", std::chrono::milliseconds(1)},
                                         {"µs", std::chrono::microseconds(1)},
                                         {"ns", nanoseconds(1)}}};
    for (const unit& each : units) {
        bool whole = time % each.length == nanoseconds(0);
        bool divided = each.length <= std::chrono::seconds(1) && time >= each.length;
        if (time == nanoseconds(0) || !(whole || divided)) continue;
        char text[32];
        std::snprintf(text, sizeof text, "%.6g %s",
                      static_cast<double>(time.count()) / static_cast<double>(each.length.count()),
                      each.name);
        return text;
    }
    return "0";
}

std::string text_of(std::size_t number) {
    bool none = number == std::numeric_limits<std::uint64_t>::max();
    return none ? "forever" : std::to_string(number);
}
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(const std::string& value) { return value; }
std::string text_of(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}
std::string text_of(warm_up value) {
    constexpr std::array names{"background", "wait", "none"};
    return names.at(static_cast<std::size_t>(value));
}
std::string text_of(order value) { return value == order::lifo ? "lifo" : "fifo"; }
std::string text_of(fairness value) {
    constexpr std::array names{"strict", "bounded", "turns"};
    return names.at(static_cast<std::size_t>(value));
}
std::string text_of(open_errors value) {
    return value == open_errors::retry ? "retry" : "fail_fast";
}
std::string text_of(const open_rate& value) {
    if (value.per_second == std::uint64_t{forever}) return "no limit";
    return std::to_string(value.per_second) + " per second, burst " + std::to_string(value.burst);
}
std::string text_of(const shed& value) {
    if (value.target == nanoseconds(forever)) return "off";
    return "target " + text_of(value.target) + ", interval " + text_of(value.interval);
}
std::string text_of(const backoff& value) {
    return text_of(value.first) + " to " + text_of(value.cap_waiting) + " while callers wait, to " +
           text_of(value.cap_idle) + " otherwise";
}
std::string text_of(const std::optional<bool>& value) {
    return value ? text_of(*value) : "as the library was built";
}
template <class T>
std::string text_of(const std::shared_ptr<T>& value) {
    return value == nullptr ? "none" : "set";
}
std::string text_of(const std::vector<std::shared_ptr<observer>>& value) {
    return value.empty() ? "none" : std::to_string(value.size());
}

/// Writes the options one by one, each with its default.
class option_list {
public:
    explicit option_list(const options& in_force) : set_(in_force) {}

    template <class T>
    option_list& add(const char* name, T options::* member) {
        std::string value = text_of(set_.*member);
        std::string usual = text_of(usual_.*member);
        json_object one;
        one.add("name", json_text(name));
        one.add("value", json_text(shown_part(value)));
        one.add("default", value == usual ? "null" : json_text(usual));
        all_.add(one.take());
        return *this;
    }
    std::string take() { return all_.take(); }

private:
    const options& set_;
    const options usual_ = {};
    json_array all_;
};

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "";
    return name.data();
}

}  // namespace

system_clock::time_point process_start(system_clock::time_point otherwise) {
    // The 22nd field is the start, in ticks since the machine was started. The second one, the name
    // of the program in parentheses, may contain spaces.
    constexpr int fields_before = 19;  // between the name and the start
    std::ifstream file("/proc/self/stat");
    std::string line;
    if (!std::getline(file, line)) return otherwise;
    std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::string skipped;
    for (int i = 0; i < fields_before; ++i) rest >> skipped;
    double ticks = 0;
    if (!(rest >> ticks)) return otherwise;
    timespec now{};
    if (::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return otherwise;
    double since_boot = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
    std::chrono::duration<double> age(since_boot -
                                      ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)));
    return system_clock::now() - std::chrono::duration_cast<system_clock::duration>(age);
}

std::string process_json() {
    json_object one;
    one.add("program", json_text(shown_part(program_invocation_short_name)));
    one.add("host", json_text(host_name()));
    one.add("pid", number_text(static_cast<std::uint64_t>(::getpid())));
    one.add("version", json_text(version_text));
    one.add("started", time_text(process_start(system_clock::now())));
    return one.take();
}

std::string options_json(const options& in_force) {
    return option_list(in_force)
        .add("name", &options::name)
        .add("max", &options::max)
        .add("min_size", &options::min_size)
        .add("min_idle", &options::min_idle)
        .add("warm_up", &options::warm_up)
        .add("acquire_timeout", &options::acquire_timeout)
        .add("open_timeout", &options::open_timeout)
        .add("probe_timeout", &options::probe_timeout)
        .add("reset_timeout", &options::reset_timeout)
        .add("close_timeout", &options::close_timeout)
        .add("opening_max", &options::opening_max)
        .add("open_rate", &options::open_rate)
        .add("idle_timeout", &options::idle_timeout)
        .add("max_lifetime", &options::max_lifetime)
        .add("lifetime_jitter", &options::lifetime_jitter)
        .add("max_uses", &options::max_uses)
        .add("sweep_interval", &options::sweep_interval)
        .add("probe_after_idle", &options::probe_after_idle)
        .add("probe_on_release", &options::probe_on_release)
        .add("heartbeat", &options::heartbeat)
        .add("leak_after", &options::leak_after)
        .add("reset_after", &options::reset_after)
        .add("order", &options::order)
        .add("fairness", &options::fairness)
        .add("bypass_for", &options::bypass_for)
        .add("line_max", &options::line_max)
        .add("head_start", &options::head_start)
        .add("shed", &options::shed)
        .add("refuse_on_loop", &options::refuse_on_loop)
        .add("breaker", &options::breaker)
        .add("refuse_deadlock", &options::refuse_deadlock)
        .add("backoff", &options::backoff)
        .add("open_errors", &options::open_errors)
        .add("seed", &options::seed)
        .add("observers", &options::observers)
        .add("clock", &options::clock)
        .take();
}

}  // namespace cenote::detail
