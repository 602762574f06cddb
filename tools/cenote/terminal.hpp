// What a person sees: colours, tables, a bar while it takes long, and Ctrl-C.
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace terminal {

enum class color_choice : std::uint8_t { automatic, always, never };
/// By their names.
const std::map<std::string, color_choice>& color_choices();

enum class tint : std::uint8_t { plain, bold, dim, red, green, yellow, blue, magenta, cyan };

/// Puts colours around texts, or leaves them as they are. Automatic: colours if stdout is a
/// terminal, NO_COLOR is unset or empty, and TERM is not "dumb".
class palette {
public:
    explicit palette(color_choice choice);
    std::string operator()(tint color, std::string_view text) const;
    bool colored() const noexcept { return colored_; }

private:
    bool colored_;
};

/// Columns of the terminal on stdout; 100 if it is none.
std::size_t width();
/// How many columns a text takes: neither colours nor the bytes of UTF-8 count.
std::size_t columns_of(std::string_view text);
/// Broken at spaces so that no line is longer than `columns`, if it can be.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);

/// Rows with aligned columns. Cells may have colours.
class table {
public:
    enum class align : std::uint8_t { left, right };
    struct column {
        std::string title;
        align to = align::left;
    };

    explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

    /// As many cells as there are columns; missing ones are empty.
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    bool empty() const noexcept { return rows_.empty(); }
    /// With a line of titles, if one of them is not empty.
    std::string to_text(const palette& paint, std::string_view indent = "") const;

private:
    std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                     std::string_view indent) const;

    std::vector<column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

/// A bar on stderr, if that is a terminal; otherwise nothing at all. Drawn at most ten times a
/// second, and gone when it ends. Used by one thread.
class progress {
public:
    /// `hidden`: whoever asked wants no bar.
    explicit progress(std::string what, bool hidden = false);
    ~progress();
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;

    /// `share` is from 0 to 1; `note` stands behind the bar.
    void at(double share, std::string_view note = {});
    /// Takes the bar away, so that something else can be printed; the next `at` draws it again.
    void clear();

private:
    std::string what_;
    bool shown_;
    bool drawn_ = false;
    std::chrono::steady_clock::time_point drawn_at_;
};

/// What others have said, without what a terminal would obey: control characters. Lines stay.
std::string printable(std::string_view text);

/// The bar alone: `width` cells, with eighths where the terminal knows UTF-8.
std::string bar(double share, std::size_t width);

/// While it lives, a program that is ended at once says this on stderr: what it could not clean up.
class last_words {
public:
    explicit last_words(std::string text);
    ~last_words();
    last_words(const last_words&) = delete;
    last_words& operator=(const last_words&) = delete;

private:
    std::string text_;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP (unless that is ignored, as by nohup) request a stop
/// instead of ending the program; the second one ends it at once, with its last words. Make it
/// before other threads: they inherit that the signals are blocked. Only one at a time.
class interruption {
public:
    interruption();
    ~interruption();
    interruption(const interruption&) = delete;
    interruption& operator=(const interruption&) = delete;

    std::stop_token token() const noexcept { return source_.get_token(); }
    bool happened() const noexcept { return source_.stop_requested(); }
    /// Sleeps; false: it was interrupted.
    bool sleep_for(std::chrono::nanoseconds time) const;

private:
    void watch();

    std::stop_source source_;
    sigset_t before_{};
    int signals_ = -1;  // a signalfd
    int end_ = -1;      // an eventfd
    std::thread watcher_;
};

}  // namespace terminal
