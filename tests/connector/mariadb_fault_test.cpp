// MariaDB connections after faults: an exchange that ends early leaves no connection that is leased
// again, and no borrower reads the reply to another one.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/mariadb_place.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::mariadb {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::await;
using support::await_open;
using support::backend_of;
using support::eventually;
using support::mariadb_url;
using support::the_mariadb;

struct mariadb_fault : testing::Test {
    support::gate gate{the_mariadb().port()};
    /// Longer than any operation here, so that only the operation under test times out.
    const char* patient = "connect_timeout=1min&operation_timeout=1min";
    connector to{mariadb_url(gate.port(), patient)};
    async_connector awaited{mariadb_url(gate.port(), patient)};

    /// Whether a reply has reached the gate, which holds it.
    std::function<bool()> answered() {
        return [this] { return gate.buffered() > 0; };
    }
    /// Runs the loop until then.
    bool is_answered(asio::io_context& io) {
        return eventually([&] { return io.poll(), gate.buffered() > 0; });
    }
};

/// Runs an operation on a loop of its own and cancels it when `when` is true. Returns what it
/// threw.
template <class Result>
std::exception_ptr canceled(asio::awaitable<Result> what, std::function<bool()> when) {
    asio::io_context io;
    asio::cancellation_signal stop;
    std::exception_ptr ended;
    bool over = false;
    asio::steady_timer timer(io);
    std::function<void()> look = [&] {
        timer.expires_after(1ms);
        timer.async_wait([&](boost::system::error_code) {
            if (over) return;
            if (when()) stop.emit(asio::cancellation_type::terminal);
            else look();
        });
    };
    auto note = [&](std::exception_ptr e, auto&&...) {
        ended = e;
        over = true;
    };
    asio::co_spawn(io, std::move(what), asio::bind_cancellation_slot(stop.slot(), note));
    look();
    io.run();
    return ended;
}

std::function<bool()> after(std::chrono::nanoseconds time) {
    auto end = std::chrono::steady_clock::now() + time;
    return [end] { return std::chrono::steady_clock::now() >= end; };
}

TEST_F(mariadb_fault, late_reply_is_never_read) {
    pool<connection> two{to, support::patient(2)};
    {
        auto lease = two.acquire();
        lease->execute("select 1");
        gate.hold_replies();
        EXPECT_TRUE(canceled(lease->async_execute("select 'mine'"), answered()));
        EXPECT_THROW(lease->execute("select 2"), connection_error);
    }
    gate.pass();
    for (int i = 0; i < 20; ++i) {
        auto lease = two.acquire();
        EXPECT_EQ(lease->execute("select ?", i).scalar<int>(), i);
    }
}

