// cenote size, as a user runs it: on the embedded default and on real servers. How good its advice
// is depends on a quiet machine: tests/sim/sizing_test.cpp shows it on servers that are known, and
// docs/guide/sizing.md how to see it on a real one.
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "connector/sqlite_file.hpp"
#include "program.hpp"
#include "support/real_server.hpp"
#include <cenote/postgres.hpp>

namespace {

using namespace std::chrono_literals;
namespace json = boost::json;
using support::canary_password;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

/// On a busy machine there may be a look at which nothing is done in time, or a statement that
/// seems slow. Then it is given more time.
tools::said with_time(const std::vector<std::string>& words) {
    tools::said said;
    for (int time = 500; time < 30'000; time *= 2) {
        std::vector<std::string> all = {"size", "--duration", std::to_string(time) + "ms"};
        all.insert(all.end(), words.begin(), words.end());
        said = tools::cenote(all);
        bool slow = said.err.find("nobody was done in") != std::string::npos ||
                    said.err.find("too long for") != std::string::npos;
        if (!slow) break;
    }
    return said;
}

json::value ask(std::vector<std::string> words) {
    words.insert(words.begin(), {"--json", "--up-to", "8"});
    auto said = with_time(words);
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_THAT(said.out + said.err, Not(HasSubstr(canary_password)));
    boost::json::error_code error;
    json::value document = json::parse(said.out, error);
    EXPECT_FALSE(error) << said.out;
    return document;
}

std::uint64_t count(const json::value& v) { return v.to_number<std::uint64_t>(); }

/// What holds whatever was measured.
void expect_sound(const json::value& document, std::uint64_t most) {
    EXPECT_EQ(count(document.at("measured").at(0).at("at_once")), 1u);
    for (const json::value& m : document.at("measured").as_array()) {
        EXPECT_GT(m.at("throughput_per_second").to_number<double>(), 0);
        EXPECT_GE(m.at("service_p95_seconds").to_number<double>(),
                  m.at("service_p50_seconds").to_number<double>());
    }
    const json::value& advice = document.at("recommendation");
    EXPECT_GE(count(advice.at("max")), 1u);
    EXPECT_LE(count(advice.at("max")), most);
    EXPECT_LE(count(advice.at("min_idle")), count(advice.at("max")));
    EXPECT_GE(advice.at("acquire_timeout_seconds").to_number<double>(), 0.1);
    std::string reason(advice.at("reason").as_string());
    std::uint64_t processes = count(advice.at("processes"));
    std::uint64_t best = count(advice.at("best_of_all_processes"));
    EXPECT_EQ(count(advice.at("max_without_limit")), (best + processes - 1) / processes);
    EXPECT_LE(best, count(advice.at("largest_tried")));
    EXPECT_THAT(reason, HasSubstr(processes == 1 ? "pool of " + std::to_string(best)
                                                 : std::to_string(best) + " connection"));
}

TEST(size, of_the_embedded_default_recommends_something_and_draws_it) {
    support::sqlite_file file;
    auto picture = file.folder() / "size.svg";
    json::value document = ask({"--brute-force", "--svg", picture.string()});
    expect_sound(document, 8);
    EXPECT_TRUE(document.at("limit").is_null());
    const json::value& tried = document.at("brute_force");
    EXPECT_EQ(tried.at("curve").as_array().size(), 8u);
    double best = tried.at("best").to_number<double>();
    double max = document.at("recommendation").at("max").to_number<double>();
    EXPECT_NEAR(tried.at("difference").to_number<double>(), max / best - 1, 1e-9);
    std::ifstream stream(picture);
    boost::property_tree::ptree tree;
    ASSERT_NO_THROW(boost::property_tree::read_xml(stream, tree));
    EXPECT_EQ(tree.count("svg"), 1u);
}

TEST(size, for_people_says_why_in_two_sentences) {
    auto said = with_time({"--up-to", "4", "--rate", "50"});
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.err, "");
    EXPECT_THAT(said.out, HasSubstr("acquire_timeout"));
    EXPECT_THAT(said.out, HasSubstr("At 50/s"));
    EXPECT_THAT(said.out, Not(HasSubstr("\033")));
}

class size_on_postgres : public testing::Test {
protected:
    static std::string url() {
        static support::postgres_server server({.max_connections = 20});
        return "postgresql://app:" + std::string(canary_password) +
               "@127.0.0.1:" + std::to_string(server.port()) + "/orders";
    }
};

TEST_F(size_on_postgres, knows_the_servers_limit) {
    json::value document = ask({url()});
    expect_sound(document, 8);
    std::uint64_t limit = count(document.at("limit").at("connections"));
    EXPECT_GE(limit, 20u);
    EXPECT_LT(limit, 40u);
    EXPECT_THAT(std::string(document.at("limit").at("said_by").as_string()),
                HasSubstr("connection"));
}

