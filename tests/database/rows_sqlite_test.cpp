// Rows as types of the user, with SQLite.
#include <array>
#include <utility>

#include "cenote/sqlite.hpp"
#include "connector/sqlite_file.hpp"
#include "database/conformance_rows.hpp"

namespace cenote::conformance {
namespace {

struct sqlite_place {
    support::sqlite_file file;

    std::string url() const { return file.url(); }
    std::array<std::pair<const char*, const char*>, 7> types{{{"price", "TEXT"},
                                                              {"born", "TEXT"},
                                                              {"seen", "TEXT"},
                                                              {"at", "TEXT"},
                                                              {"length", "TEXT"},
                                                              {"tag", "TEXT"},
                                                              {"photo", "BLOB"}}};
    const char* decimal_value = "?";
    static constexpr bool has_arrays = false;
};

using kinds = testing::Types<kind<sqlite_place, blocking>, kind<sqlite_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, any_rows, kinds);

struct sqlite_rows : testing::Test {
    support::sqlite_file file;
    database db{file.url(), {.pool = support::patient(1)}};
};

TEST_F(sqlite_rows, have_times_with_and_without_a_zone) {
    using namespace std::chrono;
    auto instant = [&](const char* text) {
        return db.query_as<sys_time<milliseconds>>("SELECT ?", text).at(0);
    };
    auto noon = sys_days(2024y / 5 / 1) + 12h;
    EXPECT_EQ(instant("2024-05-01T12:00:00Z"), noon);
    EXPECT_EQ(instant("2024-05-01 14:00+02:00"), noon);
    EXPECT_EQ(instant("2024-05-01 06:30:00.250-0530"), noon + 250ms);
    EXPECT_THROW(instant("2024-05-01 12:00:00"), sql::bad_value);
    EXPECT_THROW(db.query_as<local_seconds>("SELECT '2024-05-01 12:00:00Z'"), sql::bad_value);
    EXPECT_THROW(db.query_as<local_seconds>("SELECT '2024-05-01 12:00:00.5'"), sql::bad_value);
    EXPECT_EQ(db.query_as<local_seconds>("SELECT '2024-05-01 12:00:00.0'").at(0),
              local_days(2024y / 5 / 1) + 12h);
    EXPECT_EQ(db.query_as<sys_seconds>("SELECT datetime(?) || 'Z'", noon).at(0), noon);
    for (const char* bad : {"", "2024", "2024-02-30", "24-02-01", "2024-02-01x", "0000-01-01"})
        EXPECT_THROW(db.query_as<sys_days>("SELECT ?", bad), sql::bad_value) << bad;
}

TEST_F(sqlite_rows, name_the_declared_type) {
    db.execute("CREATE TABLE t (n NUMERIC)");
    db.execute("INSERT INTO t VALUES ('x')");
    EXPECT_EQ(error_of([&] { db.query_as<std::int64_t>("SELECT n FROM t"); }),
              "cenote: row 0, column 0 \"n\" (NUMERIC) does not fit std::int64_t: a value of type "
              "text cannot be read as integer");
}

}  // namespace
}  // namespace cenote::conformance
