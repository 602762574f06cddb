// Coroutines run to their end, for tests.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <optional>
#include <type_traits>
#include <utility>

namespace support {

template <class T>
boost::asio::awaitable<void> keep(boost::asio::awaitable<T> what, std::optional<T>* into) {
    T result = co_await std::move(what);
    into->emplace(std::move(result));
}

/// Also for a T without a default constructor, which Boost.Asio needs for its future.
template <class T>
T await_on(boost::asio::io_context& loop, boost::asio::awaitable<T> what) {
    auto run = [&](boost::asio::awaitable<void> all) {
        std::future<void> over =
            boost::asio::co_spawn(loop, std::move(all), boost::asio::use_future);
        loop.restart();
        loop.run();
        over.get();
    };
    if constexpr (std::is_void_v<T>) {
        run(std::move(what));
    } else {
        std::optional<T> result;
        run(keep(std::move(what), &result));
        return std::move(*result);
    }
}

/// On a loop of its own. Returns or throws the outcome.
template <class T>
T await(boost::asio::awaitable<T> what) {
    boost::asio::io_context loop;
    return await_on(loop, std::move(what));
}

}  // namespace support
