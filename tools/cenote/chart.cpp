// The layout of a chart: axes with ticks at round numbers, lines, marks, a legend.
#include "chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace chart {

namespace {

constexpr double width = 720, height = 340;
constexpr double left = 72, right = 34, top = 66, bottom = 50;
constexpr std::size_t colors = 6;

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

std::string text_at(double x, double y, std::string_view text, std::string_view more) {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + std::string(more) + ">" +
           escaped(text) + "</text>\n";
}

std::string line_from(double x1, double y1, double x2, double y2, std::string_view kind) {
    return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
           "\" y2=\"" + number(y2) + "\" class=\"" + std::string(kind) + "\"/>\n";
}

/// About five round numbers, from zero to at least `most`.
std::vector<double> round_ticks(double most) {
    if (!(most > 0)) most = 1;
    double step = std::pow(10, std::floor(std::log10(most / 5)));
    for (double times : {1.0, 2.0, 5.0, 10.0})
        if (step * times * 5.5 >= most) {
            step *= times;
            break;
        }
    std::vector<double> ticks;
    for (double t = 0; ticks.empty() || ticks.back() < most; t += step) ticks.push_back(t);
    return ticks;
}

/// Powers of ten, from at most `least` to at least `most`.
std::vector<double> power_ticks(double least, double most) {
    std::vector<double> ticks;
    double power = std::floor(std::log10(std::max(least, 1e-9)));
    do ticks.push_back(std::pow(10, power++));
    while (ticks.back() < most);
    return ticks;
}

/// Maps values to coordinates.
struct scale {
    double from = 0, to = 1, at_from = 0, at_to = 1;
    bool log = false;

    double operator()(double value) const {
        double a = from, b = to, v = value;
        if (log) {
            a = std::log(a);
            b = std::log(b);
            v = std::log(std::max(value, from));
        }
        return at_from + (v - a) / (b - a) * (at_to - at_from);
    }
};

/// 12345 as "12.35k", 0.00123 as "0.00123".
std::string short_number(double value) {
    const char* unit = "";
    if (std::abs(value) >= 1e6) {
        value /= 1e6;
        unit = "M";
    } else if (std::abs(value) >= 1e4) {
        value /= 1e3;
        unit = "k";
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.4g%s", value, unit);
    return text;
}

std::string begin(const std::string& title, const std::string& y_title) {
    std::string s = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) +
                    " " + number(height) + "\" class=\"chart\" role=\"img\" aria-label=\"" +
                    escaped(title) + "\">\n";
    s += text_at(0, 18, title, "class=\"title\"");
    s += text_at(0, 38, y_title, "class=\"small\"");
    return s;
}

std::string legend(const std::vector<std::string>& names) {
    if (names.size() < 2) return {};
    std::string s;
    double x = width - right;
    for (std::size_t i = names.size(); i-- > 0;) {
        x -= 7.2 * static_cast<double>(names[i].size()) + 26;
        s += "<rect x=\"" + number(x) + "\" y=\"29\" width=\"11\" height=\"11\" rx=\"3\" " +
             "class=\"fill" + std::to_string(i % colors) + "\"/>\n" +
             text_at(x + 16, 39, names[i], "class=\"small\"");
    }
    return s;
}

std::string y_axis(const std::vector<double>& ticks, const scale& y) {
    std::string s;
    for (double t : ticks) {
        s += line_from(left, y(t), width - right, y(t), "grid");
        s += text_at(left - 10, y(t) + 4, short_number(t), "class=\"small\" text-anchor=\"end\"");
    }
    return s;
}

std::string polyline(const series& one, std::size_t color, const scale& x, const scale& y) {
    std::string s = "<polyline class=\"line" + std::to_string(color) + "\" points=\"";
    for (auto [px, py] : one.points) s += number(x(px)) + "," + number(y(py)) + " ";
    s += "\"/>\n";
    // Large dots would hide a line with many points.
    const char* radius = one.points.size() > 20 ? "2" : "3.5";
    for (auto [px, py] : one.points)
        s += "<circle cx=\"" + number(x(px)) + "\" cy=\"" + number(y(py)) + "\" r=\"" + radius +
             "\" class=\"fill" + std::to_string(color) + "\"><title>" +
             escaped(one.name + ": " + short_number(py) + " at " + short_number(px)) +
             "</title></circle>\n";
    return s;
}

struct extent {
    double x_least = HUGE_VAL, x_most = 0, y_least = HUGE_VAL, y_most = 0;
};

extent extent_of(const lines& of) {
    extent e;
    for (const series& one : of.all)
        for (auto [x, y] : one.points) {
            e.x_least = std::min(e.x_least, x);
            e.x_most = std::max(e.x_most, x);
            if (y > 0) e.y_least = std::min(e.y_least, y);
            e.y_most = std::max(e.y_most, y);
        }
    return e;
}

std::string mark_at(double x, const std::string& text, std::size_t number_of_it) {
    double label_y = top + 12 + 17 * static_cast<double>(number_of_it);
    bool from_right = x > width * 0.7;
    return line_from(x, top - 6, x, height - bottom, "mark") +
           text_at(x + (from_right ? -6 : 6), label_y, text,
                   from_right ? "class=\"marked\" text-anchor=\"end\"" : "class=\"marked\"");
}

}  // namespace

