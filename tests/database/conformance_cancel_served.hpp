// Cancellation while a connection is being made or an answer is on its way.
//
// A place also has: port(), and url_at() another port.
#pragma once

#include "database/conformance_cancel.hpp"
#include "support/gate.hpp"

namespace cenote::conformance {

template <class Kind>
struct any_canceled_served_database : any_canceled_database<Kind> {};
TYPED_TEST_SUITE_P(any_canceled_served_database);

TYPED_TEST_P(any_canceled_served_database, does_not_wait_until_it_is_connected) {
    support::gate between(this->at.port());
    between.accept_and_be_silent();
    database one{this->at.url_at(between.port()), at_most(1)};
    pending it(ask(&one, "SELECT 1"));
    EXPECT_TRUE(eventually([&] { return between.accepted() == 1; }));
    EXPECT_TRUE(is_cancellation(it.cancel()));
    EXPECT_EQ(one.stats().leased, 0u);
    EXPECT_EQ(one.stats().waiting, 0u);
    between.pass();
    expect_as_new(one);
}

/// The answer is on its way and is ignored.
TYPED_TEST_P(any_canceled_served_database, has_no_use_for_an_answer_that_comes_later) {
    support::gate between(this->at.port());
    database one{this->at.url_at(between.port()), at_most(1)};
    expect_as_new(one);
    between.hold_replies();
    pending it(ask(&one, "SELECT 12345"));
    EXPECT_TRUE(eventually([&] { return between.buffered() > 0; }));
    EXPECT_FALSE(it.over());
    EXPECT_TRUE(is_cancellation(it.cancel()));
    between.pass();
    expect_as_new(one);
}

REGISTER_TYPED_TEST_SUITE_P(any_canceled_served_database, does_not_wait_until_it_is_connected,
                            has_no_use_for_an_answer_that_comes_later);

}  // namespace cenote::conformance
