// Placeholders in the dialect of each server.
#include "database/placeholders.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace cenote::database_detail {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The text, and the order of the values 1, 2, 3, ….
std::pair<std::string, std::vector<int>> translated(dialect to, std::string_view text,
                                                    std::size_t count) {
    std::vector<sql::parameter> values;
    for (std::size_t i = 1; i <= count; ++i) values.emplace_back(i);
    placeholders p(to, text, values);
    std::vector<int> order;
    for (const sql::parameter& v : p.values())
        order.push_back(static_cast<int>(std::get<std::int64_t>(v.get())));
    return {std::string(p.text()), order};
}

std::string text_for(dialect to, std::string_view text, std::size_t count = 1) {
    return translated(to, text, count).first;
}

TEST(placeholders, numbers_question_marks_for_postgres) {
    auto [text, order] = translated(dialect::postgres, "insert into t values (?, ?, ?)", 3);
    EXPECT_EQ(text, "insert into t values ($1, $2, $3)");
    EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(placeholders, leaves_what_the_server_understands_as_it_is) {
    EXPECT_EQ(text_for(dialect::postgres, "select $2, $1", 2), "select $2, $1");
    EXPECT_EQ(text_for(dialect::sqlite, "select ?, ?2", 2), "select ?, ?2");
    EXPECT_EQ(text_for(dialect::mariadb, "select ?, '$1'", 1), "select ?, '$1'");
    for (dialect d : {dialect::sqlite, dialect::postgres, dialect::mariadb})
        EXPECT_EQ(text_for(d, "select 'nothing'", 0), "select 'nothing'");
}

TEST(placeholders, touches_nothing_without_values) {
    EXPECT_EQ(text_for(dialect::postgres, "select a ? b", 0), "select a ? b");
    EXPECT_EQ(text_for(dialect::mariadb, "select $1", 0), "select $1");
}

TEST(placeholders, brings_values_into_the_order_of_their_placeholders) {
    auto [text, order] = translated(dialect::mariadb, "select $2, $1, $2", 2);
    EXPECT_EQ(text, "select ?, ?, ?");
    EXPECT_THAT(order, ElementsAre(2, 1, 2));
    auto [named, kept] = translated(dialect::sqlite, "select $2, $1, $2", 2);
    EXPECT_EQ(named, "select ?2, ?1, ?2");
    EXPECT_THAT(kept, ElementsAre(1, 2));
}

TEST(placeholders, leaves_operators_of_postgres_alone) {
    EXPECT_EQ(text_for(dialect::postgres, "select a ? $1"), "select a ? $1");
    EXPECT_EQ(text_for(dialect::postgres, "select a ?? ?"), "select a ? $1");
    EXPECT_EQ(text_for(dialect::postgres, "select a ??| ? and b ??& ?", 2),
              "select a ?| $1 and b ?& $2");
}

TEST(placeholders, sees_no_placeholders_in_quotes) {
    constexpr auto pg = dialect::postgres;
    EXPECT_EQ(text_for(pg, "select '?', ?"), "select '?', $1");
    EXPECT_EQ(text_for(pg, "select 'it''s ?', ?"), "select 'it''s ?', $1");
    EXPECT_EQ(text_for(pg, R"(select "?", "a""?", ?)"), R"(select "?", "a""?", $1)");
    EXPECT_EQ(text_for(pg, R"(select '\', ?)"), R"(select '\', $1)");
    EXPECT_EQ(text_for(pg, R"(select e'\'?', E'?\\', ?)"), R"(select e'\'?', E'?\\', $1)");
    EXPECT_EQ(text_for(pg, R"(select E'it''s \' ?', ?)"), R"(select E'it''s \' ?', $1)");
    EXPECT_EQ(text_for(pg, R"(select note'\', ?)"), R"(select note'\', $1)");
    for (std::string between : {"\n", " \r\t", "-- ? '\n", " --\r -- '\n"}) {
        std::string text = "select E'a'" + between + R"('\' ?', )";
        EXPECT_EQ(text_for(pg, text + "?"), text + "$1");
        text = "select 'a'" + between + R"('\', )";
        EXPECT_EQ(text_for(pg, text + "?"), text + "$1");
    }
    for (std::string between : {" ", "--"}) {
        std::string text = "select E'a'" + between;
        EXPECT_EQ(text_for(pg, text + "?"), text + (between == " " ? "$1" : "?"));
    }
    EXPECT_EQ(text_for(pg, "select $$?$$, $a$ ? $$ ? $b$ $a$, ?"),
              "select $$?$$, $a$ ? $$ ? $b$ $a$, $1");
    EXPECT_EQ(text_for(pg, "select [?]"), "select [$1]");  // subscript of an array

    constexpr auto my = dialect::mariadb;
    EXPECT_EQ(text_for(my, R"(select '\'$1', "\"$1", `$1`, $1)"),
              R"(select '\'$1', "\"$1", `$1`, ?)");
    constexpr auto lite = dialect::sqlite;
    EXPECT_EQ(text_for(lite, R"(select '\', [$1], `$1`, "$1", $1)"),
              R"(select '\', [$1], `$1`, "$1", ?1)");
}

TEST(placeholders, sees_no_placeholders_in_comments) {
    constexpr auto pg = dialect::postgres;
    EXPECT_EQ(text_for(pg, "select -- ?\n ?"), "select -- ?\n $1");
    EXPECT_EQ(text_for(pg, "select -- ?\r ?"), "select -- ?\r $1");
    EXPECT_EQ(text_for(pg, "select /* ? /* ? */ ? */ ?"), "select /* ? /* ? */ ? */ $1");
    EXPECT_EQ(text_for(pg, "select 1 # ?"), "select 1 # $1");  // an operator
    constexpr auto my = dialect::mariadb;
    EXPECT_EQ(text_for(my, "select /* $1 /* */ $1"), "select /* $1 /* */ ?");
    EXPECT_EQ(text_for(my, "select 1 # $1\n, $1"), "select 1 # $1\n, ?");
    EXPECT_EQ(text_for(my, "select 5--$1"), "select 5--?");  // two minus signs
    EXPECT_EQ(text_for(my, "select 5-- $1\n, $1"), "select 5-- $1\n, ?");
    EXPECT_EQ(text_for(my, "select /*! $1 */"), "select /*! ? */");
    EXPECT_EQ(text_for(my, "select 5-- $1\r, $1\n, $1"), "select 5-- $1\r, $1\n, ?");
    EXPECT_EQ(text_for(dialect::sqlite, "select --$1\n$1"), "select --$1\n?1");
    EXPECT_EQ(text_for(dialect::sqlite, "select --$1\r$1\n$1"), "select --$1\r$1\n?1");
}

TEST(placeholders, leaves_a_dollar_in_a_name_alone) {
    EXPECT_EQ(text_for(dialect::mariadb, "select a$1, $1"), "select a$1, ?");
    EXPECT_EQ(text_for(dialect::postgres, "select a$1 + ?"), "select a$1 + $1");
    EXPECT_EQ(text_for(dialect::sqlite, "select \xc3\xa4$1, $1"), "select \xc3\xa4$1, ?1");
}

TEST(placeholders, refuses_values_that_do_not_match) {
    EXPECT_THROW(text_for(dialect::postgres, "select ?, ?", 1), std::invalid_argument);
    EXPECT_THROW(text_for(dialect::postgres, "select ?", 2), std::invalid_argument);
    EXPECT_THROW(text_for(dialect::mariadb, "select $2", 1), std::invalid_argument);
    EXPECT_THROW(text_for(dialect::mariadb, "select $99999999999999999999", 1),
                 std::invalid_argument);
    EXPECT_THROW(text_for(dialect::sqlite, "select $1", 2), std::invalid_argument);
    EXPECT_THROW(text_for(dialect::sqlite, "select $0", 1), std::invalid_argument);
    EXPECT_THROW(text_for(dialect::mariadb, "select $1, ?", 2), std::invalid_argument);
    EXPECT_THROW(text_for(dialect::sqlite, "select $1, ?", 2), std::invalid_argument);
}

/// The scanner never reads beyond the end of a text.
TEST(placeholders, reads_any_text_to_its_end) {
    const std::string pieces[] = {"'",  "\"", "`",  "[",  "]", "$",  "$$", "$a$", "?",   "??", "$1",
                                  "/*", "*/", "--", "\n", "#", "\\", "e",  "E'",  "/*!", " ",  "1"};
    std::uint64_t dice = 1;
    for (int i = 0; i < 20'000; ++i) {
        std::string text;
        for (int n = 0; n < 8; ++n) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            text += pieces[(dice >> 33) % std::size(pieces)];
        }
        for (dialect d : {dialect::sqlite, dialect::postgres, dialect::mariadb}) {
            try {
                auto [made, order] = translated(d, text, 1);
                EXPECT_FALSE(made.empty()) << text;
            } catch (const std::invalid_argument&) {
                continue;
            }
        }
    }
}

