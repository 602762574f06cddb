// cenote bench as a user runs it: its counts are consistent, and its files can be read.
#include <algorithm>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "connector/sqlite_file.hpp"
#include "program.hpp"
#include "support/patience.hpp"
#include "support/warded_process.hpp"
#include <cenote/sqlite.hpp>

namespace {

using namespace std::chrono_literals;
namespace json = boost::json;
using support::content_of;
using testing::HasSubstr;
using testing::Not;
using tools::count;
using tools::parsed;

/// Runs a statement without changing the file's journal mode.
std::string execute(const support::sqlite_file& file, const std::string& statement,
                    const std::string& parameters = "?journal_mode=delete") {
    cenote::sqlite::connector connector{file.url(parameters)};
    auto c = connector.open();
    auto rows = c.execute(statement);
    std::string first = rows.empty() ? "" : rows[0].get<std::string>(0);
    connector.close(c);
    return first;
}

void fill(const support::sqlite_file& file) {
    execute(file, "CREATE TABLE orders(id INTEGER PRIMARY KEY)");
}

void expect_ordered(const json::value& times) {
    double before = 0;
    for (const char* p :
         {"p50_seconds", "p90_seconds", "p99_seconds", "p99.9_seconds", "max_seconds"}) {
        double value = times.at(p).to_number<double>();
        EXPECT_GE(value, before) << p;
        before = value;
    }
    EXPECT_LE(times.at("mean_seconds").to_number<double>(), before);
}

/// Checks that hold for every pool size.
void expect_sound(const json::value& one) {
    std::uint64_t leases = count(one.at("leases"));
    EXPECT_GT(leases, 0u);
    EXPECT_LE(count(one.at("writes")), leases);
    for (const char* what : {"wait", "hold", "total"}) {
        EXPECT_EQ(count(one.at(what).at("count")), leases) << what;
        expect_ordered(one.at(what));
    }
    EXPECT_NEAR(one.at("throughput_per_second").to_number<double>(),
                static_cast<double>(leases) / one.at("seconds").to_number<double>(), 0.5);
    const json::value& pool = one.at("pool");
    EXPECT_EQ(count(pool.at("granted")), count(pool.at("released")));
    EXPECT_EQ(count(pool.at("leased")), 0u);
    EXPECT_GE(count(pool.at("granted")), leases);
    EXPECT_LE(count(pool.at("opened")), count(one.at("max")));
    EXPECT_EQ(count(one.at("failures")), 0u);
}

bool each_has_leases(const json::array& sizes) {
    return std::ranges::all_of(sizes, [](auto& one) { return count(one.at("leases")) > 0; });
}

/// Runs cenote bench, longer and longer until the result is `enough`: a busy machine may need more
/// time.
json::value bench(std::vector<std::string> arguments,
                  bool (*enough)(const json::array& sizes) = each_has_leases) {
    arguments.insert(arguments.begin(), {"bench", "--json", "--duration"});
    json::value document;
    for (int time = 300; time < 30'000; time *= 2) {
        auto longer = arguments;
        longer.insert(longer.begin() + 3, std::to_string(time) + "ms");
        auto said = tools::cenote(longer);
        EXPECT_EQ(said.code, 0) << said.err;
        EXPECT_EQ(said.err, "");
        document = parsed(said);
        if (enough(document.at("sizes").as_array())) break;
    }
    return document;
}

std::uint64_t refusals(const json::value& one) {
    std::uint64_t all = 0;
    for (const auto& [why, times] : one.at("refused").as_object()) all += count(times);
    return all;
}

TEST(bench, of_the_embedded_default_adds_up) {
    auto of_one_connection = [](const json::array& sizes) {
        return each_has_leases(sizes) && count(sizes[0].at("leases")) >= 100 &&
               count(sizes[0].at("writes")) > 0;
    };
    json::value document =
        bench({"--max", "1,4", "--warm-up", "100ms", "--concurrency", "8"}, of_one_connection);
    const json::array& sizes = document.at("sizes").as_array();
    ASSERT_EQ(sizes.size(), 2u);
    EXPECT_EQ(count(sizes[0].at("max")), 1u);
    EXPECT_EQ(count(sizes[1].at("max")), 4u);
    for (const json::value& one : sizes) expect_sound(one);
    // Eight borrowers for one connection wait in line, but for those that take turns.
    EXPECT_GT(sizes[0].at("wait").at("p99_seconds").to_number<double>(),
              sizes[0].at("hold").at("p50_seconds").to_number<double>());
    EXPECT_GT(count(sizes[0].at("writes")), 0u);
}

TEST(bench, by_coroutines_at_a_rate_comes_as_often_as_it_was_told) {
    json::value document =
        bench({"--rate", "1000", "--threads", "2", "--hold", "1ms", "--warm-up", "0"});
    const json::value& one = document.at("sizes").at(0);
    expect_sound(one);
    // A slow machine leaves some arrivals unserved.
    auto arrivals =
        static_cast<double>(count(one.at("leases")) + count(one.at("unserved")) + refusals(one));
    double expected = 1000 * one.at("seconds").to_number<double>();
    EXPECT_NEAR(arrivals, expected, expected / 4);
    EXPECT_GE(one.at("hold").at("p50_seconds").to_number<double>(), 0.001);
}

TEST(bench, runs_the_users_statement_and_leaves_no_table_behind) {
    support::sqlite_file file;
    fill(file);
    auto said = tools::cenote({"bench", file.url(), "--duration", "200ms", "--warm-up", "0"});
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr("total"));
    said = tools::cenote(
        {"bench", file.url(), "--statement", "SELECT 1 FROM nowhere", "--duration", "1h"});
    EXPECT_EQ(said.code, 1);
    EXPECT_THAT(said.err, HasSubstr("nowhere"));
    said = tools::cenote({"bench", file.url(), "--duration", "200ms", "--warm-up", "0", "--json",
                          "--statement", "SELECT count(*) FROM sqlite_master"});
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(count(parsed(said).at("sizes").at(0).at("writes")), 0u);
    // abs() overflows, so the statement fails if another table is left.
    said =
        tools::cenote({"bench", file.url(), "--duration", "100ms", "--warm-up", "0", "--statement",
                       "SELECT CASE (SELECT count(*) FROM sqlite_master WHERE name LIKE "
                       "'cenote%') WHEN 0 THEN 1 ELSE abs(-9223372036854775808) END"});
    EXPECT_EQ(said.code, 0) << "a table was left behind";
}

