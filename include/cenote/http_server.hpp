// An HTTP/1.1 server with limits for everything, and helpers for handlers with Boost.Beast. Link
// cenote::http_server.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cenote/service.hpp"

namespace cenote::http_server {

/// The messages of Boost.Beast, with their bodies as strings.
using request = boost::beast::http::request<boost::beast::http::string_body>;
using response = boost::beast::http::response<boost::beast::http::string_body>;

/// Handles one request. Called by several threads at once if the executor has several.
using handler = std::function<boost::asio::awaitable<response>(request)>;

/// Converts an answer. Throws std::invalid_argument if its status is above 999 or negative.
response to_response(const answer& what);

/// The path of a request's target, without the query and not decoded: "/orders/7" for
/// "/orders/7?full=1" and for "http://host/orders/7".
std::string_view path_of(const request& r) noexcept;
/// The query of a request's target, without the question mark; may be empty.
std::string_view query_of(const request& r) noexcept;

/// Wraps a handler so that pool errors and answer_errors become responses, see answer_to(). Other
/// exceptions pass through. For servers other than `server`, which does the same itself.
handler answering(handler work);

/// A handler that runs in a transaction: begin, `work(transaction&, request)`, commit. Any
/// exception rolls back. `db`: a cenote::database, which must outlive the handler. `how`:
/// transaction_options, if any.
///
/// All tries get the same request by const reference, valid until the last try ends: take it by
/// reference to avoid copies.
template <class Database, class Work, class... How>
handler transactional(Database& db, Work work, How... how) {
    auto kept = std::make_shared<Work>(std::move(work));
    return answering([&db, kept, how...](request r) {
        auto shared = std::make_shared<const request>(std::move(r));
        auto in = [kept, shared](auto& t) { return (*kept)(t, *shared); };
        return db.async_transaction(in, how...);
    });
}

/// Limits the server enforces regardless of client behavior. Times of more than a day, like
/// `forever`, mean a day.
struct limits {
    /// Default 1024. The maximum number of connections. At the maximum, a new client replaces the
    /// longest-idle connection, if idle for a second; else the connection that has been sending a
    /// request for longest, if for two seconds; else the new client gets 503. Each needs a
    /// descriptor, and memory for a header, a body and a response.
    std::size_t connections = 1024;
    /// Default 16 KiB. The maximum size of a request line with all fields; 431 beyond. Raise it for
    /// large cookies.
    std::size_t header = std::size_t{16} << 10;
    /// Default 1 MiB. The maximum size of a request's body; 413 beyond. Bodies are held in memory.
    std::size_t body = std::size_t{1} << 20;
    /// Default 10 s. From the first byte of a request until its header is complete; then the
    /// connection is dropped. Raise it for very slow networks.
    std::chrono::nanoseconds header_time = std::chrono::seconds{10};
    /// Default 30 s. From the complete header until the body is complete. Raise it with `body`.
    std::chrono::nanoseconds body_time = std::chrono::seconds{30};
    /// Default 30 s. How long a client may take to read a response. Raise it for large responses.
    std::chrono::nanoseconds answer_time = std::chrono::seconds{30};
    /// Default 60 s. How long a connection is kept between two requests, and before the first.
    std::chrono::nanoseconds idle_time = std::chrono::seconds{60};
    /// Default 250 ms. The pause after a 503, before the next request of the connection is read.
    /// Zero lets clients that retry at once use most of the processor time.
    std::chrono::nanoseconds busy_pause = std::chrono::milliseconds{250};
    /// Default 500 ms. While draining: how long idle connections stay open for requests that are
    /// already on their way. Raise it for clients with longer round trips.
    std::chrono::nanoseconds last_call = std::chrono::milliseconds{500};
};

/// Counts of a server. One call of server::stats() is consistent.
struct server_stats {
    std::size_t connections = 0;  ///< Open now.
    std::size_t requests = 0;     ///< In progress now: from the complete header to the response.
    std::uint64_t accepted = 0;   ///< All connections so far.
    std::uint64_t refused = 0;    ///< Connections refused because of the maximum.
    std::uint64_t dropped = 0;    ///< Connections dropped in favor of new ones.
    std::uint64_t answered = 0;   ///< Responses sent, including those to malformed requests.
};

/// An HTTP/1.1 server on an executor of Boost.Asio, with keep-alive and pipelining. There is no
/// TLS: put a proxy in front.
///
///     cenote::http_server::server front{io.get_executor(), {address, 8080}, handle};
///     co_await front.drain(10s);
///
/// Each connection has its own strand. A handler's exception becomes the response of answer_to();
/// any other exception is passed to `on_error` and answered with 500, without its text. So is a
/// response that cannot be sent. Bodies of 1xx, 204 and 304 responses are dropped. The server does
/// not limit the time of handlers.
///
/// Requests may be chunked; trailers are dropped. Any other Transfer-Encoding is answered with 400.
///
/// Thread safety: all members may be called from any thread at any time.
class server {
public:
    /// Called with the exception of a handler, or with the reason why its response cannot be sent.
    /// Called by several threads at once. What it throws is ignored.
    using error_handler = std::function<void(const std::exception_ptr&)>;

    /// Listens and serves on `executor`. Throws boost::system::system_error if it cannot listen.
    server(boost::asio::any_io_executor executor, const boost::asio::ip::tcp::endpoint& at,
           handler work, const limits& within = {}, error_handler on_error = {});
    server(const server&) = delete;
    server& operator=(const server&) = delete;
    /// Closes the listener and all connections, without waiting. Running handlers continue and keep
    /// `work` and `on_error` alive. To know when the last one has ended, call drain() before: none
    /// runs if it returns zero; otherwise wait until stats().requests is zero.
    ~server();

    /// The address it listens on; with the port chosen by the system, if `at` left it open.
    boost::asio::ip::tcp::endpoint endpoint() const noexcept;

    /// Ends the server without losing requests: stops listening, answers all received requests with
    /// `Connection: close`, then closes idle connections, and after `within` (at most an hour) all
    /// others. Returns how many requests were then still in progress.
    boost::asio::awaitable<std::size_t> drain(std::chrono::nanoseconds within);

    /// The present counts.
    server_stats stats() const;

private:
    class state;
    std::shared_ptr<state> state_;
};

}  // namespace cenote::http_server
