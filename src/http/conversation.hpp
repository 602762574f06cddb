// What is said on one connection: requests in, answers out, within the limits.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#include "cenote/http_server.hpp"
#include "http/connections.hpp"

namespace cenote::http_server {

/// The same, as far as one can reckon with it: `forever` from now is no time.
limits reckonable(limits l);

/// 1xx, 204 and 304.
constexpr bool has_no_body(unsigned status) {
    return status / 100 == 1 || status == 204 || status == 304;
}

/// What all conversations of a server have in common.
struct manners {
    manners(handler w, const limits& l, server::error_handler e)
        : work(std::move(w)), within(reckonable(l)), on_error(std::move(e)) {}

    const handler work;
    const limits within;
    const server::error_handler on_error;
    const std::shared_ptr<connections> all = std::make_shared<connections>(within.connections);
    std::atomic<bool> draining{false};
    std::atomic<std::size_t> turned_away{0};  // who are told so at present

    /// Longer reads are cut in pieces; what was read ahead waits here.
    std::size_t buffer_max() const noexcept { return within.header + (std::size_t{16} << 10); }
};

/// To its end. Has entered, and leaves.
boost::asio::awaitable<void> converse(std::shared_ptr<manners> how,
                                      std::shared_ptr<connection> with);

/// Has not entered: is told that there are too many.
boost::asio::awaitable<void> turn_away(std::shared_ptr<manners> how,
                                       std::shared_ptr<connection> who);

}  // namespace cenote::http_server
