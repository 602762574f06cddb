// A connection to an SQL database of any kind: statements, prepared statements and cursors,
// blocking and awaited.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/detail/complete_with.hpp"
#include "cenote/sql.hpp"
#include "cenote/sql_many.hpp"
#include "cenote/sql_rows.hpp"

namespace cenote::sql {

/// What one lease of a connection sets in the session: see connection::use.
struct lease_setup {
    /// Default empty: the role of the connector's options. The role in which all statements run.
    std::string role = {};

    /// Default none. Settings by name, in this order: run-time parameters of PostgreSQL, session
    /// and user variables of MariaDB, pragmas of SQLite.
    std::vector<std::pair<std::string, std::string>> settings = {};

    /// Default: the server's. The server stops a statement that takes longer, with an error.
    std::optional<std::chrono::nanoseconds> statement_timeout = std::nullopt;
};

namespace detail {

class session;

/// The rows of one statement, read by their connector. An awaited read keeps this object alive.
class rows {
public:
    rows() = default;
    rows(const rows&) = delete;
    rows& operator=(const rows&) = delete;
    virtual ~rows() = default;

    /// The next row; empty after the last one.
    virtual std::optional<row> next() = 0;
    virtual boost::asio::awaitable<std::optional<row>> async_next() = 0;
    /// Gives the next row to a sink, which has begun with the columns before, also if there is no
    /// row. False after the last one. What the sink refers to is valid until the next row.
    virtual bool next_into(row_sink& to) = 0;
    virtual boost::asio::awaitable<bool> async_next_into(std::shared_ptr<row_sink> to) = 0;
};

}  // namespace detail

/// A prepared statement: the server has parsed it, and each run only sends the values.
///
///     cenote::sql::statement insert = c.prepare("INSERT INTO visit(page) VALUES ($1)");
///     for (const std::string& page : pages) c.execute(insert, page);
///
/// It belongs to the connection and the lease in which it was prepared. On another connection, or
/// in a later lease, it throws std::logic_error. To keep statements prepared across leases, set the
/// option statement_cache of the connector instead. Cheap to copy; the copies are the same
/// statement.
class statement {
public:
    /// Belongs to no connection: its use throws std::logic_error.
    statement() = default;

private:
    friend class detail::session;
    statement(std::size_t number, std::uint64_t generation) noexcept
        : number_(number), generation_(generation) {}

    std::size_t number_ = 0;
    std::uint64_t generation_ = 0;
};

/// The rows of a statement, read one by one, for results that are too large for memory. Memory
/// holds one row, or a few.
///
///     cenote::sql::cursor rows = c.stream("SELECT id, name FROM customer");
///     while (auto row = rows.next()) export_customer(row->get<std::int64_t>("id"));
///
/// Until the last row was read, PostgreSQL and MariaDB accept no other statement on the connection.
/// What a cursor that ends earlier means for its connection differs: see `cursor` of each server. A
/// cursor that is moved from has no rows.
///
/// Throws: see `connection`.
///
/// Thread safety: one thread or coroutine at a time, together with its connection.
class cursor {
public:
    /// Without rows.
    cursor() = default;
    cursor(cursor&&) noexcept = default;
    cursor& operator=(cursor&&) noexcept = default;
    ~cursor() = default;

    /// The next row; empty after the last one. Waits for the server. Throws like execute, since the
    /// server may meet an error after it has sent the first rows.
    std::optional<row> next() { return rows_ == nullptr ? std::nullopt : rows_->next(); }
    /// Like next. Returns an awaitable, or takes a completion token whose handler gets
    /// (std::exception_ptr, std::optional<row>).
    ///
    ///     while (auto row = co_await rows.async_next())
    ///         export_customer(row->get<std::int64_t>("id"));
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_next(Token&& token = {}) {
        return detail::complete_with(awaited_next(), std::forward<Token>(token));
    }

    /// For connectors.
    explicit cursor(std::shared_ptr<detail::rows> rows) noexcept : rows_(std::move(rows)) {}
    /// For connectors. Null if it has no rows.
    const std::shared_ptr<detail::rows>& rows() const noexcept { return rows_; }

private:
    boost::asio::awaitable<std::optional<row>> awaited_next();

    std::shared_ptr<detail::rows> rows_;
};

/// The rows of a statement as a T each, read one by one; see cursor, and connection::query_as for
/// what a T can be. Here it may also contain std::string_view and std::span<const std::byte>, which
/// are valid until the next row is read.
///
///     auto rows = c.stream_as<account>("SELECT id, owner FROM account");
///     while (std::optional<account> each = rows.next()) export_customer(each->id);
///
/// Thread safety: one thread or coroutine at a time, together with its connection.
template <class T>
class cursor_of {
public:
    /// Without rows.
    cursor_of() = default;
    cursor_of(cursor_of&&) noexcept = default;
    cursor_of& operator=(cursor_of&&) noexcept = default;
    ~cursor_of() = default;

