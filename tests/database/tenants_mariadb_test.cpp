// Roles and settings of one lease on MariaDB: each lease tries to read the table of another tenant.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
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

/// With the reset of the earlier lease in front of the first statement.
TEST_F(tenants_mariadb, cost_no_round_trip) {
    support::gate gate(the_mariadb().port());
    gate.overlook(support::is_side_connection);
    options alone = support::patient(1);
    alone.reset_after = forever;  // not in the background, on a busy machine
    pool<mariadb::connection> one(mariadb::connector(mariadb_url(gate.port())), alone);
    auto setup = std::make_shared<sql::lease_setup>();
    setup->role = tenants[0];
    auto count = [&](bool with_setup, auto use) {
        auto c = one.acquire();
        c->execute("SELECT 1");  // an earlier lease
        c = {};
        auto again = one.acquire();
        if (with_setup) again->use(setup);
        const std::size_t before = gate.turns();
        use(*again);
        const std::size_t after = gate.turns();
        again.discard();
        return after - before;
    };
    // On a busy machine the gate counts a turn more now and then: the fewest of several leases.
    auto turns = [&](bool with_setup, auto use) {
        std::size_t fewest = count(with_setup, use);
        for (int i = 0; i < 9; ++i) fewest = std::min(fewest, count(with_setup, use));
        return fewest;
    };
    auto by_query = [](mariadb::connection& c) { c.execute("SELECT 1"); };
    auto by_prepare = [](mariadb::connection& c) { c.execute(c.prepare("SELECT 1")); };
    auto by_rows = [](mariadb::connection& c) { c.stream("SELECT 1").next(); };
    auto awaited = [](mariadb::connection& c) { support::await(c.async_execute("SELECT 1")); };
    EXPECT_EQ(turns(true, by_query), turns(false, by_query));
    EXPECT_EQ(turns(true, by_prepare), turns(false, by_prepare));
    EXPECT_EQ(turns(true, by_rows), turns(false, by_rows));
    EXPECT_EQ(turns(true, awaited), turns(false, awaited));
}

/// Where statements go one by one, the setup is a statement of its own.
TEST_F(tenants_mariadb, are_set_up_in_each_mode_of_reset) {
    for (const char* mode : {"reset=with_next", "reset=at_release", "reset=by_tracking"}) {
        SCOPED_TRACE(mode);
        database db(mariadb_url(mode), {.pool = support::patient(1)});
        expect_apart<blocking>(db);
        expect_apart<awaited>(db);
        EXPECT_LE(db.stats().opened, 13u);  // rows that are not read cost a connection
    }
}

template <class Form>
void expect_apart_with_many(database& db) {
    for (int again = 0; again < 4; ++again) {
        const std::string& mine = tenants[static_cast<std::size_t>(again % 2)];
        const std::string& other = tenants[static_cast<std::size_t>((again + 1) % 2)];
        const std::string insert = "INSERT INTO tenants.";
        for (bool atomic : {true, false}) {
            const sql::many_options how{.atomic = atomic};
            database_view view = as(db, mine);
            sql::batch both;
            both.add(who).add("SELECT COUNT(*) FROM tenants." + mine);
            auto seen_by_batch = Form::run_batch(view, both, how);
            EXPECT_EQ(seen_by_batch[0][0].template get<std::string>(0), own(mine));
            EXPECT_EQ(seen<Form>(db), none);
            sql::batch wrong;
            wrong.add("SELECT COUNT(*) FROM tenants." + other);
            EXPECT_THROW(Form::run_batch(view, wrong, how), sql::batch_error);
            EXPECT_EQ(seen<Form>(db), none);
            const std::vector<int> rows{2, 3};
            EXPECT_EQ(Form::run_many(view, insert + mine + " VALUES (?)", rows, how), 2u);
            EXPECT_EQ(seen<Form>(db), none);
            EXPECT_THROW(Form::run_many(view, insert + other + " VALUES (?)", rows, how),
                         statement_error);
            EXPECT_THROW(Form::run_many(db, insert + mine + " VALUES (?)", rows, how),
                         statement_error);
            EXPECT_EQ(seen<Form>(db), none);
        }
    }
}

TEST_F(tenants_mariadb, have_batches_and_many_rows) {
    for (const std::string& t : tenants)
        the_mariadb().execute_as_admin("GRANT INSERT ON tenants." + t + " TO " + t);
    for (bool trusting : {false, true}) {
        database db(mariadb_url(), {.pool = support::patient(1), .trust_statements = trusting});
        expect_apart_with_many<blocking>(db);
        expect_apart_with_many<awaited>(db);
        EXPECT_EQ(db.stats().opened, 1u);
    }
}

/// The replies are cut off after each byte: a statement that ran has run as the tenant.
TEST_F(tenants_mariadb, leave_nothing_wherever_they_are_cut_off) {
    support::gate gate(the_mariadb().port());
    gate.overlook(support::is_side_connection);
    pool<mariadb::connection> one(mariadb::connector(mariadb_url(gate.port())),
                                  support::patient(1));
    auto setup = std::make_shared<sql::lease_setup>();
    setup->role = tenants[0];
    setup->settings = {{"@tenant", tenants[0]}};
    auto look = [](mariadb::connection& c) { return c.execute(who).scalar<std::string>(); };
    bool whole = false;
    for (std::size_t bytes = 0; !whole && bytes < 2000; bytes += support::slowly ? 11 : 3) {
        SCOPED_TRACE(bytes);
        EXPECT_EQ(look(*one.acquire()), none);
        {
            auto c = one.acquire();
            c->use(setup);
            gate.cut_after(bytes);
            try {
                EXPECT_EQ(look(*c), own(tenants[0]));
                whole = true;
            } catch (const connection_error&) {
            }
            gate.pass();
        }
        EXPECT_EQ(look(*one.acquire()), none);
    }
    EXPECT_TRUE(whole);
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