std::string svg(const lines& of) {
    extent e = extent_of(of);
    if (e.x_most <= 0) return {};
    std::vector<double> y_ticks =
        of.log_y ? power_ticks(e.y_least, e.y_most) : round_ticks(e.y_most);
    scale y{y_ticks.front(), y_ticks.back(), height - bottom, top, of.log_y};
    scale x{e.x_least, std::max(e.x_most, e.x_least * 1.01), left, width - right, true};
    std::string s = begin(of.title, of.y_title);
    std::vector<std::string> names;
    names.reserve(of.all.size());
    for (const series& one : of.all) names.push_back(one.name);
    s += legend(names);
    s += y_axis(y_ticks, y);
    double last = -HUGE_VAL;
    for (const auto& [t, text] : of.x_ticks) {
        if (x(t) - last < 24) continue;
        last = x(t);
        s += text_at(x(t), height - bottom + 20, text, "class=\"small\" text-anchor=\"middle\"");
    }
    s += text_at((left + width - right) / 2, height - 8, of.x_title,
                 "class=\"small\" text-anchor=\"middle\"");
    for (std::size_t i = 0; i < of.marks.size(); ++i)
        s += mark_at(x(of.marks[i].x), of.marks[i].text, i);
    for (std::size_t i = 0; i < of.all.size(); ++i) s += polyline(of.all[i], i % colors, x, y);
    return s + "</svg>\n";
}

std::string_view style() {
    return R"(:root { --ink: #1d2733; --dim: #5b6b7c; --grid: #e3e8ee; --ground: #ffffff;
  --c0: #0b7285; --c1: #e8590c; --c2: #5f3dc4; --c3: #2b8a3e; --c4: #c2255c; --c5: #868e96; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf1; --dim: #9aa8b7; --grid: #2b3542; --ground: #151b23;
    --c0: #3bc9db; --c1: #ff922b; --c2: #b197fc; --c3: #69db7c; --c4: #f783ac; --c5: #adb5bd; } }
.chart text { font: 13px system-ui, sans-serif; fill: var(--ink); }
.chart .title { font-size: 16px; font-weight: 600; }
.chart .small { font-size: 12px; fill: var(--dim); }
.chart .marked { font-size: 12px; font-weight: 600; }
.chart .grid { stroke: var(--grid); stroke-width: 1; }
.chart .mark { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 4 4; }
.chart polyline { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
.chart .line0 { stroke: var(--c0); } .chart .fill0 { fill: var(--c0); }
.chart .line1 { stroke: var(--c1); } .chart .fill1 { fill: var(--c1); }
.chart .line2 { stroke: var(--c2); } .chart .fill2 { fill: var(--c2); }
.chart .line3 { stroke: var(--c3); } .chart .fill3 { fill: var(--c3); }
.chart .line4 { stroke: var(--c4); } .chart .fill4 { fill: var(--c4); }
.chart .line5 { stroke: var(--c5); } .chart .fill5 { fill: var(--c5); }
)";
}

std::string as_file(const std::string& svg) {
    auto inside = svg.find(">\n");
    if (inside == std::string::npos) return svg;
    std::string rules = "<style>\n" + std::string(style()) + "</style>\n";
    rules += "<rect x=\"-16\" y=\"-12\" width=\"752\" height=\"364\" fill=\"var(--ground)\"/>\n";
    std::string file = svg;
    file.insert(inside + 2, rules);
    // Add a margin.
    auto box = file.find("viewBox=\"");
    auto box_end = file.find('"', box + 9);
    return file.replace(box, box_end - box + 1, "viewBox=\"-16 -12 752 364\"");
}

std::string escaped(std::string_view text) {
    std::string result;
    for (char c : text) switch (c) {
            case '&': result += "&amp;"; break;
            case '<': result += "&lt;"; break;
            case '>': result += "&gt;"; break;
            case '"': result += "&quot;"; break;
            case '\'': result += "&#39;"; break;
            default:
                // XML allows no other control characters, not even escaped.
                if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') result += c;
        }
    return result;
}

}  // namespace chart