/// The text, and the order of the values a, b, c, …, which are 1, 2, 3, ….
std::pair<std::string, std::vector<int>> with_names(dialect to, std::string_view text, int count) {
    constexpr std::string_view names = "abc";
    std::vector<sql::parameter> values;
    for (int i = 0; i < count; ++i)
        values.emplace_back(sql::named(names.substr(static_cast<std::size_t>(i), 1), i + 1));
    placeholders p(to, text, values);
    std::vector<int> order;
    for (const sql::parameter& v : p.values()) {
        EXPECT_EQ(v.name(), "");
        order.push_back(static_cast<int>(std::get<std::int64_t>(v.get())));
    }
    return {std::string(p.text()), order};
}

TEST(placeholders, finds_names_in_any_order_and_more_than_once) {
    using translation = std::pair<std::string, std::vector<int>>;
    constexpr std::string_view text = "select :b, :a, :b";
    EXPECT_EQ(with_names(dialect::postgres, text, 2), (translation{"select $2, $1, $2", {1, 2}}));
    EXPECT_EQ(with_names(dialect::sqlite, text, 2), (translation{"select ?2, ?1, ?2", {1, 2}}));
    EXPECT_EQ(with_names(dialect::mariadb, text, 2), (translation{"select ?, ?, ?", {2, 1, 2}}));
}