TEST(bench, leaves_the_users_file_as_it_was) {
    support::sqlite_file file;
    auto said = tools::cenote({"bench", file.url(), "--duration", "50ms"});
    EXPECT_EQ(said.code, 1);
    EXPECT_THAT(said.err, HasSubstr("no file"));
    EXPECT_FALSE(std::filesystem::exists(file.path())) << "a typo has made a file";
    fill(file);
    said = tools::cenote({"bench", file.url(), "--duration", "50ms", "--warm-up", "0"});
    EXPECT_EQ(said.code, 0) << said.err;
    // What is in the file, not what this connection asks for.
    std::string header = content_of(file.path()).substr(0, 20);
    ASSERT_EQ(header.size(), 20u);
    EXPECT_EQ(header[18], 1) << "2 would be a write-ahead log";
    EXPECT_EQ(execute(file, "SELECT group_concat(name) FROM sqlite_master"), "orders");
}

TEST(bench, drops_its_table_if_filling_it_fails) {
    support::sqlite_file file;
    fill(file);
    // Files may not grow beyond 32 KiB: enough for the table, but not for its rows.
    auto said = tools::program({"/bin/bash", "-c",
                                "trap '' XFSZ; ulimit -f 32; exec " CENOTE_COMMAND " bench '" +
                                    file.url() + "' --duration 50ms"})
                    .wait();
    EXPECT_EQ(said.code, 1) << said.out << said.err;
    EXPECT_EQ(execute(file, "SELECT group_concat(name) FROM sqlite_master"), "orders") << said.err;
}

TEST(bench, fails_if_no_borrower_got_a_lease) {
    // One borrower holds the lease beyond the end. On a busy machine the end may come before the
    // others have tried; then repeat.
    EXPECT_TRUE(support::eventually([] {
        auto said = tools::cenote({"bench", "--max", "1", "--concurrency", "4", "--hold", "500ms",
                                   "--duration", "200ms", "--warm-up", "0", "--acquire-timeout",
                                   "10ms", "--json"});
        json::value document = parsed(said);
        const json::value& one = document.at("sizes").at(0);
        EXPECT_EQ(count(one.at("leases")), 0u);
        EXPECT_EQ(said.code, refusals(one) > 0 ? 1 : 0) << said.out;
        return refusals(one) > 0;
    }));
}

TEST(bench, opens_its_files_before_it_begins) {
    for (const char* option : {"--html", "--json-file"})
        EXPECT_EQ(tools::cenote({"bench", option, "/nowhere/at/all", "--duration", "1h"}).code, 1);
}

