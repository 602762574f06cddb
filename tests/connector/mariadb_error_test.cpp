// MariaDB: errors, their kinds and their texts.
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/error.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/mariadb_place.hpp"
#include "support/certificates.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/time_lapse.hpp"

namespace cenote::mariadb {
namespace {

using namespace std::chrono_literals;
using support::await_open;
using support::canary_password;
using support::mariadb_url;
using support::the_mariadb;

/// The error of an open, which must be the same blocking and awaited.
struct refusal {
    error_kind kind{};
    int code = 0;
    std::string text;
};

std::optional<refusal> refusal_of(const std::string& url, bool blocking) {
    try {
        async_connector awaited(url);
        connection c = blocking ? connector(url).open() : await_open(awaited);
    } catch (const connection_error& e) {
        return refusal{e.kind(), e.code(), e.what()};
    }
    return std::nullopt;
}

void expect_refused(const std::string& url, error_kind kind, int code) {
    for (bool blocking : {true, false}) {
        std::optional<refusal> got = refusal_of(url, blocking);
        ASSERT_TRUE(got);
        EXPECT_EQ(got->kind, kind) << got->text;
        if (code != 0) {
            EXPECT_EQ(got->code, code) << got->text;
        }
        EXPECT_EQ(got->text.find(canary_password), std::string::npos) << got->text;
        EXPECT_EQ(got->text.find("wr0ng"), std::string::npos) << got->text;
    }
}

std::string with(std::string url, const std::string& what, const std::string& instead) {
    return url.replace(url.find(what), what.size(), instead);
}

TEST(mariadb_open, is_refused_for_good) {
    expect_refused(with(mariadb_url(), canary_password, "wr0ng"), error_kind::final, 1045);
    expect_refused(with(mariadb_url(), "app:", "stranger:"), error_kind::final, 1045);
    expect_refused(with(mariadb_url(), "/orders", "/mysql"), error_kind::final, 1044);
    the_mariadb().execute_as_admin("create or replace user boss identified by '" +
                                   std::string(canary_password) + "'; grant all on *.* to boss");
    std::string boss = with(mariadb_url(), "app:", "boss:");
    expect_refused(with(boss, "/orders", "/nowhere"), error_kind::final, 1049);
    expect_refused(mariadb_url("charset=klingon"), error_kind::final, 0);
    expect_refused(mariadb_url("timezone=Nowhere"), error_kind::final, 1298);
    expect_refused(mariadb_url("sql_mode=UNKNOWN"), error_kind::final, 1231);
}

TEST(mariadb_open, fails_for_now) {
    support::reserved_port unused;
    expect_refused(mariadb_url(unused.number()), error_kind::transient, 2002);
    the_mariadb().execute_as_admin("create or replace user few identified by '" +
                                   std::string(canary_password) +
                                   "' with max_user_connections 1; grant all on orders.* to few");
    std::string few = with(mariadb_url(), "app:", "few:");
    connection first = connector(few).open();
    expect_refused(few, error_kind::transient, 1226);
    EXPECT_EQ(first.execute("select 1").scalar<int>(), 1);
}

TEST(mariadb_open, finds_too_many_connections) {
    the_mariadb().execute_as_admin("set global max_connections = 10");
    connector to(mariadb_url());
    std::vector<connection> all;
    // The server may still count connections of other tests.
    EXPECT_TRUE(support::eventually([&] {
        try {
            all.push_back(to.open());
        } catch (const connection_error& e) {
            EXPECT_EQ(e.code(), 1040) << e.what();
        }
        return all.size() == 10;
    }));
    expect_refused(mariadb_url(), error_kind::transient, 1040);
    support::gate gate(the_mariadb().port());
    {
        support::stopped_clock time;
        pool<connection> more{connector{mariadb_url(gate.port())}, support::patient(3)};
        std::atomic<bool> over{false};
        std::thread waits([&] {
            EXPECT_THROW(static_cast<void>(more.acquire({.timeout = 300ms})), pool_error);
            over = true;
            EXPECT_EQ(more.acquire({.timeout = 1h})->execute("select 2").scalar<int>(), 2);
            over = true;
        });
        // No tight loop: it retries with growing pauses.
        EXPECT_TRUE(support::eventually([&] { return more.stats().open_failed > 0; }));
        EXPECT_TRUE(support::for_a_while([&] { return gate.accepted() <= 3; }));
        EXPECT_TRUE(support::time_passes_in_line(time, more, [&] { return over.load(); }));
        EXPECT_LT(gate.accepted(), 30u);
        for (connection& c : all) EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
        over = false;
        all.clear();
        EXPECT_TRUE(support::time_passes_in_line(time, more, [&] { return over.load(); }));
        waits.join();
    }
    the_mariadb().execute_as_admin("set global max_connections = 40");
}

TEST(mariadb_open, is_not_retried_with_a_wrong_password) {
    support::stopped_clock time;
    support::gate gate(the_mariadb().port());
    pool<connection> never{connector{with(mariadb_url(gate.port()), canary_password, "wr0ng")},
                           support::patient(5)};
    std::atomic<bool> over{false};
    std::thread tries([&] {
        for (int i = 0; i < 5; ++i) {
            try {
                static_cast<void>(never.acquire({.timeout = 2s}));
                ADD_FAILURE();
            } catch (const pool_error& e) {
                std::string text = e.what();
                EXPECT_EQ(text.find("wr0ng"), std::string::npos);
                EXPECT_NE(text.find("Access denied"), std::string::npos) << text;
            }
        }
        over = true;
    });
    EXPECT_TRUE(support::time_passes_in_line(time, never, [&] { return over.load(); }));
    tries.join();
    EXPECT_LE(gate.accepted(), 15u);
}

struct mariadb_error : testing::Test {
    connector to{mariadb_url()};
    connection c = to.open();

