// A database as one object: runs statements and transactions from any thread or coroutine, and
// manages its connections itself. Library cenote::database.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/detail/database.hpp"
#include "cenote/listening.hpp"
#include "cenote/options.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sql.hpp"
#include "cenote/sql_connection.hpp"
#include "cenote/sql_many.hpp"
#include "cenote/stats.hpp"
#include "cenote/trace_context.hpp"

namespace cenote {

/// The transaction no longer exists: its connection was lost, or the server rolled it back after an
/// error. If the commit was in flight, the outcome is unknown.
class transaction_lost : public connection_error {
public:
    /// For use by the library.
    transaction_lost(const std::string& what, std::string_view sqlstate, bool maybe_committed)
        : connection_error(error_kind::connection, what, sqlstate),
          maybe_committed_(maybe_committed) {}

    /// True if the commit was in flight: the transaction may or may not have been committed.
    bool maybe_committed() const noexcept { return maybe_committed_; }

private:
    bool maybe_committed_;
};

/// The connection of a scope was lost, including its session state: a role, a lock, a temporary
/// table. Every later statement of the scope also throws session_lost.
class session_lost : public connection_error {
public:
    using connection_error::connection_error;
};

/// Isolation from concurrent transactions.
enum class isolation : std::uint8_t {
    server_default,   ///< The server's configuration decides.
    read_committed,   ///< With SQLite: serializable, its only level.
    repeatable_read,  ///< With SQLite: serializable.
    serializable,     ///< The strictest level of the SQL standard.
};

/// Options of one transaction.
struct transaction_options {
    /// Default: the server's. The isolation level. Raise it if concurrent transactions must not see
    /// each other's changes. Higher levels cost more conflicts: also set `retries`.
    cenote::isolation isolation = isolation::server_default;

    /// Default false. If true, statements that write throw statement_error, and a transaction of a
    /// database with replicas runs on a replica, or on the primary if no replica can be reached. An
    /// SQLite transaction then takes no write lock, so it neither waits for writers nor blocks
    /// them.
    bool read_only = false;

    /// Default 0: the caller gets the error. How many times transaction(work) runs `work` again
    /// after a conflict with another transaction: a serialization failure or a deadlock. Set it if
    /// conflicts are expected. `work` must be safe to run more than once: its statements are rolled
    /// back, its other effects are not.
    std::size_t retries = 0;

    /// Default 10 ms. The pause before the first retry. The pause doubles with each retry, up to
    /// 1 s, and is shortened at random by up to 50 %. Raise it if many callers conflict repeatedly.
    std::chrono::milliseconds backoff{10};
};

/// Options of a database.
struct database_options {
    /// Default: see cenote::options. The options of the connection pool, or of each pool if the
    /// database has replicas: its size, its timeouts, its observers.
    options pool = {};

    /// Default 100. Maximum number of prepared statements that each connection keeps; the least
    /// recently used one is dropped first. 0 keeps none. The server does not parse a cached
    /// statement again, but uses memory for it. With MariaDB, a reset drops the cached statements.
    /// With PostgreSQL, a reset keeps them, but that costs more than parsing a simple statement:
    /// set 0 if all statements are simple. Overrides the connector's `statement_cache`.
    std::size_t statement_cache = 100;

    /// Default false: a connection is reset after every use. If true, a PostgreSQL or MariaDB
    /// connection is reset after a statement or transaction outside of a scope only if the server
    /// reports a session change (SET, a temporary table). Short statements then take 33 to 50 % of
    /// the usual time.
    ///
    /// Unreported changes are settings or locks made by a function in a SELECT, user variables, and
    /// GET_LOCK. Set this option only if no statement outside a scope makes one: the next user of
    /// the connection would find that change. Scopes are reset in any case. SQLite reports every
    /// change.
    bool trust_statements = false;

    /// Default false. If true, the statements of a sampled trace (use_options::trace,
    /// acquire_options::trace) end with its traceparent as an SQL comment. The server shows it in
    /// its logs and its list of sessions. Set it to find the statements of a request at the server.
    /// BEGIN, COMMIT and savepoints get no comment, nor do statements with SQLite, which has no
    /// server.
    ///
    /// Costs the statement cache for these statements: the server parses each of them, because each
    /// has another text. They are not kept and displace no kept statement. Statements without a
    /// sampled trace run as before. docs/guide/traces.md shows a way that keeps the cache.
    bool trace_comments = false;

