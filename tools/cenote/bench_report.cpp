// Formats the results of cenote bench.
#include "bench_report.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <numeric>
#include <string_view>

#include "chart.hpp"
#include <cenote/error.hpp>

namespace bench {

namespace json = boost::json;
using command::in_seconds;
using command::in_words;
using load::per_second;
using load::times;
using std::chrono::nanoseconds;
using terminal::tint;

namespace {

constexpr const char* interrupted = "Interrupted: these results are incomplete.";

struct percentile {
    const char* name;
    double of;
};
constexpr std::array<percentile, 4> percentiles = {
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}};

/// The names of errc in JSON.
constexpr std::array<const char*, cenote::errc_count> codes = {
    "timed_out", "closed",   "unavailable", "line_full",
    "shed",      "canceled", "open_failed", "deadlock"};

/// The operations and the clients.
std::string describe(const settings& how) {
    std::string s = how.statement.empty()
                        ? "order book, " + load::decimal(100 * how.writes, 0) + " % writes"
                        : "your statement";
    s += "; " + std::to_string(how.concurrency);
    s += how.loops > 0 ? " coroutines on " + std::to_string(how.loops) + " threads" : " threads";
    s += how.rate > 0 ? ", " + per_second(how.rate) : " without pauses";
    if (how.hold > nanoseconds{}) s += ", holding leases for " + in_words(how.hold) + " more";
    return s;
}

std::vector<std::string> cells(const char* what, const times& t) {
    std::vector<std::string> row = {what};
    for (const percentile& p : percentiles) row.push_back(in_words(t.quantile(p.of)));
    row.push_back(in_words(t.max()));
    return row;
}

json::object to_json(const times& t) {
    json::object o{{"count", t.count()}, {"mean_seconds", in_seconds(t.mean())}};
    for (const percentile& p : percentiles)
        o[std::string(p.name) + "_seconds"] = in_seconds(t.quantile(p.of));
    o["max_seconds"] = in_seconds(t.max());
    return o;
}

json::object to_json(const outcome& one) {
    const load::result& r = one.seen;
    json::object refused;
    for (std::size_t i = 0; i < codes.size(); ++i) refused[codes[i]] = r.refused[i];
    return {{"max", one.max},
            {"seconds", r.seconds},
            {"leases", r.leases},
            {"writes", r.writes},
            {"throughput_per_second", r.throughput()},
            {"wait", to_json(r.wait)},
            {"hold", to_json(r.hold)},
            {"total", to_json(r.total)},
            {"refused", refused},
            {"unserved", r.unserved},
            {"failures", r.failures},
            {"first_failure", r.first_failure},
            {"interrupted", r.interrupted},
            {"pool", json::object{{"acquires", r.stats.acquires},
                                  {"granted", r.stats.granted},
                                  {"waited", r.stats.waited},
                                  {"released", r.stats.released},
                                  {"discarded", r.stats.discarded},
                                  {"leased", r.stats.leased},
                                  {"opened", r.stats.opened},
                                  {"open_failed", r.stats.open_failed}}}};
}

std::string troubles(const outcome& one) {
    const load::result& r = one.seen;
    std::string s;
    for (std::size_t i = 0; i < r.refused.size(); ++i)
        if (r.refused[i] > 0)
            s += "  refused " + std::to_string(r.refused[i]) +
                 " times: " + make_error_code(static_cast<cenote::errc>(i + 1)).message() + "\n";
    if (r.unserved > 0)
        s += "  " + std::to_string(r.unserved) +
             " arrivals found no free borrower: raise --concurrency or lower --rate\n";
    if (r.failures > 0)
        s += "  failed " + std::to_string(r.failures) + " times, first with: " +
             terminal::printable(command::without_prefix(r.first_failure)) + "\n";
    return s;
}

const outcome& fastest(const findings& f) {
    return *std::max_element(f.all.begin(), f.all.end(), [](const outcome& a, const outcome& b) {
        return a.seen.throughput() < b.seen.throughput();
    });
}

std::string comparison(const findings& f, const terminal::palette& paint) {
    using align = terminal::table::align;
    terminal::table t({{"max", align::right},
                       {"leases", align::right},
                       {""},
                       {"wait p99", align::right},
                       {"total p50", align::right},
                       {"total p99", align::right},
                       {"refused", align::right}});
    double most = std::max(fastest(f).seen.throughput(), 1e-9);
    for (const outcome& one : f.all) {
        const load::result& r = one.seen;
        std::string bar = terminal::bar(r.throughput() / most, terminal::width() < 80 ? 8 : 24);
        t.add({std::to_string(one.max), per_second(r.throughput()),
               &one == &fastest(f) ? paint(tint::green, bar) : bar, in_words(r.wait.quantile(0.99)),
               in_words(r.total.quantile(0.5)), in_words(r.total.quantile(0.99)),
               std::to_string(refusals(r))});
    }
    return paint(tint::bold, "Comparison") + "\n" + t.to_text(paint, "  ");
}

// The page.

chart::lines throughput_chart(const findings& f) {
    chart::lines c;
    c.title = "Throughput";
    c.y_title = "leases per second";
    c.x_title = "max";
    chart::series s{"throughput", {}};
    for (const outcome& one : f.all) {
        s.points.emplace_back(static_cast<double>(one.max), one.seen.throughput());
        c.x_ticks.emplace_back(static_cast<double>(one.max), std::to_string(one.max));
    }
    std::sort(s.points.begin(), s.points.end());
    std::sort(c.x_ticks.begin(), c.x_ticks.end());
    c.all.push_back(s);
    return c;
}

/// Durations by percentile; the x axis is 1 / (1 - percentile), so that the tail has room.
chart::lines percentile_chart(const findings& f, const char* title, times load::result::* which) {
    chart::lines c;
    c.title = title;
    c.y_title = "time, logarithmic";
    c.x_title = "percentile";
    c.log_y = true;
    c.y_text = command::seconds_in_words;
    c.x_text = [](double x) { return load::decimal(100 * (1 - 1 / x), x < 100 ? 0 : 1) + " %"; };
    for (const outcome& one : f.all) {
        chart::series s{"max " + std::to_string(one.max), {}};
        for (double x = 1.25; x < 1100; x *= std::pow(10.0, 0.1)) {
            // Less than 10 µs makes no difference to a user.
            double time = in_seconds((one.seen.*which).quantile(1 - 1 / x));
            s.points.emplace_back(x, std::max(time, 1e-5));
        }
        c.all.push_back(s);
    }
    c.x_ticks = {{2, "50 %"}, {10, "90 %"}, {100, "99 %"}, {1000, "99.9 %"}};
    return c;
}

std::string card(const std::string& value, const std::string& what) {
    return "<div class=\"card\"><b>" + chart::escaped(value) + "</b><span>" + chart::escaped(what) +
           "</span></div>\n";
}

/// A column of the table: on a wide page its title is below that of its group.
struct column {
    const char* group;
    const char* title;
};
constexpr std::array<column, 12> columns = {{{"", "max"},
                                             {"", "leases"},
                                             {"wait", "p50"},
                                             {"wait", "p99"},
                                             {"hold", "p50"},
                                             {"hold", "p99"},
                                             {"total", "p50"},
                                             {"total", "p90"},
                                             {"total", "p99"},
                                             {"total", "p99.9"},
                                             {"total", "max"},
                                             {"", "refused"}}};

std::string html_heading() {
    std::string groups = "<tr>", titles = "<tr>";
    for (std::size_t i = 0; i < columns.size();) {
        std::string_view group = columns[i].group;
        std::size_t end = i;
        for (; end < columns.size() && columns[end].group == group; ++end)
            titles += std::string("<th>") + columns[end].title + "</th>";
        groups += "<th colspan=\"" + std::to_string(end - i) + "\">" + std::string(group) + "</th>";
        i = end;
    }
    return "<thead>\n" + groups + "</tr>\n" + titles + "</tr>\n</thead>\n";
}

/// Each cell has its title as an attribute, for narrow pages without a heading.
std::string html_row(const std::array<std::string, columns.size()>& row) {
    std::string s = "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
        std::string title = columns[i].group;
        title += (title.empty() ? "" : " ") + std::string(columns[i].title);
        s += "<td data-title=\"" + title + "\">" + chart::escaped(row[i]) + "</td>";
    }
    return s + "</tr>\n";
}

