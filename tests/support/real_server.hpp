// The real servers, each a private instance on a port of 127.0.0.1 with a folder of its own: it is
// there when the constructor returns, and gone without a trace when the destructor does.
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

/// The password of everybody's account; must show up nowhere else.
inline constexpr const char* canary_password = "c4n4ry-Zx9-pw";

/// What they have in common. Not for several threads at once, except for what is const.
class real_server {
public:
    real_server(const real_server&) = delete;
    real_server& operator=(const real_server&) = delete;

    /// Where clients find it; stays the same.
    std::uint16_t port() const { return port_.number(); }

    /// Returns when it serves. Throws with the end of its log if it does not get there.
    void start();
    enum class ending {
        fast,      ///< it says farewell to its clients
        immediate  ///< as if it had crashed
    };
    /// Returns when no process of it is left.
    void stop(ending how = ending::fast);
    void restart(ending how = ending::fast);
    bool running() { return process_ && process_->running(); }

    /// None of its processes runs, but the kernel still accepts and acknowledges for them.
    void pause();
    void resume();

    /// The last lines it wrote.
    std::string log_tail(std::size_t lines = 40) const;
    const std::filesystem::path& folder() const { return folder_.path(); }

protected:
    /// How one kind of server is run.
    struct habit {
        std::vector<std::string> command;
        /// In its log when it serves.
        std::string ready;
        warded_process::order farewell;
        warded_process::order crash;
    };
    real_server(const std::string& kind, const std::string& user);
    ~real_server() = default;

    void live_by(habit how) { habit_ = std::move(how); }
    /// A text of settings in which each "@name@" is replaced.
    using replacements = std::vector<std::pair<std::string, std::string>>;
    static std::string filled(std::string text, const replacements& with);
    /// Runs a program as the server's user and returns what it said.
    std::string run_beside(const std::vector<std::string>& command) const;
    std::filesystem::path log() const { return folder_.path() / "log"; }

    std::string user_;
    temporary_folder folder_;
    reserved_port port_;

private:
    void wait_until_ready(std::size_t log_before);

    habit habit_;
    std::optional<warded_process> process_;
    bool paused_ = false;
};

struct postgres_options {
    /// How many "app" may have; the administrator's come on top.
    int max_connections = 20;
    std::string password = canary_password;
    /// Lines of postgresql.conf.
    std::string settings = {};
    /// Offers TLS, with certificates().good(), and still takes those without.
    bool tls = false;
};

/// What a PostgreSQL must be set to so that it can have standbys.
inline constexpr const char* with_standbys = "wal_level = replica\nmax_wal_senders = 5\n";

class postgres_server;
/// A standby that follows this one.
struct standby_of {
    const postgres_server& primary;
};

/// PostgreSQL, with a user "app" who logs in by scram-sha-256, and a database "orders".
class postgres_server : public real_server {
public:
    using options = postgres_options;
    explicit postgres_server(options chosen = {});
    explicit postgres_server(standby_of followed);

    /// The folder of its unix socket, by which only the administrator gets in without a password.
    const std::filesystem::path& socket_folder() const { return folder(); }
    /// Whom clients have to trust. Only with tls.
    const std::filesystem::path& authority() const { return certificates_->authority(); }

    /// The rows, one a line, columns separated by "|".
    std::string execute_as_admin(const std::string& sql,
                                 const std::string& database = "orders") const;
    /// How many the server says there are.
    int connections(const std::string& user = "app") const;
    /// Ends all connections of "app" from the server's side; returns when they are gone.
    void kill_backends() const;

private:
    void initialise(const options& chosen);

    std::optional<certificates> certificates_;
};

struct mariadb_options {
    /// How many "app" may have; the server takes no less than 10. The administrator's come on top.
    int max_connections = 20;
    std::string password = canary_password;
    /// Further arguments, such as "--wait-timeout=1".
    std::vector<std::string> arguments = {};
};

/// MariaDB, with a user "app" and a database "orders".
class mariadb_server : public real_server {
public:
    using options = mariadb_options;
    explicit mariadb_server(options chosen = {});

    std::filesystem::path socket() const { return folder() / "socket"; }

    /// The rows, one a line, columns separated by tabs.
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
    /// Lines of redis.conf.
    std::string settings = {};
    /// Offers TLS on tls_port().
    bool tls = false;
};

/// Redis, which keeps nothing and wants a password.
class redis_server : public real_server {
public:
    using options = redis_options;
    explicit redis_server(options chosen = {});

    std::uint16_t tls_port() const { return tls_port_.number(); }
    const std::filesystem::path& authority() const { return certificates_->authority(); }

    /// What redis-cli prints.
    std::string execute_as_admin(const std::vector<std::string>& words) const;
    /// Without the one who asks.
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
    /// Further locations.
    std::string locations = {};
};

/// nginx: HTTP on port(), HTTPS on tls_port(), both with
///
///   /             a page
///   /echo         the argument `nonce`, whatever the method
///   /connection   the connection's number and how many requests it has seen
///   /slow         the large file at `rate` (by default 1024) bytes a second
///   /chunked      a page of unknown length
///   /close        an answer after which the server hangs up
///   /large        a megabyte
///   /status/N     an answer of status N, for the usual ones
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

/// PgBouncer before a PostgreSQL: in transaction mode, trusting whoever comes as "app".
class pgbouncer_server : public real_server {
public:
    using options = pgbouncer_options;
    explicit pgbouncer_server(const postgres_server& behind, options chosen = {});
};

}  // namespace support
