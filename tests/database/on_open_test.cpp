// A function that sets up each connection of a database, on each kind of server.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/postgres.hpp"
#include "cenote/sqlite.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/postgres_place.hpp"
#include "database/forms.hpp"
#include "support/patient.hpp"

namespace cenote::conformance {
namespace {

struct sqlite_kind_of_server {
    using options = sqlite::options;
    static options place() { return options::from_url("sqlite:on_open?mode=memory"); }
    static void set_up(sql::connection& c) {
        c.execute("CREATE TEMP TABLE mine AS SELECT ? AS name", "Ada");
    }
    static constexpr const char* look = "SELECT name FROM mine";
    static constexpr const char* change = "UPDATE mine SET name = 'other'";
};

struct postgres_kind_of_server {
    using options = postgres::options;
    static options place() { return options::from_url(support::postgres_url()); }
    static void set_up(sql::connection& c) {
        c.execute("SELECT set_config('my.name', $1, false)", "Ada");
    }
    static constexpr const char* look = "SELECT current_setting('my.name')";
    static constexpr const char* change = "SET my.name = 'other'";
};

struct mariadb_kind_of_server {
    using options = mariadb::options;
    static options place() { return options::from_url(support::mariadb_url()); }
    static void set_up(sql::connection& c) { c.execute("SET @name = ?", "Ada"); }
    static constexpr const char* look = "SELECT CONVERT(@name USING utf8mb4)";
    static constexpr const char* change = "SET @name = 'other'";
};

template <class Server>
struct database_on_open : testing::Test {};
using servers =
    testing::Types<sqlite_kind_of_server, postgres_kind_of_server, mariadb_kind_of_server>;
TYPED_TEST_SUITE(database_on_open, servers);

template <class Form, class Server, class On>
void expect_set_up(On& on) {
    EXPECT_EQ(Form::run(on, Server::look).template scalar<std::string>(), "Ada");
}

template <class Form, class Server>
void expect_set_up_everywhere(database& db) {
    for (int again = 0; again < 5; ++again) {
        expect_set_up<Form, Server>(db);
        {
            auto s = db.scope();
            expect_set_up<Form, Server>(s);
            Form::run(s, Server::change);
        }
        {
            transaction t = Form::begin(db);
            expect_set_up<Form, Server>(t);
            Form::run(t, Server::change);
            Form::commit(t);
        }
        EXPECT_THROW(Form::run(db, "SELEKT"), statement_error);
        auto view = db.with({.task = "view"});
        expect_set_up<Form, Server>(view);
        sql::cursor rows = Form::stream(db, Server::look);
        EXPECT_EQ(Form::next(rows)->template get<std::string>(0), "Ada");
        EXPECT_FALSE(Form::next(rows));
    }
}

TYPED_TEST(database_on_open, is_found_by_every_use) {
    auto calls = std::make_shared<std::atomic<int>>(0);
    auto what = [calls](sql::connection& c) {
        ++*calls;
        TypeParam::set_up(c);
    };
    for (std::size_t cache : {0u, 100u}) {
        *calls = 0;
        database db(TypeParam::place(),
                    {.pool = support::patient(1), .statement_cache = cache, .on_open = what});
        expect_set_up_everywhere<blocking, TypeParam>(db);
        expect_set_up_everywhere<awaited, TypeParam>(db);
        EXPECT_EQ(db.stats().opened, 1u);
        EXPECT_EQ(*calls, 1);
    }
}

TYPED_TEST(database_on_open, is_set_once) {
    typename TypeParam::options o = TypeParam::place();
    o.on_open = [](auto&) {};
    EXPECT_THROW((database(o, {.on_open = [](sql::connection&) {}})), std::invalid_argument);
}

TYPED_TEST(database_on_open, fails_the_use_with_its_exception) {
    auto calls = std::make_shared<std::atomic<int>>(0);
    options how = support::patient(1);
    how.open_errors = open_errors::fail_fast;
    database db(TypeParam::place(), {.pool = how, .on_open = [calls](sql::connection&) {
                                         if (++*calls == 1)
                                             throw std::runtime_error("the moon is wrong");
                                     }});
    try {
        db.execute("SELECT 1");
        ADD_FAILURE() << "it ran";
    } catch (const pool_error& e) {
        EXPECT_NE(std::string(e.what()).find("the moon is wrong"), std::string::npos) << e.what();
    }
    EXPECT_EQ(db.execute("SELECT 1").template scalar<int>(), 1);
}

}  // namespace
}  // namespace cenote::conformance