    /// Default none. Sets up each new connection, before its first use, by statements that it runs
    /// with execute or query_as: for settings that the URL cannot express, temporary tables, a
    /// role. They take effect again after each reset, and must be repeatable; each new connection
    /// tries that. With placeholders of the server. A connection whose function throws is not used.
    /// For all other rules, the awaited form and the cost, see `on_open` in the options of the
    /// server; that one must then not be set. It is called from several threads at once.
    ///
    ///     cenote::database db(url, {.on_open = [](cenote::sql::connection& c) {
    ///         c.execute("SELECT set_config('app.instance', $1, false)", instance_name());
    ///     }});
    std::function<void(sql::connection&)> on_open = nullptr;
};

/// A setting of a session, by name.
struct setting {
    std::string_view name;   ///< For example `app.tenant`, `@tenant` or `busy_timeout`.
    std::string_view value;  ///< As text.
};

/// Options of database::with: what each connection that the view takes is set up with, and how it
/// is acquired. The view copies the texts.
struct use_options {
    /// Default empty: the role of the database. The role in which statements run. Not with SQLite,
    /// and not behind a pooler such as PgBouncer.
    std::string_view role = {};

    /// Default none. Settings of the session: run-time parameters of PostgreSQL, session and user
    /// variables of MariaDB, pragmas of SQLite.
    std::initializer_list<setting> settings = {};

    /// Default: see acquire_options::timeout.
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt;

    /// Default: the server's. The server stops a statement that takes longer, with
    /// statement_error. Raises the connector's `operation_timeout` if that is shorter.
    std::optional<std::chrono::nanoseconds> statement_timeout = std::nullopt;

    /// Default: see acquire_options::deadline.
    std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt;

    /// Default: see acquire_options::stop.
    stop_reference stop = {};

    /// Default: see acquire_options::priority.
    cenote::priority priority = cenote::priority::normal;

    /// Default: see acquire_options::queue.
    bool queue = true;

    /// Default: see acquire_options::task.
    const char* task = nullptr;

    /// Default: see acquire_options::leak_after.
    std::optional<std::chrono::nanoseconds> leak_after = std::nullopt;

    /// Default none. More settings, for a list whose length is known at run time.
    std::span<const setting> setting_list = {};

    /// Default: see acquire_options::trace. See also database_options::trace_comments.
    trace_context trace = {};
};

/// The text of a statement, and the place in the program where it was passed. Converts implicitly
/// from anything that a std::string_view can be made from, and does not copy the text. The
/// functions that take it are variadic, so they cannot have a source_location as their last
/// parameter.
class statement_text {
public:
    /// The text must live until the statement has run.
    template <class Text>
        requires std::convertible_to<const Text&, std::string_view>
    statement_text(const Text& text, std::source_location at = std::source_location::current())
        : text_(text), at_(at) {}

    /// The text of the statement.
    std::string_view text() const noexcept { return text_; }
    /// The place in the program that passed it.
    const std::source_location& at() const noexcept { return at_; }

private:
    std::string_view text_;
    std::source_location at_;
};

// g++ 12 runs non-trivial destructors of temporaries twice in an expression with co_await.
static_assert(std::is_trivially_destructible_v<statement_text>);
static_assert(std::is_trivially_destructible_v<acquire_options>);
static_assert(std::is_trivially_destructible_v<use_options>);

/// Marks a statement that is safe to run more than once: it only reads, or a second run has no
/// further effect. If its connection is lost, it runs again on another one, at most three times in
/// total. It does not run again in a transaction, in a scope that relies on its session
/// (scope_options::keeps_session), or after a timeout.
struct idempotent_t {};
inline constexpr idempotent_t idempotent{};

/// Runs statements. Base of databases, scopes and transactions.
///
/// Values go into a statement only as parameters. Write placeholders as `?`, or as `$1`, `$2` in
/// any order; do not mix them. cenote translates both for every server. Some PostgreSQL operators
/// contain a question mark: use `$1` in such a statement, or write `??` for each literal question
/// mark.
///
/// The functions that begin with async_ return an awaitable, or take a completion token as their
/// last argument. The handler of a token receives (std::exception_ptr, result).
///
/// Throws:
/// - pool_error if no connection was obtained;
/// - statement_error if the server refuses the statement;
/// - connection_error if the connection was lost; the outcome of the statement is then unknown.
///   Outside of a scope, the next statement uses another connection;
/// - sql::bad_value for values of the wrong type;
/// - std::invalid_argument if placeholders and parameters do not match;
/// - std::logic_error in a scope or transaction that cannot run a statement now.
class statements {
public:
    /// Runs one statement with these values, and returns all its rows. Waits for a connection if
    /// none is idle, then for the server.
    ///
    ///     db.execute("UPDATE customer SET city = ? WHERE id = ?", city, id);
    template <class... Args>
    sql::result execute(statement_text text, const Args&... args) {
        auto values = sql::bind(args...);
        return executor_->execute(text.text(), values, call_of(text, false));
    }
    template <class... Args>
    auto async_execute(statement_text text, Args&&... args) {
        return start(&database_detail::executor::async_execute, call_of(text, false), text,
                     std::forward<Args>(args)...);
    }

