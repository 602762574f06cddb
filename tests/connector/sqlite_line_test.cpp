// The line of writers of SQLite.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/server_error.hpp"
#include "cenote/sqlite.hpp"
#include "connector/awaiting.hpp"
#include "connector/sqlite_file.hpp"
#include "connector/sqlite_session.hpp"
#include "support/patience.hpp"

namespace cenote::sqlite::detail {
namespace {

namespace asio = boost::asio;
using support::await_on;
using support::eventually;
using testing::ElementsAre;

struct sqlite_line : testing::Test {
    sqlite_line() { ann->execute("CREATE TABLE t (name TEXT)", {}); }

    std::shared_ptr<session> open(const std::string& parameters = "") const {
        auto settings = std::make_shared<const options>(options::from_url(file.url(parameters)));
        auto made = std::make_shared<session>(settings, line);
        made->finish_opening();
        return made;
    }
    static void write(session& as, const std::string& name) {
        as.execute("INSERT INTO t VALUES ('" + name + "')", {});
    }
    static asio::awaitable<sql::result> async_write(session& as, const std::string& name) {
        return as.async_execute(sql::bound_statement("INSERT INTO t VALUES ('" + name + "')", {}));
    }
    std::vector<std::string> names() {
        std::vector<std::string> all;
        for (auto name : ann->execute("SELECT name FROM t ORDER BY rowid", {}).as<std::string>())
            all.push_back(name);
        return all;
    }
    bool a_writer_waits(std::size_t count = 1) {
        return eventually([&] { return line->waiting() == count; });
    }
    bool is_free() { return static_cast<bool>(line->try_take()); }

