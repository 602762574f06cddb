// Connections to MariaDB and MySQL servers, and the connectors that open them. Library
// cenote::mariadb.
//
//     cenote::mariadb::connector orders{"mariadb://app:secret@db.example.com/orders"};
//     cenote::pool<cenote::mariadb::connection> pool{orders, {.max = 8}};
//     auto lease = pool.acquire();
//     auto rows = lease->execute("SELECT id, name FROM customer WHERE city = ?", "Oslo");
//     for (const auto& row : rows) use(row.get<int>("id"), row.get<std::string>("name"));
//
// docs/guide/mariadb.md explains resets, time limits and the keys of the URL.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cenote/connector.hpp"
#include "cenote/credentials.hpp"
#include "cenote/keepalive.hpp"
#include "cenote/secret.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sql_connection.hpp"

struct st_mysql;

namespace cenote::connector_detail {
class logins;
}  // namespace cenote::connector_detail

namespace cenote::mariadb {

class connection;

/// The isolation level of transactions.
enum class isolation_level : std::uint8_t {
    server_default,    ///< As the server is set up.
    read_uncommitted,  ///< Also reads what other transactions have not committed.
    read_committed,    ///< Each statement sees what was committed before it.
    repeatable_read,   ///< All statements see what was committed before the first.
    serializable,      ///< As if transactions ran one after the other.
};

/// Which servers are acceptable.
enum class server_role : std::uint8_t {
    any,         ///< All servers.
    read_write,  ///< Must accept writes. Checked by each open and each probe.
    read_only,   ///< May be read-only: an error for that reason concerns only its statement.
};

/// When the session of a used connection is reset. In every mode the pool resets the session when
/// the lease ends if the lease left a transaction open, got an error, used native_handle(), or made
/// a change that the server reports (SET, USE, temporary tables, a role).
enum class reset_mode : std::uint8_t {
    /// The reset (COM_RESET_CONNECTION and the settings of the options) goes in front of the next
    /// lease's first statement, in one message with its PREPARE. The statement is executed after
    /// the server has confirmed both; if the reset fails it is not executed: statement_not_run. The
    /// pool resets a connection that stays idle after options::reset_after; at once if the text of
    /// a statement mentions locks, handlers or temporary tables. Costs about 20 microseconds of
    /// client and server together for each lease, and no round trip.
    ///
    /// The mode is at_release under TLS, with MySQL, with MariaDB before 10.2.2, and behind a proxy
    /// that gives connections numbers of its own or drops the server's session tracking. Choose
    /// at_release yourself for servers and proxies that do not accept several commands in one
    /// message.
    with_next,
    /// The pool resets the session when the lease ends, and waits for the replies before it lends
    /// the connection again. Costs two round trips for each lease, three after a reported change.
    at_release,
    /// No reset after a lease without a reported change. Costs nothing. MariaDB 10.11 does not
    /// report user variables that SELECT or DO sets, GET_LOCK, LOCK TABLES, HANDLER, SET
    /// TRANSACTION, CREATE TEMPORARY TABLE ... SELECT and LAST_INSERT_ID(): the next lease inherits
    /// all of these.
    by_tracking,
};

/// Where a server is, and how connections to it are set up. A connector throws
/// std::invalid_argument if its options are inconsistent. Option files and environment variables of
/// the client library have no effect.
struct options {
    /// Required: a name, an address, or the path of a Unix socket.
    std::string host;
    std::uint16_t port = 3306;
    /// Required.
    std::string user;
    /// Default none. Never sent in clear text: a server that asks for that is refused.
    secret password;
    /// Default none. Returns user and password for each open, instead of `password`: for
    /// credentials that change. Then a refused login is not final: the connector asks the function
    /// once more at once, and the pool tries again later. Credentials that the server has refused
    /// are not sent again for a second.
    ///
    /// connector calls `credentials` if it is set; otherwise it runs `async_credentials` on an
    /// event loop of its own, for connect_timeout at most. async_connector calls
    /// `async_credentials` if it is set, and otherwise `credentials` on a thread for such
    /// functions. The pool's open_timeout limits the time of both. A function that is still running
    /// then may end after the pool: let it own what it uses.
    credentials_source credentials;
    std::function<boost::asio::awaitable<cenote::credentials>()> async_credentials;
    /// Required: a reset selects it again after a borrower's USE.
    std::string database;

    // Settings of each session, to which a reset returns.