    /// Runs a statement that is safe to run more than once; see `idempotent_t`.
    ///
    ///     db.execute(cenote::idempotent, "DELETE FROM visit WHERE id = ?", id);
    template <class... Args>
    sql::result execute(idempotent_t, statement_text text, const Args&... args) {
        auto values = sql::bind(args...);
        return executor_->execute(text.text(), values, call_of(text, true));
    }
    template <class... Args>
    auto async_execute(idempotent_t, statement_text text, Args&&... args) {
        return start(&database_detail::executor::async_execute, call_of(text, true), text,
                     std::forward<Args>(args)...);
    }

    /// Same as execute; reads better for SELECT.
    ///
    ///     for (auto [id, name] : db.query("SELECT id, name FROM customer WHERE city = ?", city)
    ///                                .as<std::int64_t, std::string>())
    template <class... Args>
    sql::result query(statement_text text, const Args&... args) {
        return execute(text, args...);
    }
    template <class... Args>
    sql::result query(idempotent_t, statement_text text, const Args&... args) {
        return execute(idempotent, text, args...);
    }
    template <class... Args>
    auto async_query(statement_text text, Args&&... args) {
        return async_execute(text, std::forward<Args>(args)...);
    }
    template <class... Args>
    auto async_query(idempotent_t, statement_text text, Args&&... args) {
        return async_execute(idempotent, text, std::forward<Args>(args)...);
    }

    /// Runs a statement and returns all its rows as a T each: an aggregate, a std::tuple, a value,
    /// or a class with cenote::sql::columns. Checked once for all rows. Throws sql::bad_value
    /// if the columns or a value do not fit. See sql::connection::query_as and docs/guide/rows.md.
    ///
    ///     struct account { std::int64_t id; std::string owner; std::optional<std::string> city; };
    ///     for (account& each : db.query_as<account>("SELECT id, owner, city FROM account"))
    ///         use(each);
    template <class T, class... Args>
    std::vector<T> query_as(statement_text text, const Args&... args) {
        return query_rows<T>(call_of(text, false), text, args...);
    }
    template <class T, class... Args>
    std::vector<T> query_as(idempotent_t, statement_text text, const Args&... args) {
        return query_rows<T>(call_of(text, true), text, args...);
    }
    template <class T, class... Args>
    auto async_query_as(statement_text text, Args&&... args) {
        return start_rows<T>(call_of(text, false), text, std::forward<Args>(args)...);
    }
    template <class T, class... Args>
    auto async_query_as(idempotent_t, statement_text text, Args&&... args) {
        return start_rows<T>(call_of(text, true), text, std::forward<Args>(args)...);
    }

    /// Runs a statement and returns its rows one by one, for results that are too large for memory.
    /// The cursor keeps the connection until its last row has been read, or until the cursor is
    /// destroyed. In a scope or transaction, every other statement throws std::logic_error until
    /// then.
    template <class... Args>
    sql::cursor stream(statement_text text, const Args&... args) {
        auto values = sql::bind(args...);
        return executor_->stream(text.text(), values, call_of(text, false));
    }
    template <class... Args>
    auto async_stream(statement_text text, Args&&... args) {
        return start(&database_detail::executor::async_stream, call_of(text, false), text,
                     std::forward<Args>(args)...);
    }

