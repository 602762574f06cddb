// The command as a whole: help, errors, colors, completion, progress.
#include <boost/json/parse.hpp>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/terminal.hpp"
#include "program.hpp"

namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// The subcommands that the help lists.
std::vector<std::string> subcommands() {
    std::string help = tools::cenote({"--help"}).out;
    std::vector<std::string> all;
    const std::string heading = "\nSubcommands:\n";
    std::size_t at = help.find(heading) + heading.size();
    for (; help.compare(at, 2, "  ") == 0; at = help.find('\n', at) + 1)
        if (help[at + 2] != ' ')
            all.push_back(help.substr(at + 2, help.find(' ', at + 2) - at - 2));
    return all;
}

TEST(command_test, help_lists_the_subcommands_and_each_has_its_own) {
    tools::output said = tools::cenote({"--help"});
    EXPECT_EQ(said.code, 0);
    EXPECT_EQ(said.err, "");
    EXPECT_THAT(subcommands(),
                testing::IsSupersetOf({"demo", "doctor", "sim", "completion", "help"}));
    for (const std::string& name : subcommands()) {
        tools::output help = tools::cenote({name, "--help"});
        EXPECT_EQ(help.code, 0) << name;
        EXPECT_THAT(help.out, HasSubstr("Usage: cenote " + name)) << name;
        std::size_t longest = 0;
        for (std::size_t at = 0, end; (end = help.out.find('\n', at)) != std::string::npos;
             at = end + 1)
            longest = std::max(
                longest, terminal::columns_of(std::string_view(help.out).substr(at, end - at)));
        EXPECT_LE(longest, 100u) << name << "\n" << help.out;
        // For man pages, too.
        EXPECT_THAT(help.out, HasSubstr("\nExamples:\n  ")) << name;
        EXPECT_THAT(help.out, HasSubstr("\nExit status:\n  0    ")) << name;
    }
}

TEST(command_test, help_of_a_subcommand_has_three_spellings) {
    for (const std::string& name : subcommands()) {
        tools::output help = tools::cenote({"help", name});
        EXPECT_EQ(help.code, 0) << name;
        EXPECT_EQ(help.err, "");
        EXPECT_EQ(help.out, tools::cenote({name, "--help"}).out) << name;
        EXPECT_EQ(help.out, tools::cenote({name, "help"}).out) << name;
    }
    EXPECT_EQ(tools::cenote({"help"}).out, tools::cenote({"--help"}).out);
    EXPECT_THAT(tools::cenote({"help", "urls"}).out, HasSubstr("postgresql://user:password@host"));
}

TEST(command_test, help_refuses_an_unknown_topic) {
    tools::output said = tools::cenote({"help", "docter"});
    EXPECT_EQ(said.code, 2);
    EXPECT_EQ(said.out, "");
    EXPECT_THAT(said.err, StartsWith("cenote: there is no help topic 'docter'; did you mean "
                                     "'doctor'?\n  Topics: "));
    EXPECT_THAT(said.err, HasSubstr("help, urls.\n"));
    said = tools::cenote({"help", "doctor", "bench"});
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.err, StartsWith("cenote: help takes one topic\n"));
}

/// What the program prints on a terminal with `columns` columns, with lines that end with "\n".
std::string on_terminal(int columns, const std::string& command) {
    std::string all =
        tools::program({"/usr/bin/script", "-qec",
                        "stty cols " + std::to_string(columns) + "; TERM=xterm " + command,
                        "/dev/null"})
            .wait()
            .out;
    std::erase(all, '\r');
    return all;
}

TEST(command_test, help_fits_a_narrow_terminal) {
    for (const std::string& name : subcommands()) {
        std::string help = on_terminal(50, CENOTE_COMMAND " help " + name);
        EXPECT_THAT(help, HasSubstr("Exit status:"));
        std::istringstream lines(help);
        for (std::string line; std::getline(lines, line);) {
            // An example is copied to a command line, so it stays one line.
            if (!line.starts_with("  cenote ") && !line.starts_with("  source ")) {
                EXPECT_LE(terminal::columns_of(line), 50u) << name << "\n" << line;
            }
        }
    }
}

