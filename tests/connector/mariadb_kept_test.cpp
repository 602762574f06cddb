// Kept statements, and what may happen to them between two runs.
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "cenote/mariadb.hpp"
#include "cenote/trace_context.hpp"
#include "connector/awaiting.hpp"
#include "connector/mariadb_place.hpp"
#include "support/patience.hpp"

namespace cenote::mariadb {
namespace {

using support::await;
using support::mariadb_url;

struct mariadb_kept : testing::Test {
    mariadb_kept() {
        c.execute("drop table if exists kept_test");
        c.execute("create table kept_test(a int)");
        c.execute("insert into kept_test values (1)");
    }

    /// How many statements of this connection the server has. Queried by another connection, which
    /// keeps none.
    int prepared() {
        connection other = connector{mariadb_url()}.open();
        return std::stoi(
            other
                .execute("select variable_value from information_schema.global_status where "
                         "variable_name = 'Prepared_stmt_count'")
                .scalar<std::string>());
    }

    connector to{mariadb_url("statement_cache=3")};
    connection c = to.open();
};

TEST_F(mariadb_kept, are_prepared_once) {
    auto prepares = [&] {
        auto row = c.execute("show session status like 'Com_stmt_prepare'");
        return std::stoi(row[0][1].as<std::string>());
    };
    prepares();
    int before = prepares();
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(c.execute("select a + ? from kept_test", i).scalar<int>(), i + 1);
        EXPECT_EQ(await(c.async_execute("select a + ? from kept_test", i)).scalar<int>(), i + 1);
    }
    EXPECT_EQ(prepares(), before + 1);
}

/// Each text with a traceparent is another one: such a statement is neither kept, nor does it
/// displace one that is.
TEST_F(mariadb_kept, are_not_displaced_by_statements_of_traces) {
    auto prepares = [&] {
        auto row = c.execute("show session status like 'Com_stmt_prepare'");
        return std::stoi(row[0][1].as<std::string>());
    };
    const std::string text = "select a + ? from kept_test";
    const int others = prepared();
    c.execute(text, 1);
    prepares();
    const int before = prepares();
    for (std::uint8_t i = 1; i <= 10; ++i) {
        const trace_context trace{.trace_id = {1}, .span_id = {i}, .flags = 1};
        const std::string traced = text + ' ' + trace.sql_comment();
        EXPECT_EQ(c.execute(traced, 1).scalar<int>(), 2);
        EXPECT_EQ(await(c.async_execute(traced, 1)).scalar<int>(), 2);
    }
    EXPECT_EQ(prepares(), before + 20);
    EXPECT_EQ(c.execute(text, 1).scalar<int>(), 2);
    EXPECT_EQ(prepares(), before + 20);
    // The server has closed those of the traces.
    c.execute("select 1");
    EXPECT_TRUE(support::eventually([&] { return prepared() <= others + 3; }));
}

TEST_F(mariadb_kept, are_the_most_recent_ones) {
    int before = prepared();
    for (int n = 0; n < 10; ++n)
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(c.execute("select ? + " + std::to_string(n), 1).scalar<int>(), n + 1);
    // The server may still count statements of a closed connection.
    EXPECT_TRUE(support::eventually([&] { return prepared() <= before + 1; }));
}

TEST_F(mariadb_kept, follow_the_tables_they_are_about) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(c.execute("select * from kept_test")[0].size(), 1u);
    c.execute("alter table kept_test add column b int default 2");
    EXPECT_EQ(c.execute("select * from kept_test")[0].size(), 2u);
    c.execute("alter table kept_test modify column a varchar(20)");
    EXPECT_EQ(await(c.async_execute("select a from kept_test")).scalar<std::string>(), "1");
    c.execute("drop table kept_test");
    EXPECT_THROW(c.execute("select * from kept_test"), statement_error);
    c.execute("create table kept_test(x int, y int, z int)");
    c.execute("insert into kept_test values (1, 2, 3)");
    EXPECT_EQ(c.execute("select * from kept_test")[0].size(), 3u);
}

TEST_F(mariadb_kept, are_about_the_database_that_is_used) {
    support::the_mariadb().execute_as_admin(
        "create database if not exists other; grant all on other.* to app@'%'", "mysql");
    c.execute("create or replace table other.kept_test as select 2 as a");
    for (int i = 0; i < 3; ++i) {
        c.execute("use orders");
        EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
        EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
        c.execute("use other");
        EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 2);
        EXPECT_EQ(c.execute("select database()").scalar<std::string>(), "other");
    }
    c.execute("use orders");
}