    /// Runs one statement for each row of a range, with few round trips: tuples of values, lists of
    /// values, or single values. All rows take effect, or none; see sql::many_options. Returns how
    /// many rows of tables were affected. Throws sql::batch_error with the index of a row that the
    /// server refuses, and what the range throws.
    ///
    ///     std::vector<std::tuple<int, std::string>> rows{{1, "Ada"}, {2, "Grace"}};
    ///     db.execute_many("INSERT INTO customer (id, name) VALUES (?, ?)", rows);
    template <class Rows>
    std::uint64_t execute_many(statement_text text, Rows&& rows,
                               const sql::many_options& how = {}) {
        sql::detail::range_source<Rows> all(std::forward<Rows>(rows));
        return executor_->execute_many(text.text(), all, how, call_of(text, false));
    }
    /// Like execute_many. A range that is an lvalue must live until the end.
    template <class Rows, class Token = boost::asio::use_awaitable_t<>>
    auto async_execute_many(statement_text text, Rows&& rows, const sql::many_options& how = {},
                            Token&& token = {}) {
        auto all = std::make_shared<sql::detail::range_source<Rows>>(std::forward<Rows>(rows));
        return database_detail::complete_with(
            database_detail::executor::async_execute_many(
                executor_, std::string(text.text()), std::move(all), how, call_of(text, false)),
            std::forward<Token>(token));
    }
    template <class Rows, database_detail::completion_token Token>
    auto async_execute_many(statement_text text, Rows&& rows, Token&& token) {
        return async_execute_many(text, std::forward<Rows>(rows), sql::many_options(),
                                  std::forward<Token>(token));
    }

    /// Runs all statements of a batch, with PostgreSQL in one round trip. All take effect, or none;
    /// see sql::many_options. Returns their results. Throws sql::batch_error with the index of a
    /// statement that the server refuses.
    std::vector<sql::result> execute(const sql::batch& all, const sql::many_options& how = {},
                                     std::source_location at = std::source_location::current()) {
        return executor_->execute_batch(all, how, {at, how_, setup_});
    }
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_execute(sql::batch all, const sql::many_options& how = {}, Token&& token = {},
                       std::source_location at = std::source_location::current()) {
        return database_detail::complete_with(
            database_detail::executor::async_execute_batch(executor_, std::move(all), how,
                                                           {at, how_, setup_}),
            std::forward<Token>(token));
    }
    template <database_detail::completion_token Token>
    auto async_execute(sql::batch all, Token&& token,
                       std::source_location at = std::source_location::current()) {
        return async_execute(std::move(all), sql::many_options(), std::forward<Token>(token), at);
    }

    /// Begins a COPY … FROM STDIN of PostgreSQL; see sql::copy_in. It keeps the connection until it
    /// has finished, or is destroyed. In a scope or transaction, every other statement throws
    /// std::logic_error until then. Throws statement_error with other servers.
    sql::copy_in copy_in(statement_text text) {
        return executor_->copy_in(text.text(), call_of(text, false));
    }
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_copy_in(statement_text text, Token&& token = {}) {
        return database_detail::complete_with(
            database_detail::executor::async_copy_in(executor_, std::string(text.text()),
                                                     call_of(text, false)),
            std::forward<Token>(token));
    }
    /// Begins a COPY … TO STDOUT of PostgreSQL; see sql::copy_out. It keeps the connection as
    /// copy_in does.
    sql::copy_out copy_out(statement_text text) {
        return executor_->copy_out(text.text(), call_of(text, false));
    }
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_copy_out(statement_text text, Token&& token = {}) {
        return database_detail::complete_with(
            database_detail::executor::async_copy_out(executor_, std::string(text.text()),
                                                      call_of(text, false)),
            std::forward<Token>(token));
    }

    /// Like stream, with each row as a T; see query_as. A T may contain std::string_view and
    /// std::span<const std::byte>, which are valid until the next row is read.
    template <class T, class... Args>
    sql::cursor_of<T> stream_as(statement_text text, const Args&... args) {
        return sql::cursor_of<T>(stream(text, args...));
    }
    template <class T, class... Args>
    auto async_stream_as(statement_text text, Args&&... args) {
        return database_detail::start_with(
            [&](sql::bound_statement s) {
                return sql::detail::async_stream_of<T>(database_detail::executor::async_stream(
                    executor_, std::move(s), call_of(text, false)));
            },
            text.text(), std::forward<Args>(args)...);
    }

protected:
    statements() = default;
    explicit statements(std::shared_ptr<database_detail::executor> by,
                        const acquire_options& how = {},
                        std::shared_ptr<const sql::lease_setup> setup = nullptr) noexcept
        : executor_(std::move(by)), how_(how), setup_(std::move(setup)) {}
    statements(const statements&) = default;
    statements(statements&&) noexcept = default;
    statements& operator=(const statements&) = default;
    statements& operator=(statements&&) noexcept = default;
    ~statements() = default;

