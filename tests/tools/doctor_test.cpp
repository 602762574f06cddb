// cenote doctor with real servers, failing servers, and none.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/socket.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.hpp"
#include "support/no_such_host.hpp"
#include "support/patience.hpp"
#include "support/real_server.hpp"
#include <cenote/postgres.hpp>

namespace {

namespace json = boost::json;
using support::canary_password;
using testing::HasSubstr;
using testing::Not;

struct report {
    tools::output said;
    json::value document;

    /// The finding with this code; null if there is none.
    const json::object* finding(std::string_view code) const {
        for (const json::value& one : document.at("findings").as_array())
            if (one.at("code").as_string() == code) return &one.as_object();
        return nullptr;
    }
    std::string severity(std::string_view code) const {
        const json::object* found = finding(code);
        return found == nullptr ? "none" : std::string(found->at("severity").as_string());
    }
    std::string what(std::string_view code) const {
        const json::object* found = finding(code);
        return found == nullptr ? "" : std::string(found->at("what").as_string());
    }
};

std::ostream& operator<<(std::ostream& out, const report& r) {
    return out << r.said.code << "\n" << r.said.out << r.said.err;
}

report examine(const std::string& url, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"doctor", url, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    report r{.said = tools::cenote(words), .document = nullptr};
    r.document = tools::parsed(r.said);
    EXPECT_THAT(r.said.out, Not(HasSubstr(canary_password)));
    EXPECT_THAT(r.said.err, Not(HasSubstr(canary_password)));
    if (!r.document.is_object()) r.document = {{"findings", json::array()}};
    return r;
}

std::string at(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

class doctor_of_postgres : public testing::Test {
protected:
    static void SetUpTestSuite() {
        server_ = std::make_unique<support::postgres_server>(support::postgres_options{
            .max_connections = 20,
            .settings = "idle_session_timeout = '60s'\nstatement_timeout = '30s'\n",
            .tls = true});
    }
    static void TearDownTestSuite() { server_.reset(); }
    static std::string url(const std::string& more = "") {
        return support::app_url("postgresql", server_->port()) + more;
    }

    static std::unique_ptr<support::postgres_server> server_;
};
std::unique_ptr<support::postgres_server> doctor_of_postgres::server_;

TEST_F(doctor_of_postgres, a_healthy_server_has_no_problem) {
    report r = examine(url(), {"--max", "5", "--idle-timeout", "30s"});
    EXPECT_EQ(r.said.code, 0) << r;
    EXPECT_TRUE(r.document.at("connected").as_bool()) << r;
    EXPECT_THAT(std::string(r.document.at("server").as_string()), HasSubstr("PostgreSQL 1"));
    for (const char* code : {"tls-local", "connections", "idle-timeout", "clock"})
        EXPECT_EQ(r.severity(code), "ok") << code << r;
    for (const char* cost : {"open", "round_trip", "probe", "reset"})
        EXPECT_GT(r.document.at(cost).at("p50_seconds").as_double(), 0) << cost << r;
    EXPECT_EQ(r.severity("pooler"), "none") << r;
    EXPECT_EQ(r.severity("read-only"), "none") << r;
}

TEST_F(doctor_of_postgres, counts_the_connections_of_all_processes) {
    report r = examine(url(), {"--max", "32", "--processes", "8"});
    EXPECT_EQ(r.said.code, 1) << r;
    EXPECT_EQ(r.severity("too-few-connections"), "problem") << r;
    EXPECT_THAT(r.what("too-few-connections"),
                HasSubstr("8 processes × max 32 = 256 connections, but the server takes "));
}

TEST_F(doctor_of_postgres, compares_the_idle_timeouts_of_server_and_pool) {
    report r = examine(url(), {"--max", "5"});
    EXPECT_EQ(r.said.code, 0) << r;
    EXPECT_EQ(r.severity("idle-timeout"), "warning") << r;
    EXPECT_THAT(r.what("idle-timeout"),
                HasSubstr("closes sessions idle for 60 s (idle_session_timeout), the pool keeps "
                          "them for 5 min"));
}

TEST_F(doctor_of_postgres, distinguishes_verified_from_unverified_connections) {
    std::string authority = server_->authority().string();
    report good = examine(url("?sslmode=verify-full&sslrootcert=" + authority), {"--max", "5"});
    EXPECT_EQ(good.said.code, 0) << good;
    EXPECT_EQ(good.severity("tls"), "ok") << good;
    EXPECT_EQ(good.document.at("tls").at("subject").as_string(), "localhost") << good;

    report any = examine(url("?sslmode=require"), {"--max", "5"});
    EXPECT_EQ(any.said.code, 0) << any;
    EXPECT_EQ(any.severity("tls-unverified"), "note") << any;  // a note on this machine only

    report stranger = examine(url("?sslmode=verify-full"), {"--max", "5"});
    EXPECT_EQ(stranger.said.code, 1) << stranger;
    EXPECT_EQ(stranger.severity("tls-untrusted"), "problem") << stranger;
}

TEST_F(doctor_of_postgres, reports_why_a_login_fails) {
    std::string place = "@" + at(server_->port());
    report password = examine("postgresql://app:wrong" + place + "/orders");
    EXPECT_EQ(password.said.code, 1) << password;
    EXPECT_EQ(password.severity("wrong-password"), "problem") << password;
    EXPECT_THAT(password.said.out, Not(HasSubstr("app:wrong"))) << password;

    report database = examine(support::app_url("postgresql", server_->port(), "/nowhere"));
    EXPECT_EQ(database.said.code, 1) << database;
    EXPECT_EQ(database.severity("no-database"), "problem") << database;
}

TEST_F(doctor_of_postgres, reads_the_limit_of_a_user) {
    // The backends of earlier connections count until they have ended.
    ASSERT_TRUE(support::eventually([&] { return server_->connections() == 0; }));
    server_->execute_as_admin("ALTER ROLE app CONNECTION LIMIT 4");
    report r = examine(url(), {"--max", "5"});
    server_->execute_as_admin("ALTER ROLE app CONNECTION LIMIT -1");
    EXPECT_EQ(r.said.code, 1) << r;
    EXPECT_THAT(r.what("too-few-connections"), HasSubstr("CONNECTION LIMIT")) << r;
}

TEST_F(doctor_of_postgres, counts_the_connections_of_other_users) {
    server_->execute_as_admin("CREATE ROLE another LOGIN PASSWORD 'another'");
    cenote::postgres::connector connector{"postgresql://another:another@" + at(server_->port()) +
                                          "/orders"};
    std::vector<cenote::postgres::connection> others;
    for (int i = 0; i < 8; ++i) others.push_back(connector.open());
    report r = examine(url(), {"--max", "5"});
    for (auto& one : others) connector.close(one);
    EXPECT_GE(r.document.at("limits").at(0).at("in_use").to_number<int>(), 8) << r;
}

TEST_F(doctor_of_postgres, judges_the_rest_if_settings_cannot_be_read) {
    server_->execute_as_admin("REVOKE SELECT ON pg_catalog.pg_settings FROM PUBLIC", "orders");
    report r = examine(url(), {"--max", "5"});
    server_->execute_as_admin("GRANT SELECT ON pg_catalog.pg_settings TO PUBLIC", "orders");
    EXPECT_EQ(r.said.code, 0) << r;
    EXPECT_TRUE(r.document.at("connected").as_bool()) << r;
    EXPECT_THAT(r.what("not-seen"), HasSubstr("the server's settings")) << r;
    EXPECT_EQ(r.severity("clock"), "ok") << r;
    EXPECT_GT(r.document.at("round_trip").at("p50_seconds").as_double(), 0) << r;
}

TEST_F(doctor_of_postgres, detects_a_read_only_server) {
    server_->execute_as_admin("ALTER ROLE app SET default_transaction_read_only = on");
    report r = examine(url(), {"--max", "5"});
    server_->execute_as_admin("ALTER ROLE app RESET default_transaction_read_only");
    EXPECT_EQ(r.severity("read-only"), "warning") << r;
}

TEST_F(doctor_of_postgres, detects_a_pooler_and_its_mode) {
    support::pgbouncer_server bouncer(*server_);
    report r = examine(support::app_url("postgresql", bouncer.port()), {"--max", "5"});
    EXPECT_EQ(r.said.code, 0) << r;
    EXPECT_EQ(r.severity("pooler-transaction"), "warning") << r;
}

TEST_F(doctor_of_postgres, keeps_a_connection_idle_on_request) {
    report fine = examine(url(), {"--max", "5", "--idle", "200ms"});
    EXPECT_EQ(fine.severity("idle-survived"), "ok") << fine;
    server_->execute_as_admin("ALTER ROLE app SET idle_session_timeout = '200ms'");
    report r;
    // On a busy machine the server may close a connection before the idle check; then repeat.
    bool seen = support::eventually([&] {
        r = examine(url(), {"--max", "5", "--idle", "500ms"});
        return r.severity("idle-closed") != "none";
    });
    server_->execute_as_admin("ALTER ROLE app RESET idle_session_timeout");
    EXPECT_TRUE(seen);
    EXPECT_EQ(r.said.code, 1) << r;
    EXPECT_EQ(r.severity("idle-closed"), "problem") << r;
}

TEST_F(doctor_of_postgres, prints_text_without_colors_into_a_pipe) {
    tools::output said = tools::cenote({"doctor", url(), "--max", "32", "--processes", "8"});
    EXPECT_EQ(said.code, 1);
    EXPECT_THAT(said.out, HasSubstr("problem  8 processes × max 32"));
    EXPECT_THAT(said.out, HasSubstr("open a connection"));
    EXPECT_THAT(said.out, Not(HasSubstr("\033")));
    EXPECT_THAT(said.out, Not(HasSubstr(canary_password)));
    EXPECT_EQ(said.err, "");
    tools::output colored = tools::cenote({"doctor", url(), "--color", "always"});
    EXPECT_THAT(colored.out, HasSubstr("\033[32mok"));
}

TEST(doctor_test, reads_the_limits_and_timeouts_of_mariadb) {
    support::mariadb_server server({.arguments = {"--wait-timeout=60"}});
    std::string url = support::app_url("mariadb", server.port());
    report fine = examine(url, {"--max", "5", "--idle-timeout", "30s"});
    EXPECT_EQ(fine.said.code, 0) << fine;
    EXPECT_THAT(std::string(fine.document.at("server").as_string()), HasSubstr("MariaDB 1"));
    EXPECT_EQ(fine.severity("connections"), "ok") << fine;
    EXPECT_EQ(fine.severity("idle-timeout"), "ok") << fine;

    report crowded = examine(url + "?statement_cache=200", {"--max", "200"});
    EXPECT_EQ(crowded.said.code, 1) << crowded;
    EXPECT_EQ(crowded.severity("too-few-connections"), "problem") << crowded;
    EXPECT_EQ(crowded.severity("too-many-statements"), "problem") << crowded;
    EXPECT_EQ(crowded.severity("idle-timeout"), "warning") << crowded;

    report wrong = examine("mariadb://app:wrong@" + at(server.port()) + "/orders");
    EXPECT_EQ(wrong.said.code, 1) << wrong;
    EXPECT_EQ(wrong.severity("wrong-password"), "problem") << wrong;

    report bare = examine(url + "?tls=on");
    EXPECT_EQ(bare.said.code, 1) << bare;
    EXPECT_EQ(bare.severity("tls-not-offered"), "problem") << bare;
}

TEST(doctor_test, reads_the_limits_and_the_memory_of_redis) {
    support::redis_server server({.max_clients = 50, .settings = "timeout 60\n", .tls = true});
    auto url = [&](const std::string& scheme, std::uint16_t port) {
        return scheme + "://:" + canary_password + "@" + at(port);
    };
    report r = examine(url("redis", server.port()), {"--max", "100"});
    EXPECT_EQ(r.said.code, 1) << r;
    EXPECT_EQ(r.severity("too-few-connections"), "problem") << r;
    EXPECT_EQ(r.severity("idle-timeout"), "warning") << r;
    EXPECT_EQ(r.severity("memory-unbounded"), "note") << r;

    report safe =
        examine(url("rediss", server.tls_port()) + "?tls_ca=" + server.authority().string(),
                {"--max", "5"});
    EXPECT_EQ(safe.said.code, 0) << safe;
    EXPECT_EQ(safe.severity("tls"), "ok") << safe;

    report wrong = examine("redis://:wrong@" + at(server.port()));
    EXPECT_EQ(wrong.said.code, 1) << wrong;
    EXPECT_EQ(wrong.severity("wrong-password"), "problem") << wrong;
}

TEST(doctor_test, detects_whether_a_web_server_keeps_connections) {
    support::nginx_server server({.keepalive_requests = 20});
    report r = examine("http://" + at(server.port()));
    EXPECT_EQ(r.said.code, 0) << r;
    EXPECT_EQ(r.severity("requests-per-connection"), "note") << r;
    EXPECT_THAT(r.what("requests-per-connection"), HasSubstr("after 20 requests")) << r;

    report closes = examine("http://" + at(server.port()) + "?probe_target=/close");
    EXPECT_EQ(closes.severity("no-keep-alive"), "warning") << closes;
    report fails = examine("http://" + at(server.port()) + "?probe_target=/status/503");
    EXPECT_EQ(fails.severity("server-fails"), "warning") << fails;

    std::string trusting = "?tls_ca=" + server.authority().string();
    report safe = examine("https://" + at(server.tls_port()) + trusting);
    EXPECT_EQ(safe.said.code, 0) << safe;
    EXPECT_EQ(safe.severity("tls"), "ok") << safe;
}

TEST(doctor_test, reports_an_expired_certificate_and_a_wrong_name) {
    for (auto [which, why] :
         {std::pair(support::nginx_options::identity::expired, "expired"),
          std::pair(support::nginx_options::identity::wrong_name, "mismatch")}) {
        support::nginx_server server({.certificate = which});
        report r =
            examine("https://" + at(server.tls_port()) + "?tls_ca=" + server.authority().string());
        EXPECT_EQ(r.said.code, 1) << r;
        EXPECT_EQ(r.severity("tls-untrusted"), "problem") << r;
        EXPECT_THAT(r.what("tls-untrusted"), HasSubstr(why)) << r;
    }
}

TEST(doctor_test, does_not_change_a_file) {
    support::temporary_folder folder("doctor", "-");
    std::string path = (folder.path() / "orders.db").string();
    report none = examine("sqlite:" + path);
    EXPECT_EQ(none.said.code, 1) << none;
    EXPECT_EQ(none.severity("no-database"), "problem") << none;
    EXPECT_FALSE(std::filesystem::exists(path));

    std::ofstream(path).close();  // an empty file is an empty database
    report r = examine("sqlite:" + path);
    EXPECT_EQ(r.said.code, 0) << r;
    EXPECT_EQ(r.severity("one-writer"), "note") << r;
    EXPECT_EQ(r.severity("not-wal"), "note") << r;
    EXPECT_EQ(std::filesystem::file_size(path), 0u);

    std::ofstream(path) << std::string(8192, 'x');
    report broken = examine("sqlite:" + path);
    EXPECT_EQ(broken.said.code, 1) << broken;
}

TEST(doctor_test, reports_why_there_is_no_connection) {
    support::descriptor refusing = support::with_own_port(SOCK_STREAM | SOCK_CLOEXEC);
    report refused = examine("postgresql://app@" + at(support::port_of(refusing)) + "/orders");
    EXPECT_EQ(refused.said.code, 1) << refused;
    EXPECT_EQ(refused.severity("refused"), "problem") << refused;
    EXPECT_FALSE(refused.document.at("connected").as_bool());

    report unknown = examine("postgresql://app@" + support::no_such_host + "/orders");
    EXPECT_EQ(unknown.said.code, 1) << unknown;
    EXPECT_EQ(unknown.severity("name-not-found"), "problem") << unknown;

    support::descriptor mute = support::listening_socket();
    for (const std::string scheme : {"postgresql", "mariadb", "redis", "http"}) {
        std::string rest = scheme == "redis" || scheme == "http" ? "" : "/orders";
        std::string user = scheme == "http" ? "" : "app:pw@";
        report silent = examine(scheme + "://" + user + at(support::port_of(mute)) + rest,
                                {"--timeout", "100ms"});
        EXPECT_EQ(silent.said.code, 1) << silent;
        EXPECT_EQ(silent.severity("silent"), "problem") << scheme << silent;
    }
}

TEST(doctor_test, rejects_invalid_urls) {
    for (const char* url : {"nonsense", "gopher://there", "postgresql://a b"}) {
        tools::output said = tools::cenote({"doctor", url});
        EXPECT_EQ(said.code, 2) << url << said.err;
        EXPECT_THAT(said.err, testing::StartsWith("cenote: ")) << url;
        EXPECT_EQ(said.out, "") << url;
    }
    tools::output secret = tools::cenote({"doctor", "postgresql://app:pass zebra@h/d"});
    EXPECT_EQ(secret.code, 2);
    EXPECT_THAT(secret.err, Not(HasSubstr("zebra")));
}

TEST(doctor_test, can_be_interrupted) {
    support::temporary_folder folder("doctor", "-");
    std::string path = (folder.path() / "orders.db").string();
    std::ofstream(path).close();
    tools::program it({CENOTE_COMMAND, "doctor", "sqlite:" + path, "--idle", "1h", "--json"});
    ASSERT_TRUE(it.settles());  // it waits for the idle check
    it.send(SIGINT);
    tools::output said = it.wait();
    EXPECT_EQ(said.code, 130) << said.err;
    EXPECT_EQ(said.out, "");
}

}  // namespace
