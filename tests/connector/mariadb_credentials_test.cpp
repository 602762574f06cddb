// What connections to MariaDB log in with: functions, files, and passwords that change.
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>

#include "cenote/mariadb.hpp"
#include "cenote/url.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/sql_credentials.hpp"
#include "support/warded_process.hpp"

namespace cenote::mariadb {
namespace {

using namespace std::chrono_literals;
using support::canary_password;
using support::the_mariadb;
using testing::HasSubstr;
using testing::Not;

std::string url_without_password(const std::string& parameters = {}) {
    return "mariadb://app@127.0.0.1:" + std::to_string(the_mariadb().port()) + "/orders" +
           support::patiently(parameters);
}

struct mariadb_case : support::mariadb_place {
    using options = mariadb::options;

    static options without_password() { return options::from_url(url_without_password()); }
    static void change_password(const std::string& to) {
        the_mariadb().execute_as_admin("alter user app@'%' identified by '" + to + "'");
    }
};

TEST(mariadb_credentials, rotate_under_a_pool) {
    credentials_test::a_pool_outlives_rotations<mariadb_case>();
}

TEST(mariadb_credentials, rotate_under_a_database) {
    credentials_test::a_database_outlives_rotations<mariadb_case>();
}

TEST(mariadb_credentials, rotate_under_a_pool_on_an_executor) {
    auto in = std::make_shared<credentials_test::vault>();
    credentials_test::an_awaited_pool_outlives_rotations<mariadb_case>(
        credentials_test::with<mariadb_case>(in), *in);
}

TEST(mariadb_credentials, of_an_awaited_function_rotate_under_a_pool) {
    auto in = std::make_shared<credentials_test::vault>();
    credentials_test::an_awaited_pool_outlives_rotations<mariadb_case>(
        credentials_test::with_awaited_function<mariadb_case>(in), *in);
}

TEST(mariadb_credentials, that_are_wrong_can_be_mended) {
    credentials_test::a_wrong_password_is_mended<mariadb_case>();
}

TEST(mariadb_credentials, fail_the_open_if_their_function_throws) {
    credentials_test::a_function_that_throws_fails_the_open<mariadb_case>();
}

TEST(mariadb_credentials, can_be_awaited_on_an_executor_only) {
    credentials_test::an_awaited_function_needs_an_executor<mariadb_case>();
}

TEST(mariadb_credentials, may_name_the_user) {
    the_mariadb().execute_as_admin("create user clerk@'%' identified by '" +
                                   std::string(canary_password) +
                                   "'; grant all on orders.* to clerk@'%'");
    credentials_test::a_function_may_choose_the_user<mariadb_case>("clerk", "select user()");
}

TEST(mariadb_credentials, have_one_source) {
    credentials_test::a_second_source_is_refused<mariadb_case>();
    EXPECT_THROW(options::from_url(url_without_password("password_file=/x&password_env=Y")),
                 invalid_url);
    for (const char* one : {"password_file=/x", "password_env=X"})
        EXPECT_THROW(options::from_url(support::mariadb_url(one)), invalid_url) << one;
}

TEST(mariadb_credentials, of_today_stop_a_statement_of_yesterday) {
    auto in = std::make_shared<credentials_test::vault>();
    connector to(credentials_test::with<mariadb_case>(in));
    connection c = to.open();
    const std::string next = std::string(canary_password) + "-next";
    mariadb_case::change_password(next);
    in->put(next);
    c.set_timeout(50ms);
    EXPECT_THROW(c.execute("select sleep(3600)"), exchange_timeout);
    EXPECT_TRUE(support::eventually([] {
        return the_mariadb().execute_as_admin(
                   "select count(*) from information_schema.processlist where info like "
                   "'select sleep(36%'") == "0\n";
    }));
    mariadb_case::change_password(canary_password);
}

TEST(mariadb_password_files, are_named_in_the_url) {
    support::temporary_folder folder{"mariadb-passwords", support::user_for("postgres")};
    auto opens = [](const std::string& url) {
        async_connector awaited(url);
        support::await_open(awaited);
        return connector{url}.open().execute("select 1").scalar<int>() == 1;
    };
    const std::string file = folder.write("password", std::string(canary_password) + "\n");
    EXPECT_TRUE(opens(url_without_password("password_file=" + file)));
    ASSERT_EQ(::setenv("CENOTE_TEST_PASSWORD", canary_password, 1), 0);
    EXPECT_TRUE(opens(url_without_password("password_env=CENOTE_TEST_PASSWORD")));
    ASSERT_EQ(::unsetenv("CENOTE_TEST_PASSWORD"), 0);
    folder.write("password", std::string(canary_password) + "x");
    try {
        connector{url_without_password("password_file=" + file)}.open();
        ADD_FAILURE() << "the server accepts a wrong password";
    } catch (const connection_error& e) {
        EXPECT_EQ(e.kind(), error_kind::transient);
        EXPECT_EQ(e.code(), 1045);
        EXPECT_THAT(e.what(), Not(HasSubstr(canary_password)));
    }
}

}  // namespace
}  // namespace cenote::mariadb
