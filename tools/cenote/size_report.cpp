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
    double most = 0;
    for (const sized& s : a.curve) most = std::max(most, height_of(s, by_time));
    for (std::size_t i = 0; i < a.curve.size(); ++i) {
        const sized& s = a.curve[i];
        double share = std::min(1.0, height_of(s, by_time) / most);
        std::string bar = terminal::bar(share, 32);
        std::vector<std::string> row = {std::to_string(s.max),
                                        s.max == a.max ? paint(tint::green, bar) : bar,
                                        per_second(s.throughput), in_words(s.total_p95)};
        if (f.tried) {
            row.push_back(per_second(f.tried->curve[i].throughput));
            row.push_back(in_words(f.tried->curve[i].total_p95));
        }
        std::string note = s.max == a.max ? "recommended" : "";
        if (f.tried && s.max == f.tried->best) note += note.empty() ? "best" : ", best";
        row.push_back(paint(tint::green, note));
        t.add(row);
    }
    std::string what =
        by_time ? "Simulated: " + per_second(f.question.rate) + ", from coming to going (bars)"
                : "Simulated: " + std::to_string(f.question.borrowers) +
                      " borrowers who want as much as they can get (bars)";
    return paint(tint::bold, what) + "\n" + t.to_text(paint, "  ");
}

std::string advice_table(const findings& f, const terminal::palette& paint) {
    const advice& a = *f.advice;
    terminal::table t({{""}, {"", terminal::table::align::right}});
    t.add({"max", paint(tint::green, std::to_string(a.max))});
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
    return "The server takes " + std::to_string(share.limit) + " connections (" +
           (f.limit ? f.limit->said_by : "--limit") + "); " + std::to_string(share.margin()) +
           " are left for others, so " + each + ".";
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
                        {"said_by", f.limit ? f.limit->said_by : "--limit"},
                        {"processes", f.question.share->processes},
                        {"margin", f.question.share->margin()},
                        {"most_per_process", f.question.share->most()}};
}

}  // namespace

std::string reason(const findings& f) {
    const advice& a = *f.advice;
    const sized& chosen = at(a, a.max);
    std::string first, second;
    if (has_rate(f))
        first = "At " + per_second(f.question.rate) + ", a pool of " +
                std::to_string(a.unbounded_max) +
                " is the smallest with which 95 of 100 are done about as soon as with any (" +
                in_words(at(a, a.unbounded_max).total_p95) + ").";
    else
        first = "A pool of " + std::to_string(a.unbounded_max) +
                " is the smallest that brings 85 % of the most that the server can give (" +
                per_second(at(a, a.unbounded_max).throughput) + ").";
    if (a.limit_binds)
        second = "But the server has " + std::to_string(f.question.share->limit) +
                 " connections, so each of " + std::to_string(f.question.share->processes) +
                 " processes can have " + std::to_string(a.max) + " of them, with " +
                 per_second(chosen.throughput) + (a.keeps_up ? "." : ": that is not enough.");
    else if (!a.keeps_up)
        second = "The server cannot keep up with that rate, whatever the size: it gives " +
                 per_second(a.at_rate.throughput) + ".";
    else
        second = "More connections would only wait inside the server instead of in line; at " +
                 per_second(a.rate) + ", 99 of 100 wait less than " +
                 in_words(cenote::sim::load_result::quantile(a.at_rate.wait, 0.99)) +
                 " for a lease.";
    return first + " " + second;
}

std::string to_text(const findings& f, const terminal::palette& paint) {
    std::string s = f.server + "\n\n";
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
                   {"goal", has_rate(f) ? "total_p95" : "throughput"},
                   {"recommendation", nullptr},
                   {"brute_force", nullptr}};
    if (f.advice) {
        const advice& a = *f.advice;
        o["simulated"] = to_json(a.curve);
        o["recommendation"] = json::object{{"max", a.max},
                                           {"min_idle", a.min_idle},
                                           {"acquire_timeout_seconds", seconds(a.acquire_timeout)},
                                           {"max_without_limit", a.unbounded_max},
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
    c.x_title = "max";
    c.y_title = by_time
                    ? "milliseconds that 95 of 100 stay below, at " + per_second(f.question.rate)
                    : "leases per second, " + std::to_string(f.question.borrowers) + " borrowers";
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
    c.marks.push_back({static_cast<double>(a.max), "recommended: " + std::to_string(a.max)});
    if (f.tried && f.tried->best != a.max)
        c.marks.push_back(
            {static_cast<double>(f.tried->best), "best tried: " + std::to_string(f.tried->best)});
    return chart::as_file(chart::svg(c));
}

}  // namespace sizing
