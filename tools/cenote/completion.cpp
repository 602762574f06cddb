// The command's own model of its words and options, written as scripts.
#include "completion.hpp"

#include <cstdio>
#include <vector>

#include <CLI/CLI.hpp>

#include "command.hpp"
#include "help.hpp"

namespace completion {

namespace {

/// An option, as far as shells have to know it.
struct option {
    std::string name;   // "--color", or "-h"; empty: an argument without a name
    std::string about;  // the first line of its description
    std::vector<std::string> choices = {};
    bool takes_value = false;
    bool is_file = false;
};

struct word {
    std::string name;  // empty: the command itself
    std::string about;
    std::vector<option> options;
};

std::vector<std::string> split(const std::string& text, char by) {
    std::vector<std::string> parts(1);
    for (char c : text)
        if (c == by) parts.emplace_back();
        else parts.back() += c;
    return parts;
}

option describe(const CLI::Option& of) {
    option it{.name = "", .about = split(of.get_description(), '\n').front()};
    std::string taken = command::taken_by(of);
    it.takes_value = !taken.empty();
    it.is_file = taken.starts_with("FILE");
    if (taken.find('|') != std::string::npos &&
        taken.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos)
        it.choices = split(taken.substr(0, taken.find('=')), '|');
    return it;
}

word describe(const CLI::App& app, bool whole) {
    word it{.name = whole ? "" : app.get_name(), .about = app.get_description(), .options = {}};
    for (const CLI::Option* each : app.get_options([](const CLI::Option*) { return true; })) {
        option o = describe(*each);
        if (each->get_positional()) it.options.push_back(o);
        for (const std::string& name : each->get_lnames()) {
            o.name = "--" + name;
            it.options.push_back(o);
        }
    }
    return it;
}

/// The command itself comes first.
std::vector<word> describe_all(const CLI::App& command) {
    std::vector<word> all{describe(command, true)};
    for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; }))
        all.push_back(describe(*each, false));
    return all;
}

std::string joined(const std::vector<std::string>& parts, const char* by) {
    std::string all;
    for (const std::string& one : parts) all += (all.empty() ? "" : by) + one;
    return all;
}

std::vector<std::string> names_of(const std::vector<word>& all) {
    std::vector<std::string> names;
    for (const word& w : all)
        if (!w.name.empty()) names.push_back(w.name);
    return names;
}

/// What may stand in single quotes in all three shells.
std::string quotable(std::string text, const std::string& unwanted = "'") {
    for (char& c : text)
        if (unwanted.find(c) != std::string::npos) c = ' ';
    return text;
}

// bash

/// What can follow an option that takes something.
std::string values_in_bash(const word& w) {
    std::string cases;
    for (const option& o : w.options) {
        if (o.name.empty() || !o.takes_value) continue;
        std::string what = o.is_file           ? "COMPREPLY=($(compgen -f -- \"$current\"))"
                           : o.choices.empty() ? "COMPREPLY=()"
                                               : "COMPREPLY=($(compgen -W '" +
                                                     joined(o.choices, " ") + "' -- \"$current\"))";
        cases += "        '" + w.name + " " + o.name + "') " + what + "; return ;;\n";
    }
    return cases;
}

std::string words_in_bash(const word& w, const std::vector<word>& all) {
    std::vector<std::string> can;
    if (w.name.empty()) can = names_of(all);
    for (const option& o : w.options) {
        if (!o.name.empty()) can.push_back(o.name);
        else can.insert(can.end(), o.choices.begin(), o.choices.end());
    }
    return "        '" + w.name + "') COMPREPLY=($(compgen -W '" + joined(can, " ") +
           "' -- \"$current\")) ;;\n";
}

std::string in_bash(const std::vector<word>& all) {
    std::string values;
    std::string words;
    for (const word& w : all) {
        values += values_in_bash(w);
        words += words_in_bash(w, all);
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

std::string in_zsh(const std::vector<word>& all) {
    std::string known;
    std::string cases;
    for (const word& w : all) {
        if (w.name.empty()) continue;
        known += "        '" + w.name + ":" + quotable(w.about, "':\\") + "'\n";
        cases += "        " + w.name + ")\n            _arguments";
        std::size_t position = 0;
        for (const option& o : w.options) {
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

std::string option_in_fish(const word& w, const option& o) {
    std::string when =
        w.name.empty() ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + w.name;
    std::string line = "complete -c cenote -n '" + when + "'";
    if (!o.name.empty()) line += " -l " + o.name.substr(2);
    if (o.takes_value && !o.name.empty()) line += o.is_file ? " -r -F" : " -x";
    if (!o.choices.empty()) line += " -a '" + joined(o.choices, " ") + "'";
    return line + " -d '" + quotable(o.about, "'\\") + "'\n";
}

std::string in_fish(const std::vector<word>& all) {
    std::string script =
        "# Completes cenote in fish: cenote completion fish | source\n"
        "complete -c cenote -f\n";
    for (const word& w : all) {
        if (!w.name.empty())
            script += "complete -c cenote -n __fish_use_subcommand -a " + w.name + " -d '" +
                      quotable(w.about, "'\\") + "'\n";
        for (const option& o : w.options)
            if (!o.name.empty() || !o.choices.empty()) script += option_in_fish(w, o);
    }
    return script;
}

}  // namespace

std::string script_for(const std::string& shell, const CLI::App& command) {
    std::vector<word> all = describe_all(command);
    if (shell == "bash") return in_bash(all);
    return shell == "zsh" ? in_zsh(all) : in_fish(all);
}

CLI::App* add_to(CLI::App& app, settings& into) {
    into.command = &app;
    CLI::App* word = app.add_subcommand(
        "completion", "Prints a script by which a shell completes the words and options.");
    word->add_option("SHELL", into.shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}))
        ->option_text("bash|zsh|fish");
    word->footer(
        "bash: source <(cenote completion bash)\n"
        "zsh:  source <(cenote completion zsh)\n"
        "fish: cenote completion fish | source");
    return word;
}

int run(const settings& how) {
    std::fputs(script_for(how.shell, *how.command).c_str(), stdout);
    return command::fine;
}

}  // namespace completion