    /// The character set of texts in both directions.
    std::string charset = "utf8mb4";
    /// Default: that of the server. "Europe/Oslo" or "+01:00".
    std::string time_zone;
    /// Default: those of the server. Modes with commas between them.
    std::string sql_mode;
    isolation_level isolation = isolation_level::server_default;
    /// Any other variable of the session, by its name: `{{"max_statement_time", "5"},
    /// {"wait_timeout", "600"}, {"@tenant", "acme"}}`; an `@` makes it a user variable. Each reset
    /// sets them again, in the same message. A number is sent as a number, any other value and each
    /// user variable as text. An unknown name or value makes each open fail. Not for the settings
    /// above, which have options of their own, nor to turn `autocommit` off.
    std::map<std::string, std::string> settings;

    /// Default none. Sets up each new session, before its first lease, by statements that it runs
    /// with execute: `SET`, `DO`, `CREATE TEMPORARY TABLE`, `SET ROLE`. Use it for what `settings`
    /// cannot express. The open fails with what it throws.
    ///
    /// Its statements are recorded, and repeated after each reset: with reset_mode::with_next in
    /// the same message, so they cost no round trip, but the server's time for each lease. So they
    /// must be repeatable; each open tries that. At most 64 KiB. A SELECT is not repeated: it may
    /// only look something up. Values are repeated with EXECUTE IMMEDIATE (MariaDB 10.2.3).
    /// Everything else (prepare, stream, execute_many, a batch, native_handle) throws
    /// std::logic_error, and so does a statement that returns rows and changes the session, leaves
    /// a transaction open, turns autocommit off, or concerns session tracking.
    ///
    /// connector calls `on_open` if it is set; otherwise it runs `async_on_open` on an event loop
    /// of its own. async_connector calls `async_on_open` if it is set, and otherwise `on_open` on a
    /// thread for such functions. What they run counts towards connect_timeout; the pool's
    /// open_timeout limits all of it. A function that is still running then may end after the pool:
    /// let it own what it uses. It is called from several threads at once.
    std::function<void(connection&)> on_open;
    std::function<boost::asio::awaitable<void>(connection&)> async_on_open;

    /// Default: off for hosts on this machine, on for all others. Whether connections use TLS. The
    /// server's certificate must then be valid and for `host`. Under TLS, reset_mode::with_next
    /// becomes at_release, and async_connector opens connections on work threads.
    std::optional<bool> tls;
    /// Default: those of the system. A file with the trusted authorities.
    std::string tls_ca;
    /// Default none. Files with the client's certificate and its key: both or neither. Set them if
    /// the server asks clients for certificates.
    std::string tls_cert;
    std::string tls_key;

    /// Default: any. Set read_write to open no connections to a replica, and to lose those to a
    /// primary that was demoted; costs a query for each open and each probe.
    server_role role_of_server = server_role::any;

