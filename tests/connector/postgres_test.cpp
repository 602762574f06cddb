// PostgreSQL: values in both directions, statements, streams, time limits; blocking and awaited.
#include "cenote/postgres.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "connector/awaiting.hpp"
#include "connector/closed.hpp"
#include "connector/postgres_place.hpp"
#include "support/clock.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"

namespace cenote::postgres {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::await;
using support::backend_of;
using support::postgres_url;

struct postgres : testing::Test {
    connector to{postgres_url()};
    connection c = to.open();
};

template <class T>
T there_and_back(connection& c, const char* type, const T& value) {
    return c.execute(std::string("select $1::") + type, value).template scalar<T>();
}

const std::vector<std::int64_t> numbers{0, -1, 1, std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::min()};
const std::vector<double> fractions{0.0,
                                    -1.5,
                                    0.1,
                                    1e308,
                                    5e-324,
                                    1.0 / 3,
                                    std::numeric_limits<double>::infinity(),
                                    -std::numeric_limits<double>::infinity()};
const std::vector<std::string> texts{"",       "it's",    "äß漢",
                                     "$1; --", R"(\x00)", std::string(1'000'000, 'x')};

sql::bytes all_bytes() {
    sql::bytes all;
    for (int i = 0; i < 256; ++i) all.push_back(static_cast<std::byte>(i));
    return all;
}

const std::vector<sql::bytes> octets{
    {}, {std::byte{0}}, all_bytes(), sql::bytes(1'000'000, std::byte{7})};

TEST_F(postgres, refuses_everything_when_it_was_closed) {
    support::expect_refused_when_closed(to, c);
}

TEST_F(postgres, leaves_no_descriptor_to_programs_that_are_started) {
    auto before = support::descriptors_of_a_child();
    connection another = connector(postgres_url()).open();
    connection awaited = await(async_connector(postgres_url()).open());
    EXPECT_EQ(support::descriptors_of_a_child(), before);
}

TEST_F(postgres, gives_back_what_it_was_given) {
    for (std::int64_t i : numbers) EXPECT_EQ(there_and_back(c, "int8", i), i);
    for (double d : fractions) EXPECT_EQ(there_and_back(c, "float8", d), d);
    EXPECT_TRUE(std::isnan(there_and_back(c, "float8", std::nan(""))));
    EXPECT_TRUE(std::signbit(there_and_back(c, "float8", -0.0)));
    for (const std::string& text : texts) EXPECT_EQ(there_and_back(c, "text", text), text);
    for (const sql::bytes& o : octets) EXPECT_EQ(there_and_back(c, "bytea", o), o);
    EXPECT_EQ(there_and_back(c, "bool", true), true);
    EXPECT_EQ(there_and_back(c, "bool", false), false);
    EXPECT_EQ(there_and_back<std::int16_t>(c, "int2", -7), -7);
    EXPECT_EQ(there_and_back<std::int32_t>(c, "int4", 1 << 30), 1 << 30);
    EXPECT_EQ(there_and_back<std::uint32_t>(c, "oid", 4'000'000'000u), 4'000'000'000u);
    EXPECT_EQ(there_and_back<float>(c, "float4", 0.1f), 0.1f);
    EXPECT_EQ(there_and_back<std::string>(c, "numeric", "12345678901234567890.10"),
              "12345678901234567890.10");
}

TEST_F(postgres, gives_back_null) {
    for (const char* type : {"int8", "float8", "text", "bytea", "bool", "date"}) {
        auto r = c.execute(std::string("select $1::") + type, nullptr);
        EXPECT_TRUE(r.one()[0].is_null()) << type;
        EXPECT_EQ(r.scalar<std::optional<int>>(), std::nullopt);
    }
    EXPECT_EQ(c.execute("select $1::int8", std::optional<int>(3)).scalar<int>(), 3);
}

TEST_F(postgres, understands_bytes_in_the_old_format) {
    c.execute("set bytea_output = 'escape'");
    for (const sql::bytes& o : octets) EXPECT_EQ(there_and_back(c, "bytea", o), o);
}

TEST_F(postgres, refuses_text_with_a_zero_byte_before_it_is_sent) {
    std::string half("a\0b", 3);
    EXPECT_THROW(c.execute("select $1::text", half), std::invalid_argument);
    EXPECT_THROW(c.stream("select $1::text", half), std::invalid_argument);
    EXPECT_THROW(await(c.async_stream("select $1::text", half)), std::invalid_argument);
    EXPECT_THROW(c.execute(std::string_view("select 1\0; drop table x", 23)),
                 std::invalid_argument);
    EXPECT_THROW(c.prepare(std::string_view("\0", 1)), std::invalid_argument);
    EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
}

TEST_F(postgres, refuses_more_parameters_than_there_can_be) {
    std::vector<sql::parameter> many(65536);
    EXPECT_THROW(c.execute_bound("select 1", many), std::invalid_argument);
    EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
}

TEST_F(postgres, names_columns_and_counts_rows) {
    c.execute("create temp table t(i int primary key, s text)");
    EXPECT_EQ(
        c.execute("insert into t select i, 's' || i from generate_series(1, 10) i").affected(),
        10u);
    EXPECT_EQ(c.execute("update t set s = '' where i > $1", 7).affected(), 3u);
    auto r = c.execute("select i, s as name from t where i <= 2 order by i");
    ASSERT_EQ(r.size(), 2u);
    EXPECT_EQ(r.affected(), 0u);
    EXPECT_EQ(r[1].get<int>("i"), 2);
    EXPECT_EQ(r[1].get<std::string>("name"), "s2");
    EXPECT_EQ(c.execute("insert into t values (11, $1) returning i", "x").scalar<int>(), 11);
    EXPECT_TRUE(c.execute("").empty());
}

TEST_F(postgres, runs_one_statement_at_a_time) {
    EXPECT_THROW(c.execute("select 1; select 2"), statement_error);
    EXPECT_EQ(c.execute("select 3").scalar<int>(), 3);
}

TEST_F(postgres, sends_and_reads_what_does_not_fit_into_a_socket) {
    std::string large(20'000'000, 'y');
    EXPECT_EQ(c.execute("select length($1::text)", large).scalar<int>(), 20'000'000);
    EXPECT_EQ(c.execute("select $1::text", large).scalar<std::string>(), large);
    EXPECT_EQ(await(c.async_execute("select $1::text", large)).scalar<std::string>(), large);
    auto r = c.execute("select i, repeat('z', 100) from generate_series(1, 100000) i");
    ASSERT_EQ(r.size(), 100'000u);
    EXPECT_EQ(r[99'999].get<int>(0), 100'000);
}

TEST_F(postgres, keeps_prepared_statements) {
    statement twice = c.prepare("select $1::int8 * 2, $2::bytea");
    for (const sql::bytes& o : octets) {
        auto r = c.execute(twice, 21, o);
        EXPECT_EQ(r.one().get<int>(0), 42);
        EXPECT_EQ(r.one().get<sql::bytes>(1), o);
    }
    statement other = await(c.async_prepare("select $1::text || '!'"));
    EXPECT_EQ(await(c.async_execute(other, "a")).scalar<std::string>(), "a!");
    EXPECT_EQ(await(c.async_execute(twice, 1, nullptr)).one().get<int>(0), 2);
    EXPECT_THROW(c.prepare("select nothing from nowhere"), statement_error);
    EXPECT_THROW(c.execute(twice, 1), statement_error);
    EXPECT_EQ(c.execute(other, "b").scalar<std::string>(), "b!");
    EXPECT_THROW(c.execute(statement{}, 1), std::logic_error);
}

TEST_F(postgres, knows_a_statement_of_another_connection) {
    connection other = to.open();
    statement here = c.prepare("select 1");
    statement there = other.prepare("select 2");
    EXPECT_THROW(c.execute(there), std::logic_error);
    EXPECT_THROW(await(other.async_execute(here)), std::logic_error);
    EXPECT_EQ(other.execute(there).scalar<int>(), 2);
}

TEST_F(postgres, streams) {
    cursor rows = c.stream("select i, 'x' as name from generate_series(1, $1) i", 10'000);
    int last = 0;
    while (auto row = rows.next()) {
        ASSERT_EQ(row->get<int>("i"), last + 1);
        last = row->get<int>("i");
    }
    EXPECT_EQ(last, 10'000);
    EXPECT_EQ(rows.next(), std::nullopt);
    EXPECT_EQ(c.execute("select 5").scalar<int>(), 5);
    EXPECT_EQ(c.stream("select 1 where false").next(), std::nullopt);
    EXPECT_EQ(c.stream("create temp table t(i int)").next(), std::nullopt);
    EXPECT_EQ(c.execute("select 6").scalar<int>(), 6);
}

asio::awaitable<int> count_awaited(connection& c, int rows) {
    cursor all = co_await c.async_stream("select i from generate_series(1, $1) i", rows);
    int seen = 0;
    for (;;) {
        auto row = co_await all.async_next();
        if (!row) break;
        seen += row->get<int>(0) == seen + 1 ? 1 : 0;
    }
    co_return seen;
}

TEST_F(postgres, streams_awaited) {
    EXPECT_EQ(await(count_awaited(c, 10'000)), 10'000);
    EXPECT_EQ(c.execute("select 5").scalar<int>(), 5);
}

TEST_F(postgres, says_so_if_a_stream_fails_in_the_middle) {
    cursor rows = c.stream("select 1000 / (500 - i) from generate_series(1, 1000) i");
    EXPECT_THROW(while (rows.next()){}, statement_error);
    EXPECT_EQ(rows.next(), std::nullopt);
    EXPECT_THROW(c.stream("selec 1"), statement_error);
    EXPECT_THROW(await(c.async_stream("selec 1")), statement_error);
    EXPECT_EQ(c.execute("select 5").scalar<int>(), 5);
}

TEST_F(postgres, does_one_thing_at_a_time) {
    cursor rows = c.stream("select i from generate_series(1, 100000) i");
    EXPECT_THROW(c.execute("select 1"), std::logic_error);
    EXPECT_THROW(await(c.async_execute("select 1")), std::logic_error);
    EXPECT_THROW(c.stream("select 1"), std::logic_error);
    EXPECT_THROW(await(c.async_stream("select 1")), std::logic_error);
    EXPECT_EQ(rows.next()->get<int>(0), 1);  // unharmed
    while (rows.next()) {
    }
    EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
}

TEST_F(postgres, a_cursor_that_ends_early_takes_the_connection_with_it) {
    {
        cursor rows = c.stream("select i, repeat('x', 1000) from generate_series(1, 100000) i");
        EXPECT_TRUE(rows.next());
    }
    EXPECT_EQ(to.before_release(c), verdict::discard);
    EXPECT_FALSE(to.before_acquire(c));
    EXPECT_THROW(c.execute("select 1"), connection_error);
}

TEST_F(postgres, a_cursor_whose_end_is_there_leaves_the_connection_alone) {
    {
        cursor rows = c.stream("select i from generate_series(1, 3) i");
        EXPECT_TRUE(rows.next());
    }
    EXPECT_EQ(c.execute("select 5").scalar<int>(), 5);
}

TEST_F(postgres, a_cursor_may_outlive_its_connection) {
    cursor rows = c.stream("select i from generate_series(1, 100000) i");
    {
        connection gone = std::move(c);
    }
    EXPECT_TRUE(rows.next());  // has come before
    EXPECT_THROW(rows.next(), connection_error);
}

TEST_F(postgres, copy_breaks_the_connection) {
    EXPECT_THROW(c.execute("copy (select 1) to stdout"), connection_error);
    EXPECT_EQ(to.before_release(c), verdict::discard);
    connection other = to.open();
    other.execute("create temp table t(i int)");
    EXPECT_THROW(await(other.async_execute("copy t from stdin")), connection_error);
    EXPECT_EQ(to.before_release(other), verdict::discard);
}

TEST_F(postgres, knows_whether_it_is_in_a_transaction) {
    EXPECT_FALSE(c.in_transaction());
    c.execute("begin");
    EXPECT_TRUE(c.in_transaction());
    EXPECT_THROW(c.execute("select 1/0"), statement_error);
    EXPECT_TRUE(c.in_transaction());
    c.execute("rollback");
    EXPECT_FALSE(c.in_transaction());
}

asio::awaitable<std::int64_t> echo(connection& c, std::int64_t nonce) {
    auto came = co_await c.async_execute("select $1::int8", nonce);
    co_return came.scalar<std::int64_t>();
}

TEST_F(postgres, is_used_on_two_executors_in_turn) {
    asio::io_context one;
    asio::io_context two;
    auto work_one = asio::make_work_guard(one);
    auto work_two = asio::make_work_guard(two);
    std::thread first([&] { one.run(); });
    std::thread second([&] { two.run(); });
    for (int i = 0; i < support::rounds(200); ++i) {
        asio::io_context& here = i % 2 == 0 ? one : two;
        EXPECT_EQ(asio::co_spawn(here, echo(c, i), asio::use_future).get(), i);
        EXPECT_EQ(c.execute("select $1::int8", -i).scalar<int>(), -i);
    }
    work_one.reset();
    work_two.reset();
    first.join();
    second.join();
}

TEST_F(postgres, an_awaited_form_owns_what_it_was_given) {
    asio::awaitable<sql::result> later = [&] {
        std::string text = "select $1::text || $2::text";
        std::string value(100, 'v');
        sql::bytes more(3, std::byte{'w'});
        return c.async_execute(text, value, "w");
    }();
    EXPECT_EQ(await(std::move(later)).scalar<std::string>(), std::string(100, 'v') + "w");
}

TEST_F(postgres, an_operation_has_its_time) {
    std::string working =
        "select count(*) from pg_stat_activity where state = 'active' and query like '%pg_sleep%' "
        "and pid = " +
        std::to_string(backend_of(c));
    auto works = [&] { return support::the_postgres().execute_as_admin(working).starts_with("1"); };
    support::stopped_clock time;
    c.set_timeout(50ms);
    std::atomic<bool> over{false};
    std::thread asks([&] {
        EXPECT_THROW(c.execute("select pg_sleep(600)"), exchange_timeout);
        over = true;
    });
    EXPECT_TRUE(support::eventually(works));
    time.advance(49ms);
    EXPECT_TRUE(support::for_a_while([&] { return !over; }));
    time.advance(1ms);
    asks.join();
    EXPECT_THROW(c.execute("select 1"), connection_error);
    EXPECT_EQ(to.before_release(c), verdict::discard);
    // The server was asked to stop; the connection is not closed yet.
    EXPECT_TRUE(support::eventually([&] { return !works(); }));
}

TEST_F(postgres, an_awaited_operation_has_its_time) {
    c.set_timeout(50ms);
    EXPECT_THROW(await(c.async_execute("select pg_sleep(600)")), exchange_timeout);
    EXPECT_EQ(to.before_release(c), verdict::discard);
    connection other = to.open();
    other.set_timeout(50ms);
    EXPECT_THROW(other.stream("select pg_sleep(600)"), exchange_timeout);
    EXPECT_EQ(to.before_release(other), verdict::discard);
}

TEST_F(postgres, a_time_limit_is_forgotten_at_release) {
    c.set_timeout(1ns);
    EXPECT_EQ(to.before_release(c), verdict::keep);
    c.execute("select pg_sleep(0.01)");
}

TEST_F(postgres, probes) {
    EXPECT_TRUE(to.probe(c));
    EXPECT_EQ(to.before_release(c), verdict::keep);
    async_connector awaited{postgres_url()};
    EXPECT_TRUE(await(awaited.probe(c)));
    support::the_postgres().kill_backends();
    EXPECT_THROW(to.probe(c), connection_error);
}

TEST_F(postgres, opens_awaited_and_by_its_socket) {
    async_connector awaited{postgres_url()};
    connection other = await(awaited.open());
    EXPECT_EQ(await(echo(other, 7)), 7);
    awaited.close(other);
    EXPECT_THROW(other.execute("select 1"), connection_error);

    options by_socket = options::from_url(postgres_url());
    by_socket.hosts = {
        {.name = support::the_postgres().socket_folder(), .port = support::the_postgres().port()}};
    EXPECT_EQ(connector{by_socket}.open().execute("select 2").scalar<int>(), 2);
    connection third = await(async_connector{by_socket}.open());
    EXPECT_EQ(await(echo(third, 8)), 8);
}

TEST_F(postgres, finds_its_server_by_name) {
    options by_name = options::from_url(postgres_url());
    by_name.hosts.front().name = "localhost";
    EXPECT_EQ(connector{by_name}.open().execute("select 2").scalar<int>(), 2);
    connection other = await(async_connector{by_name}.open());
    EXPECT_EQ(await(echo(other, 8)), 8);
}

}  // namespace
}  // namespace cenote::postgres