    /// The next row; empty after the last one. Throws what cursor::next throws, and bad_value if
    /// the columns or a value do not fit; the rows after that one can still be read.
    std::optional<T> next() {
        if (rows_ == nullptr) return std::nullopt;
        rows_->next_into(*row_);
        return row_->take();
    }
    /// Like next. Returns an awaitable, or takes a completion token whose handler gets
    /// (std::exception_ptr, std::optional<T>).
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_next(Token&& token = {}) {
        return detail::complete_with(awaited_next(rows_, row_), std::forward<Token>(token));
    }

    /// For use by the library: the rows of a cursor.
    explicit cursor_of(const cursor& of) : rows_(of.rows()) {}

private:
    static boost::asio::awaitable<std::optional<T>> awaited_next(
        std::shared_ptr<detail::rows> from, std::shared_ptr<detail::one_row<T>> to) {
        if (from == nullptr) co_return std::nullopt;
        co_await from->async_next_into(to);
        co_return to->take();
    }

    std::shared_ptr<detail::rows> rows_;
    std::shared_ptr<detail::one_row<T>> row_ = std::make_shared<detail::one_row<T>>();
};

namespace detail {

/// Runs a statement and gives the rows as a T each. `run`: an awaitable that fills the sink.
template <class T>
boost::asio::awaitable<std::vector<T>> async_take_all(boost::asio::awaitable<void> run,
                                                      std::shared_ptr<all_rows<T>> to) {
    co_await std::move(run);
    co_return to->take();
}

template <class T>
boost::asio::awaitable<cursor_of<T>> async_stream_of(boost::asio::awaitable<cursor> begins) {
    cursor begun = co_await std::move(begins);
    co_return cursor_of<T>(begun);
}

}  // namespace detail

namespace detail {

/// The state of a connection, implemented by its connector. Awaited operations keep it alive, since
/// the connection may move or end meanwhile.
class session {
public:
    session() = default;
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    virtual ~session() = default;

    // Each throws what sql::connection says of its operation of this name.

    virtual result execute(std::string_view text, std::span<const parameter> parameters) = 0;
    virtual boost::asio::awaitable<result> async_execute(bound_statement what) = 0;
    virtual statement prepare(std::string_view text) = 0;
    virtual boost::asio::awaitable<statement> async_prepare(std::string text) = 0;
    virtual result execute(const statement& prepared, std::span<const parameter> parameters) = 0;
    /// Uses only the parameters of `what`.
    virtual boost::asio::awaitable<result> async_execute(statement prepared,
                                                         bound_statement what) = 0;
    virtual cursor stream(std::string_view text, std::span<const parameter> parameters) = 0;
    virtual boost::asio::awaitable<cursor> async_stream(bound_statement what) = 0;
    /// Returns how many rows were affected.
    virtual std::uint64_t execute_many(std::string_view text, value_source& rows,
                                       const many_options& how) = 0;
    virtual boost::asio::awaitable<std::uint64_t> async_execute_many(
        std::string text, std::shared_ptr<value_source> rows, many_options how) = 0;
    virtual std::vector<result> execute_batch(std::span<const bound_statement> all,
                                              const many_options& how) = 0;
    virtual boost::asio::awaitable<std::vector<result>> async_execute_batch(
        std::shared_ptr<const batch> all, many_options how) = 0;
    // For servers that have COPY. The others throw.
    virtual sql::copy_in copy_in(std::string_view text);
    virtual boost::asio::awaitable<sql::copy_in> async_copy_in(std::string text);
    virtual sql::copy_out copy_out(std::string_view text);
    virtual boost::asio::awaitable<sql::copy_out> async_copy_out(std::string text);
    // Like execute. The sink keeps its exceptions.
    virtual void execute_into(std::string_view text, std::span<const parameter> parameters,
                              row_sink& to) = 0;
    virtual boost::asio::awaitable<void> async_execute_into(bound_statement what,
                                                            std::shared_ptr<row_sink> to) = 0;
    virtual void execute_into(const statement& prepared, std::span<const parameter> parameters,
                              row_sink& to) = 0;
    virtual boost::asio::awaitable<void> async_execute_into(statement prepared,
                                                            bound_statement what,
                                                            std::shared_ptr<row_sink> to) = 0;

