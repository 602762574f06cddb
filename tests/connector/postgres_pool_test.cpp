// Pools of PostgreSQL connections: on an executor, after a fork, behind PgBouncer.
#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sql_pool.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::postgres {
namespace {

using support::plenty;
using support::postgres_url;
using support::the_postgres;

TEST(postgres_pool_on_an_executor, serves_coroutines) {
    pooled::serves_coroutines<support::postgres_place>();
}

TEST(postgres_fork, leaves_the_parents_connections_alone) {
    pooled::fork_leaves_the_parents_connections_alone<support::postgres_place>();
}

TEST(postgres_behind_pgbouncer, works) {
    support::pgbouncer_server bouncer(the_postgres());
    connector to(postgres_url(bouncer.port()));
    pool<connection> one{to, support::patient(1)};  // on a busy machine two would open both
    for (int i = 0; i < 20; ++i)
        one.with(
            [&](connection& c) { EXPECT_EQ(c.execute("select $1::int8", i).scalar<int>(), i); });
    EXPECT_EQ(one.stats().opened, 1u);
    EXPECT_THROW(connector{postgres_url(bouncer.port(), "role=clerk")}.open(), connection_error);
}

}  // namespace
}  // namespace cenote::postgres
