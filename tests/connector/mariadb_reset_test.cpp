// MariaDB: what a lease leaves in a session is gone after the first operation of the next one,
// with every kind of operation and in every reset mode.
#include <algorithm>
#include <functional>
#include <iterator>
#include <mysql.h>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/mariadb.hpp"
#include "connector/awaiting.hpp"
#include "connector/mariadb_place.hpp"

namespace cenote::mariadb {
namespace {

using support::await;
using support::mariadb_url;
using support::the_mariadb;

void do_as_admin(const std::string& sql) { the_mariadb().execute_as_admin(sql, "orders"); }

std::string text_of(const sql::value& v) {
    if (v.is_null()) return "null";
    if (const auto* number = std::get_if<std::int64_t>(&v.get())) return std::to_string(*number);
    return v.as<std::string>();
}
std::string text_of(const sql::result& all) { return all.empty() ? "nothing" : text_of(all[0][0]); }

/// A change of a session: how it is made, and how it is seen.
struct left_over {
    std::string name;
    std::vector<std::string> leave;
    std::string question;
    bool tracked = false;  // the server reports it
    bool urgent = false;   // its text shows that other connections may have to wait
};

/// Changes that COM_RESET_CONNECTION leaves, and ways to keep the server from reporting them.
std::vector<left_over> lasting_left_overs() {
    const std::string role = "select current_role()";
    const std::string untracked = "set session_track_state_change = off";
    return {
        {"role", {"set role reader"}, role, true},
        {"role of a function", {"select takes_role()"}, role, true},
        {"role before an error", {"call takes_role_and_fails()"}, role, true},
        {"role after tracking", {untracked, "set role reader"}, role, true},
        {"role after all tracking",
         {"set session_track_system_variables = '', session_track_state_change = off",
          "set role reader"},
         role,
         true},
        {"role after all tracking, the other way round",
         {"set session_track_state_change = off, session_track_system_variables = ''",
          "set role reader"},
         role,
         true},
        {"role without tracking for a while",
         {"execute immediate 'set statement session_track_state_change = off for select "
          "takes_role()'"},
         role,
         true},
        {"role of a procedure without tracking", {"call takes_role_secretly()"}, role, true},
        {"database", {"use information_schema"}, "select database()", true},
        {"database after tracking",
         {untracked, "use information_schema"},
         "select database()",
         true},
        {"profiles",
         {"set profiling = 1", "select 'mine'", "set profiling = 0"},
         "select count(distinct query_id) from information_schema.profiling",
         true},
    };
}

std::vector<left_over> all_left_overs() {
    const std::string own_lock = "select is_used_lock('leak') <=> connection_id()";
    std::vector<left_over> all{
        {"user variable", {"set @leak = 'x'"}, "select @leak", true},
        {"user variable of a select", {"select @sly := 'x'"}, "select @sly"},
        {"user variable of an into", {"select 'x' into @sly"}, "select @sly"},
        {"setting", {"set session wait_timeout = 77"}, "select @@wait_timeout", true},
        {"charset", {"set names latin1"}, "select @@character_set_client", true},
        {"sql_mode", {"set sql_mode = 'ansi'"}, "select @@sql_mode", true},
        {"time zone", {"set time_zone = '+09:00'"}, "select @@time_zone", true},
        {"time limit", {"set max_statement_time = 0.001"}, "select sleep(0.01)", true},
        {"isolation level",
         {"set session transaction isolation level serializable"},
         "select @@tx_isolation",
         true},
        {"next transaction's mode", {"set transaction read only"}, "insert into u values (1)"},
        {"only reads", {"set session transaction read only"}, "insert into u values (1)", true},
        {"autocommit", {"set autocommit = 0"}, "select @@autocommit", true},
        {"transaction", {"begin", "insert into t values (1)"}, "select count(*) from t", true},
        {"temporary table",
         {"create temporary table leak (x int)"},
         "select count(*) from leak",
         true,
         true},
        {"temporary table of a select",
         {"create temporary table leak select 1"},
         "select count(*) from leak",
         false,
         true},
        {"lock", {"do get_lock('leak', 0)"}, own_lock, false, true},
        {"lock of a function", {"select hidden_lock()"}, own_lock},
        {"lock of a view", {"select * from locking"}, own_lock},
        {"locked tables", {"lock tables t read"}, "select count(*) from u", false, true},
        {"read lock", {"flush tables with read lock"}, "insert into u values (1)", false, true},
        {"open table handler", {"handler t open"}, "handler t read first", false, true},
        {"last insert id", {"insert into n values (null)"}, "select last_insert_id()"},
        {"last value", {"select nextval(s)"}, "select lastval(s)"},
        {"found rows",
         {"select 1 union select 2 union select 3"},
         "select if(found_rows() > 1, 'many', 'few')"},
    };
    std::ranges::move(lasting_left_overs(), std::back_inserter(all));
    return all;
}

std::string one_of(cursor rows) {
    std::optional<sql::row> first = rows.next();
    std::string text = first ? text_of((*first)[0]) : "nothing";
    while (first) first = rows.next();
    return text;
}

boost::asio::awaitable<std::string> awaited_one_of(connection* c, std::string question) {
    cursor rows = co_await c->async_stream(question);
    std::optional<sql::row> first = co_await rows.async_next();
    std::string text = first ? text_of((*first)[0]) : "nothing";
    while (first) first = co_await rows.async_next();
    co_return text;
}

boost::asio::awaitable<std::string> awaited_prepared(connection* c, std::string question) {
    statement made = co_await c->async_prepare(question);
    sql::result all = co_await c->async_execute(made);
    co_return text_of(all);
}

boost::asio::awaitable<std::string> awaited_transaction(connection* c, std::string question) {
    co_await c->async_execute("start transaction");
    sql::result all = co_await c->async_execute(question);
    co_return text_of(all);
}

std::string by_the_library(MYSQL* handle, const std::string& question) {
    if (mysql_query(handle, question.c_str()) != 0)
        return "error " + std::to_string(mysql_errno(handle));
    MYSQL_RES* rows = mysql_store_result(handle);
    if (rows == nullptr) return "nothing";
    MYSQL_ROW row = mysql_fetch_row(rows);
    std::string text = row == nullptr ? "nothing" : row[0] == nullptr ? "null" : row[0];
    mysql_free_result(rows);
    return text;
}

/// The first operation of a lease.
struct first_word {
    std::string name;
    std::function<std::string(connection&, const std::string&)> ask;
};

std::vector<first_word> all_first_words() {
    return {
        {"query", [](connection& c, const std::string& q) { return text_of(c.execute(q)); }},
        {"prepared",
         [](connection& c, const std::string& q) { return text_of(c.execute(c.prepare(q))); }},
        {"stream", [](connection& c, const std::string& q) { return one_of(c.stream(q)); }},
        {"transaction",
         [](connection& c, const std::string& q) {
             c.execute("start transaction");
             return text_of(c.execute(q));
         }},
        {"native handle",
         [](connection& c, const std::string& q) { return by_the_library(c.native_handle(), q); }},
        {"awaited query",
         [](connection& c, const std::string& q) { return text_of(await(c.async_execute(q))); }},
        {"awaited prepared",
         [](connection& c, const std::string& q) { return await(awaited_prepared(&c, q)); }},
        {"awaited stream",
         [](connection& c, const std::string& q) { return await(awaited_one_of(&c, q)); }},
        {"awaited transaction",
         [](connection& c, const std::string& q) { return await(awaited_transaction(&c, q)); }},
        {"awaited native handle",
         [](connection& c, const std::string& q) {
             return by_the_library(await(c.async_native_handle()), q);
         }},
    };
}

std::string outcome(const first_word& how, connection& c, const std::string& question) {
    try {
        return how.ask(c, question);
    } catch (const statement_error& e) {
        return "error " + std::to_string(e.code());
    }
}

struct mariadb_reset : testing::Test {
    static void SetUpTestSuite() {
        do_as_admin(
            "create or replace table t (x int) engine=innodb; create or replace table u (x int) "
            "engine=innodb; create or replace table n (id int auto_increment primary key); create "
            "or replace sequence s; create or replace role reader; grant reader to app@'%'; grant "
            "reload on *.* to app@'%'");
        connection c = connector{mariadb_url()}.open();
        c.execute(
            "create or replace function hidden_lock() returns int return get_lock('leak', 0)");
        c.execute("create or replace sql security invoker view locking as select hidden_lock()");
        c.execute(
            "create or replace function takes_role() returns int sql security invoker begin set "
            "role reader; return 1; end");
        c.execute(
            "create or replace procedure takes_role_and_fails() sql security invoker begin set "
            "role reader; signal sqlstate '45000'; end");
        c.execute(
            "create or replace procedure takes_role_secretly() sql security invoker begin set "
            "session_track_system_variables = ''; set session_track_state_change = off; set role "
            "reader; end");
        for (const char* routine : {"function hidden_lock", "function takes_role"})
            do_as_admin(std::string("grant execute on ") + routine + " to reader");
        do_as_admin("grant all on orders.* to reader");
    }

