// HTTP/1.1 connections to one server, kept alive between requests. Library cenote::http.
//
//     cenote::http::connector api{"https://api.example.org"};
//     cenote::pool<cenote::http::connection> pool{api, {.max = 20}};
//     auto lease = pool.acquire();
//     cenote::http::response r = lease->send(cenote::http::get("/orders?id=7"));
//     if (r.status == 200) use(r.body, r.headers.find("etag"));
//
// docs/guide/http.md explains what ends a connection and when a request can be repeated.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/connector.hpp"
#include "cenote/secret.hpp"
#include "cenote/server_error.hpp"
#include "cenote/tls.hpp"

namespace cenote::http {

/// No part of the request can have reached the server, so it may be sent again, even if it is not
/// idempotent. Usually the server has closed the idle connection. After any other connection_error
/// the server may have carried the request out. Keep the pool's idle_timeout shorter than the
/// server's keep-alive time to make both rare.
class not_sent : public connection_error {
public:
    /// Made by the library.
    explicit not_sent(const std::string& what, int code = 0)
        : connection_error(error_kind::connection, what, {}, code) {}
};

/// The header fields of a message, in order. Names are compared without case; several fields may
/// have the same name.
class headers {
public:
    /// One field.
    struct field {
        std::string name;   ///< Without the colon.
        std::string value;  ///< Without spaces around it.
        bool operator==(const field&) const = default;
    };

    /// The value of the first field with this name. Refers to this object.
    std::optional<std::string_view> find(std::string_view name) const noexcept;
    bool contains(std::string_view name) const noexcept { return find(name).has_value(); }
    /// The values of all fields with this name. They refer to this object.
    std::vector<std::string_view> all(std::string_view name) const;

    /// Appends a field, even if there is one with this name.
    void add(std::string name, std::string value);
    /// Replaces all fields with this name by one.
    void set(std::string_view name, std::string value);

    /// The fields, in order.
    auto begin() const noexcept { return fields_.begin(); }
    auto end() const noexcept { return fields_.end(); }
    std::size_t size() const noexcept { return fields_.size(); }
    bool empty() const noexcept { return fields_.empty(); }
    bool operator==(const headers&) const = default;

private:
    std::vector<field> fields_;
};

/// A request. The connection sets Content-Length, Transfer-Encoding, Host, Connection and the like;
/// a request that has one of them is refused. Its User-Agent and Authorization replace those of the
/// connector. (Not an aggregate: g++ 12 destroys temporary aggregates twice in a co_await
/// expression.)
struct request {
    request() = default;
    /// Method, target and body.
    explicit request(std::string method_name, std::string path_and_query = "/",
                     std::string content = {})
        : method(std::move(method_name)),
          target(std::move(path_and_query)),
          body(std::move(content)) {}

    /// Adds a field: `get("/").with("Accept", "text/plain")`.
    request&& with(std::string name, std::string value) && {
        headers.add(std::move(name), std::move(value));
        return std::move(*this);
    }

    std::string method = "GET";  ///< As it is sent.
    std::string target = "/";    ///< Path and query, percent-encoded.
    http::headers headers;       ///< Besides those that the connection adds.
    std::string body;            ///< Sent as it is, with its length.
};

/// A request with this method.
inline request get(std::string target) { return request("GET", std::move(target)); }
inline request head(std::string target) { return request("HEAD", std::move(target)); }
inline request put(std::string target, std::string body) {
    return request("PUT", std::move(target), std::move(body));
}
inline request post(std::string target, std::string body) {
    return request("POST", std::move(target), std::move(body));
}

/// A response with any status, also 404 and 503. Redirects are not followed.
struct response {
    int status = 0;      ///< 100 to 599.
    std::string reason;  ///< The text after the status.
    http::headers headers;
    std::string body;  ///< Without the framing of chunks; not decompressed.
};

/// Where a server is, and how requests to it are made.
struct options {
    /// A name, an address, or the path of a Unix socket. A pool is for one server.
    std::string host = "localhost";
    /// Default 80, with TLS 443.
    std::uint16_t port = 0;
    /// Whether to use TLS (https).
    bool secure = false;
    tls_options tls;
    /// Default none. Sent with the password in each request, as Authorization: Basic.
    std::string user;
    secret password;
    /// The field User-Agent. Empty: none.
    std::string user_agent = "cenote";
    /// Default 5 s. How long an open may take, with the TLS handshake.
    std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
    /// Default 30 s. How long a request may take until its response is complete; of a stream: until
    /// the next piece. After that it throws exchange_timeout, and the connection is lost.
    /// connection::set_timeout() changes it for one lease.
    std::chrono::nanoseconds operation_timeout = std::chrono::seconds(30);
    /// Default 64 KiB; from 1 KiB to 1 GiB. The limit of the head of a response, in bytes. A longer
    /// one throws connection_error.
    std::size_t max_header = std::size_t{64} << 10;
    /// Default 64 MiB. The limit of a body that is not streamed, in bytes. A longer one throws
    /// connection_error. Use stream() for large bodies.
    std::size_t max_body = std::size_t{64} << 20;
    /// Default none: a probe only checks the socket. What a probe requests; the status must be
    /// below 500. Set it if the server may accept connections without being able to respond.
    std::string probe_target;

