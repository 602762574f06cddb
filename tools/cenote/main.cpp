// cenote: the command. Each word of it is a file of its own.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench.hpp"
#include "command.hpp"
#include "completion.hpp"
#include "demo.hpp"
#include "doctor.hpp"
#include "help.hpp"
#include "simulate.hpp"
#include "size.hpp"
#include <cenote/url.hpp>

namespace {

/// The words, and which of them was said.
class words {
public:
    explicit words(CLI::App& app) : app_(app) {}

    template <class Settings>
    void add(CLI::App* (*add_to)(CLI::App&, Settings&), int (*carry_out)(const Settings&)) {
        auto settings = std::make_shared<Settings>();
        CLI::App* word = add_to(app_, *settings)->group("Words");
        known_.emplace_back(word, [settings, carry_out] { return carry_out(*settings); });
    }

    int run() const {
        for (const auto& [word, carry_out] : known_)
            if (word->parsed()) return carry_out();
        return command::wrong_usage;
    }

private:
    CLI::App& app_;
    std::deque<std::pair<CLI::App*, std::function<int()>>> known_;
};

/// Prints what is wrong, without the passwords that were among the words.
class complainer {
public:
    complainer(int argc, char** argv) : said_(argv + std::min(argc, 1), argv + argc) {}

    void operator()(const std::string& what, const std::string& hint) const {
        std::string text = command::without_passwords(terminal::printable(what), said_);
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
        std::string meant = command::nearest(said, app);
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
    return command::wrong_usage;
}

int run(const words& known, const complainer& complain) {
    try {
        return known.run();
    } catch (const command::failure& e) {
        complain(e.what(), e.hint());
        return e.code();
    } catch (const cenote::invalid_url& e) {
        complain(e.what(),
                 "A URL is like postgresql://user:password@host:port/database?key=value.");
        return command::wrong_usage;
    } catch (const std::exception& e) {
        complain(e.what(), "");
        return command::failed;
    }
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"cenote: a pool of reusable resources, and what it takes to run one well.",
                 "cenote"};
    app.require_subcommand(1);
    app.set_version_flag("--version", "cenote " CENOTE_VERSION, "Print the version and end");
    app.formatter(std::make_shared<command::help>());
    app.set_help_flag("-h,--help", "Print this help and end");

    complainer complain(argc, argv);
    words known(app);
#ifdef CENOTE_HAS_DEMO
    known.add(demo::add_to, demo::run);
#endif
    known.add(bench::add_to, bench::run);
    known.add(sizing::add_to, sizing::run);
    known.add(doctor::add_to, doctor::run);
    known.add(simulation::add_to, simulation::run);
    known.add(completion::add_to, completion::run);

    // Last, so that the words do not inherit it.
    app.footer(
        "'cenote WORD --help' says more. Returns 0 if all is well, 1 if something is wrong, "
        "2 if it\nwas asked for nonsense, 130 if it was interrupted.");

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return answer(app, e, complain);
    }
    return run(known, complain);
}
