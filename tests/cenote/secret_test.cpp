// Tests secret: it cannot be printed or converted, only revealed, copied and moved.
#include "cenote/secret.hpp"

#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

namespace cenote {
namespace {

template <class T>
concept printable = requires(std::ostream& to, const T& t) { to << t; };

TEST(secret, cannot_be_printed_nor_become_a_string) {
    static_assert(!printable<secret>);
    static_assert(!std::is_convertible_v<secret, std::string>);
    static_assert(!std::is_convertible_v<secret, std::string_view>);
    static_assert(!std::is_convertible_v<const char*, secret>);
}

TEST(secret, is_revealed_on_demand) {
    secret s("p4ss");
    EXPECT_EQ(s.reveal(), "p4ss");
    EXPECT_STREQ(s.c_str(), "p4ss");
    EXPECT_FALSE(s.empty());
    EXPECT_EQ(secret().reveal(), "");
    EXPECT_STREQ(secret().c_str(), "");
}

TEST(secret, is_copied_and_moved_whole) {
    secret a("one");
    secret b = a;
    EXPECT_TRUE(a == b);
    secret c = std::move(a);
    EXPECT_EQ(c.reveal(), "one");
    b = secret("another");
    EXPECT_EQ(b.reveal(), "another");
    b = c;
    EXPECT_EQ(b.reveal(), "one");
    secret& same = b;
    b = same;
    EXPECT_EQ(b.reveal(), "one");
    EXPECT_FALSE(b == secret("onf"));
    EXPECT_FALSE(b == secret("on"));
}

}  // namespace
}  // namespace cenote
