// What the words of the command have in common: how one is added, what it returns, how it complains
// and how it answers other programs.
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

// A word is a file with a namespace of its own:
//
//     namespace demo {
//     struct settings {…};
//     CLI::App* add_to(CLI::App& app, settings& into);   // its options and help
//     int run(const settings& how);                      // returns one of the codes below
//     }
//
// and a line in main.cpp. Answers go to stdout, progress and complaints to stderr.
namespace command {

/// What the program returns.
enum exit_code : int {
    fine = 0,
    failed = 1,         ///< It went wrong, or it found something wrong.
    wrong_usage = 2,    ///< It was asked for nonsense; nothing was done.
    interrupted = 130,  ///< Ctrl-C or SIGTERM has ended it early.
};

/// A word that was added: its options, and what carries it out.
struct added_word {
    CLI::App* options = nullptr;
    std::function<int()> carry_out;
};
using word_adder = std::function<added_word(CLI::App&)>;

template <class Settings>
word_adder make_word(CLI::App* (*add_to)(CLI::App&, Settings&), int (*carry_out)(const Settings&)) {
    return [add_to, carry_out](CLI::App& app) {
        auto settings = std::make_shared<Settings>();
        CLI::App* options = add_to(app, *settings);
        return added_word{options, [settings, carry_out] { return carry_out(*settings); }};
    };
}

/// The command with these words: does what was said. Returns one of the codes above.
int run(int argc, char** argv, const std::vector<word_adder>& words);

/// Thrown by a word that cannot go on. run() prints `cenote: what`, and the hint below it.
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

/// What was asked for makes no sense, in a way that the parser of options does not see.
class wrong_arguments : public failure {
public:
    explicit wrong_arguments(const std::string& what, std::string hint = {})
        : failure(what, std::move(hint), wrong_usage) {}
};

/// How a word shows what it has to say.
struct look {
    bool json = false;  ///< One JSON document on stdout, and nothing else there.
    terminal::color_choice colors = terminal::color_choice::automatic;
};

/// Adds --json and --color (and --no-color).
void add_look(CLI::App& word, look& into);

/// An option that is a time: "250ms", "5s", "2min", "1h"; a number alone is seconds.
CLI::Option* add_duration(CLI::App& word, const std::string& name, std::chrono::nanoseconds& into,
                          const std::string& description);
/// Throws std::invalid_argument.
std::chrono::nanoseconds parse_duration(std::string_view text);

/// A word of the command line as it may be shown: of a URL nothing but its scheme, and of what
/// looks like half of one nothing before its last '@'. Whoever mistypes a command has not asked for
/// the password to be printed.
std::string shown(std::string_view word);
/// The text without passwords: those of these words, and whatever stands between `://` and an '@'.
std::string without_passwords(std::string text, const std::vector<std::string>& words);

/// For people, with three digits at most: "1.25 ms", "90 s", "5 min", "2 h"; negative ones, too.
std::string in_words(std::chrono::nanoseconds time);

/// A file that is written at the end, and opened at the beginning: a mistake in its name must not
/// cost a measurement. What was in it stays until then.
class output_file {
public:
    /// An empty path: none. Throws failure.
    explicit output_file(std::string path);
    /// Takes an empty one away again that it has made itself.
    ~output_file();
    output_file(const output_file&) = delete;
    output_file& operator=(const output_file&) = delete;
    /// Asks for the text only if there is a file. Throws failure.
    void write(const std::function<std::string()>& text);

private:
    std::string path_;
    std::ofstream file_;
    bool is_empty_ = false;  // and there was none before
};

/// The document, indented for people, to stdout.
void print_json(const boost::json::value& document);
/// The same as a text, without a newline at its end.
std::string to_text(const boost::json::value& document);

}  // namespace command
