// Replicas with connector options and credentials of their own.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/database.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/postgres.hpp"
#include "cenote/sqlite.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sql_credentials.hpp"
#include "connector/sqlite_file.hpp"
#include "support/clock.hpp"

namespace cenote {
namespace {

using credentials_test::vault;
using support::canary_password;
using support::eventually;

/// A standby knows the users and passwords of its primary, a while later.
struct postgres_place {
    using options = postgres::options;
    static constexpr const char* who =
        "SELECT session_user || CASE WHEN pg_is_in_recovery() THEN ' replica ' ELSE ' primary ' END"
        " || current_setting('statement_timeout')";
    static constexpr const char* limit = "statement_timeout";

    options primary_options() const {
        return options::from_url(support::postgres_url(first.port()));
    }
    void lead_to_replica(options& o) const { o.hosts.front().port = other.port(); }
    void give_reader(const std::string& password) const {
        if (first.execute_as_admin("select 1 from pg_roles where rolname = 'reader'").empty())
            first.execute_as_admin("create user reader");
        first.execute_as_admin("alter user reader password '" + password + "'");
        const char* stored = "select rolpassword from pg_authid where rolname = 'reader'";
        std::string now = first.execute_as_admin(stored);
        EXPECT_TRUE(eventually([&] { return other.execute_as_admin(stored) == now; }));
    }
    void end_readers() const {
        other.execute_as_admin(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'reader'");
    }

    support::postgres_server first{{.settings = support::with_standbys}};
    support::postgres_server other{support::standby_of{first}};
};

struct mariadb_place {
    using options = mariadb::options;
    static constexpr const char* who =
        "SELECT concat(substring_index(user(), '@', 1), if(@@GLOBAL.read_only, ' replica ', "
        "' primary '), cast(@@max_statement_time AS INTEGER), 's')";
    static constexpr const char* limit = "max_statement_time";

    options primary_options() const {
        return options::from_url(support::mariadb_url(first.port()));
    }
    void lead_to_replica(options& o) const { o.port = other.port(); }
    void give_reader(const std::string& password) const {
        other.execute_as_admin("create or replace user reader@'%' identified by '" + password +
                               "'; grant select on orders.* to reader@'%'");
    }
    void end_readers() const { other.execute_as_admin("kill user reader"); }

    support::mariadb_server first;
    support::mariadb_server other{{.arguments = {"--read-only=1"}}};
};

template <class Place>
struct replica_options : testing::Test {
    /// Where a reader is, and as whom. A connection may have been ended meanwhile.
    std::string reader(database& of) const {
        try {
            return of.scope({.read_only = true}).query(Place::who).template scalar<std::string>();
        } catch (const connection_error&) {
            return "lost";
        }
    }

    static Place& shared() {
        static Place one;
        return one;
    }

