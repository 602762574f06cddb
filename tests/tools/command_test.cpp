// The command as a whole: help, complaints, colours, completion, interruption.
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

/// The words, as the help lists them.
std::vector<std::string> words() {
    std::string help = tools::cenote({"--help"}).out;
    std::vector<std::string> all;
    std::size_t at = help.find("\nWords:\n") + 8;
    for (; help.compare(at, 2, "  ") == 0; at = help.find('\n', at) + 1)
        if (help[at + 2] != ' ')
            all.push_back(help.substr(at + 2, help.find(' ', at + 2) - at - 2));
    return all;
}

TEST(command_test, help_lists_the_words_and_each_has_its_own) {
    tools::said said = tools::cenote({"--help"});
    EXPECT_EQ(said.code, 0);
    EXPECT_EQ(said.err, "");
    EXPECT_THAT(words(), testing::IsSupersetOf({"demo", "doctor", "sim", "completion"}));
    for (const std::string& word : words()) {
        tools::said help = tools::cenote({word, "--help"});
        EXPECT_EQ(help.code, 0) << word;
        EXPECT_THAT(help.out, HasSubstr("Usage: cenote " + word)) << word;
        std::size_t longest = 0;
        for (std::size_t at = 0, end; (end = help.out.find('\n', at)) != std::string::npos;
             at = end + 1)
            longest = std::max(
                longest, terminal::columns_of(std::string_view(help.out).substr(at, end - at)));
        EXPECT_LE(longest, 100u) << word << "\n" << help.out;
    }
}

TEST(command_test, knows_its_version) {
    tools::said said = tools::cenote({"--version"});
    EXPECT_EQ(said.code, 0);
    EXPECT_THAT(said.out, testing::MatchesRegex("cenote [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(command_test, complains_in_two_lines_and_returns_2) {
    struct {
        std::vector<std::string> words;
        std::string complaint;
    } const cases[] = {
        {{}, "cenote: no word was said\n"},
        {{"docter"}, "cenote: there is no word 'docter'; was 'doctor' meant?\n"},
        {{"xylophone"}, "cenote: there is no word 'xylophone'\n"},
        {{"doctor"}, "cenote: URL is required\n"},
        {{"doctor", "sqlite:x", "--foo"},
         "cenote: The following argument was not expected: --foo\n"},
        {{"doctor", "sqlite:x", "--idle", "soon"},
         "cenote: 'soon' is no time: say 250ms, 5s, 2min or 1h\n"},
        {{"doctor", "sqlite:x", "--timeout", "0"},
         "cenote: --timeout must be between 1ms and 10min\n"},
        {{"completion", "csh"}, "cenote: SHELL: csh not in {bash,zsh,fish}\n"},
    };
    for (const auto& [words, complaint] : cases) {
        tools::said said = tools::cenote(words);
        EXPECT_EQ(said.code, 2) << said.err;
        EXPECT_THAT(said.err, StartsWith(complaint));
        EXPECT_EQ(said.out, "");
        EXPECT_LE(std::count(said.err.begin(), said.err.end(), '\n'), 2) << said.err;
    }
}

TEST(command_test, prints_no_password_whatever_is_wrong) {
    const std::string url = "postgresql://app:S3CRET@db/orders";
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
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
        tools::said said = tools::cenote(words);
        EXPECT_NE(said.code, 0) << words.back();
        EXPECT_NE(said.err, "");
        EXPECT_THAT(said.err + said.out, Not(HasSubstr("S3CRET"))) << words.back();
    }
}

TEST(command_test, a_list_of_sizes_does_not_swallow_the_url) {
    // The URL is the URL: it is of a kind that no load can be run on.
    tools::said said = tools::cenote({"bench", "--max", "2,4", "ftp://app:S3CRET@db"});
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.err, HasSubstr("URLs that begin with ftp:"));
    for (const char* wrong : {"", ",", "2,", "2,,4", "2;4", "2 4"})
        EXPECT_THAT(tools::cenote({"bench", "--max", wrong}).err, HasSubstr("4,8,16")) << wrong;
}

TEST(command_test, colours_only_if_asked_or_on_a_terminal) {
    EXPECT_THAT(tools::cenote({"sim"}).out, Not(HasSubstr("\033")));
    EXPECT_THAT(tools::cenote({"sim", "--color", "always"}).out, HasSubstr("\033["));
    EXPECT_THAT(tools::cenote({"sim", "--color", "always", "--no-color"}).out,
                Not(HasSubstr("\033")));
    // script(1) gives it a terminal.
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

TEST(command_test, long_work_has_a_bar_on_a_terminal_only) {
    std::string command = CENOTE_COMMAND " doctor 'sqlite:bar?mode=memory' --idle ";
    // On a busy machine there may be no time to draw it twice. Then it is given more.
    tools::said shown;
    for (int time = 300; time < 30'000; time *= 2) {
        command.erase(command.rfind(' ') + 1);
        command += std::to_string(time) + "ms";
        shown = tools::program({"/usr/bin/script", "-qec", "TERM=xterm " + command, "/dev/null"})
                    .wait();
        if (shown.out.find("a connection is idle █") != std::string::npos) break;
    }
    EXPECT_THAT(shown.out, HasSubstr("a connection is idle █"));
    tools::said piped = tools::program({"/bin/sh", "-c", command}).wait();
    EXPECT_EQ(piped.err, "");
    EXPECT_THAT(piped.out, Not(HasSubstr("█")));
}

TEST(command_test, json_is_all_there_is_on_stdout) {
    for (std::vector<std::string> words :
         {std::vector<std::string>{"sim", "--json", "--color", "always"},
          {"doctor", "sqlite:json?mode=memory", "--json", "--color", "always"},
          {"doctor", "redis://127.0.0.1:1", "--json"}}) {
        tools::said said = tools::cenote(words);
        boost::json::error_code error;
        boost::json::parse(said.out, error);
        EXPECT_FALSE(error) << said.out;
        EXPECT_EQ(said.err, "");
    }
}

/// What bash would offer for these words, the last of which is not finished.
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
    tools::said said = tools::program({"/bin/bash", "-uc", script}).wait();
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.err, "");
    return said.out;
}

TEST(command_test, bash_completes_words_options_and_values) {
    EXPECT_EQ(completed("cenote doc", 1), "doctor\n");
    std::string all = completed("cenote ''", 1);
    for (const std::string& word : words()) EXPECT_THAT(all, HasSubstr(word));
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
    for (const std::string& word : words()) {
        std::string help = tools::cenote({word, "--help"}).out;
        std::string offered = " " + completed("cenote " + word + " --", 2);
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
        tools::said said = tools::cenote({"completion", shell});
        EXPECT_EQ(said.code, 0);
        for (const std::string& word : words()) EXPECT_THAT(said.out, HasSubstr(word)) << shell;
        EXPECT_THAT(said.out, HasSubstr("max-lifetime")) << shell;
        EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\'') % 2, 0) << shell;
    }
}

}  // namespace
