// A database as one object: statements from any thread or coroutine, and no pool to be seen.
// Library cenote::database.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/options.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sql.hpp"
#include "cenote/sql_connection.hpp"
#include "cenote/stats.hpp"

namespace cenote {

namespace mariadb {
struct options;
}
namespace postgres {
struct options;
}
namespace sqlite {
struct options;
}

/// The connection was lost in the middle of a transaction. Nothing of that has happened, unless its
/// commit was under way: then nobody knows.
class transaction_lost : public connection_error {
public:
    transaction_lost(const std::string& what, std::string_view sqlstate, bool maybe_committed)
        : connection_error(error_kind::connection, what, sqlstate),
          maybe_committed_(maybe_committed) {}

    bool maybe_committed() const noexcept { return maybe_committed_; }

private:
    bool maybe_committed_;
};

/// The connection of a scope was lost, and with it what the scope has set in its session: a role, a
/// lock, a temporary table. Every later statement of the scope throws it, too.
class session_lost : public connection_error {
public:
    using connection_error::connection_error;
};

/// What a transaction sees of others.
enum class isolation : std::uint8_t {
    server_default,   ///< As the server is set up.
    read_committed,   ///< SQLite has no less than `serializable`, and gives that.
    repeatable_read,  ///< The same.
    serializable,
};

struct transaction_options {
    cenote::isolation isolation = isolation::server_default;
    bool read_only = false;
    /// How often `transaction(work)` begins again after it met another one: a serialization
    /// failure, a deadlock. What the work does besides has to bear that.
    std::size_t retries = 0;
    /// Before it begins again; twice as long each time, and drawn by lot.
    std::chrono::milliseconds backoff{10};
};

struct database_options {
    /// Of the pool behind it.
    options pool = {};
    /// How many statements each connection keeps prepared, the latest it has run. 0: none. A reset
    /// of MariaDB ends them; a reset of PostgreSQL that keeps them costs more than parsing a simple
    /// statement.
    std::size_t statement_cache = 100;
    /// Believes that a statement or transaction outside of a scope leaves nothing behind in the
    /// session, unless the server reports a change (SET, temporary tables). Then PostgreSQL and
    /// MariaDB reset nothing after it, and a short statement takes a half to a third of the time.
    /// It is wrong for what servers do not report: a setting or a lock that a SELECT makes by a
    /// function, user variables, GET_LOCK. The next user of the connection finds them. Scopes are
    /// reset in any case; SQLite reports everything.
    bool trust_statements = false;
};

/// The text of a statement, and the place of the call that it was written in. Made implicitly from
/// whatever a std::string_view can be made from, and refers to that. Statements are variadic, so
/// the place cannot be a last parameter of theirs.
class statement_text {
public:
    template <class Text>
        requires std::convertible_to<const Text&, std::string_view>
    statement_text(const Text& text, std::source_location at = std::source_location::current())
        : text_(text), at_(at) {}

    std::string_view text() const noexcept { return text_; }
    const std::source_location& at() const noexcept { return at_; }

private:
    std::string_view text_;
    std::source_location at_;
};

namespace database_detail {

namespace asio = boost::asio;

/// Which call wants a connection, and how: what a pool's acquire is told.
struct caller {
    std::source_location at;
    acquire_options how;
};

// g++ 12 destroys temporaries of such types twice in an expression with co_await.
static_assert(std::is_trivially_destructible_v<statement_text>);
static_assert(std::is_trivially_destructible_v<acquire_options>);
static_assert(std::is_trivially_destructible_v<caller>);

class server;
class places;
class held;

/// Of one scope's or handle's: no two are alike.
using transaction_id = std::uint64_t;

/// A transaction that has begun. Whoever ends it may outlive its handle; it is abandoned with the
/// last of them.
struct begun;

/// Whom a statement can be given to.
class asked {
public:
    asked() = default;
    asked(const asked&) = delete;
    asked& operator=(const asked&) = delete;
    virtual ~asked() = default;

