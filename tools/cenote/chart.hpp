// Charts as SVG, for files and pages: no script, no font, nothing from elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chart {

struct series {
    std::string name;
    std::vector<std::pair<double, double>> points;  ///< x rising
};

/// A place on the x axis that is pointed out.
struct mark {
    double x = 0;
    std::string text;
};

struct lines {
    std::string title;
    std::string x_title;
    std::string y_title;
    std::vector<series> all;
    std::vector<mark> marks;
    std::vector<std::pair<double, std::string>> x_ticks;
    bool log_y = false;  ///< For times: each step is ten times the last.
};

/// Values side by side, each group with one bar for each name.
struct bars {
    std::string title;
    std::string y_title;
    std::vector<std::string> groups;
    std::vector<std::string> names;
    std::vector<std::vector<double>> values;  ///< By group, then by name.
};

std::string svg(const lines& of);
std::string svg(const bars& of);

/// An SVG that stands alone in a file: it brings its colours, for light and dark.
std::string as_file(const std::string& svg);
/// The rules both need; a page that has charts in it puts them into its style once.
std::string_view style();

/// Safe between tags and in attributes.
std::string escaped(std::string_view text);
/// 12345 as "12.3k", 0.00123 as "0.00123".
std::string short_number(double value);

}  // namespace chart