std::string html_table(const findings& f) {
    std::string s = "<table>\n" + html_heading() + "<tbody>\n";
    for (const outcome& one : f.all) {
        const load::result& r = one.seen;
        auto q = [](const times& t, double of) { return in_words(t.quantile(of)); };
        s += html_row({std::to_string(one.max), per_second(r.throughput()), q(r.wait, 0.5),
                       q(r.wait, 0.99), q(r.hold, 0.5), q(r.hold, 0.99), q(r.total, 0.5),
                       q(r.total, 0.9), q(r.total, 0.99), q(r.total, 0.999),
                       in_words(r.total.max()), std::to_string(refusals(r))});
    }
    return s + "</tbody>\n</table>\n";
}

/// Twice, because text in a scaled chart would be too small on a phone.
std::string html_chart(chart::lines c) {
    std::string s = "<div class=\"panel wide\">\n" + chart::svg(c) + "</div>\n";
    c.width = 340;
    return s + "<div class=\"panel narrow\">\n" + chart::svg(c) + "</div>\n";
}

constexpr const char* page_style = R"(
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1120px; padding: 32px 20px 48px; background: var(--ground);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 26px; } p { margin: 4px 0 0; color: var(--dim); }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 24px 0; }
.card { flex: 1 1 150px; padding: 14px 16px; border: 1px solid var(--grid); border-radius: 10px; }
.card b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.card span { color: var(--dim); font-size: 14px; }
.panel { margin: 20px 0; padding: 18px; border: 1px solid var(--grid); border-radius: 10px; }
.panel .chart { display: block; width: 100%; height: auto; }
.narrow { display: none; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { padding: 7px 8px; text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th { color: var(--dim); font-weight: 500; }
tr:first-child th { padding-bottom: 0; text-align: center; }
tbody td { border-top: 1px solid var(--grid); }
@media (max-width: 1100px) {
  thead { display: none; }
  table, tbody { display: block; }
  tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(96px, 1fr)); gap: 8px 12px;
    padding: 12px 0; }
  tr + tr { border-top: 1px solid var(--grid); }
  tbody td { display: block; padding: 0; border: none; text-align: left; }
  tbody td:first-child { grid-column: 1 / -1; font-weight: 600; }
  td::before { content: attr(data-title); display: block; color: var(--dim); font-size: 13px; }
}
@media (max-width: 640px) {
  body { padding: 20px 12px 32px; }
  .panel { padding: 12px; }
  .wide { display: none; }
  .narrow { display: block; }
}
.warning { margin: 16px 0; padding: 10px 14px; border-left: 4px solid var(--c1); }
)";

