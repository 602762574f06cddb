// Settings of one lease on SQLite: pragmas.
#include <chrono>
#include <memory>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "cenote/pool.hpp"
#include "cenote/sqlite.hpp"
#include "database/forms.hpp"
#include "support/patient.hpp"

namespace cenote::conformance {
namespace {

using namespace std::chrono_literals;

template <class Form>
void expect_apart(database& db) {
    auto pragma = [](auto& on) {
        return Form::run(on, "PRAGMA recursive_triggers")[0].template get<int>(0);
    };
    for (int again = 0; again < 3; ++again) {
        EXPECT_EQ(pragma(db), 0);
        database_view view = db.with({.settings = {{"recursive_triggers", "on"}}});
        EXPECT_EQ(pragma(view), 1);
        {
            auto s = view.scope();
            Form::run(s, "BEGIN");
            Form::run(s, "ROLLBACK");
            EXPECT_EQ(pragma(s), 1);
        }
        {
            sql::cursor rows = Form::stream(view, "PRAGMA recursive_triggers");
            EXPECT_EQ(Form::next(rows)->template get<int>(0), 1);
        }
        {
            auto s = view.scope();
            EXPECT_THROW(Form::run(s, "SELEKT"), statement_error);
            EXPECT_EQ(pragma(s), 1);
        }
        EXPECT_EQ(pragma(db), 0);
    }
}

struct tenants_sqlite : testing::Test {
    database db{"sqlite:tenants?mode=memory", {.pool = support::patient(1)}};
};

TEST_F(tenants_sqlite, have_pragmas_of_their_own) {
    expect_apart<blocking>(db);
    expect_apart<awaited>(db);
    EXPECT_EQ(db.stats().opened, 1u);
}

template <class Form>
void expect_apart_with_many(database& db) {
    const char* look = "SELECT recursive_triggers FROM pragma_recursive_triggers";
    for (bool atomic : {true, false}) {
        const sql::many_options how{.atomic = atomic};
        database_view view = db.with({.settings = {{"recursive_triggers", "on"}}});
        sql::batch one;
        one.add(look);
        EXPECT_EQ(Form::run_batch(view, one, how)[0].template scalar<int>(), 1);
        EXPECT_EQ(Form::run_batch(db, one, how)[0].template scalar<int>(), 0);
        const std::string insert = std::string("INSERT INTO seen SELECT ? * 10 + n FROM (") +
                                   "SELECT recursive_triggers AS n FROM pragma_recursive_triggers)";
        Form::run_many(view, insert, std::vector<int>{1, 2}, how);
        Form::run_many(db, insert, std::vector<int>{3}, how);
        auto all = Form::run(db, "SELECT group_concat(n) FROM (SELECT n FROM seen ORDER BY n)");
        EXPECT_EQ(all.template scalar<std::string>(), "11,21,30");
        Form::run(db, "DELETE FROM seen");
    }
}

TEST_F(tenants_sqlite, have_batches_and_many_rows) {
    db.execute("CREATE TABLE seen (n)");
    expect_apart_with_many<blocking>(db);
    expect_apart_with_many<awaited>(db);
    EXPECT_EQ(db.stats().opened, 1u);
}

TEST_F(tenants_sqlite, are_set_up_before_the_handle_is_used) {
    pool<sqlite::connection> one(sqlite::connector("sqlite:handle?mode=memory"),
                                 support::patient(1));
    auto setup = std::make_shared<sql::lease_setup>();
    setup->settings = {{"recursive_triggers", "on"}};
    auto look = [](sqlite3* by) {
        std::string value;
        sqlite3_exec(
            by, "PRAGMA recursive_triggers",
            [](void* to, int, char** row, char**) {
                *static_cast<std::string*>(to) = row[0];
                return 0;
            },
            &value, nullptr);
        return value;
    };
    for (int again = 0; again < 3; ++again) {
        {
            auto c = one.acquire();
            c->use(setup);
            EXPECT_EQ(look(c->native_handle()), "1");
        }
        EXPECT_EQ(look(one.acquire()->native_handle()), "0");
    }
}

TEST_F(tenants_sqlite, are_stopped_in_time) {
    database_view view = db.with({.statement_timeout = 20ms});
    EXPECT_THROW(view.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                              "SELECT count(*) FROM n"),
                 statement_error);
    EXPECT_EQ(view.query("SELECT 1").scalar<int>(), 1);
}

TEST_F(tenants_sqlite, are_refused_if_sqlite_cannot_have_them) {
    EXPECT_THROW(db.with({.role = "a"}).query("SELECT 1"), std::invalid_argument);
    for (const char* name : {"", "user_version", "journal_mode", "cache_size = 1; PRAGMA x"})
        EXPECT_THROW(db.with({.settings = {{name, "1"}}}).query("SELECT 1"), std::invalid_argument)
            << name;
    EXPECT_THROW(db.with({.settings = {{"cache_size", "1; DROP"}}}).query("SELECT 1"),
                 std::invalid_argument);
    EXPECT_THROW(db.with({.statement_timeout = 0ns}).query("SELECT 1"), std::invalid_argument);
    EXPECT_EQ(db.query("SELECT 1").scalar<int>(), 1);
}

}  // namespace
}  // namespace cenote::conformance
