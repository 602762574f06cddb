// Kept statements, and what may happen to them between two runs.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/postgres.hpp"
#include "cenote/sql.hpp"
#include "cenote/trace_context.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"

namespace cenote::postgres {
namespace {

using support::await;
using support::postgres_url;

struct postgres_kept : testing::Test {
    postgres_kept() {
        c.execute("drop table if exists kept_test");
        c.execute("create table kept_test(a int)");
        c.execute("insert into kept_test values (1)");
    }

    /// Asks with a cursor, whose statement is not kept.
    static std::string names_in(connection& on, const char* text) {
        cursor rows = on.stream(text);
        std::optional<sql::row> only = rows.next();
        std::string names = only->get<std::optional<std::string>>(0).value_or("");
        rows.next();
        return names;
    }
    int prepared() {
        connection& on = c;
        return on
            .execute("select count(*) from pg_prepared_statements where name like 'cenote_kept_%'")
            .scalar<int>();
    }

    connector to{postgres_url("statement_cache=3")};
    connection c = to.open();
    connection other = to.open();
};

TEST_F(postgres_kept, are_prepared_when_they_are_run_again) {
    EXPECT_EQ(prepared(), 0);
    EXPECT_EQ(c.execute("select a from kept_test where a = $1", 1).scalar<int>(), 1);
    EXPECT_EQ(c.execute("select a from kept_test where a = $1", 1).scalar<int>(), 1);
    EXPECT_EQ(await(c.async_execute("select a from kept_test where a = $1", 1)).scalar<int>(), 1);
    EXPECT_TRUE(c.execute("select a from kept_test where a = $1", 2).empty());
    EXPECT_EQ(prepared(), 2);  // with the one that counts them
    EXPECT_EQ(await(c.async_execute("select $1::text", "awaited")).scalar<std::string>(),
              "awaited");
    EXPECT_EQ(await(c.async_execute("select $1::text", "again")).scalar<std::string>(), "again");
}

TEST_F(postgres_kept, are_the_most_recent_ones) {
    for (int n = 0; n < 10; ++n)
        for (int i = 0; i < 3; ++i) {
            std::string text = "select $1::int + " + std::to_string(n);
            EXPECT_EQ(c.execute(text, 1).scalar<int>(), n + 1);
        }
    EXPECT_LE(prepared(), 4);
    EXPECT_EQ(c.execute("select $1::int + 0", 1).scalar<int>(), 1);
}

/// Each text with a traceparent is another one: such a statement is neither kept, nor does it
/// displace one that is.
TEST_F(postgres_kept, are_not_displaced_by_statements_of_traces) {
    const std::string text = "select a from kept_test where a = $1";
    auto names = [&] {
        return names_in(c,
                        "select string_agg(name, ' ' order by name) from "
                        "pg_prepared_statements where statement like 'select a from%'");
    };
    for (int i = 0; i < 3; ++i) EXPECT_EQ(c.execute(text, 1).scalar<int>(), 1);
    const std::string before = names();
    EXPECT_NE(before, "");
    for (std::uint8_t i = 1; i <= 10; ++i) {
        const trace_context trace{.trace_id = {1}, .span_id = {i}, .flags = 1};
        const std::string traced = text + ' ' + trace.sql_comment();
        for (int again = 0; again < 3; ++again) {
            EXPECT_EQ(c.execute(traced, 1).scalar<int>(), 1);
            EXPECT_EQ(await(c.async_execute(traced, 1)).scalar<int>(), 1);
        }
    }
    EXPECT_EQ(names(), before);
    EXPECT_EQ(c.execute(text, 1).scalar<int>(), 1);
    EXPECT_EQ(names(), before);
}

TEST_F(postgres_kept, follow_the_tables_they_are_about) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(c.execute("select * from kept_test")[0].size(), 1u);
    c.execute("alter table kept_test add column b int default 2");
    EXPECT_EQ(c.execute("select * from kept_test")[0].size(), 2u);
    c.execute("alter table kept_test add column d int default 3");
    EXPECT_EQ(await(c.async_execute("select * from kept_test"))[0].size(), 3u);
}

TEST_F(postgres_kept, are_not_run_again_in_a_transaction_that_they_have_failed) {
    for (int i = 0; i < 3; ++i) c.execute("select * from kept_test");
    other.execute("alter table kept_test add column b int");
    c.execute("begin");
    EXPECT_THROW(c.execute("select * from kept_test"), statement_error);
    EXPECT_TRUE(c.transaction_failed());
    c.execute("rollback");
    EXPECT_EQ(c.execute("select * from kept_test").size(), 1u);
}

TEST_F(postgres_kept, can_be_lost_without_a_trace) {
    for (int i = 0; i < 3; ++i) c.execute("select a from kept_test");
    c.execute("deallocate all");
    EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
    c.execute("discard all");
    EXPECT_EQ(await(c.async_execute("select a from kept_test")).scalar<int>(), 1);
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    EXPECT_EQ(prepared(), 0);
    EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
}

TEST_F(postgres_kept, outlast_a_reset_which_undoes_everything_else) {
    std::string roomy = postgres_url("statement_cache=50");
    c = connector(roomy).open();
    std::string before = c.execute("show timezone").scalar<std::string>();
    auto is_as_new = [&] {
        EXPECT_EQ(c.execute("show timezone").scalar<std::string>(), before);
        EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
        EXPECT_EQ(c.execute("select count(*) from pg_locks where locktype = 'advisory' "
                            "and pid = pg_backend_pid()")
                      .scalar<int>(),
                  0);
        EXPECT_EQ(c.execute("select count(*) from pg_cursors where is_holdable").scalar<int>(), 0);
        EXPECT_EQ(c.execute("select count(*) from pg_listening_channels()").scalar<int>(), 0);
        EXPECT_THROW(c.execute("select currval('kept_numbers')"), statement_error);
        EXPECT_EQ(c.execute("select session_user = current_user").scalar<bool>(), true);
    };
    c.execute("drop sequence if exists kept_numbers");
    c.execute("create sequence kept_numbers");
    for (int i = 0; i < 3; ++i) is_as_new();
    for (bool awaits : {false, true}) {
        c.execute("set timezone to 'Asia/Tokyo'");
        c.execute("select pg_advisory_lock(5)");
        c.execute("declare kept_cursor cursor with hold for select 1");
        c.execute("listen kept_channel");
        c.execute("select nextval('kept_numbers')");
        c.execute("begin");
        EXPECT_EQ(to.before_release(c), verdict::reset);
        if (awaits) await(async_connector(roomy).reset(c));
        else to.reset(c);
        EXPECT_GE(prepared(), 6);
        is_as_new();
    }
    c.execute("drop sequence kept_numbers");
}

TEST_F(postgres_kept, go_with_a_reset_if_there_are_others) {
    for (bool awaits : {false, true})
        for (bool in_sql : {false, true}) {
            for (int i = 0; i < 3; ++i) c.execute("select a from kept_test");
            if (in_sql) c.execute("prepare cenote_kept_of_mine as select 1");
            else std::ignore = c.prepare("select 1");
            if (awaits) await(async_connector(postgres_url("statement_cache=3")).reset(c));
            else to.reset(c);
            EXPECT_EQ(c.execute("select count(*) from pg_prepared_statements").scalar<int>(), 0);
            EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
        }
}

/// The server parses literals when it prepares a statement, and not again when a setting changes.
TEST_F(postgres_kept, mean_what_their_texts_mean_at_the_time) {
    std::string roomy = postgres_url("statement_cache=50&timezone=UTC");
    auto all_of = [](connection& on) {
        std::string said;
        for (const char* text : {"select extract(epoch from '2024-01-01 00:00'::timestamptz)::text",
                                 "select (date '02/03/2024' - date '2024-01-01')::text",
                                 "select length('a\\\\b')::text"})
            said += on.execute(text).scalar<std::string>() + " ";
        return said;
    };
    const std::vector<const char*> settings{"set time zone 'America/New_York'",
                                            "set datestyle = 'SQL, DMY'",
                                            "set standard_conforming_strings = off"};
    connection fresh = connector(roomy).open();
    std::string at_first = all_of(fresh);
    for (const char* one : settings) fresh.execute(one);
    std::string then = all_of(fresh);
    ASSERT_NE(at_first, then);

    c = connector(roomy).open();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(all_of(c), at_first);
    EXPECT_GT(prepared(), 0);
    for (const char* one : settings) c.execute(one);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(all_of(c), then);  // kept by the other session
    to.reset(c);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(all_of(c), at_first);  // this one would have kept that
    c.execute("select set_config('TimeZone', 'America/New_York', false)");
    c.execute("select set_config('DateStyle', 'SQL, DMY', false)");
    c.execute("select set_config('standard_conforming_strings', 'off', false)");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(all_of(c), then);
}

TEST_F(postgres_kept, are_used_in_read_only_sessions) {
    c = connector(postgres_url("statement_cache=50")).open();
    c.only_read();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
    EXPECT_GT(prepared(), 0);
    EXPECT_THROW(c.execute("insert into kept_test values (2)"), statement_error);
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    c.execute("insert into kept_test values (2)");
    await(c.async_only_read());
    EXPECT_THROW(c.execute("insert into kept_test values (3)"), statement_error);
}

/// Only a statement that was not run may be run again.
TEST_F(postgres_kept, are_not_run_again_because_of_what_they_do) {
    c.execute(
        "create or replace procedure half() language plpgsql as $$ begin "
        "insert into kept_test values (7); commit; raise 'no' using errcode = '0A000'; "
        "end $$");
    for (int i = 0; i < 4; ++i) EXPECT_THROW(c.execute("call half()"), statement_error);
    EXPECT_EQ(c.execute("select count(*) from kept_test where a = 7").scalar<int>(), 4);
    c.execute("drop procedure half");
}

TEST_F(postgres_kept, are_prepared_again_after_they_have_failed_a_transaction) {
    for (int i = 0; i < 3; ++i) c.execute("select * from kept_test");
    other.execute("alter table kept_test add column b int");
    auto in_transaction = [&] {
        c.execute("begin");
        try {
            c.execute("select * from kept_test");
            c.execute("commit");
            return true;
        } catch (const statement_error&) {
            c.execute("rollback");
            return false;
        }
    };
    EXPECT_FALSE(in_transaction());
    EXPECT_TRUE(in_transaction());
}

TEST_F(postgres_kept, do_not_get_in_the_way_of_a_transaction) {
    for (int n = 0; n < 5; ++n)  // some are evicted
        for (int i = 0; i < 2; ++i) c.execute("select " + std::to_string(n));
    c.execute("deallocate all");
    for (int i = 0; i < 3; ++i) {
        c.execute("begin isolation level repeatable read");
        c.execute("set transaction read only");
        EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
        c.execute("deallocate all");
        c.execute("commit");
    }
}

TEST_F(postgres_kept, tell_bytes_from_text) {
    sql::bytes octets{std::byte{0}, std::byte{255}};
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(c.execute("select $1", octets).scalar<sql::bytes>(), octets);
        EXPECT_EQ(c.execute("select $1", "text").scalar<std::string>(), "text");
        EXPECT_EQ(c.execute("select $1::int", i).scalar<int>(), i);
    }
}

