// The orders service as an object: runs from its constructor to stop(), in any program.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <cenote/database.hpp>
#include <cenote/http_server.hpp>
#include <cenote/service.hpp>

namespace orders_service {

struct settings {
    std::string database;  ///< Its URL.
    std::string listen = "127.0.0.1";
    std::uint16_t port = 0;  ///< 0: any.
    std::size_t max = 8;     ///< Connections to the database.
    std::size_t threads = 2;
    /// How long a request waits for a connection before it is refused.
    std::chrono::milliseconds wait{1000};
    cenote::http_server::limits limits = {.connections = 800, .body = std::size_t{64} << 10};
    /// Told about everything that happens in the pool.
    std::vector<std::shared_ptr<cenote::observer>> observers = {};
};

/// The options of the pool behind it: what comes beyond its measure is refused soon, and told when
/// to come again.
cenote::options pool_options(const settings& how);

class running {
public:
    /// Makes the tables, and listens. Throws what the database throws, and
    /// boost::system::system_error if it cannot listen.
    explicit running(const settings& how);
    /// At once, if it was not stopped before.
    ~running();
    running(const running&) = delete;
    running& operator=(const running&) = delete;

    std::uint16_t port() const noexcept { return server_.endpoint().port(); }
    cenote::database& database() noexcept { return db_; }
    cenote::http_server::server_stats stats() const { return server_.stats(); }

    /// From now on /ready says no. For whoever gives others time to notice.
    void announce_end() noexcept { about_.announce_end(); }
    /// Ends it, in this time at most. Returns how many requests were lost: none, if there was time
    /// enough for all.
    std::size_t stop(std::chrono::nanoseconds within);

private:
    void end();

    boost::asio::io_context io_;  // first: the pool behind the database posts to it
    cenote::database db_;
    cenote::service about_;
    cenote::service::entry watched_;
    cenote::http_server::server server_;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> busy_;
    std::vector<std::thread> threads_;
};

}  // namespace orders_service
