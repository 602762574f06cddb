// Connections that want to write wait for each other in a line.
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
#include <thread>
#include <tuple>
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
        made->settle();
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
    bool somebody_waits(std::size_t count = 1) {
        return eventually([&] { return line->waiting() == count; });
    }
    bool is_free() { return static_cast<bool>(line->try_take()); }

    asio::io_context loop;  // first: it outlives those who post to it
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
    EXPECT_TRUE(somebody_waits(1));
    std::thread third([&] {
        cid->execute("BEGIN IMMEDIATE", {});
        write(*cid, "cid");
        cid->execute("COMMIT", {});
    });
    EXPECT_TRUE(somebody_waits(2));
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
    EXPECT_TRUE(somebody_waits(1));
    std::thread third([&] { write(*cid, "cid"); });
    EXPECT_TRUE(somebody_waits(2));
    ann->execute("ROLLBACK", {});
    second.get();
    third.join();
    runs.join();
    EXPECT_THAT(names(), ElementsAre("bob", "cid"));
    EXPECT_TRUE(is_free());
}

TEST_F(sqlite_line, is_not_for_those_who_read_or_write_what_nobody_else_sees) {
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

/// In a database without a log of what was written, the one who writes waits for all who read.
TEST_F(sqlite_line, is_not_for_those_who_have_begun_to_read) {
    std::shared_ptr<session> late = open("?busy_timeout=1ms");
    late->execute("BEGIN", {});
    late->execute("SELECT * FROM t", {});
    ann->execute("BEGIN IMMEDIATE", {});
    EXPECT_THROW(write(*late, "late"), statement_error);
    EXPECT_EQ(line->waiting(), 0u);
    late->execute("ROLLBACK", {});
}

TEST_F(sqlite_line, goes_on_when_a_writer_has_ended_however_it_has) {
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
    std::ignore = ann->leave();
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

TEST_F(sqlite_line, tells_those_for_whom_it_takes_too_long) {
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
    EXPECT_TRUE(somebody_waits(1));
    asio::post(loop, [&] { stop.emit(asio::cancellation_type::terminal); });
    EXPECT_ANY_THROW(second.get());
    runs.join();
    EXPECT_EQ(line->waiting(), 0u);
    ann->execute("COMMIT", {});
    EXPECT_TRUE(is_free());
    write(*bob, "later");
    EXPECT_THAT(names(), ElementsAre("later"));
}

}  // namespace
}  // namespace cenote::sqlite::detail
