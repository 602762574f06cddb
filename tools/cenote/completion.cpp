// Generates completion scripts for bash, zsh and fish from the option parser.
#include "completion.hpp"

#include <cstdio>
#include <vector>

#include <CLI/CLI.hpp>

#include "checks.hpp"
#include "command.hpp"
#include "help.hpp"

namespace completion {

namespace {

struct option {
    std::string name;   // "--color"; empty for a positional argument
    std::string about;  // the first line of its description
    std::vector<std::string> choices = {};
    bool takes_value = false;
    bool is_file = false;
};

struct subcommand {
    std::string name;  // empty: the main command
    std::string about;
    std::vector<option> options;
};

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts(1);
    for (char c : text)
        if (c == separator) parts.emplace_back();
        else parts.back() += c;
    return parts;
}

option describe(const CLI::Option& of) {
    option o{.name = "", .about = split(of.get_description(), '\n').front()};
    std::string value = command::value_placeholder(of);
    o.takes_value = !value.empty();
    o.is_file = value.starts_with("FILE");
    if (value.find('|') != std::string::npos &&
        value.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos)
        o.choices = split(value.substr(0, value.find('=')), '|');
    return o;
}

subcommand describe(const CLI::App& app, bool is_main) {
    subcommand s{
        .name = is_main ? "" : app.get_name(), .about = app.get_description(), .options = {}};
    for (const CLI::Option* each : app.get_options([](const CLI::Option*) { return true; })) {
        option o = describe(*each);
        if (each->get_positional()) s.options.push_back(o);
        for (const std::string& name : each->get_lnames()) {
            o.name = "--" + name;
            s.options.push_back(o);
        }
    }
    return s;
}

/// The main command comes first.
std::vector<subcommand> describe_all(const CLI::App& command) {
    std::vector<subcommand> all{describe(command, true)};
    for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; }))
        all.push_back(describe(*each, false));
    return all;
}

std::string joined(const std::vector<std::string>& parts, const char* separator) {
    std::string all;
    for (const std::string& one : parts) all += (all.empty() ? "" : separator) + one;
    return all;
}

std::vector<std::string> names_of(const std::vector<subcommand>& all) {
    std::vector<std::string> names;
    for (const subcommand& s : all)
        if (!s.name.empty()) names.push_back(s.name);
    return names;
}

/// Replaces characters that cannot stand in a quoted text of the shell.
std::string quotable(std::string text, const std::string& forbidden = "'") {
    for (char& c : text)
        if (forbidden.find(c) != std::string::npos) c = ' ';
    return text;
}

// bash

/// Completes the values of options.
std::string values_in_bash(const subcommand& s) {
    std::string cases;
    for (const option& o : s.options) {
        if (o.name.empty() || !o.takes_value) continue;
        std::string reply =
            o.is_file ? "COMPREPLY=($(compgen -f -- \"$current\"))"
            : o.choices.empty()
                ? "COMPREPLY=()"
                : "COMPREPLY=($(compgen -W '" + joined(o.choices, " ") + "' -- \"$current\"))";
        cases += "        '" + s.name + " " + o.name + "') " + reply + "; return ;;\n";
    }
    return cases;
}

/// Completes subcommands, options and positional arguments.
std::string words_in_bash(const subcommand& s, const std::vector<subcommand>& all) {
    std::vector<std::string> words;
    if (s.name.empty()) words = names_of(all);
    for (const option& o : s.options) {
        if (!o.name.empty()) words.push_back(o.name);
        else words.insert(words.end(), o.choices.begin(), o.choices.end());
    }
    return "        '" + s.name + "') COMPREPLY=($(compgen -W '" + joined(words, " ") +
           "' -- \"$current\")) ;;\n";
}

std::string in_bash(const std::vector<subcommand>& all) {
    std::string values;
    std::string words;
    for (const subcommand& s : all) {
        values += values_in_bash(s);
        words += words_in_bash(s, all);
    }
    return "# Completes cenote in bash: source <(cenote completion bash)\n"
           "_cenote() {\n"
           "    local current=\"${COMP_WORDS[COMP_CWORD]}\" word='' i\n"
           "    local previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        case \"${COMP_WORDS[i]}\" in\n"
           "        " +
           joined(names_of(all), "|") +
           ") word=\"${COMP_WORDS[i]}\"; break ;;\n"
           "        esac\n"
           "    done\n"
           "    case \"$word $previous\" in\n" +
           values +
           "    esac\n"
           "    case \"$word\" in\n" +
           words +
           "    esac\n"
           "}\n"
           "complete -F _cenote cenote\n";
}

