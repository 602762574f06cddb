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

class server_pool {
public:
    server_pool(database_detail::server to, options how);

    connection_lease acquire(const call& as) { return pool_.acquire(as.how, as.site); }
    asio::awaitable<connection_lease> async_acquire(const call& as);
    /// Of calls that set none.
    std::chrono::nanoseconds acquire_timeout() const noexcept { return acquire_timeout_; }

    database_detail::server& server() noexcept { return server_; }
    /// Whether any connection to the server is open.
    bool has_connections() const;
    cenote::stats stats() const { return pool_.stats(); }
    pool_control control() const noexcept { return pool_.control(); }
    /// Refuses acquires from now on. Leases stay valid.
    void close() noexcept { pool_.close(); }

private:
    database_detail::server server_;
    std::chrono::nanoseconds acquire_timeout_;
    pool<any_connection> pool_;
};

}  // namespace cenote::database_detail
