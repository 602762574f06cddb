// SQLite: values in both directions, statements, streams, errors, time limits; blocking and
// awaited.
#include "cenote/sqlite.hpp"

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <sqlite3.h>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "cenote/url.hpp"
#include "connector/awaiting.hpp"
#include "connector/closed.hpp"
#include "connector/sqlite_file.hpp"
#include "support/clock.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"

namespace cenote::sqlite {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::await;
using support::eventually;
using support::sqlite_file;

/// Counts to a number that takes far too long.
constexpr const char* endless =
    "WITH RECURSIVE n(i) AS (SELECT begun() UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

struct sqlite : testing::Test {
    /// The function that the statement above calls first.
    sqlite() {
        auto note = [](sqlite3_context* in, int, sqlite3_value**) {
            *static_cast<std::atomic<bool>*>(sqlite3_user_data(in)) = true;
            sqlite3_result_int(in, 1);
        };
        sqlite3_create_function(c.native_handle(), "begun", 0, SQLITE_UTF8, &begun, note, nullptr,
                                nullptr);
    }
    /// Runs the loop until SQLite runs the statement.
    bool has_begun(asio::io_context& io) {
        return eventually([&] { return io.poll(), begun.load(); });
    }

    std::atomic<bool> begun{false};
    sqlite_file file;
    connector to{file.url()};
    connection c = to.open();
};

template <class T>
T there_and_back(connection& c, const T& value) {
    return c.execute("SELECT ?", value).template scalar<T>();
}

TEST_F(sqlite, refuses_everything_when_it_was_closed) {
    support::expect_refused_when_closed(to, c);
}

TEST_F(sqlite, leaves_no_descriptor_to_programs_that_are_started) {
    auto before = support::descriptors_of_a_child();
    connection another = to.open();
    another.execute("CREATE TABLE t (n INTEGER)");
    EXPECT_EQ(support::descriptors_of_a_child(), before);
}

TEST_F(sqlite, gives_back_what_it_was_given) {
    for (std::int64_t i :
         {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
          std::numeric_limits<std::int64_t>::min()})
        EXPECT_EQ(there_and_back(c, i), i);
    for (double d : {0.0, -1.5, 1e308, 5e-324, 0.1}) EXPECT_EQ(there_and_back(c, d), d);
    EXPECT_EQ(there_and_back(c, std::numeric_limits<double>::infinity()),
              std::numeric_limits<double>::infinity());
    for (const std::string& text : {std::string(), std::string("it's"), std::string("a\0b", 3),
                                    std::string("äß漢"), std::string(1'000'000, 'x')})
        EXPECT_EQ(there_and_back(c, text), text);
    for (const sql::bytes& octets : {sql::bytes(), sql::bytes{std::byte{0}, std::byte{255}},
                                     sql::bytes(1'000'000, std::byte{7})})
        EXPECT_EQ(there_and_back(c, octets), octets);
    EXPECT_EQ(there_and_back(c, true), true);
    EXPECT_TRUE(c.execute("SELECT ?", nullptr)[0][0].is_null());
    EXPECT_TRUE(c.execute("SELECT ?", std::optional<int>())[0][0].is_null());
}

TEST_F(sqlite, says_what_a_statement_did) {
    c.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)");
    auto inserted = c.execute("INSERT INTO t(name) VALUES (?), (?)", "a", "b");
    EXPECT_EQ(inserted.affected(), 2u);
    EXPECT_EQ(inserted.last_insert_id(), 2);
    EXPECT_EQ(c.execute("SELECT * FROM t").affected(), 0u);
    auto rows = c.execute("SELECT id, name FROM t ORDER BY id");
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[1].get<std::string>("name"), "b");
    EXPECT_EQ(rows[0].columns(), (sql::column_names{"id", "name"}));
}

TEST_F(sqlite, prepares_once_and_runs_often) {
    c.execute("CREATE TABLE t(n)");
    statement insert = c.prepare("INSERT INTO t VALUES (?)");
    for (int i = 0; i < 100; ++i) c.execute(insert, i);
    statement sum = c.prepare("SELECT sum(n) FROM t WHERE n < ?");
    EXPECT_EQ(c.execute(sum, 10).scalar<int>(), 45);
    EXPECT_EQ(c.execute(sum, 100).scalar<int>(), 4950);
}

TEST_F(sqlite, streams_row_by_row) {
    auto rows = c.stream(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
        "SELECT i, ? AS word FROM n",
        1000, std::string("same"));
    int expected = 0;
    while (auto row = rows.next()) {
        EXPECT_EQ(row->get<int>("i"), ++expected);
        EXPECT_EQ(row->get<std::string>("word"), "same");
    }
    EXPECT_EQ(expected, 1000);
    EXPECT_EQ(rows.next(), std::nullopt);
}

