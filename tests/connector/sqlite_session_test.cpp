// Changes of a session are gone for the next lease of the connection.
#include <sqlite3.h>
#include <string>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "cenote/sqlite.hpp"
#include "connector/sqlite_file.hpp"
#include "support/patience.hpp"

namespace cenote::sqlite {
namespace {

using support::sqlite_file;

struct trace {
    const char* name;
    const char* leave;  // what a lease does
    const char* look;   // what the next one sees
    const char* clean;  // if nothing is left
};

struct sqlite_session : testing::TestWithParam<trace> {
    sqlite_file file;
    pool<connection> one{connector{file.url()}, {.max = 1}};
};

std::string look_at(connection& c, const char* how) {
    const sql::value v = c.execute(how)[0][0];
    if (const auto* number = std::get_if<std::int64_t>(&v.get())) return std::to_string(*number);
    return v.is_null() ? "null" : v.as<std::string>();
}

TEST_P(sqlite_session, forgets) {
    sqlite3* same = nullptr;
    {
        auto lease = one.acquire();
        same = lease->native_handle();
        lease->execute("CREATE TABLE t(n)");
        lease->execute("ATTACH ? AS present", file.path() + ".other");
        lease->execute("DETACH present");
    }
    {
        auto lease = one.acquire();
        std::string before = look_at(*lease, GetParam().look);
        EXPECT_EQ(before, GetParam().clean);
        lease->execute(GetParam().leave);
        EXPECT_NE(look_at(*lease, GetParam().look), before) << "nothing was left";
    }
    auto lease = one.acquire();
    EXPECT_EQ(look_at(*lease, GetParam().look), GetParam().clean);
    EXPECT_EQ(lease->native_handle(), same);
}

INSTANTIATE_TEST_SUITE_P(
    all, sqlite_session,
    testing::Values(
        trace{"temporary_table", "CREATE TEMP TABLE mine(n)",
              "SELECT count(*) FROM temp.sqlite_schema", "0"},
        trace{"temporary_view", "CREATE TEMP VIEW mine AS SELECT 1",
              "SELECT count(*) FROM temp.sqlite_schema", "0"},
        trace{"temporary_trigger",
              "CREATE TEMP TRIGGER \"o\"\"dd\" AFTER INSERT ON t BEGIN SELECT 1; END",
              "SELECT count(*) FROM temp.sqlite_schema", "0"},
        trace{"attached", "ATTACH ':memory:' AS \"other one\"",
              "SELECT count(*) FROM pragma_database_list WHERE name NOT IN ('main', 'temp')", "0"},
        trace{"foreign_keys", "PRAGMA foreign_keys = off", "PRAGMA foreign_keys", "1"},
        trace{"query_only", "PRAGMA query_only(1)", "PRAGMA query_only", "0"},
        trace{"case_sensitive_like", "PRAGMA Case_Sensitive_Like = ON", "SELECT 'a' LIKE 'A'", "1"},
        trace{"busy_timeout", "PRAGMA busy_timeout = 7", "PRAGMA busy_timeout", "0"},
        trace{"cache_size", "PRAGMA cache_size = 10", "PRAGMA cache_size", "-2000"},
        trace{"synchronous", "PRAGMA synchronous = 0", "PRAGMA synchronous", "2"},
        trace{"temp_store", "PRAGMA temp_store = 2", "PRAGMA temp_store", "0"},
        trace{"recursive_triggers", "PRAGMA recursive_triggers = 1", "PRAGMA recursive_triggers",
              "0"},
        trace{"locking_mode", "PRAGMA locking_mode = exclusive", "PRAGMA locking_mode", "normal"},
        trace{"last_insert_rowid", "INSERT INTO t VALUES (1)", "SELECT last_insert_rowid()", "0"}),
    [](const auto& each) { return each.param.name; });

struct sqlite_left : testing::Test {
    sqlite_file file;
    connector to{file.url()};
    connection c = to.open();
};

TEST_F(sqlite_left, a_transaction_is_rolled_back) {
    pool<connection> one{to, {.max = 1}};
    one.acquire()->execute("CREATE TABLE t(n)");
    {
        auto lease = one.acquire();
        lease->execute("BEGIN");
        lease->execute("INSERT INTO t VALUES (1)");
        EXPECT_TRUE(lease->in_transaction());
    }
    auto lease = one.acquire();
    EXPECT_FALSE(lease->in_transaction());
    EXPECT_EQ(lease->execute("SELECT count(*) FROM t").scalar<int>(), 0);
}

TEST_F(sqlite_left, nothing_costs_no_reset) {
    c.execute("CREATE TABLE t(n)");
    c.execute("INSERT INTO t VALUES (1)");
    c.execute("PRAGMA table_info(t)");
    c.execute("PRAGMA user_version = 3");
    EXPECT_EQ(to.before_release(c), verdict::keep);
}

TEST_F(sqlite_left, what_cannot_be_undone_costs_the_connection) {
    c.execute("PRAGMA writable_schema = 1");
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(sqlite_left, a_statement_ends_with_its_lease) {
    statement s = c.prepare("SELECT 1");
    auto rows = c.stream("SELECT 1 UNION SELECT 2");
    EXPECT_TRUE(rows.next());
    EXPECT_EQ(to.before_release(c), verdict::keep);
    EXPECT_THROW(c.execute(s), std::logic_error);
    EXPECT_THROW(rows.next(), std::logic_error);
    EXPECT_EQ(sqlite3_next_stmt(c.native_handle(), nullptr), nullptr);
}

TEST_F(sqlite_left, a_timeout_ends_with_its_lease) {
    c.set_timeout(std::chrono::nanoseconds{1});
    EXPECT_EQ(to.before_release(c), verdict::keep);
    EXPECT_EQ(c.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
                        "5000) SELECT count(*) FROM n")
                  .scalar<int>(),
              5000);
}

/// A kept statement must not hide a change of the session.
TEST(sqlite_kept, change_nothing_unseen) {
    support::sqlite_file file;
    connector to{file.url("?statement_cache=4")};
    connection c = to.open();
    auto size = [&] { return c.execute("SELECT cache_size FROM pragma_cache_size").scalar<int>(); };
    int before = size();
    // Each of them alone, too: a change of the schema makes SQLite compile all statements again.
    for (bool with_a_table : {false, false, false, true, true}) {
        c.execute("PRAGMA cache_size = 77");
        if (with_a_table) c.execute("CREATE TEMP TABLE t(n)");
        EXPECT_EQ(size(), 77);
        EXPECT_EQ(to.before_release(c), verdict::reset);
        to.reset(c);
        EXPECT_EQ(size(), before);
        EXPECT_EQ(to.before_release(c), verdict::keep);
    }
}

TEST(sqlite_kept, follow_their_tables_and_are_evicted) {
    support::sqlite_file file;
    connector to{file.url("?statement_cache=2")};
    connection c = to.open();
    c.execute("CREATE TABLE t(a)");
    c.execute("INSERT INTO t VALUES (?)", 1);
    EXPECT_EQ(c.execute("SELECT * FROM t")[0].size(), 1u);
    c.execute("ALTER TABLE t ADD COLUMN b DEFAULT 2");
    EXPECT_EQ(c.execute("SELECT * FROM t")[0].size(), 2u);
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(c.execute("SELECT ? + " + std::to_string(i % 5), 1).scalar<int>(), 1 + i % 5);
    EXPECT_THROW(c.execute("SELECT ?", 1, 2), statement_error);
    EXPECT_THROW(c.execute("INSERT INTO t(a, a) VALUES (1)"), statement_error);
    c.execute("DROP TABLE t");
    EXPECT_THROW(c.execute("SELECT * FROM t"), statement_error);
}

}  // namespace
}  // namespace cenote::sqlite