std::string html_cards(const findings& f) {
    const outcome& best = fastest(f);
    const load::result& r = best.seen;
    std::string s = "<div class=\"cards\">\n";
    std::string with = f.all.size() > 1 ? ", max " + std::to_string(best.max) : "";
    s += card(per_second(r.throughput()), "leases" + with);
    s += card(in_words(r.wait.quantile(0.99)), "wait for a lease, p99");
    s += card(in_words(r.total.quantile(0.99)), "total, p99");
    s += card(std::to_string(refusals(r)), "refused");
    return s + "</div>\n";
}

}  // namespace

std::uint64_t refusals(const load::result& r) {
    return std::accumulate(r.refused.begin(), r.refused.end(), std::uint64_t{0});
}

std::string to_text(const settings& how, const findings& f, const terminal::palette& paint) {
    std::string s = terminal::printable(f.server) + ": " + describe(how) + "\n";
    if (f.all.empty()) return s + "Interrupted before the first result.\n";
    using align = terminal::table::align;
    for (const outcome& one : f.all) {
        const load::result& r = one.seen;
        std::string title = "max " + std::to_string(one.max) + ": " + per_second(r.throughput());
        s += "\n" + paint(tint::bold, title) + "  (" + std::to_string(r.leases) + " leases in " +
             load::decimal(r.seconds, 1) + " s)\n";
        terminal::table t({{""},
                           {"p50", align::right},
                           {"p90", align::right},
                           {"p99", align::right},
                           {"p99.9", align::right},
                           {"max", align::right}});
        t.add(cells("wait", r.wait));
        t.add(cells("hold", r.hold));
        t.add(cells("total", r.total));
        s += t.to_text(paint, "  ") + paint(tint::yellow, troubles(one));
    }
    if (f.all.size() > 1) s += "\n" + comparison(f, paint);
    if (f.interrupted) s += "\n" + paint(tint::yellow, interrupted) + "\n";
    return s;
}

json::value to_json(const settings& how, const findings& f) {
    json::array all;
    for (const outcome& one : f.all) all.push_back(to_json(one));
    return json::object{{"server", f.server},
                        {"interrupted", f.interrupted},
                        {"settings", json::object{{"concurrency", how.concurrency},
                                                  {"loops", how.loops},
                                                  {"rate_per_second", how.rate},
                                                  {"mix", how.writes},
                                                  {"hold_seconds", in_seconds(how.hold)},
                                                  {"duration_seconds", in_seconds(how.duration)},
                                                  {"warm_up_seconds", in_seconds(how.warm_up)},
                                                  {"statement", how.statement},
                                                  {"seed", how.seed}}},
                        {"sizes", all}};
}

std::string to_html(const settings& how, const findings& f) {
    std::string s =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<title>cenote bench</title>\n<style>\n" +
        std::string(chart::style()) + page_style + "</style>\n</head>\n<body>\n";
    s += "<h1>cenote bench</h1>\n<p>" + chart::escaped(f.server) + "</p>\n<p>" +
         chart::escaped(describe(how)) + "</p>\n";
    if (f.interrupted) s += "<div class=\"warning\">" + std::string(interrupted) + "</div>\n";
    std::string warnings;
    for (const outcome& one : f.all)
        if (std::string t = troubles(one); !t.empty())
            warnings +=
                "<div>max " + std::to_string(one.max) + ": " + chart::escaped(t) + "</div>\n";
    if (!warnings.empty()) s += "<div class=\"warning\">\n" + warnings + "</div>\n";
    if (!f.all.empty()) {
        s += html_cards(f);
        if (f.all.size() > 1) s += html_chart(throughput_chart(f));
        s += html_chart(percentile_chart(f, "Total time", &load::result::total));
        s += html_chart(percentile_chart(f, "Wait for a lease", &load::result::wait));
        s += "<div class=\"panel\">\n" + html_table(f) + "</div>\n";
    }
    return s + "</body>\n</html>\n";
}

}  // namespace bench
