// Parses the command line, runs the chosen subcommand, prints errors and checks the output.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "command.hpp"
#include "help.hpp"
#include "help_command.hpp"
#include "usage.hpp"
#include <cenote/error.hpp>
#include <cenote/server_error.hpp>
#include <cenote/url.hpp>
#include <cenote/version.hpp>

namespace command {

namespace {

/// Prints an error without the passwords that were among the arguments.
class error_printer {
public:
    error_printer(int argc, char** argv) : arguments_(argv + std::min(argc, 1), argv + argc) {}

    void operator()(const std::string& what, const std::string& hint) const {
        // The library's own messages already start with its name.
        std::string text = without_prefix(without_passwords(terminal::printable(what), arguments_));
        std::fprintf(stderr, "cenote: %s\n", text.c_str());
        if (!hint.empty()) std::fprintf(stderr, "  %s\n", hint.c_str());
    }

private:
    std::vector<std::string> arguments_;
};

/// Prints the help, the version, or a usage error.
int report(const CLI::App& app, const CLI::ParseError& e, const error_printer& print_error) {
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(e);
    std::string name;
    if (!app.get_subcommands().empty()) name = " " + app.get_subcommands().front()->get_name();
    print_error(describe(app, e), "Run 'cenote" + name + " --help' for usage.");
    return wrong_usage;
}

/// What to do about an error of a URL.
const char* hint_for(std::string_view error) {
    if (error.find("***") != error.npos)
        return "*** stands for the password: percent-encode its special characters, or leave "
               "':***' out and use --password-file.";
    if (error.find("; use ") != error.npos && error.find("://") != error.npos) return "";
    return "Run 'cenote help urls' for the form of URLs.";
}

int run_chosen(const std::vector<subcommand>& all, const error_printer& print_error) {
    const char* hint = "";
    try {
        for (const subcommand& each : all) {
            if (!each.options->parsed()) continue;
            bool connects = each.options->get_option_no_throw("URL") != nullptr;
            if (connects) hint = "Run 'cenote doctor URL' to find the cause.";
            return each.run();
        }
        return wrong_usage;
    } catch (const failure& e) {
        if (e.code() != output_closed) print_error(e.what(), e.hint());
        return e.code();
    } catch (const cenote::invalid_url& e) {
        print_error(e.what(), hint_for(e.what()));
        return wrong_usage;
    } catch (const cenote::server_error& e) {
        print_error(e.what(), hint);
        return failed;
    } catch (const cenote::pool_error& e) {
        print_error(e.what(), hint);
        return failed;
    } catch (const std::exception& e) {
        print_error(e.what(), "");
        return failed;
    }
}

/// Output may fail late: when the buffer is written.
int finish(int code, const error_printer& print_error) {
    try {
        std::fflush(stdout);
        check_output();
        return code;
    } catch (const failure& e) {
        if (e.code() != output_closed) print_error(e.what(), "");
        return code == fine ? e.code() : code;
    }
}

/// `cenote doctor help` is `cenote help doctor`.
std::vector<std::string> arguments_of(int argc, char** argv, const CLI::App& app) {
    std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
    if (all.size() == 2 && all[1] == "help" && subcommand_named(all[0], app) != nullptr)
        std::swap(all[0], all[1]);
    return all;
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
    all.push_back(make_subcommand(help_command::add_to, help_command::run)(app));
    for (const subcommand& each : all) each.options->group("Subcommands");

    // Set last: subcommands that are added later would inherit it.
    add_footer(app,
               "'cenote help SUBCOMMAND' explains a subcommand, 'cenote help urls' the URLs of "
               "servers.\n"
               "\n"
               "Examples:\n"
               "  cenote demo\n"
               "  cenote doctor postgresql://app@db/orders --processes 8 --max 32\n"
               "  cenote bench --max 2,4,8,16 --html bench.html\n"
               "\n"
               "Environment:\n"
               "  CENOTE_PASSWORD  the password for a URL with a user and no password\n"
               "  NO_COLOR         no colors, if it is set\n",
               {{fine, "success"},
                {failed, "failure, or a problem was found"},
                {wrong_usage, "invalid arguments; nothing was done"},
                {interrupted, "interrupted by Ctrl-C, SIGTERM or a hang-up of the terminal"},
                {output_closed, "the program that reads the output has ended"}});

    // A subcommand may have to clean up after its output was closed.
    std::signal(SIGPIPE, SIG_IGN);
    std::vector<std::string> arguments = arguments_of(argc, argv, app);
    try {
        if (const CLI::App* chosen =
                arguments.empty() ? nullptr : subcommand_named(arguments[0], app))
            refuse_split_notation(*chosen, {arguments.begin() + 1, arguments.end()});
        std::reverse(arguments.begin(), arguments.end());  // as the parser wants them
        app.parse(arguments);
    } catch (const cenote::invalid_url& e) {
        print_error(e.what(), hint_for(e.what()));
        return wrong_usage;
    } catch (const CLI::ParseError& e) {
        return finish(report(app, e, print_error), print_error);
    }
    return finish(run_chosen(all, print_error), print_error);
}

}  // namespace command