    database_detail::call call_of(const statement_text& text, bool twice) const {
        return {text.at(), how_, setup_, twice};
    }

    std::shared_ptr<database_detail::executor> executor_;
    // Of statements that take a connection themselves.
    acquire_options how_;
    std::shared_ptr<const sql::lease_setup> setup_;

private:
    template <class Run, class... Args>
    auto start(Run run, const database_detail::call& as, const statement_text& text,
               Args&&... args) {
        return database_detail::start_with(
            [&](sql::bound_statement s) { return run(executor_, std::move(s), as); }, text.text(),
            std::forward<Args>(args)...);
    }
    template <class T, class... Args>
    std::vector<T> query_rows(const database_detail::call& as, const statement_text& text,
                              const Args&... args) {
        auto values = sql::bind(args...);
        auto rows = std::make_shared<sql::detail::all_rows<T>>();
        executor_->execute_into(text.text(), values, as, rows);
        return rows->take();
    }
    template <class T, class... Args>
    auto start_rows(const database_detail::call& as, const statement_text& text, Args&&... args) {
        return database_detail::start_with(
            [&](sql::bound_statement s) {
                auto rows = std::make_shared<sql::detail::all_rows<T>>();
                return sql::detail::async_take_all<T>(database_detail::executor::async_execute_into(
                                                          executor_, std::move(s), as, rows),
                                                      rows);
            },
            text.text(), std::forward<Args>(args)...);
    }
};

/// Commits all statements or none. A transaction that is destroyed without commit() is rolled back
/// before its connection is used again.
///
/// Statements throw
/// - transaction_lost if the connection was lost, or if the server has rolled the transaction back
///   after an error;
/// - std::logic_error if the transaction has ended, also by a statement such as COMMIT, or if a
///   nested transaction has not ended.
///
/// Thread safety: one thread or coroutine at a time. May outlive its scope and its database.
class transaction : public statements {
public:
    /// An inactive transaction.
    transaction() noexcept;
    transaction(transaction&& other) noexcept;
    transaction& operator=(transaction&& other) noexcept;
    ~transaction();

    /// Commits. A nested commit only releases its savepoint; the changes become permanent when the
    /// outermost transaction commits. Throws transaction_lost if the connection was lost, and
    /// statement_error if the server refuses the commit: then roll back, or destroy the
    /// transaction.
    void commit();
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_commit(Token&& token = {}) {
        return database_detail::complete_with(awaited_commit(), std::forward<Token>(token));
    }

    /// Undoes all changes. Also succeeds if the connection was lost, because the server rolls back.
    /// For a nested transaction it throws transaction_lost in that case.
    void rollback();
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_rollback(Token&& token = {}) {
        return database_detail::complete_with(awaited_rollback(), std::forward<Token>(token));
    }

    /// Begins a nested transaction (a savepoint). Its rollback undoes only its own changes; its
    /// commit takes effect only if this transaction commits. Until it has ended, statements,
    /// begin(), commit() and rollback() of this transaction throw std::logic_error.
    [[nodiscard]] transaction begin();
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_begin(Token&& token = {}) {
        return database_detail::complete_with(awaited_begin(), std::forward<Token>(token));
    }

    /// True until commit() or rollback() has succeeded on this handle. Makes no call to the server.
    bool active() const noexcept;

private:
    friend class database_detail::open_transaction;
    explicit transaction(std::shared_ptr<database_detail::executor> open) noexcept;

    boost::asio::awaitable<void> awaited_commit();
    boost::asio::awaitable<void> awaited_rollback();
    boost::asio::awaitable<transaction> awaited_begin();
};

/// One connection for several statements, for example during one HTTP request. It takes the
/// connection with its first statement and returns it when the scope, its transactions and its
/// cursors have ended. If the connection is lost, every later statement throws session_lost (see
/// scope_options::keeps_session).
///
/// Thread safety: one thread or coroutine at a time. May outlive its database.
class scope : public statements {
public:
    scope(scope&&) noexcept = default;
    scope& operator=(scope&&) noexcept = default;
    ~scope() = default;

    /// Begins a transaction on the connection of the scope. Throws what a statement throws, and
    /// std::logic_error if the scope has a transaction already.
    [[nodiscard]] cenote::transaction begin(const transaction_options& how = {});
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_begin(const transaction_options& how = {}, Token&& token = {}) {
        return database_detail::complete_with(awaited_begin(how), std::forward<Token>(token));
    }
    template <database_detail::completion_token Token>
    auto async_begin(Token&& token) {
        return async_begin(transaction_options(), std::forward<Token>(token));
    }