    error_kind kind_of(const std::string& text) {
        try {
            c.execute(text);
        } catch (const server_error& e) {
            last_code = e.code();
            last_state = e.sqlstate();
            return e.kind();
        }
        ADD_FAILURE() << "no error";
        return {};
    }
    int last_code = 0;
    std::string last_state;
};

TEST_F(mariadb_error, of_a_statement_harms_nothing) {
    c.execute("create temporary table unique_ones (x int primary key)");
    c.execute("insert into unique_ones values (1)");
    EXPECT_EQ(kind_of("insert into unique_ones values (1)"), error_kind::statement);
    EXPECT_EQ(last_code, 1062);
    EXPECT_EQ(last_state, "23000");
    EXPECT_EQ(kind_of("select * from nowhere"), error_kind::statement);
    EXPECT_EQ(kind_of("select * from mysql.user"), error_kind::statement);
    EXPECT_EQ(kind_of("load data local infile '/etc/hostname' into table unique_ones"),
              error_kind::statement);
    EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
    EXPECT_EQ(to.before_release(c), verdict::reset);
}

TEST_F(mariadb_error, of_a_query_that_was_interrupted_harms_nothing) {
    connection d = to.open();
    std::string victim = std::to_string(c.id());
    std::thread killer([&] {
        std::string there =
            "select count(*) from information_schema.processlist where id = " + victim +
            " and info like '%sleep%'";
        support::eventually([&] { return the_mariadb().execute_as_admin(there) != "0\n"; });
        the_mariadb().execute_as_admin("kill query " + victim);
    });
    EXPECT_EQ(kind_of("select sleep(20), 1 from seq_1_to_3"), error_kind::statement);
    killer.join();
    EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
}

TEST_F(mariadb_error, of_a_killed_connection_is_its_end) {
    std::string victim = std::to_string(c.id());
    std::thread killer([&] {
        std::string there =
            "select count(*) from information_schema.processlist where id = " + victim +
            " and info like '%sleep%'";
        support::eventually([&] { return the_mariadb().execute_as_admin(there) != "0\n"; });
        the_mariadb().execute_as_admin("kill " + victim);
    });
    error_kind kind = kind_of("select sleep(20)");
    killer.join();
    EXPECT_TRUE(kind == error_kind::connection || kind == error_kind::suspect) << last_code;
    verdict judged = to.before_release(c);
    EXPECT_TRUE(judged == verdict::discard || judged == verdict::suspect);
}

TEST_F(mariadb_error, of_a_read_only_server_makes_others_suspect) {
    c.execute("create or replace table written (x int)");
    the_mariadb().execute_as_admin("set global read_only = 1");
    EXPECT_EQ(kind_of("insert into written values (1)"), error_kind::suspect);
    EXPECT_EQ(last_code, 1290);
    EXPECT_EQ(to.before_release(c), verdict::suspect);
    the_mariadb().execute_as_admin("set global read_only = 0");
}

TEST_F(mariadb_error, of_too_large_a_packet_is_the_end) {
    the_mariadb().execute_as_admin("set global max_allowed_packet = 1048576");
    connection small = to.open();
    EXPECT_THROW(small.execute("select length(?)", std::string(3'000'000, 'x')), connection_error);
    EXPECT_EQ(to.before_release(small), verdict::discard);
    the_mariadb().execute_as_admin("set global max_allowed_packet = 16777216");
}

// TLS.

struct identities {
    support::temporary_folder folder{"mariadb-tls", support::user_for("mysql")};
    support::certificates all{folder};
};

std::unique_ptr<support::mariadb_server> tls_server(identities& who,
                                                    const support::certificate& shown) {
    who.folder.give_to_user();
    support::mariadb_server::options chosen;
    chosen.arguments = {"--ssl-ca=" + who.all.authority().string(),
                        "--ssl-cert=" + shown.file.string(), "--ssl-key=" + shown.key.string()};
    return std::make_unique<support::mariadb_server>(chosen);
}

std::string tls_url(const support::mariadb_server& s, const std::string& host,
                    const identities& who) {
    std::string url = mariadb_url(s.port(), "tls=on&tls_ca=" + who.all.authority().string());
    return with(url, "127.0.0.1", host);
}

TEST(mariadb_tls, protects_if_the_server_proves_its_name) {
    identities who;
    auto server = tls_server(who, who.all.good());
    for (const char* host : {"localhost", "127.0.0.1"}) {
        std::string url = tls_url(*server, host, who);
        async_connector awaited(url);
        for (bool blocking : {true, false}) {
            connection c = blocking ? connector(url).open() : await_open(awaited);
            sql::row cipher = c.execute("show status like 'Ssl_cipher'").one();
            EXPECT_NE(cipher.get<std::string>(1), "");
            std::string text(3'000'000, 'x');
            EXPECT_EQ(c.execute("select ?", text).scalar<std::string>(), text);
            EXPECT_EQ(support::await(c.async_execute("select ?", text)).scalar<std::string>(),
                      text);
            EXPECT_TRUE(connector(url).before_acquire(c));
            connector(url).reset(c);
            c.set_timeout(50ms);
            EXPECT_THROW(support::await(c.async_execute("select sleep(20)")), exchange_timeout);
        }
    }
    options small = options::from_url(tls_url(*server, "localhost", who));
    small.max_reply_bytes = 100'000;
    EXPECT_THROW(connector(small).open().execute("select repeat('x', 1000000)"), connection_error);
    std::string stranger =
        mariadb_url(server->port(), "tls=on&tls_ca=" + who.all.stranger().file.string());
    expect_refused(stranger, error_kind::final, 2026);
    expect_refused(mariadb_url(server->port(), "tls=on"), error_kind::final, 2026);
    // The server closes the connection during the handshake.
    std::string url = tls_url(*server, "localhost", who);
    connection c = connector(url).open();
    server->stop(support::real_server::ending::immediate);
    std::signal(SIGPIPE, SIG_DFL);
    EXPECT_THROW(c.execute("select ?", std::string(2'000'000, 'x')), connection_error);
    EXPECT_THROW(c.execute("select 1"), connection_error);
}

TEST(mariadb_tls, refuses_another_name) {
    identities who;
    auto server = tls_server(who, who.all.wrong_name());
    expect_refused(tls_url(*server, "localhost", who), error_kind::final, 2026);
}

TEST(mariadb_tls, shows_the_certificate_of_the_client) {
    identities who;
    support::certificate app = who.all.client("app");
    auto server = tls_server(who, who.all.good());
    server->execute_as_admin("alter user app@'%' require subject '/CN=app'");
    const std::string bare = tls_url(*server, "localhost", who);
    const std::string url =
        bare + "&tls_cert=" + app.file.string() + "&tls_key=" + app.key.string();
    EXPECT_EQ(connector(url).open().execute("select 2").scalar<int>(), 2);
    async_connector awaited(url);
    EXPECT_EQ(await_open(awaited).execute("select 1").scalar<int>(), 1);
    expect_refused(bare, error_kind::final, 1045);
    support::certificate clerk = who.all.client("clerk");
    expect_refused(bare + "&tls_cert=" + clerk.file.string() + "&tls_key=" + clerk.key.string(),
                   error_kind::final, 1045);
}

TEST(mariadb_tls, is_required) {
    expect_refused(mariadb_url("tls=on"), error_kind::final, 2026);
    support::gate gate(the_mariadb().port());
    gate.accept_and_be_silent();
    std::optional<refusal> silent =
        refusal_of(mariadb_url(gate.port(), "tls=on&connect_timeout=100ms"), true);
    ASSERT_TRUE(silent);
    EXPECT_EQ(silent->kind, error_kind::timed_out);
}

}  // namespace
}  // namespace cenote::mariadb
