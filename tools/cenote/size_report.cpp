// The findings, written down.
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
using load::in_words;
using load::per_second;
using std::chrono::nanoseconds;
using terminal::tint;

namespace {

double seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

bool has_rate(const findings& f) { return f.question.rate > 0; }

double rate_of_all(const findings& f) {
    return f.question.rate * static_cast<double>(f.question.processes);
}

/// Of the curve: what is recommended, for all processes together.
std::size_t marked(const findings& f) {
    return f.question.processes == 1 ? f.advice->max : f.advice->together;
}

const sized& at(const advice& a, std::size_t max) {
    const sized* nearest = &a.curve.front();
    for (const sized& s : a.curve)
        if (s.max <= max) nearest = &s;
    return *nearest;
}

/// What is drawn: as long as it is good.
double height_of(const sized& s, bool by_time) {
    return by_time ? seconds(s.total_p95) : s.throughput;
}

std::string measured_table(const findings& f, const terminal::palette& paint) {
    using align = terminal::table::align;
    terminal::table t({{"at once", align::right},
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
    return paint(tint::bold, "Measured: the server, with as many leases at once") + "\n" +
           t.to_text(paint, "  ");
}

std::string curve_table(const findings& f, const terminal::palette& paint) {
    using align = terminal::table::align;
    const advice& a = *f.advice;
    bool by_time = has_rate(f);
    std::vector<terminal::table::column> columns = {
        {"max", align::right}, {""}, {"leases", align::right}, {"95 % below", align::right}};
    if (f.tried) {
        columns.push_back({"tried: leases", align::right});
        columns.push_back({"95 % below", align::right});
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
        std::string bar = terminal::bar(share, 32);
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
        by_time ? "Simulated: " + per_second(rate_of_all(f)) + ", from coming to going (bars)"
                : "Simulated: " + std::to_string(f.question.borrowers * f.question.processes) +
                      " borrowers who want as much as they can get (bars)";
    return paint(tint::bold, what) + "\n" + t.to_text(paint, "  ");
}

std::string advice_table(const findings& f, const terminal::palette& paint) {
    const advice& a = *f.advice;
    terminal::table t({{""}, {"", terminal::table::align::right}});
    std::string of = f.question.processes == 1 ? "" : " of each process";
    t.add({"max" + of, paint(tint::green, std::to_string(a.max))});
    t.add({"min_idle", paint(tint::green, std::to_string(a.min_idle))});
    t.add({"acquire_timeout", paint(tint::green, in_words(a.acquire_timeout))});
    return paint(tint::bold, "Recommended") + "\n" + t.to_text(paint, "  ");
}

std::string verdict(const findings& f, const terminal::palette& paint) {
    std::string text = "Tried: of real pools, " + std::to_string(f.tried->best) + " is best; ";
    if (f.tried->difference == 0) text += "that is what was recommended.";
    else
        text += std::string("the recommendation is ") + (f.tried->difference > 0 ? "+" : "") +
                load::decimal(100 * f.tried->difference, 0) + " % off.";
    return paint(f.tried->agrees() ? tint::green : tint::yellow, text);
}

std::string wrapped(const std::string& text) {
    std::string result;
    for (const std::string& line :
         terminal::wrap(text, std::min<std::size_t>(terminal::width(), 96)))
        result += line + "\n";
    return result;
}

std::string limit_in_words(const findings& f) {
    const cenote::sim::server_share& share = *f.question.share;
    std::string each = share.processes == 1
                           ? "this process can have " + std::to_string(share.most())
                           : "each of " + std::to_string(share.processes) + " processes can have " +
                                 std::to_string(share.most());
    return "The server takes " + std::to_string(share.limit) + " connections (" + f.limit_said_by +
           "); " + std::to_string(share.margin()) + " are left for others, so " + each + ".";
}

json::array to_json(const std::vector<sized>& curve) {
    json::array all;
    for (const sized& s : curve)
        all.push_back(json::object{{"max", s.max},
                                   {"throughput_per_second", s.throughput},
                                   {"wait_p50_seconds", seconds(s.wait_median)},
                                   {"wait_p99_seconds", seconds(s.wait_p99)},
                                   {"total_p95_seconds", seconds(s.total_p95)}});
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
                         {"service_p50_seconds", seconds(service[service.size() / 2])},
                         {"service_p95_seconds", seconds(service[service.size() * 95 / 100])},
                         {"reset_seconds", seconds(m.level.reset)},
                         {"handover_seconds", seconds(m.level.handover)}});
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

/// The pools of all processes, as one.
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
    std::string tried = "of sizes up to " + std::to_string(f.question.most);
    std::string s = pools(f);
    bool alone = f.question.processes == 1 || a.together == 1;
    std::string smallest = alone ? " is the smallest " : " are the fewest ";
    if (has_rate(f) && !a.keeps_up && a.at_the_edge)
        s = "at " + per_second(rate_of_all(f)) + ", nothing " + tried + " keeps up: " + s +
            " serves " + per_second(best.throughput) + ".";
    else if (has_rate(f))
        s = "at " + per_second(rate_of_all(f)) + ", " + s + smallest +
            (a.at_the_edge ? tried + " " : "") +
            "with which 95 of 100 are done about as soon as with any (" + in_words(best.total_p95) +
            ").";
    else
        s += smallest + (a.at_the_edge ? tried + " " : std::string()) +
             (alone ? "that brings " : "that bring ") + percent(f.question.reach) +
             " of the most that " + (a.at_the_edge ? "was seen" : "the server can give") + " (" +
             per_second(best.throughput) + ").";
    s.front() = s.front() == 'a' ? 'A' : s.front();
    return s;
}

std::string what_that_means(const findings& f) {
    const advice& a = *f.advice;
    if (a.limit_binds)
        return "But the server has " + std::to_string(f.question.share->limit) +
               " connections, so each of " + std::to_string(f.question.share->processes) +
               " processes can have " + std::to_string(a.max) + " of them, with " +
               per_second(a.at_rate.throughput) + (a.keeps_up ? "." : ": that is not enough.");
    if (a.at_the_edge && f.no_more_to_try)
        return "A larger one may be better, but the server has no connections left to try it.";
    if (a.at_the_edge)
        return "That may not be all: " +
               std::string(has_rate(f) ? "it is the largest that was tried"
                                       : "the curve still rises where the trials end") +
               "; try --up-to " + std::to_string(2 * f.question.most) + ".";
    if (f.question.processes > a.together)
        return "Each process needs one at least, so that they have " +
               std::to_string(f.question.processes) +
               (has_rate(f) && a.keeps_up ? "; at this rate few of them are busy at once."
                                          : ", more than is good for the server: fewer processes, "
                                            "or a pooler in between.");
    if (!a.keeps_up)
        return "The server cannot keep up with that rate, whatever the size: it gives each "
               "process " +
               per_second(a.at_rate.throughput) + ".";
    return "More connections would mostly wait inside the server instead of in line; at " +
           per_second(a.rate) + (f.question.processes > 1 ? " in each" : "") +
           ", 99 of 100 wait less than " +
           in_words(cenote::sim::load_result::quantile(a.at_rate.wait, 0.99)) + " for a lease.";
}

}  // namespace

std::string reason(const findings& f) { return what_is_best(f) + " " + what_that_means(f); }

std::string to_text(const findings& f, const terminal::palette& paint) {
    std::string s = terminal::printable(f.server) + "\n\n";
    if (!f.measured.levels.empty()) s += measured_table(f, paint) + "\n";
    if (!f.advice) return s + "Interrupted before there was enough to recommend anything.\n";
    s += curve_table(f, paint) + "\n" + advice_table(f, paint) + "\n" + wrapped(reason(f));
    if (f.question.share) s += wrapped(limit_in_words(f));
    if (f.tried) s += "\n" + verdict(f, paint) + "\n";
    return s;
}

json::value to_json(const findings& f) {
    json::object o{{"server", f.server},
                   {"interrupted", f.interrupted},
                   {"limit", limit_to_json(f)},
                   {"seed", f.question.seed},
                   {"measured", measured_to_json(f)},
                   {"open_seconds", seconds(f.measured.open)},
                   {"goal", has_rate(f)            ? "total_p95"
                            : f.question.reach > 0 ? "reach"
                                                   : "bend"},
                   {"recommendation", nullptr},
                   {"brute_force", nullptr}};
    if (f.advice) {
        const advice& a = *f.advice;
        o["simulated"] = to_json(a.curve);
        o["recommendation"] = json::object{{"max", a.max},
                                           {"min_idle", a.min_idle},
                                           {"acquire_timeout_seconds", seconds(a.acquire_timeout)},
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
    c.y_title = by_time ? "milliseconds that 95 of 100 stay below, at " + per_second(rate_of_all(f))
                        : "leases per second, " +
                              std::to_string(f.question.borrowers * f.question.processes) +
                              " borrowers";
    c.log_y = by_time;
    auto add = [&](const char* name, const std::vector<sized>& curve) {
        chart::series s{name, {}};
        for (const sized& one : curve)
            s.points.emplace_back(static_cast<double>(one.max),
                                  height_of(one, by_time) * (by_time ? 1e3 : 1));
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
    return chart::as_file(chart::svg(c));
}

}  // namespace sizing