TEST(bench, is_interrupted_while_its_borrowers_wait_for_anything) {
    for (std::vector<std::string> more :
         std::vector<std::vector<std::string>>{{"--hold", "1h"},
                                               {"--hold", "1h", "--threads", "2"},
                                               {"--rate", "0.01", "--threads", "2"},
                                               {"--rate", "0.01"}}) {
        std::vector<std::string> words = {
            CENOTE_COMMAND,      "bench", "--max",         "1", "--duration", "1h",
            "--acquire-timeout", "1h",    "--concurrency", "4"};
        words.insert(words.end(), more.begin(), more.end());
        tools::program program(words);
        ASSERT_TRUE(program.settles()) << more.back();
        program.send(SIGINT);
        tools::output said = program.wait();
        EXPECT_NE(said.code, 1) << said.out << said.err;
    }
}

TEST(bench, writes_a_page_without_external_files) {
    support::sqlite_file file;
    auto page = file.folder() / "bench.html", data = file.folder() / "bench.json";
    auto said = tools::cenote({"bench", "--max", "1,2,4", "--duration", "200ms", "--warm-up", "0",
                               "--html", page.string(), "--json-file", data.string(), "--statement",
                               "SELECT '<b>&\"' WHERE 1 < 2"});
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr("Comparison"));
    std::string text = content_of(page);
    std::istringstream stream(text);
    boost::property_tree::ptree tree;
    ASSERT_NO_THROW(boost::property_tree::read_xml(stream, tree)) << text;
    EXPECT_EQ(tree.get<std::string>("html.body.h1"), "cenote bench");
    EXPECT_THAT(text, Not(HasSubstr("<script")));
    EXPECT_THAT(text, Not(HasSubstr("src=")));
    EXPECT_THAT(text, Not(HasSubstr("href=")));
    EXPECT_THAT(text, Not(HasSubstr("url(")));
    EXPECT_THAT(text, HasSubstr("prefers-color-scheme: dark"));
    EXPECT_EQ(json::parse(content_of(data)).at("sizes").as_array().size(), 3u);
}

TEST(bench, prints_the_results_so_far_when_interrupted) {
    // There are no results before the first lease; then interrupt later.
    for (auto work = 50ms; work < 10s; work *= 2) {
        tools::program program({CENOTE_COMMAND, "bench", "--max", "2,4,8", "--duration", "1h",
                                "--warm-up", "0", "--json"});
        ASSERT_TRUE(program.works_for(work));
        program.send(SIGINT);
        tools::output said = program.wait();
        json::value document = parsed(said);
        EXPECT_TRUE(document.at("interrupted").as_bool());
        const json::array& sizes = document.at("sizes").as_array();
        ASSERT_EQ(said.code, 130) << said.err;
        if (sizes.empty()) continue;
        ASSERT_EQ(sizes.size(), 1u);
        expect_sound(sizes[0]);
        return;
    }
    ADD_FAILURE() << "it never got a lease";
}

TEST(bench, rejects_invalid_arguments_with_a_helpful_message) {
    struct wrong {
        std::vector<std::string> arguments;
        const char* message;
    };
    for (const wrong& w : std::vector<wrong>{{{"--max", "0"}, "--max"},
                                             {{"--max", "four"}, "--max"},
                                             {{"--mix", "2"}, "--mix"},
                                             {{"--rate", "-1"}, "--rate"},
                                             {{"--rate", "1e-9"}, "--rate"},
                                             {{"--rate", "1e9"}, "--rate"},
                                             {{"--duration", "soon"}, "250ms"},
                                             {{"--concurrency", "5000"}, "--threads"},
                                             {{"ftp://example.com"}, "postgresql"},
                                             {{"not a url"}, "URL"},
                                             {{"--nonsense"}, "--help"}}) {
        std::vector<std::string> arguments = {"bench"};
        arguments.insert(arguments.end(), w.arguments.begin(), w.arguments.end());
        auto said = tools::cenote(arguments);
        EXPECT_EQ(said.code, 2) << w.arguments[0];
        EXPECT_THAT(said.err, HasSubstr(w.message)) << w.arguments[0];
        EXPECT_EQ(said.out, "") << w.arguments[0];
    }
    EXPECT_EQ(tools::cenote({"bench", "--html", "/nowhere/at/all.html", "--duration", "50ms"}).code,
              1);
    auto help = tools::cenote({"bench", "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, HasSubstr("Examples:"));
}

}  // namespace
