// The servers that cenote bench and cenote size measure, and pools of connections to them.
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

namespace CLI {
class App;
}

namespace load {

/// What a client does with a lease.
struct operation {
    bool writes = false;
    std::int64_t key = 0;             ///< Selects the row or the side of the order book.
    std::chrono::nanoseconds hold{};  ///< How long the lease is kept after the statement.
};

struct timestamps {
    std::chrono::steady_clock::time_point granted{};
    std::chrono::steady_clock::time_point done{};  ///< The statement has returned.
    std::chrono::steady_clock::time_point released{};
};

/// A pool of connections. Thread-safe.
class target_pool {
public:
    target_pool() = default;
    target_pool(const target_pool&) = delete;
    target_pool& operator=(const target_pool&) = delete;
    virtual ~target_pool() = default;

    /// Acquires a lease, runs the operation and releases. Returns an error if the acquire failed;
    /// throws if the statement failed.
    virtual std::error_code run(const operation& what, std::stop_token stop, timestamps& when) = 0;
    virtual boost::asio::awaitable<std::error_code> async_run(operation what, timestamps* when) = 0;
    virtual cenote::stats stats() const = 0;
};

/// How many connections a server accepts from all clients together.
struct server_limit {
    std::size_t connections = 0;
    std::size_t in_use = 0;  ///< By other clients, now.
    std::string said_by;     ///< The setting: "max_connections 100 less 3 reserved".
};

/// A server. Unless it runs the user's statement, it has a temporary table there.
class target {
public:
    target(const target&) = delete;
    target& operator=(const target&) = delete;
    virtual ~target() = default;

    /// Returns when min_size connections are open. Throws the error of a failed open.
    virtual std::unique_ptr<target_pool> open(const cenote::options& settings) = 0;
    virtual std::optional<server_limit> limit() = 0;
    /// The URL without the password, or a description.
    const std::string& name() const noexcept { return name_; }
    /// Whether operations can write.
    bool writes() const noexcept { return writes_; }

protected:
    target(std::string name, bool writes) : name_(std::move(name)), writes_(writes) {}

private:
    std::string name_;
    bool writes_;
};

/// The server of a URL; a temporary SQLite file if the URL is empty. `statement` replaces the reads
/// and writes of an order book. Throws command::wrong_arguments for an unsupported URL scheme, and
/// the server's errors.
std::unique_ptr<target> find_target(const std::string& url, const std::string& statement);

/// Adds the argument url and the options --mix and --statement.
void add_target(CLI::App& subcommand, std::string& url, std::string& statement, double& writes);

}  // namespace load