// zsh

std::string argument_in_zsh(const option& o, std::size_t position) {
    std::string about = quotable(o.about, "'[]:\\");
    std::string value;
    if (o.is_file) value = ":file:_files";
    else if (!o.choices.empty()) value = ":value:(" + joined(o.choices, " ") + ")";
    else if (o.takes_value) value = ":value: ";
    if (o.name.empty())
        return "'" + std::to_string(position) + (value.empty() ? ":value: " : value) + "'";
    return "'" + o.name + "[" + about + "]" + value + "'";
}

std::string in_zsh(const std::vector<subcommand>& all) {
    std::string known;
    std::string cases;
    for (const subcommand& s : all) {
        if (s.name.empty()) continue;
        known += "        '" + s.name + ":" + quotable(s.about, "':\\") + "'\n";
        cases += "        " + s.name + ")\n            _arguments";
        std::size_t position = 0;
        for (const option& o : s.options) {
            if (o.name.empty()) ++position;
            cases += " \\\n                " + argument_in_zsh(o, position);
        }
        cases += "\n            ;;\n";
    }
    return "#compdef cenote\n"
           "# Completes cenote in zsh: source <(cenote completion zsh), or as _cenote in $fpath.\n"
           "_cenote() {\n"
           "    local state\n"
           "    local -a known\n"
           "    known=(\n" +
           known +
           "    )\n"
           "    _arguments -C '--help[Help]' '--version[Version]' '1: :->word' '*:: :->rest'\n"
           "    case $state in\n"
           "    word) _describe word known ;;\n"
           "    rest)\n"
           "        case $words[1] in\n" +
           cases +
           "        esac\n"
           "        ;;\n"
           "    esac\n"
           "}\n"
           "if [ \"$funcstack[1]\" = _cenote ]; then _cenote \"$@\"; else compdef _cenote cenote; "
           "fi\n";
}

// fish

std::string option_in_fish(const subcommand& s, const option& o) {
    std::string when =
        s.name.empty() ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + s.name;
    std::string line = "complete -c cenote -n '" + when + "'";
    if (!o.name.empty()) line += " -l " + o.name.substr(2);
    if (o.takes_value && !o.name.empty()) line += o.is_file ? " -r -F" : " -x";
    if (!o.choices.empty()) line += " -a '" + joined(o.choices, " ") + "'";
    return line + " -d '" + quotable(o.about, "'\\") + "'\n";
}

std::string in_fish(const std::vector<subcommand>& all) {
    std::string script =
        "# Completes cenote in fish: cenote completion fish | source\n"
        "complete -c cenote -f\n";
    for (const subcommand& s : all) {
        if (!s.name.empty())
            script += "complete -c cenote -n __fish_use_subcommand -a " + s.name + " -d '" +
                      quotable(s.about, "'\\") + "'\n";
        for (const option& o : s.options)
            if (!o.name.empty() || !o.choices.empty()) script += option_in_fish(s, o);
    }
    return script;
}

}  // namespace

std::string script_for(const std::string& shell, const CLI::App& command) {
    std::vector<subcommand> all = describe_all(command);
    if (shell == "bash") return in_bash(all);
    return shell == "zsh" ? in_zsh(all) : in_fish(all);
}

CLI::App* add_to(CLI::App& app, settings& into) {
    into.command = &app;
    CLI::App* options = app.add_subcommand(
        "completion", "Prints a shell script that completes subcommands and options.");
    options->add_option("SHELL", into.shell, "bash, zsh or fish")
        ->required()
        ->check(command::one_of({"bash", "zsh", "fish"}))
        ->option_text("bash|zsh|fish");
    command::add_footer(*options,
                        "Examples:\n"
                        "  source <(cenote completion bash)    in ~/.bashrc\n"
                        "  source <(cenote completion zsh)     in ~/.zshrc, after compinit\n"
                        "  cenote completion fish | source     in ~/.config/fish/config.fish\n",
                        {{command::fine, "the script was printed"},
                         {command::wrong_usage, "invalid arguments; nothing was done"}});
    return options;
}

int run(const settings& how) {
    std::fputs(script_for(how.shell, *how.command).c_str(), stdout);
    return command::fine;
}

}  // namespace completion