TEST(command_test, prints_its_version) {
    tools::output said = tools::cenote({"--version"});
    EXPECT_EQ(said.code, 0);
    EXPECT_THAT(said.out, testing::MatchesRegex("cenote [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(command_test, reports_usage_errors_in_two_lines_and_returns_2) {
    struct {
        std::vector<std::string> arguments;
        std::string error;
    } const cases[] = {
        {{}, "cenote: no subcommand given\n"},
        {{"docter"}, "cenote: unknown subcommand 'docter'; did you mean 'doctor'?\n"},
        {{"xylophone"}, "cenote: unknown subcommand 'xylophone'\n"},
        {{"-x"}, "cenote: unknown option -x\n"},
        {{"doctor"}, "cenote: the argument URL is missing\n"},
        {{"doctor", "--version"}, "cenote: unknown option --version\n"},
        {{"doctor", "sqlite:x", "--foo"}, "cenote: unknown option --foo\n"},
        {{"doctor", "sqlite:x", "--proceses=3"},
         "cenote: unknown option --proceses; did you mean --processes?\n"},
        {{"doctor", "sqlite:x", "sqlite:y"},
         "cenote: doctor takes only the argument URL, and options\n"},
        {{"sim", "7"}, "cenote: sim takes options only\n"},
        {{"doctor", "sqlite:x", "--idle", "soon"},
         "cenote: --idle must be a duration such as 250ms, 5s, 2min or 1h, not 'soon'\n"},
        {{"doctor", "sqlite:x", "--timeout"}, "cenote: --timeout needs a value: TIME\n"},
        {{"doctor", "sqlite:x", "--max", "0"},
         "cenote: --max must be a whole number from 1 to 1000000, not '0'\n"},
        {{"doctor", "sqlite:x", "--color", "blue"},
         "cenote: --color must be auto, always or never, not 'blue'\n"},
        {{"doctor", "redis://h", "--ask-password", "--password-file", "x"},
         "cenote: --password-file and --ask-password cannot be combined\n"},
        {{"bench", "--rate", "fast"}, "cenote: --rate must be from 0.001 to 1000000, not 'fast'\n"},
        {{"bench", "--max", "four"}, "cenote: --max must be a list of sizes such as 8 or 4,8,16\n"},
        {{"sim", "--seed", "x"}, "cenote: --seed must be a whole number, not 'x'\n"},
        {{"sim", "--only", "slot"}, "cenote: --only needs a value: KIND NUMBER\n"},
        {{"sim", "--only", "waiter", "1"},
         "cenote: --only must be borrower, gatherer or slot and a number, not 'waiter 1'\n"},
        {{"sim", "--replay", "/nowhere"},
         "cenote: cannot read the file /nowhere: No such file or directory\n"},
        {{"doctor", "sqlite:x", "--timeout", "0"},
         "cenote: --timeout must be between 1ms and 10min\n"},
        {{"completion", "csh"}, "cenote: SHELL must be bash, zsh or fish, not 'csh'\n"},
    };
    for (const auto& [arguments, error] : cases) {
        tools::output said = tools::cenote(arguments);
        EXPECT_EQ(said.code, 2) << said.err;
        EXPECT_THAT(said.err, StartsWith(error));
        EXPECT_EQ(said.out, "");
        EXPECT_LE(std::count(said.err.begin(), said.err.end(), '\n'), 2) << said.err;
    }
}

TEST(command_test, prints_no_password_in_any_error) {
    const std::string url = "postgresql://app:S3CRET@db/orders";
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {url},
             {"doctor", url, url},
             {"doctor", "--max", url},
             {"doctor", "--max=" + url},
             {"doctor", "--idle", url},
             {"doctor", "--color", url},
             {"doctor", "--url=" + url},
             {"doctor", url, "--nonsense"},
             {"doctor", url, "--processes", "S3CRET@db"},
             {"doctor", "postgresql://app:a S3CRET with, spaces@db", "postgresql://a:b S3CRET@c"},
             {"doctor", "postgresql://app:at@S3CRET@db", "postgresql://app:at@S3CRET@db"},
             {"doctor", "postgresql://app:S3CRET", "postgresql://app:S3CRET"},
             {"doctor", "app:S3CRET@db/orders"},
             {"app:S3CRET@db/orders"},
             {"--url=" + url},
             {"-" + url},
             {"bench", "--max", "2," + url},
             {"bench", "--max", url, "--max", url},
             {"bench", "--rate", url},
             {"bench", url, "--html", "/nowhere/" + url},
             {"bench", "ftp://app:S3CRET@db"},
             {"size", url, url},
             {"size", "--up-to", url},
             {"sim", url},
             {"completion", url},
             {"help", url},
             {"help", url, url},
             {"doctor", "host=db dbname=orders user=app password=S3CRET"},
             {"doctor", "--max", "host=db password=S3CRET"},
             {"doctor", "host=db", "user=app", "password=S3CRET", "--nonsense"},
             {"doctor", "Server=db;Uid=app;Pwd=S3CRET", "Server=db;Uid=app;Pwd=S3CRET"},
             {"sim", "--replay", "host=db password=S3CRET"},
             {"doctor", "redis://db", "-a", "S3CRET"},
             {"doctor", "redis-cli", "-h", "db", "-a", "S3CRET"},
             {"doctor", "mysql", "-h", "db", "-uapp", "-pS3CRET", "orders"},
             {"doctor", "mysql", "-h", "db", "-u", "app", "-p", "S3CRET"},
             {"bench", "-pS3CRET"},
             {"bench", "--password=S3CRET"},
             {"size", "postgresql://app@db/x", "S3CRET"}}) {
        tools::output said = tools::cenote(arguments);
        EXPECT_NE(said.code, 0) << arguments.back();
        EXPECT_NE(said.err, "");
        EXPECT_THAT(said.err + said.out, Not(HasSubstr("S3CRET"))) << arguments.back();
    }
}

