// A database with replicas: which server runs what, for all servers and both forms of each call.
//
// A place has: primary_url(), replica_url(), and `which`, a query that a replica answers with
// "replica"; see the tests that include this.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <source_location>
#include <string>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "cenote/error.hpp"
#include "database/forms.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::conformance {

using support::eventually;

template <class Kind>
struct any_replicated_database : testing::Test {
    std::string where(auto& on) {
        return Kind::form::run(on, at.which).template scalar<std::string>();
    }
    std::string where_readers_go() {
        auto s = db.scope({.read_only = true});
        return where(s);
    }

    typename Kind::place at;
    database db{at.primary_url(), replicas{at.replica_url()}, {.pool = support::patient(2)}};
};
TYPED_TEST_SUITE_P(any_replicated_database);

TYPED_TEST_P(any_replicated_database, sends_only_those_to_replicas_who_only_read) {
    using form = typename TypeParam::form;
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
    EXPECT_EQ(form::in_transaction(all, which), "primary");
    EXPECT_EQ(form::in_transaction(all, which, only_reads), "replica");
    transaction by_hand = form::begin(all, only_reads);
    EXPECT_EQ(this->where(by_hand), "replica");
    // A scope keeps its connection, so this transaction sees the latest changes.
    transaction latest = form::begin(writer, only_reads);
    EXPECT_EQ(this->where(latest), "primary");
}

TYPED_TEST_P(any_replicated_database, does_not_lose_a_replica_by_a_users_mistake) {
    using form = typename TypeParam::form;
    database one{
        this->at.primary_url(), replicas{this->at.replica_url()}, {.pool = support::patient(1)}};
    for (int i = 0; i < 3; ++i) {
        auto reader = one.scope({.read_only = true});
        EXPECT_THROW(form::run(reader, "CREATE TABLE mistake (n INTEGER)"), statement_error);
        EXPECT_EQ(this->where(reader), "replica");
    }
    EXPECT_EQ(one.stats().opened, 1u);
}

TYPED_TEST_P(any_replicated_database, names_the_line_and_task_of_readers) {
    using form = typename TypeParam::form;
    auto reader = this->db.with({.task = "report"}).scope({.read_only = true});
    unsigned line = std::source_location::current().line() - 1;
    form::run(reader, "SELECT 1");
    auto at_replica = this->db.controls()[1].leases();
    ASSERT_EQ(at_replica.size(), 1u);
    EXPECT_EQ(at_replica[0].site.line(), line);
    EXPECT_STREQ(at_replica[0].task, "report");
    // The view's timeout covers all servers together.
    auto second = this->db.scope({.read_only = true});
    form::run(second, "SELECT 1");
    auto late = this->db.with({.timeout = std::chrono::milliseconds(1)}).scope({.read_only = true});
    EXPECT_THROW(form::run(late, "SELECT 1"), timed_out_error);
}

TYPED_TEST_P(any_replicated_database, sets_up_the_connections_to_all_servers) {
    using form = typename TypeParam::form;
    auto calls = std::make_shared<std::atomic<int>>(0);
    database all(this->at.primary_url(), replicas{this->at.replica_url()},
                 {.pool = support::patient(1), .on_open = [calls](sql::connection& c) {
                      c.execute("SELECT 1");
                      ++*calls;
                  }});
    for (int again = 0; again < 3; ++again) {
        form::run(all, "SELECT 1");
        auto reader = all.scope({.read_only = true});
        EXPECT_EQ(this->where(reader), "replica");
    }
    EXPECT_EQ(*calls, 2);
    EXPECT_EQ(all.stats().opened, 2u);
}

REGISTER_TYPED_TEST_SUITE_P(any_replicated_database, sends_only_those_to_replicas_who_only_read,
                            does_not_lose_a_replica_by_a_users_mistake,
                            names_the_line_and_task_of_readers,
                            sets_up_the_connections_to_all_servers);

/// With servers that can be stopped: each test has its own.
template <class Kind>
struct any_served_replicated_database : any_replicated_database<Kind> {};
TYPED_TEST_SUITE_P(any_served_replicated_database);

TYPED_TEST_P(any_served_replicated_database, reads_from_the_primary_while_there_is_no_replica) {
    EXPECT_EQ(this->where_readers_go(), "replica");
    this->at.replica().stop();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(this->where_readers_go(), "primary");
    this->at.replica().start();
    // The pool of the replica tries again after some time.
    support::stopped_clock time;
    EXPECT_TRUE(eventually([&] {
        time.advance(std::chrono::milliseconds(500));
        return this->where_readers_go() == "replica";
    }));
}

TYPED_TEST_P(any_served_replicated_database, replaces_a_replica_under_a_scope) {
    using form = typename TypeParam::form;
    auto reader = this->db.scope({.read_only = true, .keeps_session = false});
    auto session = this->db.scope({.read_only = true});
    EXPECT_EQ(this->where(reader), "replica");
    EXPECT_EQ(this->where(session), "replica");
    this->at.replica().stop();
    EXPECT_EQ(this->where(reader), "primary");
    EXPECT_THROW(form::run(session, "SELECT 1"), session_lost);
    EXPECT_THROW(form::run(reader, "CREATE TABLE mistake (n INTEGER)"), statement_error);
    this->at.replica().start();
}

TYPED_TEST_P(any_served_replicated_database, takes_no_primary_that_does_not_write) {
    using form = typename TypeParam::form;
    auto wrong = [this](std::chrono::nanoseconds patience) {
        return database{this->at.replica_url(),
                        replicas{this->at.primary_url()},
                        {.pool = {.acquire_timeout = patience}}};
    };
    database in_vain = wrong(std::chrono::milliseconds(200));
    EXPECT_THROW(form::run(in_vain, "SELECT 1"), pool_error);
    database read_only = wrong(support::plenty);
    auto reader = read_only.scope({.read_only = true});
    EXPECT_EQ(this->where(reader), "primary");
}

REGISTER_TYPED_TEST_SUITE_P(any_served_replicated_database,
                            reads_from_the_primary_while_there_is_no_replica,
                            replaces_a_replica_under_a_scope, takes_no_primary_that_does_not_write);

}  // namespace cenote::conformance
