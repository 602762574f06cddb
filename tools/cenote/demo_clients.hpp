// The load of the demo: HTTP clients that create, read and pay orders, and count the responses.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <cenote/http.hpp>
#include <cenote/pool.hpp>
#include <cenote/stats.hpp>

namespace demo {

/// Counts the responses so far.
struct responses {
    std::uint64_t requests = 0;  ///< Requests with any response.
    std::uint64_t ordered = 0;   ///< Confirmed orders.
    std::uint64_t refused = 0;   ///< 503 with Retry-After.
    std::uint64_t unknown = 0;   ///< Orders that may or may not be stored.
    std::uint64_t failures = 0;  ///< Exceptions and unexpected responses.
    std::string first_failure{};
    cenote::histogram times{};
};

/// Coroutines on two threads, with a shared pool of HTTP connections.
class clients {
public:
    /// Each pauses for about `think` between two requests.
    clients(std::uint16_t port, std::size_t count, std::chrono::nanoseconds think);
    ~clients();
    clients(const clients&) = delete;
    clients& operator=(const clients&) = delete;

    /// Returns when each client has the response to its last request.
    void stop();
    responses so_far() const;
    cenote::pool_control pool() const noexcept { return pool_.control(); }

private:
    boost::asio::awaitable<void> client(std::uint32_t number);
    boost::asio::awaitable<void> send(cenote::http::request what);
    void record(const cenote::http::response& response, bool orders, std::chrono::nanoseconds took);
    void record_failure(const std::string& what);

    boost::asio::io_context io_;  // first: it must outlive the pool, which posts to it
    cenote::pool<cenote::http::connection> pool_;
    std::chrono::nanoseconds think_;
    std::atomic<bool> over_{false};
    std::atomic<std::uint64_t> requests_{0}, ordered_{0}, refused_{0}, unknown_{0};
    std::array<std::atomic<std::uint64_t>, cenote::histogram::bucket_count> times_{};
    mutable std::mutex mutex_;
    std::uint64_t failures_ = 0;
    std::string first_failure_;
    std::vector<std::thread> threads_;
};

}  // namespace demo