    /// Default none: a probe only asks for a reply. A SELECT that a probe runs, for example `SELECT
    /// 1 FROM orders LIMIT 1`. It must leave the session unchanged; its rows do not matter. The
    /// connection is unusable if the server refuses it.
    std::string probe;
    /// Default 5 s. How long an open may take, with all addresses of the host. Each address gets an
    /// equal share.
    std::chrono::milliseconds connect_timeout{5000};
    /// Default 30 s. How long any other operation may take; of a cursor: until the next row. A
    /// longer operation throws exchange_timeout, and the connection is lost.
    /// connection::set_timeout() changes it for one lease.
    std::chrono::milliseconds operation_timeout{30'000};
    /// Default 64 MiB, at least 64 KiB. The limit of one reply in bytes: as the server sends it,
    /// and again as the rows lie in memory; of a cursor: of one row. A longer reply throws
    /// connection_error, and the connection is lost. Raise it for large results that cannot be read
    /// with a cursor. While a reply is converted, it takes up to twice as much memory.
    std::size_t max_reply_bytes = std::size_t{64} << 20U;

    /// How a connection notices that the server is gone.
    keepalive_options keepalive;

    /// Default 0, none. How many statements each connection keeps prepared, the most recently used
    /// ones. Saves a round trip and the server's parsing for each run. A reset closes them, so set
    /// it with reset_mode::by_tracking, or for leases that run many statements. The server counts
    /// them towards max_prepared_stmt_count.
    std::size_t statement_cache = 0;

    /// Default: with_next. See reset_mode.
    reset_mode reset = reset_mode::with_next;

    /// `mariadb://user:password@host:port/database?key=value` (or `mysql://`). The keys are in
    /// docs/guide/mariadb.md. Throws invalid_url.
    static options from_url(std::string_view text);
};

namespace detail {
class session;
}  // namespace detail

/// A statement and its parameters.
using statement = sql::statement;

/// The rows of a statement, one by one, as the server sends them. Until its end the connection is
/// busy. Destroying the cursor earlier ends the connection.
using cursor = sql::cursor;

/// One connection, with the operations of sql::connection, blocking and awaited. Awaited operations
/// run on the executor of the coroutine that awaits them, which may differ from one to the next.
///
/// Parameters are bound to `?`. In results integers, also those of type BIT, are integers, or text
/// if they exceed 64 bits with a sign; FLOAT and DOUBLE are floating point; values with the binary
/// charset are bytes; all others are text: dates, times and decimals as the server writes them. Of
/// a procedure with several results, execute returns the rows of the first.
///
/// Every operation throws
/// - statement_error with the server's code and SQLSTATE if the server refuses the statement. The
///   connection remains usable.
/// - connection_error if the connection is lost; exchange_timeout after operation_timeout;
///   statement_not_run if the reset of an earlier lease has failed.
/// - std::logic_error if another operation is under way.
///
/// An operation that ends early (a deadline, a coroutine that is canceled terminally or destroyed)
/// leaves the connection unusable, and asks the server to stop. Whether the statement was executed
/// is not known.
///
/// Thread safety: one thread or coroutine at a time, one operation at a time.
class connection : public sql::connection {
public:
    /// The server's number for this connection, as CONNECTION_ID() returns it.
    std::uint64_t id() const;
    /// The handle of libmariadb, for what is missing here. Use only its non-blocking calls, each to
    /// its end. The pool resets the connection afterwards. As the first operation of a lease it
    /// waits for the reset of the session (reset_mode::with_next) and throws as a statement does;
    /// so await it on an event loop.
    st_mysql* native_handle() const;
    boost::asio::awaitable<st_mysql*> async_native_handle() const;

private:
    friend class connector;
    friend class async_connector;
    explicit connection(std::shared_ptr<detail::session> s) noexcept;

    detail::session& own() const;
};

/// Opens connections, for a pool with threads of its own.
///
/// The session of a used connection is reset before the next lease runs a statement: an open
/// transaction is rolled back; variables, settings, temporary tables, locks and prepared statements
/// are removed; and the settings of the options apply again, the database included. See reset_mode.
/// For an unused connection the pool only checks the socket.
///
/// Thread safety: may be used from several threads at once.
class connector {
public:
    /// Throws std::invalid_argument for inconsistent options.
    explicit connector(options settings);
    /// Throws invalid_url.
    explicit connector(std::string_view url) : connector(options::from_url(url)) {}

    /// Throws connection_error: transient or final. Throws what options::on_open throws.
    connection open();
    /// Asks the server for a reply. False: role_of_server is read_write, and the server no longer
    /// accepts writes. Throws as a statement does.
    bool probe(connection& c);
    /// Throws as a statement does.
    void reset(connection& c);
    void close(connection& c) noexcept;
    /// Whether the connection can be leased: its socket has no unread bytes.
    bool before_acquire(connection& c) noexcept;
    verdict before_release(connection& c) noexcept;
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    /// The server, without user and secrets, for people.
    std::string endpoint() const;
    void forsake(connection& c) noexcept;

private:
    friend class async_connector;
    std::shared_ptr<const options> settings_;
    std::shared_ptr<connector_detail::logins> logins_;
};

/// As connector, for a pool on an executor. Never blocks it: names are looked up on work threads,
/// and connections with TLS are opened there, because the client library's handshake blocks.
class async_connector {
public:
    /// As the constructors of connector.
    explicit async_connector(options settings) : blocking_(std::move(settings)) {}
    explicit async_connector(std::string_view url) : blocking_(url) {}

    /// As the members of connector.
    boost::asio::awaitable<connection> open();
    boost::asio::awaitable<bool> probe(connection& c);
    boost::asio::awaitable<void> reset(connection& c);
    boost::asio::awaitable<void> close(connection& c);
    bool before_acquire(connection& c) noexcept { return blocking_.before_acquire(c); }
    verdict before_release(connection& c) noexcept { return blocking_.before_release(c); }
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    std::string endpoint() const { return blocking_.endpoint(); }
    void forsake(connection& c) noexcept { blocking_.forsake(c); }

private:
    connector blocking_;
};

}  // namespace cenote::mariadb