    // `by` matters where the statement itself takes a connection.
    virtual sql::result execute(std::string_view text, std::span<const sql::parameter> values,
                                const caller& by) = 0;
    virtual asio::awaitable<sql::result> async_execute(sql::bound_statement what, caller by) = 0;
    virtual sql::cursor stream(std::string_view text, std::span<const sql::parameter> values,
                               const caller& by) = 0;
    virtual asio::awaitable<sql::cursor> async_stream(sql::bound_statement what, caller by) = 0;
};

/// Again, on another connection, if one is lost. Not in a transaction, and not beyond its time.
sql::result execute_again(asked& to, std::string_view text, std::span<const sql::parameter> values,
                          const caller& by);
asio::awaitable<sql::result> async_execute_again(std::shared_ptr<asked> to,
                                                 sql::bound_statement what, caller by);

using sql::detail::complete_with;

/// What is given where there may also be options, and is none.
template <class Token>
concept completion_token = !std::same_as<std::remove_cvref_t<Token>, transaction_options>;

/// What could not even begin: a handler is told of it like of everything else.
template <class T>
asio::awaitable<T> failed_work(std::exception_ptr why) {
    std::rethrow_exception(why);
    co_return T();
}

template <class T>
concept bindable = std::constructible_from<sql::parameter, const std::remove_cvref_t<T>&>;

/// `begin(statement)` gives an awaitable. The last of `args` is a completion token, unless it is a
/// value.
template <class Begin, class... Args>
auto begin_with(Begin begin, std::string_view text, Args&&... args) {
    if constexpr (sizeof...(Args) == 0) {
        return begin(sql::bound_statement(text, {}));
    } else {
        constexpr std::size_t last = sizeof...(Args) - 1;
        auto all = std::forward_as_tuple(std::forward<Args>(args)...);
        if constexpr (bindable<std::tuple_element_t<last, std::tuple<Args...>>>) {
            auto values = sql::bind(args...);
            return begin(sql::bound_statement(text, values));
        } else {
            auto values = [&]<std::size_t... I>(std::index_sequence<I...>) {
                return sql::bind(std::get<I>(all)...);
            }(std::make_index_sequence<last>{});
            using work = decltype(begin(sql::bound_statement(text, values)));
            std::optional<work> begun_work;
            try {
                begun_work.emplace(begin(sql::bound_statement(text, values)));
            } catch (...) {
                begun_work.emplace(
                    failed_work<typename work::value_type>(std::current_exception()));
            }
            return complete_with(std::move(*begun_work), std::get<last>(std::move(all)));
        }
    }
}

/// Whether and when a transaction that failed is tried again.
class attempts {
public:
    explicit attempts(const transaction_options& how) : left_(how.retries), pause_(how.backoff) {}

    /// Empty: not again.
    std::optional<std::chrono::nanoseconds> pause_after(const std::exception_ptr& failed);
    /// The same, and waits. False: not again.
    bool again_after(const std::exception_ptr& failed);

private:
    std::size_t left_;
    std::chrono::nanoseconds pause_;
};

asio::awaitable<void> wait_for(std::chrono::nanoseconds pause);

}  // namespace database_detail

/// Says of a statement that it does no harm to run it twice: it only reads, or it comes to the
/// same. Then it is run again if its connection is lost, and nobody knows whether it was.
struct idempotent_t {};
inline constexpr idempotent_t idempotent{};

/// What can be asked of a database, a scope and a transaction alike.
///
/// Values go into a statement only as parameters. Their places are written `?`, or `$1`, `$2` in
/// any order: either is understood by every server. (PostgreSQL has operators with a question mark:
/// write `$1` beside them, or `??` for the operator.)
///
/// Throws: pool_error if no connection could be had; statement_error for what the server would not
/// do; connection_error if the connection was lost, after which nobody knows what came of the
/// statement, and which the next one does not notice. sql::bad_value, std::invalid_argument.
///
/// What begins with async_ is awaited, or given a completion token after everything else. Handlers
/// are given (std::exception_ptr, what the other form returns).
class statements {
public:
    /// Runs one statement.
    template <class... Args>
    sql::result execute(statement_text text, const Args&... args) {
        auto values = sql::bind(args...);
        return asked_->execute(text.text(), values, by(text));
    }
    template <class... Args>
    auto async_execute(statement_text text, Args&&... args) {
        return database_detail::begin_with(
            [&](sql::bound_statement s) { return asked_->async_execute(std::move(s), by(text)); },
            text.text(), std::forward<Args>(args)...);
    }

    /// The same, and once more if need be: `db.execute(cenote::idempotent, "…", 5)`.
    template <class... Args>
    sql::result execute(idempotent_t, statement_text text, const Args&... args) {
        auto values = sql::bind(args...);
        return database_detail::execute_again(*asked_, text.text(), values, by(text));
    }
    template <class... Args>
    auto async_execute(idempotent_t, statement_text text, Args&&... args) {
        return database_detail::begin_with(
            [&](sql::bound_statement s) {
                return database_detail::async_execute_again(asked_, std::move(s), by(text));
            },
            text.text(), std::forward<Args>(args)...);
    }

    /// The same, for those who want its rows:
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

