// Prints help texts by name.
#include "help_command.hpp"

#include <cstdio>

#include <CLI/CLI.hpp>

#include "command.hpp"
#include "help.hpp"

namespace help_command {

namespace {

constexpr const char* urls = R"(URLs of servers

  postgresql://user:password@host:port/database
  mariadb://user:password@host:port/database
  redis://user:password@host:port/number        rediss:// for TLS
  http://host:port/path                         https:// for TLS
  sqlite:/path/to/file.db                       or sqlite:file.db

postgres:// and mysql:// are accepted, too. Options follow as ?key=value&key=value. Characters with
a meaning in URLs are percent-encoded: %40 for @, %2F for /, %3A for :, %23 for #, %25 for %.

A password in an argument is visible to other users of the machine. Leave it out of the URL and use
--password-file, --ask-password or the environment variable CENOTE_PASSWORD.

Connection strings (host=db dbname=orders), JDBC URLs and the like are not accepted; the error names
the URL to use instead.
)";

std::string joined(const std::vector<std::string>& all, const char* separator) {
    std::string text;
    for (const std::string& one : all) text += (text.empty() ? "" : separator) + one;
    return text;
}

std::vector<std::string> names_of(const CLI::App& app) {
    std::vector<std::string> all;
    for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
        all.push_back(each->get_name());
    return all;
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    into.command = &app;
    std::vector<std::string> topics = names_of(app);
    topics.insert(topics.end(), {"help", "urls"});
    CLI::App* options =
        app.add_subcommand("help", "Prints the help of a subcommand, or of a topic.");
    options->add_option("TOPIC", into.topics, "A subcommand, or: urls. Default: all subcommands")
        ->option_text(joined(topics, "|"));
    command::add_footer(*options,
                        "Examples:\n"
                        "  cenote help doctor\n"
                        "  cenote help urls\n",
                        {{0, "the help was printed"}, {2, "there is no such topic"}});
    return options;
}

int run(const settings& how) {
    const CLI::App& app = *how.command;
    if (how.topics.size() > 1)
        throw command::wrong_arguments("help takes one topic", "Example: cenote help doctor");
    if (how.topics.empty()) {
        // App::help() would print that of the chosen subcommand, which is this one.
        std::string text =
            app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
        std::fputs(text.c_str(), stdout);
        return command::fine;
    }
    const std::string& topic = how.topics.front();
    if (topic == "urls") {
        std::fputs(urls, stdout);
        return command::fine;
    }
    if (const CLI::App* found = command::subcommand_named(topic, app)) {
        std::string text = found->get_formatter()->make_help(found, app.get_name() + " " + topic,
                                                             CLI::AppFormatMode::Normal);
        std::fputs(text.c_str(), stdout);
        return command::fine;
    }
    std::string closest = command::closest_subcommand(topic, app);
    throw command::wrong_arguments("there is no help topic '" + topic + "'" +
                                       (closest.empty() ? "" : "; did you mean '" + closest + "'?"),
                                   "Topics: " + joined(names_of(app), ", ") + ", urls.");
}

}  // namespace help_command
