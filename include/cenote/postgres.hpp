// Connections to PostgreSQL, and the connectors that open them. Library cenote::postgres.
//
//     cenote::postgres::connector orders{"postgresql://app:secret@db.example.com/orders"};
//     cenote::pool<cenote::postgres::connection> pool{orders, {.max = 8}};
//     auto lease = pool.acquire();
//     auto rows = lease->execute("select id, total from orders where customer = $1", 42);
//     for (const auto& row : rows) use(row.get<std::int64_t>("id"), row.get<std::string>("total"));
//
// docs/guide/postgres.md explains resets, kept statements and the keys of the URL.
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
#include <vector>

#include "cenote/connector.hpp"
#include "cenote/credentials.hpp"
#include "cenote/keepalive.hpp"
#include "cenote/secret.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sql_connection.hpp"
#include "cenote/url.hpp"

struct pg_conn;

namespace cenote::connector_detail {
class logins;
}  // namespace cenote::connector_detail
namespace cenote::listening_detail {
class receiver;
}

namespace cenote::postgres {

class connection;

/// How a connection is protected. libpq's modes "allow" and "prefer" are missing on purpose: an
/// attacker between client and server could turn TLS off.
enum class tls_mode : std::uint8_t {
    off,          ///< Not encrypted.
    require,      ///< Encrypted, without a check of who the server is.
    verify_ca,    ///< The server's certificate must come from a trusted authority.
    verify_full,  ///< It must also be for the host of the URL.
};

/// Whether the login is bound to the TLS connection, so that an attacker cannot relay it.
enum class channel_binding : std::uint8_t {
    off,      ///< Not bound.
    prefer,   ///< If the server supports it.
    require,  ///< Servers without support are refused.
};

/// Which servers are acceptable. Checked when a connection is opened, and by each probe.
enum class server_role : std::uint8_t {
    any,             ///< All servers.
    read_write,      ///< Accepts writes.
    read_only,       ///< Does not accept writes.
    primary,         ///< Is not a standby.
    standby,         ///< Is a standby.
    prefer_standby,  ///< A standby if there is one, otherwise any. Probes do not check it.
};

/// When the session of a used connection is reset. In every mode the pool resets the session when
/// the lease ends if the lease left a transaction open, got an error, used native_handle(), or ran
/// a command that changes the session (SET, LISTEN, PREPARE, temporary tables).
enum class reset_mode : std::uint8_t {
    /// DISCARD ALL goes in front of the next lease's first request, in the same message. If it
    /// fails, the server does not run the request: statement_not_run. The pool resets a connection
    /// that stays idle after options::reset_after; at once if the text of a statement mentions
    /// advisory locks, LISTEN or temporary tables. Costs the server about 10 microseconds for each
    /// lease, and no round trip.
    ///
    /// Needs a server that commits DISCARD ALL at once. Behind PgBouncer, and with PostgreSQL
    /// before 10.22, 11.17, 12.12, 13.8 and 14.5, the mode is at_release.
    with_next,
    /// The pool sends DISCARD ALL when the lease ends, and waits for the reply before it lends the
    /// connection again. Costs a round trip for each lease.
    at_release,
    /// No reset after a lease that ran nothing but SELECT, INSERT, UPDATE, DELETE and MERGE, or
    /// transactions of these. Costs nothing. The next lease inherits what functions in these
    /// statements have changed: set_config(), pg_advisory_lock(), also inside a view or an
    /// operator.
    by_tag,
};

/// Where a server is, and how connections to it are set up. A connector throws
/// std::invalid_argument if its options are inconsistent. libpq's own environment variables and
/// files have no effect; docs/decisions/0016-why-an-open-failed.md names the exceptions.
struct options {
    /// Default: localhost. Hosts are tried in order; each address gets an equal share of
    /// connect_timeout. A name that begins with a slash is the folder of a Unix socket. Port 0
    /// means 5432. List several hosts for failover, together with role_of_server.
    std::vector<url::host> hosts = {{.name = "localhost", .port = 0}};
    /// Required.
    std::string user;
    /// Default: none, for servers that need no password.
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
    /// Default none. A file in the form of libpq's `~/.pgpass`, read at each open, for the password
    /// only. It must be accessible to its owner only and have a line for the connection. `default`
    /// means $PGPASSFILE or else `~/.pgpass`.
    std::string passfile;
    /// Default: the database with the name of the user.
    std::string database;

