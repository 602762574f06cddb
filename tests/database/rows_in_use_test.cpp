// What happens to users of rows: a row in the middle does not fit, a stream is abandoned, a table
// changes between two runs of a statement, a codec throws. On each server, blocking and awaited.
#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/server_error.hpp"
#include "database/numbered_rows.hpp"

namespace rows {

/// Of a user whose codec finds fault with it.
struct picky {
    std::int64_t n = 0;
};

struct item {
    std::int64_t id;
    std::string name;

    static constexpr std::array column_names{"id", "name"};
    bool operator==(const item&) const = default;
};

}  // namespace rows

template <>
struct cenote::sql::codec<rows::picky> {
    static constexpr bool accepts(const column_info&) { return true; }
    static rows::picky read(const cell& c) {
        if (c.integer() == 3) throw std::domain_error("mine");
        return {c.integer()};
    }
};

namespace cenote::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class Kind>
struct used_rows : testing::Test {
    /// More rows than a server sends before the first ones are read.
    std::string long_series() const { return at.series(2'000'000); }
    /// The third of five is null.
    std::string with_null() const {
        return "SELECT CAST(nullif(n, 3) AS INTEGER) AS n FROM (" + at.series(5) + ") five";
    }

    typename Kind::place at;
    database db{at.url(), at_most(1)};
    static constexpr bool is_local = Kind::place::keeps_session;
};
using kinds =
    testing::Types<kind<postgres_rows_place, blocking>, kind<postgres_rows_place, awaited>,
                   kind<mariadb_rows_place, blocking>, kind<mariadb_rows_place, awaited>,
                   kind<sqlite_rows_place, blocking>, kind<sqlite_rows_place, awaited>>;
TYPED_TEST_SUITE(used_rows, kinds);

template <class Form>
void read_three(auto& on, const std::string& text) {
    auto cursor = Form::template stream_as<rows::line>(on, text);
    std::vector<rows::line> all;
    for (int i = 0; i < 3; ++i) all.push_back(*Form::next(cursor));
    EXPECT_TRUE(are_first_rows(all));
}

TYPED_TEST(used_rows, are_not_in_the_way_if_a_stream_is_abandoned) {
    using form = typename TypeParam::form;
    for (int i = 0; i < 3; ++i) {
        read_three<form>(this->db, this->long_series());
        EXPECT_EQ(form::run(this->db, "SELECT CAST(? AS INTEGER)", i).template scalar<int>(), i);
        auto next = form::template query_as<rows::line>(this->db, this->at.series(4));
        EXPECT_EQ(next.size(), 4u);
        EXPECT_TRUE(are_first_rows(next));
    }
    EXPECT_EQ(this->db.stats().opened, this->is_local ? 1u : 4u);
    expect_as_new(this->db);
}

/// With a server that costs the session, since the rest of the rows would have to be read.
TYPED_TEST(used_rows, of_an_abandoned_stream_cost_a_scope_its_session) {
    using form = typename TypeParam::form;
    {
        auto s = this->db.scope();
        read_three<form>(s, this->long_series());
        if (this->is_local) {
            EXPECT_EQ(form::run(s, "SELECT 7").template scalar<int>(), 7);
        } else {
            EXPECT_THROW(form::run(s, "SELECT 7"), session_lost);
        }
    }
    form::run(this->db, "DROP TABLE IF EXISTS kept");
    form::run(this->db, "CREATE TABLE kept (n INTEGER)");
    transaction t = form::begin(this->db);
    form::run(t, "INSERT INTO kept VALUES (1)");
    read_three<form>(t, this->long_series());
    if (this->is_local) {
        form::commit(t);
    } else {
        EXPECT_THROW(form::commit(t), transaction_lost);
        form::rollback(t);
    }
    expect_as_new(this->db);
    EXPECT_EQ(form::run(this->db, "SELECT count(*) FROM kept").template scalar<int>(),
              this->is_local ? 1 : 0);
}

TYPED_TEST(used_rows, that_do_not_fit_leave_a_transaction_that_can_be_committed) {
    using form = typename TypeParam::form;
    form::run(this->db, "DROP TABLE IF EXISTS kept");
    form::run(this->db, "CREATE TABLE kept (n INTEGER)");
    transaction t = form::begin(this->db);
    form::run(t, "INSERT INTO kept VALUES (1)");
    try {
        form::template query_as<int>(t, this->with_null());
        ADD_FAILURE();
    } catch (const sql::bad_value& e) {
        EXPECT_EQ(e.row(), 2u);
        EXPECT_THAT(e.what(), HasSubstr("row 2, column 0 \"n\""));
    }
    // The statement has run, though its row is of no use.
    EXPECT_THROW(
        form::template query_as<std::uint8_t>(t, "INSERT INTO kept VALUES (5000) RETURNING n"),
        sql::bad_value);
    EXPECT_THAT(form::template query_as<std::optional<int>>(t, this->with_null()),
                ElementsAre(1, 2, std::nullopt, 4, 5));
    form::commit(t);
    EXPECT_THAT(form::template query_as<int>(this->db, "SELECT n FROM kept ORDER BY n"),
                ElementsAre(1, 5000));
    EXPECT_EQ(this->db.stats().opened, 1u);
}

