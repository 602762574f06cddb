// cenote demo, as a user runs it: a service that adds up, a page, and an end.
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "cenote/database.hpp"
#include "connector/sqlite_file.hpp"
#include "program.hpp"
#include "support/patience.hpp"
#include "support/real_server.hpp"

namespace {

namespace json = boost::json;
using testing::ContainsRegex;
using testing::HasSubstr;

json::value parsed(const tools::said& said) {
    boost::json::error_code error;
    json::value document = json::parse(said.out, error);
    EXPECT_FALSE(error) << said.out << said.err;
    return document;
}

std::uint64_t count(const json::value& v) { return v.to_number<std::uint64_t>(); }

TEST(demo, ends_by_itself_and_adds_up) {
    json::value told;
    // On a busy machine there may be no time for a request. Then it is given more.
    for (int time = 300; time < 30'000; time *= 2) {
        auto said = tools::cenote(
            {"demo", "--for", std::to_string(time) + "ms", "--clients", "20", "--json"});
        ASSERT_EQ(said.code, 0) << said.out << said.err;
        EXPECT_EQ(said.err, "");
        told = parsed(said);
        if (count(told.at("requests")) > 0) break;
    }
    EXPECT_GT(count(told.at("requests")), 0u);
    EXPECT_EQ(count(told.at("failures")), 0u) << told.at("first_failure").as_string();
    EXPECT_EQ(told.at("ordered"), told.at("in_database"));
    EXPECT_EQ(count(told.at("lost")), 0u);
    EXPECT_LE(count(told.at("opened")), 8u);
}

TEST(demo, says_where_the_page_is_and_how_it_went) {
    auto said = tools::cenote({"demo", "--for", "200ms", "--clients", "4"});
    ASSERT_EQ(said.code, 0) << said.out << said.err;
    EXPECT_THAT(said.out, ContainsRegex("Watch it: http://127.0.0.1:[0-9]+/\n"));
    EXPECT_THAT(said.out, HasSubstr("Everything adds up."));
}

TEST(demo, stays_until_it_is_interrupted) {
    tools::program it({CENOTE_COMMAND, "demo", "--stay", "--clients", "4"});
    ASSERT_TRUE(it.says("requests/s"));
    it.send(SIGINT);
    tools::said said = it.wait();
    EXPECT_EQ(said.code, 130) << said.out << said.err;
    EXPECT_THAT(said.out, HasSubstr("Everything adds up."));
}

/// Whatever was asked of the database just then: nobody knows of it, or it is tried again.
TEST(demo, adds_up_also_if_the_server_is_restarted_meanwhile) {
    support::postgres_server server;
    std::string url = "postgresql://app:" + std::string(support::canary_password) +
                      "@127.0.0.1:" + std::to_string(server.port()) + "/orders";
    tools::program it({CENOTE_COMMAND, "demo", url, "--stay", "--clients", "20", "--think", "1ms"});
    cenote::database own{url};
    auto more_orders = [&] {
        const char* count = "SELECT count(*) FROM orders";
        std::optional<std::int64_t> before;
        return support::eventually([&] {
            try {
                auto now = own.query(count).scalar<std::int64_t>();
                return now - before.value_or(now) >= 20 || (before = before.value_or(now), false);
            } catch (const cenote::server_error&) {
                return false;  // there is no table yet, or no server
            } catch (const cenote::pool_error&) {
                return false;
            }
        });
    };
    auto is_back = [&] {
        return support::eventually([&] {
            try {
                return own.query("SELECT 1").scalar<int>() == 1;
            } catch (const cenote::server_error&) {
                return false;
            } catch (const cenote::pool_error&) {
                return false;
            }
        });
    };
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(more_orders());
        server.restart();
        ASSERT_TRUE(is_back());
    }
    ASSERT_TRUE(more_orders());
    it.send(SIGINT);
    tools::said said = it.wait();
    EXPECT_EQ(said.code, 130) << said.out << said.err;
    EXPECT_THAT(said.out, HasSubstr("Everything adds up."));
}

TEST(demo, takes_nobodys_tables_for_its_own) {
    support::sqlite_file file;
    auto make = cenote::database::direct(file.url());
    make.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT)");
    make.execute("INSERT INTO orders VALUES (1, 'open')");
    auto said = tools::cenote({"demo", file.url(), "--for", "300ms"});
    EXPECT_EQ(said.code, 1);
    EXPECT_THAT(said.err, HasSubstr("there is a table 'orders'"));
    EXPECT_EQ(make.query("SELECT status FROM orders").scalar<std::string>(), "open");
}

TEST(demo, leaves_nothing_in_a_database_that_it_was_given) {
    support::sqlite_file file;
    for (int i = 0; i < 2; ++i) {
        auto said =
            tools::cenote({"demo", file.url(), "--for", "100ms", "--clients", "4", "--json"});
        ASSERT_EQ(said.code, 0) << said.out << said.err;
        json::value told = parsed(said);
        EXPECT_EQ(told.at("ordered"), told.at("in_database"));
    }
}

TEST(demo, refuses_nonsense) {
    EXPECT_EQ(tools::cenote({"demo", "--for", "-1s"}).code, 2);
    EXPECT_EQ(tools::cenote({"demo", "--for", "1ms"}).code, 2);
    EXPECT_EQ(tools::cenote({"demo", "--clients", "0"}).code, 2);
    EXPECT_EQ(tools::cenote({"demo", "gopher://somewhere"}).code, 2);
}

}  // namespace
