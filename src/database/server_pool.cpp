// How the pool of one server is made, and what it is asked for.
#include "database/server_pool.hpp"

#include <algorithm>
#include <utility>

#include "cenote/asio.hpp"

namespace cenote::database_detail {

namespace {

options adapted(options how, const server& to) {
    how.min_size = std::max(how.min_size, to.min_size());
    return how;
}

}  // namespace

server_pool::server_pool(database_detail::server to, options how)
    : server_(std::move(to)),
      acquire_timeout_(how.acquire_timeout),
      pool_(server_, adapted(std::move(how), server_)) {}

asio::awaitable<connection_lease> server_pool::async_acquire(const call& as) {
    return pool_.async_acquire(as.how, asio::use_awaitable, as.site);
}

bool server_pool::has_connections() const {
    cenote::stats now = pool_.stats();
    return now.leased + now.idle + now.probing + now.resetting > 0;
}

}  // namespace cenote::database_detail
