// URLs of PostgreSQL: their meaning, the errors of invalid ones, and that no text shows a password.
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/postgres.hpp"
#include "connector/postgres_session.hpp"

namespace cenote::postgres {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

std::string refusal(const std::string& url) {
    try {
        connector to(url);
        return "accepted";
    } catch (const invalid_url& e) {
        return e.what();
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
}

TEST(postgres_url, says_everything) {
    options o = options::from_url(
        "postgres://app:p%40ss@db1:5433,db2/orders?sslmode=verify-ca&sslrootcert=/ca&sslcert=/c"
        "&sslkey=/k&channel_binding=require&application_name=till&connect_timeout=2s"
        "&operation_timeout=250ms&search_path=a,b&role=clerk&timezone=UTC&client_encoding=LATIN1"
        "&target_session_attrs=read-write&reset=by_tag&statement_cache=50"
        "&max_reply_bytes=100000");
    ASSERT_EQ(o.hosts.size(), 2u);
    EXPECT_EQ(o.hosts[0], (url::host{.name = "db1", .port = 5433}));
    EXPECT_EQ(o.hosts[1], (url::host{.name = "db2", .port = 0}));
    EXPECT_EQ(o.user, "app");
    EXPECT_EQ(o.password.reveal(), "p@ss");
    EXPECT_EQ(o.database, "orders");
    EXPECT_EQ(o.tls, tls_mode::verify_ca);
    EXPECT_EQ(o.ca_file + o.certificate_file + o.key_file, "/ca/c/k");
    EXPECT_EQ(o.channel_binding, channel_binding::require);
    EXPECT_EQ(o.application_name, "till");
    EXPECT_EQ(o.connect_timeout, 2s);
    EXPECT_EQ(o.operation_timeout, 250ms);
    EXPECT_EQ(o.search_path, "a,b");
    EXPECT_EQ(o.role + o.timezone + o.client_encoding, "clerkUTCLATIN1");
    EXPECT_EQ(o.role_of_server, server_role::read_write);
    EXPECT_EQ(o.reset, reset_mode::by_tag);
    EXPECT_EQ(o.statement_cache, 50u);
    EXPECT_EQ(o.max_reply_bytes, 100'000u);
}

TEST(postgres_url, says_little) {
    options o = options::from_url("postgresql://app@/");
    EXPECT_EQ(o.hosts.front().name, "localhost");
    EXPECT_EQ(o.database, "");
    EXPECT_EQ(o.reset, reset_mode::with_next);
    EXPECT_EQ(options::from_url("postgresql://app@h?schema=x").search_path, "x");
    EXPECT_EQ(options::from_url("postgresql://app@%2Frun%2Fpg/").hosts.front().name, "/run/pg");
}

TEST(postgres_url, is_safe_by_default) {
    options o = options::from_url("postgresql://app@db.example.com,localhost/");
    EXPECT_EQ(detail::effective_tls(o, "db.example.com"), tls_mode::verify_full);
    EXPECT_EQ(detail::effective_tls(o, "10.0.0.1"), tls_mode::verify_full);
    for (const char* here : {"localhost", "127.0.0.1", "::1", "/run/postgresql"})
        EXPECT_EQ(detail::effective_tls(o, here), tls_mode::off) << here;
    o.tls = tls_mode::require;
    EXPECT_EQ(detail::effective_tls(o, "localhost"), tls_mode::require);
}

TEST(postgres_url, is_refused_with_a_reason) {
    struct bad {
        const char* url;
        const char* why;
    };
    for (const bad& each : std::vector<bad>{
             {"mysql://app@h/", "must begin with postgresql://"},
             {"postgresql://h/orders", "no user"},
             {"postgresql://app@h/?sslmode=prefer", "\"sslmode\" does not support "},
             {"postgresql://app@h/?sslmode=allow", "\"sslmode\" does not support "},
             {"postgresql://app@h/?sslmode=on", "\"sslmode\" must be one of disable, require"},
             {"postgresql://app@h/?channel_binding=1", "\"channel_binding\" must be one of"},
             {"postgresql://app@h/?target_session_attrs=x",
              "\"target_session_attrs\" must be one of"},
             {"postgresql://app@h/?connect_timeout=x", "\"connect_timeout\" must be a duration"},
             {"postgresql://app@h/?operation_timeout=0", "\"operation_timeout\" must not be 0"},
             {"postgresql://app@h/?search_path=a&schema=b", "\"schema\" means the same"},
             {"postgresql://app@h/?sslcert=/c", "only one of"},
             {"postgresql://app@h/?options=-fx", "\"options\" must be a list"},
             {"postgresql://app@h/?password=x", "\"password\" is not supported"},
             {"postgresql://app@h/?role=a&role=b", "\"role\" appears twice"},
             {"postgresql://app@h:0/", "port"},
             {"postgresql://app@h,/", "empty host"},
             {"postgresql://app@%2Frun,x/", "accepted"},
             {"postgresql://app@%2Fa%2Cb/", "comma"},
         })
        EXPECT_THAT(refusal(each.url), HasSubstr(each.why)) << each.url;
}

/// libpq would quote the password in half of these.
TEST(postgres_url, never_shows_its_password) {
    const std::string secret = "c4n4ry";
    for (const char* url : {
             "postgresql://app:c4n4ry%zz@h/",
             "postgresql://app:c4n4ry@h:x/",
             "postgresql://app:c4n4ry@h:99999/",
             "postgresql://app:c4n4ry/@h/",
             "postgresql://app:c4n4ry@x@h/",
             "postgresql://app:c4n4ry#@h/",
             "postgresql://app:c4n4ry?x=y@h/",
             "postgresql://app:c4n4ry@[::1/",
             "postgresql://app:c4n4ry@h/?sslmode=c4n4ry",
             "postgresql://app:c4n4ry@h/?x",
             "postgresql://app:c4n4ry%00@h/",
             "postgresql:app:c4n4ry@h/",
             "postgresql://:c4n4ry@h/",
             "postgresql://c4n4ry:h/",
             "c4n4ry",
             "//app:c4n4ry@h/",
             "postgresql://app:c4n4ry@h/?timezone=%zz",
             "host=h password=c4n4ry",
         }) {
        std::string why = refusal(url);
        EXPECT_NE(why, "accepted") << url;
        EXPECT_THAT(why, Not(HasSubstr(secret))) << url;
    }
}

TEST(postgres_options, that_are_inconsistent_are_refused) {
    auto refused = [](auto change) {
        options o;
        o.user = "app";
        change(o);
        EXPECT_THROW(connector{o}, std::invalid_argument);
    };
    refused([](options& o) { o.hosts.clear(); });
    refused([](options& o) { o.hosts.front().name = ""; });
    refused([](options& o) { o.user = ""; });
    refused([](options& o) { o.connect_timeout = 0ms; });
    refused([](options& o) { o.operation_timeout = -1ms; });
    refused([](options& o) { o.key_file = "/k"; });
    refused([](options& o) { o.client_encoding = ""; });
    refused([](options& o) { o.database = std::string("a\0b", 3); });
    refused([](options& o) { o.password = secret(std::string_view("a\0b", 3)); });
}

// The meaning of libpq's messages.

TEST(postgres_message, of_the_server_is_known_by_its_sqlstate) {
    auto why = detail::failure_of_open(
        "connection to server at \"127.0.0.1\", port 1 failed: ФАТАЛЬНО:  28P01: пароль\n"
        "DETAIL:  more\nLOCATION:  auth_failed, auth.c:337\n");
    EXPECT_EQ(why.kind, error_kind::final);
    EXPECT_EQ(why.sqlstate, "28P01");
    EXPECT_EQ(why.text, "пароль; DETAIL:  more");
    for (const char* state : {"28000", "28P01", "3D000", "42501", "42704", "22023", "0A000"})
        EXPECT_EQ(detail::failure_of_open("FATAL:  " + std::string(state) + ": x\n").kind,
                  error_kind::final);
    for (const char* state : {"53300", "53400", "57P03", "57P01", "XX000", "08P01", "58000"})
        EXPECT_EQ(detail::failure_of_open("FATAL:  " + std::string(state) + ": x\n").kind,
                  error_kind::transient);
}

TEST(postgres_message, of_libpq_is_known_by_its_words) {
    for (const char* words :
         {"server certificate for \"a\" does not match host name \"b\"",
          "SSL error: certificate verify failed",
          "server does not support SSL, but SSL was required",
          "channel binding required, but server authenticated client without channel binding",
          "fe_sendauth: no password supplied", "root certificate file \"/x\" does not exist"})
        EXPECT_EQ(detail::failure_of_open(words).kind, error_kind::final) << words;
    for (const char* words :
         {"Connection refused\n\tIs the server running on that host?\n", "timeout expired",
          "server closed the connection unexpectedly\n", "SSL SYSCALL error: EOF detected", "",
          "session is read-only", "FATAL:  no sqlstate", ":  28P01", "FATAL:  28p01: x"})
        EXPECT_EQ(detail::failure_of_open(words).kind, error_kind::transient) << words;
}

// Neither environment variables nor files of the home folder have an effect.

TEST(postgres_environment, has_no_effect) {
    options o = options::from_url("postgresql://app@db.example.com/orders");
    detail::attempt where{.host = "h", .address = "127.0.0.1", .port = "1"};
    auto find = [&](const std::string& name) {
        for (const auto& [key, value] : detail::keywords_of(o, where, o.user))
            if (name == key) return value;
        return std::string("not there");
    };
    EXPECT_EQ(find("options"), "");
    EXPECT_STREQ(detail::password_of(o.password), "");
    ::setenv("PGOPTIONS", "-c work_mem=1GB", 1);
    ::setenv("PGPASSWORD", "theirs", 1);
    EXPECT_EQ(find("options"), " ");
    EXPECT_STRNE(detail::password_of(o.password), "");
    ::setenv("PGTZ", "Asia/Tokyo", 1);
    EXPECT_EQ(find("port"), "1");
    o.timezone = "UTC";
    EXPECT_THROW(find("port"), connection_error);
    ::unsetenv("PGTZ");
    ::setenv("PGHOSTADDR", "127.0.0.9", 1);
    EXPECT_EQ(find("hostaddr"), "127.0.0.1");
    where.address.clear();
    EXPECT_THROW(find("port"), connection_error);
    for (const char* name : {"PGOPTIONS", "PGPASSWORD", "PGHOSTADDR"}) ::unsetenv(name);
    for (const char* name : {"passfile", "sslcert", "sslkey", "sslcrl"})
        EXPECT_EQ(find(name), "/dev/null/none");
}

TEST(postgres_settings, cannot_break_out) {
    options o = options::from_url("postgresql://app@h/");
    o.search_path = "a\\b, c -c role=boss";
    detail::attempt where{.host = "h", .address = "127.0.0.1", .port = "1"};
    for (const auto& [key, value] : detail::keywords_of(o, where, o.user))
        if (key == std::string_view("options")) {
            EXPECT_EQ(value, R"( -c search_path=a\\b,\ c\ -c\ role=boss)");
        }
}

}  // namespace
}  // namespace cenote::postgres
