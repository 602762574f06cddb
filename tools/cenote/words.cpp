// The words of the command: which one was said, and what is told if none was understood.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "command.hpp"
#include "help.hpp"
#include <cenote/url.hpp>

namespace command {

namespace {

/// Prints what is wrong, without the passwords that were among the words.
class complainer {
public:
    complainer(int argc, char** argv) : said_(argv + std::min(argc, 1), argv + argc) {}

    void operator()(const std::string& what, const std::string& hint) const {
        std::string text = without_passwords(terminal::printable(what), said_);
        // What the library throws says already whose it is.
        constexpr std::string_view name = "cenote: ";
        if (text.starts_with(name)) text.erase(0, name.size());
        std::fprintf(stderr, "cenote: %s\n", text.c_str());
        if (!hint.empty()) std::fprintf(stderr, "  %s\n", hint.c_str());
    }

private:
    std::vector<std::string> said_;
};

/// What is wrong with the words that were said, for people.
std::string explain(const CLI::App& app, const CLI::ParseError& e) {
    if (!app.get_subcommands().empty()) return e.what();
    for (const std::string& said : app.remaining()) {
        if (said.starts_with('-')) continue;
        std::string meant = nearest(said, app);
        return "there is no word '" + said + "'" +
               (meant.empty() ? "" : "; was '" + meant + "' meant?");
    }
    return app.remaining().empty() ? "no word was said" : e.what();
}

/// Help and the version are answers; the rest is a complaint, with where to find help.
int answer(const CLI::App& app, const CLI::ParseError& e, const complainer& complain) {
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(e);
    std::string word;
    if (!app.get_subcommands().empty()) word = " " + app.get_subcommands().front()->get_name();
    complain(explain(app, e), "'cenote" + word + " --help' says what can be said.");
    return wrong_usage;
}

int carry_out(const std::vector<added_word>& known, const complainer& complain) {
    try {
        for (const added_word& each : known)
            if (each.options->parsed()) return each.carry_out();
        return wrong_usage;
    } catch (const failure& e) {
        complain(e.what(), e.hint());
        return e.code();
    } catch (const cenote::invalid_url& e) {
        complain(e.what(),
                 "A URL is like postgresql://user:password@host:port/database?key=value.");
        return wrong_usage;
    } catch (const std::exception& e) {
        complain(e.what(), "");
        return failed;
    }
}

}  // namespace

int run(int argc, char** argv, const std::vector<word_adder>& words) {
    CLI::App app{"cenote: a pool of reusable resources, and what it takes to run one well.",
                 "cenote"};
    app.require_subcommand(1);
    app.set_version_flag("--version", "cenote " CENOTE_VERSION, "Print the version and end");
    app.formatter(std::make_shared<help>());
    app.set_help_flag("-h,--help", "Print this help and end");

    complainer complain(argc, argv);
    std::vector<added_word> known;
    for (const word_adder& add : words) known.push_back(add(app));
    for (const added_word& each : known) each.options->group("Words");

    // Last, so that the words do not inherit it.
    app.footer(
        "'cenote WORD --help' says more. Returns 0 if all is well, 1 if something is wrong, "
        "2 if it\nwas asked for nonsense, 130 if it was interrupted.");

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return answer(app, e, complain);
    }
    return carry_out(known, complain);
}

}  // namespace command
