// The two manners in which a database can be asked, for suites that are written once.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <type_traits>

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
    static std::optional<sql::row> next(sql::cursor& rows) { return rows.next(); }
    static transaction begin(auto& on, const auto&... how) { return on.begin(how...); }
    static void commit(transaction& t) { t.commit(); }
    static void rollback(transaction& t) { t.rollback(); }
    /// `work` with a transaction, by the function that commits and rolls back.
    template <class Work>
    static auto in_transaction(auto& db, Work work, const transaction_options& how = {}) {
        return db.transaction(work, how);
    }
};

/// As services have it: a loop that is there for longer than anybody who posts to it. The second is
/// for what is awaited within something that is.
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
    static std::optional<sql::row> next(sql::cursor& rows) {
        return await_on(loop(0), rows.async_next());
    }
    static transaction begin(auto& on, const auto&... how) {
        return await_on(loop(0), on.async_begin(how...));
    }
    static void commit(transaction& t) { await_on(loop(0), t.async_commit()); }
    static void rollback(transaction& t) { await_on(loop(0), t.async_rollback()); }
    template <class Work>
    static auto in_transaction(auto& db, Work work, const transaction_options& how = {}) {
        using result = std::invoke_result_t<Work&, transaction&>;
        // The work itself waits for loops of its own: the suite is written once.
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

/// A place and a manner of asking.
template <class Place, class Manner>
struct kind {
    using place = Place;
    using manner = Manner;
};

}  // namespace cenote::conformance
