// Parses the command line, runs the chosen subcommand and prints errors.
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
#include <cenote/version.hpp>

namespace command {

namespace {

/// Prints an error without the passwords that were among the arguments.
class error_printer {
public:
    error_printer(int argc, char** argv) : arguments_(argv + std::min(argc, 1), argv + argc) {}

    void operator()(const std::string& what, const std::string& hint) const {
        std::string text = without_passwords(terminal::printable(what), arguments_);
        // The library's own messages already start with its name.
        constexpr std::string_view name = "cenote: ";
        if (text.starts_with(name)) text.erase(0, name.size());
        std::fprintf(stderr, "cenote: %s\n", text.c_str());
        if (!hint.empty()) std::fprintf(stderr, "  %s\n", hint.c_str());
    }

private:
    std::vector<std::string> arguments_;
};

std::string describe(const CLI::App& app, const CLI::ParseError& e) {
    if (!app.get_subcommands().empty()) return e.what();
    for (const std::string& argument : app.remaining()) {
        if (argument.starts_with('-')) continue;
        std::string closest = closest_subcommand(argument, app);
        return "unknown subcommand '" + argument + "'" +
               (closest.empty() ? "" : "; did you mean '" + closest + "'?");
    }
    return app.remaining().empty() ? "no subcommand given" : e.what();
}

/// Prints the help, the version, or a usage error.
int report(const CLI::App& app, const CLI::ParseError& e, const error_printer& print_error) {
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(e);
    std::string name;
    if (!app.get_subcommands().empty()) name = " " + app.get_subcommands().front()->get_name();
    print_error(describe(app, e), "Run 'cenote" + name + " --help' for usage.");
    return wrong_usage;
}

int run_chosen(const std::vector<subcommand>& all, const error_printer& print_error) {
    try {
        for (const subcommand& each : all)
            if (each.options->parsed()) return each.run();
        return wrong_usage;
    } catch (const failure& e) {
        print_error(e.what(), e.hint());
        return e.code();
    } catch (const cenote::invalid_url& e) {
        print_error(e.what(),
                    "A URL has the form postgresql://user:password@host:port/database?key=value.");
        return wrong_usage;
    } catch (const std::exception& e) {
        print_error(e.what(), "");
        return failed;
    }
}

}  // namespace

int run(int argc, char** argv, const std::vector<subcommand_adder>& subcommands) {
    CLI::App app{"cenote: tools for running pools of reusable resources.", "cenote"};
    app.require_subcommand(1);
    app.set_version_flag("--version", "cenote " CENOTE_VERSION_STRING,
                         "Print the version and exit");
    app.formatter(std::make_shared<help>());
    app.set_help_flag("-h,--help", "Print this help and exit");

    error_printer print_error(argc, argv);
    std::vector<subcommand> all;
    for (const subcommand_adder& add : subcommands) all.push_back(add(app));
    for (const subcommand& each : all) each.options->group("Subcommands");

    // Set last: subcommands that are added later would inherit it.
    app.footer(
        "'cenote SUBCOMMAND --help' lists its options.\n"
        "Exit status: 0 success, 1 failure or problem found, 2 invalid usage, 130 interrupted.");

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return report(app, e, print_error);
    }
    return run_chosen(all, print_error);
}

}  // namespace command
