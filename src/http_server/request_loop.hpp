// Serves one connection: reads requests, runs the handler, writes responses.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#include "cenote/http_server.hpp"
#include "http_server/connections.hpp"

namespace cenote::http_server {

/// `l` with times of at most a day: `forever` from now would overflow.
limits clamped(limits l);

/// Whether responses of this status have no body: 1xx, 204 and 304.
constexpr bool has_no_body(unsigned status) {
    return status / 100 == 1 || status == 204 || status == 304;
}

/// What all connections of a server share.
struct server_context {
    server_context(handler w, const limits& l, server::error_handler e)
        : work(answering(std::move(w))), within(clamped(l)), on_error(std::move(e)) {}

    const handler work;
    const limits within;
    const server::error_handler on_error;
    const std::shared_ptr<connections> clients = std::make_shared<connections>(within.connections);
    std::atomic<bool> draining{false};
    std::atomic<std::size_t> rejecting{0};  // clients that are being rejected

    /// The size of a connection's read buffer.
    std::size_t buffer_max() const noexcept { return within.header + (std::size_t{16} << 10); }
};

/// Serves a connection that was added to `clients`, and removes it at the end.
boost::asio::awaitable<void> serve(std::shared_ptr<server_context> context,
                                   std::shared_ptr<connection> client);

/// Sends 503 to a client that was not added. The caller has counted it in `rejecting`.
boost::asio::awaitable<void> reject(std::shared_ptr<server_context> context,
                                    std::shared_ptr<connection> client);

}  // namespace cenote::http_server