/// Types go with each execution, and the server parses a statement again if its tables have
/// changed: a kept statement stores what the statement of a new connection stores.
TEST_F(mariadb_kept, store_what_a_new_statement_stores) {
    connection other = connector{mariadb_url()}.open();
    const char* insert = "insert into kept_stamp(d, n, r) values (?, ?, ?)";
    auto stores = [&](bool awaits, const char* d, std::int64_t n, double r) {
        if (awaits) await(c.async_execute(insert, d, n, r));
        else c.execute(insert, d, n, r);
        sql::result rows = c.execute(
            "select cast(d as char), cast(n as char), r from kept_stamp order by id desc limit 1");
        return rows[0][0].as<std::string>() + " " + rows[0][1].as<std::string>() + " " +
               (rows[0][2].as<double>() == r ? "same" : "rounded");
    };
    const char* narrow = "(id int auto_increment primary key, d date, n int, r float)";
    const char* wide = "(id int auto_increment primary key, d datetime, n bigint, r double)";
    const char* moment = "2024-05-06 07:08:09";
    const std::string all_of_it = "2024-05-06 07:08:09 5000000000 same";
    auto begin_narrow = [&](bool awaits) {
        other.execute("drop table if exists kept_stamp, kept_next, kept_old");
        other.execute(std::string("create table kept_stamp") + narrow);
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(stores(awaits, moment, 1, 0.1), "2024-05-06 1 rounded");
    };
    for (bool awaits : {false, true}) {
        begin_narrow(awaits);  // types
        other.execute("alter table kept_stamp modify d datetime, modify n bigint, modify r double");
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(stores(awaits, moment, 5'000'000'000, 0.1), all_of_it);

        begin_narrow(awaits);  // names of tables
        other.execute(std::string("create table kept_next") + wide);
        other.execute("rename table kept_stamp to kept_old, kept_next to kept_stamp");
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(stores(awaits, moment, 5'000'000'000, 0.1), all_of_it);

        begin_narrow(awaits);  // columns
        other.execute("alter table kept_stamp drop d, drop n, drop r");
        other.execute("alter table kept_stamp add r double, add n bigint, add d datetime");
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(stores(awaits, moment, 5'000'000'000, 0.1), all_of_it);

        begin_narrow(awaits);  // a temporary table that hides another one
        for (int i = 0; i < 2; ++i) {
            c.execute(std::string("create temporary table kept_stamp") + wide);
            EXPECT_EQ(stores(awaits, moment, 5'000'000'000, 0.1), all_of_it);
            c.execute("drop temporary table kept_stamp");
            EXPECT_EQ(stores(awaits, moment, 1, 0.1), "2024-05-06 1 rounded");
        }
        EXPECT_EQ(other.execute("select count(*) from kept_stamp").scalar<int>(), 5);
    }
    other.execute("drop table if exists kept_stamp, kept_next, kept_old");
}

/// Only a statement that was not run may be run again.
TEST_F(mariadb_kept, are_not_run_again_because_of_what_they_do) {
    c.execute("drop procedure if exists half");
    c.execute(
        "create procedure half() begin insert into kept_test values (7); "
        "execute nothing_like_that; end");
    for (int i = 0; i < 3; ++i) EXPECT_THROW(c.execute("call half()"), statement_error);
    EXPECT_EQ(c.execute("select count(*) from kept_test where a = 7").scalar<int>(), 3);
    c.execute("drop procedure half");
}

TEST_F(mariadb_kept, end_with_a_reset) {
    for (int i = 0; i < 3; ++i) c.execute("select a from kept_test");
    EXPECT_EQ(to.before_release(c), verdict::reset_later);
    to.reset(c);
    EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
    EXPECT_EQ(await(c.async_execute("select a from kept_test")).scalar<int>(), 1);
}

TEST_F(mariadb_kept, take_values_of_other_types) {
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(c.execute("select concat(?, '')", 7).scalar<std::string>(), "7");
        EXPECT_EQ(c.execute("select concat(?, '')", "text").scalar<std::string>(), "text");
        EXPECT_TRUE(c.execute("select concat(?, '')", nullptr)[0][0].is_null());
    }
    EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
}

/// The server has a limit for the statements of all its clients together.
TEST_F(mariadb_kept, are_closed_when_the_server_has_no_room) {
    connection roomy = connector{mariadb_url("statement_cache=100")}.open();
    std::string few = std::to_string(prepared() + 5);
    support::the_mariadb().execute_as_admin("set global max_prepared_stmt_count = " + few);
    for (int round = 0; round < 2; ++round)
        for (int n = 0; n < 20; ++n) {
            std::string text = "select ? + " + std::to_string(n);
            EXPECT_EQ(roomy.execute(text, 1).scalar<int>(), n + 1);
            EXPECT_EQ(await(roomy.async_execute(text, 2)).scalar<int>(), n + 2);
        }
    support::the_mariadb().execute_as_admin("set global max_prepared_stmt_count = 16382");
}

/// The error of a server that has failed to prepare the statement again by itself.
TEST_F(mariadb_kept, are_prepared_again_if_the_server_asks_for_it_and_nothing_is_done_twice) {
    // Not a change of the session, after which no statement is kept.
    const char* fails_once =
        "begin if (select fails from kept_fails) then update kept_fails set fails = 0; "
        "signal sqlstate 'HY000' set mysql_errno = 1615; end if; ";
    c.execute("create or replace table kept_fails (fails int) engine=aria select 0 as fails");
    connection other = connector{mariadb_url()}.open();
    auto fail = [&] { other.execute("update kept_fails set fails = 1"); };
    c.execute("drop function if exists needs_it");
    c.execute("drop procedure if exists needs_it");
    c.execute(std::string("create function needs_it() returns int deterministic ") + fails_once +
              "return 7; end");
    c.execute(std::string("create procedure needs_it() ") + fails_once + "select 7; end");
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(c.execute("select needs_it()").scalar<int>(), 7);
        EXPECT_EQ(c.execute("call needs_it()").scalar<int>(), 7);
    }
    fail();
    EXPECT_EQ(c.execute("select needs_it()").scalar<int>(), 7);
    fail();
    EXPECT_EQ(await(c.async_execute("select needs_it()")).scalar<int>(), 7);
    fail();
    EXPECT_THROW(c.execute("call needs_it()"), statement_error);
    c.execute("drop function needs_it");
    c.execute("drop procedure needs_it");
}

TEST_F(mariadb_kept, may_have_several_results_or_fail) {
    c.execute("drop procedure if exists kept_procedure");
    c.execute("create procedure kept_procedure() begin select 1; select 2; end");
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(c.execute("call kept_procedure()").scalar<int>(), 1);
        EXPECT_THROW(c.execute("select nonsense"), statement_error);
        EXPECT_THROW(c.execute("insert into kept_test values (?, ?)", 1, 2), statement_error);
    }
    c.execute("drop procedure kept_procedure");
}

}  // namespace
}  // namespace cenote::mariadb
