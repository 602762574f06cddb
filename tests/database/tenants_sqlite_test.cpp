// Settings of one lease on SQLite: pragmas.
#include <chrono>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
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