    Place& at = shared();
};
using places = testing::Types<postgres_place, mariadb_place>;
TYPED_TEST_SUITE(replica_options, places);

TYPED_TEST(replica_options, are_those_of_the_primary_or_their_own) {
    using place = TypeParam;
    auto primary = this->at.primary_options();
    primary.settings[place::limit] = place::limit[0] == 's' ? "7s" : "7";
    auto same = primary;
    this->at.lead_to_replica(same);
    database copied(primary, replicas{same}, {.pool = support::patient(2)});
    EXPECT_EQ(copied.query(place::who).template scalar<std::string>(), "app primary 7s");
    EXPECT_EQ(this->reader(copied), "app replica 7s");

    // Another user, whose credentials are asked for at each open, and other settings.
    this->at.give_reader(canary_password);
    auto own = same;
    own.user = "reader";
    own.password = {};
    own.settings[place::limit] = place::limit[0] == 's' ? "9s" : "9";
    auto in = std::make_shared<vault>();
    own.credentials = [in] { return in->get(); };
    database db(primary, replicas{own}, {.pool = support::patient(2)});
    EXPECT_EQ(db.query(place::who).template scalar<std::string>(), "app primary 7s");
    EXPECT_EQ(in->asked(), 0);
    EXPECT_EQ(this->reader(db), "reader replica 9s");
    EXPECT_EQ(in->asked(), 1);
    // Two of them take turns.
    database mixed(primary, replicas{std::vector{own, same}}, {.pool = support::patient(2)});
    EXPECT_EQ(this->reader(mixed), "reader replica 9s");
    EXPECT_EQ(this->reader(mixed), "app replica 7s");
}

/// The password of the replica's user changes, and the program learns of it later.
TYPED_TEST(replica_options, may_have_credentials_that_are_wrong_for_a_while) {
    using place = TypeParam;
    auto primary = this->at.primary_options();
    this->at.give_reader(canary_password);
    auto in = std::make_shared<vault>();
    auto own = primary;
    this->at.lead_to_replica(own);
    own.user = "reader";
    own.password = {};
    own.credentials = [in] { return in->get(); };
    database db(primary, replicas{own}, {.pool = support::patient(2)});
    std::string where = this->reader(db);
    EXPECT_TRUE(where.starts_with("reader replica")) << where;

    this->at.give_reader(canary_password + std::string("2"));
    this->at.end_readers();
    EXPECT_TRUE(eventually([&] { return this->reader(db).starts_with("app primary"); }));
    // Not even at the start is that final.
    database late(
        primary, replicas{own},
        {.pool = {.min_size = 1, .warm_up = warm_up::wait, .acquire_timeout = support::plenty}});
    EXPECT_TRUE(this->reader(late).starts_with("app primary"));

    in->put(canary_password + std::string("2"));
    support::stopped_clock time;
    for (database* each : {&db, &late})
        EXPECT_TRUE(eventually([&] {
            time.advance(std::chrono::milliseconds(500));
            return this->reader(*each).starts_with("reader replica");
        }));
    EXPECT_EQ(db.query(place::who).template scalar<std::string>().substr(0, 11), "app primary");
}

/// With SQLite: functions that are registered with each connection of a replica.
TEST(replica_options_sqlite, have_functions_of_their_own) {
    support::sqlite_file first;
    support::sqlite_file other;
    for (const auto& [file, name] : {std::pair{&first, "primary"}, std::pair{&other, "replica"}}) {
        database one = database::direct(file->url());
        one.execute("CREATE TABLE me (name TEXT)");
        one.execute("INSERT INTO me VALUES (?)", name);
    }
    auto primary = sqlite::options::from_url(first.url());
    auto replica = sqlite::options::from_url(other.url());
    auto opened = std::make_shared<std::atomic<int>>(0);
    replica.on_open = [opened](sqlite::connection&) { ++*opened; };
    const char* which = "SELECT name FROM me";
    auto reads = [&](database& of) {
        return of.scope({.read_only = true}).query(which).scalar<std::string>();
    };
    database db(primary, replicas{replica});
    EXPECT_EQ(db.query(which).scalar<std::string>(), "primary");
    EXPECT_EQ(*opened, 0);
    EXPECT_EQ(reads(db), "replica");
    EXPECT_EQ(*opened, 1);
    database by_url(first.url(), replicas{replica, replica});
    EXPECT_EQ(reads(by_url), "replica");
    EXPECT_EQ(*opened, 2);
    EXPECT_EQ(by_url.stats_of_each().size(), 3u);
    database plain(primary, replicas{other.url()});
    EXPECT_EQ(reads(plain), "replica");
    EXPECT_EQ(*opened, 2);
}

TEST(replica_options_sqlite, are_of_the_same_kind) {
    support::sqlite_file file;
    auto primary = sqlite::options::from_url(file.url());
    postgres::options other;
    other.user = "app";
    EXPECT_THROW((database(primary, replicas{other})), std::invalid_argument);
    EXPECT_THROW((database(primary, replicas{std::vector{other}})), std::invalid_argument);
    EXPECT_THROW((database(other, replicas{primary})), std::invalid_argument);
    EXPECT_THROW((database(other, replicas{"elsewhere"})), invalid_url);
}

}  // namespace
}  // namespace cenote
