// PostgreSQL connections after faults between a request and the end of its reply: no later borrower
// sees that reply.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <future>
#include <libpq-fe.h>
#include <poll.h>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "support/clock.hpp"
#include "support/gate.hpp"
#include "support/no_such_host.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::postgres {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::await;
using support::eventually;
using support::plenty;
using support::postgres_url;
using support::the_postgres;

struct postgres_fault : testing::Test {
    support::gate gate{the_postgres().port()};
    connector to{postgres_url(gate.port())};

    pool<connection> pool_of_one() { return pool<connection>{to, support::patient(1)}; }
    static void expect_fine(pool<connection>& p) {
        p.with([](connection& c) {
            EXPECT_EQ(c.execute("select $1::text", "mine").scalar<std::string>(), "mine");
        });
    }
};

asio::awaitable<void> ask(pool<connection>& p, std::string nonce, bool& asked) {
    auto lease = co_await p.async_acquire(asio::use_awaitable);
    asked = true;
    co_await lease->async_execute("select $1::text", nonce);
}

/// The order of events of a known incident: a request is sent and canceled, the connection is given
/// back, and then the reply comes.
TEST_F(postgres_fault, a_reply_to_a_canceled_request_is_never_seen) {
    pool<connection> one = pool_of_one();
    for (int i = 0; i < 20; ++i) {
        expect_fine(one);
        ASSERT_TRUE(eventually([&] { return one.stats().idle == 1; }));
        gate.hold_replies();
        asio::io_context io;
        asio::cancellation_signal cancel;
        std::exception_ptr ended;
        bool asked = false;
        asio::co_spawn(io, ask(one, "theirs", asked),
                       asio::bind_cancellation_slot(
                           cancel.slot(), [&](const std::exception_ptr& e) { ended = e; }));
        ASSERT_TRUE(eventually([&] { return io.poll(), asked; }));
        io.poll();
        cancel.emit(asio::cancellation_type::terminal);
        if (i % 2 == 0) gate.let_go();
        io.restart();
        io.run();
        EXPECT_NE(ended, nullptr);
        gate.pass();
    }
    expect_fine(one);
}

TEST_F(postgres_fault, a_canceled_operation_breaks_its_connection) {
    connection c = to.open();
    gate.hold_replies();
    asio::io_context io;
    asio::cancellation_signal cancel;
    std::exception_ptr ended;
    asio::co_spawn(
        io, c.async_execute("select 1"),
        asio::bind_cancellation_slot(cancel.slot(),
                                     [&](std::exception_ptr e, const sql::result&) { ended = e; }));
    EXPECT_TRUE(eventually([&] { return io.poll() == 0; }));
    cancel.emit(asio::cancellation_type::terminal);
    io.run();
    EXPECT_NE(ended, nullptr);
    gate.let_go();
    EXPECT_EQ(to.before_release(c), verdict::discard);
    EXPECT_FALSE(to.before_acquire(c));
    EXPECT_THROW(c.execute("select 2"), connection_error);
}

TEST_F(postgres_fault, a_coroutine_that_is_destroyed_breaks_its_connection) {
    connection c = to.open();
    gate.hold_replies();
    {
        asio::io_context io;
        asio::co_spawn(io, c.async_execute("select 1"), asio::detached);
        io.poll();
    }
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(postgres_fault, an_exception_between_request_and_reply_discards) {
    pool<connection> one = pool_of_one();
    for (int i = 0; i < 3; ++i) {
        EXPECT_THROW(one.with([](connection& c) {
            cursor rows = c.stream("select i, repeat('x', 500) from generate_series(1, 50000) i");
            throw std::runtime_error("of the borrower's own");
        }),
                     std::runtime_error);
        expect_fine(one);
    }
    EXPECT_EQ(one.stats().opened, 4u);
}

/// The reply is cut off after each byte: an incomplete reply is an error.
TEST_F(postgres_fault, a_reply_that_ends_early_is_an_error) {
    std::size_t answered = 0;
    for (std::size_t i = 0; answered == 0; ++i) {
        ASSERT_LT(i, 1000u);
        if (support::slowly && i % 5 != 0) continue;
        gate.pass();
        connection c = to.open();
        auto how = i % 2 == 0 ? support::gate::ending::finish : support::gate::ending::reset;
        gate.cut_after(i, how);
        try {
            EXPECT_EQ(c.execute("select $1::text", "whole").scalar<std::string>(), "whole");
            answered = i;
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::connection) << e.what();
            EXPECT_EQ(to.before_release(c), verdict::discard);
        }
    }
    EXPECT_GT(answered, 50u);
    gate.pass();
    pool<connection> one = pool_of_one();
    for (std::size_t i = 0; i < answered; i += support::slowly ? 20 : 5) {
        auto lease = one.acquire();
        gate.cut_after(i);
        EXPECT_THROW(await(lease->async_execute("select $1::text", "whole")), connection_error);
        lease.give_back();
        gate.pass();
        expect_fine(one);
    }
}

TEST_F(postgres_fault, an_open_that_ends_early_is_an_error) {
    bool opened = false;
    for (std::size_t i = 0; !opened; i += support::slowly ? 37 : 7) {
        ASSERT_LT(i, 5000u);
        gate.pass();
        gate.cut_after(i);
        try {
            connection c =
                i % 2 == 0 ? to.open() : await(async_connector{postgres_url(gate.port())}.open());
            opened = true;
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::transient) << e.what();
        }
    }
}