TEST(command_test, answers_other_notations_with_the_url) {
    struct {
        std::vector<std::string> arguments;
        std::string url;
    } const cases[] = {
        {{"host=db dbname=orders user=app password=x"}, "postgresql://app:***@db/orders"},
        // Without quotes.
        {{"host=db", "dbname=orders", "user=app"}, "postgresql://app@db/orders"},
        {{"Server=db;Uid=app;Pwd=x;Database=orders"}, "mariadb://app:***@db/orders"},
        {{"jdbc:mariadb://db/orders?user=app"}, "mariadb://app@db/orders"},
        {{"postgresql+psycopg2://app:x@db/orders"}, "postgresql://app:***@db/orders"},
        {{"db.example.com:5432"}, "postgresql://USER@db.example.com:5432/DATABASE"},
        {{"redis-cli -h db -a x"}, "redis://:***@db"},
        {{"redis-cli", "-h", "db", "-a", "x"}, "redis://:***@db"},
        {{"psql", "-h", "db", "-U", "app", "orders"}, "postgresql://app@db/orders"},
        {{"/var/lib/orders.db"}, "sqlite:/var/lib/orders.db"},
    };
    for (const auto& [arguments, url] : cases)
        for (const char* name : {"doctor", "bench", "size", "demo"}) {
            std::vector<std::string> all{name};
            all.insert(all.end(), arguments.begin(), arguments.end());
            tools::output said = tools::cenote(all);
            EXPECT_EQ(said.code, 2) << name << " " << arguments[0];
            EXPECT_THAT(said.err, testing::ContainsRegex("cenote: this is .*; use ")) << said.err;
            EXPECT_THAT(said.err, HasSubstr("use " + url + "\n")) << said.err;
            EXPECT_EQ(said.out, "");
        }
    // Also if the password comes from elsewhere.
    EXPECT_THAT(tools::cenote({"doctor", "host=db user=app", "--password-file", "/dev/null"}).err,
                HasSubstr("use postgresql://app@db/DATABASE"));
}

TEST(command_test, an_unreachable_server_is_a_case_for_the_doctor) {
    for (const char* name : {"bench", "size", "demo"}) {
        tools::output said = tools::cenote({name, "postgresql://app:S3CRET@127.0.0.1:1/orders"});
        EXPECT_EQ(said.code, 1);
        EXPECT_THAT(said.err, HasSubstr("Connection refused"));
        EXPECT_THAT(said.err,
                    testing::EndsWith("\n  Run 'cenote doctor URL' to find the cause.\n"));
    }
}

tools::output in_shell(const std::string& script) {
    return tools::program({"/bin/bash", "-c", script}).wait();
}

