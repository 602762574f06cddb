// A database that has replicas: who goes where, whichever server it is and however it is asked.
//
// A place has: primary_url(), replica_url(), `which`, a question that a replica answers with
// "replica"; see the tests that include this.
#pragma once

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "cenote/error.hpp"
#include "database/manners.hpp"
#include "support/patience.hpp"

namespace cenote::conformance {

using support::eventually;

template <class Kind>
struct any_replicated_database : testing::Test {
    std::string where(auto& on) {
        return Kind::manner::run(on, at.which).template scalar<std::string>();
    }
    std::string where_readers_go() {
        auto s = db.scope({.read_only = true});
        return where(s);
    }

    typename Kind::place at;
    database db{at.primary_url(), replicas{at.replica_url()}, {.pool = {.max = 2}}};
};
TYPED_TEST_SUITE_P(any_replicated_database);

TYPED_TEST_P(any_replicated_database, sends_only_those_to_replicas_who_only_read) {
    using ask = typename TypeParam::manner;
    database& all = this->db;
    EXPECT_EQ(this->where(all), "primary");
    auto writer = all.scope();
    EXPECT_EQ(this->where(writer), "primary");
    auto reader = all.scope({.read_only = true});
    EXPECT_EQ(this->where(reader), "replica");
    EXPECT_EQ(all.stats().leased, 2u);
    EXPECT_EQ(all.stats().max, 4u);
    transaction_options only_reads{.read_only = true};
    auto which = [&](transaction& t) { return this->where(t); };
    EXPECT_EQ(ask::in_transaction(all, which), "primary");
    EXPECT_EQ(ask::in_transaction(all, which, only_reads), "replica");
    transaction by_hand = ask::begin(all, only_reads);
    EXPECT_EQ(this->where(by_hand), "replica");
    // A scope keeps its connection: who must see the latest reads in one of these.
    transaction latest = ask::begin(writer, only_reads);
    EXPECT_EQ(this->where(latest), "primary");
}

TYPED_TEST_P(any_replicated_database, does_not_lose_a_replica_by_a_users_mistake) {
    using ask = typename TypeParam::manner;
    for (int i = 0; i < 3; ++i) {
        auto reader = this->db.scope({.read_only = true});
        EXPECT_THROW(ask::run(reader, "CREATE TABLE mistake (n INTEGER)"), statement_error);
        EXPECT_EQ(this->where(reader), "replica");
    }
    EXPECT_EQ(this->db.stats().opened, 1u);
}

REGISTER_TYPED_TEST_SUITE_P(any_replicated_database, sends_only_those_to_replicas_who_only_read,
                            does_not_lose_a_replica_by_a_users_mistake);

/// With servers that can be stopped: each test has its own.
template <class Kind>
struct any_served_replicated_database : any_replicated_database<Kind> {};
TYPED_TEST_SUITE_P(any_served_replicated_database);

TYPED_TEST_P(any_served_replicated_database, reads_from_the_primary_while_there_is_no_replica) {
    EXPECT_EQ(this->where_readers_go(), "replica");
    this->at.replica().stop();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(this->where_readers_go(), "primary");
    this->at.replica().start();
    EXPECT_TRUE(eventually([&] { return this->where_readers_go() == "replica"; }));
}

TYPED_TEST_P(any_served_replicated_database, replaces_a_replica_under_a_scope) {
    auto reader = this->db.scope({.read_only = true});
    EXPECT_EQ(this->where(reader), "replica");
    this->at.replica().stop();
    EXPECT_EQ(this->where(reader), "primary");
    using ask = typename TypeParam::manner;
    EXPECT_THROW(ask::run(reader, "CREATE TABLE mistake (n INTEGER)"), statement_error);
    this->at.replica().start();
}

TYPED_TEST_P(any_served_replicated_database, takes_no_primary_that_does_not_write) {
    using ask = typename TypeParam::manner;
    std::chrono::milliseconds soon(500);
    database wrong{this->at.replica_url(),
                   replicas{this->at.primary_url()},
                   {.pool = {.acquire_timeout = soon}}};
    EXPECT_THROW(ask::run(wrong, "SELECT 1"), pool_error);
    auto reader = wrong.scope({.read_only = true});
    EXPECT_EQ(this->where(reader), "primary");
}

REGISTER_TYPED_TEST_SUITE_P(any_served_replicated_database,
                            reads_from_the_primary_while_there_is_no_replica,
                            replaces_a_replica_under_a_scope, takes_no_primary_that_does_not_write);

}  // namespace cenote::conformance
