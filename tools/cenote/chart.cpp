// The layout of a chart: axes with ticks at round numbers, lines, marks, a legend.
#include "chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace chart {

namespace {

constexpr double left = 72, right = 34, bottom = 50;
constexpr double title_height = 66, plot_height = 224, legend_row = 18;
constexpr std::size_t colors = 8;

/// Where the parts of a chart are. A legend that does not fit beside the title of the y axis has
/// rows of its own.
struct frame {
    double width = 0;
    std::size_t legend_rows = 0;

    double top() const { return title_height + legend_row * static_cast<double>(legend_rows); }
    double y_title() const { return top() - 28; }
    double height() const { return top() + plot_height + bottom; }
};

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

std::string text_of(const std::function<std::string(double)>& how, double value) {
    return how ? how(value) : short_number(value);
}

std::string begin(const lines& of, const frame& f) {
    std::string s = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(f.width) +
                    " " + number(f.height()) + "\" class=\"chart\" role=\"img\" aria-label=\"" +
                    escaped(of.title) + "\">\n";
    s += text_at(0, 18, of.title, "class=\"title\"");
    s += text_at(0, f.y_title(), of.y_title, "class=\"small\"");
    return s;
}

double legend_width(const std::string& name) { return 7.2 * static_cast<double>(name.size()) + 26; }

/// The lines of a legend, from the top.
std::vector<std::vector<std::size_t>> legend_rows(const lines& of) {
    std::vector<std::vector<std::size_t>> rows(1);
    double used = 0;
    for (std::size_t i = 0; i < of.all.size(); ++i) {
        double needs = legend_width(of.all[i].name);
        if (used > 0 && used + needs > of.width) {
            rows.emplace_back();
            used = 0;
        }
        used += needs;
        rows.back().push_back(i);
    }
    return rows;
}

frame frame_of(const lines& of) {
    double beside = 7.2 * static_cast<double>(of.y_title.size()) + right + 12;
    for (const series& one : of.all) beside += legend_width(one.name);
    bool fits = of.all.size() < 2 || beside <= of.width;
    return {.width = of.width, .legend_rows = fits ? 0 : legend_rows(of).size()};
}

std::string legend_entry(const std::string& name, std::size_t color, double x, double y) {
    return "<rect x=\"" + number(x) + "\" y=\"" + number(y - 10) +
           "\" width=\"11\" height=\"11\" rx=\"3\" class=\"fill" + std::to_string(color) +
           "\"/>\n" + text_at(x + 16, y, name, "class=\"small\"");
}

std::string legend(const lines& of, const frame& f) {
    if (of.all.size() < 2) return {};
    std::string s;
    double y = 39;
    if (f.legend_rows == 0) {
        double x = f.width - right;
        for (std::size_t i = of.all.size(); i-- > 0;) {
            x -= legend_width(of.all[i].name);
            s += legend_entry(of.all[i].name, i % colors, x, y);
        }
        return s;
    }
    for (const std::vector<std::size_t>& row : legend_rows(of)) {
        double x = 0;
        for (std::size_t i : row) {
            s += legend_entry(of.all[i].name, i % colors, x, y);
            x += legend_width(of.all[i].name);
        }
        y += legend_row;
    }
    return s;
}

std::string y_axis(const lines& of, const std::vector<double>& ticks, const scale& y) {
    std::string s;
    for (double t : ticks) {
        s += line_from(left, y(t), of.width - right, y(t), "grid");
        s += text_at(left - 10, y(t) + 4, text_of(of.y_text, t),
                     "class=\"small\" text-anchor=\"end\"");
    }
    return s;
}

std::string polyline(const lines& of, const series& one, std::size_t color, const scale& x,
                     const scale& y) {
    std::string s = "<polyline class=\"line" + std::to_string(color) + "\" points=\"";
    for (auto [px, py] : one.points) s += number(x(px)) + "," + number(y(py)) + " ";
    s += "\"/>\n";
    // Large dots would hide a line with many points.
    const char* radius = one.points.size() > 20 ? "2" : "3.5";
    for (auto [px, py] : one.points)
        s += "<circle cx=\"" + number(x(px)) + "\" cy=\"" + number(y(py)) + "\" r=\"" + radius +
             "\" class=\"fill" + std::to_string(color) + "\"><title>" +
             escaped(one.name + ": " + text_of(of.y_text, py) + " at " + text_of(of.x_text, px)) +
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

std::string mark_at(const frame& f, double x, const std::string& text, std::size_t number_of_it) {
    double label_y = f.top() + 12 + 17 * static_cast<double>(number_of_it);
    bool from_right = x > f.width * 0.7;
    return line_from(x, f.top() - 6, x, f.height() - bottom, "mark") +
           text_at(x + (from_right ? -6 : 6), label_y, text,
                   from_right ? "class=\"marked\" text-anchor=\"end\"" : "class=\"marked\"");
}

}  // namespace

std::string svg(const lines& of) {
    extent e = extent_of(of);
    if (e.x_most <= 0) return {};
    std::vector<double> y_ticks =
        of.log_y ? power_ticks(e.y_least, e.y_most) : round_ticks(e.y_most);
    frame f = frame_of(of);
    double floor = f.height() - bottom;
    scale y{y_ticks.front(), y_ticks.back(), floor, f.top(), of.log_y};
    scale x{e.x_least, std::max(e.x_most, e.x_least * 1.01), left, f.width - right, true};
    std::string s = begin(of, f) + legend(of, f) + y_axis(of, y_ticks, y);
    double last = -HUGE_VAL;
    for (const auto& [t, text] : of.x_ticks) {
        if (x(t) - last < std::max(24.0, 7.2 * static_cast<double>(text.size()))) continue;
        last = x(t);
        s += text_at(x(t), floor + 20, text, "class=\"small\" text-anchor=\"middle\"");
    }
    s += text_at((left + f.width - right) / 2, f.height() - 8, of.x_title,
                 "class=\"small\" text-anchor=\"middle\"");
    for (std::size_t i = 0; i < of.marks.size(); ++i)
        s += mark_at(f, x(of.marks[i].x), of.marks[i].text, i);
    for (std::size_t i = 0; i < of.all.size(); ++i) s += polyline(of, of.all[i], i % colors, x, y);
    return s + "</svg>\n";
}

std::string_view style() {
    return R"(:root { --ink: #1d2733; --dim: #5b6b7c; --grid: #e3e8ee; --ground: #ffffff;
  --c0: #0b7285; --c1: #e8590c; --c2: #5f3dc4; --c3: #2b8a3e; --c4: #c2255c; --c5: #868e96;
  --c6: #a07000; --c7: #1864ab; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf1; --dim: #9aa8b7; --grid: #2b3542; --ground: #151b23;
    --c0: #3bc9db; --c1: #ff922b; --c2: #b197fc; --c3: #69db7c; --c4: #f783ac; --c5: #adb5bd;
    --c6: #ffe066; --c7: #74c0fc; } }
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
.chart .line6 { stroke: var(--c6); } .chart .fill6 { fill: var(--c6); }
.chart .line7 { stroke: var(--c7); } .chart .fill7 { fill: var(--c7); }
)";
}

std::string as_file(const lines& of) {
    std::string file = svg(of);
    auto inside = file.find(">\n");
    if (inside == std::string::npos) return file;
    // With a margin.
    std::string sizes = number(of.width + 32) + "\" height=\"" + number(frame_of(of).height() + 24);
    std::string rules = "<style>\n" + std::string(style()) + "</style>\n";
    rules += "<rect x=\"-16\" y=\"-12\" width=\"" + sizes + "\" fill=\"var(--ground)\"/>\n";
    file.insert(inside + 2, rules);
    auto box = file.find("viewBox=\"");
    auto box_end = file.find('"', box + 9);
    return file.replace(box, box_end - box + 1,
                        "viewBox=\"-16 -12 " + number(of.width + 32) + " " +
                            number(frame_of(of).height() + 24) + "\"");
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
