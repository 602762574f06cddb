// Rows as types of the user, with PostgreSQL.
#include <array>
#include <utility>

#include "connector/postgres_place.hpp"
#include "database/conformance_rows.hpp"

namespace cenote::conformance {
namespace {

struct postgres_place {
    static std::string url() { return support::postgres_url(); }
    std::array<std::pair<const char*, const char*>, 7> types{{{"price", "NUMERIC(20,4)"},
                                                              {"born", "DATE"},
                                                              {"seen", "TIMESTAMP"},
                                                              {"at", "TIMESTAMPTZ"},
                                                              {"length", "TIME"},
                                                              {"tag", "UUID"},
                                                              {"photo", "BYTEA"}}};
    const char* decimal_value = "?::numeric";
    static constexpr bool has_arrays = true;
};

using kinds = testing::Types<kind<postgres_place, blocking>, kind<postgres_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_rows, kinds);

template <class Kind>
struct postgres_rows : testing::Test {
    database db{support::postgres_url(), {.pool = support::patient(1)}};
};
using forms = testing::Types<blocking, awaited>;
TYPED_TEST_SUITE(postgres_rows, forms);

TYPED_TEST(postgres_rows, have_arrays) {
    using form = TypeParam;
    database& at = this->db;
    auto same = [&]<class T>(const char* type, const std::vector<T>& all) {
        std::string text = std::string("SELECT $1::") + type;
        auto found = form::template query_as<std::vector<T>>(at, text, all);
        EXPECT_THAT(found, ElementsAre(all)) << type;
    };
    using text = std::optional<std::string>;
    using bytes = sql::bytes;
    same("bigint[]", std::vector<std::int64_t>{1, -2, INT64_MAX});
    same("bigint[]", std::vector<std::int64_t>{});
    same("smallint[]", std::vector<std::optional<short>>{1, std::nullopt});
    same("text[]", std::vector<text>{"", "a,b", "{\"x\\y\"}", std::nullopt, "NULL", " ", "'"});
    same("bool[]", std::vector<bool>{true, false});
    same("float8[]", std::vector<double>{0.1, -1e300, 5});
    same("bytea[]", std::vector<bytes>{{std::byte{0}, std::byte{0xfe}}, {}});
    const std::chrono::sys_days day = std::chrono::year(2024) / 2 / 28;
    same("date[]", std::vector{day, day + std::chrono::days(1)});
    same("uuid[]", std::vector{sql::uuid::from_text("6f1c1ee66d1c4c3a9d0b2f8e5a1b7c3d")});
    same("numeric[]", std::vector<std::string>{"1.10", "-2"});
    EXPECT_THAT(form::template query_as<int>(
                    at, "SELECT n FROM generate_series(1, 9) n WHERE n = ANY(?) ORDER BY n",
                    std::vector{2, 5, 11}),
                ElementsAre(2, 5));
}

TYPED_TEST(postgres_rows, refuse_arrays_that_do_not_fit) {
    using form = TypeParam;
    auto error = [&]<class T>(const std::vector<T>&, const char* text) {
        return error_of([&] { form::template query_as<std::vector<T>>(this->db, text); });
    };
    std::vector<int> numbers;
    EXPECT_THAT(error(numbers, "SELECT '{{1,2},{3,4}}'::int[] AS a"),
                AllOf(HasSubstr("row 0, column 0 \"a\" (integer[])"),
                      HasSubstr("more than one dimension")));
    EXPECT_THAT(error(numbers, "SELECT '[1:1][1:1]={{1}}'::int[]"), HasSubstr("one dimension"));
    EXPECT_THAT(error(numbers, "SELECT '{1,NULL}'::int[]"), HasSubstr("null"));
    EXPECT_THAT(error(numbers, "SELECT '{a}'::text[]"), HasSubstr("(text[]) does not fit"));
    EXPECT_THAT(error(numbers, "SELECT '{3000000000}'::bigint[]"), HasSubstr("smaller integer"));
    EXPECT_THAT(
        (form::template query_as<std::vector<int>>(this->db, "SELECT '[3:4]={5,6}'::int[]")),
        ElementsAre(std::vector{5, 6}));
    EXPECT_THROW(form::run(this->db, "SELECT ?", std::vector<std::vector<int>>(2)),
                 std::invalid_argument);
}

TYPED_TEST(postgres_rows, have_times_of_every_zone) {
    using form = TypeParam;
    using namespace std::chrono;
    auto scope = this->db.scope();
    auto noon = sys_days(2024y / 5 / 1) + 12h;
    for (const char* zone : {"UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"}) {
        form::run(scope, std::string("SET TimeZone = '") + zone + "'");
        EXPECT_THAT(form::template query_as<sys_seconds>(scope, "SELECT ?::timestamptz", noon),
                    ElementsAre(noon));
        // An instant keeps its meaning where the column has no zone.
        EXPECT_THAT((form::template query_as<std::pair<sys_seconds, bool>>(
                        scope, "SELECT ?, ? = '2024-05-01 12:00Z'", noon, noon)),
                    ElementsAre(std::pair(noon, true)));
    }
    EXPECT_THAT(error_of([&] {
                    form::template query_as<sys_seconds>(scope, "SELECT now()::timestamp AS t");
                }),
                HasSubstr("column 0 \"t\" (timestamp) does not fit"));
    EXPECT_THROW(form::template query_as<local_seconds>(scope, "SELECT now()"), sql::bad_value);
}

TYPED_TEST(postgres_rows, refuse_dates_beyond_the_calendar_and_in_other_styles) {
    using form = TypeParam;
    using namespace std::chrono;
    auto scope = this->db.scope();
    for (const char* bad : {"infinity", "-infinity", "0044-03-15 BC", "5874897-12-31"})
        EXPECT_THROW(
            form::template query_as<sys_days>(scope, std::string("SELECT '") + bad + "'::date"),
            sql::bad_value)
            << bad;
    EXPECT_THROW(form::template query_as<sys_seconds>(scope, "SELECT 'infinity'::timestamptz"),
                 sql::bad_value);
    EXPECT_THROW(form::template query_as<local_seconds>(scope, "SELECT '0044-03-15 BC'::timestamp"),
                 sql::bad_value);
    EXPECT_THAT(form::template query_as<sys_days>(scope, "SELECT '12024-05-01'::date"),
                ElementsAre(sys_days(year(12024) / 5 / 1)));
    form::run(scope, "SET DateStyle = 'German'");
    EXPECT_THAT(
        error_of([&] { form::template query_as<sys_days>(scope, "SELECT '2024-05-01'::date"); }),
        HasSubstr("DateStyle ISO"));
}

TYPED_TEST(postgres_rows, of_kept_statements_are_the_same) {
    using form = TypeParam;
    using namespace std::chrono;
    auto noon = sys_days(2024y / 5 / 1) + 12h;
    for (int i = 0; i < 4; ++i) {
        EXPECT_THAT(form::template query_as<sys_seconds>(this->db, "SELECT ? + interval '1 hour'",
                                                         noon + hours(i)),
                    ElementsAre(noon + hours(i + 1)));
        EXPECT_THAT(form::template query_as<int>(this->db, "SELECT ?::int + 1", i),
                    ElementsAre(i + 1));
    }
}

TYPED_TEST(postgres_rows, have_enums_of_the_server) {
    using form = TypeParam;
    auto scope = this->db.scope();
    form::run(scope, "CREATE TYPE pg_temp.state AS ENUM ('open', 'paid')");
    EXPECT_THAT(
        form::template query_as<rows::state>(scope, "SELECT ?::pg_temp.state", rows::state::paid),
        ElementsAre(rows::state::paid));
}

}  // namespace
}  // namespace cenote::conformance