    /// Whether it has a connection at present. Does not ask the server.
    bool has_connection() const noexcept;

    /// The connection of the scope, and any replacement, is closed instead of returned to the pool.
    /// The scope remains usable. For sessions in a state that a reset may not undo.
    void discard_at_end() noexcept;

private:
    friend class database_calls;
    explicit scope(std::shared_ptr<database_detail::executor> connection) noexcept;
    boost::asio::awaitable<cenote::transaction> awaited_begin(transaction_options how);
};

/// Read replicas, each by its URL or by the options of its connector. All servers of a database
/// must be of the same kind.
///
///     cenote::database db{primary, cenote::replicas{first, second}};
///
/// A replica has nothing of the primary's options that it is not given: copy them to have the same
/// user, credentials and settings.
///
///     cenote::postgres::options replica = primary;
///     replica.hosts = {{.name = "replica.example.com", .port = 5432}};
///     cenote::database db{primary, cenote::replicas{replica}};
class replicas {
public:
    /// One URL per replica.
    explicit replicas(std::initializer_list<std::string_view> urls) {
        for (std::string_view each : urls) all_.push_back(database_detail::place_of(each));
    }
    explicit replicas(const std::vector<std::string>& urls) {
        for (const std::string& each : urls) all_.push_back(database_detail::place_of(each));
    }
    /// The options of one connector per replica, which are copied.
    template <database_detail::connector_options... Options>
        requires(sizeof...(Options) > 0)
    explicit replicas(const Options&... each) : all_{database_detail::place_of(each)...} {}
    template <database_detail::connector_options Options>
    explicit replicas(const std::vector<Options>& options) {
        for (const Options& each : options) all_.push_back(database_detail::place_of(each));
    }

private:
    friend class database;
    std::vector<std::shared_ptr<const database_detail::place>> all_;
};

/// Options of one scope.
struct scope_options {
    /// Default false. If true, statements that write throw statement_error, and a scope of a
    /// database with replicas runs on a replica, or on the primary if no replica can be reached.
    /// Costs a round trip when the scope takes its connection (not with SQLite).
    bool read_only = false;

    /// Default true. Statements may rely on what earlier statements have set in the session: a
    /// role, a lock, a temporary table. After a lost connection, all statements throw session_lost.
    /// If false, the next statement after a loss runs on a new connection, except in a transaction.
    /// Set it to false if no statement of the scope relies on session state of an earlier one.
    bool keeps_session = true;
};

/// Begins scopes and transactions. Base of database and database_view, which share this interface.
///
/// `leases()`, timeout texts and leak reports attribute each connection to a line of the program:
/// the statement, scope(), begin() or transaction() that took it.
class database_calls : public statements {
public:
    /// Creates a scope without waiting. Its first statement takes the connection.
    [[nodiscard]] cenote::scope scope(const scope_options& how = {},
                                      std::source_location at = std::source_location::current());

    /// Takes a connection and begins a transaction on it. Throws what a statement throws.
    [[nodiscard]] cenote::transaction begin(
        const transaction_options& how = {},
        std::source_location at = std::source_location::current());
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_begin(const transaction_options& how = {}, Token&& token = {},
                     std::source_location at = std::source_location::current()) {
        return database_detail::complete_with(begin_in(executor_, how, {at, how_, setup_}),
                                              std::forward<Token>(token));
    }
    template <database_detail::completion_token Token>
    auto async_begin(Token&& token, std::source_location at = std::source_location::current()) {
        return async_begin(transaction_options(), std::forward<Token>(token), at);
    }

    /// Runs `work(transaction&)`, commits unless `work` has ended the transaction, and returns what
    /// `work` returns. If `work` or the commit throws, rolls back and rethrows; a failed rollback
    /// is ignored. After a conflict `work` runs again as transaction_options::retries allows; the
    /// calling thread sleeps between attempts.
    ///
    ///     db.transaction([&](cenote::transaction& t) {
    ///         t.execute("UPDATE account SET balance = balance - ? WHERE id = ?", sum, from);
    ///         t.execute("UPDATE account SET balance = balance + ? WHERE id = ?", sum, to);
    ///     });
    template <class Work>
    auto transaction(Work&& work, const transaction_options& how = {},
                     std::source_location at = std::source_location::current()) {
        return database_detail::run_in_transaction([&] { return begin(how, at); }, work,
                                                   database_detail::retry_policy(how));
    }

