// Makes the pool of connections to one server, and acquires from it.
#include "database/server_pool.hpp"

#include <algorithm>

#include "cenote/asio.hpp"

namespace cenote::database_detail {

namespace {

options adapted(options how, const server& to) {
    how.min_size = std::max(how.min_size, to.min_size());
    return how;
}

}  // namespace

server_pool::server_pool(const database_detail::server& to, const options& how)
    : server(to), acquire_timeout(how.acquire_timeout), pool(to, adapted(how, to)) {}

asio::awaitable<connection_lease> server_pool::async_acquire(const call& as) {
    return pool.async_acquire(as.how, asio::use_awaitable, as.site);
}

bool server_pool::has_connections() const {
    cenote::stats now = pool.stats();
    return now.leased + now.idle + now.probing + now.resetting > 0;
}

}  // namespace cenote::database_detail
