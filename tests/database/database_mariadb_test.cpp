// A database on MariaDB.
#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "connector/mariadb_place.hpp"
#include "database/conformance.hpp"
#include "database/conformance_callers.hpp"
#include "database/conformance_cancel.hpp"
#include "database/conformance_cancel_served.hpp"
#include "database/conformance_served.hpp"
#include "support/gate.hpp"

namespace cenote::conformance {
namespace {

struct mariadb_place {
    static std::string url() { return support::mariadb_url(); }
    static void kill_all() { support::the_mariadb().execute_as_admin("kill user app", "mysql"); }
    /// How many sessions the server has not ended.
    static int sessions() { return support::the_mariadb().connections(); }
    const char* slow = "SELECT sleep(seconds) FROM pace";
    /// Whether the slow statement sleeps.
    bool is_slow(database& by) const {
        const char* sleepers =
            "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep' "
            "AND info = ?";
        return by.query(sleepers, slow).scalar<int>() > 0;
    }
    const char* setting = "SET @mine = 'changed'";
    const char* what_is_set = "SELECT convert(coalesce(@mine, 'not') USING utf8mb4)";
    const char* value = "changed";
    const char* setting_seen = "SET SESSION sql_mode = 'ANSI'";
    const char* what_is_seen = "SELECT if(@@sql_mode LIKE '%ANSI%', 'changed', 'not')";
    const char* value_seen = "changed";
    const char* lock = "SELECT get_lock('seven', 1)";
    const char* try_lock = "SELECT is_free_lock('seven')";
    static constexpr bool fails_as_a_whole = false;
    std::vector<unreported_change> unreported{
        {"SELECT @tenant := 'ACME'", "SELECT convert(coalesce(@tenant, 'none') USING utf8mb4)",
         "none"},
        {"SELECT 'ACME' INTO @tenant", "SELECT convert(coalesce(@tenant, 'none') USING utf8mb4)",
         "none"},
        {"DO get_lock('mine', 1)",
         "SELECT if(is_used_lock('mine') <=> connection_id(), 'locked', 'free')", "free"},
        {"CALL takes_lock()",
         "SELECT if(is_used_lock('mine') <=> connection_id(), 'locked', 'free')", "free"},
        {"CREATE TEMPORARY TABLE account SELECT 7 AS id",
         "SELECT cast(count(*) AS char) FROM account", "3"},
    };
    static void prepare_unreported(database& db) {
        db.execute("CREATE OR REPLACE PROCEDURE takes_lock() BEGIN DO get_lock('mine', 1); END");
    }

    static std::uint16_t port() { return support::the_mariadb().port(); }
    static std::string url_at(std::uint16_t port) { return support::mariadb_url(port); }
    static database open(const database_options& how) { return database(url(), how); }
    std::optional<support::gate> between;
    database open_far_away(const database_options& how) {
        between.emplace(port());
        between->delay(std::chrono::milliseconds(1));
        return database(url_at(between->port()), how);
    }
    static std::string endless(int n) { return "SELECT sleep(" + std::to_string(600 + n) + ")"; }
    static bool is_at(database& by, const std::string& what) {
        return by.query(
                     "SELECT count(*) FROM information_schema.processlist WHERE info = ? "
                     "AND id <> connection_id()",
                     what)
                   .scalar<int>() > 0;
    }
    /// A serializable transaction would lock the rows it reads. A canceled one does until the
    /// server notices the cancellation.
    static void expect_usual(transaction& t, database& other) {
        t.query("SELECT balance FROM account WHERE id = 1");
        EXPECT_TRUE(support::eventually([&] {
            try {
                other.query("SELECT id FROM account WHERE id = 1 FOR UPDATE NOWAIT");
                return true;
            } catch (const statement_error&) {
                return false;
            }
        }));
    }

    /// Grants the privilege to connections that are opened from now on.
    static std::string commit_url() {
        support::the_mariadb().execute_as_admin("grant reload on *.* to app@'%'", "mysql");
        return url();
    }
    static void prepare_commits(database&) {}
    std::vector<const char*> hold_commits{"FLUSH TABLES WITH READ LOCK"};
    static bool is_committing(database& by) { return is_at(by, "COMMIT"); }
};

using kinds = testing::Types<kind<mariadb_place, blocking>, kind<mariadb_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(mariadb, any_database, kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(mariadb, any_called_database, testing::Types<mariadb_place>);
INSTANTIATE_TYPED_TEST_SUITE_P(mariadb, any_served_database, kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(mariadb, any_failing_database, kinds);

using awaited_kind = testing::Types<kind<mariadb_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(mariadb, any_canceled_database, awaited_kind);
INSTANTIATE_TYPED_TEST_SUITE_P(mariadb, any_canceled_served_database, awaited_kind);

/// Some statements of MariaDB commit implicitly.
TEST(database_mariadb, runs_nothing_after_a_statement_that_ended_the_transaction) {
    database db{support::mariadb_url(), {.pool = {.max = 2}}};
    transaction t = db.begin();
    t.execute("CREATE TABLE IF NOT EXISTS made_inside (n INTEGER)");
    EXPECT_THROW(t.execute("INSERT INTO made_inside VALUES (1)"), std::logic_error);
    EXPECT_THROW(t.commit(), std::logic_error);
    t.rollback();
    EXPECT_TRUE(db.query("SELECT n FROM made_inside").empty());
    db.execute("DROP TABLE made_inside");
}

/// A deadlock undoes the whole transaction. Its remaining statements must not run alone.
TEST(database_mariadb, runs_nothing_after_a_deadlock) {
    database db{support::mariadb_url(), {.pool = {.max = 4}}};
    db.execute("DROP TABLE IF EXISTS two");
    db.execute("CREATE TABLE two (id INTEGER PRIMARY KEY, n INTEGER) ENGINE=InnoDB");
    db.execute("INSERT INTO two VALUES (1, 0), (2, 0)");
    std::atomic<int> deadlocks{0};
    std::atomic<int> arrived{0};
    auto meet = [&](int first, int second) {
        transaction t = db.begin();
        t.execute("UPDATE two SET n = n + 1 WHERE id = ?", first);
        ++arrived;
        EXPECT_TRUE(eventually([&] { return arrived == 2; }));
        try {
            t.execute("UPDATE two SET n = n + 1 WHERE id = ?", second);
            t.commit();
        } catch (const statement_error& e) {
            EXPECT_EQ(e.sqlstate(), "40001");
            ++deadlocks;
            EXPECT_THROW(t.execute("UPDATE two SET n = 99 WHERE id = ?", second), transaction_lost);
            EXPECT_THROW(t.commit(), transaction_lost);
            EXPECT_THROW(std::ignore = t.begin(), transaction_lost);
            t.rollback();
        }
    };
    std::thread other([&] { meet(2, 1); });
    meet(1, 2);
    other.join();
    EXPECT_EQ(deadlocks, 1);
    EXPECT_EQ(db.query("SELECT sum(n) FROM two").scalar<std::string>(), "2");
}

}  // namespace
}  // namespace cenote::conformance
