// Tests that each real server starts, does what tests need, and leaves nothing behind.
#include "support/real_server.hpp"

#include <cctype>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>

#include "support/patience.hpp"
#include "support/tcp_client.hpp"

namespace {

using namespace support;
using namespace std::string_view_literals;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

/// Whether any process has this working folder, or names it in its command line.
bool is_in_use(const fs::path& folder) {
    for (const auto& process : fs::directory_iterator("/proc")) {
        std::error_code gone;
        fs::path place = fs::read_symlink(process.path() / "cwd", gone);
        if (place.string().starts_with(folder.string())) return true;
        std::string number = process.path().filename();
        if (number == std::to_string(::getpid()) || !std::isdigit(number[0])) continue;
        if (content_of(process.path() / "cmdline").find(folder.string()) != std::string::npos)
            return true;
    }
    return false;
}

/// The shortest request with a reply that needs no login.
std::string request_to(const postgres_server&) { return {"\0\0\0\x08\x04\xd2\x16\x2f", 8}; }
std::string request_to(const mariadb_server&) { return {}; }
std::string request_to(const redis_server&) { return "PING\r\n"; }
std::string request_to(const nginx_server&) { return "GET /echo?nonce=5 HTTP/1.0\r\n\r\n"; }

template <class Server>
bool answers(const Server& server) {
    tcp_client client(server.port());
    client.say(request_to(server));
    return !client.hear(1).empty();
}

template <class Server>
struct any_real_server : testing::Test {};
using all_servers = testing::Types<postgres_server, mariadb_server, redis_server, nginx_server>;
TYPED_TEST_SUITE(any_real_server, all_servers);

TYPED_TEST(any_real_server, goes_through_all_states_and_leaves_nothing_behind) {
    auto server = std::make_unique<TypeParam>();
    EXPECT_TRUE(server->running());
    EXPECT_TRUE(answers(*server));
    EXPECT_TRUE(is_in_use(server->folder()));
    auto port = server->port();
    for (auto how : {real_server::ending::fast, real_server::ending::immediate}) {
        server->stop(how);
        EXPECT_FALSE(server->running());
        EXPECT_FALSE(listens(port));
        EXPECT_FALSE(is_in_use(server->folder()));
        server->start();
        EXPECT_EQ(server->port(), port);
        EXPECT_TRUE(answers(*server));
    }
    server->restart();
    EXPECT_TRUE(answers(*server));

    server->pause();
    tcp_client client(port);
    client.say(request_to(*server));
    EXPECT_TRUE(client.hears_nothing());
    server->resume();
    EXPECT_EQ(client.hear(1).size(), 1U);

    // Also from the paused state.
    server->pause();
    fs::path folder = server->folder();
    server.reset();
    EXPECT_FALSE(listens(port));
    EXPECT_FALSE(fs::exists(folder));
    EXPECT_FALSE(is_in_use(folder));
}

/// Reports the folder of a paused server, and crashes.
template <class Server>
[[noreturn]] void crash_with(const descriptor& report) {
    try {
        Server server;
        server.pause();
        std::string folder = server.folder();
        if (::write(report.get(), folder.data(), folder.size()) > 0) ::raise(SIGKILL);
    } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
    }
    ::_exit(1);
}

TYPED_TEST(any_real_server, does_not_survive_a_test_that_crashes) {
    int ends[2] = {};
    checked(::pipe2(ends, O_CLOEXEC), "pipe");
    descriptor reading(ends[0]);
    descriptor writing(ends[1]);
    pid_t crashing = checked(::fork(), "fork");
    if (crashing == 0) crash_with<TypeParam>(writing);
    writing = descriptor();
    char said[4096];
    auto size = ::read(reading.get(), said, sizeof said);
    ::waitpid(crashing, nullptr, 0);
    ASSERT_GT(size, 0);
    fs::path folder = std::string(said, static_cast<std::size_t>(size));
    EXPECT_TRUE(eventually([&] { return !fs::exists(folder) && !is_in_use(folder); }));
}

/// A client program.
struct client_program {
    temporary_folder folder{"client", "-"};
    warded_process process;

    explicit client_program(const std::vector<std::string>& command)
        : process(folder, "-", command, "log") {}
    std::string said() {
        EXPECT_TRUE(process.ends_within(plenty));
        return content_of(folder.path() / "log");
    }
};

std::vector<std::string> psql(const real_server& server, const std::string& sql) {
    return {program("psql"), "-XqAt", "-c", sql, app_url("postgresql", server.port())};
}