    /// Default `off` for hosts on this machine, `verify_full` for all others. Set it for a server
    /// whose certificate does not have its name, or to use TLS on this machine, too.
    std::optional<tls_mode> tls;
    /// Default: those of the system. A file with the trusted authorities.
    std::string ca_file;
    /// Default none. Files with the client's certificate and its key: both or neither. Set them if
    /// the server asks clients for certificates.
    std::string certificate_file;
    std::string key_file;
    /// Default `prefer`. Set `require` to refuse a server that cannot prove that no attacker relays
    /// the login; it needs TLS and a SCRAM password.
    postgres::channel_binding channel_binding = postgres::channel_binding::prefer;

    /// Default: any. Set it if `hosts` are a primary and its standbys. Anything except for `any`
    /// and `prefer_standby` makes a probe ask the server for its role.
    server_role role_of_server = server_role::any;
    /// Default none: a probe only asks for a reply. A statement that a probe runs, for example
    /// `SELECT 1 FROM orders LIMIT 1`. It must leave the session unchanged; its rows do not matter.
    /// The connection is unusable if the server refuses it.
    std::string probe;
    /// Default 5 s. How long an open may take, with all its attempts.
    std::chrono::milliseconds connect_timeout{5000};
    /// Default 30 s. How long an operation may take, from the request to the last byte of the
    /// reply; of a cursor: to the next row. A longer operation throws exchange_timeout, and the
    /// connection is lost. connection::set_timeout() changes it for one lease.
    std::chrono::milliseconds operation_timeout{30'000};
    /// Default 64 MiB, at least 64 KiB. The limit of one reply in bytes: as the server sends it,
    /// with all notices, and again as the rows lie in memory; of a cursor: of one row. A longer
    /// reply throws connection_error, and the connection is lost. Raise it for large results that
    /// cannot be read with a cursor. While a reply is converted, it takes up to twice as much
    /// memory.
    std::size_t max_reply_bytes = std::size_t{64} << 20U;

    // Settings of each session, to which a reset returns. PgBouncer in transaction mode refuses
    // search_path, role and timezone.

    /// The name that the server shows for the connection.
    std::string application_name = "cenote";
    /// Default: that of the server.
    std::string search_path;
    /// Default: the user. The role with which statements run.
    std::string role;
    /// Default: that of the server.
    std::string timezone;
    /// The encoding of texts in both directions.
    std::string client_encoding = "UTF8";
    /// Any other setting, by its name: `{{"statement_timeout", "5s"}, {"work_mem", "64MB"}}`. The
    /// server gets all of them at login, so a reset returns to them at no cost. An unknown name or
    /// value makes each open fail. Not for the settings above, which have options of their own.
    std::map<std::string, std::string> settings;

    /// Default none. Sets up each new session, before its first lease, by statements that it runs
    /// with execute or query_as: `SET`, `SELECT set_config($1, $2, false)`, temporary tables. Use
    /// it for what `settings` cannot express. The open fails with what it throws.
    ///
    /// Its statements and their values are recorded, and repeated after each reset, in a
    /// transaction of their own: in front of the next request, so they cost no round trip, but the
    /// server's time for each lease. So they must be repeatable; each open tries that. At most 64
    /// KiB. Everything else (prepare, stream, COPY, execute_many, a batch, native_handle,
    /// only_read) and the commands PREPARE, LISTEN and those of transactions throw
    /// std::logic_error. Not behind a pooler such as PgBouncer: then each open fails.
    ///
    /// connector calls `on_open` if it is set; otherwise it runs `async_on_open` on an event loop
    /// of its own. async_connector calls `async_on_open` if it is set, and otherwise `on_open` on a
    /// thread for such functions. What they run counts towards connect_timeout; the pool's
    /// open_timeout limits all of it. A function that is still running then may end after the pool:
    /// let it own what it uses. It is called from several threads at once.
    std::function<void(connection&)> on_open;
    std::function<boost::asio::awaitable<void>(connection&)> async_on_open;

    /// How a connection notices that the server is gone.
    keepalive_options keepalive;

    /// Default 0, none. How many statements each connection keeps prepared, the most recently used
    /// ones, from their second run on. Set it if a few statements make up most of the work: saves
    /// the server parsing and planning. Costs memory on the server for each connection, and a more
    /// expensive reset. Disabled automatically behind PgBouncer, which does not support it.
    ///
    /// The server infers the types of parameters only once. So a statement is kept only if a
    /// migration cannot make these types wrong: each parameter is a whole number, bytes, or has a
    /// cast in the text (`$1::timestamp`).
    std::size_t statement_cache = 0;

    /// Default: with_next. Set at_release for statements that are so long that the server refuses
    /// them, or to keep resets out of the time that a lease takes.
    reset_mode reset = reset_mode::with_next;

    /// `postgresql://user:password@host:port,host:port/database?key=value`. The keys are in
    /// docs/guide/postgres.md. Throws invalid_url.
    static options from_url(std::string_view text);
};

namespace detail {
class servers_tried;
class session;
}  // namespace detail

/// A statement and its parameters.
using statement = sql::statement;

/// The rows of a statement, one by one; connection::stream returns when the first has come. The
/// connection is usable again when all rows have been read. Destroying the cursor earlier ends the
/// connection, unless the last row has come already.
using cursor = sql::cursor;

/// One connection, with the operations of sql::connection, blocking and awaited.
///
/// Values go into a statement only as parameters: `$1`, `$2`. The server infers their types; where
/// it cannot, the statement needs a cast: `$1::int8`. In results bool, int2, int4, int8, oid,
/// float4, float8 and bytea have their C++ types; everything else is text.
///
/// Every operation throws
/// - statement_error with a SQLSTATE if the server refuses the statement. The connection remains
///   usable. An open transaction has failed: transaction_failed() until its ROLLBACK.
/// - connection_error if the connection is lost; exchange_timeout after operation_timeout;
///   statement_not_run if the reset of an earlier lease has failed.
/// - std::invalid_argument for text with a zero byte, which PostgreSQL does not accept: bind bytes.
/// - std::logic_error if another operation is under way.
///
/// An operation that ends early (a deadline, a canceled or destroyed coroutine) leaves the
/// connection unusable, and asks the server to stop. Whether the statement was executed is not
/// known. COPY is not supported: it breaks the connection.
///
/// Thread safety: one thread or coroutine at a time, one operation at a time.
class connection : public sql::connection {
public:
    connection(connection&&) noexcept;
    // These end the session, even if a cursor still refers to it: its lease has ended.
    connection& operator=(connection&&) noexcept;
    ~connection();

