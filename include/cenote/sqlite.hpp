// Connections to SQLite databases, and the connectors that open them. Library cenote::sqlite.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/connector.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sql.hpp"

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
    bool foreign_keys = true;
    /// "wal", "delete", …; empty: as the file has it. `wal` lets readers and a writer work at once.
    std::string journal_mode = "wal";
    std::string synchronous;  ///< "off", "normal", "full", "extra"; empty: SQLite's default.
    std::optional<std::int64_t> cache_size;  ///< As the pragma: pages, or -kibibytes.
    /// Called once for each connection that was opened: registers functions, collations, further
    /// pragmas. What it throws is why the open failed.
    std::function<void(connection&)> on_open;

    /// `sqlite:/path/to/file?busy_timeout=2s&mode=ro`, `sqlite:orders?mode=memory`. Keys: mode
    /// (rwc, rw, ro, memory), busy_timeout, operation_timeout, foreign_keys, journal_mode,
    /// synchronous, cache_size. Throws invalid_url.
    static options from_url(std::string_view text);
};

namespace detail {
class session;
}  // namespace detail

/// A prepared statement of one connection. Ends with the lease it was made in.
class statement {
public:
    statement() = default;

private:
    friend class connection;
    statement(std::size_t number, std::uint64_t generation)
        : number_(number), generation_(generation) {}

    std::size_t number_ = 0;
    std::uint64_t generation_ = 0;
};

/// The rows of a statement, one by one. The connection can be used again when it has ended, or was
/// destroyed.
class cursor {
public:
    cursor(cursor&&) noexcept;
    cursor& operator=(cursor&&) noexcept;
    ~cursor();

    /// The next row; empty at the end.
    std::optional<sql::row> next();
    boost::asio::awaitable<std::optional<sql::row>> async_next();

private:
    friend class connection;
    struct state;
    explicit cursor(std::shared_ptr<state> s) noexcept;

    std::shared_ptr<state> state_;
};

/// One connection. Used by one thread or coroutine at a time, one operation at a time.
///
/// The awaited forms run on work threads of the library's, since SQLite blocks. Cancelled
/// (terminally), they stop at the next occasion and throw like a timeout.
///
/// Errors: statement_error with SQLite's extended code for what SQLite would not do; also for a
/// statement that took longer than its time (SQLITE_INTERRUPT) or met a lock (SQLITE_BUSY), since
/// the connection can be used on. connection_error for a broken file.
class connection {
public:
    connection(connection&&) noexcept;
    connection& operator=(connection&&) noexcept;
    ~connection();

    /// Runs one statement with its parameters bound to `?`, and returns all its rows.
    template <class... Args>
    sql::result execute(std::string_view statement_text, const Args&... args) {
        auto bound = sql::bind(args...);
        return execute_bound(statement_text, bound);
    }
    template <class... Args>
    boost::asio::awaitable<sql::result> async_execute(std::string_view statement_text,
                                                      const Args&... args) {
        auto bound = sql::bind(args...);
        return async_execute_bound(sql::bound_statement(statement_text, bound));
    }

    statement prepare(std::string_view statement_text);
    boost::asio::awaitable<statement> async_prepare(std::string_view statement_text);
    template <class... Args>
    sql::result execute(const statement& prepared, const Args&... args) {
        auto bound = sql::bind(args...);
        return execute_prepared(prepared, bound);
    }
    template <class... Args>
    boost::asio::awaitable<sql::result> async_execute(const statement& prepared,
                                                      const Args&... args) {
        auto bound = sql::bind(args...);
        return async_execute_prepared(prepared, sql::bound_statement({}, bound));
    }

    /// The same, row by row.
    template <class... Args>
    cursor stream(std::string_view statement_text, const Args&... args) {
        auto bound = sql::bind(args...);
        return stream_bound(sql::bound_statement(statement_text, bound));
    }
    template <class... Args>
    boost::asio::awaitable<cursor> async_stream(std::string_view statement_text,
                                                const Args&... args) {
        auto bound = sql::bind(args...);
        return async_stream_bound(sql::bound_statement(statement_text, bound));
    }

    /// For the rest of the lease, instead of operation_timeout.
    void set_timeout(std::chrono::nanoseconds timeout);
    bool in_transaction() const;
    /// For what is not offered here. What is done with it is not seen: if it leaves something
    /// behind in the session, have the lease discarded.
    sqlite3* native_handle() const;

    // For those who have their parameters in a list.
    sql::result execute_bound(std::string_view text, std::span<const sql::parameter> parameters);
    boost::asio::awaitable<sql::result> async_execute_bound(sql::bound_statement what);

private:
    friend class connector;
    friend class async_connector;
    explicit connection(std::shared_ptr<detail::session> s) noexcept;

    sql::result execute_prepared(const statement& prepared,
                                 std::span<const sql::parameter> parameters);
    boost::asio::awaitable<sql::result> async_execute_prepared(statement prepared,
                                                               sql::bound_statement what);
    cursor stream_bound(sql::bound_statement what);
    boost::asio::awaitable<cursor> async_stream_bound(sql::bound_statement what);

    std::shared_ptr<detail::session> session_;
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
