// Coroutines run to their end, for tests.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <utility>

namespace support {

/// On a loop of its own; returns or throws what it does.
template <class Result>
Result await(boost::asio::awaitable<Result> what) {
    boost::asio::io_context io;
    auto came_to = boost::asio::co_spawn(io, std::move(what), boost::asio::use_future);
    io.run();
    return came_to.get();
}

}  // namespace support
