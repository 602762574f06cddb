// What the templates of database.hpp call in the library.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
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
#include "cenote/sql.hpp"
#include "cenote/sql_connection.hpp"
#include "cenote/sql_many.hpp"

namespace cenote {
struct transaction_options;
}
namespace cenote::mariadb {
struct options;
}
namespace cenote::postgres {
struct options;
}
namespace cenote::sqlite {
struct options;
}

namespace cenote::database_detail {

namespace asio = boost::asio;
using sql::detail::complete_with;

/// Where and how the user called.
struct call {
    call(std::source_location at, const acquire_options& acquire,
         std::shared_ptr<const sql::lease_setup> first = nullptr, bool twice = false)
        : site(at), how(acquire), setup(std::move(first)), idempotent(twice) {}

    std::source_location site;
    acquire_options how;
    std::shared_ptr<const sql::lease_setup> setup;  // of each connection that it takes
    bool idempotent;
};

class open_transaction;
class scope_connection;

/// Where a server is, as the user says it: a URL, or the options of a connector.
class place;
std::shared_ptr<const place> place_of(std::string_view url);
std::shared_ptr<const place> place_of(const sqlite::options& where);
std::shared_ptr<const place> place_of(const postgres::options& where);
std::shared_ptr<const place> place_of(const mariadb::options& where);

template <class T>
concept connector_options = std::same_as<T, sqlite::options> ||
                            std::same_as<T, postgres::options> || std::same_as<T, mariadb::options>;

/// What is done with a statement once there is a connection. The operation around it finds the
/// connection, undoes abandoned transactions before, and repeats the task on another connection if
/// the server has certainly not run it: only the outcome of the last run counts.
class task {
public:
    task() = default;
    task(const task&) = delete;
    task& operator=(const task&) = delete;
    virtual ~task() = default;

    /// `text`, `values`: in the dialect of the connection.
    virtual void run(sql::connection& on, std::string_view text,
                     std::span<const sql::parameter> values) = 0;
    /// The arguments last until the end.
    virtual asio::awaitable<void> async_run(sql::connection* on, std::string_view text,
                                            std::span<const sql::parameter> values) = 0;
    /// Whether the statement is complete when the task is. A cursor has rows left.
    virtual bool completes_statement() const noexcept { return true; }
    /// Before another run. False: it cannot run again.
    virtual bool restart() { return true; }
};

/// Runs statements for a handle: a database, a scope or a transaction.
class executor {
public:
    executor() = default;
    executor(const executor&) = delete;
    executor& operator=(const executor&) = delete;
    virtual ~executor() = default;

    sql::result execute(std::string_view text, std::span<const sql::parameter> values,
                        const call& as);
    sql::cursor stream(std::string_view text, std::span<const sql::parameter> values,
                       const call& as);
    /// The sink keeps its exceptions.
    void execute_into(std::string_view text, std::span<const sql::parameter> values, const call& as,
                      const std::shared_ptr<sql::row_sink>& to);
    // These keep the executor, so the handle may end before they do.
    static asio::awaitable<sql::result> async_execute(std::shared_ptr<executor> by,
                                                      sql::bound_statement what, call as);
    static asio::awaitable<sql::cursor> async_stream(std::shared_ptr<executor> by,
                                                     sql::bound_statement what, call as);
    static asio::awaitable<void> async_execute_into(std::shared_ptr<executor> by,
                                                    sql::bound_statement what, call as,
                                                    std::shared_ptr<sql::row_sink> to);

    // Many statements, and COPY.
    std::uint64_t execute_many(std::string_view text, sql::detail::value_source& rows,
                               const sql::many_options& how, const call& as);
    static asio::awaitable<std::uint64_t> async_execute_many(
        std::shared_ptr<executor> by, std::string text,
        std::shared_ptr<sql::detail::value_source> rows, sql::many_options how, call as);
    std::vector<sql::result> execute_batch(const sql::batch& all, const sql::many_options& how,
                                           const call& as);
    static asio::awaitable<std::vector<sql::result>> async_execute_batch(
        std::shared_ptr<executor> by, sql::batch all, sql::many_options how, call as);
    sql::copy_in copy_in(std::string_view text, const call& as);
    static asio::awaitable<sql::copy_in> async_copy_in(std::shared_ptr<executor> by,
                                                       std::string text, call as);
    sql::copy_out copy_out(std::string_view text, const call& as);
    static asio::awaitable<sql::copy_out> async_copy_out(std::shared_ptr<executor> by,
                                                         std::string text, call as);

