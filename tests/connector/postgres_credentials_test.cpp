// What connections to PostgreSQL log in with: functions, files, and passwords that change.
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <pwd.h>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>

#include "cenote/postgres.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sql_credentials.hpp"
#include "support/warded_process.hpp"

namespace cenote::postgres {
namespace {

using support::canary_password;
using support::the_postgres;
using testing::HasSubstr;
using testing::Not;

std::string url_without_password(const std::string& parameters = {}) {
    return "postgresql://app@127.0.0.1:" + std::to_string(the_postgres().port()) + "/orders" +
           support::patiently(parameters);
}

struct postgres_case : support::postgres_place {
    using options = postgres::options;

    static options without_password() { return options::from_url(url_without_password()); }
    /// The server is found twice.
    static options with_two_addresses(options o) {
        o.hosts.push_back(o.hosts.front());
        return o;
    }
    static void change_password(const std::string& to) {
        the_postgres().execute_as_admin("alter role app password '" + to + "'");
    }
};

TEST(postgres_credentials, rotate_under_a_pool) {
    credentials_test::a_pool_outlives_rotations<postgres_case>();
}

TEST(postgres_credentials, rotate_under_a_database) {
    credentials_test::a_database_outlives_rotations<postgres_case>();
}

TEST(postgres_credentials, rotate_under_a_pool_on_an_executor) {
    auto in = std::make_shared<credentials_test::vault>();
    credentials_test::an_awaited_pool_outlives_rotations<postgres_case>(
        credentials_test::with<postgres_case>(in), *in);
}

TEST(postgres_credentials, of_an_awaited_function_rotate_under_a_pool) {
    auto in = std::make_shared<credentials_test::vault>();
    credentials_test::an_awaited_pool_outlives_rotations<postgres_case>(
        credentials_test::with_awaited_function<postgres_case>(in), *in);
}

TEST(postgres_credentials, that_are_wrong_can_be_mended) {
    credentials_test::a_wrong_password_is_mended<postgres_case>();
}

TEST(postgres_credentials, fail_the_open_if_their_function_throws) {
    credentials_test::a_function_that_throws_fails_the_open<postgres_case>();
}

TEST(postgres_credentials, of_an_awaited_function_rotate_under_a_database) {
    credentials_test::a_database_outlives_rotations_of_an_awaited_function<postgres_case>();
}

TEST(postgres_credentials, can_be_awaited_by_both_kinds_of_connectors) {
    credentials_test::an_awaited_function_is_enough<postgres_case>(
        postgres_case::without_password());
}

TEST(postgres_credentials, can_be_awaited_for_a_limited_time) {
    credentials_test::an_awaited_function_that_hangs_times_out<postgres_case>();
}

TEST(postgres_credentials, fail_the_waiters_at_once_if_their_function_says_so) {
    credentials_test::a_function_decides_what_its_failure_means<postgres_case>();
}

TEST(postgres_credentials, whose_function_throws_anything) {
    credentials_test::a_function_may_throw_anything<postgres_case>();
}

TEST(postgres_credentials, whose_function_hangs_stop_nothing_else) {
    credentials_test::functions_that_hang_stop_nothing_else<postgres_case>(
        postgres_case::without_password());
}

TEST(postgres_credentials, whose_function_hangs_are_abandoned_by_a_pool) {
    credentials_test::a_blocking_pool_abandons_functions_that_hang<postgres_case>();
}

TEST(postgres_credentials, that_are_refused_are_replaced_at_once) {
    credentials_test::the_source_is_asked_again_after_a_refusal<postgres_case>();
}

TEST(postgres_credentials, that_are_refused_are_sent_once) {
    credentials_test::refused_credentials_are_sent_once<postgres_case>([] {
        const std::string log = the_postgres().log_tail(1'000'000);
        int count = 0;
        for (std::size_t at = 0; (at = log.find("password authentication failed", at)) != log.npos;
             ++at)
            ++count;
        return count;
    });
}

TEST(postgres_credentials, may_name_the_user) {
    the_postgres().execute_as_admin("create role clerk login password '" +
                                    std::string(canary_password) + "'");
    credentials_test::a_function_may_choose_the_user<postgres_case>("clerk", "select current_user");
}

TEST(postgres_credentials, have_one_source) {
    credentials_test::a_second_source_is_refused<postgres_case>();
    options o = postgres_case::without_password();
    o.passfile = "/x";
    o.password = secret("x");
    EXPECT_THROW(connector{o}, std::invalid_argument);
    for (const char* two : {"password_file=/x&password_env=Y", "password_file=/x&passfile=/y"})
        EXPECT_THROW(options::from_url(url_without_password(two)), invalid_url) << two;
    for (const char* one : {"password_file=/x", "password_env=X", "passfile=/x"})
        EXPECT_THROW(options::from_url(support::postgres_url(one)), invalid_url) << one;
}

// Files and the environment.

class postgres_password_files : public testing::Test {
protected:
    std::string written(const std::string& text) { return folder.write("password", text); }
    static std::string refusal(const std::string& url) {
        try {
            connector{url}.open();
            return "accepted";
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::transient) << e.what();
            return e.what();
        }
    }
    static bool opens(const std::string& url) {
        async_connector awaited(url);
        support::await(awaited.open());
        return connector{url}.open().execute("select true").scalar<bool>();
    }
    std::string line_for(const std::string& password) const {
        return "127.0.0.1:" + std::to_string(the_postgres().port()) + ":orders:app:" + password;
    }

