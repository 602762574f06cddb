// Shared by all subcommands of cenote: registration, exit codes, errors, common options, JSON.
#pragma once

#include <boost/json/fwd.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "terminal.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

// A subcommand is a source file with its own namespace:
//
//     namespace demo {
//     struct settings {…};
//     CLI::App* add_to(CLI::App& app, settings& into);   // declares its options and help
//     int run(const settings& how);                      // returns one of the codes below
//     }
//
// and a line in main.cpp. Results go to stdout, progress and errors to stderr.
namespace command {

/// The exit status of the program.
enum exit_code : int {
    fine = 0,
    failed = 1,           ///< The subcommand failed or found a problem.
    wrong_usage = 2,      ///< The arguments were invalid; nothing was done.
    interrupted = 130,    ///< Ctrl-C, SIGTERM or SIGHUP ended the subcommand early.
    output_closed = 141,  ///< The program that reads the output has ended, as `head` does.
};

/// A registered subcommand.
struct subcommand {
    CLI::App* options = nullptr;
    std::function<int()> run;
};
using subcommand_adder = std::function<subcommand(CLI::App&)>;

template <class Settings>
subcommand_adder make_subcommand(CLI::App* (*add_to)(CLI::App&, Settings&),
                                 int (*run)(const Settings&)) {
    return [add_to, run](CLI::App& app) {
        auto settings = std::make_shared<Settings>();
        CLI::App* options = add_to(app, *settings);
        return subcommand{options, [settings, run] { return run(*settings); }};
    };
}

/// Parses the command line, runs the chosen subcommand and returns the exit status.
int run(int argc, char** argv, const std::vector<subcommand_adder>& subcommands);

/// Thrown by a subcommand that cannot continue. run() prints `cenote: what` and the hint below it.
class failure : public std::runtime_error {
public:
    explicit failure(const std::string& what, std::string hint = {}, exit_code code = failed)
        : std::runtime_error(what), hint_(std::move(hint)), code_(code) {}

    const std::string& hint() const noexcept { return hint_; }
    exit_code code() const noexcept { return code_; }

private:
    std::string hint_;
    exit_code code_;
};

/// Invalid arguments that the option parser does not detect.
class wrong_arguments : public failure {
public:
    explicit wrong_arguments(const std::string& what, std::string hint = {})
        : failure(what, std::move(hint), wrong_usage) {}
};

/// How a subcommand prints its results.
struct look {
    bool json = false;  ///< Print exactly one JSON document on stdout.
    terminal::color_choice colors = terminal::color_choice::automatic;
};

/// Adds --json, --color and --no-color.
void add_look(CLI::App& subcommand, look& into);

/// Adds an option whose value is a duration: "250ms", "5s", "2min", "1h"; a bare number is seconds.
CLI::Option* add_duration(CLI::App& subcommand, const std::string& name,
                          std::chrono::nanoseconds& into, const std::string& description);
/// Throws std::invalid_argument.
std::chrono::nanoseconds parse_duration(std::string_view text);
/// An error of the library without the "cenote: " in front, for a text that already has it.
std::string without_prefix(std::string text);

/// At most three significant digits: "0.25 µs", "1.25 ms", "90 s", "5 min", "2 h", "-3 s".
std::string in_words(std::chrono::nanoseconds time);
std::string seconds_in_words(double seconds);
double in_seconds(std::chrono::nanoseconds time);

/// A command-line argument without its password: only the scheme of a URL, only the part up to
/// `password=`, and only the part from the last '@' of what looks like a fragment of a URL.
std::string redacted(std::string_view argument);
/// The text without the passwords of these arguments and without anything between `://` and '@'
/// but a user name, alone or with `:***`.
std::string without_passwords(std::string text, const std::vector<std::string>& arguments);

/// An output file that is opened before a measurement starts, so that a wrong path costs no
/// measurement. The old contents stay until write().
class output_file {
public:
    /// An empty path means no file. Throws failure.
    explicit output_file(std::string path);
    /// Removes the file if this object created it and wrote nothing.
    ~output_file();
    output_file(const output_file&) = delete;
    output_file& operator=(const output_file&) = delete;
    /// Calls `text` only if there is a file. Throws failure.
    void write(const std::function<std::string()>& text);

private:
    std::string path_;
    std::ofstream file_;
    bool is_new_and_empty_ = false;
};

/// Throws failure if something could not be written to stdout.
void check_output();

/// Prints the indented document to stdout.
void print_json(const boost::json::value& document);
/// The indented document, without a trailing newline.
std::string to_text(const boost::json::value& document);

}  // namespace command
