// Coroutines run to their end, for tests.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <optional>
#include <type_traits>
#include <utility>

namespace support {

/// For results that nobody can make: co_spawn wants to.
template <class Result>
boost::asio::awaitable<void> store(std::optional<Result>* to, boost::asio::awaitable<Result> what) {
    to->emplace(co_await std::move(what));
}

/// On a loop of its own; returns or throws what it does.
template <class Result>
Result await(boost::asio::awaitable<Result> what) {
    boost::asio::io_context io;
    if constexpr (std::is_void_v<Result>) {
        auto came_to = boost::asio::co_spawn(io, std::move(what), boost::asio::use_future);
        io.run();
        came_to.get();
    } else {
        std::optional<Result> got;
        auto stored =
            boost::asio::co_spawn(io, store(&got, std::move(what)), boost::asio::use_future);
        io.run();
        stored.get();
        return std::move(*got);
    }
}

}  // namespace support
