// The load of the demo: clients that order, look and pay over HTTP, and count what they were told.
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

/// What the clients were told so far.
struct told {
    std::uint64_t requests = 0;  ///< Answered, in whatever way.
    std::uint64_t ordered = 0;   ///< Of these: orders that were confirmed.
    std::uint64_t refused = 0;   ///< Of these: come again later.
    std::uint64_t unknown = 0;   ///< Of these: orders that may have been stored.
    std::uint64_t failures = 0;  ///< Everything that should not be.
    std::string first_failure{};
    cenote::histogram times{};  ///< Of answered requests.
};

/// Coroutines on two threads of their own, which share a pool of HTTP connections.
class clients {
public:
    /// Each thinks for about `think` between two requests.
    clients(std::uint16_t port, std::size_t count, std::chrono::nanoseconds think);
    /// Stops them, if they have not been.
    ~clients();
    clients(const clients&) = delete;
    clients& operator=(const clients&) = delete;

    /// Each ends when it has the answer to its last request.
    void stop();
    told so_far() const;
    cenote::pool_control pool() const noexcept { return pool_.control(); }

private:
    boost::asio::awaitable<void> client(std::uint32_t number);
    boost::asio::awaitable<void> ask(cenote::http::request what);
    void note(const cenote::http::response& answer, bool orders, std::chrono::nanoseconds took);
    void note_failure(const std::string& what);

    boost::asio::io_context io_;  // first: the pool posts to it
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
