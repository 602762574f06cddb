// Calls whose server sends without end: they end at their deadline or at their limit, and let the
// event loop run other handlers.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "cenote/server_error.hpp"
#include "connector/awaiting.hpp"
#include "support/clock.hpp"
#include "support/flooding_server.hpp"
#include "support/patience.hpp"

namespace support {

/// More than the system buffers between two sockets, which is about 10 MiB.
inline constexpr std::size_t on_the_way = std::size_t{24} << 20U;
/// More than is ever buffered: a server that has sent this much has a client that reads.
inline constexpr std::size_t a_lot = std::size_t{16} << 20U;

/// A call that would never end, with a timeout of a second. The clock stands still until the server
/// has sent a lot, so nothing before that is caused by the timeout.
template <class Call>
void expect_in_time(const flooding_server& server, Call&& call,
                    std::chrono::nanoseconds timeout = std::chrono::seconds{1}) {
    stopped_clock time;
    const std::size_t before = server.sent();
    std::atomic<bool> over{false};
    std::thread caller([&] {
        EXPECT_THROW(call(), cenote::exchange_timeout);
        over = true;
    });
    EXPECT_TRUE(eventually([&] { return over || server.sent() > before + a_lot; }));
    EXPECT_FALSE(over);
    time.advance(timeout);
    EXPECT_TRUE(eventually([&] { return over.load(); }));
    caller.join();
    EXPECT_TRUE(eventually([&] { return server.present() == 0; }));
}

/// A call whose reply has a limit: it ends there, while the clock stands still.
template <class Call>
void expect_in_bounds(const flooding_server& server, std::size_t limit, const std::string& reason,
                      Call&& call) {
    stopped_clock time;
    const std::size_t before = server.sent();
    try {
        call();
        ADD_FAILURE() << "a reply without end has ended";
    } catch (const cenote::exchange_timeout& e) {
        ADD_FAILURE() << e.what();
    } catch (const cenote::connection_error& e) {
        EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
    }
    EXPECT_LT(server.sent() - before, limit + on_the_way);
}

/// Posts handlers to the loop, one after the other, until it is stopped; counts their turns.
class others_on_the_loop {
public:
    explicit others_on_the_loop(boost::asio::io_context& loop) : loop_(loop) { run(); }
    void stop() { stopped_ = true; }
    int turns() const { return turns_; }

private:
    void run() {
        boost::asio::post(loop_, [this] {
            ++turns_;
            if (!stopped_) run();
        });
    }

    boost::asio::io_context& loop_;
    int turns_ = 0;
    bool stopped_ = false;
};

/// A call on this loop that fails when it has read `limit` bytes. Another handler must have had a
/// turn at least once for each 128 KiB.
template <class Call>
void expect_turns(boost::asio::io_context& loop, std::size_t limit, Call call) {
    others_on_the_loop others(loop);
    auto all = [](Call one, others_on_the_loop* them) -> boost::asio::awaitable<bool> {
        bool refused = false;
        try {
            co_await one();
        } catch (const cenote::connection_error&) {
            refused = true;
        }
        them->stop();
        co_return refused;
    };
    EXPECT_TRUE(await_on(loop, all(call, &others)));
    EXPECT_GT(others.turns(), static_cast<int>(limit >> 17U));
}

}  // namespace support