TEST(postgres_server, counts_limits_and_kills_connections) {
    postgres_server server({.max_connections = 1});
    EXPECT_EQ(server.connections(), 0);
    client_program sleeper(psql(server, "select pg_sleep(600)"));
    EXPECT_TRUE(eventually([&] { return server.connections() == 1; }));
    EXPECT_THAT(client_program(psql(server, "select 1")).said(),
                HasSubstr("too many connections for role"));
    server.kill_backends();
    EXPECT_EQ(server.connections(), 0);
    EXPECT_THAT(sleeper.said(), HasSubstr("terminating connection"));
    EXPECT_EQ(client_program(psql(server, "select current_user")).said(), "app\n");
    EXPECT_EQ(server.execute_as_admin("select 1, 'two'"), "1|two\n");
    EXPECT_THROW(server.execute_as_admin("nonsense"), std::runtime_error);
}

TEST(postgres_server, has_additional_connections_for_administrators) {
    postgres_server server({.max_connections = 1});
    std::vector<std::unique_ptr<client_program>> administrators;
    for (int i = 0; i < 3; ++i)
        administrators.push_back(std::make_unique<client_program>(std::vector<std::string>{
            program("psql"), "-Xc", "select pg_sleep(600)", "-h", server.socket_folder(), "-p",
            std::to_string(server.port()), "-U", "postgres", "postgres"}));
    // The connection that counts is included.
    EXPECT_TRUE(eventually([&] { return server.connections("postgres") == 4; }));
    EXPECT_EQ(client_program(psql(server, "select current_user")).said(), "app\n");
}

TEST(postgres_server, rejects_a_wrong_password) {
    postgres_server server({.password = "it's another"});
    EXPECT_THAT(client_program(psql(server, "select 1")).said(), HasSubstr("password"));
}

TEST(postgres_server, pauses_existing_sessions) {
    postgres_server server;
    tcp_client client(server.port());
    client.say(request_to(server));
    EXPECT_EQ(client.hear(1), "N");
    server.pause();
    client.say("\0\0\0\x22\0\3\0\0user\0app\0database\0orders\0\0"sv);
    EXPECT_TRUE(client.hears_nothing());
    server.resume();
    EXPECT_EQ(client.hear(1), "R");
}

TEST(postgres_server, reports_why_it_does_not_start) {
    try {
        postgres_server server({.settings = "shared_buffers = 'much'"});
        FAIL() << "it started";
    } catch (const std::runtime_error& e) {
        EXPECT_THAT(e.what(), HasSubstr("shared_buffers"));
    }
}

TEST(pgbouncer_server, forwards_to_a_postgres) {
    postgres_server server;
    pgbouncer_server bouncer(server);
    EXPECT_EQ(client_program(psql(bouncer, "select current_user")).said(), "app\n");
    EXPECT_EQ(server.connections(), 1);
    bouncer.restart();
    EXPECT_EQ(client_program(psql(bouncer, "select 1")).said(), "1\n");
}

std::vector<std::string> mariadb(const real_server& server, const std::string& sql) {
    return {program("mariadb"),
            "--no-defaults",
            "-BN",
            "-h127.0.0.1",
            "-uapp",
            "-Dorders",
            std::string("-p") + canary_password,
            "-P" + std::to_string(server.port()),
            "-e",
            sql};
}

TEST(mariadb_server, counts_limits_and_kills_connections) {
    mariadb_server server({.max_connections = 10});
    EXPECT_EQ(server.connections(), 0);
    std::vector<std::unique_ptr<client_program>> sleepers;
    for (int i = 0; i < 10; ++i)
        sleepers.push_back(std::make_unique<client_program>(mariadb(server, "select sleep(600)")));
    EXPECT_TRUE(eventually([&] { return server.connections() == 10; }));
    EXPECT_THAT(client_program(mariadb(server, "select 1")).said(), HasSubstr("Too many"));
    server.kill_backends();
    EXPECT_EQ(server.connections(), 0);
    for (auto& sleeper : sleepers) sleeper->said();
    EXPECT_EQ(client_program(mariadb(server, "select 1, 'two'")).said(), "1\ttwo\n");
    EXPECT_THROW(server.execute_as_admin("nonsense"), std::runtime_error);
}

/// Like eventually(). A command throws while Redis has reached its limit of clients, including
/// closed ones that it has not noticed yet.
template <class Condition>
bool eventually_answered(Condition holds) {
    return eventually([&] {
        try {
            return holds();
        } catch (const std::runtime_error&) {
            return false;
        }
    });
}

