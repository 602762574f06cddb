// MariaDB: an abandoned statement is stopped on the server, and no other one is.
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/mariadb.hpp"
#include "cenote/pool.hpp"
#include "connector/mariadb_place.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::mariadb {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::eventually;
using support::mariadb_url;
using support::the_mariadb;

/// Far longer than a test takes.
constexpr const char* endless = "select sleep(3600), ?";

/// How many statements of the tests the server is running.
int running() {
    return std::stoi(the_mariadb().execute_as_admin(
        "select count(*) from information_schema.processlist where user = 'app' and "
        "info like '%sleep(%'"));
}
/// How many of them wait for a client to read their rows.
int writing() {
    return std::stoi(the_mariadb().execute_as_admin(
        "select count(*) from information_schema.processlist where user = 'app' and "
        "info like '%sleep(%' and state = 'Writing to net'"));
}
bool some_write() { return writing() > 0; }
bool some_run() { return running() > 0; }
bool none_runs() { return running() == 0; }

struct mariadb_kill : testing::Test {
    mariadb_kill() { EXPECT_TRUE(eventually(none_runs)); }
    connector to{mariadb_url()};
    connection c = to.open();

    /// Runs a statement, and lets it time out when the server is working. The clock stands still
    /// until then: the cancellation has a time limit, too.
    template <class Ask>
    void expect_stopped(Ask ask) {
        std::jthread
            asks;  // joined when the clock runs again, even if a query to the server throws
        support::stopped_clock time;
        c.set_timeout(50ms);
        asks = std::jthread([&] { EXPECT_THROW(ask(), exchange_timeout); });
        EXPECT_TRUE(eventually(some_run));
        time.advance(50ms);
        asks.join();
        EXPECT_TRUE(eventually(none_runs));
    }
};

TEST_F(mariadb_kill, stops_what_took_too_long) {
    expect_stopped([&] { c.execute(endless, 1); });
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

/// While it computes, the server does not check whether the client is still connected.
TEST_F(mariadb_kill, stops_what_would_not_notice) {
    expect_stopped(
        [&] { c.execute("select benchmark(1000000000000, sha2('x', 512)) + sleep(0)"); });
}

TEST_F(mariadb_kill, stops_what_was_canceled) {
    asio::io_context io;
    asio::cancellation_signal stop;
    std::exception_ptr ended;
    asio::co_spawn(io, c.async_execute(endless, 1),
                   asio::bind_cancellation_slot(
                       stop.slot(), [&](std::exception_ptr e, const sql::result&) { ended = e; }));
    EXPECT_TRUE(eventually([&] { return io.poll(), some_run(); }));
    stop.emit(asio::cancellation_type::terminal);
    io.run();
    EXPECT_NE(ended, nullptr);
    EXPECT_TRUE(eventually(none_runs));
}

TEST_F(mariadb_kill, stops_what_was_destroyed) {
    {
        asio::io_context io;
        asio::co_spawn(io, c.async_execute(endless, 1), asio::detached);
        EXPECT_TRUE(eventually([&] { return io.poll(), some_run(); }));
    }
    EXPECT_TRUE(eventually(none_runs));
}

TEST_F(mariadb_kill, stops_a_prepared_statement) {
    statement made = c.prepare(endless);
    expect_stopped([&] { c.execute(made, 1); });
}

TEST_F(mariadb_kill, stops_the_first_statement_of_a_lease) {
    c.execute("select 1");
    EXPECT_EQ(to.before_release(c), verdict::reset_later);
    expect_stopped([&] { c.execute(endless, 1); });
}

TEST_F(mariadb_kill, stops_rows_that_are_not_read) {
    std::optional<cursor> rows =
        c.stream("select repeat('x', 100000), if(seq < 200, 0, sleep(3600)) from seq_1_to_1000");
    EXPECT_TRUE(rows->next());
    EXPECT_TRUE(eventually(some_write));
    rows.reset();
    // A server that waits in a write notices only that the connection is closed.
    EXPECT_EQ(to.before_release(c), verdict::discard);
    to.close(c);
    EXPECT_TRUE(eventually(none_runs));
}

TEST_F(mariadb_kill, stops_what_waits_for_a_table) {
    c.execute("create or replace table awaited (x int)");
    connection other = to.open();
    other.execute("lock tables awaited write");
    expect_stopped([&] { c.execute("select x, sleep(0) from awaited"); });
}

/// Connections that replace the abandoned one, or work beside it, are not affected.
TEST_F(mariadb_kill, stops_no_other_statement) {
    pool<connection> four{to, support::patient(4)};
    std::atomic<int> given_up{0};
    std::atomic<int> interrupted{0};
    std::vector<std::jthread> all;
    for (int i = 0; i < 8; ++i)
        all.emplace_back([&, i] {
            for (int n = 0; n < 30; ++n) {
                auto lease = four.acquire();
                bool gives_up = (n + i) % 3 == 0;
                try {
                    if (gives_up) lease->set_timeout(std::chrono::milliseconds(n % 5));
                    lease->execute("select sleep(0.004), ?", n);
                } catch (const exchange_timeout&) {
                    ++given_up;
                } catch (const server_error& e) {
                    ADD_FAILURE() << e.what();
                    ++interrupted;
                }
            }
        });
    all.clear();
    EXPECT_GT(given_up, 0);
    EXPECT_EQ(interrupted, 0);
}

}  // namespace
}  // namespace cenote::mariadb
