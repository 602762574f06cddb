// Pools of SQLite connections, used by threads and coroutines.
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/pool.hpp"
#include "cenote/sqlite.hpp"
#include "connector/sqlite_file.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/sums.hpp"

namespace cenote::sqlite {
namespace {

namespace asio = boost::asio;
using support::plenty;
using support::sqlite_file;

constexpr int workers = 30;
constexpr int rounds = 50;

asio::awaitable<void> deposit(pool<connection>& from, int who, std::atomic<int>& wrong) {
    for (int i = 0; i < rounds; ++i) {
        auto lease = co_await from.async_acquire(asio::use_awaitable);
        int nonce = who * rounds + i;
        auto echo = co_await lease->async_execute("SELECT ?", nonce);
        if (echo.scalar<int>() != nonce) ++wrong;
        if (i % 10 == 0) co_await lease->async_execute("UPDATE account SET sum = sum + 1");
        if (i % 17 == 0) co_await lease->async_execute("BEGIN");  // and left so
    }
}

int account_of(pool<connection>& p) {
    return p.with([](connection& c) { return c.execute("SELECT sum FROM account").scalar<int>(); });
}

struct sqlite_pool : testing::Test {
    sqlite_pool() {
        connection c = connector{file.url()}.open();
        c.execute("CREATE TABLE account(sum INTEGER)");
        c.execute("INSERT INTO account VALUES (0)");
    }

    sqlite_file file;
    /// On a busy disk the writes of the other connections may take long.
    std::string url = file.url("?busy_timeout=3min");
    std::atomic<int> wrong{0};
};

TEST_F(sqlite_pool, serves_coroutines_and_threads) {
    pool<connection> five{connector{url}, support::patient(5)};
    asio::io_context io;
    for (int w = 0; w < workers; ++w)
        asio::co_spawn(io, deposit(five, w, wrong),
                       [](const std::exception_ptr& e) { EXPECT_EQ(e, nullptr); });
    std::thread loop([&] { io.run(); });
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 200; ++i) {
                auto lease = five.acquire();
                if (lease->execute("SELECT ?", -t * 1000 - i).scalar<int>() != -t * 1000 - i)
                    ++wrong;
            }
        });
    for (std::thread& t : threads) t.join();
    loop.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(account_of(five), workers * rounds / 10);
    EXPECT_EQ(support::contradiction(five.stats()), "");
    EXPECT_LE(five.stats().opened, 5u);
}

TEST_F(sqlite_pool, works_on_an_executor) {
    asio::io_context io;
    pool<connection> five{io, async_connector{url}, support::patient(5)};
    auto work = [&]() -> asio::awaitable<void> {
        for (int w = 0; w < 3; ++w) co_await deposit(five, w, wrong);
        auto left = co_await five.async_close(plenty, asio::use_awaitable);
        EXPECT_EQ(left, 0u);
    };
    asio::co_spawn(io, work(), [](const std::exception_ptr& e) { EXPECT_EQ(e, nullptr); });
    io.run();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(connector{file.url()}.open().execute("SELECT sum FROM account").scalar<int>(),
              3 * rounds / 10);
}

TEST_F(sqlite_pool, fails_at_once_if_the_file_cannot_be_opened) {
    pool<connection> none{connector{"sqlite:/no/such/folder/x.db"}, support::patient(10)};
    EXPECT_THROW((void)none.acquire(), open_failed_error);
    EXPECT_LE(none.stats().open_failed, 5u);
}

}  // namespace
}  // namespace cenote::sqlite
