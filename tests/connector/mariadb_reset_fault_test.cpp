// A reset in front of a statement that fails, is cut off or abandoned: the statement was not run,
// or ran in a clean session.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

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
using support::eventually;
using support::mariadb_url;
using support::the_mariadb;

/// Writes into the ledger what an earlier lease has left.
constexpr const char* note =
    "insert into ledger select ?, coalesce(@mark, ''), @@max_statement_time";
constexpr const char* leave = "select @mark := 'left'";

/// First operations of the next lease. Each of them writes into the ledger.
using first = std::function<void(connection&)>;
const std::map<std::string, first> firsts{
    {"query", [](connection& c) { c.execute(note, "x"); }},
    {"query awaited", [](connection& c) { await(c.async_execute(note, "x")); }},
    {"prepared", [](connection& c) { c.execute(c.prepare(note), "x"); }},
    {"prepared awaited",
     [](connection& c) { await(c.async_execute(await(c.async_prepare(note)), "x")); }},
    {"stream", [](connection& c) { c.stream(note, "x").next(); }},
    {"stream awaited", [](connection& c) { await(await(c.async_stream(note, "x")).async_next()); }},
    {"transaction",
     [](connection& c) {
         c.execute("start transaction");
         c.execute(note, "x");
         c.execute("commit");
     }},
    {"handle", [](connection& c) { c.native_handle(), c.execute(note, "x"); }},
    {"handle awaited", [](connection& c) { await(c.async_native_handle()), c.execute(note, "x"); }},
};

struct mariadb_reset_fault : testing::Test {
    mariadb_reset_fault() {
        gate.overlook(support::is_side_connection);
        aside.execute(
            "create or replace table ledger (said varchar(20), mark varchar(20), time_limit "
            "double)");
    }

    support::gate gate{the_mariadb().port()};
    connector to{mariadb_url(gate.port())};
    connection aside = connector{mariadb_url()}.open();  // not through the gate

    /// A session with a pending reset.
    connection owing() {
        connection c = to.open();
        c.execute(leave);
        EXPECT_EQ(to.before_release(c), verdict::reset_later);
        EXPECT_TRUE(to.before_acquire(c));
        return c;
    }
    std::string ledger(const std::string& what = "count(*)") {
        return aside.execute("select cast(" + what + " as char) from ledger").scalar<std::string>();
    }
    void clear() { aside.execute("delete from ledger"); }
    /// Returns when the server can no longer execute the statement.
    void end(connection& c) {
        std::string there = "select count(*) from information_schema.processlist where id = " +
                            std::to_string(c.id());
        gate.pass();
        to.close(c);
        EXPECT_TRUE(eventually([&] { return aside.execute(there).scalar<int>() == 0; }));
    }

    void expect_not_run(connection& c, const first& ask, const std::string& name) {
        SCOPED_TRACE(name);
        try {
            ask(c);
            ADD_FAILURE() << "it was run";
        } catch (const statement_not_run& e) {
            EXPECT_NE(std::string(e.what()).find("not run"), std::string::npos) << e.what();
        }
        EXPECT_TRUE(c.broken());
        EXPECT_NE(to.before_release(c), verdict::keep);
        EXPECT_EQ(ledger(), "0");
    }
};

TEST_F(mariadb_reset_fault, refused_it_keeps_the_statement_from_running) {
    const std::map<std::string, std::string> refusals{
        {"SET NAMES", "SET NAMEX"},                                             // bad grammar
        {"'utf8mb4'", "'nothing'"},                                             // unknown charset
        {std::string("\x01\0\0\0\x1f", 5), std::string("\x01\0\0\0\x7f", 5)}};  // unknown command
    for (const auto& [what, into] : refusals)
        for (const auto& [name, ask] : firsts) {
            connection c = owing();
            gate.alter_request(what, into);
            expect_not_run(c, ask, name);
            EXPECT_TRUE(gate.altered());
            gate.pass();
        }
}

TEST_F(mariadb_reset_fault, killed_while_it_is_pending_the_statement_does_not_run) {
    for (const auto& [name, ask] : firsts) {
        connection c = owing();
        std::string id = std::to_string(c.id());
        the_mariadb().execute_as_admin("kill " + id);
        EXPECT_TRUE(eventually([&] { return !to.before_acquire(c); }));
        expect_not_run(c, ask, name);
    }
}

/// Cuts the replies off after each byte: statement_not_run means that the statement was not run,
/// and a statement that was run has found a clean session.
TEST_F(mariadb_reset_fault, cut_off_anywhere_it_tells_whether_the_statement_ran) {
    int unrun = 0;
    int unknown = 0;
    bool whole = false;
    for (std::size_t i = 0; !whole; i += support::slowly ? 7 : 1) {
        connection c = owing();
        gate.cut_after(i,
                       i % 3 == 0 ? support::gate::ending::reset : support::gate::ending::finish);
        bool said_not_run = false;
        try {
            if (i % 2 == 0) c.execute(note, "x");
            else await(c.async_execute(note, "x"));
            whole = true;
        } catch (const statement_not_run&) {
            ++unrun;
            said_not_run = true;
        } catch (const connection_error&) {
            ++unknown;
        }
        end(c);
        if (said_not_run) {
            EXPECT_EQ(ledger(), "0") << i;
        }
        EXPECT_EQ(ledger("coalesce(group_concat(mark), '')"), "");
        clear();
    }
    EXPECT_GT(unrun, support::slowly ? 5 : 50);
    EXPECT_GT(unknown, 0);
}

