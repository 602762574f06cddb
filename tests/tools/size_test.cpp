// cenote size as a user runs it, on SQLite and on real servers. The quality of its advice is tested
// on simulated servers, by tests/sim/sizing_test.cpp: real ones would need a quiet machine.
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
using tools::count;

/// Runs cenote size, with more time if a busy machine completes no operation or seems too slow.
tools::output with_time(const std::vector<std::string>& arguments) {
    tools::output said;
    for (int time = 500; time < 30'000; time *= 2) {
        std::vector<std::string> all = {"size", "--duration", std::to_string(time) + "ms"};
        all.insert(all.end(), arguments.begin(), arguments.end());
        said = tools::cenote(all);
        bool slow = said.err.find("no operation of") != std::string::npos ||
                    said.err.find("too long for") != std::string::npos;
        if (!slow) break;
    }
    return said;
}

json::value size(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--json", "--up-to", "8"});
    auto said = with_time(arguments);
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_THAT(said.out + said.err, Not(HasSubstr(canary_password)));
    return tools::parsed(said);
}

/// Checks that hold for every measurement.
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

TEST(size, recommends_and_draws_for_the_default_file) {
    support::sqlite_file file;
    auto picture = file.folder() / "size.svg";
    json::value document = size({"--brute-force", "--svg", picture.string()});
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

TEST(size, explains_the_recommendation_as_text) {
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
        return support::app_url("postgresql", server.port());
    }
};

TEST_F(size_on_postgres, reads_the_servers_limit) {
    json::value document = size({url()});
    expect_sound(document, 8);
    std::uint64_t limit = count(document.at("limit").at("connections"));
    EXPECT_GE(limit, 20u);
    EXPECT_LT(limit, 40u);
    EXPECT_THAT(std::string(document.at("limit").at("said_by").as_string()),
                HasSubstr("connection"));
}

TEST_F(size_on_postgres, never_recommends_more_than_the_share_of_a_process) {
    json::value document = size({url(), "--processes", "15"});
    std::uint64_t limit = count(document.at("limit").at("connections"));
    expect_sound(document, limit / 15);
    const json::value& advice = document.at("recommendation");
    EXPECT_LE(15 * count(advice.at("max")), limit);
    bool binds = count(advice.at("max")) < count(advice.at("max_without_limit"));
    EXPECT_EQ(advice.at("limit_binds").as_bool(), binds);
    // Each process needs at least one, even if fewer would be best for the server.
    EXPECT_GE(count(advice.at("max")), 1u);
    std::string reason(advice.at("reason").as_string());
    EXPECT_THAT(reason, AnyOf(HasSubstr("more than is good for the server"),
                              HasSubstr("A larger size may be better")));
}

TEST_F(size_on_postgres, measures_a_slow_statement_longer_or_reports_the_needed_duration) {
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

TEST_F(size_on_postgres, does_not_use_the_connections_of_other_clients) {
    cenote::postgres::connector connector{url()};
    std::vector<cenote::postgres::connection> others;
    for (int i = 0; i < 13; ++i) others.push_back(connector.open());
    json::value document = size({url()});
    for (auto& one : others) connector.close(one);
    std::uint64_t limit = count(document.at("limit").at("connections"));
    EXPECT_GE(count(document.at("limit").at("in_use")), 13u);
    EXPECT_LT(count(document.at("recommendation").at("largest_tried")), limit - 13);
}

TEST_F(size_on_postgres, fails_if_there_is_less_than_one_connection_per_process) {
    auto said = tools::cenote({"size", url(), "--processes", "1000", "--duration", "1s"});
    EXPECT_EQ(said.code, 1);
    EXPECT_THAT(said.err, HasSubstr("1000 processes cannot share"));
    EXPECT_THAT(said.err, Not(HasSubstr(canary_password)));
}

TEST(size, reads_the_limit_of_mariadb) {
    support::mariadb_server server({.max_connections = 12});
    json::value document = size({support::app_url("mariadb", server.port()), "--processes", "3"});
    EXPECT_EQ(count(document.at("limit").at("connections")), 12u);
    expect_sound(document, 3);
}

TEST(size, reports_if_the_best_size_is_the_largest_tried) {
    auto said = with_time({"--up-to", "1", "--json"});
    ASSERT_EQ(said.code, 0) << said.err;
    json::value document = json::parse(said.out);
    const json::value& advice = document.at("recommendation");
    EXPECT_TRUE(advice.at("best_is_largest_tried").as_bool());
    EXPECT_THAT(std::string(advice.at("reason").as_string()), HasSubstr("try --up-to 2"));
    // At a rate that no size keeps up with, too.
    said = with_time({"--up-to", "2", "--rate", "1000000", "--json"});
    ASSERT_EQ(said.code, 0) << said.err;
    document = json::parse(said.out);
    EXPECT_FALSE(document.at("recommendation").at("keeps_up").as_bool());
    std::string reason(document.at("recommendation").at("reason").as_string());
    EXPECT_THAT(reason, HasSubstr("no size up to 2 keeps up"));
    EXPECT_THAT(reason, Not(HasSubstr("No pool size")));
}

TEST(size, divides_the_best_size_among_the_processes) {
    json::value document = size({"--processes", "3"});
    expect_sound(document, 3);
    EXPECT_EQ(count(document.at("recommendation").at("processes")), 3u);
}

TEST(size, that_is_interrupted_early_recommends_nothing) {
    tools::program program({CENOTE_COMMAND, "size", "--duration", "1h", "--json"});
    ASSERT_TRUE(program.works_for(50ms));
    program.send(SIGINT);
    tools::output said = program.wait();
    EXPECT_EQ(said.code, 130);
    json::value document = json::parse(said.out);
    EXPECT_TRUE(document.at("recommendation").is_null());
    EXPECT_TRUE(document.at("interrupted").as_bool());
}

TEST(size, rejects_invalid_arguments) {
    for (std::vector<std::string> arguments :
         std::vector<std::vector<std::string>>{{"--processes", "0"},
                                               {"--up-to", "0"},
                                               {"--rate", "0"},
                                               {"--rate", "1e-9"},
                                               {"--rate", "1e9"},
                                               {"--duration", "1ms"},
                                               {"--seed", "x"},
                                               {"amqp://example.com"}}) {
        arguments.insert(arguments.begin(), "size");
        auto said = tools::cenote(arguments);
        EXPECT_EQ(said.code, 2) << arguments[1];
        EXPECT_NE(said.err, "") << arguments[1];
        EXPECT_EQ(said.out, "") << arguments[1];
    }
}

}  // namespace
