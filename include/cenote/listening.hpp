// Notifications of a server as a stream: PostgreSQL's NOTIFY, with cenote::database::listen, and
// Redis's channels, with cenote::redis::subscribe.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/detail/complete_with.hpp"
#include "cenote/detail/listening.hpp"
#include "cenote/pool_control.hpp"

namespace cenote {

/// What a server has sent to a listener, or that some of it may be missing.
struct notification {
    /// The channel. Empty if `missed` is true.
    std::string channel;
    /// What the sender has attached: any bytes with Redis, a text with PostgreSQL.
    std::string payload;
    /// With Redis: the pattern that the channel has matched. Otherwise empty.
    std::string pattern = {};
    /// The connection was lost and is replaced: notifications that were sent meanwhile are missing.
    /// Such a notification has no channel and no payload. The new connection listened before it was
    /// reported, so what is read from the server now cannot be out of date unnoticed.
    bool missed = false;

    bool operator==(const notification&) const = default;
};

/// The names of channels: one, or a list. Copies them.
///
///     db.listen("orders");
///     db.listen({"orders", "prices"});
class channel_list {
public:
    /// One channel.
    template <class Text>
        requires std::convertible_to<const Text&, std::string_view>
    channel_list(const Text& name) : names_{std::string(std::string_view(name))} {}
    channel_list(std::initializer_list<std::string_view> names)
        : names_(names.begin(), names.end()) {}
    channel_list(std::vector<std::string> names) noexcept : names_(std::move(names)) {}

    /// The names in the order given.
    const std::vector<std::string>& names() const noexcept { return names_; }

private:
    std::vector<std::string> names_;
};

/// Options of one listener.
struct listen_options {
    /// Default false: the connection is in a pool of its own, whose name is that of the database's
    /// pool and `-listen`, and does not count for `max`. If true, it is a connection of the
    /// database's pool, which then has one less for statements: with `max` 1, none at all.
    bool within_max = false;

    /// Default 30 s. After this time without a notification, the next wait asks the server for a
    /// reply, so that a connection which is dead unnoticed is found and replaced. Set it below the
    /// idle timeouts of proxies and firewalls on the route.
    std::chrono::nanoseconds probe_after = std::chrono::seconds{30};

    /// Default 5 s. How long the server may take to reply to that, and to accept the listener. A
    /// later reply counts as a lost connection.
    std::chrono::nanoseconds reply_timeout = std::chrono::seconds{5};

    /// Default "listen". As acquire_options::task.
    const char* task = "listen";
};

// g++ 12 runs non-trivial destructors of temporaries twice in an expression with co_await.
static_assert(std::is_trivially_destructible_v<listen_options>);

/// Notifications in the order in which the server sends them, from a connection that is used for
/// nothing else. Ends when stop() was called or the database was destroyed:
///
///     cenote::notifications orders = db.listen("orders");
///     while (auto n = orders.next()) {
///         if (n->missed) reload_all();
///         else reload(n->payload);
///     }
///
/// A lost connection is replaced during the next wait, for as long as that takes; the pool decides
/// when it tries. The first notification after that has `missed` set.
///
/// A wait throws pool_error if no connection can be had for a reason that does not pass, such as a
/// wrong password (open_failed_error), and statement_error if the server refuses the listener. The
/// next wait tries again.
///
/// Notifications that are not taken wait in the connection, and then on the server; PostgreSQL
/// keeps them for all listeners together, Redis ends the connection.
///
/// Thread safety: stop() and stopped() may be called from any thread at any time. One thread or
/// coroutine at a time may wait. In the child of a fork the first wait gets a connection of the
/// child's own, and reports `missed`.
class [[nodiscard]] notifications {
public:
    /// Has ended.
    notifications() noexcept = default;
    notifications(notifications&&) noexcept = default;
    notifications& operator=(notifications&& other) noexcept;
    /// Stops. An awaited wait that is under way ends.
    ~notifications() { stop(); }

    /// Waits for the next notification. Empty: it has ended.
    std::optional<notification> next();
    /// Also empty after this time, and if the token receives a stop request: stopped() tells these
    /// from the end. The stream can be used further.
    std::optional<notification> next(std::chrono::nanoseconds timeout);
    std::optional<notification> next(const std::stop_token& stop);

    /// Like next. Returns an awaitable, or takes a completion token whose handler gets
    /// (std::exception_ptr, std::optional<notification>). A canceled wait loses no notification.
    ///
    ///     while (auto n = co_await orders.async_next()) reload(n->payload);
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_next(Token&& token = {}) {
        return sql::detail::complete_with(awaited_next({}), std::forward<Token>(token));
    }
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_next_for(std::chrono::nanoseconds timeout, Token&& token = {}) {
        return sql::detail::complete_with(awaited_next(timeout), std::forward<Token>(token));
    }

    /// Ends the stream and returns its connection. A wait that is under way returns empty.
    /// Notifications that were not taken are dropped. Does not wait for the server.
    void stop() noexcept;
    /// Whether it has ended.
    bool stopped() const noexcept;

    /// The pool of its connection. It must not outlive this object. Requires that the object was
    /// not moved from.
    pool_control control() const;

    /// For the library.
    explicit notifications(std::shared_ptr<listening_detail::listener> by) noexcept
        : by_(std::move(by)) {}

private:
    boost::asio::awaitable<std::optional<notification>> awaited_next(
        std::optional<std::chrono::nanoseconds> timeout);

    std::shared_ptr<listening_detail::listener> by_;
};

}  // namespace cenote
