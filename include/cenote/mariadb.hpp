// Connections to MariaDB and MySQL servers, and the connectors that open them. Library
// cenote::mariadb.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cenote/connector.hpp"
#include "cenote/secret.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sql_connection.hpp"

struct st_mysql;

namespace cenote::mariadb {

enum class isolation_level : std::uint8_t {
    server_default,
    read_uncommitted,
    read_committed,
    repeatable_read,
    serializable,
};

/// What a server is asked to do.
enum class server_role : std::uint8_t {
    any,
    read_write,  ///< Takes writes: it is asked when a connection is opened, and by each probe.
    read_only,   ///< Only reads: that it takes no writes is no sign that anything is wrong.
};

/// When the session of a connection that was used is reset. In every mode the pool resets it when
/// the lease ends if the lease left a transaction open, got an error, used native_handle(), or did
/// what the server reports (SET, USE, temporary tables, a role).
enum class reset_mode : std::uint8_t {
    /// The reset (COM_RESET_CONNECTION and the settings of the options) is sent in front of the
    /// next lease's first statement, in one message with its PREPARE. The statement is executed
    /// after the server has confirmed both; if the reset fails it is not executed:
    /// statement_not_run. A connection that stays idle is reset by the pool after
    /// options::reset_after, or at once if a statement's text mentions locks, handlers or temporary
    /// tables.
    ///
    /// It is at_release instead under TLS, with MySQL, with MariaDB before 10.2.2, and behind a
    /// proxy that gives connections numbers of its own or does not forward the server's session
    /// tracking. Choose at_release for servers and proxies that do not accept several commands in
    /// one message.
    with_next,
    /// The pool resets the connection when the lease ends, on a thread of its own, before it is
    /// lent again: two round trips, three if the server reported a change.
    at_release,
    /// No reset after a lease without a reported change. It believes that such a lease left nothing
    /// behind. MariaDB 10.11 does not report user variables that SELECT or DO sets, GET_LOCK, LOCK
    /// TABLES, HANDLER, SET TRANSACTION, CREATE TEMPORARY TABLE ... SELECT and LAST_INSERT_ID():
    /// the next lease inherits all of these.
    by_tracking,
};

/// Where a server is and how its connections are set up.
struct options {
    /// A name, an address, or the path of a Unix socket.
    std::string host;
    std::uint16_t port = 3306;
    std::string user;
    secret password;
    /// Needed: only so can a reset take back a borrower's USE.
    std::string database;

    std::string charset = "utf8mb4";  ///< Of what is sent and received.
    std::string time_zone;            ///< Empty: the server's.
    std::string sql_mode;             ///< Empty: the server's.
    isolation_level isolation = isolation_level::server_default;

    /// Whether the connection is encrypted and the server's certificate must be valid and issued
    /// for `host`. Unset: unless the server is on this machine.
    std::optional<bool> tls;
    std::string tls_ca;    ///< File of whom to trust; empty: whom the system trusts.
    std::string tls_cert;  ///< File of our own certificate, where the server asks for one.
    std::string tls_key;   ///< And of its key.

    server_role role_of_server = server_role::any;