    /// Like transaction, for a `work` that returns an awaitable. Keeps a copy of `work` until the
    /// transaction ends. With g++ 12 a lambda with captures that are not trivially destructible
    /// must be a named variable.
    template <class Work, class Token = boost::asio::use_awaitable_t<>>
    auto async_transaction(Work&& work, const transaction_options& how = {}, Token&& token = {},
                           std::source_location at = std::source_location::current()) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
        static_assert(std::is_lvalue_reference_v<Work> || std::is_trivially_destructible_v<Work>,
                      "cenote: g++ 12 destroys the captures of such a lambda twice; give it a "
                      "name, and pass that, or capture by reference");
#endif
        return database_detail::complete_with(
            database_detail::async_run_in_transaction(
                &begin_in, executor_,
                database_detail::keep_work<cenote::transaction>(std::forward<Work>(work)), how,
                {at, how_, setup_}),
            std::forward<Token>(token));
    }
    template <class Work, database_detail::completion_token Token>
    auto async_transaction(Work&& work, Token&& token,
                           std::source_location at = std::source_location::current()) {
        return async_transaction(std::forward<Work>(work), transaction_options(),
                                 std::forward<Token>(token), at);
    }

protected:
    explicit database_calls(std::shared_ptr<database_detail::executor> servers,
                            const acquire_options& how = {},
                            std::shared_ptr<const sql::lease_setup> setup = nullptr) noexcept
        : statements(std::move(servers), how, std::move(setup)) {}
    database_calls(const database_calls&) = default;
    database_calls(database_calls&&) noexcept = default;
    database_calls& operator=(const database_calls&) = default;
    database_calls& operator=(database_calls&&) noexcept = default;
    ~database_calls() = default;

private:
    static boost::asio::awaitable<cenote::transaction> begin_in(
        std::shared_ptr<database_detail::executor> in, transaction_options how,
        const database_detail::call& as);
};

/// A view of a database with its own acquire options; see database::with(). Its scopes and
/// transactions use these options. Cheap to copy. After the database is destroyed, statements and
/// begin() throw closed_error.
///
/// Thread safety: all members may be called from any thread at any time.
class database_view : public database_calls {
private:
    friend class database;
    database_view(std::shared_ptr<database_detail::executor> servers, const acquire_options& how,
                  std::shared_ptr<const sql::lease_setup> setup = nullptr) noexcept
        : database_calls(std::move(servers), how, std::move(setup)) {}
};

/// A database:
///
///     cenote::database db{"postgresql://app:secret@db.example.com/orders"};
///     db.execute("INSERT INTO customer(name) VALUES (?)", name);
///     auto count = db.query("SELECT count(*) FROM customer").scalar<std::int64_t>();
///
/// URLs begin with `sqlite:`, `postgresql:`, `postgres:`, `mariadb:` or `mysql:` and take the
/// parameters of the server's connector (see docs/guide). Each statement takes a connection from a
/// pool, runs, and returns the connection; nothing is bound to a thread or coroutine. Use a scope
/// or a transaction for statements that need the same connection.
///
/// Thread safety: all members may be called from any thread at any time.
class database : public database_calls {
public:
    /// Opens connections when they are needed, or as `how.pool` says. Throws invalid_url,
    /// invalid_option and std::invalid_argument; with warm_up::wait also what the first failed open
    /// threw.
    explicit database(std::string_view url, const database_options& how = {});

    /// With the options of a server's connector, for what a URL cannot express: for instance
    /// `on_open`, which registers functions with each SQLite connection.
    explicit database(const sqlite::options& where, const database_options& how = {});
    explicit database(const postgres::options& where, const database_options& how = {});
    explicit database(const mariadb::options& where, const database_options& how = {});

    /// With replicas. The primary and each replica are given as URLs or as options of a connector.
    /// Replicas serve read-only scopes and read-only transactions round-robin. The
    /// primary serves them if no replica can be reached. Everything else runs on the primary, which
    /// must accept writes. A replica may lag behind: to read what was just written, use a scope
    /// that is not read-only.
    ///
    /// Each server has a pool of its own with the options of `how.pool`. The pool of a replica has
    /// a circuit breaker of its own, and its open timeout is at most a quarter of
    /// `acquire_timeout`. With warm_up::wait the constructor also throws if opening a replica fails
    /// with a final error, such as a wrong password.
    template <class Where, std::same_as<replicas> Others>  // so that {...} selects the others
        requires requires(const Where& w) { database_detail::place_of(w); }
    database(const Where& primary, const Others& others, const database_options& how = {})
        : database(with_replicas(*database_detail::place_of(primary), others, how)) {}