    /// Until the lease ends.
    virtual void set_timeout(std::chrono::nanoseconds timeout) = 0;
    virtual void use(std::shared_ptr<const lease_setup> setup);
    /// As far as the server has reported.
    virtual bool in_transaction() const = 0;
    /// Whether it is in a transaction that can only be rolled back.
    virtual bool transaction_failed() const noexcept { return false; }
    /// Whether all further operations would fail.
    virtual bool broken() const noexcept = 0;

    /// The handle of the statement with this number.
    statement named(std::size_t number) const noexcept { return {number, generation_}; }
    /// Empty if the statement belongs to another connection or has ended.
    std::optional<std::size_t> number_of(const statement& s) const noexcept {
        if (s.generation_ != generation_) return std::nullopt;
        return s.number_;
    }
    /// Ends all prepared statements.
    void end_statements() noexcept { generation_ = new_generation(); }

private:
    /// Unique among all sessions of the process.
    static std::uint64_t new_generation() noexcept;

    std::uint64_t generation_ = new_generation();
};

}  // namespace detail

/// A connection to an SQL database of any kind. The connection of each server derives from it;
/// pools hold that one. A function that takes this type works with every server:
///
///     std::int64_t count(cenote::sql::connection& c) {
///         return c.execute("SELECT count(*) FROM orders").scalar<std::int64_t>();
///     }
///
/// Values go into a statement only as parameters. Their placeholders are the server's own: `$1`
/// with PostgreSQL, `?` with SQLite and MariaDB. (cenote::database understands both everywhere.)
///
/// The functions that begin with async_ return an awaitable, which runs on the executor of the
/// coroutine that awaits it. They copy the text and the values:
///
///     boost::asio::awaitable<std::int64_t> async_count(cenote::sql::connection& c) {
///         cenote::sql::result found = co_await c.async_execute("SELECT count(*) FROM orders");
///         co_return found.scalar<std::int64_t>();
///     }
///
/// Throws: statement_error if the server refuses the statement, after which the connection remains
/// usable; connection_error if the connection was lost or closed; exchange_timeout if the server
/// did not answer within the connector's operation_timeout, after which the connection is broken
/// (SQLite throws statement_error instead and remains usable); std::invalid_argument for text that
/// the server cannot represent. See the `connection` of each server for details.
///
/// An awaited operation that is canceled (terminally) throws, and leaves a broken connection: the
/// outcome of its statement is unknown. (SQLite stops the statement and remains usable.)
///
/// Thread safety: one thread or coroutine at a time, one operation at a time.
class connection {
public:
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    /// Runs one statement with these values, and returns all its rows. Waits for the server, at
    /// most for operation_timeout.
    ///
    ///     c.execute("UPDATE customer SET city = $1 WHERE id = $2", city, id);
    template <class... Args>
    result execute(std::string_view statement_text, const Args&... args) {
        auto bound = sql::bind(args...);
        return execute_bound(statement_text, bound);
    }
    template <class... Args>
    boost::asio::awaitable<result> async_execute(std::string_view statement_text,
                                                 const Args&... args) {
        auto bound = sql::bind(args...);
        return async_execute_bound(bound_statement(statement_text, bound));
    }

    /// Prepares a statement for several runs in this lease. Costs a round trip, and saves the
    /// server the parsing of each run. Throws like execute, for instance for a syntax error.
    statement prepare(std::string_view statement_text) { return own().prepare(statement_text); }
    boost::asio::awaitable<statement> async_prepare(std::string_view statement_text) {
        return own().async_prepare(std::string(statement_text));
    }

    /// Runs a prepared statement with these values. Throws like execute with a text, and
    /// std::logic_error if the statement belongs to another connection or to an earlier lease.
    template <class... Args>
    result execute(const statement& prepared, const Args&... args) {
        auto bound = sql::bind(args...);
        return own().execute(prepared, bound);
    }
    template <class... Args>
    boost::asio::awaitable<result> async_execute(const statement& prepared, const Args&... args) {
        auto bound = sql::bind(args...);
        return own().async_execute(prepared, bound_statement({}, bound));
    }

    /// Runs one statement with these values, and returns its rows one by one; see cursor. Returns
    /// when the server has begun to answer. operation_timeout applies to each row.
    ///
    ///     cenote::sql::cursor rows = c.stream("SELECT id FROM visit WHERE day = $1", day);
    template <class... Args>
    cursor stream(std::string_view statement_text, const Args&... args) {
        auto bound = sql::bind(args...);
        return own().stream(statement_text, bound);
    }
    template <class... Args>
    boost::asio::awaitable<cursor> async_stream(std::string_view statement_text,
                                                const Args&... args) {
        auto bound = sql::bind(args...);
        return own().async_stream(bound_statement(statement_text, bound));
    }

