// A database after something went wrong in it: what its next users find.
#pragma once

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "database/forms.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::conformance {

/// A pool of this size with patient callers.
inline database_options at_most(std::size_t connections) {
    return {.pool = support::patient(connections)};
}

/// No connection is leased, and every statement gets its own answer.
inline void expect_as_new(database& one) {
    EXPECT_TRUE(support::eventually([&] { return one.stats().leased == 0; }));
    EXPECT_EQ(one.stats().waiting, 0u);
    for (int i = 0; i < 6; ++i) {
        auto blocked = blocking::run(one, "SELECT CAST(? AS INTEGER)", i);
        EXPECT_EQ(blocked.scalar<int>(), i);
        auto waited = awaited::run(one, "SELECT CAST(? AS INTEGER)", 100 + i);
        EXPECT_EQ(waited.scalar<int>(), 100 + i);
    }
    transaction t = one.begin();
    EXPECT_EQ(t.query("SELECT CAST(? AS INTEGER)", 77).scalar<int>(), 77);
    t.commit();
    EXPECT_EQ(one.stats().leased, 0u);
}

}  // namespace cenote::conformance
