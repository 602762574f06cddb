// The pool of connections to one server of a database.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>

#include "cenote/database.hpp"
#include "cenote/lease.hpp"
#include "cenote/pool.hpp"
#include "database/server.hpp"

namespace cenote::database_detail {

using connection_lease = lease<any_connection>;

/// A pool, and what it does not tell of itself.
struct server_pool {
    server_pool(const database_detail::server& to, const options& how);

    connection_lease acquire(const call& as) { return pool.acquire(as.how, as.site); }
    asio::awaitable<connection_lease> async_acquire(const call& as);
    /// Whether any connection to the server is open.
    bool has_connections() const;

    database_detail::server server;
    std::chrono::nanoseconds acquire_timeout;  // of calls that set none
    cenote::pool<any_connection> pool;
};

}  // namespace cenote::database_detail