TEST(placeholders, sees_no_names_in_quotes_comments_casts_slices_and_labels) {
    auto text_for_a = [](dialect to, std::string_view text) {
        return with_names(to, text, 1).first;
    };
    constexpr auto pg = dialect::postgres;
    EXPECT_EQ(text_for_a(pg, "select ':b', \":b\", $$:b$$, E'\\':b', :a -- :b\n /* :b */"),
              "select ':b', \":b\", $$:b$$, E'\\':b', $1 -- :b\n /* :b */");
    EXPECT_EQ(text_for_a(pg, "select :a::int, x::b, x:: b, :a::a"),
              "select $1::int, x::b, x:: b, $1::a");
    EXPECT_EQ(text_for_a(pg, "select v[1:b], v[x:b], v[f(x):b], v[w[1]:b], v[:a]"),
              "select v[1:b], v[x:b], v[f(x):b], v[w[1]:b], v[$1]");
    EXPECT_EQ(text_for_a(pg, "select j ? 'x', j ?? 'y', :a"), "select j ? 'x', j ?? 'y', $1");
    EXPECT_EQ(text_for_a(pg, "call p(x := 1, y :=:a)"), "call p(x := 1, y :=$1)");
    constexpr auto my = dialect::mariadb;
    EXPECT_EQ(text_for_a(my, "select @x:=1, `:b`, ':b\\':b', :a # :b"),
              "select @x:=1, `:b`, ':b\\':b', ? # :b");
    EXPECT_EQ(text_for_a(my, "begin not atomic b:loop set x = :a; leave b; end loop b; end"),
              "begin not atomic b:loop set x = ?; leave b; end loop b; end");
    EXPECT_EQ(text_for_a(dialect::sqlite, "select [:b], `:b`, :a, $b, @b"),
              "select [:b], `:b`, ?1, $b, @b");
    EXPECT_EQ(text_for_a(pg, "select :a"), "select $1");
    EXPECT_EQ(text_for_a(pg, ":a"), "$1");
    EXPECT_EQ(text_for_a(pg, "select (:a), -:a, :a:"), "select ($1), -$1, $1:");
}

TEST(placeholders, names_what_is_missing_or_unused) {
    auto error = [](std::string_view text, const std::vector<sql::parameter>& values) {
        try {
            placeholders p(dialect::mariadb, text, values);
            return std::string("no error");
        } catch (const std::invalid_argument& e) {
            return std::string(e.what());
        }
    };
    using sql::named;
    using testing::HasSubstr;
    EXPECT_THAT(error("select :ab, :c", {named("ab", 1)}), HasSubstr("no value is named \"c\""));
    EXPECT_THAT(error("select :ab", {named("ab", 1), named("c", 1)}), HasSubstr(":c"));
    EXPECT_THAT(error("select :ab, ?", {named("ab", 1)}), HasSubstr("one kind only"));
    EXPECT_THAT(error("select :ab, $1", {named("ab", 1)}), HasSubstr("one kind only"));
    EXPECT_THAT(error("select :ab, ?", {named("ab", 1), 2}), HasSubstr("either all values"));
    EXPECT_THAT(error("select :ab", {named("ab", 1), named("ab", 2)}), HasSubstr("two values"));
}

}  // namespace
}  // namespace cenote::database_detail
