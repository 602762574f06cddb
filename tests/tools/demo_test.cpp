// cenote demo as a user runs it: consistent results, a dashboard, and a clean end.
#include <csignal>
#include <cstdint>
#include <functional>
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
using tools::count;
using tools::parsed;

const char* const consistent = "All results are consistent.";

/// Repeats the statement until it succeeds and `holds(result)`.
template <class T>
bool eventually(cenote::database& db, const char* statement, const std::function<bool(T)>& holds) {
    return support::eventually([&] {
        try {
            return holds(db.query(statement).scalar<T>());
        } catch (const cenote::server_error&) {
            return false;  // there is no table yet, or no server
        } catch (const cenote::pool_error&) {
            return false;
        }
    });
}

TEST(demo, ends_by_itself_with_consistent_results) {
    json::value result;
    // A busy machine may need more time for a request.
    for (int time = 300; time < 30'000; time *= 2) {
        auto said = tools::cenote(
            {"demo", "--for", std::to_string(time) + "ms", "--clients", "20", "--json"});
        ASSERT_EQ(said.code, 0) << said.out << said.err;
        EXPECT_EQ(said.err, "");
        result = parsed(said);
        if (count(result.at("requests")) > 0) break;
    }
    EXPECT_GT(count(result.at("requests")), 0u);
    EXPECT_EQ(count(result.at("failures")), 0u) << result.at("first_failure").as_string();
    EXPECT_EQ(result.at("ordered"), result.at("in_database"));
    EXPECT_EQ(count(result.at("lost")), 0u);
    EXPECT_LE(count(result.at("opened")), 8u);
}

TEST(demo, prints_the_dashboards_url_and_the_results) {
    auto said = tools::cenote({"demo", "--for", "200ms", "--clients", "4"});
    ASSERT_EQ(said.code, 0) << said.out << said.err;
    EXPECT_THAT(said.out, ContainsRegex("Dashboard: http://127.0.0.1:[0-9]+/\n"));
    EXPECT_THAT(said.out, HasSubstr(consistent));
}

TEST(demo, stays_until_it_is_interrupted) {
    tools::program it({CENOTE_COMMAND, "demo", "--stay", "--clients", "4"});
    ASSERT_TRUE(it.prints("requests/s"));
    it.send(SIGINT);
    tools::output said = it.wait();
    EXPECT_EQ(said.code, 130) << said.out << said.err;
    EXPECT_THAT(said.out, HasSubstr(consistent));
}

/// Requests at the time of a restart are retried, or their outcome is reported as unknown.
TEST(demo, has_consistent_results_after_restarts_of_the_server) {
    support::postgres_server server;
    std::string url = support::app_url("postgresql", server.port());
    tools::program it({CENOTE_COMMAND, "demo", url, "--stay", "--clients", "20", "--think", "1ms"});
    cenote::database own{url};
    auto more_orders = [&] {
        std::optional<std::int64_t> before;
        return eventually<std::int64_t>(own, "SELECT count(*) FROM orders", [&](std::int64_t now) {
            if (!before) before = now;
            return now - *before >= 20;
        });
    };
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(more_orders());
        server.restart();
        ASSERT_TRUE(eventually<int>(own, "SELECT 1", [](int one) { return one == 1; }));
    }
    ASSERT_TRUE(more_orders());
    it.send(SIGINT);
    tools::output said = it.wait();
    EXPECT_EQ(said.code, 130) << said.out << said.err;
    EXPECT_THAT(said.out, HasSubstr(consistent));
}

TEST(demo, refuses_existing_tables) {
    support::sqlite_file file;
    auto make = cenote::database::direct(file.url());
    make.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT)");
    make.execute("INSERT INTO orders VALUES (1, 'open')");
    auto said = tools::cenote({"demo", file.url(), "--for", "300ms"});
    EXPECT_EQ(said.code, 1);
    EXPECT_THAT(said.err, HasSubstr("there is a table 'orders'"));
    EXPECT_EQ(make.query("SELECT status FROM orders").scalar<std::string>(), "open");
}

TEST(demo, drops_its_tables_at_the_end) {
    support::sqlite_file file;
    for (int i = 0; i < 2; ++i) {
        auto said =
            tools::cenote({"demo", file.url(), "--for", "100ms", "--clients", "4", "--json"});
        ASSERT_EQ(said.code, 0) << said.out << said.err;
        json::value result = parsed(said);
        EXPECT_EQ(result.at("ordered"), result.at("in_database"));
    }
}

// Before, the next line of output killed the demo, which left its tables and its folder behind.
TEST(demo, drops_its_tables_if_its_output_is_closed) {
    support::sqlite_file file;
    auto said = tools::program({"/bin/bash", "-c",
                                CENOTE_COMMAND " demo '" + file.url() +
                                    "' --stay --clients 4 | head -1; exit ${PIPESTATUS[0]}"})
                    .wait();
    EXPECT_EQ(said.code, 141) << said.err;
    EXPECT_EQ(said.err, "");
    auto db = cenote::database::direct(file.url());
    EXPECT_EQ(db.query("SELECT count(*) FROM sqlite_master").scalar<int>(), 0);
}

TEST(demo, rejects_invalid_arguments) {
    EXPECT_EQ(tools::cenote({"demo", "--for", "-1s"}).code, 2);
    EXPECT_EQ(tools::cenote({"demo", "--for", "1ms"}).code, 2);
    EXPECT_EQ(tools::cenote({"demo", "--clients", "0"}).code, 2);
    EXPECT_EQ(tools::cenote({"demo", "gopher://somewhere"}).code, 2);
}

}  // namespace
