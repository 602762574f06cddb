// Connections to PostgreSQL, and the connectors that open them. Library cenote::postgres.
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
#include <vector>

#include "cenote/connector.hpp"
#include "cenote/secret.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sql_connection.hpp"
#include "cenote/url.hpp"

struct pg_conn;

namespace cenote::postgres {

/// How a connection is protected. There is no "if the server can": whoever is on the way could say
/// that it cannot.
enum class tls_mode : std::uint8_t {
    off,
    require,      ///< Encrypted, but the server may be anybody.
    verify_ca,    ///< It has a certificate of somebody we trust.
    verify_full,  ///< And it is the one we meant.
};

/// Whether the login is tied to the TLS connection, so that nobody can be in between.
enum class channel_binding : std::uint8_t { off, prefer, require };

/// Which servers will do.
enum class server_role : std::uint8_t {
    any,
    read_write,      ///< Takes writes.
    read_only,       ///< Does not.
    primary,         ///< Is no standby.
    standby,         ///< Is one.
    prefer_standby,  ///< A standby if there is one, else any.
};

/// When a session that was used is reset. In any case a transaction that was left open is rolled
/// back when its lease ends, and what is known to have changed the session (SET, LISTEN, PREPARE,
/// temporary tables, an error, native_handle()) is undone then.
enum class reset_mode : std::uint8_t {
    /// DISCARD ALL goes in front of the next lease's first request, in the same message. If it
    /// fails the server does not run the request: statement_not_run. A connection that stays idle
    /// is reset by the pool after options::reset_after; at once if a statement's text speaks of
    /// advisory locks, LISTEN or temporary tables. Where the server is not the one this relies on
    /// (PostgreSQL before 10.22, 11.17, 12.12, 13.8, 14.5; PgBouncer), it is at_release.
    with_next,
    /// The pool sends DISCARD ALL and waits for its end before the connection is lent again: a
    /// round trip of its own for each lease.
    at_release,
    /// Not at all after a lease that ran nothing but SELECT, INSERT, UPDATE, DELETE and MERGE, or
    /// transactions of these: they are believed to leave nothing behind in the session. That is not
    /// so if they call functions such as set_config() or pg_advisory_lock(), perhaps in a view or
    /// an operator: then the next borrower inherits that.
    by_tag,
};

/// Where a server is and how its connections are set up.
struct options {
    /// Tried one after the other; each address gets a fair part of connect_timeout. A name that
    /// begins with a slash is the folder of a Unix socket. Port 0 is 5432.
    std::vector<url::host> hosts = {{.name = "localhost", .port = 0}};
    std::string user;
    secret password;
    std::string database;  ///< Empty: that of the user's name.

    /// Unset: `off` for hosts on this machine, `verify_full` for all others.
    std::optional<tls_mode> tls;
    std::string ca_file;  ///< Whom to trust; empty: whom the system trusts.
    std::string certificate_file;
    std::string key_file;
    postgres::channel_binding channel_binding = postgres::channel_binding::prefer;

