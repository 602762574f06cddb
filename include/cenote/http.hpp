// HTTP/1.1: connections to one server that are kept alive, one request at a time. Library
// cenote::http.
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

/// No part of the request can have reached the server, so it may be sent again, whatever it asks
/// for. This is how it usually ends if the server hangs up on an idle connection just then. After
/// any other connection_error the server may have done what it was asked to.
class not_sent : public connection_error {
public:
    explicit not_sent(const std::string& what, int code = 0)
        : connection_error(error_kind::connection, what, {}, code) {}
};

/// The fields of a message's head, in order. Upper and lower case are the same in names; there may
/// be several of one name.
class headers {
public:
    struct field {
        std::string name;
        std::string value;
        bool operator==(const field&) const = default;
    };

    /// The first of this name.
    std::optional<std::string_view> find(std::string_view name) const noexcept;
    bool contains(std::string_view name) const noexcept { return find(name).has_value(); }
    /// All of this name.
    std::vector<std::string_view> all(std::string_view name) const;

    void add(std::string name, std::string value);
    /// Instead of all of this name.
    void set(std::string_view name, std::string value);

    auto begin() const noexcept { return fields_.begin(); }
    auto end() const noexcept { return fields_.end(); }
    std::size_t size() const noexcept { return fields_.size(); }
    bool empty() const noexcept { return fields_.empty(); }
    bool operator==(const headers&) const = default;

private:
    std::vector<field> fields_;
};

/// What is asked for. Content-Length, Transfer-Encoding, Host, Connection and what else is about
/// the connection and not about the request are not for requests to say; User-Agent and
/// Authorization take the place of what the connector would send. (No aggregate: g++ 12 destroys
/// those twice in the middle of a co_await.)
struct request {
    request() = default;
    explicit request(std::string asked_method, std::string asked_target = "/",
                     std::string sent_body = {})
        : method(std::move(asked_method)),
          target(std::move(asked_target)),
          body(std::move(sent_body)) {}

    /// The same with one more field: `get("/").with("Accept", "text/plain")`.
    request&& with(std::string name, std::string value) && {
        headers.add(std::move(name), std::move(value));
        return std::move(*this);
    }

    std::string method = "GET";
    std::string target = "/";  ///< Path and query, percent-encoded where they have to be.
    http::headers headers;
    std::string body;
};

inline request get(std::string target) { return request("GET", std::move(target)); }
inline request head(std::string target) { return request("HEAD", std::move(target)); }
inline request put(std::string target, std::string body) {
    return request("PUT", std::move(target), std::move(body));
}
inline request post(std::string target, std::string body) {
    return request("POST", std::move(target), std::move(body));
}

/// What the server answered. Also "not found" and "internal error" are answers.
struct response {
    int status = 0;
    std::string reason;  ///< For people.
    http::headers headers;
    std::string body;  ///< As it was sent, without chunks; compressed if that was asked for.
};

struct options {
    std::string host = "localhost";  ///< A name, an address, or the path of a Unix socket.
    std::uint16_t port = 0;          ///< 0: 80, with TLS 443.
    bool secure = false;             ///< With TLS: https.
    tls_options tls;
    std::string user;  ///< With the password in each request, as Authorization: Basic.
    secret password;
    std::string user_agent = "cenote";
    /// Until the connection is made, the TLS handshake included.
    std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
    /// Until an answer is there; when streaming, until the next piece of it is.
    std::chrono::nanoseconds operation_timeout = std::chrono::seconds(30);
    std::size_t max_header = std::size_t{64} << 10;  ///< Of an answer's head, in bytes.
    std::size_t max_body = std::size_t{64} << 20;    ///< Of an answer that is not streamed.
    /// What a probe asks for; its status must be less than 500. Empty: a probe only looks at the
    /// socket.
    std::string probe_target;

    /// `https://user:password@host:port?key=value`; the guide has all keys. Throws invalid_url.
    static options from_url(std::string_view url);
};

