// What notifications need of a server and of a pool: implemented by the connectors, the database
// handle and the listener, which brings them together.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "cenote/detail/process.hpp"
#include "cenote/options.hpp"
#include "cenote/pool_control.hpp"

namespace cenote {
struct notification;
}

namespace cenote::listening_detail {

namespace asio = boost::asio;
using instant = std::chrono::steady_clock::time_point;

/// Ends a wait from any thread: a descriptor that is readable while the event is set.
class wake_event {
public:
    /// Throws std::system_error.
    wake_event();
    ~wake_event();
    wake_event(const wake_event&) = delete;
    wake_event& operator=(const wake_event&) = delete;

    void set() noexcept;
    void clear() noexcept;
    bool is_set() const noexcept { return set_.load(std::memory_order_acquire); }
    int descriptor() const noexcept { return descriptor_.load(std::memory_order_relaxed); }
    /// In the child of a fork: a descriptor that the parent does not share. Throws
    /// std::system_error.
    void renew();

private:
    std::atomic<int> descriptor_;
    std::atomic<bool> set_{false};
};

/// What a listener wants to hear.
struct subject {
    std::vector<std::string> channels;
    std::vector<std::string> patterns;
    std::chrono::nanoseconds probe_after;
    std::chrono::nanoseconds reply_timeout;
    const char* task;
};

/// Until when a wait lasts.
struct wait_limit {
    instant until;
    const wake_event* or_until;
};

/// Receives notifications on one connection, which does nothing else meanwhile. Ends before its
/// lease.
class receiver {
public:
    receiver() = default;
    receiver(const receiver&) = delete;
    receiver& operator=(const receiver&) = delete;
    virtual ~receiver() = default;

    /// Throws statement_error if the server refuses, connection_error. First of all, and once.
    virtual void subscribe(std::shared_ptr<const subject> to) = 0;
    virtual asio::awaitable<void> async_subscribe(std::shared_ptr<const subject> to) = 0;
    /// Empty: the limit was reached. Throws connection_error: the connection is lost. An awaited
    /// one that is canceled can be repeated.
    virtual std::optional<notification> receive(wait_limit limit) = 0;
    virtual asio::awaitable<std::optional<notification>> async_receive(wait_limit limit) = 0;
};

/// Where a listener gets its connections from; holds one at a time.
class source {
public:
    source() = default;
    source(const source&) = delete;
    source& operator=(const source&) = delete;
    virtual ~source() = default;

    /// Acquires a connection and subscribes. Throws what these throw, and then holds none.
    virtual void connect(std::shared_ptr<const subject> to, const acquire_options& how) = 0;
    virtual asio::awaitable<void> async_connect(std::shared_ptr<const subject> to,
                                                acquire_options how) = 0;
    /// Null without a connection.
    virtual listening_detail::receiver* receiver() noexcept = 0;
    /// Returns the connection. `why`: the error that has ended it, or null.
    virtual void release(const std::exception_ptr& why) noexcept = 0;
    virtual pool_control control() const = 0;
};

/// A stream of notifications, shared by its handle and what is awaited. Replaces lost connections.
class listener {
public:
    /// Throws std::system_error.
    listener(std::shared_ptr<const subject> to, std::unique_ptr<source> from);
    ~listener();
    listener(const listener&) = delete;
    listener& operator=(const listener&) = delete;

    /// The first connection. Throws what source::connect throws.
    static void open(const std::shared_ptr<listener>& one);
    static asio::awaitable<void> async_open(std::shared_ptr<listener> one);

    static std::optional<notification> next(const std::shared_ptr<listener>& of, instant until,
                                            const std::stop_token& stop);
    static asio::awaitable<std::optional<notification>> async_next(
        std::shared_ptr<listener> of, std::optional<std::chrono::nanoseconds> timeout);

    void stop() noexcept;
    bool stopped() const noexcept { return (state_.load() & ended) != 0; }
    pool_control control() const { return from_->control(); }

    class in_use;
    template <class Mode>
    struct waits;

private:
    /// Bits of the state. The connection belongs to the wait while one is under way, otherwise to
    /// the first call of stop().
    static constexpr std::uint8_t waiting = 1;
    static constexpr std::uint8_t ended = 2;

    acquire_options how_to_acquire(const std::stop_token& stop, instant until) const noexcept;
    void leave_parent();
    void note_lost(const std::exception_ptr& why) noexcept;

    std::shared_ptr<const subject> to_;
    wake_event wake_;
    std::stop_source stopping_;
    std::atomic<std::uint8_t> state_{0};
    std::atomic<cenote::detail::process_number> process_;
    bool away_ = false;  // since the last notification
    std::unique_ptr<source> from_;
};

}  // namespace cenote::listening_detail
