// URLs: which are accepted and refused, and that no error text contains a part of a password.
#include "cenote/url.hpp"

#include <string>

#include <gtest/gtest.h>

namespace cenote {
namespace {

std::string refusal(const std::string& text) {
    try {
        url::parse(text);
    } catch (const invalid_url& e) {
        return e.what();
    }
    return "";
}

TEST(url, has_all_its_parts) {
    url u =
        url::parse("PostgreSQL://app:s%40cret@db1:5433,[::1]:1,%2Frun%2Fpg/orders%20x?a=1&b=%26");
    EXPECT_EQ(u.scheme, "postgresql");
    EXPECT_EQ(u.user, "app");
    EXPECT_EQ(u.password.reveal(), "s@cret");
    ASSERT_EQ(u.hosts.size(), 3u);
    EXPECT_EQ(u.hosts[0], (url::host{"db1", 5433}));
    EXPECT_EQ(u.hosts[1], (url::host{"::1", 1}));
    EXPECT_EQ(u.hosts[2], (url::host{"/run/pg", 0}));
    EXPECT_EQ(u.path, "/orders x");
    ASSERT_EQ(u.parameters.size(), 2u);
    EXPECT_EQ(u.parameters[1].second, "&");
}

TEST(url, may_have_a_password_without_a_user) {
    url u = url::parse("redis://:c4n4ry@localhost:6379/2");
    EXPECT_EQ(u.user, "");
    EXPECT_EQ(u.password.reveal(), "c4n4ry");
    EXPECT_EQ(u.redacted(), "redis://:***@localhost:6379/2");
}

TEST(url, needs_no_authority) {
    url u = url::parse("sqlite:some/file.db?mode=ro");
    EXPECT_FALSE(u.has_authority);
    EXPECT_EQ(u.path, "some/file.db");
    EXPECT_TRUE(url::parse("sqlite:///abs").hosts.empty());
    EXPECT_EQ(url::parse("sqlite:///abs").path, "/abs");
}

TEST(url, may_have_an_empty_value) { EXPECT_EQ(url::parse("a://h?k=").parameters[0].second, ""); }

struct bad {
    const char* text;
    const char* reason;
};

class bad_url : public testing::TestWithParam<bad> {};

TEST_P(bad_url, is_refused_with_a_reason) {
    EXPECT_NE(refusal(GetParam().text).find(GetParam().reason), std::string::npos)
        << refusal(GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    all, bad_url,
    testing::Values(bad{"", "scheme"}, bad{"no scheme", "position 2"}, bad{"1a://h", "scheme"},
                    bad{"://h", "scheme"}, bad{"a://h:0", "port"}, bad{"a://h:65536", "port"},
                    bad{"a://h:12x", "port"}, bad{"a://h:", "port"},
                    bad{"a://:5", "without a host"}, bad{"a://h1,,h2", "empty host"},
                    bad{"a://h1,", "empty host"}, bad{"a://[::1", "without ']'"},
                    bad{"a://[]", "IPv6"}, bad{"a://[::1]x", "after"}, bad{"a://[z]", "IPv6"},
                    bad{"a://h!", "host"}, bad{"a://h/%zz", "path"}, bad{"a://h/%4", "path"},
                    bad{"a://h/%", "path"}, bad{"a://h/%00", "zero byte"},
                    bad{"a://u:%00@h", "zero byte"}, bad{"a://h#f", "position 5"},
                    bad{"a://h/a b", "position 7"}, bad{"a://h/\xc3\xa4", "percent-encoded"},
                    bad{"a://h?k", "\"k\" has no value"}, bad{"a://h?=v", "key"},
                    bad{"a://h?k=1&k=2", "\"k\" appears twice"}, bad{"a://h?k=1&", "key"},
                    bad{"a://h?k%31=1", "key"}, bad{"a://u:p@x@h", "two '@'"},
                    bad{"a://@h", "without a user"}, bad{"a://:@h", "without a user"},
                    bad{"a://h/p@q", "after its host"}, bad{"a://h?k=p@q", "after its host"}));

TEST(url, is_bounded) {
    EXPECT_NE(refusal("a://h/" + std::string(9000, 'x')).find("longer than 8192"),
              std::string::npos);
    std::string many = "a://h?k0=1";
    for (int i = 1; i < 128; ++i) many += "&k" + std::to_string(i) + "=1";
    EXPECT_EQ(refusal(many), "");
    EXPECT_NE(refusal(many + "&one=1").find("more than 128"), std::string::npos);
}

// A password with a special character must not appear in an error text, in whole or in part.
TEST(url, never_quotes_a_password) {
    for (const char* canary :
         {"c4n4ry?x=c4n4ry", "c4n4ry/c4n4ry", "c4n4ry#c4n4ry", "c4n4ry:c4n4ry", "c4n4ry%zzc4n4ry",
          "c4n4ry@c4n4ry", "c4n4ry c4n4ry", "%00c4n4ry", "12?c4n4ry", "12/c4n4ry?c4n4ry&c4n4ry",
          "[c4n4ry", "c4n4ry,c4n4ry"}) {
        std::string text = "postgresql://app:" + std::string(canary) + "@db/orders?unknown=c4n4ry&";
        std::string why = refusal(text);
        EXPECT_NE(why, "") << text;
        EXPECT_EQ(why.find("c4n4ry"), std::string::npos) << why;
    }
    EXPECT_EQ(url::parse("a://app:c4n4ry@h:5/x?k=c4n4ry").redacted(), "a://app:***@h:5/x");
}

TEST(url, recognizes_hosts_on_this_machine) {
    for (const char* here : {"localhost", "127.0.0.1", "127.8.9.10", "::1", "/run/x", ""})
        EXPECT_TRUE(is_loopback(here)) << here;
    for (const char* there : {"127.example.com", "db", "10.0.0.1", "localhost.evil.org", "::2"})
        EXPECT_FALSE(is_loopback(there)) << there;
}

TEST(url_parameters, are_taken_one_by_one) {
    url u = url::parse("a://h?n=5&b=on&t=250ms&s=2&m=3min&w=x");
    url_parameters all(u);
    EXPECT_EQ(all.take_number("n", 1, 9), 5);
    EXPECT_EQ(all.take_bool("b"), true);
    EXPECT_EQ(all.take_milliseconds("t"), 250);
    EXPECT_EQ(all.take_milliseconds("s"), 2000);
    EXPECT_EQ(all.take_milliseconds("m"), 180'000);
    EXPECT_EQ(all.take("absent"), std::nullopt);
    EXPECT_THROW(all.refuse_others(), invalid_url);
    EXPECT_EQ(all.take("w"), "x");
    all.refuse_others();
}

TEST(url_parameters, name_the_key_and_not_the_value) {
    url u = url::parse(
        "a://h?n=c4n4ry&b=c4n4ry&t=c4n4ry&big=99999999999999999999&late=9223372036854775807h");
    url_parameters all(u);
    auto reason = [](auto take) -> std::string {
        try {
            take();
        } catch (const invalid_url& e) {
            return e.what();
        }
        return "";
    };
    auto names = [](const std::string& text, const char* key) {
        return text.find("\"" + std::string(key) + "\"") != std::string::npos &&
               text.find("c4n4ry") == std::string::npos;
    };
    EXPECT_TRUE(names(reason([&] { all.take_number("n", 0, 9); }), "n"));
    EXPECT_TRUE(names(reason([&] { all.take_bool("b"); }), "b"));
    EXPECT_TRUE(names(reason([&] { all.take_milliseconds("t"); }), "t"));
    EXPECT_TRUE(names(reason([&] { all.take_number("big", 0, 9); }), "big"));
    EXPECT_TRUE(names(reason([&] { all.take_milliseconds("late"); }), "late"));
}

TEST(url_parameters, are_taken_by_their_prefix) {
    url_parameters all(url::parse("redis://h?set.a=1&sets=2&set.b.c=3&set.=4"));
    using pairs = std::vector<std::pair<std::string, std::string>>;
    EXPECT_EQ(all.take_all("set."), (pairs{{"a", "1"}, {"b.c", "3"}, {"", "4"}}));
    EXPECT_EQ(all.take_all("set."), pairs{});
    EXPECT_EQ(all.take("sets"), "2");
    EXPECT_NO_THROW(all.refuse_others());
}

}  // namespace
}  // namespace cenote
