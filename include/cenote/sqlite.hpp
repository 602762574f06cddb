// Connections to SQLite databases, and the connectors that open them. Library cenote::sqlite.
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

enum class open_mode : std::uint8_t {
    create,      ///< Read and write; made if it is not there.
    read_write,  ///< Must be there.
    read_only,   ///< Must be there.
    memory,      ///< In memory, shared by all connections that use the same name in this process,
                 ///< and gone with the last of them: keep one open (`min_size`).
};

/// Where a database is and how its connections are set up.
struct options {
    std::string path;  ///< Of the file, or a name for `memory`.
    open_mode mode = open_mode::create;
    /// How long to wait for another connection's lock, within operation_timeout.
    std::chrono::milliseconds busy_timeout{5000};
    /// How long a statement may take.
    std::chrono::milliseconds operation_timeout{30'000};
    /// The memory that the rows of one statement may take, in bytes; a stream has no limit. More
    /// rows throw statement_error, and the connection remains usable; what the statement has
    /// changed remains changed. Raise it for large results that cannot be streamed.
    std::size_t max_reply_bytes = std::size_t{64} << 20U;
    bool foreign_keys = true;
    /// "wal", "delete", …; empty: as the file has it. `wal` lets readers and a writer work at once.
    std::string journal_mode = "wal";
    std::string synchronous;  ///< "off", "normal", "full", "extra"; empty: SQLite's default.
    std::optional<std::int64_t> cache_size;  ///< As the pragma: pages, or -kibibytes.
    /// How many statements each connection keeps compiled, the latest it has run. 0: none.
    std::size_t statement_cache = 0;
    /// Called once for each connection that was opened: registers functions, collations, further
    /// pragmas. What it throws is why the open failed.
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

using statement = sql::statement;

/// The rows of a statement, one by one. The connection can be used while it is read, and after it
/// was left.
using cursor = sql::cursor;

/// One connection. Used by one thread or coroutine at a time, one operation at a time: those of
/// sql::connection. Parameters are bound to `?`.
///
/// The awaited forms run on work threads of the library's, since SQLite blocks. Cancelled
/// (terminally), they stop at the next occasion and throw like a timeout.
///
/// Errors: statement_error with SQLite's extended code for what SQLite would not do; also for a
/// statement that took longer than its time (SQLITE_INTERRUPT) or met a lock (SQLITE_BUSY), since
/// the connection can be used on. connection_error for a broken file.
class connection : public sql::connection {
public:
    /// For what is not offered here. What is done with it is not seen: if it leaves something
    /// behind in the session, have the lease discarded.
    sqlite3* native_handle() const;

    /// For the rest of the lease, or until it is taken back: statements that would write throw.
    /// Temporary tables can be written.
    void only_read(bool on = true) noexcept;

private:
    friend class connector;
    friend class async_connector;
    explicit connection(std::shared_ptr<detail::session> s) noexcept;

    detail::session& own() const;
};

/// Opens connections, for a pool that has threads:
///
///     cenote::pool<cenote::sqlite::connection> pool{
///         cenote::sqlite::connector{"sqlite:/var/lib/orders.db"}, {.max = 8}};
///
/// A connection that comes back in a transaction is rolled back. What else a lease left in the
/// session is undone: attached databases, temporary tables, triggers and views, pragmas, prepared
/// statements. A lease that left nothing costs nothing. Whoever sets a pragma that cannot be set
/// back loses the connection.
class connector {
public:
    /// Throws std::invalid_argument for a private database in memory, which each connection would
    /// have for itself.
    explicit connector(options settings);
    explicit connector(std::string_view url) : connector(options::from_url(url)) {}

    connection open();
    bool probe(connection& c);
    void reset(connection& c);
    void close(connection& c);
    verdict before_release(connection& c) noexcept;
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    void forsake(connection& c) noexcept;

private:
    friend class async_connector;
    std::shared_ptr<const options> settings_;
    std::shared_ptr<detail::writers_line> line_;
};

/// The same for a pool on an executor. What blocks runs on work threads.
class async_connector {
public:
    explicit async_connector(options settings) : blocking_(std::move(settings)) {}
    explicit async_connector(std::string_view url) : blocking_(url) {}

    boost::asio::awaitable<connection> open();
    boost::asio::awaitable<bool> probe(connection& c);
    boost::asio::awaitable<void> reset(connection& c);
    boost::asio::awaitable<void> close(connection& c);
    verdict before_release(connection& c) noexcept { return blocking_.before_release(c); }
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    void forsake(connection& c) noexcept { blocking_.forsake(c); }

private:
    connector blocking_;
};

}  // namespace cenote::sqlite
