// What cenote doctor learns about a server, and what is planned for it. Numbers and texts only.
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
enum class trouble : std::uint8_t {
    none,
    name_not_found,
    refused,
    unreachable,
    timed_out,  ///< Nobody even accepted.
    silent,     ///< Somebody accepted, and then said nothing.
    tls_not_offered,
    tls_untrusted,  ///< `tls_facts::complaint` says why.
    tls_failed,
    wrong_password,
    no_database,
    not_allowed,
    too_many,
    broken_off,  ///< Whoever answers does not speak this protocol, or hangs up.
    other,
};

/// How long something took, each of several times.
struct times {
    std::size_t count = 0;
    nanoseconds p50{};
    nanoseconds p99{};
};

struct tls_facts {
    bool in_use = false;
    bool verified = false;  ///< The connector insists on a certificate that is valid for the host.
    std::optional<bool> offered;  ///< Unknown: nobody looked.
    // Of a look at the server's certificate, whatever the connector insists on.
    std::string version;
    std::string subject;
    std::string issuer;
    std::string complaint;  ///< Why it should not be trusted; empty: it can be.
    std::optional<std::chrono::system_clock::time_point> expires;
};

/// Something there can only be so much of.
struct limit {
    std::string name;  ///< As the server calls it.
    std::uint64_t takes = 0;
    std::optional<std::uint64_t> in_use = std::nullopt;  ///< By others, now.
    std::string error = {};                              ///< What one is told beyond it.
};

/// How one idle connection fared.
struct idle_check {
    nanoseconds waited{};
    bool survived = false;
    bool silently = false;  ///< Nobody said that it was gone; its user had to wait for a timeout.
    std::string said = {};
};

/// What stands between a client and PostgreSQL.
enum class pooler : std::uint8_t {
    none,
    some,         ///< There is one; each connection seems to have a session of its own.
    transaction,  ///< Two connections share a session.
};

struct sqlite_facts {
    std::string journal_mode;
    std::string file_system;  ///< Empty: a local one.
    bool writable = true;
    std::string damage;  ///< What a check has found.
    std::optional<std::uint64_t> free_bytes;
};

struct http_facts {
    int status = 0;
    bool keeps_alive = true;
    std::optional<std::uint64_t> requests_per_connection =
        std::nullopt;  ///< It hung up after so many.
};

struct redis_facts {
    std::optional<std::uint64_t> max_memory;  ///< 0: none.
    std::string eviction;                     ///< maxmemory-policy
};

struct facts {
    server_kind kind{};
    std::string url;  ///< Without the password.
    std::string host;
    bool local = false;  ///< What is said to it stays on this machine.

    trouble wrong = trouble::none;
    std::string said;  ///< In the words of whoever said it.

    std::optional<nanoseconds> lookup, tcp, handshake;
    std::vector<std::string> addresses;
    tls_facts tls;
    times open, trip, probe, reset;

    std::string version;
    std::vector<limit> limits;
    /// The server hangs up on who is idle for so long.
    std::vector<std::pair<std::string, nanoseconds>> idle_limits;
    std::optional<nanoseconds> idle_in_transaction_timeout, statement_timeout;  ///< 0: none.
    std::optional<std::uint64_t> max_prepared;
    std::size_t statement_cache = 0;  ///< Of the connector, per connection.
    pooler between = pooler::none;
    bool replica = false;
    bool read_only = false;
    bool may_be_read_only = false;           ///< The URL asks for such a server.
    std::optional<nanoseconds> clock_ahead;  ///< The server's, of ours. Negative: behind.
    nanoseconds clock_error{};

    std::optional<idle_check> idle;
    std::optional<sqlite_facts> file;
    std::optional<http_facts> web;
    std::optional<redis_facts> memory;
    std::vector<std::string> not_seen;  ///< What the server would not tell, and why.
};

/// The pool that is to be run on it. What was not said is cenote's default.
struct planned {
    std::size_t max = cenote::options{}.max;
    std::size_t processes = 1;
    nanoseconds idle_timeout = cenote::options{}.idle_timeout;
    nanoseconds max_lifetime = cenote::options{}.max_lifetime;
};

}  // namespace doctor
