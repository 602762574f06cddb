// A connection that its connector has closed: every operation throws.
#pragma once

#include <gtest/gtest.h>

#include "cenote/server_error.hpp"
#include "connector/awaiting.hpp"

namespace support {

template <class Connector, class Connection>
void expect_refused_when_closed(Connector& to, Connection& c) {
    using cenote::connection_error;
    auto prepared = c.prepare("SELECT 1");
    to.close(c);
    for (int i = 0; i < 2; ++i) {
        EXPECT_THROW(c.execute("SELECT 1"), connection_error);
        EXPECT_THROW(c.prepare("SELECT 1"), connection_error);
        EXPECT_THROW(c.execute(prepared), connection_error);
        EXPECT_THROW(c.stream("SELECT 1"), connection_error);
        EXPECT_THROW(await(c.async_execute("SELECT 1")), connection_error);
        EXPECT_THROW(await(c.async_prepare("SELECT 1")), connection_error);
        EXPECT_THROW(await(c.async_execute(prepared)), connection_error);
        EXPECT_THROW(await(c.async_stream("SELECT 1")), connection_error);
        EXPECT_THROW(to.probe(c), connection_error);
        EXPECT_THROW(to.reset(c), connection_error);
        EXPECT_TRUE(c.broken());
        EXPECT_FALSE(c.in_transaction());
        EXPECT_FALSE(c.transaction_failed());
        EXPECT_EQ(to.before_release(c), cenote::verdict::discard);
        to.close(c);
    }
}

}  // namespace support
