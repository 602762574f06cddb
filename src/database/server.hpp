// A database server of any kind: the connector of its pool, and what differs between the kinds.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cenote/database.hpp"
#include "cenote/detail/listening.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/postgres.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sqlite.hpp"
#include "database/kinds.hpp"
#include "database/placeholders.hpp"

namespace cenote::database_detail {

/// A connection to a server of any kind, as pools hold it.
using any_connection = kinds::connection;

/// The role of a server in its database.
enum class role : std::uint8_t {
    alone,
    primary,  ///< Must accept writes.
    replica,  ///< Is only read from.
};

/// A list of statements without values, run one after the other.
using statement_list = std::vector<std::string>;

class server {
    /// Calls `verb(connector, connection)` with the two as what they are.
    template <class Verb>
    auto with(any_connection& c, Verb verb) {
        return with_index(connector_.index(), [&](auto kind) {
            return verb(*std::get_if<kind>(&connector_), *std::get_if<kind>(&c));
        });
    }

public:
    /// `resets_in_full`: the connector resets everything a session may carry without being told to.
    /// `min_size`: how many connections the server needs at least. `comments`: whether statements
    /// of a sampled trace end with its traceparent.
    server(kinds::connector by, bool resets_in_full, std::size_t min_size = 0,
           bool comments = false)
        : connector_(std::move(by)),
          resets_in_full_(resets_in_full),
          min_size_(min_size),
          comments_(comments) {}

    // What a pool requires of a connector.
    any_connection open() {
        return std::visit([](auto& by) -> any_connection { return by.open(); }, connector_);
    }
    bool probe(any_connection& c) {
        return with(c, [](auto& by, auto& it) { return by.probe(it); });
    }
    void reset(any_connection& c) {
        with(c, [](auto& by, auto& it) { by.reset(it); });
    }
    void close(any_connection& c) {
        with(c, [](auto& by, auto& it) { by.close(it); });
    }
    bool before_acquire(any_connection& c) noexcept {
        return with(c, [](auto& by, auto& it) {
            if constexpr (requires { by.before_acquire(it); }) return by.before_acquire(it);
            else return true;
        });
    }
    verdict before_release(any_connection& c) noexcept {
        return with(c, [](auto& by, auto& it) { return by.before_release(it); });
    }
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    std::string endpoint() const {
        return std::visit([](const auto& by) { return by.endpoint(); }, connector_);
    }
    void forsake(any_connection& c) noexcept {
        with(c, [](auto& by, auto& it) { by.forsake(it); });
    }

    database_detail::dialect dialect() const noexcept;
    bool resets_in_full() const noexcept { return resets_in_full_; }
    std::size_t min_size() const noexcept { return min_size_; }
    /// What follows each statement of this trace; usually nothing.
    std::string comment_for(const trace_context& trace) const {
        return comments_ && trace.sampled() && trace ? ' ' + trace.sql_comment() : std::string();
    }

    /// Begins a transaction.
    statement_list statements_to_begin(const transaction_options& how) const;
    /// Undoes a begin that was only partly run and began no transaction.
    statement_list statements_to_undo_begin(const transaction_options& how) const;
    /// Updates what the connection knows of its transaction, after an error that may have ended it.
    statement_list statements_to_verify() const;

private:
    kinds::connector connector_;
    bool resets_in_full_;
    std::size_t min_size_;
    bool comments_;
};

class place {
public:
    template <class Where>
    explicit place(Where is) : where_(std::move(is)) {}

    const auto& where() const noexcept { return where_; }

private:
    std::variant<std::string, sqlite::options, postgres::options, mariadb::options> where_;
};

// These throw for a kind that this build has no part for: std::invalid_argument for options,
// invalid_url for a URL.
server make_server(sqlite::options where, const database_options& how);
server make_server(postgres::options where, const database_options& how, role as = role::alone);
server make_server(mariadb::options where, const database_options& how, role as = role::alone);
/// Of the kind that the URL's scheme names. Throws invalid_url.
server make_server(std::string_view url, const database_options& how, role as = role::alone);
server make_server(const place& where, const database_options& how, role as);

/// What every kind of connection can do.
sql::connection& base_of(any_connection& c) noexcept;

/// Of a connection whose kind of server sends notifications. Otherwise throws std::logic_error.
std::unique_ptr<listening_detail::receiver> receiver_of(any_connection& c);

/// Makes the session refuse writes until it is reset.
void set_read_only(any_connection& c);
asio::awaitable<void> async_set_read_only(any_connection* c);
/// Makes the connection itself refuse or accept writes, where that takes no statement (SQLite).
void refuse_writes(any_connection& c, bool on) noexcept;

}  // namespace cenote::database_detail
