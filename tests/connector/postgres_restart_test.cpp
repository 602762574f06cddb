// PostgreSQL is restarted under load.
#include <gtest/gtest.h>

#include "connector/postgres_place.hpp"
#include "connector/sql_restart.hpp"
#include "support/real_server.hpp"

namespace {

using ending = support::real_server::ending;

TEST(postgres_restart, costs_each_connection_one_operation_at_most) {
    restart::under_load<support::postgres_place>(ending::fast);
}

TEST(postgres_restart, after_a_crash_costs_no_more) {
    restart::under_load<support::postgres_place>(ending::immediate);
}

}  // namespace
