// Rows as types of the user, and named parameters: one suite for all servers, and for the blocking
// and the awaited form of each call.
//
// A place has: url(); the types of columns, see `record` in the constructor; `array_of_ids`, see
// the tests.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/database.hpp"
#include "database/forms.hpp"
#include "support/patient.hpp"

namespace rows {

enum class state { open, paid };
enum class level : std::uint8_t { low = 1, high = 7 };

/// A decimal of a user.
struct money {
    std::int64_t units = 0;  // of 0.0001
    bool operator==(const money&) const = default;
};

using micros = std::chrono::microseconds;

/// All types that every server has, by position.
struct record {
    std::int64_t id;
    std::string owner;
    std::optional<std::string> city;
    money price;
    std::chrono::sys_days born;
    std::chrono::local_time<micros> seen;
    std::chrono::sys_time<micros> at;
    micros length;
    cenote::sql::uuid tag;
    cenote::sql::bytes photo;
    rows::state state;
    rows::level level;
    double weight;

    bool operator==(const record&) const = default;
};

/// By name.
struct named {
    std::optional<std::string> city;
    int id = 0;

    static constexpr std::array column_names{"city", "id"};
};

/// A class that is no aggregate.
class account {
public:
    account() = default;
    std::int64_t number() const { return number_; }
    const std::string& owner() const { return owner_; }

    struct parts;

private:
    std::int64_t number_ = 0;
    std::string owner_;
};
struct account::parts {
    static constexpr auto all = std::tuple{cenote::sql::column{"owner", &account::owner_},
                                           cenote::sql::column{"id", &account::number_}};
};

/// While the cursor is at the row.
struct borrowed {
    std::string_view owner;
    std::span<const std::byte> photo;
};

}  // namespace rows

template <>
inline constexpr auto cenote::sql::enum_names<rows::state> =
    std::to_array<cenote::sql::enum_name<rows::state>>(
        {{rows::state::open, "open"}, {rows::state::paid, "paid"}});

template <>
inline constexpr auto cenote::sql::columns<rows::account> = rows::account::parts::all;

template <>
struct cenote::sql::codec<rows::money> {
    static constexpr bool accepts(const column_info& c) {
        return c.type == column_type::decimal || c.type == column_type::any;
    }
    static rows::money read(const cell& c) {
        std::int64_t units = 0;
        for (char each : c.text())
            if (each != '.') units = units * 10 + (each - '0');
        if (c.text().find('.') + 5 != c.text().size()) throw bad_value("not four digits");
        return {units};
    }
};

