// Pools of PostgreSQL connections on an executor, and what a fork does to them.
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "support/patience.hpp"
#include "support/sums.hpp"

namespace cenote::postgres {
namespace {

namespace asio = boost::asio;
using support::backend_of;
using support::plenty;
using support::postgres_url;
using support::the_postgres;

constexpr int workers = 30;
constexpr int rounds = 40;

struct tally {
    std::atomic<int> right{0};
    std::atomic<int> wrong{0};
    std::atomic<int> failed{0};
};

asio::awaitable<void> ask(pool<connection>& from, int who, tally& t) {
    for (int i = 0; i < rounds; ++i) {
        try {
            auto lease = co_await from.async_acquire(asio::use_awaitable);
            int nonce = who * rounds + i;
            if (i % 7 == 0) co_await lease->async_execute("begin");  // and left so
            auto echo = co_await lease->async_execute("select $1::int8", nonce);
            ++(echo.scalar<int>() == nonce ? t.right : t.wrong);
        } catch (const server_error&) {
            ++t.failed;
        }
    }
}

asio::awaitable<void> close(pool<connection>& p, asio::io_context& io) {
    co_await p.async_close(plenty, asio::use_awaitable);
    io.stop();
}

TEST(postgres_pool_on_an_executor, serves_coroutines) {
    asio::io_context io;
    pool<connection> five{
        io, async_connector{postgres_url()}, {.max = 5, .acquire_timeout = plenty}};
    tally t;
    std::atomic<int> left{workers};
    for (int w = 0; w < workers; ++w)
        asio::co_spawn(io, ask(five, w, t), [&](const std::exception_ptr& e) {
            EXPECT_EQ(e, nullptr);
            if (--left == 0) asio::co_spawn(io, close(five, io), [](const std::exception_ptr&) {});
        });
    std::thread killer([&] {
        EXPECT_TRUE(support::eventually([&] { return t.right > workers * rounds / 3; }));
        the_postgres().kill_backends();
    });
    io.run();
    killer.join();
    EXPECT_EQ(t.wrong, 0);
    EXPECT_LE(t.failed, 5);
    EXPECT_EQ(t.right + t.failed, workers * rounds);
    EXPECT_LE(five.stats().opened, 10u);
}

TEST(postgres_behind_pgbouncer, works) {
    support::pgbouncer_server bouncer(the_postgres());
    connector to(postgres_url(bouncer.port()));
    pool<connection> two{to, {.max = 2, .acquire_timeout = plenty}};
    for (int i = 0; i < 20; ++i)
        two.with(
            [&](connection& c) { EXPECT_EQ(c.execute("select $1::int8", i).scalar<int>(), i); });
    EXPECT_EQ(two.stats().opened, 1u);
    EXPECT_THROW(connector{postgres_url(bouncer.port(), "role=clerk")}.open(), connection_error);
}

int outcome_of_child(const std::function<void()>& what) {
    pid_t child = ::fork();
    if (child == 0) {
        what();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}

TEST(postgres_fork, leaves_the_parents_connections_alone) {
    connector to(postgres_url());
    connection c = to.open();
    int backend = backend_of(c);
    EXPECT_EQ(outcome_of_child([&] { to.forsake(c); }), 0);
    EXPECT_EQ(backend_of(c), backend);
    EXPECT_EQ(outcome_of_child([&] { connection gone = std::move(c); }), 0);
    EXPECT_EQ(backend_of(c), backend);
    EXPECT_EQ(outcome_of_child([&] { to.close(c); }), 0);
    EXPECT_EQ(backend_of(c), backend);
}

}  // namespace
}  // namespace cenote::postgres
