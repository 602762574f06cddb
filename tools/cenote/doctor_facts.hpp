// What cenote doctor measures and reads from a server, and the planned pool. Plain data.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cenote/options.hpp>

namespace doctor {

using std::chrono::nanoseconds;

enum class server_kind : std::uint8_t { postgres, mariadb, redis, http, sqlite };

/// Why there is no connection.
enum class connect_error : std::uint8_t {
    none,
    name_not_found,
    refused,
    unreachable,
    timed_out,  ///< The TCP connection was not accepted in time.
    silent,     ///< The TCP connection was accepted, but no reply came.
    tls_not_offered,
    tls_untrusted,  ///< See `tls_facts::complaint`.
    tls_failed,
    wrong_password,
    no_database,
    not_allowed,
    too_many,
    broken_off,  ///< The peer closed the connection or does not speak this protocol.
    other,
};

/// How long an operation took, over several runs.
struct times {
    std::size_t count = 0;
    nanoseconds p50{};
    nanoseconds p99{};
};

struct tls_facts {
    bool in_use = false;
    /// The connector requires a certificate that is valid for the host.
    bool verified = false;
    std::optional<bool> offered;  ///< Unset: not tested.
    // From a separate handshake that accepts any certificate.
    std::string version;
    std::string subject;
    std::string issuer;
    std::string complaint;  ///< Why verification fails; empty: it succeeds.
    std::optional<std::chrono::system_clock::time_point> expires;
};

/// A limit on the number of connections.
struct limit {
    std::string name;  ///< The server's name for it.
    std::uint64_t takes = 0;
    std::optional<std::uint64_t> in_use = std::nullopt;  ///< By other clients, now.
    std::string error = {};  ///< The server's error message when the limit is exceeded.
};

/// Whether a connection survived being idle.
struct idle_check {
    nanoseconds waited{};
    bool survived = false;
    bool silently = false;  ///< The loss was only noticed by a timeout.
    std::string error = {};
};

/// A connection pooler in front of PostgreSQL.
enum class pooler : std::uint8_t {
    none,
    session,      ///< Each connection has its own session.
    transaction,  ///< Connections share sessions.
};

struct sqlite_facts {
    std::string journal_mode;
    std::string file_system;  ///< Empty: a local one.
    bool writable = true;
    std::string damage;  ///< The result of an integrity check.
    std::optional<std::uint64_t> free_bytes;
};

struct http_facts {
    int status = 0;
    bool keeps_alive = true;
    /// After how many requests the server closes a connection.
    std::optional<std::uint64_t> requests_per_connection = std::nullopt;
};

struct redis_facts {
    std::optional<std::uint64_t> max_memory;  ///< 0: none.
    std::string eviction;                     ///< maxmemory-policy
};

struct facts {
    server_kind kind{};
    std::string url;  ///< Without the password.
    std::string host;
    bool local = false;  ///< The traffic stays on this machine.

    connect_error error = connect_error::none;
    std::string error_text;  ///< The message of the server or the system.

    std::optional<nanoseconds> lookup, tcp, handshake;
    std::vector<std::string> addresses;
    tls_facts tls;
    times open, trip, probe, reset;

    std::string version;
    std::vector<limit> limits;
    /// After how long the server closes an idle connection, by the name of the setting.
    std::vector<std::pair<std::string, nanoseconds>> idle_limits;
    std::optional<nanoseconds> idle_in_transaction_timeout, statement_timeout;  ///< 0: none.
    std::optional<std::uint64_t> max_prepared;
    std::size_t statement_cache = 0;  ///< The connector's setting, per connection.
    pooler in_front = pooler::none;
    bool replica = false;
    bool read_only = false;
    bool may_be_read_only = false;           ///< The URL accepts such a server.
    std::optional<nanoseconds> clock_ahead;  ///< Of the server. Negative: it is behind.
    nanoseconds clock_error{};

    std::optional<idle_check> idle;
    std::optional<sqlite_facts> file;
    std::optional<http_facts> web;
    std::optional<redis_facts> memory;
    std::vector<std::string> not_seen;  ///< What could not be read, and why.
};

/// The pool that will use the server; by default with cenote's default options.
struct planned {
    std::size_t max = cenote::options{}.max;
    std::size_t processes = 1;
    nanoseconds idle_timeout = cenote::options{}.idle_timeout;
    nanoseconds max_lifetime = cenote::options{}.max_lifetime;
};

}  // namespace doctor
