// Sessions of PostgreSQL as the options set them up, and what a probe runs.
#include <array>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/postgres.hpp"
#include "cenote/url.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sql_settings.hpp"

namespace cenote::postgres {
namespace {

using namespace std::chrono_literals;
using support::await;
using support::postgres_url;
using testing::HasSubstr;

struct postgres_case : support::postgres_place {
    using options = postgres::options;

    static constexpr const char* look =
        "select current_setting('statement_timeout') || ' ' || current_setting('work_mem') || ' ' "
        "|| current_setting('my.tenant') || ' ' || current_setting('application_name')";
    static constexpr const char* seen = "77s 1234kB acme\\ & 'sons' till";

    static constexpr std::array changes_in_a_transaction{"set statement_timeout = '1h'",
                                                         "set my.tenant = 'other'"};

    static std::vector<std::string> changes(int i) {
        if (i % 3 == 0) return {};
        if (i % 3 == 1) return {"set statement_timeout = '1h'", "set application_name = 'x'"};
        return {"set my.tenant = 'other'", "reset work_mem", "reset all", "discard all"};
    }
    static options with(reset_mode how, std::size_t cache = 0) {
        options o = options::from_url(postgres_url("application_name=till"));
        o.settings = {
            {"statement_timeout", "77s"}, {"Work_Mem", "1234kB"}, {"my.tenant", "acme\\ & 'sons'"}};
        o.reset = how;
        o.statement_cache = cache;
        return o;
    }
};

class postgres_settings : public testing::TestWithParam<reset_mode> {};

TEST_P(postgres_settings, are_found_by_every_lease) {
    settings::every_lease_finds_them<postgres_case>(postgres_case::with(GetParam()));
    settings::every_lease_finds_them<postgres_case>(postgres_case::with(GetParam(), 10));
}

TEST_P(postgres_settings, are_found_by_every_awaited_lease) {
    settings::every_awaited_lease_finds_them<postgres_case>(postgres_case::with(GetParam()));
}

TEST_P(postgres_settings, are_found_by_the_statements_of_a_database) {
    settings::statements_of_a_database_find_them<postgres_case>(postgres_case::with(GetParam()));
    settings::statements_of_a_database_find_them<postgres_case>(postgres_case::with(GetParam()),
                                                                true);
}

TEST_P(postgres_settings, are_found_after_errors_and_open_transactions) {
    settings::leases_after_errors_find_them<postgres_case>(postgres_case::with(GetParam()));
}

TEST_P(postgres_settings, are_found_by_scopes_and_transactions_of_a_database) {
    settings::scopes_and_transactions_of_a_database_find_them<postgres_case>(
        postgres_case::with(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(modes, postgres_settings,
                         testing::Values(reset_mode::with_next, reset_mode::at_release,
                                         reset_mode::by_tag));

std::string setting(connection& c, const std::string& name) {
    return c.execute("select current_setting($1)", name).scalar<std::string>();
}

TEST(postgres_settings_in_a_url, have_a_prefix_or_are_libpqs_options) {
    EXPECT_THROW(connector(postgres_url("options=-c%20role%3Dx")), std::invalid_argument);
    connector all(
        postgres_url("set.lock_timeout=3s&set.my.flag=a%20b&options=-c%20"
                     "statement_timeout%3D5s%20-cwork_mem%3D2MB%20--my.text%3Dc%5C%20d"));
    connection c = all.open();
    EXPECT_EQ(setting(c, "lock_timeout"), "3s");
    EXPECT_EQ(setting(c, "my.flag"), "a b");
    EXPECT_EQ(setting(c, "statement_timeout"), "5s");
    EXPECT_EQ(setting(c, "work_mem"), "2MB");
    EXPECT_EQ(setting(c, "my.text"), "c d");
}

TEST(postgres_settings_in_a_url, are_refused_with_a_reason) {
    auto refusal = [](const std::string& parameters) -> std::string {
        try {
            options::from_url(postgres_url(parameters));
        } catch (const invalid_url& e) {
            return e.what();
        }
        return "accepted";
    };
    for (const char* name : {"set.role=a", "set.Search_Path=a", "set.application_name=a",
                             "set.timezone=UTC", "set.client_encoding=LATIN1"})
        EXPECT_THAT(refusal(name), HasSubstr("options of their own")) << name;
    for (const char* name :
         {"set.standard_conforming_strings=off", "options=-c%20Standard_Conforming_Strings%3D0"})
        EXPECT_THAT(refusal(name), HasSubstr("standard_conforming_strings")) << name;
    EXPECT_THAT(refusal("set.standard_conforming_strings=ON"), HasSubstr("accepted"));
    EXPECT_THAT(refusal("set.a-b=c"), HasSubstr("name of a setting"));
    EXPECT_THAT(refusal("set.=c"), HasSubstr("name of a setting"));
    for (const char* text : {"-f", "-c", "-c%20work_mem", "work_mem%3D1MB"})
        EXPECT_THAT(refusal(std::string("options=") + text), HasSubstr("\"options\"")) << text;
    EXPECT_THAT(refusal("set.work_mem=1MB&options=-cwork_mem%3D2MB"), HasSubstr("twice"));
    EXPECT_THAT(refusal("keepalive_idle=0"), HasSubstr("keepalive"));
    EXPECT_THAT(refusal("keepalive_idle=1500ms"), HasSubstr("keepalive_idle"));
    EXPECT_THAT(refusal("keepalive_probes=200"), HasSubstr("keepalive_probes"));
}

TEST(postgres_settings_of_the_server, are_checked_by_it_when_a_connection_opens) {
    for (const char* wrong : {"set.no_such_setting=1", "set.work_mem=much"}) {
        try {
            connector{postgres_url(wrong)}.open();
            ADD_FAILURE() << wrong;
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::final) << e.what();
        }
    }
}

TEST(postgres_settings_of_the_server, that_forbid_writes_are_no_demotion) {
    support::the_postgres().execute_as_admin("create table if not exists forbidden (at int)");
    for (const char* name : {"default_transaction_read_only", "Default_Transaction_Read_Only"}) {
        connector to(postgres_url(std::string("set.") + name + "=on"));
        connection c = to.open();
        EXPECT_THROW(c.execute("insert into forbidden values (1)"), statement_error);
        EXPECT_EQ(c.execute("select 7").scalar<int>(), 7);
        EXPECT_NE(to.before_release(c), verdict::suspect);
    }
    support::the_postgres().execute_as_admin("drop table forbidden");
}

TEST(postgres_probe, runs_the_statement_of_the_options) {
    support::the_postgres().execute_as_admin(
        "create table if not exists probed (at int); grant all on probed to app");
    connector to(postgres_url("probe=select%20at%20from%20probed"));
    async_connector async_to(postgres_url("probe=select%20at%20from%20probed"));
    connection c = to.open();
    EXPECT_TRUE(to.probe(c));
    EXPECT_TRUE(await(async_to.probe(c)));
    connector primary(
        postgres_url("probe=select%20at%20from%20probed&target_session_attrs=read-write"));
    connection d = primary.open();
    EXPECT_TRUE(primary.probe(d));
    support::the_postgres().execute_as_admin("drop table probed");
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

TEST(postgres_keepalive, is_that_of_the_options) {
    connection c = connector{postgres_url("keepalive_idle=7s&keepalive_interval=2&keepalive_probes="
                                          "5&user_timeout=4500ms")}
                       .open();
    int descriptor = PQsocket(c.native_handle());
    EXPECT_EQ(socket_option(descriptor, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(socket_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE), 7);
    EXPECT_EQ(socket_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL), 2);
    EXPECT_EQ(socket_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT), 5);
    EXPECT_EQ(socket_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT), 4500);
}

}  // namespace
}  // namespace cenote::postgres
