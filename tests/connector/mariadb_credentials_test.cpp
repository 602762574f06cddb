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
    /// The server is found twice.
    static options with_two_addresses(options o) {
        o.host = "localhost";
        return o;
    }
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

TEST(mariadb_credentials, of_an_awaited_function_rotate_under_a_database) {
    credentials_test::a_database_outlives_rotations_of_an_awaited_function<mariadb_case>();
}

TEST(mariadb_credentials, can_be_awaited_by_both_kinds_of_connectors) {
    credentials_test::an_awaited_function_is_enough<mariadb_case>(mariadb_case::without_password());
}

TEST(mariadb_credentials, can_be_awaited_for_a_limited_time) {
    credentials_test::an_awaited_function_that_hangs_times_out<mariadb_case>();
}

TEST(mariadb_credentials, fail_the_waiters_at_once_if_their_function_says_so) {
    credentials_test::a_function_decides_what_its_failure_means<mariadb_case>();
}

TEST(mariadb_credentials, whose_function_throws_anything) {
    credentials_test::a_function_may_throw_anything<mariadb_case>();
}

TEST(mariadb_credentials, whose_function_hangs_stop_nothing_else) {
    credentials_test::functions_that_hang_stop_nothing_else<mariadb_case>(
        mariadb_case::without_password());
}

TEST(mariadb_credentials, whose_function_hangs_are_abandoned_by_a_pool) {
    credentials_test::a_blocking_pool_abandons_functions_that_hang<mariadb_case>();
}

TEST(mariadb_credentials, that_are_refused_are_replaced_at_once) {
    credentials_test::the_source_is_asked_again_after_a_refusal<mariadb_case>();
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

int status_of_the_server(const std::string& name) {
    return std::stoi(the_mariadb().execute_as_admin(
        "select variable_value from information_schema.global_status where variable_name = '" +
        name + "'"));
}

TEST(mariadb_credentials, that_are_refused_are_sent_once) {
    credentials_test::refused_credentials_are_sent_once<mariadb_case>(
        [] { return status_of_the_server("ACCESS_DENIED_ERRORS"); });
}

/// Without the function, which may be gone with its pool.
TEST(mariadb_credentials, of_today_stop_a_statement_of_yesterday) {
    auto in = std::make_shared<credentials_test::vault>();
    connector to(credentials_test::with<mariadb_case>(in));
    connection c = to.open();
    const std::string next = std::string(canary_password) + "-next";
    mariadb_case::change_password(next);
    in->put(next);
    connection later = to.open();
    const int asked = in->asked();
    const int stopped = status_of_the_server("COM_KILL");
    c.set_timeout(50ms);
    EXPECT_THROW(c.execute("select sleep(3600)"), exchange_timeout);
    EXPECT_TRUE(support::eventually([&] { return status_of_the_server("COM_KILL") > stopped; }));
    later.set_timeout(50ms);  // also with its own
    EXPECT_THROW(later.execute("select sleep(3600)"), exchange_timeout);
    EXPECT_TRUE(
        support::eventually([&] { return status_of_the_server("COM_KILL") > stopped + 1; }));
    EXPECT_EQ(in->asked(), asked);
    mariadb_case::change_password(canary_password);
}

/// A new user may not stop the statements of the one before.
TEST(mariadb_credentials, of_a_connection_stop_its_statement_if_the_user_has_changed) {
    the_mariadb().execute_as_admin("create user heir@'%' identified by '" +
                                   std::string(canary_password) +
                                   "'; grant all on orders.* to heir@'%'");
    auto user = std::make_shared<std::string>("app");
    options o = mariadb_case::without_password();
    o.credentials = [user] { return cenote::credentials(*user, secret(canary_password)); };
    connector to(o);
    connection c = to.open();
    *user = "heir";
    connection later = to.open();
    const int stopped = status_of_the_server("COM_KILL");
    c.set_timeout(50ms);
    EXPECT_THROW(c.execute("select sleep(3600)"), exchange_timeout);
    EXPECT_TRUE(support::eventually([&] { return status_of_the_server("COM_KILL") > stopped; }));
}

/// The client library's handshake blocks, so the open runs on a work thread.
TEST(mariadb_credentials, serve_connections_with_tls) {
    const options o =
        support::mariadb_with_tls::shared().reached_from(mariadb_case::without_password());
    credentials_test::an_awaited_function_is_enough<mariadb_case>(o);
    credentials_test::functions_that_hang_stop_nothing_else<mariadb_case>(o);
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
