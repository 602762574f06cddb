// Rows as types of the user, with MariaDB.
#include <array>
#include <utility>

#include "connector/mariadb_place.hpp"
#include "database/conformance_rows.hpp"

namespace cenote::conformance {
namespace {

struct mariadb_place {
    static std::string url() { return support::mariadb_url("timezone=%2B00:00"); }
    std::array<std::pair<const char*, const char*>, 7> types{{{"price", "DECIMAL(20,4)"},
                                                              {"born", "DATE"},
                                                              {"seen", "DATETIME(6)"},
                                                              {"at", "TIMESTAMP(6)"},
                                                              {"length", "TIME(6)"},
                                                              {"tag", "UUID"},
                                                              {"photo", "BLOB"}}};
    const char* decimal_value = "?";
    static constexpr bool has_arrays = false;
};

using kinds = testing::Types<kind<mariadb_place, blocking>, kind<mariadb_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(mariadb, any_rows, kinds);

struct mariadb_rows : testing::Test {
    database db{support::mariadb_url(), {.pool = support::patient(1)}};
};

TEST_F(mariadb_rows, have_instants_only_in_utc) {
    using namespace std::chrono;
    EXPECT_THROW(db.execute("SELECT ?", sys_seconds(1s)), std::invalid_argument);
    EXPECT_THROW(db.query_as<sys_seconds>("SELECT now()"), sql::bad_value);
    EXPECT_EQ(db.query_as<local_seconds>("SELECT timestamp('2024-05-01 12:00:01')").at(0),
              local_days(2024y / 5 / 1) + 12h + 1s);
    EXPECT_EQ(db.stats().opened, 1u);
}

/// The library writes the text of a date that is read as a string; the server that of a cast.
TEST_F(mariadb_rows, have_the_texts_of_the_server) {
    for (const char* value :
         {"date('2024-02-29')", "timestamp('0999-01-02 03:04:05')", "time('-1:02:03')",
          "cast('2024-02-29 01:02:03.5' as datetime(6))", "cast('12:00:00.25' as time(2))",
          "cast('-838:59:59' as time)", "cast('2024-02-29 01:02:03.000007' as datetime(3))",
          "time('123:00:01.000100')", "cast('00:00:00' as time(1))"}) {
        std::string text = std::string("SELECT ") + value + ", cast(" + value + " as char)";
        auto [read, cast] = db.query_as<std::pair<std::string, std::string>>(text).at(0);
        EXPECT_EQ(read, cast) << value;
        EXPECT_EQ(db.query(text)[0].get<std::string>(0), cast) << value;
    }
}

TEST_F(mariadb_rows, have_long_times_and_big_integers) {
    using namespace std::chrono;
    EXPECT_EQ(db.query_as<microseconds>("SELECT cast('-838:59:59.5' as time(1))").at(0),
              -(838h + 59min + 59s + 500ms));
    EXPECT_EQ(db.query("SELECT cast(? as char)", -(30h + 1us)).scalar<std::string>(),
              "-30:00:00.000001");
    EXPECT_EQ(db.query_as<std::uint64_t>("SELECT 18446744073709551615").at(0), UINT64_MAX);
    EXPECT_THROW(db.query_as<std::int64_t>("SELECT 18446744073709551615"), sql::bad_value);
    EXPECT_EQ(db.query_as<int>("SELECT cast(5 as unsigned)").at(0), 5);
    EXPECT_THROW(db.query_as<sys_days>("SELECT cast('2024-00-00' as date)"), sql::bad_value);
}

TEST_F(mariadb_rows, are_long_and_short) {
    struct texts {
        std::string text;
        std::optional<sql::bytes> bytes;
    };
    for (std::size_t size : {0u, 1u, 250u, 251u, 252u, 65535u, 65536u, 1048576u}) {
        auto found = db.query_as<texts>(
            "SELECT repeat('x', ?) AS a, cast(repeat('y', ?) AS binary) AS b "
            "UNION ALL SELECT 'z', NULL",
            size, size);
        ASSERT_EQ(found.size(), 2u);
        EXPECT_EQ(found[0].text, std::string(size, 'x'));
        EXPECT_EQ(found[0].bytes, sql::bytes(size, std::byte('y')));
        EXPECT_EQ(found[1].text, "z");
        EXPECT_EQ(found[1].bytes, std::nullopt);
    }
}

}  // namespace
}  // namespace cenote::conformance