    /// Runs one statement for each row of a range, with few round trips. A row is a tuple of
    /// values, a list of values or parameters, or a single value. Returns how many rows of tables
    /// were affected; rows that the statement returns are dropped, and MariaDB refuses such a
    /// statement. Throws batch_error with the index of a row that the server refuses, and what the
    /// range throws: then as if that row was refused. operation_timeout applies to each chunk.
    ///
    ///     std::vector<std::tuple<int, std::string>> rows{{1, "Ada"}, {2, "Grace"}};
    ///     c.execute_many("INSERT INTO customer (id, name) VALUES ($1, $2)", rows);
    template <class Rows>
    std::uint64_t execute_many(std::string_view statement_text, Rows&& rows,
                               const many_options& how = {}) {
        detail::range_source<Rows> all(std::forward<Rows>(rows));
        return own().execute_many(statement_text, all, how);
    }
    /// Like execute_many. A range that is an lvalue must live until the end.
    template <class Rows>
    boost::asio::awaitable<std::uint64_t> async_execute_many(std::string_view statement_text,
                                                             Rows&& rows,
                                                             const many_options& how = {}) {
        return own().async_execute_many(
            std::string(statement_text),
            std::make_shared<detail::range_source<Rows>>(std::forward<Rows>(rows)), how);
    }

    /// Runs all statements of a batch: with PostgreSQL in one round trip. Returns their results.
    /// Throws batch_error with the index of a statement that the server refuses.
    std::vector<result> execute(const batch& all, const many_options& how = {}) {
        return own().execute_batch(all.statements(), how);
    }
    boost::asio::awaitable<std::vector<result>> async_execute(batch all,
                                                              const many_options& how = {}) {
        return own().async_execute_batch(std::make_shared<const batch>(std::move(all)), how);
    }

    /// Begins a COPY … FROM STDIN; see sql::copy_in. PostgreSQL only: others throw statement_error.
    /// operation_timeout applies to each call.
    sql::copy_in copy_in(std::string_view statement_text) { return own().copy_in(statement_text); }
    boost::asio::awaitable<sql::copy_in> async_copy_in(std::string_view statement_text) {
        return own().async_copy_in(std::string(statement_text));
    }
    /// Begins a COPY … TO STDOUT; see sql::copy_out.
    sql::copy_out copy_out(std::string_view statement_text) {
        return own().copy_out(statement_text);
    }
    boost::asio::awaitable<sql::copy_out> async_copy_out(std::string_view statement_text) {
        return own().async_copy_out(std::string(statement_text));
    }

    /// Like execute, with each row as a T: faster than an sql::result, and checked once for all
    /// rows. See docs/guide/rows.md. A T can be
    /// - an aggregate: its fields are the columns in this order, or, if it has a
    ///   `static constexpr std::array column_names{"id", "owner"};`, the columns of these names;
    /// - a class for which cenote::sql::columns is specialized;
    /// - a std::tuple or std::pair: the columns in this order;
    /// - a single value, for which there is a codec.
    ///
    /// Throws bad_value if a column is missing, occurs twice or has no field, even without rows,
    /// and if a value does not fit; the statement has run then.
    ///
    ///     struct account { std::int64_t id; std::string owner; std::optional<std::string> city; };
    ///     for (account& each : c.query_as<account>("SELECT id, owner, city FROM account"))
    ///         use(each);
    template <class T, class... Args>
    std::vector<T> query_as(std::string_view statement_text, const Args&... args) {
        auto bound = sql::bind(args...);
        detail::all_rows<T> rows;
        own().execute_into(statement_text, bound, rows);
        return rows.take();
    }
    template <class T, class... Args>
    boost::asio::awaitable<std::vector<T>> async_query_as(std::string_view statement_text,
                                                          const Args&... args) {
        auto bound = sql::bind(args...);
        auto rows = std::make_shared<detail::all_rows<T>>();
        return detail::async_take_all<T>(
            own().async_execute_into(bound_statement(statement_text, bound), rows), rows);
    }
    template <class T, class... Args>
    std::vector<T> query_as(const statement& prepared, const Args&... args) {
        auto bound = sql::bind(args...);
        detail::all_rows<T> rows;
        own().execute_into(prepared, bound, rows);
        return rows.take();
    }
    template <class T, class... Args>
    boost::asio::awaitable<std::vector<T>> async_query_as(const statement& prepared,
                                                          const Args&... args) {
        auto bound = sql::bind(args...);
        auto rows = std::make_shared<detail::all_rows<T>>();
        return detail::async_take_all<T>(
            own().async_execute_into(prepared, bound_statement({}, bound), rows), rows);
    }