TEST_F(sqlite, can_be_used_while_a_stream_is_read_and_after_it_is_left) {
    {
        auto rows = c.stream(endless);
        auto few = c.stream("SELECT 1 UNION SELECT 2");
        EXPECT_EQ(few.next()->get<int>(0), 1);
        EXPECT_EQ(c.execute("SELECT 5").scalar<int>(), 5);
    }
    EXPECT_EQ(c.execute("SELECT 6").scalar<int>(), 6);
    EXPECT_EQ(to.before_release(c), verdict::keep);
}

// The slot of a cursor that was read to its end belongs to the next statement while the cursor
// still exists.
TEST_F(sqlite, a_cursor_that_was_read_to_its_end_ends_nothing_else) {
    statement later;
    {
        auto rows = c.stream("SELECT 1");
        while (rows.next()) {
        }
        later = c.prepare("SELECT 2");
    }
    EXPECT_EQ(c.execute(later).scalar<int>(), 2);
}

TEST_F(sqlite, is_awaited) {
    auto work = [&]() -> asio::awaitable<int> {
        co_await c.async_execute("CREATE TABLE t(n)");
        statement insert = co_await c.async_prepare("INSERT INTO t VALUES (?)");
        for (int i = 0; i < 10; ++i) co_await c.async_execute(insert, i);
        auto rows = co_await c.async_stream("SELECT n FROM t WHERE n >= ?", 5);
        int sum = 0;
        while (auto row = co_await rows.async_next()) sum += row->get<int>(0);
        auto all = co_await c.async_execute("SELECT count(*), ? FROM t", std::string("text"));
        EXPECT_EQ(all[0].get<std::string>(1), "text");
        co_return sum + all[0].get<int>(0);
    };
    EXPECT_EQ(await(work()), 35 + 10);
    auto count = c.async_execute("SELECT count(*) FROM t");  // on another loop
    EXPECT_EQ(await(std::move(count)).scalar<int>(), 10);
}

TEST_F(sqlite, tells_errors_from_one_another) {
    c.execute("CREATE TABLE t(n UNIQUE)");
    c.execute("INSERT INTO t VALUES (1)");
    EXPECT_THROW(c.execute("SELEC"), statement_error);
    EXPECT_THROW(c.execute(""), statement_error);
    EXPECT_THROW(c.execute("SELECT ?"), statement_error);
    EXPECT_THROW(c.execute("SELECT 1", 2), statement_error);
    try {
        c.execute("INSERT INTO t VALUES (1)");
        FAIL();
    } catch (const statement_error& e) {
        EXPECT_EQ(e.code(), SQLITE_CONSTRAINT_UNIQUE);
        EXPECT_EQ(verdict_of(e.kind()), verdict::keep);
    }
    EXPECT_EQ(to.before_release(c), verdict::keep);
}

TEST_F(sqlite, runs_one_statement_at_a_time) {
    EXPECT_THROW(c.execute("SELECT 1; SELECT 2"), statement_error);
    EXPECT_THROW(c.execute("SELECT 1; nonsense"), statement_error);
    EXPECT_EQ(c.execute("SELECT 1; -- that is all\n ;").scalar<int>(), 1);
}

TEST_F(sqlite, ends_what_takes_too_long_and_goes_on) {
    c.set_timeout(30ms);
    try {
        c.execute(endless);
        FAIL();
    } catch (const statement_error& e) {
        EXPECT_EQ(e.code(), SQLITE_INTERRUPT);
    }
    EXPECT_EQ(c.execute("SELECT 1").scalar<int>(), 1);
    EXPECT_EQ(to.before_release(c), verdict::keep);
}

/// A statement whose rows have no end.
TEST_F(sqlite, ends_rows_without_end_at_max_reply_bytes) {
    const char* rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 'text' FROM n";
    support::stopped_clock time;  // so no time limit ends it
    connection small = connector{file.url("?max_reply_bytes=100000&statement_cache=2")}.open();
    for (int i = 0; i < 3; ++i) {
        EXPECT_THROW(small.execute(rows), statement_error);
        EXPECT_THROW(support::await(small.async_execute(rows)), statement_error);
    }
    EXPECT_EQ(small.execute("SELECT 1").scalar<int>(), 1);
    cursor streamed = small.stream(rows);
    for (int i = 0; i < 5000; ++i) ASSERT_TRUE(streamed.next());
}

TEST_F(sqlite, ends_rows_without_end_in_time) {
    connection c2 = connector{file.url("?max_reply_bytes=1000000000000")}.open();
    c2.set_timeout(30ms);
    try {
        c2.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n");
        FAIL();
    } catch (const statement_error& e) {
        EXPECT_EQ(e.code(), SQLITE_INTERRUPT);
    }
}