TEST_F(postgres_fault, one_byte_at_a_time_is_enough) {
    gate.split();
    connection c = to.open();
    EXPECT_EQ(c.execute("select $1::text", "whole").scalar<std::string>(), "whole");
    EXPECT_EQ(await(c.async_execute("select 7")).scalar<int>(), 7);
    cursor rows = c.stream("select i from generate_series(1, 50) i");
    int seen = 0;
    while (rows.next()) ++seen;
    EXPECT_EQ(seen, 50);
}

TEST_F(postgres_fault, a_reply_that_does_not_come_is_a_timeout) {
    connection c = to.open();
    gate.hold_replies();
    c.set_timeout(30ms);
    EXPECT_THROW(c.execute("select 1"), exchange_timeout);
    EXPECT_EQ(to.before_release(c), verdict::discard);
    gate.pass();
    connection other = to.open();
    gate.black_hole();
    other.set_timeout(30ms);
    EXPECT_THROW(await(other.async_execute("select 1")), exchange_timeout);
    EXPECT_EQ(to.before_release(other), verdict::discard);
}

TEST_F(postgres_fault, a_reset_that_does_not_end_is_an_error) {
    connection c = to.open();
    c.execute("select 1");
    gate.hold_replies();
    c.set_timeout(30ms);
    EXPECT_THROW(to.reset(c), exchange_timeout);
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(postgres_fault, a_connection_that_the_server_has_closed_is_not_leased) {
    pool<connection> one = pool_of_one();
    expect_fine(one);
    int socket = one.with([](connection& c) { return PQsocket(c.native_handle()); });
    EXPECT_TRUE(eventually([&] { return one.stats().idle == 1; }));
    the_postgres().kill_backends();
    // The process may have ended before its last bytes have arrived.
    pollfd heard{.fd = socket, .events = POLLIN, .revents = 0};
    EXPECT_TRUE(eventually([&] { return ::poll(&heard, 1, 0) > 0; }));
    expect_fine(one);
    EXPECT_EQ(one.stats().opened, 2u);
    connection c = to.open();
    EXPECT_TRUE(to.before_acquire(c));
    gate.finish_all();
    EXPECT_TRUE(eventually([&] { return !to.before_acquire(c); }));
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(postgres_fault, a_connection_with_unread_bytes_is_not_leased) {
    connection c = to.open();
    c.execute("listen news");
    EXPECT_TRUE(to.before_acquire(c));
    the_postgres().execute_as_admin("notify news");
    EXPECT_TRUE(eventually([&] { return !to.before_acquire(c); }));
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(postgres_fault, a_handle_left_busy_is_not_leased) {
    connection c = to.open();
    PGconn* native = c.native_handle();
    ASSERT_EQ(
        PQsendQueryParams(native, "select 'theirs'", 0, nullptr, nullptr, nullptr, nullptr, 0), 1);
    while (PQflush(native) == 1) {
    }
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(postgres_fault, wrong_bytes_harm_no_later_lease) {
    for (std::size_t nth : {3u, 11u, 29u, 57u, 101u}) {
        gate.pass();
        connection c = to.open();
        gate.corrupt(nth);
        c.set_timeout(200ms);
        try {
            for (int i = 0; i < 5; ++i) c.execute("select repeat('x', 10)");
        } catch (const server_error&) {
            continue;  // or a wrong letter, which only TLS would notice
        } catch (const sql::bad_value&) {
            continue;
        }
    }
    gate.pass();
    pool<connection> one = pool_of_one();
    expect_fine(one);
}

TEST_F(postgres_fault, an_open_has_a_time_limit) {
    gate.accept_and_be_silent();
    options hasty = options::from_url(postgres_url(gate.port()));
    hasty.connect_timeout = 60ms;
    EXPECT_THROW(connector{hasty}.open(), exchange_timeout);
    EXPECT_THROW(await(async_connector{hasty}.open()), exchange_timeout);
}

TEST_F(postgres_fault, another_host_takes_over) {
    options two = options::from_url(postgres_url(gate.port()));
    two.hosts.push_back({.name = "127.0.0.1", .port = the_postgres().port()});
    two.connect_timeout = 10s;
    auto port_of = [](connection& c) {
        return c.execute("select inet_server_port()").scalar<int>();
    };
    gate.refuse();
    connection c = connector{two}.open();
    EXPECT_EQ(port_of(c), the_postgres().port());
    gate.pass();
    gate.hold_replies();
    // The first host has half of the time.
    auto opened_in_half_the_time = [&] {
        support::stopped_clock time;
        gate.reset_all();
        auto opened =
            std::async(std::launch::async, [&] { return await(async_connector{two}.open()); });
        EXPECT_TRUE(eventually([&] { return gate.buffered() > 0; }));
        time.advance(two.connect_timeout / 2);
        return opened.get();
    };
    connection d = opened_in_half_the_time();
    EXPECT_EQ(port_of(d), the_postgres().port());
    two.hosts.insert(two.hosts.begin(), {.name = support::no_such_host, .port = 1});
    connection e = opened_in_half_the_time();
    EXPECT_EQ(port_of(e), the_postgres().port());
    two.hosts.resize(1);
    EXPECT_THROW(connector{two}.open(), connection_error);
}

}  // namespace
}  // namespace cenote::postgres