    /// Runs a task for a statement. Returns the connection that it has run on.
    std::shared_ptr<scope_connection> run(task& what, std::string_view text,
                                          std::span<const sql::parameter> values, const call& as);
    /// The arguments last until the end.
    static asio::awaitable<std::shared_ptr<scope_connection>> async_run(
        std::shared_ptr<executor> by, task* what, const sql::bound_statement* with, call as);

private:
    /// Where a statement runs. Throws std::logic_error if none can run now.
    virtual std::shared_ptr<scope_connection> connection(const call& as) = 0;
};

/// A completion token where the argument could also be options.
template <class Token>
concept completion_token = !std::same_as<std::remove_cvref_t<Token>, transaction_options> &&
                           !std::same_as<std::remove_cvref_t<Token>, sql::many_options>;

/// Whether a list of arguments ends with a completion token: something that cannot be bound.
template <class... Args>
constexpr bool ends_with_token = false;
template <class Last>
constexpr bool ends_with_token<Last> =
    !std::constructible_from<sql::parameter, const std::remove_cvref_t<Last>&>;
template <class First, class Second, class... Rest>
constexpr bool ends_with_token<First, Second, Rest...> = ends_with_token<Second, Rest...>;

/// Binds `args` to a statement and has `start(statement)` make an awaitable of it, which is
/// returned, or completes the token at the end of `args`.
template <class Start, class... Args>
auto start_with(Start start, std::string_view text, Args&&... args) {
    if constexpr (ends_with_token<Args...>) {
        auto all = std::forward_as_tuple(std::forward<Args>(args)...);
        constexpr std::size_t last = sizeof...(Args) - 1;
        auto values = [&]<std::size_t... I>(std::index_sequence<I...>) {
            return sql::bind(std::get<I>(all)...);
        }(std::make_index_sequence<last>{});
        return complete_with(start(sql::bound_statement(text, values)),
                             std::get<last>(std::move(all)));
    } else {
        auto values = sql::bind(args...);
        return start(sql::bound_statement(text, values));
    }
}

/// How often and how soon a transaction that failed is tried again.
class retry_policy {
public:
    explicit retry_policy(const transaction_options& how);

    /// How long to pause before the next try; empty if there is none.
    std::optional<std::chrono::nanoseconds> pause_after(const std::exception_ptr& failure);

private:
    std::size_t retries_left_;
    std::chrono::nanoseconds pause_;
};

void wait_for(std::chrono::nanoseconds pause);
asio::awaitable<void> async_wait_for(std::chrono::nanoseconds pause);

/// See database_calls::transaction.
template <class Begin, class Work>
auto run_in_transaction(Begin begin, Work& work, retry_policy retries) {
    using transaction = std::invoke_result_t<Begin&>;
    using result = std::invoke_result_t<Work&, transaction&>;
    for (;;) {
        transaction t = begin();
        std::exception_ptr failure;
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
            failure = std::current_exception();
        }
        try {
            if (t.active()) t.rollback();
        } catch (...) {
            t = {};  // rolled back as its connection returns; the first error matters more
        }
        std::optional<std::chrono::nanoseconds> pause = retries.pause_after(failure);
        if (!pause) std::rethrow_exception(failure);
        wait_for(*pause);
    }
}

/// Work that is awaited. Not by its own type: g++ 12 warns if that is a local one.
template <class Transaction, class Result>
using awaited_work = std::function<asio::awaitable<Result>(Transaction&)>;

template <class Transaction, class Work>
auto keep_work(Work&& work) {
    using type = std::decay_t<Work>;
    using result = typename std::invoke_result_t<type&, Transaction&>::value_type;
    auto kept = std::make_shared<type>(std::forward<Work>(work));
    return awaited_work<Transaction, result>([kept](Transaction& t) { return (*kept)(t); });
}

/// See database_calls::async_transaction.
template <class Result, class Transaction, class Options>
asio::awaitable<Result> async_run_in_transaction(
    asio::awaitable<Transaction> (*begin)(std::shared_ptr<executor>, Options, const call&),
    std::shared_ptr<executor> in, awaited_work<Transaction, Result> work, Options how, call as) {
    for (retry_policy retries(how);;) {
        Transaction t = co_await begin(in, how, as);
        std::exception_ptr failure;
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
            failure = std::current_exception();
        }
        try {
            if (t.active()) co_await t.async_rollback();
        } catch (...) {
            t = {};  // canceled, for instance; the first error matters more
        }
        std::optional<std::chrono::nanoseconds> pause = retries.pause_after(failure);
        if (!pause) std::rethrow_exception(failure);
        co_await async_wait_for(*pause);
    }
}

}  // namespace cenote::database_detail
