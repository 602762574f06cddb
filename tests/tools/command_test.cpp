// The command as a whole: help, errors, colors, completion, progress.
#include <boost/json/parse.hpp>
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
    EXPECT_THAT(subcommands(), testing::IsSupersetOf({"demo", "doctor", "sim", "completion"}));
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
        {{"doctor"}, "cenote: URL is required\n"},
        {{"doctor", "sqlite:x", "--foo"},
         "cenote: The following argument was not expected: --foo\n"},
        {{"doctor", "sqlite:x", "--idle", "soon"},
         "cenote: 'soon' is not a duration: use 250ms, 5s, 2min or 1h\n"},
        {{"doctor", "sqlite:x", "--timeout", "0"},
         "cenote: --timeout must be between 1ms and 10min\n"},
        {{"completion", "csh"}, "cenote: SHELL: csh not in {bash,zsh,fish}\n"},
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
             {"completion", url}}) {
        tools::output said = tools::cenote(arguments);
        EXPECT_NE(said.code, 0) << arguments.back();
        EXPECT_NE(said.err, "");
        EXPECT_THAT(said.err + said.out, Not(HasSubstr("S3CRET"))) << arguments.back();
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
    EXPECT_EQ(completed("cenote sim --seed ''", 3), "\n");
    EXPECT_THAT(completed("cenote sim --replay /et", 3), HasSubstr("/etc"));
    EXPECT_THAT(completed("cenote sim --", 2), Not(HasSubstr("--max-lifetime")));
}

TEST(command_test, every_option_of_the_help_is_completed) {
    for (const std::string& name : subcommands()) {
        std::string help = tools::cenote({name, "--help"}).out;
        std::string offered = " " + completed("cenote " + name + " --", 2);
        offered.back() = ' ';
        for (std::size_t at = help.find("--"); at != std::string::npos; at = help.find("--", at)) {
            std::size_t end = help.find_first_not_of("-abcdefghijklmnopqrstuvwxyz", at);
            bool listed = help.rfind('\n', at) + 3 == at || help[at - 1] == ',';
            if (listed) {
                EXPECT_THAT(offered, HasSubstr(" " + help.substr(at, end - at) + " "));
            }
            at = end;
        }
    }
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
