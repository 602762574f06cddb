// Writes recordings as text and reads them back.
#include "sim/recording.hpp"

#include <sstream>
#include <stdexcept>
#include <type_traits>

namespace cenote::sim {

namespace {

/// Calls `visit` with the name and the value of every field that a replay needs.
template <class Plan, class Visit>
void each_field(Plan& p, Visit visit) {
    visit("seed", p.seed);
    visit("probe", p.can.probe);
    visit("reset", p.can.reset);
    visit("sees_freezes", p.can.sees_freezes);
    visit("turns", p.can.turns);
    visit("reports", p.reports);
    visit("ends_live", p.ends_live);
    visit("calls_wait", p.calls_wait);
    visit("borrowers", p.borrowers);
    visit("coroutines", p.coroutines);
    visit("looks", p.looks);
    visit("gatherers", p.gatherers);
    visit("pairs", p.pairs);
    visit("ranks", p.ranks);
    visit("hasty", p.hasty);
    visit("failures", p.failures);
    visit("probes", p.probes);
    visit("successes", p.successes);
    visit("cool_down", p.cool_down);
    auto& o = p.settings;
    visit("max", o.max);
    visit("min_size", o.min_size);
    visit("min_idle", o.min_idle);
    visit("warm_up", o.warm_up);
    visit("open_timeout", o.open_timeout);
    visit("probe_timeout", o.probe_timeout);
    visit("reset_timeout", o.reset_timeout);
    visit("close_timeout", o.close_timeout);
    visit("opening_max", o.opening_max);
    visit("idle_timeout", o.idle_timeout);
    visit("max_lifetime", o.max_lifetime);
    visit("lifetime_jitter", o.lifetime_jitter);
    visit("max_uses", o.max_uses);
    visit("sweep_interval", o.sweep_interval);
    visit("reset_after", o.reset_after);
    visit("probe_after_idle", o.probe_after_idle);
    visit("probe_on_release", o.probe_on_release);
    visit("heartbeat", o.heartbeat);
    visit("order", o.order);
    visit("fairness", o.fairness);
    visit("bypass_for", o.bypass_for);
    visit("line_max", o.line_max);
    visit("open_rate", o.open_rate.per_second);
    visit("open_burst", o.open_rate.burst);
    visit("refuse_deadlock", o.refuse_deadlock);
    visit("head_start", o.head_start);
    visit("shed_target", o.shed.target);
    visit("shed_interval", o.shed.interval);
    visit("open_errors", o.open_errors);
    visit("backoff_first", o.backoff.first);
    visit("backoff_cap_waiting", o.backoff.cap_waiting);
    visit("backoff_cap_idle", o.backoff.cap_idle);
}

template <class T>
void write(std::ostream& out, const T& value) {
    if constexpr (std::is_enum_v<T>) out << static_cast<int>(value);
    else if constexpr (std::is_arithmetic_v<T>) out << value;
    else out << value.count();  // nanoseconds
}

template <class T>
bool read(std::istream& in, T& value) {
    if constexpr (std::is_enum_v<T>) {
        int number = 0;
        in >> number;
        value = static_cast<T>(number);
    } else if constexpr (std::is_arithmetic_v<T>) {
        in >> value;
    } else {
        typename T::rep count = 0;
        in >> count;
        value = T{count};
    }
    return !in.fail();
}

bool read_setting(const std::string& line, plan& p) {
    std::istringstream in(line);
    std::string name;
    in >> name;
    bool understood = false;
    each_field(p, [&](const char* field, auto& value) {
        if (name == field) understood = read(in, value);
    });
    return understood;
}

}  // namespace

std::string to_text(const recording& r) {
    std::ostringstream out;
    each_field(r.from, [&](const char* name, const auto& value) {
        out << name << ' ';
        write(out, value);
        out << '\n';
    });
    for (const decision& d : r.decisions) out << "  " << to_string(d) << '\n';
    return out.str();
}

recording from_text(const std::string& text) {
    recording r;
    std::istringstream in(text);
    std::string line;
    for (std::size_t number = 1; std::getline(in, line); ++number) {
        decision d;
        bool indented = line.starts_with("  ");
        if (indented && parse(line, d)) r.decisions.push_back(d);
        else if (indented || !read_setting(line, r.from))
            throw std::invalid_argument("line " + std::to_string(number) +
                                        " is neither a setting nor a decision: " + line);
    }
    if (r.from.borrowers == 0) throw std::invalid_argument("there are no borrowers");
    validate(r.from.settings);
    return r;
}

}  // namespace cenote::sim
