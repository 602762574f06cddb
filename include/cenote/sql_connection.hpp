// A connection to an SQL database, whichever it is: what can be asked of it, blocking and awaited.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
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

#include "cenote/sql.hpp"

namespace cenote::sql {

namespace detail {

class session;

/// The rows of one statement, as their connector reads them. What is awaited keeps them.
class rows {
public:
    rows() = default;
    rows(const rows&) = delete;
    rows& operator=(const rows&) = delete;
    virtual ~rows() = default;

    virtual std::optional<row> next() = 0;
    virtual boost::asio::awaitable<std::optional<row>> async_next() = 0;
};

}  // namespace detail

namespace detail {

template <class T>
struct completion {
    using signature = void(std::exception_ptr, T);
};
template <>
struct completion<void> {
    using signature = void(std::exception_ptr);
};

/// Has an awaitable tell a completion token what came of it.
template <class T, class Token>
auto complete_with(boost::asio::awaitable<T> work, Token&& token) {
    if constexpr (std::is_same_v<std::decay_t<Token>, boost::asio::use_awaitable_t<>>) {
        return work;
    } else {
        auto start = [](auto handler, boost::asio::awaitable<T> w) {
            auto where = boost::asio::get_associated_executor(handler);
            boost::asio::co_spawn(where, std::move(w), std::move(handler));
        };
        return boost::asio::async_initiate<Token, typename completion<T>::signature>(
            start, token, std::move(work));
    }
}

}  // namespace detail

/// A prepared statement of one connection. Ends with the lease it was made in: used later, or on
/// another connection, it throws std::logic_error.
class statement {
public:
    statement() = default;

private:
    friend class detail::session;
    statement(std::size_t number, std::uint64_t generation) noexcept
        : number_(number), generation_(generation) {}

    std::size_t number_ = 0;
    std::uint64_t generation_ = 0;
};

/// The rows of a statement, one by one. What it means for the connection if it is left before its
/// end differs: each server's `cursor` says so.
class cursor {
public:
    /// At its end.
    cursor() = default;
    cursor(cursor&&) noexcept = default;
    cursor& operator=(cursor&&) noexcept = default;
    ~cursor() = default;

    /// The next row; empty at the end. Throws what the statement still ran into.
    std::optional<row> next() { return rows_ == nullptr ? std::nullopt : rows_->next(); }
    /// To be awaited, or with a completion token: handlers are given (std::exception_ptr, what next
    /// returns).
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_next(Token&& token = {}) {
        return detail::complete_with(awaited_next(), std::forward<Token>(token));
    }

    // For connectors.
    explicit cursor(std::shared_ptr<detail::rows> rows) noexcept : rows_(std::move(rows)) {}

private:
    boost::asio::awaitable<std::optional<row>> awaited_next();

    std::shared_ptr<detail::rows> rows_;
};

namespace detail {

/// What a connector has behind a connection. Whatever is awaited keeps it: the connection may move,
/// or end, meanwhile.
class session {
public:
    session() = default;
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    virtual ~session() = default;

    virtual result execute(std::string_view text, std::span<const parameter> parameters) = 0;
    virtual boost::asio::awaitable<result> async_execute(bound_statement what) = 0;
    virtual statement prepare(std::string_view text) = 0;
    virtual boost::asio::awaitable<statement> async_prepare(std::string text) = 0;
    virtual result execute(const statement& prepared, std::span<const parameter> parameters) = 0;
    /// Of `what` only the parameters.
    virtual boost::asio::awaitable<result> async_execute(statement prepared,
                                                         bound_statement what) = 0;
    virtual cursor stream(std::string_view text, std::span<const parameter> parameters) = 0;
    virtual boost::asio::awaitable<cursor> async_stream(bound_statement what) = 0;

    virtual void set_timeout(std::chrono::nanoseconds timeout) = 0;
    virtual bool in_transaction() const = 0;
    /// In a transaction that can only be rolled back.
    virtual bool transaction_failed() const noexcept { return false; }
    /// Of no use any more, whatever is asked of it.
    virtual bool broken() const noexcept = 0;

    /// The statement with this number, as it is known outside.
    statement named(std::size_t number) const noexcept { return {number, generation_}; }
    /// Empty: it is another connection's, or has ended.
    std::optional<std::size_t> number_of(const statement& s) const noexcept {
        if (s.generation_ != generation_) return std::nullopt;
        return s.number_;
    }
    /// Whatever was prepared has ended.
    void end_statements() noexcept { generation_ = new_generation(); }

private:
    /// Of this process: no other session has it, whatever its server.
    static std::uint64_t new_generation() noexcept;

    std::uint64_t generation_ = new_generation();
};

}  // namespace detail

/// One connection. Used by one thread or coroutine at a time, one operation at a time.
///
/// What a function needs that is to work with any of the servers:
///
///     std::int64_t count(cenote::sql::connection& c) {
///         return c.execute("SELECT count(*) FROM orders").scalar<std::int64_t>();
///     }
///
/// How parameters are written, which types there are, and what is thrown: see the `connection` of
/// the server. It is that which is pooled, moved and closed.
class connection {
public:
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    /// Runs one statement with its parameters bound, and returns all its rows.
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

    statement prepare(std::string_view statement_text) { return own().prepare(statement_text); }
    boost::asio::awaitable<statement> async_prepare(std::string_view statement_text) {
        return own().async_prepare(std::string(statement_text));
    }
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

    /// The same, row by row.
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

    /// For the rest of the lease, instead of operation_timeout.
    void set_timeout(std::chrono::nanoseconds timeout) { own().set_timeout(timeout); }
    bool in_transaction() const { return session_ != nullptr && session_->in_transaction(); }
    /// In a transaction that can only be rolled back (PostgreSQL, after an error).
    bool transaction_failed() const noexcept {
        return session_ != nullptr && session_->transaction_failed();
    }
    /// True if the connection was closed, lost, or left in the middle of an operation.
    bool broken() const noexcept { return session_ == nullptr || session_->broken(); }

    // For those who have their parameters in a list.
    result execute_bound(std::string_view text, std::span<const parameter> parameters) {
        return own().execute(text, parameters);
    }
    boost::asio::awaitable<result> async_execute_bound(bound_statement what) {
        return own().async_execute(std::move(what));
    }
    cursor stream_bound(std::string_view text, std::span<const parameter> parameters) {
        return own().stream(text, parameters);
    }
    boost::asio::awaitable<cursor> async_stream_bound(bound_statement what) {
        return own().async_stream(std::move(what));
    }

protected:
    explicit connection(std::shared_ptr<detail::session> s) noexcept : session_(std::move(s)) {}
    // Only as what it is: one server's session in another one's connection would be nonsense.
    connection(connection&&) noexcept = default;
    connection& operator=(connection&&) noexcept = default;
    ~connection() = default;

    /// Throws connection_error if it was closed, or has moved.
    detail::session& own() const {
        if (session_ == nullptr) refuse_closed();
        return *session_;
    }

    std::shared_ptr<detail::session> session_;

private:
    [[noreturn]] static void refuse_closed();
};

}  // namespace cenote::sql