TEST_F(sqlite, waits_for_a_lock_no_longer_than_it_may) {
    connector patient{file.url("?busy_timeout=50ms")};
    connection other = patient.open();
    c.execute("CREATE TABLE t(n)");
    c.execute("BEGIN IMMEDIATE");
    auto before = std::chrono::steady_clock::now();
    try {
        other.execute("INSERT INTO t VALUES (1)");
        FAIL();
    } catch (const statement_error& e) {
        EXPECT_EQ(e.code() & 0xff, SQLITE_BUSY);
    }
    EXPECT_GE(std::chrono::steady_clock::now() - before, 50ms);
    std::atomic<bool> written{false};
    std::thread writes([&] {
        connection another = connector{file.url("?busy_timeout=1h&operation_timeout=1h")}.open();
        EXPECT_EQ(another.execute("INSERT INTO t VALUES (1)").affected(), 1u);
        written = true;
    });
    EXPECT_TRUE(support::for_a_while([&] { return !written; }));
    c.execute("COMMIT");
    writes.join();
}

// More coroutines wait for the lock than there are work threads, and the holder needs one, too.
TEST_F(sqlite, holds_no_thread_while_it_waits_for_a_lock) {
    c.execute("CREATE TABLE t(n)");
    asio::io_context io;
    int done = 0;
    auto write = [&]() -> asio::awaitable<void> {
        connection mine = to.open();
        for (int i = 0; i < 5; ++i) {
            co_await mine.async_execute("BEGIN IMMEDIATE");
            co_await mine.async_execute("INSERT INTO t VALUES (1)");
            co_await mine.async_execute("COMMIT");
            ++done;
        }
    };
    for (int i = 0; i < 12; ++i)
        asio::co_spawn(io, write(), [](const std::exception_ptr& e) { EXPECT_EQ(e, nullptr); });
    io.run();
    EXPECT_EQ(done, 60);
}

TEST_F(sqlite, stops_when_it_is_canceled) {
    asio::io_context io;
    asio::cancellation_signal stop;
    int code = 0;
    auto work = [&]() -> asio::awaitable<void> {
        try {
            co_await c.async_execute(endless);
        } catch (const statement_error& e) {
            code = e.code();
        }
    };
    asio::co_spawn(io, work(),
                   asio::bind_cancellation_slot(stop.slot(), [](std::exception_ptr) {}));
    EXPECT_TRUE(has_begun(io));
    stop.emit(asio::cancellation_type::terminal);
    io.run();
    EXPECT_EQ(code, SQLITE_INTERRUPT);
    EXPECT_EQ(c.execute("SELECT 1").scalar<int>(), 1);
}

// The loop is destroyed while SQLite works: the work thread owns everything it uses.
TEST_F(sqlite, outlives_a_coroutine_that_is_destroyed) {
    support::stopped_clock time;
    c.set_timeout(200ms);
    {
        asio::io_context io;
        auto work = [&]() -> asio::awaitable<void> { co_await c.async_execute(endless); };
        asio::co_spawn(io, work(), [](std::exception_ptr) {});
        EXPECT_TRUE(has_begun(io));
    }
    EXPECT_EQ(to.before_release(c), verdict::discard);
    EXPECT_THROW(c.execute("SELECT 1"), connection_error);
    time.advance(200ms);  // SQLite ends
}

TEST_F(sqlite, does_one_thing_at_a_time) {
    asio::io_context io;
    auto work = [&]() -> asio::awaitable<void> {
        co_await c.async_execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) "
            "SELECT count(*) FROM n");
    };
    asio::co_spawn(io, work(), [](const std::exception_ptr& e) { EXPECT_EQ(e, nullptr); });
    io.run_one();
    EXPECT_THROW(c.execute("SELECT 1"), std::logic_error);
    io.run();
    EXPECT_EQ(c.execute("SELECT 1").scalar<int>(), 1);
}

TEST_F(sqlite, is_made_as_its_url_says) {
    connection other =
        connector{file.url("?synchronous=off&cache_size=-4000&foreign_keys=off")}.open();
    EXPECT_EQ(other.execute("PRAGMA synchronous").scalar<int>(), 0);
    EXPECT_EQ(other.execute("PRAGMA cache_size").scalar<int>(), -4000);
    EXPECT_EQ(other.execute("PRAGMA foreign_keys").scalar<int>(), 0);
    EXPECT_EQ(c.execute("PRAGMA foreign_keys").scalar<int>(), 1);
    EXPECT_EQ(c.execute("PRAGMA journal_mode").scalar<std::string>(), "wal");
    connection reader = connector{file.url("?mode=ro")}.open();
    EXPECT_THROW(reader.execute("CREATE TABLE t(n)"), statement_error);
}

