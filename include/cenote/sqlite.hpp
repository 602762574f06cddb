// Connections to SQLite databases, and the connectors that open them. Library cenote::sqlite.
//
//     cenote::sqlite::connector orders{"sqlite:/var/lib/app/orders.db"};
//     cenote::pool<cenote::sqlite::connection> pool{orders, {.max = 8}};
//     auto lease = pool.acquire();
//     lease->execute("INSERT INTO orders(customer, total) VALUES (?, ?)", 42, 9.5);
//
// docs/guide/sqlite.md explains how writers wait for each other.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cenote/connector.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sql_connection.hpp"

struct sqlite3;

namespace cenote::sqlite {

class connection;

/// How the file of a database is opened.
enum class open_mode : std::uint8_t {
    create,      ///< Reads and writes; creates the file if it does not exist.
    read_write,  ///< The file must exist.
    read_only,   ///< The file must exist.
    /// In memory, shared by all connections of the process with the same name. The database ends
    /// with the last of them: set the pool's min_size to 1.
    memory,
};

/// Where a database is, and how its connections are set up.
struct options {
    /// Required: the path of the file, or a name for open_mode::memory.
    std::string path;
    open_mode mode = open_mode::create;
    /// Default 5 s. How long a statement waits for another connection's lock, within
    /// operation_timeout. After that it throws statement_error (SQLITE_BUSY). Raise it if writes
    /// take long.
    std::chrono::milliseconds busy_timeout{5000};
    /// Default 30 s. How long a statement may take; of a cursor: until the next row. A longer
    /// statement throws statement_error (SQLITE_INTERRUPT); the connection remains usable.
    /// connection::set_timeout() changes it for one lease.
    std::chrono::milliseconds operation_timeout{30'000};
    /// Default 64 MiB. The memory that the rows of one statement may take, in bytes; a cursor has
    /// no limit. More rows throw statement_error: the connection remains usable, and what the
    /// statement has changed remains changed. Raise it for large results that cannot be read with a
    /// cursor.
    std::size_t max_reply_bytes = std::size_t{64} << 20U;
    /// Whether foreign keys are enforced. SQLite's own default is off.
    bool foreign_keys = true;
    /// Default "wal", with which readers and one writer work at the same time. "wal", "delete",
    /// "truncate", "persist", "memory" or "off"; empty: as the file has it. Choose another one for
    /// files on network file systems, which WAL does not support.
    std::string journal_mode = "wal";
    /// Default: SQLite's. "off", "normal", "full" or "extra". "normal" makes commits faster; with
    /// "wal" a power failure may then undo the last ones, but never damages the file.
    std::string synchronous;
    /// Default: SQLite's. As PRAGMA cache_size: pages, or kibibytes with a minus sign. Each
    /// connection has a cache of its own.
    std::optional<std::int64_t> cache_size;
    /// Default 0, none. How many statements each connection keeps compiled, the most recently used
    /// ones. Saves compiling them for each run; costs their memory.
    std::size_t statement_cache = 0;
    /// Default none. Called once for each new connection, before its first lease: registers
    /// functions and collations, sets pragmas, attaches databases, makes temporary tables. The open
    /// fails with what it throws.
    ///
    /// A reset returns to these pragmas, keeps these databases attached, and makes the temporary
    /// objects again with the same statements, so these must be repeatable; each open tries that.
    /// At most 64 KiB. A lease that detaches one of the databases costs the connection. Rows that a
    /// lease writes into an attached database stay. What is done by native_handle() is not
    /// repeated. It is called from several threads at once.
    std::function<void(connection&)> on_open;

    /// `sqlite:/path/to/file?busy_timeout=2s&mode=ro`, `sqlite:orders?mode=memory`. Keys: mode
    /// (rwc, rw, ro, memory), busy_timeout, operation_timeout, max_reply_bytes, foreign_keys,
    /// journal_mode, synchronous, cache_size, statement_cache. Throws invalid_url.
    static options from_url(std::string_view text);
};

namespace detail {
class session;
class writers_line;
}  // namespace detail

/// A statement and its parameters.
using statement = sql::statement;

/// The rows of a statement, one by one. The connection can be used while rows are left, and after
/// the cursor was destroyed early.
using cursor = sql::cursor;

/// One connection, with the operations of sql::connection, blocking and awaited. Awaited operations
/// run on work threads of the library, since SQLite blocks.
///
/// Parameters are bound to `?`. Values have SQLite's types: integer, floating point, text, bytes,
/// null.
///
/// Every operation throws
/// - statement_error with SQLite's extended code if SQLite refuses the statement. The connection
///   remains usable, also after a timeout, a lock that was not granted, and a cancellation
///   (terminal), which stops a running statement soon.
/// - connection_error if the file is damaged or cannot be accessed.
/// - std::logic_error if another operation is under way.
///
/// Thread safety: one thread or coroutine at a time, one operation at a time.
class connection : public sql::connection {
public:
    /// The handle of SQLite, for what is missing here. A reset does not undo what is done with it:
    /// if that changes the session, discard the lease. As the first operation of a lease with a
    /// setup it makes the setup, and throws as a statement does.
    sqlite3* native_handle() const;

    /// Until the lease ends, or only_read(false): statements that write throw statement_error
    /// (SQLITE_READONLY). Temporary tables may be written.
    void only_read(bool on = true) noexcept;

private:
    friend class connector;
    friend class async_connector;
    explicit connection(std::shared_ptr<detail::session> s) noexcept;

    detail::session& own() const;
};

/// Opens connections, for a pool with threads of its own. Connections of one connector, and of its
/// copies, that want to write wait for each other in order of arrival.
///
/// After a lease an open transaction is rolled back, and changes of the session are undone:
/// attached databases, temporary tables, triggers and views, pragmas, prepared statements. A lease
/// that has changed nothing costs no reset. A pragma that cannot be set back costs the connection.
///
/// Thread safety: may be used from several threads at once.
class connector {
public:
    /// Throws std::invalid_argument for inconsistent options, and for ":memory:", which would give
    /// each connection a database of its own.
    explicit connector(options settings);
    /// Throws invalid_url.
    explicit connector(std::string_view url) : connector(options::from_url(url)) {}

    /// Throws connection_error: transient or final. Throws what options::on_open throws.
    connection open();
    /// Reads from the file. Throws as a statement does.
    bool probe(connection& c);
    /// Throws as a statement does, and connection_error if a change cannot be undone.
    void reset(connection& c);
    void close(connection& c);
    verdict before_release(connection& c) noexcept;
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    /// The server, without user and secrets, for people.
    std::string endpoint() const;
    void forsake(connection& c) noexcept;

private:
    friend class async_connector;
    std::shared_ptr<const options> settings_;
    std::shared_ptr<detail::writers_line> line_;
};

/// As connector, for a pool on an executor. Calls of SQLite run on work threads; a coroutine that
/// waits for a lock occupies none.
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
    verdict before_release(connection& c) noexcept { return blocking_.before_release(c); }
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    std::string endpoint() const { return blocking_.endpoint(); }
    void forsake(connection& c) noexcept { blocking_.forsake(c); }

private:
    connector blocking_;
};

}  // namespace cenote::sqlite
