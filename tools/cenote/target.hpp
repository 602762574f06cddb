// What a load is run against: an SQL server of whatever kind, and pools of connections to it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>

#include <cenote/options.hpp>
#include <cenote/stats.hpp>

namespace load {

/// What is done with a lease.
struct errand {
    bool writes = false;
    std::int64_t key = 0;             ///< Which row, which side of the book.
    std::chrono::nanoseconds hold{};  ///< How long the lease is kept beyond that.
};

/// When things happened to one lease.
struct moments {
    std::chrono::steady_clock::time_point granted{};
    std::chrono::steady_clock::time_point done{};  ///< By the server.
    std::chrono::steady_clock::time_point released{};
};

/// A pool of connections. All members may be called by any thread.
class target_pool {
public:
    target_pool() = default;
    target_pool(const target_pool&) = delete;
    target_pool& operator=(const target_pool&) = delete;
    virtual ~target_pool() = default;

    /// Acquires, does it, releases. The code says why there was no lease. Throws what the server
    /// says against the statement.
    virtual std::error_code run(const errand& what, std::stop_token stop, moments& when) = 0;
    /// The same, awaited.
    virtual boost::asio::awaitable<std::error_code> async_run(errand what, moments* when) = 0;
    virtual cenote::stats stats() const = 0;
};

/// How many connections a server takes, from everybody together.
struct server_limit {
    std::size_t connections = 0;
    std::size_t in_use = 0;  ///< By others, now.
    std::string said_by;     ///< Where that is set: "max_connections = 100, …".
};

/// A server. While it lives it has a table of its own there, unless it runs the user's statement.
class target {
public:
    target(const target&) = delete;
    target& operator=(const target&) = delete;
    virtual ~target() = default;

    /// Opens the pool's minimum before it returns. Throws what an open fails with.
    virtual std::unique_ptr<target_pool> open(const cenote::options& settings) = 0;
    virtual std::optional<server_limit> limit() = 0;
    /// What it is, for people: without the password.
    const std::string& name() const noexcept { return name_; }
    /// Whether a part of the errands can write.
    bool writes() const noexcept { return writes_; }

protected:
    target(std::string name, bool writes) : name_(std::move(name)), writes_(writes) {}

private:
    std::string name_;
    bool writes_;
};

/// The server a URL names; without one an SQLite file that goes with the target. `statement`: what
/// to run instead of looks at an order book and changes to it; empty: those. Throws
/// command::wrong_arguments for a URL that no server is known for, and what the server says.
std::unique_ptr<target> find_target(const std::string& url, const std::string& statement);

}  // namespace load