    static void leave(connection& c, const left_over& what) {
        for (const std::string& text : what.leave) {
            try {
                c.execute(text);
            } catch (const statement_error&) {
                continue;  // fails on purpose
            }
        }
    }
    /// As the pool does. True: the reset is left to the next lease.
    static bool give_back(connector& to, connection& c) {
        verdict said = to.before_release(c);
        if (said == verdict::reset) to.reset(c);
        EXPECT_TRUE(said == verdict::reset || said == verdict::reset_later ||
                    said == verdict::keep);
        return said == verdict::reset_later;
    }
    /// What the next lease inherits.
    static std::set<std::string> inherited(const std::string& parameters, bool resets = true) {
        connector to{mariadb_url(parameters)};
        std::set<std::string> all;
        for (const left_over& each : all_left_overs())
            for (const first_word& how : all_first_words()) {
                connection untouched = to.open();
                std::string clean = outcome(how, untouched, each.question);
                to.close(untouched);
                connection c = to.open();
                leave(c, each);
                if (resets) give_back(to, c);
                if (outcome(how, c, each.question) != clean) all.insert(each.name);
            }
        return all;
    }
};

TEST_F(mariadb_reset, leaves_nothing_to_the_next_first_operation) {
    EXPECT_EQ(inherited(""), std::set<std::string>{});
}

TEST_F(mariadb_reset, leaves_nothing_at_release) {
    EXPECT_EQ(inherited("reset=at_release"), std::set<std::string>{});
}

/// Without a reset, the same test finds the changes.
TEST_F(mariadb_reset, is_needed) {
    EXPECT_GE(inherited("", false).size(), all_left_overs().size() - 2);
}

TEST_F(mariadb_reset, leaves_by_tracking_what_is_not_tracked) {
    std::set<std::string> silent;
    for (const left_over& each : all_left_overs())
        if (!each.tracked) silent.insert(each.name);
    EXPECT_EQ(inherited("reset=by_tracking"), silent);
}

/// FOUND_ROWS() would return an earlier lease's number until the first SELECT of the lease.
TEST_F(mariadb_reset, leaves_no_number_of_rows_that_no_select_has_found) {
    connector to{mariadb_url()};
    for (const char* first : {"update t set x = 7 /* select */", "insert into u select 1 from u"}) {
        connection c = to.open();
        c.execute("select 1 union select 2 union select 3");
        give_back(to, c);
        c.execute(c.prepare(first));
        EXPECT_LE(c.execute("select found_rows()").scalar<int>(), 1) << first;
    }
    connection c = to.open();
    give_back(to, c);
    c.execute(c.prepare(" (/* all */ select 1) union select 2 union select 3"));
    EXPECT_EQ(c.execute("select found_rows()").scalar<int>(), 3);
}

/// The options of the library are set again.
TEST_F(mariadb_reset, leaves_nothing_in_the_librarys_handle) {
    connector to{mariadb_url()};
    connection c = to.open();
    MYSQL* handle = c.native_handle();
    unsigned on = 1;
    my_bool yes = 1;
    mysql_options(handle, MYSQL_OPT_LOCAL_INFILE, &on);
    mysql_options(handle, MYSQL_OPT_RECONNECT, &yes);
    EXPECT_EQ(mysql_set_server_option(handle, MYSQL_OPTION_MULTI_STATEMENTS_ON), 0);
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    unsigned files = 1;
    mysql_get_optionv(handle, MYSQL_OPT_LOCAL_INFILE, &files);
    my_bool reconnects = 1;
    mysql_get_optionv(handle, MYSQL_OPT_RECONNECT, &reconnects);
    EXPECT_EQ(files, 0u);
    EXPECT_EQ(reconnects, 0);
    EXPECT_EQ(by_the_library(c.native_handle(), "select 1; select 2"), "error 1064");
}

/// A reset may wait for the next statement only if it is sufficient and blocks no other connection.
TEST_F(mariadb_reset, waits_only_if_it_is_sufficient_and_blocks_no_other_connection) {
    connector to{mariadb_url()};
    for (const left_over& each : all_left_overs()) {
        SCOPED_TRACE(each.name);
        connection c = to.open();
        leave(c, each);
        EXPECT_EQ(give_back(to, c), !each.tracked && !each.urgent);
    }
}

}  // namespace
}  // namespace cenote::mariadb