TEST_F(size_on_postgres, never_recommends_more_than_the_share_of_a_process) {
    json::value document = ask({url(), "--processes", "15"});
    std::uint64_t limit = count(document.at("limit").at("connections"));
    expect_sound(document, limit / 15);
    const json::value& advice = document.at("recommendation");
    EXPECT_LE(15 * count(advice.at("max")), limit);
    bool binds = count(advice.at("max")) < count(advice.at("max_without_limit"));
    EXPECT_EQ(advice.at("limit_binds").as_bool(), binds);
    // However few are best for the server, each needs one.
    EXPECT_GE(count(advice.at("max")), 1u);
    std::string reason(advice.at("reason").as_string());
    EXPECT_THAT(reason, AnyOf(HasSubstr("more than is good for the server"),
                              HasSubstr("That may not be all")));
}

TEST_F(size_on_postgres, looks_longer_at_a_slow_statement_or_says_how_long_it_would_take) {
    auto said =
        with_time({url(), "--statement", "SELECT pg_sleep(0.01)", "--up-to", "2", "--json"});
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(json::parse(said.out).at("measured").as_array().size(), 2u);
    said = tools::cenote({"size", url(), "--statement", "SELECT pg_sleep(0.1)", "--duration",
                          "500ms", "--up-to", "8"});
    EXPECT_EQ(said.code, 1) << said.out;
    EXPECT_THAT(said.err, HasSubstr("one statement takes"));
    EXPECT_THAT(said.err, HasSubstr("--duration"));
}

TEST_F(size_on_postgres, leaves_alone_what_others_have) {
    cenote::postgres::connector connector{url()};
    std::vector<cenote::postgres::connection> others;
    for (int i = 0; i < 13; ++i) others.push_back(connector.open());
    json::value document = ask({url()});
    for (auto& one : others) connector.close(one);
    std::uint64_t limit = count(document.at("limit").at("connections"));
    EXPECT_GE(count(document.at("limit").at("in_use")), 13u);
    EXPECT_LT(count(document.at("recommendation").at("largest_tried")), limit - 13);
}

TEST_F(size_on_postgres, says_so_if_there_is_not_one_for_each) {
    auto said = tools::cenote({"size", url(), "--processes", "1000", "--duration", "1s"});
    EXPECT_EQ(said.code, 1);
    EXPECT_THAT(said.err, HasSubstr("1000 processes cannot share"));
    EXPECT_THAT(said.err, Not(HasSubstr(canary_password)));
}

TEST(size, asks_mariadb_for_its_limit) {
    support::mariadb_server server({.max_connections = 12});
    json::value document = ask({"mariadb://app:" + std::string(canary_password) +
                                    "@127.0.0.1:" + std::to_string(server.port()) + "/orders",
                                "--processes", "3"});
    EXPECT_EQ(count(document.at("limit").at("connections")), 12u);
    expect_sound(document, 3);
}

TEST(size, says_if_it_has_not_seen_where_it_ends) {
    auto said = with_time({"--up-to", "1", "--json"});
    ASSERT_EQ(said.code, 0) << said.err;
    json::value document = json::parse(said.out);
    const json::value& advice = document.at("recommendation");
    EXPECT_TRUE(advice.at("best_is_largest_tried").as_bool());
    EXPECT_THAT(std::string(advice.at("reason").as_string()), HasSubstr("try --up-to 2"));
    // At a rate that nothing keeps up with, neither.
    said = with_time({"--up-to", "2", "--rate", "1000000", "--json"});
    ASSERT_EQ(said.code, 0) << said.err;
    document = json::parse(said.out);
    EXPECT_FALSE(document.at("recommendation").at("keeps_up").as_bool());
    std::string reason(document.at("recommendation").at("reason").as_string());
    EXPECT_THAT(reason, HasSubstr("of sizes up to 2 keeps up"));
    EXPECT_THAT(reason, Not(HasSubstr("whatever the size")));
}

TEST(size, divides_what_is_best_among_the_processes) {
    json::value document = ask({"--processes", "3"});
    expect_sound(document, 3);
    EXPECT_EQ(count(document.at("recommendation").at("processes")), 3u);
}

TEST(size, that_is_interrupted_early_recommends_nothing) {
    tools::program program({CENOTE_COMMAND, "size", "--duration", "1h", "--json"});
    ASSERT_TRUE(program.works_for(50ms));
    program.send(SIGINT);
    tools::said said = program.wait();
    EXPECT_EQ(said.code, 130);
    json::value document = json::parse(said.out);
    EXPECT_TRUE(document.at("recommendation").is_null());
    EXPECT_TRUE(document.at("interrupted").as_bool());
}

TEST(size, refuses_what_makes_no_sense) {
    for (std::vector<std::string> words :
         std::vector<std::vector<std::string>>{{"--processes", "0"},
                                               {"--up-to", "0"},
                                               {"--rate", "0"},
                                               {"--rate", "1e-9"},
                                               {"--rate", "1e9"},
                                               {"--duration", "1ms"},
                                               {"--seed", "x"},
                                               {"amqp://example.com"}}) {
        words.insert(words.begin(), "size");
        auto said = tools::cenote(words);
        EXPECT_EQ(said.code, 2) << words[1];
        EXPECT_NE(said.err, "") << words[1];
        EXPECT_EQ(said.out, "") << words[1];
    }
}

}  // namespace