    server_role role_of_server = server_role::any;
    std::chrono::milliseconds connect_timeout{5000};
    /// How long an operation may take, from the request to the last byte of the reply (of a stream:
    /// to the next row).
    std::chrono::milliseconds operation_timeout{30'000};
    /// The bytes of one reply: as the server sends them, with all notices, and once more as the
    /// rows lie in memory; of a stream: of one row. A longer reply breaks the connection and throws
    /// connection_error. At least 64 KiB. Raise it for large results that cannot be streamed.
    std::size_t max_reply_bytes = std::size_t{64} << 20U;

    // What each session starts with, and goes back to when it is reset. Empty: what the server has.
    std::string application_name = "cenote";
    std::string search_path;
    std::string role;
    std::string timezone;
    std::string client_encoding = "UTF8";

    /// How many statements each connection keeps prepared: those that are run for a second time,
    /// the latest of them. 0: none. They outlast a reset, unless its user has prepared others.
    /// Disabled automatically behind PgBouncer, which does not support it. The server infers the
    /// types of parameters only once, so what a migration could make wrong is not kept: each
    /// parameter has to be a whole number, bytes, or cast in the text (`$1::timestamp`).
    std::size_t statement_cache = 0;

    reset_mode reset = reset_mode::with_next;

    /// `postgresql://user:password@host:port,host:port/database?key=value`. The keys are in
    /// docs/guide/postgres.md. Throws invalid_url.
    static options from_url(std::string_view text);
};

namespace detail {
class servers_tried;
class session;
}  // namespace detail

using statement = sql::statement;

/// The rows of a statement, one by one as they come; `stream` returns when the first has. The
/// connection can be used again when all of them have been read. A cursor that ends earlier takes
/// the connection with it, unless the end had already come.
using cursor = sql::cursor;

/// One connection. Used by one thread or coroutine at a time, one operation at a time: those of
/// sql::connection. A second one throws std::logic_error.
///
/// Values go into a statement only as parameters: `$1`, `$2`. The server infers their types; where
/// it cannot, say so in the statement: `$1::int8`. Results: bool, int2, int4, int8 and oid, float4
/// and float8, and bytea come as what they are, everything else as text.
///
/// An operation that ends early (a deadline, a cancelled or destroyed coroutine) leaves a
/// connection that cannot be used any more; the server is asked to stop working on it. What came of
/// the statement is not known.
///
/// Errors: statement_error with its SQLSTATE for what the server would not do; connection_error if
/// the connection is lost. std::invalid_argument for text with a zero byte, which PostgreSQL does
/// not know: bind bytes. COPY is not offered: such a statement breaks the connection.
///
/// A transaction that has failed and waits for its ROLLBACK is one, too (in_transaction).
class connection : public sql::connection {
public:
    connection(connection&&) noexcept;
    // These end the session: a cursor may still have it, but there is no lease for it any more.
    connection& operator=(connection&&) noexcept;
    ~connection();

    /// libpq's handle, for what is not offered here. It does not block (PQsetnonblocking). Leave it
    /// idle: in the middle of a query or a COPY have the lease discarded. As the first thing in a
    /// lease it may have to wait for the reset of the session (reset_mode::with_next), and throw as
    /// a statement does; then, on an event loop, await it.
    pg_conn* native_handle() const;
    boost::asio::awaitable<pg_conn*> async_native_handle() const;

    /// For the rest of the lease: the server refuses to write. Does nothing behind PgBouncer in
    /// transaction mode, where there is no session that could be set.
    void only_read();
    boost::asio::awaitable<void> async_only_read();

private:
    friend class connector;
    friend class async_connector;
    explicit connection(std::shared_ptr<detail::session> s) noexcept;

    detail::session& own() const;
    void end() noexcept;
};

/// Opens connections, for a pool that has threads:
///
///     cenote::pool<cenote::postgres::connection> pool{
///         cenote::postgres::connector{"postgresql://app:secret@db.example.com/orders"}, {}};
///
/// A connection that was used is reset before anybody else's first statement: a transaction is
/// rolled back, and DISCARD ALL ends whatever the session carried; see reset_mode. One that was not
/// used costs a look at its socket.
class connector {
public:
    /// Throws std::invalid_argument for options that cannot be meant.
    explicit connector(options settings);
    explicit connector(std::string_view url) : connector(options::from_url(url)) {}

    connection open();
    /// False: it is not the kind of server that was asked for (any more).
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
    std::shared_ptr<detail::servers_tried> known_;
};

/// The same for a pool on an executor. Nothing blocks: names are looked up on work threads.
class async_connector {
public:
    explicit async_connector(options settings) : blocking_(std::move(settings)) {}
    explicit async_connector(std::string_view url) : blocking_(url) {}

    boost::asio::awaitable<connection> open();
    boost::asio::awaitable<bool> probe(connection& c);
    boost::asio::awaitable<void> reset(connection& c);
    void close(connection& c) noexcept { blocking_.close(c); }
    bool before_acquire(connection& c) noexcept { return blocking_.before_acquire(c); }
    verdict before_release(connection& c) noexcept { return blocking_.before_release(c); }
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    void forsake(connection& c) noexcept { blocking_.forsake(c); }

private:
    connector blocking_;
};

}  // namespace cenote::postgres
