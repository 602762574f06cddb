// Pools of MariaDB connections on an executor, and what a fork does to them.
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
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
#include "connector/mariadb_place.hpp"
#include "support/patience.hpp"
#include "support/sums.hpp"

namespace cenote::mariadb {
namespace {

namespace asio = boost::asio;
using support::backend_of;
using support::mariadb_url;
using support::plenty;
using support::the_mariadb;

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
            auto echo = co_await lease->async_execute("select ?", nonce);
            ++(echo.scalar<int>() == nonce ? t.right : t.wrong);
        } catch (const server_error&) {
            ++t.failed;
        }
    }
}

TEST(mariadb_pool_on_an_executor, serves_coroutines) {
    asio::io_context io;
    pool<connection> five{
        io, async_connector{mariadb_url()}, {.max = 5, .acquire_timeout = plenty}};
    tally t;
    std::atomic<int> left{workers};
    for (int w = 0; w < workers; ++w)
        asio::co_spawn(io, ask(five, w, t), [&](const std::exception_ptr& e) {
            EXPECT_EQ(e, nullptr);
            if (--left == 0) io.stop();
        });
    std::thread killer([&] {
        EXPECT_TRUE(support::eventually([&] { return t.right > workers * rounds / 3; }));
        the_mariadb().execute_as_admin("kill user app", "mysql");
    });
    io.run();
    killer.join();
    EXPECT_EQ(t.wrong, 0);
    EXPECT_LE(t.failed, 5);
    EXPECT_EQ(t.right + t.failed, workers * rounds);
    EXPECT_LE(five.stats().opened, 10u);
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

TEST(mariadb_fork, leaves_the_parents_connections_alone) {
    connector to(mariadb_url());
    connection c = to.open();
    std::uint64_t backend = backend_of(c);
    EXPECT_EQ(outcome_of_child([&] { to.forsake(c); }), 0);
    EXPECT_EQ(backend_of(c), backend);
    EXPECT_EQ(outcome_of_child([&] { connection gone = std::move(c); }), 0);
    EXPECT_EQ(backend_of(c), backend);
    EXPECT_EQ(outcome_of_child([&] { to.close(c); }), 0);
    EXPECT_EQ(backend_of(c), backend);
}

}  // namespace
}  // namespace cenote::mariadb
