// Listeners of a database: the pool of their connections, and how they end with the database.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <source_location>
#include <stop_token>

#include "cenote/database.hpp"
#include "cenote/listening.hpp"
#include "database/server_pool.hpp"

namespace cenote::database_detail {

using server_pool_ptr = std::shared_ptr<server_pool>;

/// A pool beside that of the statements, with as many places as there are listeners.
class listen_pool {
public:
    explicit listen_pool(const server_pool& beside);

    cenote::pool<any_connection>& connections() noexcept { return pool_.pool; }
    void add();
    void remove() noexcept;

private:
    server_pool pool_;
    std::mutex mutex_;
    std::size_t listeners_ = 0;
};

/// The listeners of one database.
class listeners {
public:
    /// Throws std::invalid_argument for servers without notifications.
    std::shared_ptr<listening_detail::listener> make(const server_pool_ptr& primary,
                                                     const channel_list& channels,
                                                     const listen_options& how,
                                                     std::source_location at);
    /// Ends all of them. Later ones find a closed pool.
    void stop() noexcept;

private:
    std::shared_ptr<listen_pool> beside(const server_pool& primary);

    std::stop_source ending_;
    std::mutex mutex_;
    /// Since the first of them, and for as long as the database: its end may wait for an open,
    /// which the end of a listener in a coroutine must not.
    std::shared_ptr<listen_pool> beside_;
};

}  // namespace cenote::database_detail