    /// Like stream, with each row as a T; see query_as. A T may contain std::string_view and
    /// std::span<const std::byte>, which are valid until the next row is read.
    template <class T, class... Args>
    cursor_of<T> stream_as(std::string_view statement_text, const Args&... args) {
        return cursor_of<T>(stream(statement_text, args...));
    }
    template <class T, class... Args>
    boost::asio::awaitable<cursor_of<T>> async_stream_as(std::string_view statement_text,
                                                         const Args&... args) {
        return detail::async_stream_of<T>(async_stream(statement_text, args...));
    }

    /// Replaces the connector's operation_timeout until the lease ends. For a statement that is
    /// known to take long, or that must not:
    ///
    ///     c.set_timeout(std::chrono::minutes(10));
    ///     c.execute("CREATE INDEX ON visit (day)");
    void set_timeout(std::chrono::nanoseconds timeout) { own().set_timeout(timeout); }

    /// Sets the role and settings of this lease. Call it before the first statement. Sends nothing:
    /// the first statement takes the setup along, and is not run if the server refuses it. Then the
    /// statement throws statement_error, and so does each later one until the setup succeeds. The
    /// reset after the lease undoes the setup. See docs/guide/tenants.md.
    ///
    /// Throws std::invalid_argument for names and values that this server cannot have, and
    /// std::logic_error in a transaction.
    void use(std::shared_ptr<const lease_setup> setup);

    /// Whether a transaction is open, as far as the server has reported. Does not ask the server.
    /// False if the connection was closed.
    bool in_transaction() const { return session_ != nullptr && session_->in_transaction(); }

    /// Whether the open transaction has failed, so that it can only be rolled back (PostgreSQL,
    /// after an error). Does not ask the server.
    bool transaction_failed() const noexcept {
        return session_ != nullptr && session_->transaction_failed();
    }

    /// Whether the connection was closed, lost, or left in the middle of an operation, so that
    /// every further operation throws. Does not ask the server. A pool closes a broken connection
    /// when its lease ends.
    bool broken() const noexcept { return session_ == nullptr || session_->broken(); }

    // For callers that have their parameters in a list, whose length is known at run time.

    /// Like execute:
    ///
    ///     std::vector<cenote::sql::parameter> values(ids.begin(), ids.end());
    ///     c.execute_bound(text_for(values.size()), values);
    result execute_bound(std::string_view text, std::span<const parameter> parameters) {
        return own().execute(text, parameters);
    }
    boost::asio::awaitable<result> async_execute_bound(bound_statement what) {
        return own().async_execute(std::move(what));
    }
    /// Like execute_many, for the library.
    std::uint64_t execute_many_of(std::string_view text, detail::value_source& rows,
                                  const many_options& how) {
        return own().execute_many(text, rows, how);
    }
    boost::asio::awaitable<std::uint64_t> async_execute_many_of(
        std::string text, std::shared_ptr<detail::value_source> rows, const many_options& how) {
        return own().async_execute_many(std::move(text), std::move(rows), how);
    }

    /// Like query_as, into a sink. What the sink has thrown is its own to rethrow.
    void execute_into(std::string_view text, std::span<const parameter> parameters, row_sink& to) {
        own().execute_into(text, parameters, to);
    }
    boost::asio::awaitable<void> async_execute_into(bound_statement what,
                                                    std::shared_ptr<row_sink> to) {
        return own().async_execute_into(std::move(what), std::move(to));
    }
    /// Like stream.
    cursor stream_bound(std::string_view text, std::span<const parameter> parameters) {
        return own().stream(text, parameters);
    }
    boost::asio::awaitable<cursor> async_stream_bound(bound_statement what) {
        return own().async_stream(std::move(what));
    }

protected:
    explicit connection(std::shared_ptr<detail::session> s) noexcept : session_(std::move(s)) {}
    // Protected: the session of one kind of server must not get into the connection of another.
    connection(connection&&) noexcept = default;
    connection& operator=(connection&&) noexcept = default;
    ~connection() = default;

    /// Throws connection_error if the connection was closed or moved from.
    detail::session& own() const {
        if (session_ == nullptr) refuse_closed();
        return *session_;
    }

    std::shared_ptr<detail::session> session_;

private:
    [[noreturn]] static void refuse_closed();
};

}  // namespace cenote::sql
