// Parameters and values, and their conversions.
#include "cenote/sql.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace cenote::sql {
namespace {

TEST(sql_parameter, knows_what_it_was_made_of) {
    EXPECT_TRUE(parameter(nullptr).is_null());
    EXPECT_TRUE(parameter(static_cast<const char*>(nullptr)).is_null());
    EXPECT_TRUE(parameter(std::optional<int>()).is_null());
    EXPECT_EQ(std::get<bool>(parameter(true).get()), true);
    EXPECT_EQ(std::get<std::int64_t>(parameter(7U).get()), 7);
    EXPECT_EQ(std::get<std::int64_t>(parameter(std::optional<short>(-3)).get()), -3);
    EXPECT_EQ(std::get<double>(parameter(1.5F).get()), 1.5);
    EXPECT_EQ(std::get<std::string_view>(parameter("text").get()), "text");
    bytes octets{std::byte{0}, std::byte{255}};
    EXPECT_EQ(std::get<std::span<const std::byte>>(parameter(octets).get()).size(), 2u);
}

TEST(sql_parameter, refuses_what_does_not_fit) {
    EXPECT_THROW((void)parameter{std::numeric_limits<std::uint64_t>::max()}, std::out_of_range);
    static_assert(!std::is_constructible_v<parameter, char>);
    static_assert(!std::is_constructible_v<parameter, const void*>);
}

TEST(sql_value, is_had_as_what_it_is) {
    EXPECT_EQ(value(std::int64_t{5}).as<int>(), 5);
    EXPECT_EQ(value(std::int64_t{5}).as<double>(), 5.0);
    EXPECT_EQ(value(std::int64_t{1}).as<bool>(), true);
    EXPECT_EQ(value(std::string("x")).as<std::string_view>(), "x");
    EXPECT_EQ(value().as<std::optional<int>>(), std::nullopt);
    EXPECT_EQ(value(2.5).as<std::optional<double>>(), 2.5);
}

TEST(sql_value, is_not_had_as_something_else) {
    EXPECT_THROW(value().as<int>(), bad_value);
    EXPECT_THROW(value(std::string("5")).as<int>(), bad_value);
    EXPECT_THROW(value(std::int64_t{5}).as<std::string>(), bad_value);
    EXPECT_THROW(value(std::int64_t{300}).as<std::uint8_t>(), bad_value);
    EXPECT_THROW(value(std::int64_t{-1}).as<unsigned>(), bad_value);
    EXPECT_THROW(value(std::int64_t{2}).as<bool>(), bad_value);
    EXPECT_THROW(value(2.0).as<int>(), bad_value);
}

TEST(sql_row, is_read_by_place_and_by_name) {
    auto names = std::make_shared<column_names>(column_names{"id", "name"});
    row r(names, {value(std::int64_t{1}), value(std::string("ann"))});
    EXPECT_EQ(r.get<int>(0), 1);
    EXPECT_EQ(r.get<std::string>("name"), "ann");
    EXPECT_THROW(r[2], std::out_of_range);
    EXPECT_THROW(r["none"], std::out_of_range);
}

TEST(sql_result, has_one_row_or_says_so) {
    result r(std::make_shared<column_names>(column_names{"n"}));
    EXPECT_THROW(r.one(), bad_value);
    r.add({value(std::int64_t{3})});
    EXPECT_EQ(r.scalar<int>(), 3);
    r.add({value(std::int64_t{4})});
    EXPECT_THROW(r.one(), bad_value);
}

TEST(sql_bound_statement, keeps_what_it_was_given_wherever_it_goes) {
    std::optional<bound_statement> made;
    {
        std::string text = "short";
        std::string longer(100, 'l');
        bytes octets{std::byte{1}};
        auto bound = sql::bind(text, longer, octets, 5, nullptr);
        made.emplace("select 1", bound);
    }
    bound_statement moved = std::move(*made);
    made.reset();
    EXPECT_EQ(std::get<std::string_view>(moved.parameters()[0].get()), "short");
    EXPECT_EQ(std::get<std::string_view>(moved.parameters()[1].get()), std::string(100, 'l'));
    EXPECT_EQ(std::get<std::span<const std::byte>>(moved.parameters()[2].get()).size(), 1u);
    EXPECT_TRUE(moved.parameters()[4].is_null());
}

}  // namespace
}  // namespace cenote::sql
