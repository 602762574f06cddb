// Formats the results of cenote size.
#include "size_report.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdio>

#include "chart.hpp"

namespace sizing {

namespace json = boost::json;
using cenote::sim::advice;
using cenote::sim::sized;
using command::in_seconds;
using command::in_words;
using load::per_second;
using std::chrono::nanoseconds;
using terminal::tint;

namespace {

bool has_rate(const findings& f) { return f.question.rate > 0; }

double rate_of_all(const findings& f) {
    return f.question.rate * static_cast<double>(f.question.processes);
}

/// The recommended size on the curve.
std::size_t marked(const findings& f) {
    return f.question.processes == 1 ? f.advice->max : f.advice->together;
}

const sized& at(const advice& a, std::size_t max) {
    const sized* nearest = &a.curve.front();
    for (const sized& s : a.curve)
        if (s.max <= max) nearest = &s;
    return *nearest;
}

/// The value that is drawn.
double height_of(const sized& s, bool by_time) {
    return by_time ? in_seconds(s.total_p95) : s.throughput;
}

std::string measured_table(const findings& f, const terminal::palette& paint) {
    using align = terminal::table::align;
    terminal::table t({{"concurrency", align::right},
                       {"leases", align::right},
                       {"service p50", align::right},
                       {"p95", align::right},
                       {"reset", align::right},
                       {"hand-over", align::right}});
    for (const load::measured_level& m : f.measured.levels) {
        const auto& service = m.level.service;
        t.add({std::to_string(m.level.at_once), per_second(m.throughput),
               in_words(service[service.size() / 2]), in_words(service[service.size() * 95 / 100]),
               in_words(m.level.reset), in_words(m.level.handover)});
    }
    return paint(tint::bold, "Measured: the server by concurrency") + "\n" + t.to_text(paint, "  ");
}

std::string curve_table(const findings& f, const terminal::palette& paint) {
    using align = terminal::table::align;
    const advice& a = *f.advice;
    bool by_time = has_rate(f);
    std::vector<terminal::table::column> columns = {
        {"max", align::right}, {""}, {"leases", align::right}, {"total p95", align::right}};
    if (f.tried) {
        columns.push_back({"tried: leases", align::right});
        columns.push_back({"total p95", align::right});
    }
    columns.push_back({""});
    terminal::table t(columns);
    std::string recommended = f.question.processes == 1
                                  ? "recommended"
                                  : "divided by " + std::to_string(f.question.processes);
    double most = 0;
    for (const sized& s : a.curve) most = std::max(most, height_of(s, by_time));
    for (std::size_t i = 0; i < a.curve.size(); ++i) {
        const sized& s = a.curve[i];
        double share = std::min(1.0, height_of(s, by_time) / most);
        std::string bar = terminal::bar(share, terminal::width() < 80 ? 8 : 32);
        std::vector<std::string> row = {std::to_string(s.max),
                                        s.max == marked(f) ? paint(tint::green, bar) : bar,
                                        per_second(s.throughput), in_words(s.total_p95)};
        if (f.tried) {
            row.push_back(per_second(f.tried->curve[i].throughput));
            row.push_back(in_words(f.tried->curve[i].total_p95));
        }
        std::string note = s.max == marked(f) ? recommended : "";
        if (f.tried && s.max == f.tried->best) note += note.empty() ? "best" : ", best";
        row.push_back(paint(tint::green, note));
        t.add(row);
    }
    std::string what =
        by_time ? "Simulated: " + per_second(rate_of_all(f)) + " (bars: total p95)"
                : "Simulated: " + std::to_string(f.question.borrowers * f.question.processes) +
                      " borrowers without pauses (bars: throughput)";
    return paint(tint::bold, what) + "\n" + t.to_text(paint, "  ");
}

std::string advice_table(const findings& f, const terminal::palette& paint) {
    const advice& a = *f.advice;
    terminal::table t({{""}, {"", terminal::table::align::right}});
    std::string each = f.question.processes == 1 ? "" : " of each process";
    t.add({"max" + each, paint(tint::green, std::to_string(a.max))});
    t.add({"min_idle", paint(tint::green, std::to_string(a.min_idle))});
    t.add({"acquire_timeout", paint(tint::green, in_words(a.acquire_timeout))});
    return paint(tint::bold, "Recommended") + "\n" + t.to_text(paint, "  ");
}

std::string verdict(const findings& f, const terminal::palette& paint) {
    std::string text = "Tried real pools: " + std::to_string(f.tried->best) + " is best; ";
    if (f.tried->difference == 0) text += "the recommendation is the same.";
    else
        text += std::string("the recommendation differs by ") +
                (f.tried->difference > 0 ? "+" : "") + load::decimal(100 * f.tried->difference, 0) +
                " %.";
    return paint(f.tried->agrees() ? tint::green : tint::yellow, text);
}

std::string wrapped(const std::string& text) {
    std::string result;
    for (const std::string& line :
         terminal::wrap(text, std::min<std::size_t>(terminal::width(), 96)))
        result += line + "\n";
    return result;
}

std::string describe_limit(const findings& f) {
    const cenote::sim::server_share& share = *f.question.share;
    std::string each = share.processes == 1
                           ? "this process can use " + std::to_string(share.most())
                           : "each of " + std::to_string(share.processes) + " processes can use " +
                                 std::to_string(share.most());
    return "The server accepts " + std::to_string(share.limit) + " connections (" +
           f.limit_said_by + "); " + std::to_string(share.margin()) +
           " are reserved for other clients, so " + each + ".";
}

json::array to_json(const std::vector<sized>& curve) {
    json::array all;
    for (const sized& s : curve)
        all.push_back(json::object{{"max", s.max},
                                   {"throughput_per_second", s.throughput},
                                   {"wait_p50_seconds", in_seconds(s.wait_median)},
                                   {"wait_p99_seconds", in_seconds(s.wait_p99)},
                                   {"total_p95_seconds", in_seconds(s.total_p95)}});
    return all;
}

json::array measured_to_json(const findings& f) {
    json::array all;
    for (const load::measured_level& m : f.measured.levels) {
        const auto& service = m.level.service;
        all.push_back(
            json::object{{"at_once", m.level.at_once},
                         {"throughput_per_second", m.throughput},
                         {"crowded_throughput_per_second", m.crowded},
                         {"service_p50_seconds", in_seconds(service[service.size() / 2])},
                         {"service_p95_seconds", in_seconds(service[service.size() * 95 / 100])},
                         {"reset_seconds", in_seconds(m.level.reset)},
                         {"handover_seconds", in_seconds(m.level.handover)}});
    }
    return all;
}

json::value limit_to_json(const findings& f) {
    if (!f.question.share) return nullptr;
    return json::object{{"connections", f.question.share->limit},
                        {"said_by", f.limit_said_by},
                        {"in_use", f.limit ? json::value(f.limit->in_use) : nullptr},
                        {"processes", f.question.share->processes},
                        {"margin", f.question.share->margin()},
                        {"most_per_process", f.question.share->most()}};
}

/// The recommended size for all processes together.
std::string pools(const findings& f) {
    std::string size = std::to_string(f.advice->together);
    if (f.question.processes == 1) return "a pool of " + size;
    return size + (size == "1" ? " connection" : " connections") + " for all " +
           std::to_string(f.question.processes) + " processes together";
}

std::string percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

std::string what_is_best(const findings& f) {
    const advice& a = *f.advice;
    const sized& best = at(a, a.together);
    std::string up_to = " up to " + std::to_string(f.question.most);
    std::string tried = a.at_the_edge ? "of all sizes" + up_to + " " : "";
    std::string s = pools(f);
    bool alone = f.question.processes == 1 || a.together == 1;
    std::string smallest = alone ? " is the smallest " : " are the fewest ";
    if (has_rate(f) && !a.keeps_up && a.at_the_edge)
        s = "at " + per_second(rate_of_all(f)) + ", no size" + up_to + " keeps up: " + s +
            " serves " + per_second(best.throughput) + ".";
    else if (has_rate(f))
        s = "at " + per_second(rate_of_all(f)) + ", " + s + smallest + tried +
            "with almost the lowest total p95 (" + in_words(best.total_p95) + ").";
    else
        s += smallest + tried + (alone ? "that reaches " : "that reach ") +
             percent(f.question.reach) + " of the " +
             (a.at_the_edge ? "highest measured throughput" : "server's highest throughput") +
             " (" + per_second(best.throughput) + ").";
    s.front() = s.front() == 'a' ? 'A' : s.front();
    return s;
}

std::string consequence(const findings& f) {
    const advice& a = *f.advice;
    if (a.limit_binds)
        return "But the server accepts only " + std::to_string(f.question.share->limit) +
               " connections, so each of " + std::to_string(f.question.share->processes) +
               " processes can use " + std::to_string(a.max) + ", with " +
               per_second(a.at_rate.throughput) + (a.keeps_up ? "." : ": that is not enough.");
    if (a.at_the_edge && f.no_more_to_try)
        return "A larger size may be better, but the server has no connections left to try it.";
    if (a.at_the_edge)
        return "A larger size may be better: " +
               std::string(has_rate(f) ? "this is the largest that was tried"
                                       : "throughput still rises at the largest size tried") +
               "; try --up-to " + std::to_string(2 * f.question.most) + ".";
    if (f.question.processes > a.together)
        return "Each process needs at least one connection, " +
               std::to_string(f.question.processes) + " in total" +
               (has_rate(f) && a.keeps_up ? "; at this rate few of them are busy at once."
                                          : ", more than is good for the server: use fewer "
                                            "processes, or a pooler in front of the server.");
    if (!a.keeps_up)
        return "No pool size keeps up with this rate: the server serves " +
               per_second(a.at_rate.throughput) + " to each process.";
    return "More connections would wait inside the server instead of in line; at " +
           per_second(a.rate) + (f.question.processes > 1 ? " in each process" : "") +
           ", the p99 wait for a lease is " +
           in_words(cenote::sim::load_result::quantile(a.at_rate.wait, 0.99)) + ".";
}

}  // namespace

std::string reason(const findings& f) { return what_is_best(f) + " " + consequence(f); }

std::string to_text(const findings& f, const terminal::palette& paint) {
    std::string s = terminal::printable(f.server) + "\n\n";
    if (!f.measured.levels.empty()) s += measured_table(f, paint) + "\n";
    if (!f.advice) return s + "Interrupted before a recommendation was possible.\n";
    s += curve_table(f, paint) + "\n" + advice_table(f, paint) + "\n" + wrapped(reason(f));
    if (f.question.share) s += wrapped(describe_limit(f));
    if (f.tried) s += "\n" + verdict(f, paint) + "\n";
    return s;
}

json::value to_json(const findings& f) {
    json::object o{{"server", f.server},
                   {"interrupted", f.interrupted},
                   {"limit", limit_to_json(f)},
                   {"seed", f.question.seed},
                   {"measured", measured_to_json(f)},
                   {"open_seconds", in_seconds(f.measured.open)},
                   {"goal", has_rate(f)            ? "total_p95"
                            : f.question.reach > 0 ? "reach"
                                                   : "bend"},
                   {"recommendation", nullptr},
                   {"brute_force", nullptr}};
    if (f.advice) {
        const advice& a = *f.advice;
        o["simulated"] = to_json(a.curve);
        o["recommendation"] =
            json::object{{"max", a.max},
                         {"min_idle", a.min_idle},
                         {"acquire_timeout_seconds", in_seconds(a.acquire_timeout)},
                         {"max_without_limit", a.unbounded_max},
                         {"processes", f.question.processes},
                         {"best_of_all_processes", a.together},
                         {"largest_tried", f.question.most},
                         {"best_is_largest_tried", a.at_the_edge},
                         {"limit_binds", a.limit_binds},
                         {"rate_per_second", a.rate},
                         {"keeps_up", a.keeps_up},
                         {"reason", reason(f)}};
    }
    if (f.tried)
        o["brute_force"] = json::object{{"best", f.tried->best},
                                        {"difference", f.tried->difference},
                                        {"within_25_percent", f.tried->agrees()},
                                        {"curve", to_json(f.tried->curve)}};
    return o;
}

std::string to_svg(const findings& f) {
    bool by_time = has_rate(f);
    const advice& a = *f.advice;
    chart::lines c;
    c.title = "Pool sizes on " + f.server;
    c.x_title = f.question.processes == 1 ? "max" : "max of all processes together";
    c.y_title = by_time ? "total p95, at " + per_second(rate_of_all(f))
                        : "leases per second, " +
                              std::to_string(f.question.borrowers * f.question.processes) +
                              " borrowers";
    c.log_y = by_time;
    if (by_time) c.y_text = command::seconds_in_words;
    auto add = [&](const char* name, const std::vector<sized>& curve) {
        chart::series s{name, {}};
        for (const sized& one : curve)
            s.points.emplace_back(static_cast<double>(one.max), height_of(one, by_time));
        c.all.push_back(s);
    };
    add("simulated", a.curve);
    if (f.tried) add("tried", f.tried->curve);
    for (const sized& s : a.curve)
        c.x_ticks.emplace_back(static_cast<double>(s.max), std::to_string(s.max));
    c.marks.push_back(
        {static_cast<double>(marked(f)), "recommended: " + std::to_string(marked(f))});
    if (f.tried && f.tried->best != marked(f))
        c.marks.push_back(
            {static_cast<double>(f.tried->best), "best tried: " + std::to_string(f.tried->best)});
    return chart::as_file(c);
}

}  // namespace sizing