TEST_F(mariadb_fault, canceled_at_any_time_it_is_never_used_again) {
    connector direct(mariadb_url());
    for (int i = 0; i < 60; ++i) {
        connection c = direct.open();
        auto error =
            canceled(c.async_execute("select concat(?, sleep(0.01))", std::string(10'000, 'q')),
                     after(i * 300us));
        if (error == nullptr) {
            EXPECT_EQ(direct.before_release(c), verdict::reset_later);
            EXPECT_EQ(c.execute("select ?", i).scalar<int>(), i);
        } else {
            EXPECT_EQ(direct.before_release(c), verdict::discard);
            EXPECT_THROW(c.execute("select 1"), connection_error);
        }
    }
}

TEST_F(mariadb_fault, canceled_while_it_sends) {
    std::string long_text = "select length('" + std::string(12'000'000, 'x') + "')";
    connection c = to.open();
    gate.accept_and_be_silent();  // reads nothing
    int looks = 0;
    EXPECT_TRUE(canceled(c.async_execute(long_text), [&] { return ++looks > 5; }));
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(mariadb_fault, destroyed_while_it_waits) {
    connection c = to.open();
    gate.hold_replies();
    {
        asio::io_context io;
        asio::co_spawn(io, c.async_execute("select 1"), asio::detached);
        EXPECT_TRUE(is_answered(io));
    }
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(mariadb_fault, ends_before_what_is_awaited) {
    asio::io_context io;
    std::exception_ptr ended;
    {
        connection c = to.open();
        gate.hold_replies();
        asio::co_spawn(io, c.async_execute("select 1"),
                       [&](std::exception_ptr e, const sql::result&) { ended = e; });
        EXPECT_TRUE(is_answered(io));
    }
    gate.pass();
    io.run();
    EXPECT_EQ(ended, nullptr);
}

TEST_F(mariadb_fault, reply_that_is_cut_anywhere_is_an_error) {
    bool whole = false;
    int cuts = 0;
    for (std::size_t i = 0; !whole; ++i) {
        connection c = to.open();
        bool blocking = i % 2 == 0;
        gate.cut_after(i,
                       i % 3 == 0 ? support::gate::ending::reset : support::gate::ending::finish);
        try {
            sql::result got = blocking ? c.execute("select 'abcdef' as x")
                                       : await(c.async_execute("select 'abcdef' as x"));
            EXPECT_EQ(got.scalar<std::string>(), "abcdef");
            whole = true;
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::connection) << e.what();
            EXPECT_EQ(to.before_release(c), verdict::discard);
            ++cuts;
        }
        gate.pass();
    }
    EXPECT_GT(cuts, 50);
    EXPECT_EQ(to.open().execute("select 1").scalar<int>(), 1);
}

TEST_F(mariadb_fault, greeting_that_is_cut_anywhere_is_an_error) {
    bool whole = false;
    for (std::size_t i = 0; !whole; ++i) {
        gate.cut_after(i);
        try {
            connection c = i % 2 == 0 ? to.open() : await_open(awaited);
            whole = true;
        } catch (const connection_error& e) {
            EXPECT_NE(e.kind(), error_kind::final) << i << ": " << e.what();
        }
        gate.pass();
        ASSERT_LT(i, 2000u);
    }
}

TEST_F(mariadb_fault, comes_in_single_bytes) {
    gate.split();
    connection c = to.open();
    EXPECT_EQ(c.execute("select ?", "in pieces").scalar<std::string>(), "in pieces");
    EXPECT_EQ(await(c.async_execute("select ?", "awaited")).scalar<std::string>(), "awaited");
    cursor rows = c.stream("select seq from seq_1_to_50");
    int count = 0;
    while (auto r = rows.next()) EXPECT_EQ(r->get<int>(0), ++count);
    EXPECT_EQ(count, 50);
    to.reset(c);
    EXPECT_TRUE(to.probe(c));
}

TEST_F(mariadb_fault, silent_server_costs_a_timeout) {
    connection c = to.open();
    connection d = to.open();
    gate.black_hole();
    c.set_timeout(30ms);
    EXPECT_THROW(c.execute("select 1"), exchange_timeout);
    d.set_timeout(30ms);
    EXPECT_THROW(await(d.async_execute("select 1")), exchange_timeout);
    // Closing does not wait.
    auto before = std::chrono::steady_clock::now();
    to.close(c);
    to.close(d);
    EXPECT_LT(std::chrono::steady_clock::now() - before, support::plenty / 2);
}

TEST_F(mariadb_fault, silent_server_is_not_opened) {
    connector quick(mariadb_url(gate.port(), "connect_timeout=100ms"));
    async_connector quick_awaited(mariadb_url(gate.port(), "connect_timeout=100ms"));
    gate.accept_and_be_silent();
    EXPECT_THROW(quick.open(), exchange_timeout);
    EXPECT_THROW(await_open(quick_awaited), exchange_timeout);
    std::size_t before = gate.accepted();
    EXPECT_TRUE(
        canceled(support::async_opened(&awaited), [&] { return gate.accepted() > before; }));
}

TEST_F(mariadb_fault, idle_connection_that_ended_is_not_leased) {
    pool<connection> one{connector{mariadb_url()}, support::patient(1)};
    std::uint64_t first = one.acquire()->id();
    std::string count =
        "select count(*) from information_schema.processlist where id = " + std::to_string(first);
    the_mariadb().execute_as_admin("kill " + std::to_string(first));
    EXPECT_TRUE(eventually([&] { return the_mariadb().execute_as_admin(count) == "0\n"; }));
    auto lease = one.acquire();
    EXPECT_NE(lease->id(), first);
    EXPECT_EQ(backend_of(*lease), lease->id());
}

TEST_F(mariadb_fault, lost_connection_raises_no_signal) {
    std::signal(SIGPIPE, SIG_DFL);
    connection c = to.open();
    connection d = to.open();
    gate.reset_all();
    EXPECT_TRUE(eventually([&] { return !to.before_acquire(c) && !to.before_acquire(d); }));
    EXPECT_THROW(c.execute("select 1"), connection_error);
    EXPECT_THROW(await(d.async_execute("select ?", std::string(1'000'000, 'x'))), connection_error);
    struct sigaction present{};
    ::sigaction(SIGPIPE, nullptr, &present);
    EXPECT_EQ(present.sa_handler, SIG_DFL);
}

TEST_F(mariadb_fault, failed_reset_is_an_error) {
    connection c = to.open();
    c.execute("begin");
    gate.hold_replies();
    c.set_timeout(30ms);
    EXPECT_THROW(to.reset(c), exchange_timeout);
    EXPECT_EQ(to.before_release(c), verdict::discard);
    gate.pass();
    connection d = to.open();
    d.execute("begin");
    gate.finish_all();
    EXPECT_THROW(await(awaited.reset(d)), connection_error);
    EXPECT_EQ(to.before_release(d), verdict::discard);
}

TEST_F(mariadb_fault, exception_between_request_and_reply) {
    pool<connection> one{connector{mariadb_url()}, support::patient(1)};
    std::uint64_t first = 0;
    try {
        auto lease = one.acquire();
        first = lease->id();
        cursor rows = lease->stream("select seq from seq_1_to_100000");
        rows.next();
        throw std::runtime_error("the borrower's own");
    } catch (const std::runtime_error&) {
        auto lease = one.acquire();
        EXPECT_NE(lease->id(), first);
        EXPECT_EQ(lease->execute("select 5").scalar<int>(), 5);
    }
}

TEST_F(mariadb_fault, forsaken_connection_is_closed_silently) {
    connection c = to.open();
    std::uint64_t id = c.id();
    to.forsake(c);
    EXPECT_FALSE(to.before_acquire(c));
    EXPECT_THROW(c.execute("select 1"), connection_error);
    EXPECT_TRUE(eventually([&] {
        return the_mariadb().execute_as_admin(
                   "select count(*) from information_schema.processlist where id = " +
                   std::to_string(id)) == "0\n";
    }));
}

}  // namespace
}  // namespace cenote::mariadb
