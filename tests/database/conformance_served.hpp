// What becomes of a database whose connections are killed: for servers that can be told to.
#pragma once

#include <chrono>
#include <stdexcept>
#include <thread>

#include "database/conformance.hpp"

namespace cenote::conformance {

template <class Kind>
struct any_served_database : any_database<Kind> {};
TYPED_TEST_SUITE_P(any_served_database);

TYPED_TEST_P(any_served_database, replaces_a_connection_that_was_killed) {
    using ask = typename TypeParam::manner;
    auto s = this->db.scope();
    ask::run(s, "SELECT 1");
    this->at.kill_all();
    support::pass(std::chrono::milliseconds(100));  // until the end of it has come here
    EXPECT_EQ(ask::run(s, "SELECT 1").template scalar<int>(), 1);
    EXPECT_TRUE(s.has_connection());
    EXPECT_EQ(this->leased(), 1u);
}

TYPED_TEST_P(any_served_database, says_once_that_a_transaction_of_plain_sql_is_lost) {
    using ask = typename TypeParam::manner;
    auto s = this->db.scope();
    ask::run(s, "BEGIN");
    this->set(s, 1, 5);
    this->at.kill_all();
    support::pass(std::chrono::milliseconds(100));
    EXPECT_THROW(this->set(s, 2, 6), transaction_lost);
    this->set(s, 3, 7);
    EXPECT_EQ(this->balance(1), 100);
    EXPECT_EQ(this->balance(2), 200);
    EXPECT_EQ(this->balance(3), 7);
}

TYPED_TEST_P(any_served_database, loses_a_transaction_with_its_connection) {
    using ask = typename TypeParam::manner;
    transaction t = ask::begin(this->db);
    this->set(t, 1, 5);
    this->at.kill_all();
    EXPECT_TRUE(eventually([&] {
        try {
            ask::run(t, "SELECT 1");
            return false;
        } catch (const transaction_lost& e) {
            EXPECT_FALSE(e.maybe_committed());
            return true;
        }
    }));
    EXPECT_THROW(ask::run(t, "SELECT 1"), transaction_lost);
    EXPECT_THROW(ask::commit(t), transaction_lost);
    EXPECT_TRUE(t.active());
    ask::rollback(t);
    EXPECT_FALSE(t.active());
    EXPECT_EQ(this->leased(), 0u);
    EXPECT_TRUE(eventually([&] { return this->balance(1) == 100; }));
}

TYPED_TEST_P(any_served_database, forgets_no_error_over_a_rollback_that_fails) {
    using ask = typename TypeParam::manner;
    auto dies = [&](transaction& t) {
        this->set(t, 1, 5);
        this->at.kill_all();
        throw std::range_error("mine");
    };
    EXPECT_THROW(ask::in_transaction(this->db, dies), std::range_error);
    EXPECT_TRUE(eventually([&] {
        try {
            return this->balance(1) == 100;
        } catch (const connection_error&) {
            return false;
        }
    }));
}

/// What it is killed in.
template <class Kill, class Ask>
auto killed_meanwhile(Kill kill, Ask ask) {
    std::thread killer([&] {
        support::pass(std::chrono::milliseconds(150));
        kill();
    });
    try {
        auto answer = ask();
        killer.join();
        return answer;
    } catch (...) {
        killer.join();
        throw;
    }
}

TYPED_TEST_P(any_served_database, runs_again_only_what_may_be) {
    using ask = typename TypeParam::manner;
    auto kill = [&] { this->at.kill_all(); };
    const char* slow = this->at.slow;
    EXPECT_THROW(killed_meanwhile(kill, [&] { return ask::run(this->db, slow); }),
                 connection_error);
    auto again =
        killed_meanwhile(kill, [&] { return ask::run(this->db, cenote::idempotent, slow); });
    EXPECT_EQ(again.size(), 1u);
    transaction t = ask::begin(this->db);
    EXPECT_THROW(killed_meanwhile(kill, [&] { return ask::run(t, cenote::idempotent, slow); }),
                 transaction_lost);
    EXPECT_LE(this->leased(), 1u);
}

REGISTER_TYPED_TEST_SUITE_P(any_served_database, runs_again_only_what_may_be,
                            replaces_a_connection_that_was_killed,
                            says_once_that_a_transaction_of_plain_sql_is_lost,
                            loses_a_transaction_with_its_connection,
                            forgets_no_error_over_a_rollback_that_fails);

}  // namespace cenote::conformance