TEST_F(mariadb_reset_fault, comes_in_single_bytes) {
    gate.split();
    for (const auto& [name, ask] : firsts) {
        connection c = owing();
        ask(c);
        EXPECT_EQ(ledger("concat(count(*), group_concat(mark))"), "1") << name;
        clear();
    }
}

/// Abandons an operation after this many bytes of its reply. False: that was the whole reply.
enum class abandoning { canceled, destroyed, late };

bool time_out(connection& c) {
    c.set_timeout(30ms);
    try {
        c.execute(note, "x");
        return false;
    } catch (const exchange_timeout&) {
        return true;
    }
}

bool abandon(connection& c, support::gate& gate, abandoning how) {
    if (how == abandoning::late) return time_out(c);
    asio::io_context io;
    asio::cancellation_signal stop;
    std::exception_ptr ended;
    bool over = false;
    asio::co_spawn(
        io, c.async_execute(note, "x"),
        asio::bind_cancellation_slot(stop.slot(), [&](std::exception_ptr e, const sql::result&) {
            ended = e;
            over = true;
        }));
    EXPECT_TRUE(eventually([&] { return io.poll(), over || gate.buffered() > 0; }))
        << "connection " << c.id() << " of\n"
        << the_mariadb().execute_as_admin("show full processlist");
    if (over) return false;
    if (how == abandoning::destroyed) return true;
    stop.emit(asio::cancellation_type::terminal);
    io.run();
    EXPECT_NE(ended, nullptr);
    return true;
}

TEST_F(mariadb_reset_fault, abandoned_at_every_step_it_is_never_used_again) {
    for (abandoning how : {abandoning::canceled, abandoning::destroyed, abandoning::late}) {
        std::size_t points = 0;
        for (std::size_t i = 0;; i += support::slowly ? 17 : 3, ++points) {
            SCOPED_TRACE(i);
            ASSERT_LT(i, 2000u);
            connection c = owing();
            gate.hold_replies_after(i);
            if (!abandon(c, gate, how)) break;
            EXPECT_EQ(to.before_release(c), verdict::discard);
            EXPECT_THROW(c.execute("select 1"), connection_error);
            end(c);
            // The reply to the reset has the same length.
            if (i < 11) {
                EXPECT_EQ(ledger(), "0");
            }
            EXPECT_EQ(ledger("coalesce(group_concat(mark), '')"), "");
            clear();
        }
        EXPECT_GT(points, 5u);
        gate.pass();
        clear();
    }
}

TEST_F(mariadb_reset_fault, statement_that_fails_finds_a_clean_session_and_leaves_the_connection) {
    connection c = owing();
    EXPECT_THROW(c.execute("insert into nowhere values (1)"), statement_error);
    EXPECT_FALSE(c.broken());
    EXPECT_TRUE(c.execute("select @mark")[0][0].is_null());
    EXPECT_EQ(to.before_release(c), verdict::reset);
    connection d = owing();
    EXPECT_THROW(d.execute("select ?", 1, 2), statement_error);
    EXPECT_TRUE(d.execute("select @mark")[0][0].is_null());
}

/// The server reports it, or closes the connection before the report can be read.
TEST_F(mariadb_reset_fault, a_statement_that_is_too_long_is_not_blamed_on_the_reset) {
    the_mariadb().execute_as_admin("set global max_allowed_packet = 1048576");
    connection c = owing();
    the_mariadb().execute_as_admin("set global max_allowed_packet = 16777216");
    try {
        c.execute("select '" + std::string(std::size_t{2} << 20U, 'x') + "'");
        ADD_FAILURE() << "it was run";
    } catch (const connection_error& e) {
        EXPECT_EQ(std::string(e.what()).find("could not be reset"), std::string::npos) << e.what();
    }
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(mariadb_reset_fault, statements_of_an_earlier_lease_have_ended) {
    connection c = to.open();
    statement made = c.prepare("select 1");
    EXPECT_EQ(c.execute(made).scalar<int>(), 1);
    EXPECT_EQ(to.before_release(c), verdict::reset_later);
    EXPECT_THROW(c.execute(made), std::logic_error);
    EXPECT_EQ(c.execute("select 2").scalar<int>(), 2);
    EXPECT_THROW(c.execute(made), std::logic_error);
}

TEST_F(mariadb_reset_fault, is_made_by_a_probe) {
    connection c = owing();
    EXPECT_TRUE(to.probe(c));
    EXPECT_EQ(to.before_release(c), verdict::keep);
    EXPECT_TRUE(c.execute("select @mark")[0][0].is_null());
}

/// So a lock is not held for long.
TEST_F(mariadb_reset_fault, is_made_by_the_pool_without_a_next_lease) {
    pool<connection> one{to, support::patient(1)};
    aside.execute("create or replace function hidden() returns int return get_lock('hidden', 0)");
    one.acquire()->execute("select hidden()");
    EXPECT_TRUE(eventually(
        [&] { return the_mariadb().execute_as_admin("select is_free_lock('hidden')") == "1\n"; }));
}

}  // namespace
}  // namespace cenote::mariadb
