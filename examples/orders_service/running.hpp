// The orders service as an object, which runs from its constructor to stop().
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
    std::string database;  ///< The URL.
    std::string listen = "127.0.0.1";
    std::uint16_t port = 0;  ///< 0: any free port.
    std::size_t max = 8;     ///< Of the pool of connections to the database.
    std::size_t threads = 2;
    /// How long a request waits for a connection.
    std::chrono::milliseconds wait{1000};
    cenote::http_server::limits limits = {.connections = 800, .body = std::size_t{64} << 10};
    /// Of the pool.
    std::vector<std::shared_ptr<cenote::observer>> observers = {};
};

/// The options of the pool: under overload it refuses requests early.
cenote::options pool_options(const settings& how);

class running {
public:
    /// Creates the tables and listens. Throws errors of the database, and
    /// boost::system::system_error if it cannot listen.
    explicit running(const settings& how);
    /// Ends at once, if stop() was not called.
    ~running();
    running(const running&) = delete;
    running& operator=(const running&) = delete;

    std::uint16_t port() const noexcept { return server_.endpoint().port(); }
    cenote::database& database() noexcept { return db_; }
    cenote::http_server::server_stats stats() const { return server_.stats(); }

    /// Makes /ready fail, so that load balancers stop sending requests.
    void announce_end() noexcept { about_.announce_end(); }
    /// Finishes running requests and ends. Returns how many requests were lost after the timeout.
    std::size_t stop(std::chrono::nanoseconds within);

private:
    void end();

    boost::asio::io_context io_;  // before the database, whose pool posts to it
    cenote::database db_;
    cenote::service about_;
    cenote::service::entry watched_;
    cenote::http_server::server server_;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> busy_;
    std::vector<std::thread> threads_;
};

}  // namespace orders_service
