// Terminal output and signals: colors, tables, progress bars, Ctrl-C.
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
/// The values of --color.
const std::map<std::string, color_choice>& color_choices();

enum class tint : std::uint8_t { plain, bold, dim, red, green, yellow, blue, cyan };

/// Adds escape sequences for colors, or returns the text unchanged. Automatic: with colors if
/// stdout is a terminal, NO_COLOR is unset or empty, and TERM is not "dumb".
class palette {
public:
    explicit palette(color_choice choice);
    std::string operator()(tint color, std::string_view text) const;

private:
    bool colored_;
};

/// The width of the terminal on stdout; 100 if stdout is not a terminal.
std::size_t width();
/// Whether stdout is a terminal on which a line can be overwritten.
bool can_overwrite();
/// Whether stdout is a pipe whose reader has ended.
bool output_is_closed();
/// The displayed width of a text: escape sequences take none, a UTF-8 sequence takes one column.
std::size_t columns_of(std::string_view text);
/// Breaks a text at spaces into lines of at most `columns`; a longer word gets its own line.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);
/// The beginning of a text without escape sequences that takes at most `columns`.
std::string cut(std::string text, std::size_t columns);

/// Rows with aligned columns. Cells may contain escape sequences for colors.
class table {
public:
    enum class align : std::uint8_t { left, right };
    struct column {
        std::string title;
        align to = align::left;
    };

    explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

    /// Missing cells are empty.
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    bool empty() const noexcept { return rows_.empty(); }
    /// Starts with a line of titles if any title is not empty.
    std::string to_text(const palette& paint, std::string_view indent = "") const;

private:
    std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                     std::string_view indent) const;

    std::vector<column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

/// A progress bar on stderr, drawn at most ten times a second and only if stderr is a terminal. The
/// destructor erases it. For one thread.
class progress {
public:
    explicit progress(std::string title, bool hidden = false);
    ~progress();
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;

    /// `share` is from 0 to 1; `note` is printed after the bar.
    void at(double share, std::string_view note = {});

private:
    std::string title_;
    bool shown_;
    bool drawn_ = false;
    std::chrono::steady_clock::time_point drawn_at_;
};

/// Text from outside the program without control characters, which a terminal would execute.
/// Newlines stay.
std::string printable(std::string_view text);

/// A bar of `width` characters, filled in steps of an eighth of a character.
std::string bar(double share, std::size_t width);

/// During its lifetime, the text is printed to stderr if a second signal ends the program: what
/// was not cleaned up.
class exit_notice {
public:
    explicit exit_notice(std::string text);
    ~exit_notice();
    exit_notice(const exit_notice&) = delete;
    exit_notice& operator=(const exit_notice&) = delete;

private:
    std::string text_;
};

/// During its lifetime, SIGINT, SIGTERM and SIGHUP request a stop instead of ending the program; a
/// second signal prints the exit notices and ends the program immediately. SIGHUP stays ignored if
/// it was ignored before, as under nohup. Create it before any thread, so that all threads inherit
/// the signal mask; one at a time.
class interruption {
public:
    interruption();
    ~interruption();
    interruption(const interruption&) = delete;
    interruption& operator=(const interruption&) = delete;

    std::stop_token token() const noexcept { return source_.get_token(); }
    bool happened() const noexcept { return source_.stop_requested(); }
    /// Returns false if a signal ended the sleep.
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
