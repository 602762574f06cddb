// Errors between a connection and its server, and what they mean for a pool.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cenote/connector.hpp"

namespace cenote {

/// What an error means for the connection on which it happened.
enum class error_kind : std::uint8_t {
    /// The server has refused the statement. The connection remains usable.
    statement,
    /// The connection was lost, or its state is unknown. It is unusable.
    connection,
    /// There was no reply in time. The connection is unusable.
    timed_out,
    /// The server was shut down, or is no longer the primary. The connection is unusable, and the
    /// other connections of the pool may be, too.
    suspect,
    /// The connection could not be opened; a later attempt may succeed (too many connections, no
    /// server).
    transient,
    /// The connection could not be opened, and later attempts will fail, too (wrong password).
    final,
};

/// The base class of all errors of servers. The text is for people and never contains a password;
/// for programs there are kind(), sqlstate() and code().
class server_error : public std::runtime_error {
public:
    /// Made by the library.
    server_error(error_kind kind, const std::string& what, std::string_view sqlstate = {},
                 int code = 0)
        : std::runtime_error(what), kind_(kind), code_(code), sqlstate_(sqlstate) {}

    /// What the error means for the connection.
    error_kind kind() const noexcept { return kind_; }
    /// The five characters of the SQL standard; empty if the server has none.
    std::string_view sqlstate() const noexcept { return sqlstate_; }
    /// The number that the server or the client library gives the error; 0 if it has none.
    int code() const noexcept { return code_; }

private:
    error_kind kind_;
    int code_;
    std::string sqlstate_;
};

/// The server has refused the statement: syntax, constraint, permission. The connection remains
/// usable. In PostgreSQL an open transaction has failed and must be rolled back.
class statement_error : public server_error {
public:
    /// Made by the library.
    explicit statement_error(const std::string& what, std::string_view sqlstate = {}, int code = 0)
        : server_error(error_kind::statement, what, sqlstate, code) {}
};

/// The connection could not be opened, was lost, or is unusable. If a request was under way, it is
/// not known whether the server has executed it.
class connection_error : public server_error {
public:
    using server_error::server_error;
};

/// The server has certainly not executed the statement, which was the first of its lease: the reset
/// of the session in front of it has failed, or was not confirmed before the connection was lost.
/// The connection is unusable. Any statement may run again, on another connection. Limit the number
/// of tries: a statement that exceeds the server's limit of a message may end every connection in
/// this way.
class statement_not_run : public connection_error {
public:
    using connection_error::connection_error;
};

/// There was no reply within the time limit. It is not known whether the server has executed the
/// request. The connection is unusable.
class exchange_timeout : public connection_error {
public:
    /// Made by the library.
    explicit exchange_timeout(const std::string& what)
        : connection_error(error_kind::timed_out, what) {}
};

/// What to do with a connection after an error of this kind.
inline verdict verdict_of(error_kind kind) noexcept {
    switch (kind) {
        case error_kind::statement: return verdict::keep;
        case error_kind::suspect: return verdict::suspect;
        case error_kind::final: return verdict::final;
        case error_kind::connection:
        case error_kind::timed_out:
        case error_kind::transient: break;
    }
    return verdict::discard;
}

/// A connector's classify() for its own errors. An exception of the borrower's code means keep: it
/// says nothing about the connection, and before_release() knows whether the connection is usable.
inline verdict verdict_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const server_error& e) {
        return verdict_of(e.kind());
    } catch (...) {
        return verdict::keep;
    }
}

}  // namespace cenote
