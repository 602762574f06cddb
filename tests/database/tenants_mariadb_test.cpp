// Roles and settings of one lease on MariaDB: each lease tries to read the table of another tenant.
#include <array>
#include <chrono>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "connector/mariadb_place.hpp"
#include "database/canceling.hpp"
#include "database/forms.hpp"
#include "support/gate.hpp"
#include "support/patient.hpp"

namespace cenote::conformance {
namespace {

using namespace std::chrono_literals;
using support::mariadb_url;
using support::the_mariadb;

const std::array<std::string, 2> tenants{"tenant_a", "tenant_b"};

constexpr const char* who =
    "SELECT CONCAT(COALESCE(CURRENT_ROLE(), 'none'), ' ', "
    "COALESCE(CONVERT(@tenant USING utf8mb4), 'none'))";
constexpr const char* none = "none none";

database_view as(database& db, const std::string& tenant) {
    return db.with({.role = tenant, .settings = {{"@tenant", tenant}}});
}

template <class Form, class On>
std::string seen(On& on) {
    return Form::run(on, who)[0].template get<std::string>(0);
}

std::string own(const std::string& tenant) { return tenant + " " + tenant; }

template <class Form>
void expect_apart(database& db) {
    for (int again = 0; again < 6; ++again) {
        const std::string& mine = tenants[static_cast<std::size_t>(again % 2)];
        const std::string& other = tenants[static_cast<std::size_t>((again + 1) % 2)];
        database_view view = as(db, mine);
        EXPECT_EQ(seen<Form>(view), own(mine));
        EXPECT_EQ(seen<Form>(db), none);
        EXPECT_EQ(Form::run(view, "SELECT COUNT(*) FROM tenants." + mine)[0].template get<int>(0),
                  1);
        EXPECT_THROW(Form::run(view, "SELECT COUNT(*) FROM tenants." + other), statement_error);
        EXPECT_THROW(Form::run(db, "SELECT COUNT(*) FROM tenants." + mine), statement_error);
        {
            auto s = view.scope();
            EXPECT_THROW(Form::run(s, "SELEKT"), statement_error);
            EXPECT_EQ(seen<Form>(s), own(mine));
            transaction t = Form::begin(s);
            EXPECT_EQ(seen<Form>(t), own(mine));
            Form::rollback(t);
            EXPECT_EQ(seen<Form>(s), own(mine));
        }
        EXPECT_EQ(seen<Form>(db), none);
        {
            sql::cursor rows = Form::stream(view, who);
            EXPECT_EQ(Form::next(rows)->template get<std::string>(0), own(mine));
        }
        EXPECT_EQ(seen<Form>(db), none);
    }
}

struct tenants_mariadb : testing::Test {
    static void SetUpTestSuite() {
        std::string all = "CREATE DATABASE IF NOT EXISTS tenants;";
        for (const std::string& t : tenants)
            all += "CREATE ROLE IF NOT EXISTS " + t + "; GRANT " + t +
                   " TO app@'%'; CREATE OR REPLACE TABLE tenants." + t +
                   " AS SELECT 1 AS n; GRANT SELECT ON tenants." + t + " TO " + t + ";";
        the_mariadb().execute_as_admin(all);
    }
};

TEST_F(tenants_mariadb, see_only_their_own_tables) {
    for (bool trusting : {false, true}) {
        database db(mariadb_url(), {.pool = support::patient(1), .trust_statements = trusting});
        expect_apart<blocking>(db);
        expect_apart<awaited>(db);
    }
}

TEST_F(tenants_mariadb, are_refused_if_the_server_refuses_them) {
    database db(mariadb_url(), {.pool = support::patient(1)});
    const std::array<setting, 1> unknown{{{"no_such_variable", "1"}}};
    for (use_options how : {use_options{.role = "no_such_role"},
                            use_options{.role = tenants[0], .setting_list = unknown}}) {
        auto s = db.with(how).scope();
        for (int again = 0; again < 2; ++again) {
            try {
                s.query(who);
                ADD_FAILURE();
            } catch (const statement_error& e) {
                EXPECT_NE(std::string(e.what()).find("the statement was not run"),
                          std::string::npos);
            }
        }
    }
    EXPECT_THROW(db.with({.role = "NONE"}).query(who), std::invalid_argument);
    for (const char* name : {"", "a b", "sql_mode", "autocommit", "session_track_schema"})
        EXPECT_THROW(db.with({.settings = {{name, "0"}}}).query(who), std::invalid_argument)
            << name;
    EXPECT_EQ(seen<blocking>(db), none);
    EXPECT_EQ(db.stats().opened, 1u);
}

TEST_F(tenants_mariadb, are_stopped_in_time) {
    database db(mariadb_url(), {.pool = support::patient(1)});
    database_view view = db.with({.statement_timeout = 100ms});
    for (int again = 0; again < 2; ++again)
        EXPECT_THROW(view.query("SELECT COUNT(*) FROM (SELECT SLEEP(600)) s"), statement_error);
    EXPECT_EQ(db.query("SELECT @@max_statement_time = 0").scalar<int>(), 1);
}

boost::asio::awaitable<void> look_as(database_view* as) { co_await as->async_query(who); }

TEST_F(tenants_mariadb, leave_nothing_whenever_they_are_canceled) {
    support::gate gate(the_mariadb().port());
    gate.delay(1ms);
    database db(mariadb_url(gate.port()), {.pool = support::patient(1)});
    bool went_on = true;
    for (unsigned steps = 1; went_on && steps < 1000; ++steps) {
        SCOPED_TRACE(steps);
        database_view view = as(db, tenants[steps % 2]);
        went_on = canceled_after(static_cast<int>(steps), look_as(&view)).has_value();
        EXPECT_EQ(seen<blocking>(db), none);
        database_view other = as(db, tenants[(steps + 1) % 2]);
        EXPECT_EQ(seen<blocking>(other), own(tenants[(steps + 1) % 2]));
    }
    EXPECT_FALSE(went_on);
}

}  // namespace
}  // namespace cenote::conformance
