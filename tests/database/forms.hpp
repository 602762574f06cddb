// The two forms of each call of a database, blocking and awaited, for suites that are written once.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "cenote/database.hpp"
#include "connector/awaiting.hpp"

namespace cenote::conformance {

using support::await_on;

struct blocking {
    static sql::result run(auto& on, const auto& text, const auto&... args) {
        return on.execute(text, args...);
    }
    static sql::cursor stream(auto& on, statement_text text, const auto&... args) {
        return on.stream(text, args...);
    }
    static auto next(auto& rows) { return rows.next(); }
    template <class T>
    static std::vector<T> query_as(auto& on, const auto& text, const auto&... args) {
        return on.template query_as<T>(text, args...);
    }
    template <class T>
    static sql::cursor_of<T> stream_as(auto& on, const auto& text, const auto&... args) {
        return on.template stream_as<T>(text, args...);
    }
    static std::vector<sql::result> run_batch(auto& on, const sql::batch& all,
                                              const sql::many_options& how) {
        return on.execute(all, how);
    }
    static std::uint64_t run_many(auto& on, const auto& text, const auto& rows,
                                  const sql::many_options& how) {
        return on.execute_many(text, rows, how);
    }
    static transaction begin(auto& on, const auto&... how) { return on.begin(how...); }
    static void commit(transaction& t) { t.commit(); }
    static void rollback(transaction& t) { t.rollback(); }
    /// Runs `work` with the function that commits and rolls back.
    template <class Work>
    static auto in_transaction(auto& db, Work work, const transaction_options& how = {}) {
        return db.transaction(work, how);
    }
};

/// A loop that outlives all objects that post to it, as in a service. The second one is for
/// operations within an awaited operation.
inline boost::asio::io_context& loop(int depth) {
    static boost::asio::io_context loops[2];
    return loops[depth];
}

struct awaited {
    static sql::result run(auto& on, const auto& text, const auto&... args) {
        return await_on(loop(0), on.async_execute(text, args...));
    }
    static sql::cursor stream(auto& on, statement_text text, const auto&... args) {
        return await_on(loop(0), on.async_stream(text, args...));
    }
    static auto next(auto& rows) { return await_on(loop(0), rows.async_next()); }
    template <class T>
    static std::vector<T> query_as(auto& on, const auto& text, const auto&... args) {
        return await_on(loop(0), on.template async_query_as<T>(text, args...));
    }
    template <class T>
    static sql::cursor_of<T> stream_as(auto& on, const auto& text, const auto&... args) {
        return await_on(loop(0), on.template async_stream_as<T>(text, args...));
    }
    static std::vector<sql::result> run_batch(auto& on, const sql::batch& all,
                                              const sql::many_options& how) {
        return await_on(loop(0), on.async_execute(all, how));
    }
    static std::uint64_t run_many(auto& on, const auto& text, const auto& rows,
                                  const sql::many_options& how) {
        return await_on(loop(0), on.async_execute_many(text, rows, how));
    }
    static transaction begin(auto& on, const auto&... how) {
        return await_on(loop(0), on.async_begin(how...));
    }
    static void commit(transaction& t) { await_on(loop(0), t.async_commit()); }
    static void rollback(transaction& t) { await_on(loop(0), t.async_rollback()); }
    template <class Work>
    static auto in_transaction(auto& db, Work work, const transaction_options& how = {}) {
        using result = std::invoke_result_t<Work&, transaction&>;
        // The work is written once, so it waits on a loop of its own.
        auto awaitable_work = [&](transaction& t) -> boost::asio::awaitable<result> {
            if constexpr (std::is_void_v<result>) {
                work(t);
                co_return;
            } else {
                co_return work(t);
            }
        };
        return await_on(loop(1), db.async_transaction(awaitable_work, how));
    }
};

/// A place and a form of call.
template <class Place, class Form>
struct kind {
    using place = Place;
    using form = Form;
};

}  // namespace cenote::conformance