TEST_F(sqlite, runs_its_users_setup_on_each_connection) {
    options o = options::from_url(file.url());
    int calls = 0;
    o.on_open = [&](connection& each) {
        ++calls;
        each.execute("PRAGMA recursive_triggers = on");
        sqlite3_create_function(
            each.native_handle(), "seven", 0, SQLITE_UTF8, nullptr,
            [](sqlite3_context* in, int, sqlite3_value**) { sqlite3_result_int(in, 7); }, nullptr,
            nullptr);
    };
    connector with_setup{o};
    connection one = with_setup.open();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(one.execute("SELECT seven()").scalar<int>(), 7);
    one.execute("PRAGMA recursive_triggers = off");
    EXPECT_EQ(with_setup.before_release(one), verdict::reset);
    with_setup.reset(one);
    EXPECT_EQ(one.execute("PRAGMA recursive_triggers").scalar<int>(), 1);
    EXPECT_EQ(one.execute("SELECT seven()").scalar<int>(), 7);
}

TEST_F(sqlite, reports_for_good_that_a_file_cannot_be_opened) {
    for (const std::string& url :
         {"sqlite:" + (file.folder() / "no" / "such" / "folder.db").string(),
          "sqlite:" + (file.folder() / "absent.db").string() + "?mode=rw"}) {
        try {
            connector{url}.open();
            FAIL() << url;
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::final) << e.what();
        }
    }
}

TEST_F(sqlite, reports_that_a_file_is_not_a_database) {
    std::ofstream(file.folder() / "text.db") << std::string(5000, 'x');
    EXPECT_THROW(connector{"sqlite:" + (file.folder() / "text.db").string()}.open(),
                 connection_error);
}

TEST_F(sqlite, accepts_any_path) {
    std::string odd = (file.folder() / "a%20b?c&d.db").string();
    options o;
    o.path = odd;
    connector{o}.open().execute("CREATE TABLE t(n)");
    EXPECT_TRUE(std::filesystem::exists(odd));
}

TEST(sqlite_memory, is_shared_by_name) {
    connector to{"sqlite:cenote_shared_test?mode=memory"};
    connection one = to.open();
    one.execute("CREATE TABLE t AS SELECT 5 AS n");
    connection two = to.open();
    EXPECT_EQ(two.execute("SELECT n FROM t").scalar<int>(), 5);
}

TEST(sqlite_memory, is_waited_for_while_another_one_writes) {
    connector to{"sqlite:cenote_busy_test?mode=memory&busy_timeout=1h&operation_timeout=1h"};
    connection one = to.open();
    connection two = to.open();
    one.execute("CREATE TABLE t(n INTEGER)");
    one.execute("BEGIN IMMEDIATE");
    one.execute("INSERT INTO t VALUES (1)");
    std::atomic<bool> written{false};
    std::thread writes([&] {
        two.execute("INSERT INTO t VALUES (2)");
        written = true;
        EXPECT_EQ(two.execute("SELECT count(*) FROM t").scalar<int>(), 2);
    });
    EXPECT_TRUE(support::for_a_while([&] { return !written; }));
    one.execute("COMMIT");
    writes.join();
}

TEST(sqlite_memory, is_another_one_by_another_name) {
    connection one = connector{"sqlite:cenote_a?mode=memory"}.open();
    one.execute("CREATE TABLE t(n INTEGER)");
    connection other = connector{"sqlite:cenote_b?mode=memory"}.open();
    EXPECT_THROW(other.execute("SELECT n FROM t"), statement_error);
}

TEST(sqlite_memory, is_not_private) {
    EXPECT_THROW(connector{"sqlite::memory:"}, std::invalid_argument);
    EXPECT_THROW(connector{"sqlite:file:x"}, std::invalid_argument);
}

TEST(sqlite_url, is_refused_with_a_reason) {
    for (const char* text : {"postgresql:x", "sqlite://host/x", "sqlite:x?mode=rx",
                             "sqlite:x?busy_timeout=soon", "sqlite:x?unknown=1"})
        EXPECT_THROW(options::from_url(text), invalid_url) << text;
    EXPECT_THROW(connector{"sqlite:"}, std::invalid_argument);
    EXPECT_THROW(connector{"sqlite:x?journal_mode=x;drop"}, std::invalid_argument);
    EXPECT_THROW(connector{"sqlite:x?synchronous=maybe"}, std::invalid_argument);
}

}  // namespace
}  // namespace cenote::sqlite
