// A database on PostgreSQL.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "database/conformance.hpp"
#include "database/conformance_callers.hpp"
#include "database/conformance_cancel.hpp"
#include "database/conformance_cancel_served.hpp"
#include "database/conformance_served.hpp"
#include "support/gate.hpp"

namespace cenote::conformance {
namespace {

constexpr const char* own_locks =
    "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";

struct postgres_place {
    static std::string url() { return support::postgres_url(); }
    static void kill_all() { support::the_postgres().kill_backends(); }
    /// How many sessions the server has not ended.
    static int sessions() { return support::the_postgres().connections(); }
    const char* slow = "SELECT pg_sleep(seconds) FROM pace";
    /// Whether the slow statement sleeps.
    bool is_slow(database& by) const {
        const char* sleepers =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query = ?";
        return by.query(sleepers, slow).scalar<int>() > 0;
    }
    const char* setting = "SET application_name = 'changed'";
    const char* what_is_set = "SHOW application_name";
    const char* value = "changed";
    const char* setting_seen = setting;
    const char* what_is_seen = what_is_set;
    const char* value_seen = value;
    std::vector<unreported_change> unreported{
        {"SELECT set_config('app.tenant', 'ACME', false)",
         "SELECT coalesce(nullif(current_setting('app.tenant', true), ''), 'none')", "none"},
        {"SELECT takes_memory()", "SELECT current_setting('work_mem')", "4MB"},
        {"SELECT pg_advisory_lock(4711)", own_locks, "0"},
        {"SELECT * FROM locking", own_locks, "0"},
    };
    static void prepare_unreported(database& db) {
        db.execute(
            "CREATE OR REPLACE FUNCTION takes_memory() RETURNS text LANGUAGE sql AS "
            "$$ SELECT set_config('work_mem', '99MB', false) $$");
        db.execute("CREATE OR REPLACE VIEW locking AS SELECT pg_try_advisory_lock(4712)");
    }
    const char* lock = "SELECT pg_advisory_lock(7)";
    const char* try_lock = "SELECT pg_try_advisory_xact_lock(7)::int";
    static constexpr bool fails_as_a_whole = true;

    static std::uint16_t port() { return support::the_postgres().port(); }
    static std::string url_at(std::uint16_t port) { return support::postgres_url(port); }
    static database open(const database_options& how) { return database(url(), how); }
    std::optional<support::gate> between;
    database open_far_away(const database_options& how) {
        between.emplace(port());
        between->delay(std::chrono::milliseconds(1));
        return database(url_at(between->port()), how);
    }
    static std::string endless(int n) { return "SELECT pg_sleep(" + std::to_string(600 + n) + ")"; }
    static bool is_at(database& by, const std::string& what) {
        return by.query(
                     "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' "
                     "AND query = ?",
                     what)
                   .scalar<int>() > 0;
    }
    static void expect_usual(transaction& t, database&) {
        EXPECT_EQ(t.query("SHOW transaction_isolation").scalar<std::string>(), "read committed");
        EXPECT_EQ(t.query("SHOW transaction_read_only").scalar<std::string>(), "off");
    }

    static std::string commit_url() { return url(); }
    /// A deferred trigger runs at the beginning of a commit.
    static void prepare_commits(database& by) {
        by.execute(
            "CREATE OR REPLACE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_advisory_xact_lock(99); RETURN NULL; END'");
        by.execute(
            "CREATE CONSTRAINT TRIGGER waits AFTER UPDATE ON pair DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION wait_at_commit()");
    }
    std::vector<const char*> hold_commits{"SELECT pg_advisory_lock(99)"};
    static bool is_committing(database& by) {
        return by.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
                   .scalar<int>() > 0;
    }
};

using kinds = testing::Types<kind<postgres_place, blocking>, kind<postgres_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_database, kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_called_database, testing::Types<postgres_place>);
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_served_database, kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_failing_database, kinds);

using awaited_kind = testing::Types<kind<postgres_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_canceled_database, awaited_kind);
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_canceled_served_database, awaited_kind);

