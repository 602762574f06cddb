// Sets up a private PostgreSQL, and PgBouncer in front of it.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "support/patience.hpp"
#include "support/real_server.hpp"

namespace support {

namespace {

// Only the role's limit applies to "app". The server's limit is higher, because it also counts
// administrators and backends that are about to end.
constexpr int for_admins = 3;
constexpr int to_spare = 10;

std::string sql_text(const std::string& text) {
    std::string made = "'";
    for (char c : text) made += c == '\'' ? "''" : std::string(1, c);
    return made + "'";
}

// The data is temporary: everything that only makes it durable is off.
constexpr const char* basic = R"(
listen_addresses = '127.0.0.1'
port = @port@
unix_socket_directories = '@folder@'
max_connections = @max_connections@
superuser_reserved_connections = @reserved@
password_encryption = 'scram-sha-256'
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
shared_buffers = '4MB'
autovacuum = off
max_logical_replication_workers = 0
dynamic_shared_memory_type = 'mmap'
logging_collector = off
log_destination = 'stderr'
)";

constexpr const char* with_tls = R"(
ssl = on
ssl_cert_file = '@file@'
ssl_key_file = '@key@'
)";

constexpr const char* who_may = R"(
local all postgres trust
local replication postgres trust
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
)";

constexpr const char* bouncer = R"([databases]
orders = host=127.0.0.1 port=@behind@ dbname=orders user=app password='@password@'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = @port@
unix_socket_dir =
auth_type = trust
auth_file = @users@
pool_mode = transaction
default_pool_size = @pool_size@
max_client_conn = @max_clients@
)";

}  // namespace

postgres_server::postgres_server(options chosen) : real_server("postgres", "postgres") {
    initialize(chosen);
    control_by({.command = {program("postgres"), "-D", folder() / "data"},
                .ready = "database system is ready to accept connections",
                .shutdown = warded_process::order::interrupt,
                .crash = warded_process::order::quit});
    start();
    execute_as_admin("create role app login connection limit " +
                         std::to_string(chosen.max_connections) + " password " +
                         sql_text(chosen.password),
                     "postgres");
    execute_as_admin("create database orders owner app", "postgres");
}

postgres_server::postgres_server(standby_of followed) : real_server("postgres", "postgres") {
    std::string data = folder() / "data";
    run_program({program("pg_basebackup"), "-D", data, "-h", followed.primary.socket_folder(), "-p",
                 std::to_string(followed.primary.port()), "-U", "postgres", "--write-recovery-conf",
                 "--wal-method=stream", "--checkpoint=fast", "--no-sync"});
    control_by({.command = {program("postgres"), "-D", data, "-c", "port=" + std::to_string(port()),
                            "-c", "unix_socket_directories=" + folder().string()},
                .ready = "database system is ready to accept",
                .shutdown = warded_process::order::interrupt,
                .crash = warded_process::order::quit});
    start();
}

void postgres_server::initialize(const options& chosen) {
    std::string data = folder() / "data";
    run_program({program("initdb"), "-D", data, "-U", "postgres", "--no-sync", "--wal-segsize=1",
                 "--locale=C", "--encoding=UTF8", "--auth=trust"});
    folder_.write("data/pg_hba.conf", who_may);
    std::string settings = filled(
        basic, {{"port", std::to_string(port())},
                {"folder", folder()},
                {"max_connections", std::to_string(chosen.max_connections + for_admins + to_spare)},
                {"reserved", std::to_string(for_admins)}});
    if (chosen.tls) {
        certificates_.emplace(folder_);
        certificate mine = certificates_->good();
        settings += filled(with_tls, {{"file", mine.file}, {"key", mine.key}});
    }
    folder_.write("data/postgresql.conf", settings + chosen.settings + "\n");
}

std::string postgres_server::execute_as_admin(const std::string& sql,
                                              const std::string& database) const {
    return run_program({program("psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", socket_folder(),
                        "-p", std::to_string(port()), "-U", "postgres", "-d", database, "-c", sql});
}

int postgres_server::connections(const std::string& user) const {
    return std::stoi(execute_as_admin(
        "select count(*) from pg_stat_activity where usename = " + sql_text(user), "postgres"));
}

void postgres_server::kill_backends() const {
    // The second argument is how many milliseconds to wait for the end of each backend.
    using std::chrono::milliseconds;
    const auto limit = std::chrono::duration_cast<milliseconds>(plenty).count();
    execute_as_admin("select pg_terminate_backend(pid, " + std::to_string(limit) +
                         ") from pg_stat_activity where usename = 'app'",
                     "postgres");
}

pgbouncer_server::pgbouncer_server(const postgres_server& behind, options chosen)
    : real_server("pgbouncer", "postgres") {
    std::string users = folder_.write("users", "\"app\" \"" + chosen.password + "\"\n");
    std::string settings = folder_.write(
        "settings", filled(bouncer, {{"behind", std::to_string(behind.port())},
                                     {"password", chosen.password},
                                     {"port", std::to_string(port())},
                                     {"users", users},
                                     {"pool_size", std::to_string(chosen.pool_size)},
                                     {"max_clients", std::to_string(chosen.max_clients)}}));
    control_by({.command = {program("pgbouncer"), settings},
                .ready = "process up",
                // After an interrupt it would wait for all clients.
                .shutdown = warded_process::order::terminate,
                .crash = warded_process::order::kill});
    start();
}

}  // namespace support
