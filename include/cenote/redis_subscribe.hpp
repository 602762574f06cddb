// Messages of Redis's channels, as a stream that replaces its connection when it is lost. Library
// cenote::redis.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <source_location>
#include <type_traits>

#include "cenote/listening.hpp"
#include "cenote/options.hpp"
#include "cenote/pool.hpp"
#include "cenote/redis.hpp"

namespace cenote::redis {

/// Where a subscription gets its connection from. Implicitly made from either.
class subscription_source {
public:
    /// A pool, which must outlive the stream. The connection counts for its `max`.
    subscription_source(pool<connection>& within) noexcept : pool_(&within) {}
    /// A pool of its own, with these options, and `max` 1. It ends with the stream, and then waits
    /// for an open that is under way. Throws what the pool's constructor throws.
    subscription_source(const connector& beside,
                        cenote::options settings = {.name = "redis-listen"});

private:
    friend class subscription;
    std::shared_ptr<pool<connection>> own_;  // null: another pool
    pool<connection>* pool_;
};

/// Options of one subscription.
struct subscribe_options {
    /// As listen_options::probe_after. Default 30 s.
    std::chrono::nanoseconds probe_after = std::chrono::seconds{30};
    /// As listen_options::reply_timeout. Default 5 s.
    std::chrono::nanoseconds reply_timeout = std::chrono::seconds{5};
    /// As acquire_options::task. Default "subscribe".
    const char* task = "subscribe";
};

static_assert(std::is_trivially_destructible_v<subscribe_options>);

/// Subscribes to channels.
///
///     cenote::notifications prices = cenote::redis::subscribe(pool, {"eur", "usd"});
///     while (auto n = prices.next()) show(n->channel, n->payload);
///
/// Waits for a connection and for the server. Throws pool_error, connection_error, command_error if
/// the server refuses, and std::invalid_argument for an empty list. The connection is closed at the
/// end of the stream. The stream also ends when it cannot replace a lost connection because its
/// pool was closed.
notifications subscribe(const subscription_source& from, const channel_list& channels,
                        const subscribe_options& how = {},
                        std::source_location at = std::source_location::current());
/// Subscribes to all channels that match one of these patterns (`news.*`), as PSUBSCRIBE does. A
/// message that matches several patterns comes several times.
notifications psubscribe(const subscription_source& from, const channel_list& patterns,
                         const subscribe_options& how = {},
                         std::source_location at = std::source_location::current());

/// Return an awaitable.
boost::asio::awaitable<notifications> async_subscribe(
    const subscription_source& from, const channel_list& channels, subscribe_options how = {},
    std::source_location at = std::source_location::current());
boost::asio::awaitable<notifications> async_psubscribe(
    const subscription_source& from, const channel_list& patterns, subscribe_options how = {},
    std::source_location at = std::source_location::current());

}  // namespace cenote::redis