TEST(command_test, a_closed_pipe_ends_it_without_a_word) {
    tools::output said =
        in_shell(CENOTE_COMMAND " sim --steps 1000000 | head -1; echo ${PIPESTATUS[0]}");
    EXPECT_THAT(said.out, testing::MatchesRegex("seed 0: [^\n]*\n141\n"));
    EXPECT_EQ(said.err, "");
    said = in_shell(CENOTE_COMMAND " doctor 'sqlite:pipe?mode=memory' > >(exec true); echo $?");
    EXPECT_EQ(said.err, "");
}

TEST(command_test, a_full_disk_is_a_failure) {
    for (const char* arguments : {"sim", "--help", "help doctor", "completion bash",
                                  "doctor 'sqlite:full?mode=memory' --json"}) {
        tools::output said = in_shell(std::string(CENOTE_COMMAND " ") + arguments + " > /dev/full");
        EXPECT_EQ(said.code, 1) << arguments;
        EXPECT_THAT(said.err, StartsWith("cenote: cannot write the output")) << arguments;
    }
}

TEST(command_test, a_list_of_sizes_does_not_swallow_the_url) {
    // The error is about the URL, not about --max.
    tools::output said = tools::cenote({"bench", "--max", "2,4", "ftp://app:S3CRET@db"});
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.err, HasSubstr("unsupported URL scheme 'ftp:'"));
    for (const char* wrong : {"", ",", "2,", "2,,4", "2;4", "2 4"})
        EXPECT_THAT(tools::cenote({"bench", "--max", wrong}).err, HasSubstr("4,8,16")) << wrong;
}

TEST(command_test, uses_colors_only_on_request_or_on_a_terminal) {
    EXPECT_THAT(tools::cenote({"sim"}).out, Not(HasSubstr("\033")));
    EXPECT_THAT(tools::cenote({"sim", "--color", "always"}).out, HasSubstr("\033["));
    EXPECT_THAT(tools::cenote({"sim", "--color", "always", "--no-color"}).out,
                Not(HasSubstr("\033")));
    // script(1) provides a terminal.
    auto on_terminal = [](const std::string& before) {
        return tools::program(
                   {"/usr/bin/script", "-qec", before + CENOTE_COMMAND + " sim", "/dev/null"})
            .wait()
            .out;
    };
    EXPECT_THAT(on_terminal("TERM=xterm "), HasSubstr("\033["));
    EXPECT_THAT(on_terminal("TERM=xterm NO_COLOR=1 "), Not(HasSubstr("\033[")));
    EXPECT_THAT(on_terminal("TERM=dumb "), Not(HasSubstr("\033[")));
}

TEST(command_test, shows_progress_on_a_terminal_only) {
    const char* title = "keeping a connection idle █";
    std::string command = CENOTE_COMMAND " doctor 'sqlite:bar?mode=memory' --idle ";
    // A busy machine may need more time to draw the bar twice.
    tools::output shown;
    for (int time = 300; time < 30'000; time *= 2) {
        command.erase(command.rfind(' ') + 1);
        command += std::to_string(time) + "ms";
        shown = tools::program({"/usr/bin/script", "-qec", "TERM=xterm " + command, "/dev/null"})
                    .wait();
        if (shown.out.find(title) != std::string::npos) break;
    }
    EXPECT_THAT(shown.out, HasSubstr(title));
    tools::output piped = tools::program({"/bin/sh", "-c", command}).wait();
    EXPECT_EQ(piped.err, "");
    EXPECT_THAT(piped.out, Not(HasSubstr("█")));
}

TEST(command_test, json_is_the_only_output_on_stdout) {
    for (std::vector<std::string> arguments :
         {std::vector<std::string>{"sim", "--json", "--color", "always"},
          {"doctor", "sqlite:json?mode=memory", "--json", "--color", "always"},
          {"doctor", "redis://127.0.0.1:1", "--json"}}) {
        tools::output said = tools::cenote(arguments);
        tools::parsed(said);
        EXPECT_EQ(said.err, "");
    }
}

/// The completions that bash offers for these words, of which the last is unfinished.
std::string completed(const std::string& words, int at) {
    std::string script = "source <(" CENOTE_COMMAND
                         " completion bash)\n"
                         "COMP_WORDS=(" +
                         words +
                         ")\n"
                         "COMP_CWORD=" +
                         std::to_string(at) +
                         "\n"
                         "_cenote\n"
                         "echo \"${COMPREPLY[*]}\"\n";
    tools::output said = tools::program({"/bin/bash", "-uc", script}).wait();
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.err, "");
    return said.out;
}

