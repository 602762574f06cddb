// Writing and parsing JSON.
#include "watch/json.hpp"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace cenote::detail {
namespace {

TEST(json, escapes_what_would_end_a_string_or_a_line) {
    EXPECT_EQ(json_text("plain"), R"("plain")");
    EXPECT_EQ(json_text("a\"b\\c\nd\x01\x7f"), R"("a\"b\\c\nd\u0001\u007f")");
    EXPECT_EQ(json_text("é😀"), "\"é😀\"");
}

TEST(json, replaces_invalid_utf8) {
    for (const char* bad : {"\xff", "\x80", "\xc0", "\xc3", "\xf5", "\xe2"})
        EXPECT_EQ(json_text(bad), "\"\xEF\xBF\xBD\"");
    EXPECT_EQ(json_text("\xed\xa0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"") << "surrogate";
    EXPECT_EQ(json_text("\xc0\xaf"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"") << "overlong";
    EXPECT_EQ(json_text("a\xe2\x82z"), "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\"");
}

TEST(json, parses_what_it_has_written) {
    std::string all;
    for (int i = 0; i < 128; ++i) all += static_cast<char>(i);
    auto read = parse_flat_object("{\"a\":" + json_text(all) + ",\"b\":18446744073709551615}");
    ASSERT_TRUE(read);
    ASSERT_EQ(read->size(), 2);
    EXPECT_EQ((*read)[0].text, all);
    EXPECT_EQ((*read)[1].number, 18446744073709551615U);
}

TEST(json, writes_numbers_that_read_back_the_same) {
    EXPECT_EQ(number_text(0.1), "0.1");
    EXPECT_EQ(number_text(1e-9), "1e-09");
    EXPECT_EQ(number_text(std::nan("")), "null");
    EXPECT_EQ(number_text(1 / 0.0), "null");
}

TEST(json, puts_commas_only_between_elements) {
    EXPECT_EQ(json_object().take(), "{}");
    EXPECT_EQ(json_object().add("a", "1").add("b", "2").take(), R"({"a":1,"b":2})");
    EXPECT_EQ(json_array().take(), "[]");
    EXPECT_EQ(json_array().add("1").add("2").take(), "[1,2]");
}

}  // namespace
}  // namespace cenote::detail
