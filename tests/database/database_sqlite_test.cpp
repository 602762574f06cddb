// A database in a file.
#include <atomic>
#include <memory>
#include <sqlite3.h>
#include <string>
#include <thread>
#include <vector>

#include "cenote/sqlite.hpp"
#include "connector/sqlite_file.hpp"
#include "database/conformance.hpp"
#include "database/conformance_cancel.hpp"

namespace cenote::conformance {
namespace {

/// Which statement has begun: what begun(n) was called with, by whichever connection.
using latest = std::shared_ptr<std::atomic<int>>;

void register_begun(sqlite::connection& on, const latest& begun) {
    sqlite3_create_function_v2(
        on.native_handle(), "begun", 1, SQLITE_UTF8, new latest(begun),
        [](sqlite3_context* to, int, sqlite3_value** from) {
            **static_cast<latest*>(sqlite3_user_data(to)) = sqlite3_value_int(from[0]);
            sqlite3_result_int(to, 1);
        },
        nullptr, nullptr, [](void* kept) { delete static_cast<latest*>(kept); });
}

struct sqlite_place {
    support::sqlite_file file;

    std::string url() const { return file.url(); }
    const char* setting = "PRAGMA cache_size = 77";
    const char* what_is_set = "SELECT 'it is ' || cache_size FROM pragma_cache_size";
    const char* value = "it is 77";
    const char* setting_seen = setting;
    const char* what_is_seen = what_is_set;
    const char* value_seen = value;
    const char* lock = "BEGIN IMMEDIATE";
    const char* try_lock = "SELECT 1";
    static constexpr bool fails_as_a_whole = false;

    latest begun = std::make_shared<std::atomic<int>>(0);
    database open(const database_options& how, const char* parameters = "") const {
        sqlite::options where = sqlite::options::from_url(file.url(parameters));
        where.on_open = [of = begun](sqlite::connection& on) { register_begun(on, of); };
        return database(where, how);
    }
    database open_far_away(const database_options& how) const { return open(how); }
    static std::string endless(int n) {
        return "WITH RECURSIVE c(n) AS (SELECT begun(" + std::to_string(n) +
               ") UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c";
    }
    bool is_at(database&, const std::string& what) const { return endless(*begun) == what; }
    static void expect_usual(transaction& t, database&) {
        EXPECT_EQ(t.query("PRAGMA query_only").scalar<int>(), 0);
    }

    // With a rollback journal: there a commit has to wait until nobody reads.
    support::sqlite_file with_journal;
    std::string commit_url() const { return with_journal.url("?journal_mode=delete"); }
    static void prepare_commits(database&) {}
    std::vector<const char*> hold_commits{"BEGIN", "SELECT count(*) FROM pair"};
    /// Who waits to commit lets nobody begin to read.
    bool is_committing(database&) const {
        sqlite3* own = nullptr;
        sqlite3_open(with_journal.path().c_str(), &own);
        int code = sqlite3_exec(own, "SELECT count(*) FROM pair", nullptr, nullptr, nullptr);
        sqlite3_close(own);
        return code == SQLITE_BUSY;
    }
};

using kinds = testing::Types<kind<sqlite_place, blocking>, kind<sqlite_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, any_database, kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, any_failing_database, kinds);

using awaited_kind = testing::Types<kind<sqlite_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, any_cancelled_database, awaited_kind);

TEST(database, says_which_urls_it_knows) {
    EXPECT_THROW(database("oracle://x/y"), invalid_url);
    EXPECT_THROW(database("orders.db"), invalid_url);
    EXPECT_THROW(database("sqlite::memory:"), std::invalid_argument);
}

TEST(database_direct, says_at_once_that_there_is_no_server) {
    EXPECT_THROW(database::direct("postgresql://app@127.0.0.1:1/orders"), connection_error);
    EXPECT_THROW(database::direct("sqlite:no/such/folder/file.db"), connection_error);
}

TEST(database_direct, does_not_let_a_thread_wait_for_itself) {
    support::sqlite_file file;
    database db = database::direct(file.url());
    auto s = db.scope();
    s.execute("CREATE TABLE t (n INTEGER)");
    EXPECT_THROW(db.execute("SELECT 1"), deadlock_error);
    EXPECT_TRUE(s.query("SELECT n FROM t").empty());
}

