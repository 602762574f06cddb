// MariaDB: after a reset, changes of the session are gone for the next borrower of the connection,
// and the settings of the URL apply again.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/mariadb_place.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::mariadb {
namespace {

using namespace std::chrono_literals;
using support::await;
using support::await_open;
using support::backend_of;
using support::mariadb_url;
using support::the_mariadb;

std::string ask(connection& c, const std::string& question) {
    try {
        sql::result all = c.execute(question);
        if (all.empty()) return "nothing";
        const sql::value& first = all.one()[0];
        if (first.is_null()) return "null";
        if (const auto* number = std::get_if<std::int64_t>(&first.get()))
            return std::to_string(*number);
        return first.as<std::string>();
    } catch (const statement_error& e) {
        return "error " + std::to_string(e.code());
    }
}

std::string ask_admin(const std::string& question) {
    return the_mariadb().execute_as_admin(question);
}

/// A change of a session: how it is made, and how it is seen.
struct trace {
    const char* name;
    std::vector<std::string> leave;
    std::function<std::string(connection&)> look;
};

trace sees(const char* name, std::vector<std::string> leave, const char* question) {
    return {name, std::move(leave), [question](connection& c) { return ask(c, question); }};
}

std::vector<trace> all_traces() {
    return {
        sees("user variable", {"set @leak = 'x'"}, "select @leak"),
        sees("user variable of a select", {"select @sly := 'x'"}, "select @sly"),
        sees("setting", {"set session wait_timeout = 77"}, "select @@wait_timeout"),
        sees("database", {"use information_schema"}, "select database()"),
        sees("charset", {"set names latin1"},
             "select concat_ws(' ', @@character_set_client, @@character_set_results, "
             "@@character_set_connection, @@collation_connection)"),
        sees("sql_mode", {"set sql_mode = 'ansi'"}, "select @@sql_mode"),
        sees("time zone", {"set time_zone = '+09:00'"}, "select @@time_zone"),
        sees("isolation level", {"set session transaction isolation level serializable"},
             "select @@tx_isolation"),
        sees("next transaction's mode", {"set transaction read only"}, "insert into u values (1)"),
        sees("temporary table", {"create temporary table leak (x int)"},
             "select count(*) from leak"),
        sees("locked tables", {"lock tables t read"}, "select count(*) from u"),
        sees("open table handler", {"handler t open"}, "handler t read first"),
        sees("transaction", {"begin", "insert into t values (1)"}, "select count(*) from t"),
        sees("autocommit", {"set autocommit = 0"}, "select @@autocommit"),
        sees("last insert id", {"insert into n values (null)"}, "select last_insert_id()"),
        sees("profiles", {"set profiling = 1", "select 'mine'", "set profiling = 0"},
             "select count(distinct query_id) from information_schema.profiling"),
        sees("found rows", {"select 1 union select 2 union select 3"},
             "select if(found_rows() > 1, 'many', 'few')"),
        {"lock",
         {"do get_lock('leak', 0)"},
         [](connection&) { return ask_admin("select is_free_lock('leak')"); }},
        {"role",
         {"set role reader"},
         [](connection& c) { return ask(c, "select current_role()"); }},
    };
}

bool is_to_be_reset(verdict v) { return v == verdict::reset || v == verdict::reset_later; }

struct mariadb_session : testing::Test {
    static void SetUpTestSuite() {
        ask_admin(
            "create or replace table t (x int) engine=innodb; create or replace table u (x int); "
            "create or replace table n (id int auto_increment primary key); create or replace role "
            "reader; grant reader to app@'%'");
    }
    connector to{mariadb_url()};
};

TEST_F(mariadb_session, carries_nothing_to_the_next_lease) {
    for (const trace& each : all_traces()) {
        SCOPED_TRACE(each.name);
        connection c = to.open();
        std::uint64_t before = backend_of(c);
        std::string untouched = each.look(c);
        to.reset(c);
        for (const std::string& text : each.leave) c.execute(text);
        std::string left = each.look(c);
        EXPECT_NE(left, untouched);
        EXPECT_TRUE(is_to_be_reset(to.before_release(c)));
        to.reset(c);
        EXPECT_EQ(to.before_release(c), verdict::keep);
        EXPECT_EQ(each.look(c), untouched);
        EXPECT_EQ(backend_of(c), before);
    }
    EXPECT_EQ(ask_admin("select count(*) from t"), "0\n");  // rolled back
}

/// There a reset cannot use one block, since BEGIN has another meaning.
TEST_F(mariadb_session, is_reset_in_oracle_mode) {
    ask_admin("set @@global.sql_mode = concat('ORACLE,', @@global.sql_mode)");
    std::shared_ptr<void> restored(nullptr,
                                   [](void*) { ask_admin("set @@global.sql_mode = default"); });
    connection c = to.open();
    std::uint64_t before = backend_of(c);
    for (const char* text : {"set role reader", "use information_schema", "set profiling = 1"})
        c.execute(text);
    to.reset(c);
    EXPECT_EQ(ask(c, "select current_role()"), "null");
    EXPECT_EQ(ask(c, "select database()"), "orders");
    EXPECT_EQ(ask(c, "select @@profiling"), "0");
    EXPECT_EQ(ask(c, "select count(*) from information_schema.profiling"), "0");
    EXPECT_EQ(backend_of(c), before);
}

/// A reset selects the database of the options again.
TEST_F(mariadb_session, returns_to_a_database_of_any_name) {
    std::string name = "o'ne \\ `two` \"";
    ask_admin("create or replace database `o'ne \\ ``two`` \"`");
    ask_admin("grant all on `o'ne%`.* to app@'%'");
    options chosen = options::from_url(mariadb_url());
    chosen.database = name;
    connector there{chosen};
    connection c = there.open();
    for (const char* text : {"select 1", "use orders"}) {
        SCOPED_TRACE(text);
        c.execute(text);
        there.reset(c);
        EXPECT_EQ(ask(c, "select database()"), name);
    }
}

/// On the whole server.
constexpr const char* count_prepared =
    "select variable_value from information_schema.global_status where "
    "variable_name = 'prepared_stmt_count'";

/// The server may still count statements of a closed connection.
bool none_is_prepared() {
    return support::eventually([] { return ask_admin(count_prepared) == "0\n"; });
}

TEST_F(mariadb_session, carries_no_prepared_statement) {
    connection c = to.open();
    ASSERT_TRUE(none_is_prepared());
    for (int i = 0; i < 5; ++i) static_cast<void>(c.prepare("select ?"));
    c.execute("select 1");
    EXPECT_EQ(ask_admin(count_prepared), "6\n");  // with that of the last connection
    to.reset(c);
    EXPECT_EQ(ask_admin(count_prepared), "0\n");
}

TEST_F(mariadb_session, closes_what_it_prepared_for_one_use) {
    connection c = to.open();
    ASSERT_TRUE(none_is_prepared());
    for (int i = 0; i < 100; ++i) c.execute("select ?", i);
    for (int i = 0; i < 100; ++i)
        EXPECT_THROW(c.execute("select * from nowhere where ?", i), statement_error);
    EXPECT_LE(std::stoi(ask(c, count_prepared)), 2);
}

TEST_F(mariadb_session, forgets_the_timeout_of_a_lease) {
    connection c = to.open();
    c.set_timeout(1ms);
    EXPECT_EQ(to.before_release(c), verdict::keep);
    EXPECT_EQ(ask(c, "select sleep(0.05)"), "0");
}

TEST_F(mariadb_session, has_what_its_url_says_at_first_and_after_each_reset) {
    connector configured(mariadb_url(
        "charset=latin1&timezone=%2B05:00&sql_mode=ANSI,NO_ZERO_DATE&isolation=serializable"));
    connection c = configured.open();
    auto all = [&] {
        return ask(c,
                   "select concat_ws(' ', @@character_set_client, @@time_zone, @@tx_isolation, "
                   "find_in_set('NO_ZERO_DATE', @@sql_mode) > 0, database())");
    };
    std::string at_first = all();
    EXPECT_EQ(at_first, "latin1 +05:00 SERIALIZABLE 1 orders");
    c.execute("set names utf8mb4, time_zone = 'SYSTEM', sql_mode = ''");
    c.execute("set session transaction isolation level read committed");
    c.execute("use information_schema");
    EXPECT_NE(all(), at_first);
    configured.reset(c);
    EXPECT_EQ(all(), at_first);
    async_connector awaited(
        mariadb_url("charset=latin1&timezone=%2B05:00&sql_mode=ANSI,NO_ZERO_DATE&isolation="
                    "serializable"));
    c.execute("set names utf8mb4, time_zone = 'SYSTEM', sql_mode = ''");
    await(awaited.reset(c));
    EXPECT_EQ(all(), at_first);
}

TEST_F(mariadb_session, is_trusted_to_be_tracked_by_tracking) {
    connector trusting(mariadb_url("reset=by_tracking"));
    connection c = trusting.open();
    c.execute("select 1");
    c.execute("insert into t values (1)");
    c.execute("delete from t");
    EXPECT_EQ(trusting.before_release(c), verdict::keep);
    std::vector<std::vector<std::string>> seen{{"set @leak = 1"},
                                               {"set time_zone = '+01:00'"},
                                               {"use information_schema"},
                                               {"begin"},
                                               {"create temporary table leak (x int)"},
                                               {"set autocommit = 0"},
                                               {"set names latin1"}};
    for (const auto& leave : seen) {
        for (const std::string& text : leave) c.execute(text);
        EXPECT_EQ(trusting.before_release(c), verdict::reset) << leave.front();
        trusting.reset(c);
        EXPECT_EQ(trusting.before_release(c), verdict::keep);
    }
    static_cast<void>(c.prepare("select 1"));
    EXPECT_EQ(trusting.before_release(c), verdict::reset);
    trusting.reset(c);
    EXPECT_THROW(c.execute("select * from nowhere"), statement_error);
    EXPECT_EQ(trusting.before_release(c), verdict::reset);
}

/// Counts the resets that the pool makes.
struct counting_connector : connector {
    counting_connector() : connector(mariadb_url()) {}
    void reset(connection& c) {
        ++*resets;
        connector::reset(c);
    }
    std::shared_ptr<int> resets = std::make_shared<int>(0);
};

TEST_F(mariadb_session, is_reset_by_the_pool_only_after_use) {
    counting_connector counting;
    pool<connection> one{counting, support::patient(1)};
    std::uint64_t id = one.acquire()->id();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(one.acquire()->id(), id);
    EXPECT_EQ(*counting.resets, 0);
    one.acquire()->execute("begin");
    {
        auto lease = one.acquire();
        EXPECT_EQ(lease->id(), id);
        EXPECT_FALSE(lease->in_transaction());
    }
    EXPECT_EQ(*counting.resets, 1);
}

}  // namespace
}  // namespace cenote::mariadb