    /// A database with a single connection, for short-lived tools and tests. The call opens the
    /// connection, which lasts as long as the database; statements, scopes and transactions of
    /// other callers wait for it. A thread that holds a scope and waits for the connection times
    /// out; the text says so. A lost connection is replaced.
    ///
    /// Throws what the constructor and the open throw, and invalid_option for an option of the pool
    /// that has no effect on a single connection: `max`, `min_size`, `min_idle`, `warm_up`,
    /// `idle_timeout`, `max_lifetime`, `lifetime_jitter`, `max_uses`.
    template <class Where>
    static database direct(const Where& where, database_options how = {}) {
        return database(where, one_connection(std::move(how)));
    }

    database(database&&) noexcept = default;
    database& operator=(database&& other) noexcept;

    /// Refuses all later acquires with closed_error. Scopes, transactions and cursors that have a
    /// connection continue to work.
    ~database();

    /// A view of this database with other options for each acquire:
    ///
    ///     db.with({.timeout = 100ms, .task = "checkout"}).execute("…");
    ///
    /// `timeout` limits how long a call waits for a connection, not how long its statement runs. A
    /// stop token in `how` must outlive the view, its scopes and its transactions.
    template <std::same_as<acquire_options> How>  // so that {...} selects the other overload
    [[nodiscard]] database_view with(const How& how) const {
        return database_view(executor_, how);
    }

    /// A view whose statements, scopes and transactions run in a role of their own and with
    /// settings of their own:
    ///
    ///     auto tenant = db.with({.role = "tenant_a", .settings = {{"app.region", "eu"}}});
    ///     auto orders = tenant.query("SELECT id, total FROM orders");
    ///
    /// With PostgreSQL the setup travels with the first statement on a connection and costs no
    /// round trip. If the server refuses it, the statement is not run and throws statement_error.
    /// The next user of the connection finds none of it. See docs/guide/tenants.md.
    ///
    /// Name the view before you await on it: g++ 12 does not compile a braced list in an expression
    /// with co_await. Statements throw std::invalid_argument for a role or a setting that the
    /// server cannot have.
    [[nodiscard]] database_view with(const use_options& how) const;

    /// Listens to channels of PostgreSQL: the notifications that NOTIFY sends from now on, on a
    /// connection of the primary that does nothing else. Ends with the database. See
    /// `notifications`.
    ///
    ///     cenote::notifications orders = db.listen("orders");
    ///     while (auto n = orders.next()) reload(n->payload);
    ///
    /// Waits for a connection and for the server, and throws what a statement throws;
    /// std::invalid_argument with SQLite and MariaDB, which send no notifications, and for names
    /// that PostgreSQL does not accept: empty, or longer than 63 bytes.
    [[nodiscard]] notifications listen(const channel_list& channels, const listen_options& how = {},
                                       std::source_location at = std::source_location::current());
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_listen(const channel_list& channels, const listen_options& how = {},
                      Token&& token = {},
                      std::source_location at = std::source_location::current()) {
        return database_detail::complete_with(listen_to(executor_, channels, how, at),
                                              std::forward<Token>(token));
    }
    template <class Token>
        requires(!std::same_as<std::remove_cvref_t<Token>, listen_options>)
    auto async_listen(const channel_list& channels, Token&& token,
                      std::source_location at = std::source_location::current()) {
        return async_listen(channels, listen_options(), std::forward<Token>(token), at);
    }

    /// The stats of the pool; with replicas, the sum over all pools.
    cenote::stats stats() const;
    /// The stats of each pool: the primary first, then the replicas.
    std::vector<cenote::stats> stats_of_each() const;
    /// The controls of all pools in the order of stats_of_each(), for a dashboard or a health
    /// check. They must not outlive the database.
    std::vector<pool_control> controls() const;

private:
    explicit database(std::shared_ptr<database_detail::executor> servers) noexcept;

    static std::shared_ptr<database_detail::executor> with_replicas(
        const database_detail::place& primary, const replicas& others, const database_options& how);
    static database_options one_connection(database_options how);
    static boost::asio::awaitable<notifications> listen_to(
        std::shared_ptr<database_detail::executor> of, channel_list channels, listen_options how,
        std::source_location at);
};

}  // namespace cenote
