// Migrations of MariaDB tables under load.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "connector/mariadb_place.hpp"
#include "database/migration.hpp"

namespace cenote::migration {
namespace {

std::vector<std::string> swap(const std::string& old, const std::string& next) {
    return {"RENAME TABLE moving TO " + old + ", " + next + " TO moving"};
}

server here() {
    return {.url = support::mariadb_url(),
            .inserts = {"INSERT INTO moving (id, at, n, x) VALUES (?, ?, ?, ?)"},
            .narrow = "at DATE, n INTEGER, x FLOAT",
            .wide = "at DATETIME, n BIGINT, x DOUBLE",
            .to_text =
                "ALTER TABLE moving MODIFY at VARCHAR(40), MODIFY n VARCHAR(40), "
                "MODIFY x VARCHAR(40)",
            .to_types = "ALTER TABLE moving MODIFY at DATETIME, MODIFY n BIGINT, MODIFY x DOUBLE",
            .swap = swap,
            .texts = "CAST(at AS CHAR) AS at, CAST(n AS CHAR) AS n, CAST(x AS CHAR) AS x",
            .statements = 2000,
            .migrations = 12};
}

TEST(migration_mariadb, in_place_changes_no_value_that_is_written) { migrate_in_place(here()); }

TEST(migration_mariadb, by_renaming_changes_no_value_that_is_written) {
    migrate_by_renaming(here());
}

}  // namespace
}  // namespace cenote::migration