    /// `https://user:password@host:port?key=value`; docs/guide/http.md has all keys. Throws
    /// invalid_url.
    static options from_url(std::string_view url);
};

namespace detail {
class channel;
class body;
struct settings;
struct access;
}  // namespace detail

/// A response whose body is read piece by piece. The connection is usable again when the body has
/// been read to its end; destroying this object earlier ends the connection. Must not outlive the
/// lease of its connection.
///
/// Reading throws connection_error, exchange_timeout, and std::logic_error if another read is under
/// way.
class streamed {
public:
    streamed(streamed&&) noexcept;
    streamed& operator=(streamed&&) noexcept;
    ~streamed();

    /// Status and fields; the body is empty.
    const response& head() const noexcept;

    /// The next chunk of the body, of any size; nullopt at the end.
    std::optional<std::string> next();
    boost::asio::awaitable<std::optional<std::string>> async_next();
    /// Reads at least one byte into the buffer; returns 0 at the end. The buffer stays valid until
    /// the read has ended. Throws std::invalid_argument if it is empty.
    std::size_t read(std::span<char> into);
    boost::asio::awaitable<std::size_t> async_read(std::span<char> into);

private:
    friend class connection;
    explicit streamed(std::shared_ptr<detail::body> of) noexcept;

    std::shared_ptr<detail::body> body_;
};

/// A connection to a server, opened by a connector.
///
/// Every operation throws
/// - std::invalid_argument for a malformed request, before anything is sent. The connection remains
///   usable.
/// - not_sent, connection_error or exchange_timeout if there was no response. The connection is
///   unusable.
/// - std::logic_error if another operation is under way.
///
/// Awaited operations own their arguments and run on the executor of their coroutine. A coroutine
/// that is canceled (terminally) or destroyed leaves the connection unusable.
///
/// Thread safety: one thread or coroutine at a time, one operation at a time.
class connection {
public:
    connection(connection&&) noexcept;
    connection& operator=(connection&&) noexcept;
    ~connection();

    /// Returns the whole response.
    response send(const request& r);
    boost::asio::awaitable<response> async_send(request r);

    /// Returns when the head of the response has come. The body may have any length.
    streamed stream(const request& r);
    boost::asio::awaitable<streamed> async_stream(request r);

    /// The time limit for the rest of the lease, instead of operation_timeout.
    void set_timeout(std::chrono::nanoseconds time) noexcept;
    /// Whether the connection can take another request: none is under way, and the last response
    /// did not end the connection.
    bool reusable() const noexcept;
    /// The socket; -1 if it is closed. Do not read from it or write to it.
    int native_handle() const noexcept;

private:
    friend struct detail::access;
    explicit connection(std::shared_ptr<detail::channel> made) noexcept;

    std::shared_ptr<detail::channel> channel_;
};

namespace detail {

/// What both connectors share. Copies share their settings.
///
/// Thread safety: may be used from several threads at once.
class connector_base {
public:
    /// Throws std::invalid_argument for inconsistent options, connection_error (final) if a file
    /// for TLS cannot be used.
    explicit connector_base(const options& chosen);

    /// Only checks the connection: HTTP has no sessions. Throws connection_error if it is unusable.
    void reset(connection& c) const;

    /// Whether the connection can be leased: its socket has no unread bytes.
    bool before_acquire(connection& c) const noexcept;
    verdict before_release(connection& c) const noexcept;
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    /// The server, without user and secrets, for people.
    std::string endpoint() const;
    void forsake(connection& c) const noexcept;

protected:
    std::shared_ptr<const settings> settings_;
};

}  // namespace detail

/// Opens connections, for a pool with threads of its own.
class connector : public detail::connector_base {
public:
    /// Throws std::invalid_argument for inconsistent options.
    explicit connector(const options& chosen) : connector_base(chosen) {}
    /// Throws invalid_url.
    explicit connector(std::string_view url) : connector_base(options::from_url(url)) {}

    /// Throws connection_error: transient or final.
    connection open() const;
    /// See options::probe_target. Throws as send() does.
    bool probe(connection& c) const;
    void close(connection& c) const noexcept;
};

/// As connector, for a pool on an executor. Never blocks it: names are looked up on work threads.
class async_connector : public detail::connector_base {
public:
    /// As the constructors of connector.
    explicit async_connector(const options& chosen) : connector_base(chosen) {}
    explicit async_connector(std::string_view url) : connector_base(options::from_url(url)) {}

    /// As the members of connector.
    boost::asio::awaitable<connection> open() const;
    boost::asio::awaitable<bool> probe(connection& c) const;
    boost::asio::awaitable<void> close(connection& c) const;
};

}  // namespace cenote::http