TEST(redis_server, counts_limits_and_kills_connections) {
    redis_server server({.max_clients = 2});
    auto counts = [&](int clients) {
        return eventually_answered([&] { return server.connections() == clients; });
    };
    EXPECT_TRUE(counts(0));
    tcp_client client(server.port());
    client.say("PING\r\n");
    EXPECT_THAT(client.hear(7), StartsWith("-NOAUTH"));
    client.hear(std::string_view(" Authentication required.\r\n").size());
    client.say(std::string("AUTH ") + canary_password + "\r\n");
    EXPECT_EQ(client.hear(5), "+OK\r\n");
    EXPECT_TRUE(counts(1));
    {
        std::optional<tcp_client> second;
        EXPECT_TRUE(eventually([&] {
            second.emplace(server.port());
            second->say("PING\r\n");
            return second->hear(7) == "-NOAUTH";
        }));
        EXPECT_THAT(tcp_client(server.port()).hear_all(), HasSubstr("max number of clients"));
    }
    EXPECT_TRUE(eventually_answered([&] { return server.kill_backends(), true; }));
    EXPECT_NE(client.end(), ended::not_yet);
    EXPECT_TRUE(counts(0));
    EXPECT_TRUE(eventually_answered([&] { return server.execute_as_admin({"ping"}) == "PONG\n"; }));
    EXPECT_THROW(server.execute_as_admin({"nonsense"}), std::runtime_error);
}

/// The output of `openssl s_client`, which verifies the server's certificate for localhost.
std::string tls_handshake(std::uint16_t port, const fs::path& authority,
                          std::vector<std::string> more = {}) {
    std::vector<std::string> command = {program("openssl"),
                                        "s_client",
                                        "-connect",
                                        "127.0.0.1:" + std::to_string(port),
                                        "-CAfile",
                                        authority,
                                        "-verify_hostname",
                                        "localhost",
                                        "-verify_return_error",
                                        "-brief"};
    command.insert(command.end(), more.begin(), more.end());
    return client_program(command).said();
}

TEST(real_server_tls, is_trusted_with_a_valid_certificate) {
    postgres_server postgres({.tls = true});
    EXPECT_THAT(tls_handshake(postgres.port(), postgres.authority(), {"-starttls", "postgres"}),
                HasSubstr("Verification: OK"));
    redis_server redis({.tls = true});
    EXPECT_THAT(tls_handshake(redis.tls_port(), redis.authority()), HasSubstr("Verification: OK"));
    nginx_server nginx;
    EXPECT_THAT(tls_handshake(nginx.tls_port(), nginx.authority()), HasSubstr("Verification: OK"));
    EXPECT_THAT(tls_handshake(nginx.tls_port(), redis.authority()), HasSubstr("verify error"));
}

TEST(real_server_tls, is_not_trusted_with_an_invalid_certificate) {
    using identity = nginx_options::identity;
    nginx_server wrong({.certificate = identity::wrong_name});
    EXPECT_THAT(tls_handshake(wrong.tls_port(), wrong.authority()), HasSubstr("ostname mismatch"));
    nginx_server old({.certificate = identity::expired});
    EXPECT_THAT(tls_handshake(old.tls_port(), old.authority()), HasSubstr("expired"));
}

struct nginx_location : testing::Test {
    nginx_server server{{.keepalive_requests = 3, .locations = "location = /own { return 299; }"}};

    /// The whole response, after which the server closes the connection.
    std::string get(const std::string& path) {
        tcp_client client(server.port());
        client.say("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        return client.hear_all();
    }
};

TEST_F(nginx_location, each_location_responds_as_documented) {
    EXPECT_THAT(get("/"), HasSubstr("clear water"));
    EXPECT_THAT(get("/echo?nonce=4711"), HasSubstr("\r\n\r\n4711"));
    EXPECT_THAT(get("/chunked"), HasSubstr("Transfer-Encoding: chunked"));
    EXPECT_GT(get("/large").size(), nginx_server::large_size);
    EXPECT_GT(get("/slow?rate=10m").size(), nginx_server::large_size);
    for (const char* status : {"204", "301", "404", "429", "500", "503"})
        EXPECT_THAT(get(std::string("/status/") + status),
                    StartsWith(std::string("HTTP/1.1 ") + status));
    EXPECT_THAT(get("/own"), StartsWith("HTTP/1.1 299"));
}

TEST_F(nginx_location, keeps_a_connection_for_the_configured_number_of_requests) {
    tcp_client client(server.port());
    for (int i = 0; i < 3; ++i) client.say("GET /connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(client.hear_all(), testing::ContainsRegex("keep-alive(.|\n)* 2HTTP(.|\n)*close"));
    tcp_client another(server.port());
    another.say("GET /close HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(another.hear_all(), HasSubstr("Connection: close"));
}

}  // namespace
