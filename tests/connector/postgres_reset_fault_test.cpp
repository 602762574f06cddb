// A reset in front of a request that fails, is cut off or abandoned: the request was not run, or
// ran in a clean session.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "cenote/postgres.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::postgres {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::await;
using support::eventually;
using support::postgres_url;
using support::the_postgres;

constexpr const char* note =
    "insert into public.ledger select $1::text, current_setting('statement_timeout'), "
    "coalesce(current_setting('my.mark', true), ''), octet_length(convert_to($1::text, 'UTF8')) "
    "returning said";
constexpr const char* leave = "select set_config('my.mark', 'left', false)";

/// CENOTE_EVERY_BYTE=1 tries all bytes, one after the other.
std::size_t stride(bool long_reply) {
    if (std::getenv("CENOTE_EVERY_BYTE") != nullptr) return 1;
    if (support::slowly) return long_reply ? 41 : 17;
    return long_reply ? 23 : 5;
}

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
         c.execute("begin");
         c.execute(note, "x");
         c.execute("commit");
     }},
    {"handle", [](connection& c) { c.native_handle(), c.execute(note, "x"); }},
    {"handle awaited", [](connection& c) { await(c.async_native_handle()), c.execute(note, "x"); }},
};

struct postgres_reset_fault : testing::Test {
    static void SetUpTestSuite() {
        the_postgres().execute_as_admin(
            "create table if not exists public.ledger(said text, time_limit text, mark text, "
            "octets int); alter table public.ledger owner to app");
    }
    postgres_reset_fault() { clear(); }

    support::gate gate{the_postgres().port()};
    connector to{postgres_url(gate.port())};
    std::optional<connection> aside;  // not through the gate

    connection& auditor() {
        if (!aside || !connector{postgres_url()}.before_acquire(*aside))
            aside = connector{postgres_url("reset=by_tag")}.open();
        return *aside;
    }
    void clear() { auditor().execute("truncate public.ledger"); }

    /// A session with a pending reset.
    connection owing(const char* text = leave) {
        connection c = to.open();
        c.execute(text);
        EXPECT_EQ(to.before_release(c), verdict::reset_later);
        EXPECT_TRUE(to.before_acquire(c));
        return c;
    }
    /// A session with a pending reset that has kept `note` prepared.
    connection owing_with_kept() {
        connection c = to.open();
        for (int i = 0; i < 3; ++i) c.execute(note, "before");
        EXPECT_EQ(c.execute("select count(*) from pg_prepared_statements").scalar<int>(), 1);
        to.before_release(c);
        to.reset(c);
        c.execute(leave);
        EXPECT_EQ(to.before_release(c), verdict::reset_later);
        clear();
        return c;
    }
    std::string ledger(const std::string& what = "count(*)") {
        return auditor()
            .execute("select (" + what + ")::text from public.ledger")
            .scalar<std::string>();
    }
    void expect_not_run(connection& c, const first& ask, const std::string& name) {
        try {
            ask(c);
            ADD_FAILURE() << name;
        } catch (const statement_not_run& e) {
            EXPECT_NE(std::string(e.what()).find("not run"), std::string::npos) << e.what();
            EXPECT_FALSE(e.sqlstate().empty());
        } catch (const std::exception& e) {
            ADD_FAILURE() << name << ": " << e.what();
        }
        EXPECT_EQ(ledger(), "0") << name;
        EXPECT_TRUE(c.broken()) << name;
        EXPECT_EQ(to.before_release(c), verdict::discard) << name;
        EXPECT_THROW(c.execute("select 1"), connection_error) << name;
    }
};

TEST_F(postgres_reset_fault, a_reset_that_is_refused_keeps_the_request_from_running) {
    for (const auto& [name, ask] : firsts) {
        connection c = owing();
        gate.alter_request("discard all", "discarx all");
        expect_not_run(c, ask, name);
        EXPECT_TRUE(gate.altered());
    }
}

TEST_F(postgres_reset_fault, each_piece_of_a_reset_that_spares_what_is_kept_does_so) {
    to = connector(postgres_url(gate.port(), "statement_cache=20"));
    const std::vector<std::pair<std::string, std::string>> pieces{
        {"begin isolation", "begix isolation"},
        {"close all", "close axl"},
        {"set session authorization", "set session authorizatiox"},
        {"reset all", "reset axl"},
        {"unlisten *", "unlistex *"},
        {"pg_advisory_unlock_all", "pg_advisory_unlock_alx"},
        {"discard temp", "discard texp"},
        {"discard sequences", "discard sequencex"},
        {"pg_my_temp_schema", "pg_my_temp_schemx"},
        {"commit", "commix"}};
    const first ask = firsts.at("query");
    for (const auto& [piece, altered] : pieces) {
        connection c = owing_with_kept();
        gate.alter_request(piece, altered);
        expect_not_run(c, ask, piece);
        EXPECT_TRUE(gate.altered()) << piece;
    }
    // The kept statement of the reset itself is gone, or was replaced.
    for (const auto& [piece, altered] :
         {std::pair{"cenote_kept_rest", "cenote_kept_resx"}, std::pair{"commit", "commix"}}) {
        connection c = owing_with_kept();
        ask(c);
        EXPECT_EQ(ledger("mark"), "");
        EXPECT_EQ(ledger(), "1");
        c.execute(leave);
        ASSERT_EQ(to.before_release(c), verdict::reset_later);
        clear();
        gate.alter_request(piece, altered);
        expect_not_run(c, ask, piece);
        EXPECT_TRUE(gate.altered()) << piece;
    }
}