    asio::io_context loop;  // first: it outlives the sessions
    support::sqlite_file file;
    std::shared_ptr<writers_line> line = std::make_shared<writers_line>();
    std::shared_ptr<session> ann = open();
    std::shared_ptr<session> bob = open();
    std::shared_ptr<session> cid = open();
};

TEST_F(sqlite_line, is_served_in_the_order_of_arrival) {
    ann->execute("BEGIN IMMEDIATE", {});
    write(*ann, "ann");
    std::thread second([&] { write(*bob, "bob"); });
    EXPECT_TRUE(a_writer_waits(1));
    std::thread third([&] {
        cid->execute("BEGIN IMMEDIATE", {});
        write(*cid, "cid");
        cid->execute("COMMIT", {});
    });
    EXPECT_TRUE(a_writer_waits(2));
    ann->execute("COMMIT", {});
    second.join();
    third.join();
    EXPECT_THAT(names(), ElementsAre("ann", "bob", "cid"));
    EXPECT_TRUE(is_free());
}

TEST_F(sqlite_line, is_awaited_in_the_same_one) {
    ann->execute("BEGIN IMMEDIATE", {});
    write(*ann, "ann");
    auto second = asio::co_spawn(loop, async_write(*bob, "bob"), asio::use_future);
    std::thread runs([&] { loop.run(); });
    EXPECT_TRUE(a_writer_waits(1));
    std::thread third([&] { write(*cid, "cid"); });
    EXPECT_TRUE(a_writer_waits(2));
    ann->execute("ROLLBACK", {});
    second.get();
    third.join();
    runs.join();
    EXPECT_THAT(names(), ElementsAre("bob", "cid"));
    EXPECT_TRUE(is_free());
}

TEST_F(sqlite_line, is_not_for_reads_and_for_writes_to_temporary_tables) {
    ann->execute("BEGIN IMMEDIATE", {});
    EXPECT_FALSE(is_free());
    EXPECT_TRUE(bob->execute("SELECT * FROM t", {}).empty());
    bob->execute("BEGIN", {});
    bob->execute("CREATE TEMPORARY TABLE mine (n INTEGER)", {});
    bob->execute("INSERT INTO mine VALUES (1)", {});
    bob->execute("UPDATE mine SET n = 2", {});
    bob->execute("COMMIT", {});
    EXPECT_EQ(bob->execute("SELECT n FROM mine", {}).scalar<int>(), 2);
    await_on(loop, bob->async_execute(sql::bound_statement("DELETE FROM mine", {})));
}

/// Without a write-ahead log the writer waits for all readers: if one of these waited for a turn,
/// both would wait until their deadlines.
TEST_F(sqlite_line, is_not_for_transactions_that_have_begun_to_read) {
    const char* for_long = "?journal_mode=delete&busy_timeout=1h&operation_timeout=1h";
    ann.reset();
    bob.reset();
    cid.reset();
    std::shared_ptr<session> reader = open(for_long);
    std::shared_ptr<session> writer = open(for_long);
    reader->execute("BEGIN", {});
    reader->execute("SELECT * FROM t", {});
    writer->execute("BEGIN IMMEDIATE", {});
    write(*writer, "writer");
    std::thread commits([&] { writer->execute("COMMIT", {}); });
    EXPECT_TRUE(eventually([&] {
        try {
            write(*reader, "reader");
        } catch (const statement_error& e) {
            return (e.code() & 0xff) == session::locked;  // SQLite's own error, at once
        }
        return false;
    }));
    reader->execute("ROLLBACK", {});
    commits.join();
    EXPECT_TRUE(is_free());
    ann = open();
    EXPECT_THAT(names(), ElementsAre("writer"));
}

TEST_F(sqlite_line, is_for_the_file_alone_and_not_for_what_is_attached) {
    ann->execute("ATTACH '" + file.path() + ".other' AS other", {});
    ann->execute("CREATE TABLE other.u (n INTEGER)", {});
    ann->execute("BEGIN", {});
    ann->execute("INSERT INTO other.u VALUES (1)", {});
    EXPECT_TRUE(is_free());
    write(*bob, "bob");
    ann->execute("COMMIT", {});
    EXPECT_THAT(names(), ElementsAre("bob"));
}

/// A connection that has the turn and does not write delays the others, but does not stop them.
TEST_F(sqlite_line, can_be_done_without) {
    writers_line::turn idle = line->take_until(std::chrono::steady_clock::time_point::max());
    ASSERT_TRUE(idle);
    std::shared_ptr<session> hasty = open("?busy_timeout=10ms");
    write(*hasty, "blocking");
    await_on(loop, async_write(*hasty, "awaited"));
    EXPECT_THAT(names(), ElementsAre("blocking", "awaited"));
}

TEST_F(sqlite_line, is_not_waited_in_for_longer_than_an_operation_may_take) {
    ann->execute("BEGIN IMMEDIATE", {});
    std::shared_ptr<session> hasty = open("?busy_timeout=1h&operation_timeout=20ms");
    EXPECT_THROW(write(*hasty, "late"), statement_error);
    auto awaited = [&] { return await_on(loop, async_write(*hasty, "late")); };
    EXPECT_THROW(awaited(), statement_error);
}

/// The child of a fork has copies of the parent's turn and session.
TEST_F(sqlite_line, is_left_to_the_parent) {
    std::optional<sql::cursor> rows(ann->stream("INSERT INTO t VALUES ('x') RETURNING name", {}));
    EXPECT_TRUE(rows->next());
    pid_t child = ::fork();
    if (child == 0) {
        ann->forsake();
        rows.reset();
        ann.reset();
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    rows.reset();
    EXPECT_TRUE(is_free());
    EXPECT_THAT(names(), ElementsAre("x"));
}

TEST_F(sqlite_line, is_not_for_read_only_leases) {
    bob->only_read(true);
    EXPECT_THROW(write(*bob, "bob"), statement_error);
    EXPECT_THROW(bob->execute("BEGIN IMMEDIATE", {}), statement_error);
    EXPECT_THROW(bob->execute("CREATE TABLE u (n INTEGER)", {}), statement_error);
    bob->execute("CREATE TEMPORARY TABLE mine (n INTEGER)", {});
    bob->execute("INSERT INTO mine VALUES (1)", {});
    bob->execute("BEGIN", {});
    EXPECT_TRUE(bob->execute("SELECT * FROM t", {}).empty());
    bob->execute("COMMIT", {});
    EXPECT_EQ(bob->end_lease(), verdict::reset);  // the table
    bob->reset();
    write(*bob, "bob");
    EXPECT_THAT(names(), ElementsAre("bob"));
}

TEST_F(sqlite_line, goes_on_after_each_kind_of_end_of_a_writer) {
    write(*ann, "alone");
    EXPECT_TRUE(is_free());
    EXPECT_THROW(ann->execute("INSERT INTO t VALUES (nonsense)", {}), statement_error);
    EXPECT_TRUE(is_free());
    ann->execute("CREATE UNIQUE INDEX once ON t (name)", {});
    EXPECT_THROW(write(*ann, "alone"), statement_error);
    EXPECT_TRUE(is_free());
    ann->execute("BEGIN IMMEDIATE", {});
    EXPECT_FALSE(is_free());
    ann->reset();
    EXPECT_TRUE(is_free());
    {
        sql::cursor rows = ann->stream("INSERT INTO t VALUES ('x'), ('y') RETURNING name", {});
        EXPECT_TRUE(rows.next());
        EXPECT_FALSE(is_free());
    }
    EXPECT_TRUE(is_free());
    std::optional<sql::cursor> left(ann->stream("INSERT INTO t VALUES ('z') RETURNING name", {}));
    std::ignore = left->next();
    std::ignore = ann->end_lease();
    EXPECT_TRUE(is_free());
    left.reset();
    bob->execute("BEGIN IMMEDIATE", {});
    EXPECT_FALSE(is_free());
    bob.reset();
    EXPECT_TRUE(is_free());
    sql::statement prepared = cid->prepare("INSERT INTO t VALUES ('p')");
    cid->execute(prepared, {});
    EXPECT_TRUE(is_free());
}

TEST_F(sqlite_line, reports_a_wait_that_takes_too_long) {
    ann->execute("BEGIN IMMEDIATE", {});
    std::shared_ptr<session> hasty = open("?busy_timeout=10ms");
    EXPECT_THROW(write(*hasty, "late"), statement_error);
    auto awaited = [&] { return await_on(loop, async_write(*hasty, "late")); };
    EXPECT_THROW(awaited(), statement_error);
    ann->execute("COMMIT", {});
    EXPECT_EQ(line->waiting(), 0u);
    write(*hasty, "in time");
    EXPECT_THAT(names(), ElementsAre("in time"));
}

TEST_F(sqlite_line, can_be_left) {
    ann->execute("BEGIN IMMEDIATE", {});
    asio::cancellation_signal stop;
    auto token = asio::bind_cancellation_slot(stop.slot(), asio::use_future);
    std::future<sql::result> second = asio::co_spawn(loop, async_write(*bob, "bob"), token);
    std::thread runs([&] { loop.run(); });
    EXPECT_TRUE(a_writer_waits(1));
    asio::post(loop, [&] { stop.emit(asio::cancellation_type::terminal); });
    runs.join();  // before the exception is read, since the loop refers to it, too
    try {
        second.get();
        ADD_FAILURE() << "it was not canceled";
    } catch (const statement_error& e) {
        EXPECT_THAT(e.what(), testing::HasSubstr("canceled"));
    }
    EXPECT_EQ(line->waiting(), 0u);
    ann->execute("COMMIT", {});
    EXPECT_TRUE(is_free());
    write(*bob, "later");
    EXPECT_THAT(names(), ElementsAre("later"));
}

}  // namespace
}  // namespace cenote::sqlite::detail
