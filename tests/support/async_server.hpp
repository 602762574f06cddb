// An asynchronous connector to the fake server, with a configurable delay for each call.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>

#include "support/server.hpp"

namespace support {

/// How long each call of an async_connector takes.
struct slowness {
    std::chrono::nanoseconds open{};
    std::chrono::nanoseconds probe{};
    std::chrono::nanoseconds reset{};
    std::chrono::nanoseconds close{};
    bool stubborn = false;  // ignores cancellation
};

inline boost::asio::awaitable<void> take(std::chrono::nanoseconds time, bool stubborn) {
    namespace asio = boost::asio;
    if (stubborn) co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    asio::steady_timer timer(co_await asio::this_coro::executor, time);
    co_await timer.async_wait(asio::use_awaitable);
}

struct async_connector {
    std::shared_ptr<server> to;
    std::shared_ptr<slowness> slow = std::make_shared<slowness>();

    boost::asio::awaitable<session> open() {
        co_await take(slow->open, slow->stubborn);
        co_return to->open();
    }
    boost::asio::awaitable<bool> probe(session& s) {
        co_await take(slow->probe, slow->stubborn);
        co_return to->probe(s);
    }
    boost::asio::awaitable<void> reset(session& s) {
        co_await take(slow->reset, slow->stubborn);
        if (!to->reset(s)) throw refused_by_server("not reset");
    }
    boost::asio::awaitable<void> close(session& s) {
        co_await take(slow->close, slow->stubborn);
        to->close(s);
    }
};

}  // namespace support