/// A stream goes on after such a row; one that is left there does not disturb the next user.
TYPED_TEST(used_rows, that_do_not_fit_stop_no_stream_and_no_later_statement) {
    using form = typename TypeParam::form;
    std::optional<scope> s(this->db.scope());
    std::vector<int> fit;
    auto all = form::template stream_as<int>(*s, this->with_null());
    for (int refused = 0;;) {
        try {
            auto row = form::next(all);
            if (!row) break;
            fit.push_back(*row);
        } catch (const sql::bad_value& e) {
            EXPECT_EQ(e.row(), 2u);
            ASSERT_EQ(++refused, 1);
        }
    }
    EXPECT_THAT(fit, ElementsAre(1, 2, 4, 5));
    EXPECT_EQ(form::run(*s, "SELECT 7").template scalar<int>(), 7);
    EXPECT_EQ(this->db.stats().opened, 1u);
    s.reset();
    for (int i = 0; i < 3; ++i) {
        auto cursor = form::template stream_as<signed char>(
            this->db, "SELECT n FROM (" + this->long_series() + ") many");
        for (int n = 1; n <= 127; ++n) EXPECT_EQ(form::next(cursor), n);
        EXPECT_THROW(form::next(cursor), sql::bad_value);
    }
    expect_as_new(this->db);
}

TYPED_TEST(used_rows, whose_codec_throws_pass_the_exception_on) {
    using form = typename TypeParam::form;
    const std::string text = "SELECT n FROM (" + this->at.series(5) + ") five";
    auto s = this->db.scope();
    try {
        form::template query_as<rows::picky>(s, text);
        ADD_FAILURE();
    } catch (const std::domain_error& e) {
        EXPECT_STREQ(e.what(), "mine");
    }
    auto cursor = form::template stream_as<rows::picky>(s, text);
    EXPECT_EQ(form::next(cursor)->n, 1);
    EXPECT_EQ(form::next(cursor)->n, 2);
    EXPECT_THROW(form::next(cursor), std::domain_error);
    EXPECT_EQ(form::next(cursor)->n, 4);
    EXPECT_EQ(form::next(cursor)->n, 5);
    EXPECT_EQ(form::next(cursor), std::nullopt);
    EXPECT_EQ(form::run(s, "SELECT 7").template scalar<int>(), 7);
    EXPECT_EQ(this->db.stats().opened, 1u);
}

/// Of a statement that the connection keeps prepared.
TYPED_TEST(used_rows, follow_a_table_that_has_changed) {
    using form = typename TypeParam::form;
    database other(this->at.url(), at_most(1));
    auto remake = [&](const char* columns, const char* values) {
        form::run(other, "DROP TABLE IF EXISTS item");
        form::run(other, std::string("CREATE TABLE item (") + columns + ")");
        form::run(other, std::string("INSERT INTO item VALUES (") + values + ")");
    };
    constexpr const char* text = "SELECT * FROM item";
    auto by_name = [&](auto& on) { return form::template query_as<rows::item>(on, text); };
    auto streamed = [&](auto& on) {
        auto cursor = form::template stream_as<rows::item>(on, text);
        auto row = form::next(cursor);
        EXPECT_EQ(form::next(cursor), std::nullopt);
        return *row;
    };
    auto error = [&](auto& on) -> std::string {
        try {
            by_name(on);
        } catch (const sql::bad_value& e) {
            return e.what();
        }
        return "none";
    };
    const rows::item ada{1, "Ada"};
    auto s = this->db.scope();
    for (int i = 0; i < 3; ++i) {
        remake("id INTEGER, name VARCHAR(20)", "1, 'Ada'");
        for (int n = 0; n < 3; ++n) EXPECT_THAT(by_name(s), ElementsAre(ada));
        EXPECT_EQ(streamed(s), ada);
        // Names are found where they are now, and positions are checked anew.
        remake("name VARCHAR(20), id INTEGER", "'Ada', 1");
        EXPECT_THAT(by_name(s), ElementsAre(ada));
        EXPECT_EQ(streamed(s), ada);
        EXPECT_THROW((form::template query_as<std::tuple<std::int64_t, std::string>>(s, text)),
                     sql::bad_value);
        form::run(other, "ALTER TABLE item ADD COLUMN more INTEGER");
        EXPECT_THAT(error(s), HasSubstr("column 2 \"more\""));
        form::run(other, "ALTER TABLE item DROP COLUMN more");
        EXPECT_THAT(by_name(s), ElementsAre(ada));
        // Another type.
        remake("id VARCHAR(20), name VARCHAR(20)", "'one', 'Ada'");
        EXPECT_THAT(error(s), HasSubstr("column 0 \"id\""));
        form::run(other, "DROP TABLE item");
        EXPECT_THROW(by_name(s), statement_error);
    }
    EXPECT_EQ(this->db.stats().opened, 1u);
}

}  // namespace
}  // namespace cenote::conformance