TEST_F(postgres_kept, do_not_prevent_the_end_of_a_transaction) {
    for (int i = 0; i < 5; ++i) {
        c.execute("begin");
        EXPECT_THROW(c.execute("select 1/0"), statement_error);
        EXPECT_THROW(c.execute("select a from kept_test"), statement_error);
        c.execute("rollback");
        EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
    }
}

TEST_F(postgres_kept, fail_as_others_do) {
    for (int i = 0; i < 3; ++i) {
        try {
            c.execute("select nonsense");
            ADD_FAILURE();
        } catch (const statement_error& e) {
            EXPECT_EQ(e.sqlstate(), "42703");
        }
        EXPECT_THROW(c.execute("select $1::int", "x"), statement_error);
    }
    EXPECT_EQ(c.execute("select a from kept_test").scalar<int>(), 1);
}

/// There each transaction may run on another server connection.
TEST(postgres_kept_behind_pgbouncer, are_none) {
    support::pgbouncer_server bouncer(support::the_postgres(), {.pool_size = 2});
    connector to{postgres_url(bouncer.port(), "statement_cache=10")};
    std::vector<connection> clients;
    for (int i = 0; i < 3; ++i) clients.push_back(to.open());
    for (int turn = 0; turn < 5; ++turn) {
        clients[0].execute("begin");
        for (connection& c : clients) {
            if (turn % 2 == 0 && &c == &clients[2]) continue;
            EXPECT_EQ(c.execute("select $1::int", turn).scalar<int>(), turn);
        }
        clients[0].execute("commit");
        EXPECT_EQ(clients[2].execute("select $1::int", turn).scalar<int>(), turn);
    }
    EXPECT_EQ(clients[1].execute("select count(*) from pg_prepared_statements").scalar<int>(), 0);
}

}  // namespace
}  // namespace cenote::postgres
