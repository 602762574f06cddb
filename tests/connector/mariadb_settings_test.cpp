// Sessions of MariaDB as the options set them up, and what a probe runs.
#include <array>
#include <mysql.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/mariadb.hpp"
#include "cenote/url.hpp"
#include "connector/awaiting.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/sql_settings.hpp"

namespace cenote::mariadb {
namespace {

using support::await;
using support::mariadb_url;
using testing::HasSubstr;

struct mariadb_case : support::mariadb_place {
    using options = mariadb::options;

    static constexpr const char* look =
        "select concat_ws(' ', @@max_statement_time, @@wait_timeout, @@collation_connection, "
        "@tenant, @@time_zone, @@autocommit)";
    static constexpr const char* seen = "77.500000 1234 utf8mb4_bin acme\\ & 'søns' +01:00 ON";

    static constexpr std::array changes_in_a_transaction{
        "set max_statement_time = 500", "set @tenant = 'other'", "set names latin1"};

    static std::vector<std::string> changes(int i) {
        if (i % 3 == 0) return {};
        if (i % 3 == 1) return {"set max_statement_time = 500", "set @tenant = 'other'"};
        return {"set names latin1, wait_timeout = 500, time_zone = '+02:00', autocommit = 0",
                "set session transaction isolation level serializable"};
    }
    static options with(reset_mode how) {
        options o = options::from_url(mariadb_url("timezone=%2B01:00"));
        o.settings = {{"max_statement_time", "77.5"},
                      {"wait_timeout", "1234"},
                      {"Collation_Connection", "utf8mb4_bin"},
                      {"@tenant", "acme\\ & 'søns'"},
                      {"autocommit", "on"}};
        o.reset = how;
        return o;
    }
};

class mariadb_settings : public testing::TestWithParam<reset_mode> {};

TEST_P(mariadb_settings, are_found_by_every_lease) {
    settings::every_lease_finds_them<mariadb_case>(mariadb_case::with(GetParam()));
}

TEST_P(mariadb_settings, are_found_by_every_awaited_lease) {
    settings::every_awaited_lease_finds_them<mariadb_case>(mariadb_case::with(GetParam()));
}

TEST_P(mariadb_settings, are_found_by_the_statements_of_a_database) {
    settings::statements_of_a_database_find_them<mariadb_case>(mariadb_case::with(GetParam()));
    settings::statements_of_a_database_find_them<mariadb_case>(mariadb_case::with(GetParam()),
                                                               true);
}

TEST_P(mariadb_settings, are_found_after_errors_and_open_transactions) {
    settings::leases_after_errors_find_them<mariadb_case>(mariadb_case::with(GetParam()));
}

TEST_P(mariadb_settings, are_found_by_scopes_and_transactions_of_a_database) {
    settings::scopes_and_transactions_of_a_database_find_them<mariadb_case>(
        mariadb_case::with(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(modes, mariadb_settings,
                         testing::Values(reset_mode::with_next, reset_mode::at_release,
                                         reset_mode::by_tracking));

TEST_P(mariadb_settings, of_user_variables_are_texts) {
    options o = options::from_url(mariadb_url());
    o.settings = {{"@tenant", "0042"}, {"@rate", "1.50"}, {"wait_timeout", "99"}};
    o.reset = GetParam();
    cenote::pool<connection> one{connector{o}, support::patient(1)};
    for (int i = 0; i < 3; ++i) {
        auto lease = one.acquire();
        EXPECT_EQ(lease->execute("select concat_ws(' ', @tenant, @rate, @@wait_timeout)")
                      .scalar<std::string>(),
                  "0042 1.50 99");
        lease->execute("set @tenant = 7");
    }
}

TEST_P(mariadb_settings, are_found_under_tls) {
    const options o =
        support::mariadb_with_tls::shared().reached_from(mariadb_case::with(GetParam()));
    settings::every_lease_finds_them<mariadb_case>(o);
    settings::every_awaited_lease_finds_them<mariadb_case>(o);
}

TEST(mariadb_settings_in_a_url, have_a_prefix) {
    connection c =
        connector{mariadb_url("set.max_statement_time=3&set.sql_select_limit=17")}.open();
    EXPECT_EQ(c.execute("select concat(@@max_statement_time, ' ', @@sql_select_limit)")
                  .scalar<std::string>(),
              "3.000000 17");
}

TEST(mariadb_settings_in_a_url, are_refused_with_a_reason) {
    auto refusal = [](const std::string& parameters) -> std::string {
        try {
            connector to(mariadb_url(parameters));
        } catch (const invalid_url& e) {
            return e.what();
        }
        return "accepted";
    };
    for (const char* name : {"set.sql_mode=ANSI", "set.Time_Zone=UTC", "set.tx_isolation=a",
                             "set.transaction_isolation=a", "set.character_set_results=utf8"})
        EXPECT_THAT(refusal(name), HasSubstr("an option of its own")) << name;
    EXPECT_THAT(refusal("set.session_track_schema=off"), HasSubstr("session tracking"));
    EXPECT_THAT(refusal("set.autocommit=0"), HasSubstr("autocommit"));
    EXPECT_THAT(refusal("set.a-b=c"), HasSubstr("settings"));
    EXPECT_THAT(refusal("set.global.x=c"), HasSubstr("settings"));
    EXPECT_THAT(refusal("set.=c"), HasSubstr("settings"));
    EXPECT_THAT(refusal("probe=delete%20from%20orders"), HasSubstr("SELECT"));
    EXPECT_THAT(refusal("keepalive_interval=40000"), HasSubstr("keepalive"));
    EXPECT_THAT(refusal("set.autocommit=1&set.wait_timeout=5"), HasSubstr("accepted"));
}

TEST(mariadb_settings_of_the_server, are_checked_by_it_when_a_connection_opens) {
    for (const char* wrong : {"set.no_such_variable=1", "set.wait_timeout=long"}) {
        try {
            connector{mariadb_url(wrong)}.open();
            ADD_FAILURE() << wrong;
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::final) << e.what();
        }
    }
}

TEST(mariadb_probe, runs_the_statement_of_the_options) {
    support::the_mariadb().execute_as_admin("create or replace table probed (at int)");
    connector to(mariadb_url("probe=SELECT%20at%20FROM%20probed"));
    async_connector async_to(mariadb_url("probe=SELECT%20at%20FROM%20probed"));
    connection c = to.open();
    EXPECT_TRUE(to.probe(c));
    EXPECT_TRUE(await(async_to.probe(c)));
    connector primary(mariadb_url("probe=SELECT%20at%20FROM%20probed&server_role=read-write"));
    connection d = primary.open();
    EXPECT_TRUE(primary.probe(d));
    support::the_mariadb().execute_as_admin("drop table probed");
    EXPECT_THROW(to.probe(c), statement_error);
    EXPECT_THROW(await(async_to.probe(c)), statement_error);
    EXPECT_THROW(primary.probe(d), statement_error);
}

int socket_option(int descriptor, int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(descriptor, level, name, &value, &size), 0);
    return value;
}

TEST(mariadb_keepalive, is_that_of_the_options) {
    connection c = connector{mariadb_url("keepalive_idle=7s&keepalive_interval=2&keepalive_probes="
                                         "5&user_timeout=4500ms")}
                       .open();
    auto descriptor = static_cast<int>(mysql_get_socket(c.native_handle()));
    EXPECT_EQ(socket_option(descriptor, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(socket_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE), 7);
    EXPECT_EQ(socket_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL), 2);
    EXPECT_EQ(socket_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT), 5);
    EXPECT_EQ(socket_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT), 4500);
}

}  // namespace
}  // namespace cenote::mariadb