    /// Row by row. The connection is kept until the last one was read, or the cursor ends. Until
    /// then, a scope or transaction throws std::logic_error for every other statement.
    template <class... Args>
    sql::cursor stream(statement_text text, const Args&... args) {
        auto values = sql::bind(args...);
        return asked_->stream(text.text(), values, by(text));
    }
    template <class... Args>
    auto async_stream(statement_text text, Args&&... args) {
        return database_detail::begin_with(
            [&](sql::bound_statement s) { return asked_->async_stream(std::move(s), by(text)); },
            text.text(), std::forward<Args>(args)...);
    }

protected:
    statements() = default;
    explicit statements(std::shared_ptr<database_detail::asked> a,
                        const acquire_options& how = {}) noexcept
        : asked_(std::move(a)), how_(how) {}
    statements(const statements&) = default;
    statements(statements&&) noexcept = default;
    statements& operator=(const statements&) = default;
    statements& operator=(statements&&) noexcept = default;
    ~statements() = default;

    database_detail::caller by(const statement_text& text) const noexcept {
        return {text.at(), how_};
    }

    std::shared_ptr<database_detail::asked> asked_;
    acquire_options how_;  // of statements that take a connection themselves
};

/// All or nothing. Ends with commit() or rollback(); if it ends otherwise, it is rolled back before
/// anybody else gets its connection.
///
/// Used by one thread or coroutine at a time.
class transaction : public statements {
public:
    /// None.
    transaction() noexcept;
    transaction(transaction&& other) noexcept;
    transaction& operator=(transaction&& other) noexcept;
    ~transaction();

    /// Throws transaction_lost if the connection is lost, statement_error if the server would not:
    /// then it is rolled back.
    void commit();
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_commit(Token&& token = {}) {
        return database_detail::complete_with(awaited_commit(), std::forward<Token>(token));
    }
    /// Does not mind if the connection is lost.
    void rollback();
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_rollback(Token&& token = {}) {
        return database_detail::complete_with(awaited_rollback(), std::forward<Token>(token));
    }

    /// A transaction in this one (a savepoint): only what it did is undone if it is rolled back.
    /// Until that has ended, this one throws std::logic_error whatever is asked of it.
    [[nodiscard]] transaction begin();
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_begin(Token&& token = {}) {
        return database_detail::complete_with(awaited_begin(), std::forward<Token>(token));
    }

    /// Neither committed nor rolled back yet. Asks nobody.
    bool active() const noexcept;

private:
    friend class database_detail::held;
    transaction(std::shared_ptr<database_detail::held> on, database_detail::transaction_id which);

    boost::asio::awaitable<void> awaited_commit();
    boost::asio::awaitable<void> awaited_rollback();
    boost::asio::awaitable<transaction> awaited_begin();

    std::shared_ptr<database_detail::begun> begun_;
};

/// One connection for everything that is asked of it, from the first statement to its end: what a
/// request needs. Takes nothing before it is used. If the connection is lost, every later statement
/// throws session_lost (see scope_options::keeps_session).
///
/// Used by one thread or coroutine at a time. It may outlive its database.
class scope : public statements {
public:
    scope(scope&&) noexcept = default;
    scope& operator=(scope&&) noexcept = default;
    ~scope() = default;

    [[nodiscard]] cenote::transaction begin(const transaction_options& how = {});
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_begin(const transaction_options& how = {}, Token&& token = {}) {
        return database_detail::complete_with(awaited_begin(how), std::forward<Token>(token));
    }
    template <database_detail::completion_token Token>
    auto async_begin(Token&& token) {
        return async_begin(transaction_options(), std::forward<Token>(token));
    }

    /// Whether it has a connection at present. Asks nobody.
    bool has_connection() const noexcept;
    /// Its connection, and any that it may get, is closed at its end instead of kept. It can be
    /// used until then.
    void discard_at_end() noexcept;

private:
    friend class database_calls;
    explicit scope(std::shared_ptr<database_detail::held> on) noexcept;
    boost::asio::awaitable<cenote::transaction> awaited_begin(transaction_options how);

    std::shared_ptr<database_detail::held> on_;
};

/// Where else a database can be read, by URLs of the same kind as its own:
///
///     cenote::database db{primary, cenote::replicas{first, second}};
struct replicas {
    explicit replicas(std::initializer_list<std::string_view> all) : urls(all.begin(), all.end()) {}
    explicit replicas(std::vector<std::string> all) : urls(std::move(all)) {}

