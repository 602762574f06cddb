// Functions for connections to any server, here with connections to SQLite.
#include "cenote/sql_connection.hpp"

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "cenote/sqlite.hpp"
#include "connector/awaiting.hpp"
#include "connector/sqlite_file.hpp"

namespace cenote::sql {
namespace {

namespace asio = boost::asio;
using support::await;

static_assert(!std::is_constructible_v<connection, std::shared_ptr<detail::session>>);
static_assert(!std::is_move_constructible_v<connection>);  // that would slice it
static_assert(!std::is_move_assignable_v<connection>);
static_assert(std::is_nothrow_move_constructible_v<sqlite::connection>);
static_assert(std::is_nothrow_move_assignable_v<sqlite::connection>);
static_assert(!std::is_copy_constructible_v<sqlite::connection>);
static_assert(!std::is_copy_constructible_v<cursor>);
static_assert(std::is_same_v<sqlite::statement, statement>);
static_assert(std::is_same_v<sqlite::cursor, cursor>);

std::int64_t sum_of(connection& c, const std::vector<int>& numbers) {
    c.execute("CREATE TEMP TABLE numbers(n INTEGER)");
    statement insert = c.prepare("INSERT INTO numbers VALUES (?)");
    for (int n : numbers) c.execute(insert, n);
    std::int64_t sum = 0;
    cursor rows = c.stream("SELECT n FROM numbers WHERE n > ?", 0);
    while (auto row = rows.next()) sum += row->get<std::int64_t>("n");
    return sum;
}

asio::awaitable<std::int64_t> async_sum_of(connection* c, std::vector<int> numbers) {
    co_await c->async_execute("CREATE TEMP TABLE numbers(n INTEGER)");
    statement insert = co_await c->async_prepare("INSERT INTO numbers VALUES (?)");
    for (int n : numbers) co_await c->async_execute(insert, n);
    std::int64_t sum = 0;
    cursor rows = co_await c->async_stream("SELECT n FROM numbers WHERE n > ?", 0);
    for (;;) {
        auto row = co_await rows.async_next();
        if (!row) break;
        sum += row->get<std::int64_t>("n");
    }
    co_return sum;
}

struct sql_connection : testing::Test {
    support::sqlite_file file;
    sqlite::connector to{file.url()};
    sqlite::connection c = to.open();
};

TEST_F(sql_connection, is_what_a_servers_connection_is) {
    EXPECT_EQ(sum_of(c, {1, 2, 3, -4}), 6);
    EXPECT_EQ(to.before_release(c), verdict::reset);
}

TEST_F(sql_connection, is_awaited) { EXPECT_EQ(await(async_sum_of(&c, {1, 2, 3, -4})), 6); }

TEST_F(sql_connection, is_what_a_lease_has) {
    pool<sqlite::connection> pool{to, {.max = 1}};
    for (int i = 0; i < 2; ++i) EXPECT_EQ(sum_of(*pool.acquire(), {i, 5}), i + 5);
}

TEST_F(sql_connection, tells_of_its_transaction_and_takes_parameters_from_a_list) {
    connection& any = c;
    EXPECT_FALSE(any.in_transaction());
    any.execute("BEGIN");
    EXPECT_TRUE(any.in_transaction());
    std::vector<parameter> list{1, "two"};
    EXPECT_EQ(any.execute_bound("SELECT ? || ?", list).scalar<std::string>(), "1two");
    bound_statement kept("SELECT ? || ?", list);
    EXPECT_EQ(await(any.async_execute_bound(std::move(kept))).scalar<std::string>(), "1two");
    any.set_timeout(std::chrono::nanoseconds{1});
    EXPECT_THROW(any.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                             "SELECT count(*) FROM n"),
                 statement_error);
}

// Each operation begins when it is awaited; by then the connection has moved.
TEST_F(sql_connection, may_move_before_its_operations_are_awaited) {
    auto executed = c.async_execute("SELECT ?", std::string("text"));
    auto prepared = c.async_prepare("SELECT 2");
    auto streamed = c.async_stream("SELECT 3");
    auto moved = std::make_unique<sqlite::connection>(std::move(c));
    EXPECT_EQ(await(std::move(executed)).scalar<std::string>(), "text");
    EXPECT_EQ(moved->execute(await(std::move(prepared))).scalar<int>(), 2);
    cursor rows = await(std::move(streamed));
    auto next = rows.async_next();
    cursor elsewhere = std::move(rows);
    moved.reset();
    EXPECT_EQ(await(std::move(next))->get<int>(0), 3);
    EXPECT_EQ(elsewhere.next(), std::nullopt);
}

TEST_F(sql_connection, knows_a_statement_of_another_one) {
    sqlite::connection other = to.open();
    statement here = c.prepare("SELECT 1");
    statement there = other.prepare("SELECT 2");
    EXPECT_THROW(c.execute(there), std::logic_error);
    EXPECT_THROW(await(other.async_execute(here)), std::logic_error);
    EXPECT_THROW(c.execute(statement()), std::logic_error);
    EXPECT_EQ(c.execute(here).scalar<int>(), 1);
    EXPECT_EQ(other.execute(there).scalar<int>(), 2);
}

}  // namespace
}  // namespace cenote::sql