    /// How long opening may take, all addresses of the host together.
    std::chrono::milliseconds connect_timeout{5000};
    /// How long anything else may take that is asked of the server.
    std::chrono::milliseconds operation_timeout{30'000};
    /// The bytes of one reply: as the server sends them, and once more as the rows lie in memory;
    /// of a stream: of one row. A longer reply breaks the connection and throws connection_error.
    /// At least 64 KiB. Raise it for large results that cannot be streamed.
    std::size_t max_reply_bytes = std::size_t{64} << 20U;

    /// How many statements each connection keeps prepared, the latest it has run. 0: none. A reset
    /// ends them, so this is for `reset_mode::by_tracking`, and for leases that run many.
    std::size_t statement_cache = 0;

    reset_mode reset = reset_mode::with_next;

    /// `mariadb://user:password@host:port/database?key=value` (or `mysql://`). Keys: charset,
    /// timezone, sql_mode, isolation, tls, tls_ca, tls_cert, tls_key, server_role,
    /// connect_timeout, operation_timeout, max_reply_bytes, statement_cache, reset. Throws
    /// invalid_url.
    static options from_url(std::string_view text);
};

namespace detail {
class session;
}  // namespace detail

using statement = sql::statement;

/// The rows of a statement, one by one, as they come from the server. Until it has ended the
/// connection does nothing else; if it is destroyed before, the connection cannot be used any more.
using cursor = sql::cursor;

/// One connection. Used by one thread or coroutine at a time, one operation at a time: those of
/// sql::connection. Parameters are bound to `?`. Of a procedure with several results, execute
/// returns the rows of the first. Whether it is in a transaction the server says with each reply.
///
/// The awaited forms run on the executor of the coroutine that awaits them, which may be another
/// one each time. If one is cancelled (terminally), the connection cannot be used any more.
///
/// Whole numbers, also of type BIT, become whole numbers (as text if they exceed 64 bits with a
/// sign), FLOAT and DOUBLE floating point, what has the binary charset bytes, and everything else
/// text: dates, times and decimals as the server writes them.
///
/// Errors: statement_error for what the server would not do, with its number and SQLSTATE;
/// connection_error if the connection is lost; exchange_timeout if there was no answer in time.
class connection : public sql::connection {
public:
    /// The server's number for this connection, as its CONNECTION_ID() says.
    std::uint64_t id() const;
    /// For what is not offered here; only non-blocking calls of the library, each to its end. The
    /// connection is reset after the lease. As the first thing in a lease it may have to wait for
    /// what is left of the session's reset, and throw as a statement does; then, on an event loop,
    /// await it.
    st_mysql* native_handle() const;
    boost::asio::awaitable<st_mysql*> async_native_handle() const;

private:
    friend class connector;
    friend class async_connector;
    explicit connection(std::shared_ptr<detail::session> s) noexcept;

    detail::session& own() const;
};

/// Opens connections, for a pool that has threads:
///
///     cenote::pool<cenote::mariadb::connection> pool{
///         cenote::mariadb::connector{"mariadb://app:secret@db.example/orders"}, {.max = 8}};
///
/// A connection on which anything was said is reset before anybody else's first statement
/// (COM_RESET_CONNECTION): an open transaction is rolled back, and nothing of the session stays:
/// variables, settings, temporary tables, locks, prepared statements. Then it gets what its options
/// say, the database included; see reset_mode. One on which nothing was said is kept as it is.
class connector {
public:
    /// Throws std::invalid_argument.
    explicit connector(options settings);
    explicit connector(std::string_view url) : connector(options::from_url(url)) {}

    connection open();
    bool probe(connection& c);
    void reset(connection& c);
    void close(connection& c) noexcept;
    bool before_acquire(connection& c) noexcept;
    verdict before_release(connection& c) noexcept;
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    void forsake(connection& c) noexcept;

private:
    friend class async_connector;
    std::shared_ptr<const options> settings_;
};

/// The same for a pool on an executor. Nothing blocks it: names are looked up on work threads, and
/// there the client library's handshake of TLS is made, which blocks.
class async_connector {
public:
    explicit async_connector(options settings) : blocking_(std::move(settings)) {}
    explicit async_connector(std::string_view url) : blocking_(url) {}

    boost::asio::awaitable<connection> open();
    boost::asio::awaitable<bool> probe(connection& c);
    boost::asio::awaitable<void> reset(connection& c);
    boost::asio::awaitable<void> close(connection& c);
    bool before_acquire(connection& c) noexcept { return blocking_.before_acquire(c); }
    verdict before_release(connection& c) noexcept { return blocking_.before_release(c); }
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    void forsake(connection& c) noexcept { blocking_.forsake(c); }

private:
    connector blocking_;
};

}  // namespace cenote::mariadb