TEST(command_test, bash_completes_subcommands_options_and_values) {
    EXPECT_EQ(completed("cenote doc", 1), "doctor\n");
    std::string all = completed("cenote ''", 1);
    for (const std::string& name : subcommands()) EXPECT_THAT(all, HasSubstr(name));
    EXPECT_THAT(all, HasSubstr("--version"));
    EXPECT_EQ(completed("cenote doctor --max-", 2), "--max-lifetime\n");
    EXPECT_EQ(completed("cenote doctor --color ''", 3), "auto always never\n");
    EXPECT_EQ(completed("cenote doctor sqlite:x --color a", 4), "auto always\n");
    EXPECT_EQ(completed("cenote completion z", 2), "zsh\n");
    EXPECT_EQ(completed("cenote help do", 2), "doctor\n");
    EXPECT_EQ(completed("cenote help u", 2), "urls\n");
    EXPECT_EQ(completed("cenote sim --seed ''", 3), "\n");
    EXPECT_THAT(completed("cenote sim --replay /et", 3), HasSubstr("/etc"));
    EXPECT_THAT(completed("cenote sim --", 2), Not(HasSubstr("--max-lifetime")));
}

/// The options that the help of a subcommand lists.
std::vector<std::string> options_of(const std::string& name) {
    std::string help = tools::cenote({name, "--help"}).out;
    std::vector<std::string> all;
    for (std::size_t at = help.find("--"); at != std::string::npos; at = help.find("--", at)) {
        std::size_t end = help.find_first_not_of("-abcdefghijklmnopqrstuvwxyz", at);
        bool listed = help.rfind('\n', at) + 3 == at || help[at - 1] == ',';
        if (listed) all.push_back(help.substr(at, end - at));
        at = end;
    }
    return all;
}

TEST(command_test, every_option_of_the_help_is_completed) {
    for (const std::string& name : subcommands()) {
        std::string offered = " " + completed("cenote " + name + " --", 2);
        offered.back() = ' ';
        for (const std::string& option : options_of(name))
            EXPECT_THAT(offered, HasSubstr(" " + option + " ")) << name;
    }
}

/// A manual page with plain hyphens.
std::string manual(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "manual");
    tools::output said = tools::cenote(arguments);
    EXPECT_EQ(said.code, 0) << said.err;
    for (std::size_t at = 0; (at = said.out.find("\\-", at)) != std::string::npos;)
        said.out.erase(at, 1);
    return said.out;
}

TEST(command_test, every_subcommand_has_a_manual_page_with_its_options) {
    std::string main_page = manual({});
    EXPECT_THAT(main_page, HasSubstr("\n.SH NAME\ncenote - tools for running pools"));
    for (const std::string& name : subcommands()) {
        if (name == "help") continue;
        EXPECT_THAT(main_page, HasSubstr("\\fBcenote-" + name + "\\fR(1)"));
        std::string page = manual({name});
        EXPECT_THAT(page, HasSubstr("\n.SH NAME\ncenote-" + name + " - "));
        EXPECT_THAT(page, HasSubstr("\n.SH SYNOPSIS\n\\fBcenote " + name + "\\fR"));
        for (const std::string& option : options_of(name))
            EXPECT_THAT(page, HasSubstr("\\fB" + option + "\\fR")) << name;
    }
    tools::output unknown = tools::cenote({"manual", "docter"});
    EXPECT_EQ(unknown.code, 2);
    EXPECT_EQ(unknown.err, "cenote: there is no subcommand 'docter'; did you mean 'doctor'?\n");
}

TEST(command_test, scripts_for_other_shells_name_everything) {
    for (const char* shell : {"zsh", "fish"}) {
        tools::output said = tools::cenote({"completion", shell});
        EXPECT_EQ(said.code, 0);
        for (const std::string& name : subcommands())
            EXPECT_THAT(said.out, HasSubstr(name)) << shell;
        EXPECT_THAT(said.out, HasSubstr("max-lifetime")) << shell;
        EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\'') % 2, 0) << shell;
    }
}

}  // namespace
