// Replicas of PostgreSQL (a real standby), of MariaDB (a read-only server) and of SQLite (another
// file).
#include "database/replicas.hpp"

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "connector/mariadb_place.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sqlite_file.hpp"
#include "support/clock.hpp"
#include "support/gate.hpp"

namespace cenote::conformance {
namespace {

using support::mariadb_server;
using support::postgres_server;

struct two_postgres {
    postgres_server primary{{.settings = support::with_standbys}};
    postgres_server standby{support::standby_of{primary}};
};

struct postgres_places {
    static two_postgres& both() {
        static two_postgres one;
        return one;
    }
    static postgres_server& replica() { return both().standby; }
    static std::string primary_url() { return support::postgres_url(both().primary.port()); }
    static std::string replica_url() { return support::postgres_url(both().standby.port()); }
    const char* which = "SELECT CASE WHEN pg_is_in_recovery() THEN 'replica' ELSE 'primary' END";
};

struct two_mariadb {
    mariadb_server primary;
    mariadb_server replica{{.arguments = {"--read-only=1"}}};
};

struct mariadb_places {
    static two_mariadb& both() {
        static two_mariadb one;
        return one;
    }
    static mariadb_server& replica() { return both().replica; }
    static std::string primary_url() { return support::mariadb_url(both().primary.port()); }
    static std::string replica_url() { return support::mariadb_url(both().replica.port()); }
    const char* which = "SELECT if(@@GLOBAL.read_only, 'replica', 'primary')";
};

struct sqlite_places {
    sqlite_places() {
        for (const auto& [file, name] :
             {std::pair{&first, "primary"}, std::pair{&other, "replica"}}) {
            database one = database::direct(file->url());
            one.execute("CREATE TABLE me (name TEXT)");
            one.execute("INSERT INTO me VALUES (?)", name);
        }
    }
    std::string primary_url() const { return first.url(); }
    std::string replica_url() const { return other.url(); }
    const char* which = "SELECT name FROM me";

    support::sqlite_file first;
    support::sqlite_file other;
};

template <class Place>
using both_forms = testing::Types<kind<Place, blocking>, kind<Place, awaited>>;
using sqlite_kinds = both_forms<sqlite_places>;
using postgres_kinds = both_forms<postgres_places>;
using mariadb_kinds = both_forms<mariadb_places>;
INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, any_replicated_database, sqlite_kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_replicated_database, postgres_kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(mariadb, any_replicated_database, mariadb_kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_served_replicated_database, postgres_kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(mariadb, any_served_replicated_database, mariadb_kinds);

TEST(replicas, take_turns) {
    sqlite_places two;
    database db{two.replica_url(), replicas{two.primary_url(), two.replica_url()}};
    std::string seen;
    for (int i = 0; i < 4; ++i) {
        transaction t = db.begin({.read_only = true});
        seen += t.query("SELECT name FROM me").scalar<std::string>() + " ";
    }
    EXPECT_EQ(seen, "primary replica primary replica ");
}

TEST(replicas, are_of_the_same_kind) {
    sqlite_places two;
    EXPECT_THROW((database{two.primary_url(), replicas{"postgresql://app@127.0.0.1:1/orders"}}),
                 std::invalid_argument);
    EXPECT_THROW((database{two.primary_url(), replicas{"elsewhere"}}), invalid_url);
}

/// A scope waits for a replica that is busy, and does not use the primary instead.
TEST(replicas, are_waited_for_while_they_are_busy) {
    sqlite_places two;
    database db{two.primary_url(),
                replicas{two.replica_url()},
                {.pool = {.max = 1, .acquire_timeout = support::plenty}}};
    auto busy = db.scope({.read_only = true});
    ASSERT_EQ(busy.query(two.which).scalar<std::string>(), "replica");
    auto late = db.with({.timeout = std::chrono::milliseconds(50)}).scope({.read_only = true});
    EXPECT_THROW(late.execute("SELECT 1"), timed_out_error);
}

/// Replicas that hang use up their share of the time, but not that of the primary.
TEST(replicas_postgres, that_hang_leave_time_for_the_primary) {
    support::gate silent(postgres_places::both().standby.port());
    std::string url = support::postgres_url(silent.port());
    std::chrono::milliseconds soon(2000);
    for (bool awaits : {false, true}) {
        support::stopped_clock time;
        silent.accept_and_be_silent();
        database db{postgres_places::primary_url(),
                    replicas{url, url, url, url},
                    {.pool = {.acquire_timeout = soon}}};
        std::thread reads([&] {
            postgres_places at;
            auto s = db.scope({.read_only = true});
            auto where = awaits ? awaited::run(s, at.which) : s.query(at.which);
            EXPECT_EQ(where.scalar<std::string>(), "primary");
        });
        // Each replica uses its share of the time. The primary needs none of its own.
        for (std::size_t which = 1; which <= 4; ++which) {
            EXPECT_TRUE(eventually([&] { return db.stats_of_each()[which].waiting == 1; }));
            time.advance(soon / 5);
        }
        reads.join();
        silent.pass();  // the database waits for opens in progress
    }
}

TEST(replicas, that_can_never_be_opened_are_told_of_at_once) {
    sqlite_places two;
    database_options ready{.pool = {.min_size = 1, .warm_up = warm_up::wait}};
    EXPECT_THROW((database{two.primary_url(), replicas{"sqlite:/no/such/folder/file"}, ready}),
                 connection_error);
    // Replicas that may become reachable are not an error.
    database db{postgres_places::primary_url(), replicas{"postgresql://app@127.0.0.1:1/orders"},
                ready};
    EXPECT_EQ(db.stats_of_each().size(), 2u);
    EXPECT_EQ(db.stats_of_each()[0].opened, 1u);
    EXPECT_EQ(db.stats_of_each()[1].opened, 0u);
}

/// The primary fails and the standby is promoted, without notice to the database.
TEST(replicas_postgres, are_written_to_when_they_have_been_promoted) {
    two_postgres own;
    std::string both = "postgresql://app:" + std::string(support::canary_password) +
                       "@127.0.0.1:" + std::to_string(own.primary.port()) +
                       ",127.0.0.1:" + std::to_string(own.standby.port()) + "/orders";
    database db{both, replicas{both}};
    db.execute("CREATE TABLE survives (n INTEGER)");
    db.execute("INSERT INTO survives VALUES (?)", 1);
    auto seen_by_readers = [&] {
        transaction t = db.begin({.read_only = true});
        return t.query("SELECT count(*) FROM pg_tables WHERE tablename = 'survives'")
                   .scalar<int>() == 1;
    };
    EXPECT_TRUE(eventually(seen_by_readers));
    own.primary.stop(support::real_server::ending::immediate);
    own.standby.execute_as_admin("select pg_promote()");
    EXPECT_TRUE(eventually([&] {
        try {
            db.execute("INSERT INTO survives VALUES (?)", 2);
            return true;
        } catch (const server_error&) {
            return false;  // the connection was to the old primary
        } catch (const pool_error&) {
            return false;
        }
    }));
    auto s = db.scope({.read_only = true});
    EXPECT_GE(s.query("SELECT count(*) FROM survives WHERE n = 2").scalar<int>(), 1);
}

}  // namespace
}  // namespace cenote::conformance
