// What goes wrong between a connection and its server.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cenote/connector.hpp"

namespace cenote {

/// What an error means for the connection it happened on.
enum class error_kind : std::uint8_t {
    statement,   ///< The server would not do what it was asked to. The connection is fine.
    connection,  ///< The connection is lost, or its state unknown.
    timed_out,   ///< The same, because there was no answer in time.
    suspect,     ///< The same, and others are likely to be (server shut down, primary demoted).
    transient,   ///< Could not be opened now; later perhaps (too many connections).
    final,       ///< Could not be opened, and trying again will not help (bad password).
};

/// The base of what connectors throw about servers. The text is for people and never contains a
/// password; what programs need is beside it.
class server_error : public std::runtime_error {
public:
    server_error(error_kind kind, const std::string& what, std::string_view sqlstate = {},
                 int code = 0)
        : std::runtime_error(what), kind_(kind), code_(code), sqlstate_(sqlstate) {}

    error_kind kind() const noexcept { return kind_; }
    /// Five characters, empty where there is none.
    std::string_view sqlstate() const noexcept { return sqlstate_; }
    /// The server's or client library's own number, 0 where there is none.
    int code() const noexcept { return code_; }

private:
    error_kind kind_;
    int code_;
    std::string sqlstate_;
};

/// The server would not do it: syntax, constraint, permission. The connection can be used on.
class statement_error : public server_error {
public:
    explicit statement_error(const std::string& what, std::string_view sqlstate = {}, int code = 0)
        : server_error(error_kind::statement, what, sqlstate, code) {}
};

/// The connection could not be made, or cannot be used any more.
class connection_error : public server_error {
public:
    using server_error::server_error;
};

/// The session of an earlier lease could not be reset, or the connection was lost before that was
/// confirmed. The server has certainly not run the statement, which was the first of its lease. The
/// connection is lost; the statement can be run on another one, whatever it is. Limit the number of
/// tries: a statement that is longer than the server accepts may end every connection in this way.
class statement_not_run : public connection_error {
public:
    using connection_error::connection_error;
};

/// There was no answer in time. What came of the request is not known.
class exchange_timeout : public connection_error {
public:
    explicit exchange_timeout(const std::string& what)
        : connection_error(error_kind::timed_out, what) {}
};

/// What is to be done with a connection after such an error.
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

/// What a connector's classify says of what it throws. Other exceptions are the borrower's own and
/// say nothing about the connection, which knows itself whether it is still good.
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