    std::vector<std::string> urls;
};

struct scope_options {
    /// Nothing can be written in it, and it may be given a replica's connection.
    bool read_only = false;
    /// Whether its statements may rely on what earlier ones have set in the session: a role, a
    /// lock, a temporary table. `false`: they do not, so a lost connection is replaced by another
    /// one with the next statement, except in a transaction.
    bool keeps_session = true;
};

/// What a database can be asked for, besides statements: scopes and transactions. Common to a
/// database and to database_view.
///
/// Each connection is lent to the line of the program that asks for it: the statement, scope(),
/// begin() or transaction(), in `leases()`, in the texts of timeouts and in reports of leaks.
class database_calls : public statements {
public:
    [[nodiscard]] cenote::scope scope(const scope_options& how = {},
                                      std::source_location at = std::source_location::current());
    [[nodiscard]] cenote::transaction begin(
        const transaction_options& how = {},
        std::source_location at = std::source_location::current());
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_begin(const transaction_options& how = {}, Token&& token = {},
                     std::source_location at = std::source_location::current()) {
        return database_detail::complete_with(begin_in(places_, how, {at, how_}),
                                              std::forward<Token>(token));
    }
    template <database_detail::completion_token Token>
    auto async_begin(Token&& token, std::source_location at = std::source_location::current()) {
        return async_begin(transaction_options(), std::forward<Token>(token), at);
    }

    /// Runs `work(transaction&)` and commits; returns what it returns. If it throws, everything is
    /// rolled back and the exception goes on, whatever becomes of the rollback.
    template <class Work>
    auto transaction(Work&& work, const transaction_options& how = {},
                     std::source_location at = std::source_location::current()) {
        using result = std::invoke_result_t<Work&, cenote::transaction&>;
        for (database_detail::attempts more(how);;) {
            cenote::transaction t = begin(how, at);
            std::exception_ptr failed;
            try {
                if constexpr (std::is_void_v<result>) {
                    std::invoke(work, t);
                    if (t.active()) t.commit();
                    return;
                } else {
                    result made = std::invoke(work, t);
                    if (t.active()) t.commit();
                    return made;
                }
            } catch (...) {
                failed = std::current_exception();
            }
            roll_back(t);
            if (!more.again_after(failed)) std::rethrow_exception(failed);
        }
    }

    /// The same for a `work` that gives an awaitable. It is kept until the end.
    template <class Work, class Token = boost::asio::use_awaitable_t<>>
    auto async_transaction(Work&& work, const transaction_options& how = {}, Token&& token = {},
                           std::source_location at = std::source_location::current()) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
        static_assert(std::is_lvalue_reference_v<Work> || std::is_trivially_destructible_v<Work>,
                      "cenote: g++ 12 destroys what such a lambda has captured twice; give it a "
                      "name, and pass that, or capture by reference");
#endif
        using type = std::decay_t<Work>;
        using result = typename std::invoke_result_t<type&, cenote::transaction&>::value_type;
        auto kept = std::make_shared<type>(std::forward<Work>(work));
        awaited_work<result> once = [kept](cenote::transaction& t) { return (*kept)(t); };
        return database_detail::complete_with(
            repeat<result>(places_, std::move(once), how, {at, how_}), std::forward<Token>(token));
    }
    template <class Work, database_detail::completion_token Token>
    auto async_transaction(Work&& work, Token&& token,
                           std::source_location at = std::source_location::current()) {
        return async_transaction(std::forward<Work>(work), transaction_options(),
                                 std::forward<Token>(token), at);
    }

protected:
    explicit database_calls(std::shared_ptr<database_detail::places> all,
                            const acquire_options& how = {}) noexcept;
    database_calls(const database_calls&) = default;
    database_calls(database_calls&&) noexcept = default;
    database_calls& operator=(const database_calls&) = default;
    database_calls& operator=(database_calls&&) noexcept = default;
    ~database_calls() = default;

    std::shared_ptr<database_detail::places> places_;

private:
    /// Because of another error, which is not to be forgotten over this one's.
    static void roll_back(cenote::transaction& t) noexcept;
    static boost::asio::awaitable<void> async_roll_back(cenote::transaction* t);
    static boost::asio::awaitable<cenote::transaction> begin_in(
        std::shared_ptr<database_detail::places> places, transaction_options how,
        database_detail::caller by);

    /// By any other name than that of the work's own type, of which g++ complains if it is local.
    template <class Result>
    using awaited_work = std::function<boost::asio::awaitable<Result>(cenote::transaction&)>;

