// execute_many and batches on connections of every kind, blocking and awaited: what takes effect,
// and which row an error names.
#include "connector/sql_many.hpp"

#include <array>
#include <exception>
#include <list>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/pool.hpp"
#include "support/patient.hpp"

namespace cenote::many_test {
namespace {

using testing::ElementsAre;

using row = std::tuple<int, std::optional<std::string>>;

template <class Kind>
struct sql_many : with_table<Kind> {
    std::int64_t sum() {
        return this->c.execute("SELECT CAST(sum(id) AS INTEGER) FROM many")
            .template scalar<std::int64_t>();
    }
    static std::vector<row> rows(int size, int from = 0) {
        std::vector<row> all;
        for (int i = 0; i < size; ++i) {
            std::optional<std::string> name;
            if (i % 7 != 0) name = "name " + std::to_string(i);
            all.emplace_back(from + i, name);
        }
        return all;
    }
    /// The index that the error names.
    static std::size_t refused(auto what) {
        try {
            what();
        } catch (const sql::batch_error& e) {
            EXPECT_EQ(e.index(), e.failed().front());
            return e.index();
        } catch (const std::exception& e) {
            ADD_FAILURE() << e.what();
            return 9999;
        }
        ADD_FAILURE() << "not refused";
        return 9999;
    }
};
using kinds = testing::Types<kind<postgres_place, blocking>, kind<postgres_place, awaited>,
                             kind<mariadb_place, blocking>, kind<mariadb_place, awaited>,
                             kind<sqlite_place, blocking>, kind<sqlite_place, awaited>>;
TYPED_TEST_SUITE(sql_many, kinds);

TYPED_TEST(sql_many, runs_a_statement_for_each_row) {
    using form = typename TypeParam::form;
    EXPECT_EQ(form::many(this->c, this->insert, this->rows(2500)), 2500u);
    EXPECT_EQ(this->count(), 2500);
    EXPECT_EQ(this->sum(), 2499 * 2500 / 2);
    auto found = this->c.execute("SELECT name FROM many WHERE id IN (7, 8) ORDER BY id");
    EXPECT_TRUE(found[0][0].is_null());
    EXPECT_EQ(found[1].template get<std::string>(0), "name 8");
    EXPECT_EQ(this->c.execute("SELECT 1").template scalar<int>(), 1);
}

TYPED_TEST(sql_many, takes_rows_of_every_shape) {
    using form = typename TypeParam::form;
    std::list<std::pair<int, std::string>> pairs{{1, "a"}, {2, "b"}};
    EXPECT_EQ(form::many(this->c, this->insert, pairs), 2u);
    std::array<std::array<sql::parameter, 2>, 1> arrays{sql::bind(3, "c")};
    EXPECT_EQ(form::many(this->c, this->insert, arrays), 1u);
    std::vector<std::vector<sql::value>> values{
        {sql::value(std::int64_t{4}), sql::value(std::string("d"))}};
    EXPECT_EQ(form::many(this->c, this->insert, values), 1u);
    const char* remove =
        this->is_postgres ? "DELETE FROM many WHERE id = $1" : "DELETE FROM many WHERE id = ?";
    EXPECT_EQ(form::many(this->c, remove, std::vector{1, 2, 5}), 2u);
    EXPECT_EQ(this->sum(), 7);
    EXPECT_EQ(form::many(this->c, this->insert, std::vector<row>()), 0u);
}

/// A new type begins a new message with MariaDB, and so does a full one.
TYPED_TEST(sql_many, takes_values_whose_types_change) {
    using form = typename TypeParam::form;
    std::vector<std::vector<sql::parameter>> mixed;
    std::string large(40000, 'x');
    const std::string large_name(300, 'y');
    for (int i = 0; i < 100; ++i) {
        std::vector<sql::parameter> one{i, nullptr};
        if (i % 3 == 1 && !this->is_postgres) one[1] = i;
        if (i % 3 == 2) one[1] = large_name;
        mixed.push_back(one);
    }
    EXPECT_EQ(form::many(this->c, this->insert, mixed), 100u);
    this->c.execute("DROP TABLE IF EXISTS large");
    this->c.execute(this->is_postgres ? "CREATE TABLE large (t TEXT, b BYTEA, d FLOAT8, o BOOLEAN)"
                                      : "CREATE TABLE large (t LONGTEXT, b LONGBLOB, d DOUBLE, "
                                        "o BOOLEAN)");
    sql::bytes octets(5, std::byte{0});
    std::vector<std::tuple<std::string, sql::bytes, double, bool>> all(
        60, std::make_tuple(large, octets, 0.5, true));
    const char* text = this->is_postgres ? "INSERT INTO large VALUES ($1, $2, $3, $4)"
                                         : "INSERT INTO large VALUES (?, ?, ?, ?)";
    EXPECT_EQ(form::many(this->c, text, all), 60u);
    auto found =
        this->c.execute("SELECT count(*), min(length(t)), min(length(b)), min(d) FROM large");
    EXPECT_EQ((found.one().template as<int, int, int, double>()),
              std::make_tuple(60, 40000, 5, 0.5));
    this->c.execute("DROP TABLE large");
}

TYPED_TEST(sql_many, names_the_row_that_was_refused) {
    using form = typename TypeParam::form;
    for (std::size_t bad : {0u, 1u, 500u, 999u, 1000u, 1001u, 1777u, 1999u}) {
        SCOPED_TRACE(bad);
        std::vector<row> all = this->rows(2000);
        if (bad == 0) this->c.execute("INSERT INTO many (id) VALUES (0)");
        else all[bad] = {0, "again"};
        EXPECT_EQ(this->refused([&] { form::many(this->c, this->insert, all); }), bad);
        EXPECT_EQ(this->count(), bad == 0 ? 1 : 0);
        this->c.execute("DELETE FROM many");
        EXPECT_FALSE(this->c.in_transaction());
    }
    std::vector<row> whole = this->rows(10);
    EXPECT_EQ(form::many(this->c, this->insert, whole), 10u);
}

TYPED_TEST(sql_many, names_the_row_of_an_update) {
    using form = typename TypeParam::form;
    form::many(this->c, this->insert, this->rows(1500));
    const char* text = this->is_postgres ? "UPDATE many SET n = n + $1 WHERE id = $2"
                                         : "UPDATE many SET n = n + ? WHERE id = ?";
    for (std::size_t bad : {0u, 3u, 600u, 999u, 1000u, 1499u}) {
        std::vector<std::pair<int, int>> steps;
        for (int i = 0; i < 1500; ++i) steps.emplace_back(1, i);
        steps[bad].first = 100;
        EXPECT_EQ(this->refused([&] { form::many(this->c, text, steps); }), bad);
        auto changed = this->c.execute("SELECT count(*) FROM many WHERE n <> 0");
        EXPECT_EQ(changed.template scalar<int>(), 0) << bad;
    }
}

TYPED_TEST(sql_many, names_a_row_with_a_wrong_number_of_values) {
    using form = typename TypeParam::form;
    std::vector<std::vector<sql::parameter>> all(1200, {1, "x"});
    for (int i = 0; i < 1200; ++i) all[static_cast<std::size_t>(i)][0] = i;
    for (std::size_t bad : {0u, 5u, 1100u}) {
        auto copy = all;
        copy[bad].push_back(3);
        if (bad == 0 && this->is_postgres) copy[bad] = {1};
        EXPECT_EQ(this->refused([&] { form::many(this->c, this->insert, copy); }), bad);
        EXPECT_EQ(this->count(), 0);
    }
}

TYPED_TEST(sql_many, refuses_a_statement_that_is_wrong_itself) {
    using form = typename TypeParam::form;
    try {
        form::many(this->c, "INSERT INTO nowhere VALUES (1)", this->rows(10));
        ADD_FAILURE();
    } catch (const sql::batch_error&) {
        ADD_FAILURE() << "no row is wrong";
    } catch (const statement_error&) {
    }
    EXPECT_EQ(this->c.execute("SELECT 1").template scalar<int>(), 1);
    EXPECT_FALSE(this->c.in_transaction());
}

TYPED_TEST(sql_many, keeps_the_other_rows_without_atomic) {
    using form = typename TypeParam::form;
    std::vector<row> all = this->rows(60);
    all[7] = {0, "again"};
    all[31] = {1, "again"};
    all[59] = {2, "again"};
    for (bool awaits : {false, true}) {
        if (awaits) this->c.execute("DELETE FROM many");
        try {
            form::many(this->c, this->insert, all, {.atomic = false, .chunk = 25});
            ADD_FAILURE();
        } catch (const sql::batch_error& e) {
            EXPECT_EQ(e.index(), 7u);
            EXPECT_THAT(e.failed(), ElementsAre(7u, 31u, 59u));
        }
        EXPECT_EQ(this->count(), 57);
    }
}

TYPED_TEST(sql_many, is_part_of_an_open_transaction) {
    using form = typename TypeParam::form;
    this->c.execute("BEGIN");
    form::many(this->c, this->insert, this->rows(1500));
    EXPECT_TRUE(this->c.in_transaction());
    std::vector<row> wrong = this->rows(1200, 5000);
    wrong[1100] = {1, "again"};
    EXPECT_EQ(this->refused([&] { form::many(this->c, this->insert, wrong); }), 1100u);
    EXPECT_TRUE(this->c.in_transaction());
    if (!this->is_postgres) {
        EXPECT_EQ(this->count(), 1500);
    }
    this->c.execute("ROLLBACK");
    EXPECT_EQ(this->count(), 0);
    this->c.execute("BEGIN");
    form::many(this->c, this->insert, this->rows(10));
    this->c.execute("COMMIT");
    EXPECT_EQ(this->count(), 10);
}

TYPED_TEST(sql_many, undoes_what_a_range_throws_after) {
    using form = typename TypeParam::form;
    struct throwing {
        struct iterator {
            int at;
            row operator*() const {
                if (at == 1234) throw std::range_error("mine");
                return {at, "x"};
            }
            iterator& operator++() {
                ++at;
                return *this;
            }
            void operator++(int) { ++at; }
            bool operator==(const iterator&) const = default;
        };
        iterator begin() const { return {0}; }
        iterator end() const { return {2000}; }
    };
    EXPECT_THROW(form::many(this->c, this->insert, throwing()), std::range_error);
    EXPECT_EQ(this->count(), 0);
    EXPECT_FALSE(this->c.in_transaction());
    EXPECT_FALSE(this->c.broken());
}

TYPED_TEST(sql_many, resets_the_session_of_an_earlier_lease_first) {
    using form = typename TypeParam::form;
    pool<typename TypeParam::place::connection> one{this->to, support::patient(1)};
    for (int i = 0; i < 3; ++i) {
        auto lease = one.acquire();
        lease->execute("BEGIN");
        form::many(*lease, this->insert, this->rows(20, 100 * i));
        form::run(*lease, sql::batch().add("DELETE FROM many WHERE id < 0"));
        if (i == 1) lease->execute("COMMIT");
    }
    EXPECT_EQ(this->count(), 20);
    EXPECT_EQ(one.stats().opened, 1u);
    {
        auto lease = one.acquire();
        form::run(*lease, sql::batch().add("SELECT 1").add("SELECT 2"));
    }
    auto lease = one.acquire();
    EXPECT_EQ(form::many(*lease, this->insert, this->rows(20)), 20u);
}

TYPED_TEST(sql_many, runs_a_batch) {
    using form = typename TypeParam::form;
    sql::batch all;
    all.add("INSERT INTO many (id, name) VALUES (1, 'a'), (2, 'b')");
    all.add(this->insert, 3, "c");
    all.add(this->insert, 4, nullptr);
    all.add("SELECT id FROM many ORDER BY id");
    auto results = form::run(this->c, all);
    ASSERT_EQ(results.size(), 4u);
    EXPECT_EQ(results[0].affected(), 2u);
    EXPECT_EQ(results[2].affected(), 1u);
    EXPECT_EQ(results[3].size(), 4u);
    EXPECT_TRUE(form::run(this->c, sql::batch()).empty());
    // All or nothing, and which one it was.
    sql::batch wrong;
    wrong.add(this->insert, 5, "e").add(this->insert, 1, "again").add(this->insert, 6, "f");
    EXPECT_EQ(this->refused([&] { form::run(this->c, wrong); }), 1u);
    EXPECT_EQ(this->count(), 4);
    EXPECT_EQ(this->refused([&] { form::run(this->c, wrong, {.atomic = false}); }), 1u);
    EXPECT_EQ(this->count(), 6);
    sql::batch nonsense;
    nonsense.add("SELECT 1").add("SELECT 2").add("nonsense");
    EXPECT_EQ(this->refused([&] { form::run(this->c, nonsense); }), 2u);
    EXPECT_FALSE(this->c.in_transaction());
    this->c.execute("BEGIN");
    form::run(this->c, sql::batch().add(this->insert, 9, "i"));
    EXPECT_TRUE(this->c.in_transaction());
    this->c.execute("ROLLBACK");
    EXPECT_EQ(this->count(), 6);
}

TYPED_TEST(sql_many, has_copy_with_postgres_only) {
    if (this->is_postgres) return;
    EXPECT_THROW(this->c.copy_in("COPY many FROM STDIN"), statement_error);
    EXPECT_THROW(await(this->c.async_copy_out("COPY many TO STDOUT")), statement_error);
}

/// The error comes at the commit, and is that of no row.
TEST(sql_many_postgres, tells_of_a_deferred_constraint) {
    postgres_place at;
    postgres::connection c = postgres_place::connector{at.url()}.open();
    c.execute("DROP TABLE IF EXISTS deferred");
    c.execute("CREATE TABLE deferred (id INTEGER UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    for (bool atomic : {true, false}) {
        try {
            c.execute_many("INSERT INTO deferred VALUES ($1)", std::vector{1, 2, 1},
                           {.atomic = atomic});
            ADD_FAILURE();
        } catch (const statement_error& e) {
            EXPECT_EQ(e.sqlstate(), "23505");
        }
        EXPECT_EQ(c.execute("SELECT count(*) FROM deferred").scalar<int>(), atomic ? 0 : 2);
    }
}

/// Large rows in both directions: neither side may wait for the other one forever.
TEST(sql_many_postgres, reads_replies_while_it_sends) {
    postgres_place at;
    postgres::connection c = postgres_place::connector{at.url()}.open();
    std::vector<std::string> all(300, std::string(100'000, 'x'));
    EXPECT_EQ(c.execute_many("SELECT $1::text", all), 0u);
    EXPECT_EQ(await(c.async_execute_many("SELECT $1::text", all)), 0u);
    sql::batch texts;
    for (const std::string& each : all) texts.add("SELECT $1::text", each);
    EXPECT_EQ(await(c.async_execute(texts)).back()[0].get<std::string>(0), all[0]);
}

}  // namespace
}  // namespace cenote::many_test