TEST(database_direct, is_waited_for_by_others) {
    support::sqlite_file file;
    database db = database::direct(file.url());
    db.execute("CREATE TABLE counter (n INTEGER)");
    db.execute("INSERT INTO counter VALUES (0)");
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i)
        all.emplace_back([&] {
            for (int j = 0; j < 20; ++j) db.execute("UPDATE counter SET n = n + 1");
        });
    for (std::thread& each : all) each.join();
    EXPECT_EQ(db.query("SELECT n FROM counter").scalar<int>(), 80);
    EXPECT_EQ(db.stats().opened, 1u);
}

TEST(database_sqlite, keeps_what_is_in_memory) {
    database db{"sqlite:kept?mode=memory"};
    db.execute("CREATE TABLE t (n INTEGER)");
    db.execute("INSERT INTO t VALUES (?)", 7);
    auto s = db.scope();
    EXPECT_EQ(s.query("SELECT n FROM t").scalar<int>(), 7);
    EXPECT_EQ(db.query("SELECT n FROM t").scalar<int>(), 7);
}

TEST(database_sqlite, registers_functions_with_every_connection) {
    support::sqlite_file file;
    std::atomic<int> opened{0};
    sqlite::options where = sqlite::options::from_url(file.url());
    where.on_open = [&](sqlite::connection& c) {
        ++opened;
        sqlite3_create_function(
            c.native_handle(), "twice", 1, SQLITE_UTF8, nullptr,
            [](sqlite3_context* to, int, sqlite3_value** from) {
                sqlite3_result_int(to, 2 * sqlite3_value_int(from[0]));
            },
            nullptr, nullptr);
    };
    database db{where};
    auto first = db.scope();
    auto second = db.scope();
    EXPECT_EQ(first.query("SELECT twice(?)", 4).scalar<int>(), 8);
    EXPECT_EQ(second.query("SELECT twice(?)", 5).scalar<int>(), 10);
    EXPECT_EQ(opened, 2);
}

/// Nobody is told that it is locked: they take turns.
TEST(database_sqlite, lets_many_write_one_after_the_other) {
    support::sqlite_file file;
    database db{file.url(), {.pool = {.max = 8}}};
    db.execute("CREATE TABLE counter (n INTEGER)");
    db.execute("INSERT INTO counter VALUES (0)");
    std::vector<std::thread> writers;
    for (int w = 0; w < 8; ++w)
        writers.emplace_back([&] {
            for (int i = 0; i < 25; ++i)
                db.transaction([](transaction& t) {
                    int n = t.query("SELECT n FROM counter").scalar<int>();
                    t.execute("UPDATE counter SET n = ?", n + 1);
                });
        });
    for (std::thread& w : writers) w.join();
    EXPECT_EQ(db.query("SELECT n FROM counter").scalar<int>(), 200);
}

/// All threads that work for coroutines are busy, and it is cancelled before one has turned to it.
TEST(database_sqlite, ends_a_statement_that_was_cancelled_before_it_began) {
    sqlite_place at;
    own_thread runs;
    constexpr int threads = 4;
    database db = at.open(at_most(threads + 1), "?operation_timeout=60s");
    std::vector<std::string> texts;
    for (int i = 1; i <= threads + 1; ++i) texts.push_back(sqlite_place::endless(i));
    std::vector<pending> busy;
    for (int i = 1; i <= threads; ++i) {
        busy.emplace_back(ask(&db, texts[static_cast<std::size_t>(i - 1)].c_str()));
        EXPECT_TRUE(eventually([&] { return *at.begun == i; }));
    }
    pending late(ask(&db, texts.back().c_str()));
    EXPECT_TRUE(eventually([&] { return db.stats().leased == threads + 1; }));
    late.ask_to_stop();
    for (pending& each : busy) EXPECT_TRUE(is_cancellation(each.cancel()));
    EXPECT_TRUE(is_cancellation(late.end()));
    expect_as_new(db);
}

}  // namespace
}  // namespace cenote::conformance
