// Real servers for tests: private instances on 127.0.0.1 with temporary folders. The constructor
// starts the server, the destructor removes every trace of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/certificates.hpp"
#include "support/warded_process.hpp"

namespace support {

/// The password of all accounts; a test fails if it appears in any output.
inline constexpr const char* canary_password = "c4n4ry-Zx9-pw";

/// The URL for the user "app".
inline std::string app_url(const std::string& scheme, std::uint16_t port,
                           const std::string& path = "/orders") {
    return scheme + "://app:" + canary_password + "@127.0.0.1:" + std::to_string(port) + path;
}

/// The base class of all servers. Not thread-safe, except for const members.
class real_server {
public:
    real_server(const real_server&) = delete;
    real_server& operator=(const real_server&) = delete;

    /// Stays the same across restarts.
    std::uint16_t port() const { return port_.number(); }

    /// Returns when the server accepts clients. Throws with the end of its log if it fails.
    void start();
    enum class ending {
        fast,      ///< an orderly shutdown
        immediate  ///< like a crash
    };
    /// Returns when none of the server's processes is left.
    void stop(ending how = ending::fast);
    void restart(ending how = ending::fast);
    bool running() { return process_ && process_->running(); }

    /// Suspends all its processes; the kernel still accepts connections and acknowledges bytes.
    void pause();
    void resume();

    std::string log_tail(std::size_t lines = 40) const;
    const std::filesystem::path& folder() const { return folder_.path(); }

protected:
    /// How a kind of server is started and stopped.
    struct control {
        std::vector<std::string> command;
        /// Appears in the log when the server accepts clients.
        std::string ready;
        warded_process::order shutdown;
        warded_process::order crash;
    };
    real_server(const std::string& kind, const std::string& user);
    ~real_server() = default;

    void control_by(control how) { control_ = std::move(how); }
    /// Replaces each "@name@" in the text.
    using replacements = std::vector<std::pair<std::string, std::string>>;
    static std::string filled(std::string text, const replacements& with);
    /// Runs a program as the server's user and returns its output.
    std::string run_program(const std::vector<std::string>& command) const;
    std::filesystem::path log() const { return folder_.path() / "log"; }

    std::string user_;
    temporary_folder folder_;
    reserved_port port_;

private:
    void wait_until_ready(std::size_t log_before);

    control control_;
    std::optional<warded_process> process_;
    bool paused_ = false;
};

struct postgres_options {
    /// The limit of the user "app"; administrators have additional connections.
    int max_connections = 20;
    std::string password = canary_password;
    /// Additional lines of postgresql.conf.
    std::string settings = {};
    /// Offers TLS with certificates().good(), and still accepts connections without TLS.
    bool tls = false;
};

/// Settings for a PostgreSQL with standbys.
inline constexpr const char* with_standbys = "wal_level = replica\nmax_wal_senders = 5\n";

class postgres_server;
/// Selects the constructor of a standby.
struct standby_of {
    const postgres_server& primary;
};

/// PostgreSQL with a database "orders" and a user "app", which logs in with scram-sha-256.
class postgres_server : public real_server {
public:
    using options = postgres_options;
    explicit postgres_server(options chosen = {});
    explicit postgres_server(standby_of followed);

    /// The folder of the Unix socket, through which administrators log in without a password.
    const std::filesystem::path& socket_folder() const { return folder(); }
    /// The authority that clients must trust. Only with tls.
    const std::filesystem::path& authority() const { return certificates_->authority(); }

    /// Returns one line per row, with columns separated by "|".
    std::string execute_as_admin(const std::string& sql,
                                 const std::string& database = "orders") const;
    /// The server's count of a user's connections.
    int connections(const std::string& user = "app") const;
    /// Terminates all backends of "app"; returns when they have ended.
    void kill_backends() const;

private:
    void initialize(const options& chosen);

    std::optional<certificates> certificates_;
};

struct mariadb_options {
    /// At least 10; administrators have additional connections.
    int max_connections = 20;
    std::string password = canary_password;
    /// Additional arguments, such as "--wait-timeout=1".
    std::vector<std::string> arguments = {};
};

/// MariaDB with a user "app" and a database "orders".
class mariadb_server : public real_server {
public:
    using options = mariadb_options;
    explicit mariadb_server(options chosen = {});

    std::filesystem::path socket() const { return folder() / "socket"; }

    /// Returns one line per row, with columns separated by tabs.
    std::string execute_as_admin(const std::string& sql,
                                 const std::string& database = "orders") const;
    int connections(const std::string& user = "app") const;
    void kill_backends() const;

private:
    reserved_port admin_port_;
};

struct redis_options {
    /// All there may be: the questions of this class need one, too.
    int max_clients = 100;
    std::string password = canary_password;
    /// Additional lines of redis.conf.
    std::string settings = {};
    /// Offers TLS on tls_port().
    bool tls = false;
};

/// Redis without persistence, with a password.
class redis_server : public real_server {
public:
    using options = redis_options;
    explicit redis_server(options chosen = {});

    std::uint16_t tls_port() const { return tls_port_.number(); }
    const std::filesystem::path& authority() const { return certificates_->authority(); }

    /// Returns the output of redis-cli.
    std::string execute_as_admin(const std::vector<std::string>& words) const;
    /// Without the connection that counts.
    int connections() const;
    void kill_backends() const;

private:
    std::string password_;
    reserved_port tls_port_;
    std::optional<certificates> certificates_;
};

struct nginx_options {
    enum class identity { good, wrong_name, expired };
    identity certificate = identity::good;
    int keepalive_requests = 1000;
    std::chrono::seconds keepalive_timeout{75};
    /// Additional locations of nginx.conf.
    std::string locations = {};
};

/// nginx: HTTP on port(), HTTPS on tls_port(), both with
///
///   /             a page
///   /echo         the argument `nonce`, for any method
///   /connection   the connection's number and the number of its requests
///   /slow         the large file at `rate` (default 1024) bytes per second
///   /chunked      a page of unknown length
///   /close        a response after which the server closes the connection
///   /large        a megabyte
///   /status/N     a response with status N, for common values
class nginx_server : public real_server {
public:
    using options = nginx_options;
    explicit nginx_server(options chosen = {});

    std::uint16_t tls_port() const { return tls_port_.number(); }
    const std::filesystem::path& authority() const { return certificates_.authority(); }

    static constexpr std::size_t large_size = 1 << 20;

private:
    void configure(const options& chosen);

    reserved_port tls_port_;
    certificates certificates_;
};

struct pgbouncer_options {
    int pool_size = 20;
    int max_clients = 1000;
    std::string password = canary_password;
};

/// PgBouncer in front of a PostgreSQL, in transaction mode, without passwords.
class pgbouncer_server : public real_server {
public:
    using options = pgbouncer_options;
    explicit pgbouncer_server(const postgres_server& behind, options chosen = {});
};

}  // namespace support
