// URLs with a password and nobody it belongs to.
#include "cenote/url.hpp"

#include <string>

#include <gtest/gtest.h>

namespace {

TEST(url_parse, takes_a_password_without_a_user) {
    cenote::url u = cenote::url::parse("redis://:c4n4ry@localhost:6379/2");
    EXPECT_EQ(u.user, "");
    EXPECT_EQ(u.password.reveal(), "c4n4ry");
    ASSERT_EQ(u.hosts.size(), 1U);
    EXPECT_EQ(u.hosts.front().name, "localhost");
    EXPECT_EQ(u.redacted(), "redis://:***@localhost:6379/2");
}

TEST(url_parse, refuses_an_at_sign_that_nothing_is_before) {
    for (const char* bad : {"redis://@localhost", "redis://:@localhost"}) {
        try {
            static_cast<void>(cenote::url::parse(bad));
            ADD_FAILURE() << bad;
        } catch (const cenote::invalid_url& e) {
            EXPECT_STREQ(e.what(), "cenote: the URL has a '@' without a user before it");
        }
    }
}

}  // namespace
