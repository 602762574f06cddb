// Pools of connections to an SQL server on an executor, and after a fork. A `Place` is as in
// postgres_place.hpp.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/pool.hpp"
#include "cenote/server_error.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace pooled {

namespace asio = boost::asio;
using support::plenty;

inline constexpr int workers = 30;
inline constexpr int rounds = 40;

struct tally {
    std::atomic<int> right{0};
    std::atomic<int> wrong{0};
    std::atomic<int> failed{0};
};

template <class Place>
asio::awaitable<void> ask(cenote::pool<typename Place::connection>& from, int who, tally& t) {
    for (int i = 0; i < rounds; ++i) {
        try {
            auto lease = co_await from.async_acquire(asio::use_awaitable);
            int nonce = who * rounds + i;
            if (i % 7 == 0) co_await lease->async_execute("begin");  // and left so
            auto echo = co_await lease->async_execute(Place::echo, nonce);
            ++(echo.template scalar<int>() == nonce ? t.right : t.wrong);
        } catch (const cenote::server_error&) {
            ++t.failed;
        }
    }
}

template <class Pool>
asio::awaitable<void> close(Pool& p, asio::io_context& io) {
    co_await p.async_close(plenty, asio::use_awaitable);
    io.stop();
}

template <class Place>
void serves_coroutines() {
    asio::io_context io;
    cenote::pool<typename Place::connection> five{io, typename Place::async_connector{Place::url()},
                                                  support::patient(5)};
    tally t;
    std::atomic<int> left{workers};
    for (int w = 0; w < workers; ++w)
        asio::co_spawn(io, ask<Place>(five, w, t), [&](const std::exception_ptr& e) {
            EXPECT_EQ(e, nullptr);
            if (--left == 0) asio::co_spawn(io, close(five, io), [](const std::exception_ptr&) {});
        });
    std::thread killer([&] {
        EXPECT_TRUE(support::eventually([&] { return t.right > workers * rounds / 3; }));
        Place::kill_all();
    });
    io.run();
    killer.join();
    EXPECT_EQ(t.wrong, 0);
    EXPECT_LE(t.failed, 5);
    EXPECT_EQ(t.right + t.failed, workers * rounds);
    EXPECT_LE(five.stats().opened, 10u);
}

inline int outcome_of_child(const std::function<void()>& what) {
    pid_t child = ::fork();
    if (child == 0) {
        what();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}

template <class Place>
void fork_leaves_the_parents_connections_alone() {
    using connection = typename Place::connection;
    typename Place::connector to(Place::url());
    connection c = to.open();
    auto backend = support::backend_of(c);
    EXPECT_EQ(outcome_of_child([&] { to.forsake(c); }), 0);
    EXPECT_EQ(support::backend_of(c), backend);
    EXPECT_EQ(outcome_of_child([&] { connection gone = std::move(c); }), 0);
    EXPECT_EQ(support::backend_of(c), backend);
    EXPECT_EQ(outcome_of_child([&] { to.close(c); }), 0);
    EXPECT_EQ(support::backend_of(c), backend);
}

}  // namespace pooled