    /// The handle of libpq, for what is missing here. It is in non-blocking mode
    /// (PQsetnonblocking). Leave it idle: after a query or a COPY that you have not finished,
    /// discard the lease. As the first operation of a lease it waits for the reset of the session
    /// (reset_mode::with_next) and throws as a statement does; so await it on an event loop.
    pg_conn* native_handle() const;
    boost::asio::awaitable<pg_conn*> async_native_handle() const;

    /// Makes the server refuse writes for the rest of the lease. Has no effect behind PgBouncer in
    /// transaction mode, which has no sessions. Throws as a statement does.
    void only_read();
    boost::asio::awaitable<void> async_only_read();

    /// For the library: see cenote::database::listen. The connection does nothing else while the
    /// receiver exists.
    std::unique_ptr<listening_detail::receiver> receiver();

private:
    friend class connector;
    friend class async_connector;
    explicit connection(std::shared_ptr<detail::session> s) noexcept;

    detail::session& own() const;
    void end() noexcept;
};

/// Opens connections, for a pool with threads of its own. Copies share what they know of the
/// servers.
///
/// The session of a used connection is reset before the next lease runs a statement: an open
/// transaction is rolled back, DISCARD ALL removes everything else, and the settings of the options
/// apply again. See reset_mode. For an unused connection the pool only checks the socket.
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
    /// Asks the server for a reply. False: the server no longer has the wanted role. Throws as a
    /// statement does.
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
    std::shared_ptr<detail::servers_tried> known_;
    std::shared_ptr<connector_detail::logins> logins_;
};

/// As connector, for a pool on an executor. Never blocks it: names are looked up on work threads.
class async_connector {
public:
    /// As the constructors of connector.
    explicit async_connector(options settings) : blocking_(std::move(settings)) {}
    explicit async_connector(std::string_view url) : blocking_(url) {}

    /// As the members of connector.
    boost::asio::awaitable<connection> open();
    boost::asio::awaitable<bool> probe(connection& c);
    boost::asio::awaitable<void> reset(connection& c);
    void close(connection& c) noexcept { blocking_.close(c); }
    bool before_acquire(connection& c) noexcept { return blocking_.before_acquire(c); }
    verdict before_release(connection& c) noexcept { return blocking_.before_release(c); }
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    std::string endpoint() const { return blocking_.endpoint(); }
    void forsake(connection& c) noexcept { blocking_.forsake(c); }

private:
    connector blocking_;
};

}  // namespace cenote::postgres