/// The server reports both as a SELECT. The next user's insert went into the temporary table.
TEST(database_postgres, a_temporary_table_made_by_a_query_is_gone_for_the_next_user) {
    database db{postgres_place::url(), {.pool = support::patient(1)}};
    db.execute("DROP TABLE IF EXISTS hidden");
    db.execute("CREATE TABLE hidden (n int)");
    for (const char* makes :
         {"CREATE TEMP TABLE hidden AS SELECT 7 AS n", "SELECT 7 AS n INTO TEMP hidden"}) {
        db.execute(makes);
        db.execute("INSERT INTO hidden VALUES (?)", 1);
        EXPECT_EQ(db.query("SELECT count(*) FROM public.hidden").scalar<int>(), 1) << makes;
        db.execute("DELETE FROM public.hidden");
    }
    db.execute("DROP TABLE public.hidden");
}

/// In transaction mode a change of the session would reach another client.
TEST(database_postgres, leaves_nothing_behind_pgbouncer) {
    support::pgbouncer_server bouncer(support::the_postgres(), {.pool_size = 1});
    std::string url = support::postgres_url(bouncer.port());
    database reports{url};
    database shop{url};
    shop.execute("CREATE TABLE sold (n INTEGER)");
    {
        auto s = reports.scope({.read_only = true});
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(s.query("SELECT n FROM sold").empty());
        shop.execute("INSERT INTO sold VALUES (?)", 1);
    }
    transaction t = reports.begin({.read_only = true});
    EXPECT_EQ(t.query("SELECT n FROM sold").scalar<int>(), 1);
    EXPECT_THROW(t.execute("DELETE FROM sold"), statement_error);
    t.rollback();
    shop.execute("DROP TABLE sold");
}

/// A request does not run if the reset in front of it fails. It runs on another connection.
struct database_not_run : testing::Test {
    static constexpr const char* note = "INSERT INTO run_once VALUES (?)";
    static constexpr const char* mark = "SELECT set_config('my.mark', 'left', false)";

    support::gate gate{support::the_postgres().port()};
    database db{support::postgres_url(gate.port()),
                {.pool = one_that_owes(), .statement_cache = 0}};

    /// The pool does not reset idle connections during the test.
    static options one_that_owes() {
        options how = support::patient(1);
        how.reset_after = std::chrono::hours(1);
        return how;
    }
    database_not_run() {
        db.execute("CREATE TABLE IF NOT EXISTS run_once (i int)");
        db.execute("TRUNCATE run_once");
        owe();
    }
    void owe() {
        db.execute("SELECT 1");  // after pending resets
        db.execute(mark);
        gate.alter_request("discard all", "discarx all");
    }
    /// The first try was refused, and the second one has run.
    void expect_one(int seen) {
        EXPECT_TRUE(gate.altered());
        EXPECT_EQ(seen, 1);
        EXPECT_EQ(db.query("SELECT count(*) FROM run_once").scalar<int>(), 1);
    }
};

TEST_F(database_not_run, a_statement_runs_elsewhere) {
    db.execute(note, 1);
    expect_one(1);
}

TEST_F(database_not_run, an_awaited_statement_runs_elsewhere) {
    support::await(db.async_execute(note, 1));
    expect_one(1);
}

TEST_F(database_not_run, a_transaction_begins_elsewhere) {
    transaction t = db.begin();
    t.execute(note, 1);
    t.commit();
    expect_one(1);
}

TEST_F(database_not_run, an_awaited_transaction_begins_elsewhere) {
    transaction t = support::await(db.async_begin());
    t.execute(note, 1);
    t.commit();
    expect_one(1);
}

TEST_F(database_not_run, a_scope_begins_elsewhere) {
    {
        scope s = db.scope();
        s.execute(note, 1);
        EXPECT_EQ(
            s.query("SELECT coalesce(current_setting('my.mark', true), '')").scalar<std::string>(),
            "");
    }
    expect_one(1);
    owe();
    scope reading = db.scope({.read_only = true});
    EXPECT_EQ(reading.query("SELECT count(*) FROM run_once").scalar<int>(), 1);
}

TEST_F(database_not_run, a_stream_begins_elsewhere) {
    int seen = 0;
    {
        auto rows = db.stream("INSERT INTO run_once VALUES (1) RETURNING i");
        while (rows.next()) ++seen;
    }
    expect_one(seen);
    owe();
    auto awaited = support::await(db.async_stream("SELECT i FROM run_once"));
    EXPECT_TRUE(awaited.next());
    while (awaited.next()) {
    }
    EXPECT_TRUE(gate.altered());
}

}  // namespace
}  // namespace cenote::conformance