    support::temporary_folder folder{"postgres-passwords", support::user_for("postgres")};
};

TEST_F(postgres_password_files, are_named_in_the_url) {
    const std::string file = written(std::string(canary_password) + "\n");
    EXPECT_TRUE(opens(url_without_password("password_file=" + file)));
    ASSERT_EQ(::setenv("CENOTE_TEST_PASSWORD", canary_password, 1), 0);
    EXPECT_TRUE(opens(url_without_password("password_env=CENOTE_TEST_PASSWORD")));
    ASSERT_EQ(::unsetenv("CENOTE_TEST_PASSWORD"), 0);
    const std::string wrong = refusal(
        url_without_password("password_file=" + written(std::string(canary_password) + "x")));
    EXPECT_THAT(wrong, HasSubstr("28P01"));
    EXPECT_THAT(wrong, Not(HasSubstr(canary_password)));
}

TEST_F(postgres_password_files, may_have_the_form_of_pgpass) {
    const std::string url = url_without_password(
        "passfile=" + written("other:*:*:*:x\n" + line_for(canary_password) + "\n"));
    EXPECT_TRUE(opens(url));
    written(line_for("wrong"));
    EXPECT_THAT(refusal(url), HasSubstr("28P01"));
    written("other:*:*:*:" + std::string(canary_password));
    std::string none = refusal(url);
    EXPECT_THAT(none, HasSubstr("no password for 127.0.0.1"));
    EXPECT_THAT(none, Not(HasSubstr(canary_password)));
}

TEST_F(postgres_password_files, are_those_of_libpq_only_if_that_is_chosen) {
    const std::string file = written(line_for(canary_password));
    ASSERT_EQ(::setenv("PGPASSFILE", file.c_str(), 1), 0);
    EXPECT_THROW(connector{url_without_password()}.open(), connection_error);
    EXPECT_TRUE(opens(url_without_password("passfile=default")));
    ASSERT_EQ(::unsetenv("PGPASSFILE"), 0);
    folder.write(".pgpass", line_for(canary_password));
    const char* home = std::getenv("HOME");
    const std::optional<std::string> before =
        home == nullptr ? std::nullopt : std::optional<std::string>(home);
    ASSERT_EQ(::setenv("HOME", folder.path().c_str(), 1), 0);
    EXPECT_TRUE(opens(url_without_password("passfile=default")));
    ASSERT_EQ(::setenv("PGPASSFILE", "", 1), 0);
    EXPECT_TRUE(opens(url_without_password("passfile=default")));
    ASSERT_EQ(::unsetenv("PGPASSFILE"), 0);
    ASSERT_EQ(::unsetenv("HOME"), 0);
    const std::string of_the_user = std::string(::getpwuid(::geteuid())->pw_dir) + "/.pgpass";
    if (!std::filesystem::exists(of_the_user)) {
        EXPECT_THAT(refusal(url_without_password("passfile=default")), HasSubstr(of_the_user));
    }
    if (before) {
        ASSERT_EQ(::setenv("HOME", before->c_str(), 1), 0);
    }
}

}  // namespace
}  // namespace cenote::postgres
