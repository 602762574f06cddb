// A database whose connections are killed, for servers that can do that.
#pragma once

#include <stdexcept>
#include <thread>
#include <tuple>

#include "database/conformance.hpp"

namespace cenote::conformance {

/// A change of the session that the server does not report, and a query that shows it.
struct unreported_change {
    const char* leave;
    const char* question;
    const char* clean;  ///< The answer in a clean session.
};

template <class Kind>
struct any_served_database : any_database<Kind> {
    /// Has the server end all connections. Returns when it has closed them.
    void lose_connections() {
        this->at.kill_all();
        EXPECT_TRUE(eventually([&] { return this->at.sessions() == 0; }));
    }

    /// The table that the slow statement reads.
    void make_pace() {
        this->db.execute("DROP TABLE IF EXISTS pace");
        this->db.execute("CREATE TABLE pace (seconds INTEGER)");
        this->db.execute("INSERT INTO pace VALUES (0)");
    }

    /// Runs `statement`, and kills its connection while the slow statement sleeps. A second run is
    /// fast.
    template <class Statement>
    auto killed_in(Statement statement) {
        this->db.execute("UPDATE pace SET seconds = 600");
        std::thread killer([&] {
            EXPECT_TRUE(eventually([&] { return this->at.is_slow(this->db); }));
            this->db.execute("UPDATE pace SET seconds = 0");
            this->at.kill_all();
        });
        try {
            auto answer = statement();
            killer.join();
            return answer;
        } catch (...) {
            killer.join();
            throw;
        }
    }
};
TYPED_TEST_SUITE_P(any_served_database);

/// Statements that rely on a role, a lock or a temporary table must not run without it.
TYPED_TEST_P(any_served_database, runs_nothing_in_a_scope_that_has_lost_its_session) {
    using form = typename TypeParam::form;
    auto s = this->db.scope();
    form::run(s, "CREATE TEMPORARY TABLE mine (n INTEGER)");
    this->lose_connections();
    for (int i = 0; i < 2; ++i) EXPECT_THROW(this->set(s, 1, 5), session_lost);
    EXPECT_THROW(form::run(s, cenote::idempotent, "SELECT 1"), session_lost);
    EXPECT_THROW(form::begin(s), session_lost);
    EXPECT_THROW(std::ignore = s.stream("SELECT 1"), session_lost);
    EXPECT_FALSE(s.has_connection());
    EXPECT_EQ(this->leased(), 0u);
    EXPECT_EQ(this->balance(1), 100);
    auto next = this->db.scope();
    this->set(next, 1, 5);
}

TYPED_TEST_P(any_served_database, loses_a_session_in_a_statement_for_good) {
    using form = typename TypeParam::form;
    this->make_pace();
    auto s = this->db.scope();
    EXPECT_THROW(this->killed_in([&] { return form::run(s, cenote::idempotent, this->at.slow); }),
                 session_lost);
    EXPECT_THROW(form::run(s, "SELECT 1"), session_lost);
}

TYPED_TEST_P(any_served_database, loses_the_session_around_a_transaction_with_it) {
    using form = typename TypeParam::form;
    auto s = this->db.scope();
    transaction t = form::begin(s);
    this->set(t, 1, 5);
    this->lose_connections();
    EXPECT_THROW(form::run(t, "SELECT 1"), transaction_lost);
    form::rollback(t);
    EXPECT_THROW(form::run(s, "SELECT 1"), session_lost);
}

TYPED_TEST_P(any_served_database, replaces_the_connection_of_a_scope_that_keeps_no_session) {
    using form = typename TypeParam::form;
    auto s = this->db.scope({.keeps_session = false});
    form::run(s, "SELECT 1");
    this->lose_connections();
    EXPECT_EQ(form::run(s, "SELECT 1").template scalar<int>(), 1);
    EXPECT_TRUE(s.has_connection());
    EXPECT_EQ(this->leased(), 1u);
}

TYPED_TEST_P(any_served_database, says_that_a_transaction_of_plain_sql_is_lost) {
    using form = typename TypeParam::form;
    auto s = this->db.scope();
    form::run(s, "BEGIN");
    this->set(s, 1, 5);
    this->lose_connections();
    EXPECT_THROW(this->set(s, 2, 6), transaction_lost);
    EXPECT_THROW(this->set(s, 3, 7), session_lost);
    EXPECT_EQ(this->balance(1), 100);
    EXPECT_EQ(this->balance(2), 200);
    EXPECT_EQ(this->balance(3), 300);
}

TYPED_TEST_P(any_served_database, loses_a_transaction_with_its_connection) {
    using form = typename TypeParam::form;
    transaction t = form::begin(this->db);
    this->set(t, 1, 5);
    this->at.kill_all();
    EXPECT_TRUE(eventually([&] {
        try {
            form::run(t, "SELECT 1");
            return false;
        } catch (const transaction_lost& e) {
            EXPECT_FALSE(e.maybe_committed());
            return true;
        }
    }));
    EXPECT_THROW(form::run(t, "SELECT 1"), transaction_lost);
    EXPECT_THROW(form::commit(t), transaction_lost);
    EXPECT_TRUE(t.active());
    form::rollback(t);
    EXPECT_FALSE(t.active());
    EXPECT_EQ(this->leased(), 0u);
    EXPECT_TRUE(eventually([&] { return this->balance(1) == 100; }));
}

TYPED_TEST_P(any_served_database, forgets_no_error_over_a_rollback_that_fails) {
    using form = typename TypeParam::form;
    auto dies = [&](transaction& t) {
        this->set(t, 1, 5);
        this->at.kill_all();
        throw std::range_error("mine");
    };
    EXPECT_THROW(form::in_transaction(this->db, dies), std::range_error);
    EXPECT_TRUE(eventually([&] {
        try {
            return this->balance(1) == 100;
        } catch (const connection_error&) {
            return false;
        }
    }));
}

TYPED_TEST_P(any_served_database, runs_again_only_what_may_be) {
    using form = typename TypeParam::form;
    const char* slow = this->at.slow;
    this->make_pace();
    EXPECT_THROW(this->killed_in([&] { return form::run(this->db, slow); }), connection_error);
    this->lose_connections();  // those that were killed and have not ended yet
    auto again = this->killed_in([&] { return form::run(this->db, cenote::idempotent, slow); });
    EXPECT_EQ(again.size(), 1u);
    this->lose_connections();
    transaction t = form::begin(this->db);
    EXPECT_THROW(this->killed_in([&] { return form::run(t, cenote::idempotent, slow); }),
                 transaction_lost);
    EXPECT_LE(this->leased(), 1u);
}

/// Each change is made by a single statement.
template <class Form>
std::size_t count_inherited(const auto& at, const database_options& how) {
    std::size_t inherited = 0;
    for (const auto& [leave, question, clean] : at.unreported) {
        database one{at.url(), how};
        Form::run(one, leave);
        if (Form::run(one, question).template scalar<std::string>() != clean) ++inherited;
    }
    return inherited;
}

TYPED_TEST_P(any_served_database, leaves_nothing_of_a_statement_that_the_server_does_not_report) {
    using form = typename TypeParam::form;
    this->at.prepare_unreported(this->db);
    database_options how{.pool = support::patient(1)};
    EXPECT_EQ(count_inherited<form>(this->at, how), 0u);
    how.statement_cache = 0;
    EXPECT_EQ(count_inherited<form>(this->at, how), 0u);
    how.trust_statements = true;
    EXPECT_EQ(count_inherited<form>(this->at, how), this->at.unreported.size());
}

TYPED_TEST_P(any_served_database, leaves_nothing_of_a_scope_though_it_trusts_statements) {
    using form = typename TypeParam::form;
    this->at.prepare_unreported(this->db);
    for (const auto& [leave, question, clean] : this->at.unreported) {
        database one{this->at.url(), {.pool = support::patient(1), .trust_statements = true}};
        {
            auto s = one.scope();
            form::run(s, leave);
        }
        EXPECT_EQ(form::run(one, question).template scalar<std::string>(), clean) << leave;
    }
}

REGISTER_TYPED_TEST_SUITE_P(any_served_database, runs_again_only_what_may_be,
                            leaves_nothing_of_a_statement_that_the_server_does_not_report,
                            leaves_nothing_of_a_scope_though_it_trusts_statements,
                            runs_nothing_in_a_scope_that_has_lost_its_session,
                            loses_a_session_in_a_statement_for_good,
                            loses_the_session_around_a_transaction_with_it,
                            replaces_the_connection_of_a_scope_that_keeps_no_session,
                            says_that_a_transaction_of_plain_sql_is_lost,
                            loses_a_transaction_with_its_connection,
                            forgets_no_error_over_a_rollback_that_fails);

}  // namespace cenote::conformance
