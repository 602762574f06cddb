// Pools of MariaDB connections: on an executor, after a fork.
#include <gtest/gtest.h>

#include "connector/mariadb_place.hpp"
#include "connector/sql_pool.hpp"

namespace {

TEST(mariadb_pool_on_an_executor, serves_coroutines) {
    pooled::serves_coroutines<support::mariadb_place>();
}

TEST(mariadb_fork, leaves_the_parents_connections_alone) {
    pooled::fork_leaves_the_parents_connections_alone<support::mariadb_place>();
}

}  // namespace
