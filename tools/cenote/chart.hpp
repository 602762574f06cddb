// Draws line charts as SVG without scripts, fonts or other external files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chart {

struct series {
    std::string name;
    std::vector<std::pair<double, double>> points;  ///< x rising
};

/// A labeled vertical line.
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
    bool log_y = false;
    double width = 720;
    /// The text of a value; by default a short number.
    std::function<std::string(double)> x_text = {}, y_text = {};
};

/// A chart for a page that includes style(). The x axis is logarithmic.
std::string svg(const lines& of);
/// A chart as a complete SVG file, with colors for light and dark color schemes.
std::string as_file(const lines& of);
/// The CSS rules of all charts.
std::string_view style();

/// Escapes text for XML.
std::string escaped(std::string_view text);

}  // namespace chart