    template <class Result>
    static boost::asio::awaitable<Result> repeat(std::shared_ptr<database_detail::places> in,
                                                 awaited_work<Result> work, transaction_options how,
                                                 database_detail::caller by) {
        for (database_detail::attempts more(how);;) {
            cenote::transaction t = co_await begin_in(in, how, by);
            std::exception_ptr failed;
            try {
                if constexpr (std::is_void_v<Result>) {
                    co_await work(t);
                    if (t.active()) co_await t.async_commit();
                    co_return;
                } else {
                    Result made = co_await work(t);
                    if (t.active()) co_await t.async_commit();
                    co_return made;
                }
            } catch (...) {
                failed = std::current_exception();
            }
            try {
                co_await async_roll_back(&t);
            } catch (...) {
                t = {};  // cancelled: rolled back as it ends. What went wrong before matters.
            }
            std::optional<std::chrono::nanoseconds> pause = more.pause_after(failed);
            if (!pause) std::rethrow_exception(failed);
            co_await database_detail::wait_for(*pause);
        }
    }
};

/// A database with options for each acquire: see database::with(). Its scopes and transactions keep
/// the options. Cheap to copy. Used after its database has ended, it throws closed_error.
class database_view : public database_calls {
private:
    friend class database;
    database_view(std::shared_ptr<database_detail::places> all, const acquire_options& how) noexcept
        : database_calls(std::move(all), how) {}
};

/// A database, by its URL:
///
///     cenote::database db{"postgresql://app:secret@db.example.com/orders"};
///     db.execute("INSERT INTO customer(name) VALUES (?)", name);
///     auto count = db.query("SELECT count(*) FROM customer").scalar<std::int64_t>();
///
/// `sqlite:`, `postgresql:` and `mariadb:`, each with the parameters of its connector (see
/// docs/guide). Each statement takes a connection, runs, and gives it back; nothing is bound to a
/// thread or coroutine. A caller that needs the same connection for several statements takes a
/// scope or a transaction.
///
/// Thread safety: all members may be called from any thread at any time.
class database : public database_calls {
public:
    /// Throws invalid_url, invalid_option, std::invalid_argument; and what the first open threw, if
    /// the options have it wait for that.
    explicit database(std::string_view url, const database_options& how = {});
    /// With what cannot be said in a URL, such as functions for each connection of SQLite's
    /// (`on_open`).
    explicit database(const sqlite::options& where, const database_options& how = {});
    explicit database(const postgres::options& where, const database_options& how = {});
    explicit database(const mariadb::options& where, const database_options& how = {});

    /// With replicas of it. What only reads goes there: scopes and transactions that are
    /// `read_only`, each to the next replica in turn; to the primary if none can be reached.
    /// Everything else goes to the primary, which must take writes. A replica may be behind: who
    /// must see what was just written begins in a scope that is not read-only.
    ///
    /// Each has a pool of its own, with the same options; but a replica's has a breaker of its own,
    /// and opens that hang are given up in a quarter of `acquire_timeout`. With `warm_up::wait`
    /// this also throws what a replica's open threw, if trying again is no use (a wrong password).
    template <std::same_as<replicas> Others>  // and not options in braces
    database(std::string_view primary, const Others& others, const database_options& how = {})
        : database(all_of(primary, others, how)) {}

    /// With one connection, opened here and kept, for short-lived tools and tests. Throws what that
    /// throws. Everything else is as with a pool, but that only one can have a connection at a
    /// time, and others wait for it. A thread that waits for itself times out, and the text says
    /// so. Also throws invalid_option for an option of the pool that has no effect here (`max`, the
    /// minimum, `warm_up`, the limits of a connection's life).
    template <class Where>
    static database direct(const Where& where, database_options how = {}) {
        return database(where, one_connection(std::move(how)));
    }

    database(database&&) noexcept = default;
    database& operator=(database&& other) noexcept;
    /// Scopes, transactions and cursors that have a connection keep it. Later acquires are refused.
    ~database();

    /// The same database with other options for whatever is asked of it:
    ///
    ///     db.with({.timeout = 100ms, .task = "checkout"}).execute("…");
    ///
    /// `timeout` is the time to wait for a connection, not that of the statement.
    [[nodiscard]] database_view with(const acquire_options& how) const {
        return database_view(places_, how);
    }

    /// Of the pool behind it; with replicas, of all pools together.
    cenote::stats stats() const;
    /// Of the primary's pool, and then of each replica's.
    std::vector<cenote::stats> stats_of_each() const;
    /// The pools, for a dashboard or a health check. The controls must not outlive the database.
    std::vector<pool_control> controls() const;

private:
    explicit database(std::shared_ptr<database_detail::places> all);

    static std::shared_ptr<database_detail::places> all_of(std::string_view primary,
                                                           const replicas& others,
                                                           const database_options& how);
    static database_options one_connection(database_options how);
};

}  // namespace cenote
