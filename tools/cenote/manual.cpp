// Generates manual pages in roff from the option parser.
#include "manual.hpp"

#include <cstdio>
#include <sstream>
#include <vector>

#include <CLI/CLI.hpp>

#include "command.hpp"
#include "help.hpp"

namespace manual {

namespace {

/// Text that roff prints as it is. A hyphen that users copy has to be written as \-.
std::string escaped(const std::string& text) {
    std::string roff;
    for (char c : text) {
        if (c == '\\') roff += "\\e";
        else if (c == '-') roff += "\\-";
        else if (c == '\'') roff += "\\(aq";
        else if (c == '~') roff += "\\(ti";
        else if (c == '^') roff += "\\(ha";
        else if (c == '`') roff += "\\(ga";
        else roff += c;
    }
    // A dot at the start of a line would be a command.
    return roff.starts_with('.') ? "\\&" + roff : roff;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string in_capitals(std::string text) {
    for (char& c : text)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return text;
}

/// "Prints a script." becomes "prints a script": after the name, in one line.
std::string in_the_title(std::string about) {
    if (about.starts_with("cenote: ")) about.erase(0, 8);
    if (!about.empty() && about[0] >= 'A' && about[0] <= 'Z')
        about[0] = static_cast<char>(about[0] - 'A' + 'a');
    if (about.ends_with('.')) about.pop_back();
    return escaped(about);
}

/// Without `help`: `cenote manual help` is the help of `manual`.
std::vector<const CLI::App*> subcommands_of(const CLI::App& command) {
    return command.get_subcommands([](const CLI::App* each) { return each->get_name() != "help"; });
}

std::vector<const CLI::Option*> options_of(const CLI::App& app, bool positional) {
    std::vector<const CLI::Option*> found;
    for (const CLI::Option* each : app.get_options([](const CLI::Option*) { return true; }))
        if (each->get_positional() == positional) found.push_back(each);
    return found;
}

std::string synopsis(const CLI::App& app, const std::string& name) {
    std::string line = bold(name) + " [" + italic("OPTIONS") + "]";
    for (const CLI::Option* each : options_of(app, true)) {
        std::string argument = italic(each->get_name(true));
        line += each->get_required() ? " " + argument : " [" + argument + "]";
    }
    if (!subcommands_of(app).empty()) line += " " + italic("SUBCOMMAND") + " ...";
    return ".SH SYNOPSIS\n" + line + "\n";
}

std::string option_names(const CLI::Option& option) {
    std::string names;
    auto add = [&](const std::string& name) { names += (names.empty() ? "" : ", ") + bold(name); };
    for (const std::string& name : option.get_snames()) add("-" + name);
    for (const std::string& name : option.get_lnames()) add("--" + name);
    if (option.get_positional()) names = bold(option.get_name(true));
    std::string value = command::value_placeholder(option);
    if (!value.empty() && value != "TEXT" && value != option.get_name(true))
        names += " " + italic(value);
    return names;
}

std::string list_of(const std::vector<const CLI::Option*>& options, const std::string& heading) {
    std::string list;
    for (const CLI::Option* each : options)
        list += ".TP\n" + option_names(*each) + "\n" + escaped(each->get_description()) + "\n";
    return list.empty() ? "" : ".SH " + heading + "\n" + list;
}

std::string list_of_subcommands(const CLI::App& command) {
    std::string list = ".SH SUBCOMMANDS\n";
    for (const CLI::App* each : subcommands_of(command))
        list += ".TP\n" + bold("cenote-" + each->get_name()) + "(1)\n" +
                escaped(each->get_description()) + "\n";
    return list;
}

/// The footer of the help: a line that ends with a colon is a heading, and indented lines stay as
/// they are.
std::string notes(const CLI::App& app) {
    std::istringstream lines(app.get_footer());
    std::string text;
    bool indented = false;
    bool in_notes = false;
    for (std::string line; std::getline(lines, line);) {
        bool indents = line.starts_with(' ');
        if (indented && !indents) text += ".fi\n";
        if (!indented && indents) text += ".nf\n";
        indented = indents;
        if (!indents && line.ends_with(':')) {
            line.pop_back();
            text += ".SH " + escaped(in_capitals(line)) + "\n";
            in_notes = false;
        } else if (indents) {
            text += escaped(line.substr(2)) + "\n";
        } else if (!line.empty()) {
            text += (in_notes ? ".PP\n" : ".SH NOTES\n") + escaped(line) + "\n";
            in_notes = true;
        }
    }
    return text + (indented ? ".fi\n" : "");
}

std::string see_also(const CLI::App& command, const CLI::App* subcommand) {
    std::string pages = subcommand != nullptr ? ".BR cenote (1)" : "";
    for (const CLI::App* each : subcommands_of(command))
        if (each != subcommand)
            pages += (pages.empty() ? "" : ",\n") + std::string(".BR ") +
                     escaped("cenote-" + each->get_name()) + " (1)";
    return ".SH SEE ALSO\n" + pages + "\n";
}

}  // namespace

std::string page_of(const CLI::App& command, const CLI::App* subcommand) {
    const CLI::App& app = subcommand != nullptr ? *subcommand : command;
    std::string file = "cenote";
    std::string name = "cenote";
    if (subcommand != nullptr) {
        file += "-" + app.get_name();
        name += " " + app.get_name();
    }
    std::string page = ".\\\" Generated by cenote manual.\n.TH " + escaped(in_capitals(file)) +
                       " 1 \"\" \"" + command.version() + "\" \"User Commands\"\n.SH NAME\n" +
                       escaped(file) + " \\- " + in_the_title(app.get_description()) + "\n" +
                       synopsis(app, name);
    if (subcommand != nullptr) page += ".SH DESCRIPTION\n" + escaped(app.get_description()) + "\n";
    else page += list_of_subcommands(command);
    return page + list_of(options_of(app, true), "ARGUMENTS") +
           list_of(options_of(app, false), "OPTIONS") + notes(app) + see_also(command, subcommand);
}

CLI::App* add_to(CLI::App& app, settings& into) {
    into.command = &app;
    CLI::App* options = app.add_subcommand("manual", "Prints a manual page for man(1).");
    options->add_option("SUBCOMMAND", into.subcommand, "Default: the page of cenote itself")
        ->option_text("SUBCOMMAND");
    command::add_footer(*options,
                        "Examples:\n"
                        "  cenote manual | man -l -\n"
                        "  cenote manual doctor | man -l -\n",
                        {{command::fine, "the page was printed"},
                         {command::wrong_usage, "there is no such subcommand"}});
    return options;
}

int run(const settings& how) {
    const CLI::App& app = *how.command;
    const CLI::App* subcommand = command::subcommand_named(how.subcommand, app);
    if (subcommand == nullptr && !how.subcommand.empty()) {
        std::string closest = command::closest_subcommand(how.subcommand, app);
        throw command::wrong_arguments(
            "there is no subcommand '" + how.subcommand + "'" +
            (closest.empty() ? "" : "; did you mean '" + closest + "'?"));
    }
    std::fputs(page_of(app, subcommand).c_str(), stdout);
    return command::fine;
}

}  // namespace manual