TEST_F(postgres_reset_fault,
       a_statement_that_a_borrower_has_prepared_keeps_the_request_from_running) {
    the_postgres().execute_as_admin(
        "create or replace function public.do_it(what text) returns int language plpgsql as "
        "$$ begin execute what; return 1; end $$");
    to = connector(postgres_url(gate.port(), "statement_cache=20"));
    connection c = owing_with_kept();
    c.execute("select public.do_it('prepare p as select 1')");
    ASSERT_EQ(to.before_release(c), verdict::reset_later);
    expect_not_run(c, firsts.at("query"), "prepared by a function");
}

TEST_F(postgres_reset_fault, a_session_that_was_killed_runs_nothing) {
    for (const auto& [name, ask] : firsts) {
        connection c = owing();
        the_postgres().kill_backends();
        try {
            ask(c);
            ADD_FAILURE() << name;
        } catch (const connection_error& e) {
            EXPECT_TRUE(e.kind() == error_kind::suspect || e.kind() == error_kind::connection);
        }
        EXPECT_EQ(ledger(), "0") << name;
        EXPECT_NE(to.before_release(c), verdict::reset_later) << name;
    }
}

TEST_F(postgres_reset_fault, the_shortest_time_limit_does_not_reach_the_next) {
    int ran = 0;
    for (int i = 0; i < 5; ++i)
        for (const auto& [name, ask] : firsts) {
            connection c = owing("select set_config('statement_timeout', '1', false)");
            try {
                ask(c);
                ++ran;
            } catch (const server_error& e) {
                // Of the reset: statement_not_run. Or of the request, which did not run, either: if
                // the limit ends after the last moment at which DISCARD ALL can be canceled, the
                // server cancels what follows (docs/decisions/0018).
                EXPECT_EQ(e.sqlstate(), "57014");
            }
            EXPECT_EQ(ledger(), std::to_string(ran)) << name;
        }
    EXPECT_EQ(ledger("count(*) filter (where time_limit <> '0')"), "0");
    EXPECT_GT(ran, 0);
}

TEST_F(postgres_reset_fault, another_encoding_does_not_reach_the_next) {
    auto ask = [&](connection& c) {
        return c.execute(note, "\xc3\xbc").scalar<std::string>();  // a letter, two bytes
    };
    connection c = owing("select set_config('client_encoding', 'LATIN1', false)");
    EXPECT_EQ(ask(c), "\xc3\xbc");
    EXPECT_EQ(ledger("octets"), "2");
}

TEST_F(postgres_reset_fault, a_default_that_forbids_writing_does_not_reach_the_next) {
    int ran = 0;
    for (const auto& [name, ask] : firsts) {
        connection c = owing("select set_config('default_transaction_read_only', 'on', false)");
        EXPECT_NO_THROW(ask(c)) << name;
        EXPECT_EQ(ledger(), std::to_string(++ran)) << name;
    }
}

/// An incomplete reply is an error; nothing is done twice.
TEST_F(postgres_reset_fault, replies_that_end_early) {
    for (const char* parameters : {"", "statement_cache=20"}) {
        to = connector(postgres_url(gate.port(), parameters));
        bool kept = *parameters != 0;
        std::size_t answered = 0;
        for (std::size_t i = 0; answered == 0; i += stride(kept)) {
            ASSERT_LT(i, 2000u);
            gate.pass();
            clear();
            connection c = kept ? owing_with_kept() : owing();
            gate.cut_after(i, i % 2 == 0 ? support::gate::ending::finish
                                         : support::gate::ending::reset);
            try {
                EXPECT_EQ(c.execute(note, "whole").scalar<std::string>(), "whole");
                answered = i;
                EXPECT_EQ(ledger(), "1");
            } catch (const statement_not_run& e) {
                ADD_FAILURE() << e.what();
            } catch (const connection_error&) {
                EXPECT_EQ(to.before_release(c), verdict::discard);
            }
            EXPECT_EQ(ledger("count(*) filter (where mark <> '')"), "0");
        }
        EXPECT_GT(answered, 50u);
    }
}

// Abandoned.

/// By a cancellation, or by the end of the coroutine's loop.
enum class abandoning { canceled, destroyed };