namespace detail {
class link;
class body;
struct settings;
struct maker;
}  // namespace detail

/// An answer whose body is read piece by piece. Its connection can be used again when it has been
/// read to its end; if that does not come about, the connection is closed, not lent again. Must not
/// outlive the lease of its connection.
class streamed {
public:
    streamed(streamed&&) noexcept;
    streamed& operator=(streamed&&) noexcept;
    ~streamed();

    /// Status and fields; the body is empty.
    const response& head() const noexcept;

    /// The next piece, as long as the server pleased to send. Nothing: that was all.
    std::optional<std::string> next();
    boost::asio::awaitable<std::optional<std::string>> async_next();
    /// At least one byte, 0 at the end. `into` must not be empty, and live until it has ended.
    std::size_t read(std::span<char> into);
    boost::asio::awaitable<std::size_t> async_read(std::span<char> into);

private:
    friend class connection;
    explicit streamed(std::shared_ptr<detail::body> of) noexcept;

    std::shared_ptr<detail::body> body_;
};

/// A connection to a server. Made by a connector.
///
/// All that can be asked for: std::invalid_argument before anything is sent if the request is no
/// proper one; not_sent, connection_error and exchange_timeout if there was no answer, after which
/// the connection cannot be used any more; std::logic_error if it is in the middle of something
/// else. Awaited forms own what they were given, run on the executor of whoever awaits them, and
/// can be cancelled (terminally), which the connection does not survive.
///
/// Thread safety: one connection belongs to one thread or coroutine at a time.
class connection {
public:
    connection(connection&&) noexcept;
    connection& operator=(connection&&) noexcept;
    ~connection();

    /// The whole answer.
    response send(const request& asked);
    boost::asio::awaitable<response> async_send(request asked);

    /// Its head, and the body as it comes, however large.
    streamed stream(const request& asked);
    boost::asio::awaitable<streamed> async_stream(request asked);

    /// Instead of options::operation_timeout, until the lease ends.
    void set_timeout(std::chrono::nanoseconds time) noexcept;
    /// Whether another request can be made: it is in the middle of nothing, and the server has not
    /// said that it will hang up.
    bool reusable() const noexcept;
    /// The socket; -1 if it is closed.
    int native_handle() const noexcept;

private:
    friend struct detail::maker;
    explicit connection(std::shared_ptr<detail::link> made) noexcept;

    std::shared_ptr<detail::link> link_;
};

namespace detail {

/// What the two kinds of connectors have in common.
class connector_base {
public:
    /// Throws connection_error (final) if the files for TLS cannot be used.
    explicit connector_base(const options& chosen);

    /// There is nothing to be reset: HTTP has no sessions. Throws if it is not usable.
    void reset(connection& c) const;

    bool before_acquire(connection& c) const noexcept;
    verdict before_release(connection& c) const noexcept;
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    void forsake(connection& c) const noexcept;

protected:
    std::shared_ptr<const settings> settings_;
};

}  // namespace detail

/// Opens connections, for pools whose connector calls block. Copies share what they were made from.
class connector : public detail::connector_base {
public:
    explicit connector(const options& chosen) : connector_base(chosen) {}
    /// Throws invalid_url.
    explicit connector(std::string_view url) : connector_base(options::from_url(url)) {}

    connection open() const;
    bool probe(connection& c) const;
    void close(connection& c) const noexcept;
};

/// The same for pools on an executor.
class async_connector : public detail::connector_base {
public:
    explicit async_connector(const options& chosen) : connector_base(chosen) {}
    explicit async_connector(std::string_view url) : connector_base(options::from_url(url)) {}

    boost::asio::awaitable<connection> open() const;
    boost::asio::awaitable<bool> probe(connection& c) const;
    boost::asio::awaitable<void> close(connection& c) const;
};

}  // namespace cenote::http
