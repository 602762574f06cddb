// A database on SQLite.
#include <atomic>
#include <memory>
#include <optional>
#include <sqlite3.h>
#include <string>
#include <thread>
#include <vector>

#include "cenote/sqlite.hpp"
#include "connector/sqlite_file.hpp"
#include "database/conformance.hpp"
#include "database/conformance_callers.hpp"
#include "database/conformance_cancel.hpp"

namespace cenote::conformance {
namespace {

/// The argument of the latest call of the SQL function begun(n) on any connection.
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

    // With a rollback journal a commit waits until no connection reads.
    support::sqlite_file with_journal;
    std::string commit_url() const { return with_journal.url("?journal_mode=delete"); }
    static void prepare_commits(database&) {}
    std::vector<const char*> hold_commits{"BEGIN", "SELECT count(*) FROM pair"};
    /// While a commit waits, no other connection can begin to read.
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
INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, any_called_database, testing::Types<sqlite_place>);
INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, any_failing_database, kinds);

using awaited_kind = testing::Types<kind<sqlite_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, any_canceled_database, awaited_kind);

TEST(database, says_which_urls_it_knows) {
    EXPECT_THROW(database("oracle://x/y"), invalid_url);
    EXPECT_THROW(database("orders.db"), invalid_url);
    EXPECT_THROW(database("sqlite::memory:"), std::invalid_argument);
}

TEST(database_direct, says_at_once_that_there_is_no_server) {
    EXPECT_THROW(database::direct("postgresql://app@127.0.0.1:1/orders"), connection_error);
    EXPECT_THROW(database::direct("sqlite:no/such/folder/file.db"), connection_error);
}

TEST(database_direct, says_that_a_thread_waits_for_itself) {
    support::sqlite_file file;
    database db =
        database::direct(file.url(), {.pool = {.acquire_timeout = std::chrono::milliseconds{10}}});
    auto s = db.scope();
    s.execute("CREATE TABLE t (n INTEGER)");
    try {
        db.execute("SELECT 1");
        FAIL() << "the scope has the only connection";
    } catch (const timed_out_error& e) {
        EXPECT_NE(std::string(e.what()).find("probably a deadlock"), std::string::npos) << e.what();
    }
    EXPECT_TRUE(s.query("SELECT n FROM t").empty());
}

TEST(database_direct, refuses_options_that_it_would_ignore) {
    support::sqlite_file file;
    using namespace std::chrono_literals;
    auto refused = [&](const options& pool) -> std::string {
        try {
            database db = database::direct(file.url(), {.pool = pool});
            return "";
        } catch (const invalid_option& e) {
            EXPECT_THAT(e.what(), HasSubstr("has no effect on database::direct"));
            return e.option();
        }
    };
    EXPECT_EQ(refused({.max = 4}), "max");
    EXPECT_EQ(refused({.min_size = 2}), "min_size");
    EXPECT_EQ(refused({.min_idle = 1}), "min_idle");
    EXPECT_EQ(refused({.warm_up = warm_up::none}), "warm_up");
    EXPECT_EQ(refused({.idle_timeout = 1s}), "idle_timeout");
    EXPECT_EQ(refused({.max_lifetime = 1h}), "max_lifetime");
    EXPECT_EQ(refused({.lifetime_jitter = 0.5}), "lifetime_jitter");
    EXPECT_EQ(refused({.max_uses = 9}), "max_uses");
    // Values that it uses anyway and options that have an effect are accepted.
    EXPECT_EQ(refused({.max = 1,
                       .min_size = 1,
                       .warm_up = warm_up::wait,
                       .idle_timeout = forever,
                       .max_lifetime = forever}),
              "");
    EXPECT_EQ(refused({.name = "tool", .acquire_timeout = 1s, .leak_after = forever}), "");
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

/// A statement has its connection only while it runs, so an SQL function looks at the leases.
TEST(database_callers, are_named_while_a_statement_runs) {
    support::sqlite_file file;
    database* db = nullptr;
    lease_info seen;
    auto look = [&] { seen = db->controls()[0].leases().at(0); };
    using looks = decltype(look);
    sqlite::options where = sqlite::options::from_url(file.url());
    where.on_open = [&](sqlite::connection& c) {
        sqlite3_create_function(
            c.native_handle(), "look", 0, SQLITE_UTF8, &look,
            [](sqlite3_context* to, int, sqlite3_value**) {
                (*static_cast<looks*>(sqlite3_user_data(to)))();
                sqlite3_result_int(to, 1);
            },
            nullptr, nullptr);
    };
    database one{where};
    db = &one;
    auto expect_seen = [&](unsigned line, const char* task) {
        EXPECT_EQ(seen.site.line(), line);
        EXPECT_THAT(seen.site.file_name(), EndsWith("database_sqlite_test.cpp"));
        EXPECT_STREQ(seen.task, task);
    };
    one.execute("SELECT look()");
    expect_seen(line_here() - 1, nullptr);
    one.query(idempotent, std::string("SELECT look()"));
    expect_seen(line_here() - 1, nullptr);
    one.with({.task = "a"}).query("SELECT look()");
    expect_seen(line_here() - 1, "a");
    auto work = [&]() -> boost::asio::awaitable<void> {
        co_await one.async_execute(std::string_view("SELECT look()"));
        expect_seen(line_here() - 1, nullptr);
        co_await one.async_query(idempotent, "SELECT look()");
        expect_seen(line_here() - 1, nullptr);
        co_await one.with({.task = "b"}).async_execute("SELECT look() + ?", std::string("1"));
        expect_seen(line_here() - 1, "b");
    };
    await_on(loop(0), work());
}

TEST(database_view, does_not_keep_its_database_open) {
    support::sqlite_file file;
    std::optional<database> db(std::in_place, file.url());
    database_view view = db->with({.task = "late"});
    EXPECT_EQ(view.query("SELECT 1").scalar<int>(), 1);
    db.reset();
    EXPECT_THROW(view.execute("SELECT 1"), closed_error);
    EXPECT_THROW((void)view.begin(), closed_error);
}

TEST(database_callers, are_served_by_priority) {
    support::sqlite_file file;
    database db = database::direct(file.url(), {.pool = {.acquire_timeout = support::plenty,
                                                         .head_start = std::chrono::hours(1)}});
    auto busy = std::make_unique<scope>(db.scope());
    busy->execute("SELECT 1");
    std::string order;  // written only with the connection
    auto wait_as = [&](priority which, char name) {
        return std::thread([&db, &order, which, name] {
            auto s = db.with({.priority = which}).scope();
            s.execute("SELECT 1");
            order += name;
        });
    };
    std::thread low = wait_as(priority::low, 'l');
    EXPECT_TRUE(eventually([&] { return db.stats().waiting == 1; }));
    std::thread high = wait_as(priority::high, 'h');
    EXPECT_TRUE(eventually([&] { return db.stats().waiting == 2; }));
    busy.reset();
    low.join();
    high.join();
    EXPECT_EQ(order, "hl");
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

/// No writer gets a "database is locked" error.
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

/// All work threads are busy, and the statement is canceled before a thread begins it.
TEST(database_sqlite, ends_a_statement_that_was_canceled_before_it_began) {
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