namespace cenote::conformance {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

inline std::string error_of(const auto& run) {
    try {
        run();
    } catch (const sql::bad_value& e) {
        return e.what();
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
    return "no error";
}

template <class Kind>
struct any_rows : testing::Test {
    any_rows() {
        db.execute("DROP TABLE IF EXISTS record");
        std::string table =
            "CREATE TABLE record (id INTEGER PRIMARY KEY, owner VARCHAR(100) NOT NULL, "
            "city VARCHAR(100)";
        for (auto [column, type] : at.types)
            table += ", " + std::string(column) + " " + std::string(type);
        db.execute(table + ", state VARCHAR(10), level INTEGER, weight DOUBLE PRECISION)");
    }

    static rows::record some(std::int64_t id) {
        using namespace std::chrono;
        sys_days day = 2024y / February / 29;
        return {.id = id,
                .owner = "Ada \"the\" \\ first",
                .city = id % 2 == 0 ? std::optional<std::string>("Jena") : std::nullopt,
                .price = {123'4500},
                .born = day,
                .seen = local_days(day.time_since_epoch()) + 13h + 4min + 5s + 678900us,
                .at = day + 23h + 59min + 59s + (id % 2) * 1us,
                .length = 8h + 30min,
                .tag = sql::uuid::from_text("6F1C1EE6-6D1C-4C3A-9D0B-2F8E5A1B7C3D"),
                .photo = {std::byte{0}, std::byte{255}, std::byte{92}},
                .state = rows::state::paid,
                .level = rows::level::high,
                .weight = 0.1};
    }
    void insert(const rows::record& r) {
        Kind::form::run(
            db,
            "INSERT INTO record (id, owner, city, price, born, seen, at, length, tag, photo, "
            "state, level, weight) VALUES (?, ?, ?, " +
                std::string(at.decimal_value) + ", ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            r.id, r.owner, r.city, "123.4500", r.born, r.seen, r.at, r.length, r.tag, r.photo,
            r.state, r.level, r.weight);
    }

    typename Kind::place at;
    database db{at.url(), {.pool = support::patient(4)}};
};
TYPED_TEST_SUITE_P(any_rows);

constexpr const char* all_columns =
    "SELECT id, owner, city, price, born, seen, at, length, tag, photo, state, level, weight "
    "FROM record ORDER BY id";

TYPED_TEST_P(any_rows, come_back_as_they_were_bound) {
    using form = typename TypeParam::form;
    std::vector<rows::record> all{this->some(1), this->some(2)};
    all[1].born = std::chrono::sys_days(std::chrono::year(1) / 1 / 1);
    all[1].seen += std::chrono::hours(24 * 366 * 50);
    all[1].state = rows::state::open;
    for (const rows::record& each : all) this->insert(each);
    EXPECT_EQ(form::template query_as<rows::record>(this->db, all_columns), all);
    auto in = form::begin(this->db);
    EXPECT_EQ(form::template query_as<rows::record>(in, all_columns), all);
    auto cursor = form::template stream_as<rows::record>(in, all_columns);
    EXPECT_EQ(form::next(cursor), all[0]);
    EXPECT_EQ(form::next(cursor), all[1]);
    EXPECT_EQ(form::next(cursor), std::nullopt);
    EXPECT_EQ(form::next(cursor), std::nullopt);
    form::commit(in);
}

TYPED_TEST_P(any_rows, are_found_by_dates_and_ids) {
    using form = typename TypeParam::form;
    rows::record r = this->some(7);
    this->insert(r);
    auto found = [&](const char* condition, const auto& value) {
        return form::template query_as<int>(
            this->db, "SELECT id FROM record WHERE " + std::string(condition), value);
    };
    EXPECT_THAT(found("born = ?", r.born), ElementsAre(7));
    EXPECT_THAT(found("born < ?", std::chrono::year_month_day(r.born)), IsEmpty());
    EXPECT_THAT(found("seen = ?", r.seen), ElementsAre(7));
    EXPECT_THAT(found("at = ?", r.at), ElementsAre(7));
    EXPECT_THAT(found("length = ?", std::chrono::hh_mm_ss(r.length)), ElementsAre(7));
    EXPECT_THAT(found("tag = ?", r.tag), ElementsAre(7));
    EXPECT_THAT(found("state = ?", rows::state::paid), ElementsAre(7));
    EXPECT_THAT(found("state = ?", std::optional<rows::state>()), IsEmpty());
}

TYPED_TEST_P(any_rows, are_found_by_column_names_tuples_and_single_values) {
    using form = typename TypeParam::form;
    this->insert(this->some(1));
    this->insert(this->some(2));
    auto by_name =
        form::template query_as<rows::named>(this->db, "SELECT id, city FROM record ORDER BY id");
    ASSERT_EQ(by_name.size(), 2u);
    EXPECT_EQ(by_name[0].id, 1);
    EXPECT_EQ(by_name[0].city, std::nullopt);
    EXPECT_EQ(by_name[1].city, "Jena");
    auto scope = this->db.scope();
    auto accounts = form::template query_as<rows::account>(
        scope, "SELECT id, owner FROM record WHERE id > ?", 1);
    ASSERT_EQ(accounts.size(), 1u);
    EXPECT_EQ(accounts[0].number(), 2);
    EXPECT_EQ(accounts[0].owner(), this->some(2).owner);
    EXPECT_THAT((form::template query_as<std::tuple<int, std::optional<std::string>>>(
                    this->db, "SELECT id, city FROM record ORDER BY id")),
                ElementsAre(std::tuple(1, std::nullopt), std::tuple(2, "Jena")));
    EXPECT_THAT((form::template query_as<std::pair<std::int64_t, rows::state>>(
                    this->db, "SELECT id, state FROM record WHERE id = 1")),
                ElementsAre(std::pair(1, rows::state::paid)));
    EXPECT_THAT(form::template query_as<std::optional<std::string>>(
                    this->db, "SELECT city FROM record ORDER BY id"),
                ElementsAre(std::nullopt, "Jena"));
}

TYPED_TEST_P(any_rows, lend_texts_and_bytes_until_the_next_row) {
    using form = typename TypeParam::form;
    for (int i = 1; i <= 20; ++i) {
        rows::record r = this->some(i);
        r.owner = std::string(static_cast<std::size_t>(i * 50), 'o');
        r.owner.resize(100, 'p');
        r.photo.assign(static_cast<std::size_t>(i * 1000), std::byte(i));
        this->insert(r);
    }
    auto cursor = form::template stream_as<rows::borrowed>(
        this->db, "SELECT owner, photo FROM record ORDER BY id");
    for (int i = 1; i <= 20; ++i) {
        auto row = form::next(cursor);
        ASSERT_TRUE(row);
        EXPECT_EQ(row->owner.size(), 100u);
        EXPECT_EQ(row->photo.size(), static_cast<std::size_t>(i * 1000));
        EXPECT_EQ(row->photo.back(), std::byte(i));
    }
    EXPECT_FALSE(form::next(cursor));
    auto scope = this->db.scope();
    EXPECT_EQ(form::run(scope, "SELECT count(*) FROM record").template scalar<int>(), 20);
}

TYPED_TEST_P(any_rows, name_the_column_the_type_and_the_row_that_do_not_fit) {
    using form = typename TypeParam::form;
    rows::record r = this->some(1);
    this->insert(r);
    r = this->some(2);
    r.owner = "secret";
    this->insert(r);
    database one{this->at.url(), {.pool = support::patient(1)}};
    auto all = one.scope();  // remains usable after each error
    std::string why = error_of([&] {
        form::template query_as<std::tuple<int, std::string>>(
            all, "SELECT id, city FROM record ORDER BY id");
    });
    EXPECT_THAT(why, AllOf(HasSubstr("row 0, column 1 \"city\""),
                           HasSubstr("does not fit std::string"), HasSubstr("type null")));
    why = error_of([&] {
        form::template query_as<std::tuple<int, signed char>>(
            all, "SELECT id, 1000 * id AS big FROM record ORDER BY id");
    });
    EXPECT_THAT(why, HasSubstr("row 0, column 1 \"big\""));
    EXPECT_THAT(why, Not(HasSubstr("1000")));
    why = error_of(
        [&] { form::template query_as<int>(all, "SELECT owner FROM record ORDER BY id"); });
    EXPECT_THAT(why, AllOf(HasSubstr("column 0 \"owner\""), HasSubstr("does not fit int")));
    EXPECT_THAT(why, Not(HasSubstr("secret")));
    why = error_of(
        [&] { form::template query_as<rows::state>(all, "SELECT owner FROM record ORDER BY id"); });
    EXPECT_THAT(why, AllOf(HasSubstr("row 0, column 0 \"owner\""), Not(HasSubstr("Ada"))));
    try {
        form::template query_as<int>(
            all, "SELECT CASE WHEN id > 1 THEN NULL ELSE id END AS n FROM record ORDER BY id");
        FAIL();
    } catch (const sql::bad_value& e) {
        EXPECT_EQ(e.row(), 1u);
        EXPECT_EQ(e.column(), 0u);
    }
    EXPECT_EQ(form::run(all, "SELECT count(*) FROM record").template scalar<int>(), 2);
    EXPECT_EQ(one.stats().opened, 1u);
}

TYPED_TEST_P(any_rows, check_their_columns_even_if_there_is_no_row) {
    using form = typename TypeParam::form;
    auto error = [&](const char* text) {
        return error_of([&] { form::template query_as<rows::named>(this->db, text); });
    };
    EXPECT_THAT(error("SELECT id FROM record"), HasSubstr("no column is named \"city\""));
    EXPECT_THAT(error("SELECT id, city, id FROM record"),
                HasSubstr("more than one column is named \"id\""));
    EXPECT_THAT(error("SELECT id, city, owner FROM record"), HasSubstr("column 2 \"owner\""));
    EXPECT_THAT(error("UPDATE record SET level = 1"), HasSubstr("no column is named \"city\""));
    EXPECT_THAT(
        error_of([&] { form::template query_as<rows::record>(this->db, "SELECT id FROM record"); }),
        HasSubstr("a result with 1 columns cannot be read as rows of 13 values"));
    auto scope = this->db.scope();
    EXPECT_THAT(error_of([&] {
                    auto cursor =
                        form::template stream_as<rows::named>(scope, "SELECT id FROM record");
                    form::next(cursor);
                }),
                HasSubstr("no column is named \"city\""));
    EXPECT_THAT(error_of([&] {
                    auto cursor =
                        form::template stream_as<rows::named>(scope, "UPDATE record SET level = 1");
                    form::next(cursor);
                }),
                HasSubstr("no column is named \"city\""));
    EXPECT_EQ(form::run(scope, "SELECT count(*) FROM record").template scalar<int>(), 0);
}

TYPED_TEST_P(any_rows, of_a_cursor_go_on_after_one_that_does_not_fit) {
    using form = typename TypeParam::form;
    for (int i = 1; i <= 3; ++i) this->insert(this->some(i));
    auto cursor = form::template stream_as<int>(
        this->db, "SELECT CASE WHEN id = 2 THEN NULL ELSE id END AS n FROM record ORDER BY id");
    EXPECT_EQ(form::next(cursor), 1);
    EXPECT_THAT(error_of([&] { form::next(cursor); }), HasSubstr("row 1, column 0 \"n\""));
    EXPECT_EQ(form::next(cursor), 3);
    EXPECT_EQ(form::next(cursor), std::nullopt);
}

TYPED_TEST_P(any_rows, are_found_by_named_values_in_any_order) {
    using form = typename TypeParam::form;
    using sql::named;
    for (int i = 1; i <= 3; ++i) this->insert(this->some(i));
    const char* text =
        "SELECT id FROM record WHERE owner <> ':no' AND id >= :least AND id <= :most "
        "AND (city = :city OR id = :least) ORDER BY id";
    EXPECT_THAT(form::template query_as<int>(this->db, text, named("most", 2), named("least", 1),
                                             named("city", std::string("Jena"))),
                ElementsAre(1, 2));
    EXPECT_EQ(form::run(this->db, text, named("city", nullptr), named("least", 3), named("most", 3))
                  .template scalar<int>(),
              3);
    auto error = [&](const auto&... values) {
        return error_of([&] { form::run(this->db, "SELECT :a, :b", values...); });
    };
    EXPECT_THAT(error(named("a", 1)), HasSubstr("no value is named \"b\""));
    EXPECT_THAT(error(named("a", 1), named("b", 2), named("c", 3)), HasSubstr("no placeholder :c"));
    EXPECT_THAT(error(named("a", 1), 2), HasSubstr("either all values"));
    EXPECT_THAT(error(named("a", 1), named("a", 2)), HasSubstr("two values are named \"a\""));
}

TYPED_TEST_P(any_rows, refuse_values_that_the_server_cannot_have) {
    using form = typename TypeParam::form;
    database one{this->at.url(), {.pool = support::patient(1)}};
    auto scope = one.scope();
    std::vector<int> ids{1, 2};
    if (!this->at.has_arrays) {
        EXPECT_THROW(form::run(scope, "SELECT ?", ids), std::invalid_argument);
        EXPECT_THROW(form::stream(scope, "SELECT ?", ids), std::invalid_argument);
    }
    EXPECT_THROW(form::run(scope, "SELECT ?", std::chrono::year(2023) / 2 / 29), std::out_of_range);
    EXPECT_THROW(form::run(scope, "SELECT ?", std::chrono::hours(1000)), std::out_of_range);
    EXPECT_EQ(form::run(scope, "SELECT 1").template scalar<int>(), 1);
    EXPECT_EQ(one.stats().opened, 1u);
}

TYPED_TEST_P(any_rows, say_the_same_as_values) {
    this->insert(this->some(1));
    sql::row row = this->db.query(all_columns)[0];
    EXPECT_EQ(row.template get<std::chrono::sys_days>("born"), this->some(1).born);
    EXPECT_EQ(row.template get<std::chrono::local_time<rows::micros>>("seen"), this->some(1).seen);
    EXPECT_EQ(row.template get<rows::micros>("length"), this->some(1).length);
    EXPECT_EQ(row.template get<sql::uuid>("tag"), this->some(1).tag);
    EXPECT_EQ(row.template get<rows::state>("state"), rows::state::paid);
    EXPECT_EQ(row.template get<std::optional<rows::money>>("price"), this->some(1).price);
    // The text is the same either way.
    EXPECT_THAT((this->db.template query_as<std::pair<std::string, std::string>>(
                    "SELECT born, seen FROM record")),
                ElementsAre(std::pair(row.template get<std::string>("born"),
                                      row.template get<std::string>("seen"))));
}

REGISTER_TYPED_TEST_SUITE_P(any_rows, come_back_as_they_were_bound, are_found_by_dates_and_ids,
                            are_found_by_column_names_tuples_and_single_values,
                            lend_texts_and_bytes_until_the_next_row,
                            name_the_column_the_type_and_the_row_that_do_not_fit,
                            check_their_columns_even_if_there_is_no_row,
                            of_a_cursor_go_on_after_one_that_does_not_fit,
                            are_found_by_named_values_in_any_order,
                            refuse_values_that_the_server_cannot_have, say_the_same_as_values);

}  // namespace cenote::conformance
