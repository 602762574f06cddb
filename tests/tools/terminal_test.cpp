// Colors, tables, signals, durations and JSON texts of the command.
#include "cenote/terminal.hpp"

#include <boost/json/value.hpp>
#include <chrono>
#include <csignal>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/command.hpp"

namespace {

using namespace std::chrono_literals;
using terminal::table;
using terminal::tint;

const terminal::palette plain(terminal::color_choice::never);
const terminal::palette colored(terminal::color_choice::always);

TEST(terminal_test, colors_surround_the_text_or_are_missing) {
    EXPECT_EQ(plain(tint::red, "no"), "no");
    EXPECT_EQ(colored(tint::red, "no"), "\033[31mno\033[0m");
    EXPECT_EQ(colored(tint::plain, "no"), "no");
    EXPECT_EQ(colored(tint::red, ""), "");
}

TEST(terminal_test, columns_are_the_displayed_width) {
    EXPECT_EQ(terminal::columns_of("abc"), 3u);
    EXPECT_EQ(terminal::columns_of("8 × 32"), 6u);
    EXPECT_EQ(terminal::columns_of(colored(tint::green, "ok")), 2u);
    EXPECT_EQ(terminal::columns_of("\033"), 0u);
}

TEST(terminal_test, tables_are_aligned_with_and_without_colors) {
    table t({{"name"}, {"ms", table::align::right}});
    t.add({colored(tint::red, "a"), "1"});
    t.add({"×××××", "1000"});
    t.add({"last"});
    EXPECT_EQ(t.to_text(plain, "  "),
              "  name     ms\n"
              "  \033[31ma\033[0m         1\n"
              "  ×××××  1000\n"
              "  last\n");
    EXPECT_EQ(table({{""}, {""}}).to_text(plain), "");
}

TEST(terminal_test, text_is_broken_at_spaces) {
    EXPECT_EQ(terminal::wrap("aa bb cc", 5), (std::vector<std::string>{"aa bb", "cc"}));
    EXPECT_EQ(terminal::wrap("aaaaaaaa b", 5), (std::vector<std::string>{"aaaaaaaa", "b"}));
    EXPECT_EQ(terminal::wrap("", 5), (std::vector<std::string>{""}));
}

TEST(terminal_test, bars_fill_from_left_to_right) {
    EXPECT_EQ(terminal::bar(0, 4), "░░░░");
    EXPECT_EQ(terminal::bar(0.5, 4), "██░░");
    EXPECT_EQ(terminal::bar(0.625, 4), "██▌░");
    EXPECT_EQ(terminal::bar(7, 4), "████");
    EXPECT_EQ(terminal::columns_of(terminal::bar(0.3, 10)), 10u);
}

TEST(terminal_test, a_signal_requests_a_stop_and_later_ones_are_as_before) {
    {
        terminal::interruption it;
        EXPECT_FALSE(it.happened());
        EXPECT_TRUE(it.sleep_for(1ms));
        ::kill(::getpid(), SIGINT);
        EXPECT_FALSE(it.sleep_for(1min));
        EXPECT_TRUE(it.happened());
    }
    terminal::interruption again;
    EXPECT_FALSE(again.happened());
}

TEST(terminal_test, the_second_signal_ends_the_program) {
    auto twice = [] {
        terminal::interruption it;
        ::kill(::getpid(), SIGTERM);
        it.sleep_for(1min);
        ::kill(::getpid(), SIGTERM);
        for (;;) ::pause();
    };
    EXPECT_EXIT(twice(), testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST(terminal_test, the_second_signal_prints_the_exit_notices) {
    auto twice = [] {
        terminal::exit_notice other("another");
        {
            terminal::exit_notice gone("gone");
        }
        terminal::exit_notice table("the table cenote_bench_x may be left behind");
        terminal::interruption it;
        ::kill(::getpid(), SIGINT);
        it.sleep_for(1min);
        ::kill(::getpid(), SIGINT);
        for (;;) ::pause();
    };
    EXPECT_EXIT(twice(), testing::ExitedWithCode(128 + SIGINT),
                testing::AllOf(testing::HasSubstr("cenote_bench_x may be left behind"),
                               testing::Not(testing::HasSubstr("gone"))));
}

TEST(terminal_test, hanging_up_is_an_interruption_unless_it_is_ignored) {
    auto before = std::signal(SIGHUP, SIG_DFL);
    {
        terminal::interruption it;
        ::kill(::getpid(), SIGHUP);
        EXPECT_FALSE(it.sleep_for(1min));
    }
    std::signal(SIGHUP, SIG_IGN);
    {
        terminal::interruption it;
        ::kill(::getpid(), SIGHUP);
        EXPECT_TRUE(it.sleep_for(30ms));
    }
    std::signal(SIGHUP, before);
}

TEST(terminal_test, printable_removes_control_characters) {
    EXPECT_EQ(terminal::printable("plain ß × text\nline"), "plain ß × text\nline");
    EXPECT_EQ(terminal::printable("\033[2Jgone\a\r\x7f\tx\xc2\x9b"), "[2Jgone x");
    EXPECT_EQ(terminal::printable("\xc2"), "\xc2");
}

TEST(terminal_test, texts_are_cut_between_characters) {
    EXPECT_EQ(terminal::cut("p99 12 µs", 8), "p99 12 µ");
    EXPECT_EQ(terminal::cut("p99 12 µs", 7), "p99 12 ");
    EXPECT_EQ(terminal::cut("short", 8), "short");
}

TEST(terminal_test, durations_are_parsed_and_printed) {
    EXPECT_EQ(command::parse_duration("250ms"), 250ms);
    EXPECT_EQ(command::parse_duration("5"), 5s);
    EXPECT_EQ(command::parse_duration("1.5s"), 1500ms);
    EXPECT_EQ(command::parse_duration("2min"), 2min);
    EXPECT_EQ(command::parse_duration("1h"), 1h);
    for (const char* small : {"1.5us", "1.5µs", "1.5\u03bcs"})
        EXPECT_EQ(command::parse_duration(small), 1500ns) << small;
    for (const char* wrong : {"", "s", "5x", "-1s", "5 s", "nan", "inf", "1e300h", "5ss"})
        EXPECT_THROW(command::parse_duration(wrong), std::invalid_argument) << wrong;
    EXPECT_EQ(command::in_words(0ns), "0 µs");
    EXPECT_EQ(command::in_words(250ns), "0.25 µs");
    EXPECT_EQ(command::in_words(1500ns), "1.5 µs");
    EXPECT_EQ(command::in_words(1250us), "1.25 ms");
    EXPECT_EQ(command::in_words(12'340us), "12.3 ms");
    EXPECT_EQ(command::in_words(12'345us), "12.3 ms");
    EXPECT_EQ(command::in_words(500ms), "500 ms");
    EXPECT_EQ(command::in_words(2s), "2 s");
    EXPECT_EQ(command::in_words(60s), "60 s");
    EXPECT_EQ(command::in_words(5min), "5 min");
    EXPECT_EQ(command::in_words(-90s), "-90 s");
    EXPECT_EQ(command::in_words(72h), "3 days");
    EXPECT_EQ(command::seconds_in_words(1e-5), "10 µs");
    EXPECT_EQ(command::seconds_in_words(0.1), "100 ms");
}

TEST(terminal_test, documents_are_indented_json) {
    boost::json::value v = {{"a", 29.0},
                            {"b", {1, 2.5, "x\n"}},
                            {"c", {{{"d", nullptr}}}},
                            {"e", boost::json::array()}};
    EXPECT_EQ(command::to_text(v),
              "{\n"
              "  \"a\": 29.0,\n"
              "  \"b\": [1, 2.5, \"x\\n\"],\n"
              "  \"c\": [\n"
              "    {\n"
              "      \"d\": null\n"
              "    }\n"
              "  ],\n"
              "  \"e\": []\n"
              "}");
}

}  // namespace
