// Migrations of PostgreSQL tables under load.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "connector/postgres_place.hpp"
#include "database/migration.hpp"

namespace cenote::migration {
namespace {

std::vector<std::string> swap(const std::string& old, const std::string& next) {
    return {"BEGIN", "ALTER TABLE moving RENAME TO " + old,
            "ALTER TABLE " + next + " RENAME TO moving", "COMMIT"};
}

server here() {
    return {.url = support::postgres_url(),
            .inserts = {"INSERT INTO moving (id, at, n, x) VALUES (?, ?, ?, ?)",
                        "INSERT INTO moving VALUES (?::bigint, ?::timestamp, ?::bigint, "
                        "?::double precision)"},
            .narrow = "at date, n integer, x real",
            .wide = "at timestamp, n bigint, x double precision",
            .to_text =
                "ALTER TABLE moving ALTER at TYPE text USING at::text, "
                "ALTER n TYPE text USING n::text, ALTER x TYPE text USING x::text",
            .to_types =
                "ALTER TABLE moving ALTER at TYPE timestamp USING at::timestamp, "
                "ALTER n TYPE bigint USING n::bigint, "
                "ALTER x TYPE double precision USING x::double precision",
            .swap = swap,
            .texts = "at::text AS at, n::text AS n, x::text AS x"};
}

TEST(migration_postgres, in_place_changes_no_value_that_is_written) {
    EXPECT_EQ(migrate_in_place(here()), 0);
}

TEST(migration_postgres, by_renaming_changes_no_value_that_is_written) {
    migrate_by_renaming(here());
}

}  // namespace
}  // namespace cenote::migration