/// The replies stop after this many bytes; then the waiting coroutine ends.
bool abandon(postgres_reset_fault& of, connection& c, std::size_t bytes, abandoning how) {
    of.gate.hold_replies_after(bytes);
    auto io = std::make_unique<asio::io_context>();
    asio::cancellation_signal cancel;
    bool over = false;
    std::exception_ptr ended;
    asio::co_spawn(
        *io, c.async_execute(note, "given up"),
        asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr e, const sql::result&) {
            ended = e;
            over = true;
        }));
    EXPECT_TRUE(eventually([&] {
        io->poll();
        return over || of.gate.buffered() > 0;
    }));
    for (int i = 0; i < 3; ++i) io->poll();
    if (over) {
        EXPECT_EQ(ended, nullptr);
        return false;
    }
    if (how == abandoning::canceled) {
        cancel.emit(asio::cancellation_type::terminal);
        io->run();
        EXPECT_NE(ended, nullptr);
    }
    io.reset();
    EXPECT_EQ(of.to.before_release(c), verdict::discard);
    EXPECT_THROW(c.execute("select 1"), connection_error);
    of.gate.pass();
    return true;
}

TEST_F(postgres_reset_fault, can_be_abandoned_at_each_byte_of_its_replies) {
    for (abandoning how : {abandoning::canceled, abandoning::destroyed})
        for (const char* parameters : {"", "statement_cache=20"}) {
            to = connector(postgres_url(gate.port(), parameters));
            bool kept = *parameters != 0;
            bool given_up = true;
            std::size_t points = 0;
            for (std::size_t bytes = 0; given_up; bytes += stride(kept), ++points) {
                ASSERT_LT(bytes, 2000u);
                connection c = kept ? owing_with_kept() : owing();
                given_up = abandon(*this, c, bytes, how);
                gate.pass();
                connection next = owing();
                EXPECT_EQ(next.execute("select 'mine'").scalar<std::string>(), "mine");
            }
            EXPECT_GT(points, 5u);
        }
    EXPECT_EQ(ledger("count(*) filter (where mark <> '')"), "0");
}

/// After each step, from the first to the last.
TEST_F(postgres_reset_fault, can_be_abandoned_after_each_step) {
    for (abandoning how : {abandoning::canceled, abandoning::destroyed}) {
        bool over = false;
        for (int steps = 0; !over; ++steps) {
            ASSERT_LT(steps, 100);
            connection c = owing();
            auto io = std::make_unique<asio::io_context>();
            asio::cancellation_signal cancel;
            asio::co_spawn(*io, c.async_execute(note, "step"),
                           asio::bind_cancellation_slot(
                               cancel.slot(), [&](const std::exception_ptr& e, const sql::result&) {
                                   over = e == nullptr;
                               }));
            for (int i = 0; i < steps && !io->stopped(); ++i) io->run_one();
            if (how == abandoning::canceled) {
                cancel.emit(asio::cancellation_type::terminal);
                io->run();
            }
            io.reset();
            if (over) break;
            verdict v = to.before_release(c);  // the operation may not have begun
            EXPECT_TRUE(v == verdict::discard || (v == verdict::reset_later && steps <= 1))
                << steps;
        }
    }
    EXPECT_EQ(ledger("count(*) filter (where mark <> '')"), "0");
}

TEST_F(postgres_reset_fault, one_that_does_not_come_is_a_timeout) {
    for (const auto& [name, ask] : firsts) {
        connection c = owing();
        gate.hold_replies();
        c.set_timeout(30ms);
        EXPECT_THROW(ask(c), exchange_timeout) << name;
        EXPECT_EQ(to.before_release(c), verdict::discard) << name;
        gate.pass();
    }
    gate.split();
    connection c = owing();
    c.execute(note, "whole");
    EXPECT_EQ(ledger("string_agg(mark, '')"), "");
}

/// A proxy that breaks the reset: the server is treated as an old one.
TEST_F(postgres_reset_fault, a_server_that_fails_the_trial_is_reset_at_release) {
    gate.alter_request("discard all", "discarx all");
    connection c = to.open();  // one loss proves nothing
    EXPECT_TRUE(gate.altered());
    c.execute("select 1");
    EXPECT_EQ(to.before_release(c), verdict::reset_later);
    connector other{postgres_url(gate.port())};
    gate.alter_request("discard all", "select   1 ");
    connection d = other.open();
    EXPECT_TRUE(gate.altered());
    d.execute("select 1");
    EXPECT_EQ(other.before_release(d), verdict::reset);
    connection e = other.open();
    e.execute("select 1");
    EXPECT_EQ(other.before_release(e), verdict::reset);
}

/// Repeating a request that was certainly not run runs it once.
TEST_F(postgres_reset_fault, a_pool_has_another_connection) {
    pool<connection> two{to, support::patient(2)};
    two.with([](connection& c) { c.execute(leave); });
    gate.alter_request("discard all", "discarx all");
    int tries = 0;
    for (bool done = false; !done; ++tries) {
        ASSERT_LT(tries, 5);
        try {
            two.with([](connection& c) { c.execute(note, "once"); });
            done = true;
        } catch (const statement_not_run&) {
        }
    }
    EXPECT_EQ(ledger(), "1");
    EXPECT_EQ(ledger("mark"), "");
}

}  // namespace
}  // namespace cenote::postgres
