// HTTP servers with Boost.Beast: what the library answers as responses, handlers that are refused
// or undone politely, and a server that is bounded in everything. Library cenote::http_server.
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

using request = boost::beast::http::request<boost::beast::http::string_body>;
using response = boost::beast::http::response<boost::beast::http::string_body>;

/// Answers one request. Called by several threads at once, if the executor has several.
using handler = std::function<boost::asio::awaitable<response>(request)>;

/// The library's answer as a response of Boost.Beast's.
response to_response(const answer& what);

/// The path of a request's target, without its query: "/orders/7" of "/orders/7?full=1", and of
/// "http://host/orders/7" as well. Nothing is decoded.
std::string_view path_of(const request& r) noexcept;
/// What follows the first question mark; empty if there is none.
std::string_view query_of(const request& r) noexcept;

/// For servers of one's own (`server` does it by itself): the same handler, but pool errors and
/// answer_errors become responses, see answer_to(). What else it throws goes on.
handler answering(handler work);

/// A handler that runs in a transaction: begin, `work(transaction&, request)`, commit; rolled back
/// if it throws, whatever that is. `db` is a cenote::database, which must live as long; `how` are
/// its transaction_options, if there are any. Each try is given the same request, which nobody
/// changes, and which is there until the last of them has ended: `work` can take it by reference,
/// and then it is never copied.
template <class Database, class Work, class... How>
handler transactional(Database& db, Work work, How... how) {
    auto kept = std::make_shared<Work>(std::move(work));
    return answering([&db, kept, how...](request r) {
        auto asked = std::make_shared<const request>(std::move(r));
        auto in = [kept, asked](auto& t) { return (*kept)(t, *asked); };
        return db.async_transaction(in, how...);
    });
}

/// What a server bears. Each of them is kept whatever clients do. Times are at most a day, also if
/// they say `forever`.
struct limits {
    /// Connections at a time. If there are as many, whoever has waited longest without a request
    /// has to go, if that is more than a second; then whose body has been coming for longest, if
    /// that is more than two; otherwise the newcomer is told 503.
    std::size_t connections = 1024;
    /// A request line with all fields: 431 beyond.
    std::size_t header = std::size_t{16} << 10;
    /// A request's body: 413 beyond.
    std::size_t body = std::size_t{1} << 20;
    /// From the first byte of a request until its fields have come. Then the connection is dropped.
    std::chrono::nanoseconds header_time = std::chrono::seconds{10};
    /// From then until its body has come.
    std::chrono::nanoseconds body_time = std::chrono::seconds{30};
    /// Until the client has taken an answer.
    std::chrono::nanoseconds answer_time = std::chrono::seconds{30};
    /// Between two requests, and before the first.
    std::chrono::nanoseconds idle_time = std::chrono::seconds{60};
    /// Whoever was told 503 is not heard again before so long after. Clients that come back at once
    /// would take the time in which others can be served: without this, they leave little of it.
    std::chrono::nanoseconds busy_pause = std::chrono::milliseconds{250};
    /// While the server drains: so long an idle client may still begin a request, which was
    /// perhaps on its way already.
    std::chrono::nanoseconds last_call = std::chrono::milliseconds{500};
};

struct server_stats {
    std::size_t connections = 0;  ///< At present.
    std::size_t requests = 0;  ///< In progress: their fields have come, their answer has not gone.
    std::uint64_t accepted = 0;  ///< Connections so far.
    std::uint64_t refused = 0;   ///< Of these, because there were too many.
    std::uint64_t dropped = 0;   ///< Of these, to make room for others.
    std::uint64_t answered = 0;  ///< Requests so far, also malformed ones: the answer has gone.
};

/// An HTTP/1.1 server on an executor of Boost.Asio's, with keep-alive and pipelining; no TLS.
///
///     cenote::http_server::server front{io.get_executor(), {address, 8080}, handle};
///     …
///     co_await front.drain(10s);
///
/// Each connection has a strand of its own. A handler that throws is answered for: see answer_to();
/// everything else is a 500 without a word about it, and goes to `on_error`. So does a response
/// that cannot be sent; 1xx, 204 and 304 go without the body they must not have.
///
/// A body may come in chunks, in HTTP/1.1. Fields that follow them (trailers) are dropped: a
/// handler sees those of the header. Any other Transfer-Encoding is a 400.
///
/// Thread safety: all members may be called from any thread at any time. Its end drops all
/// connections, and waits for nothing: handlers that run keep what was given here, and use it.
/// Whoever has to know that the last one has ended drains the server first. If drain() returns
/// zero, none runs, and none will begin; otherwise stats().requests is zero when they have ended.
class server {
public:
    /// Called with what a handler threw, or with why its response cannot be sent.
    using error_handler = std::function<void(const std::exception_ptr&)>;

    /// Listens from now on. Throws boost::system::system_error if it cannot.
    server(boost::asio::any_io_executor where, const boost::asio::ip::tcp::endpoint& at,
           handler work, const limits& within = {}, error_handler on_error = {});
    server(const server&) = delete;
    server& operator=(const server&) = delete;
    ~server();

    /// Where it listens: with the port that the system has chosen, if that was left to it.
    boost::asio::ip::tcp::endpoint endpoint() const noexcept;

    /// Ends it without losing a request: stops listening, answers whatever has come (and says
    /// `Connection: close`), drops who has nothing to ask, and at the end of its time everybody.
    /// Returns how many requests were still in progress then. Its time is at most an hour.
    boost::asio::awaitable<std::size_t> drain(std::chrono::nanoseconds within);

    server_stats stats() const;

private:
    class state;
    std::shared_ptr<state> state_;
};

}  // namespace cenote::http_server
