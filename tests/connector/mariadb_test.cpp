// MariaDB: values in both directions, statements, streams, time limits; blocking and awaited.
#include "cenote/mariadb.hpp"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "connector/awaiting.hpp"
#include "connector/closed.hpp"
#include "connector/mariadb_place.hpp"
#include "support/clock.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"

namespace cenote::mariadb {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::await;
using support::await_open;
using support::backend_of;
using support::mariadb_url;
using support::the_mariadb;

struct mariadb : testing::Test {
    connector to{mariadb_url()};
    connection c = to.open();
};

const std::vector<std::int64_t> numbers{0, -1, 1, std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::min()};
const std::vector<double> fractions{0.0, -1.5, 0.1, 1e308, 1.0 / 3};
const std::vector<std::string> texts{
    "", "it's", "äß漢", "? -- ;", R"(\x00)", std::string("a\0b", 3), std::string(1'000'000, 'x')};

sql::bytes all_bytes() {
    sql::bytes all;
    for (int i = 0; i < 256; ++i) all.push_back(static_cast<std::byte>(i));
    return all;
}

const std::vector<sql::bytes> octets{
    {}, {std::byte{0}}, all_bytes(), sql::bytes(1'000'000, std::byte{7})};

template <class T>
T there_and_back(connection& c, const T& value) {
    return c.execute("select ?", value).template scalar<T>();
}

TEST_F(mariadb, refuses_everything_when_it_was_closed) {
    support::expect_refused_when_closed(to, c);
}

TEST_F(mariadb, leaves_no_descriptor_to_programs_that_are_started) {
    auto before = support::descriptors_of_a_child();
    connection another = to.open();
    async_connector awaits(mariadb_url());
    connection awaited = await_open(awaits);
    EXPECT_EQ(support::descriptors_of_a_child(), before);
}

TEST_F(mariadb, gives_back_what_it_was_given) {
    for (std::int64_t i : numbers) EXPECT_EQ(there_and_back(c, i), i);
    for (double d : fractions) EXPECT_EQ(there_and_back(c, d), d);
    for (const std::string& text : texts) EXPECT_EQ(there_and_back(c, text), text);
    for (const sql::bytes& o : octets) EXPECT_EQ(there_and_back(c, o), o);
    EXPECT_EQ(there_and_back(c, true), true);
    EXPECT_EQ(there_and_back(c, false), false);
    EXPECT_TRUE(c.execute("select ?", nullptr).one()[0].is_null());
    EXPECT_EQ(c.execute("select ?", std::optional<int>()).scalar<std::optional<int>>(),
              std::nullopt);
}

TEST_F(mariadb, stores_all_kinds_of_columns) {
    c.execute(
        "create temporary table kinds (t tinyint, tu tinyint unsigned, s smallint, m "
        "mediumint, i int, b bigint, bu bigint unsigned, f float, d double, de decimal(30,4), "
        "y year, bi bit(1), bb bit(64), da date, ti time(3), dt datetime(6), ts timestamp "
        "null, ch char(5), vc varchar(50), tx longtext, bn binary(4), vb varbinary(50), bl "
        "longblob, en enum('red','green'), se set('a','b'))");
    c.execute(
        "insert into kinds values (-128, 255, -32768, -8388608, -2147483648, "
        "-9223372036854775808, 18446744073709551615, 0.5, 1e300, 12345678901234567890.1234, "
        "2024, b'1', x'FFFFFFFFFFFFFFFF', '2024-02-29', '-12:34:56.789', '2024-02-29 "
        "23:59:59.123456', '2024-01-01 00:00:00', 'abc', 'ä', 'text', x'00010203', x'00', "
        "x'FF00', 'green', 'a,b')");
    sql::row r = c.execute("select * from kinds").one();
    EXPECT_EQ(r.get<int>("t"), -128);
    EXPECT_EQ(r.get<int>("tu"), 255);
    EXPECT_EQ(r.get<int>("s"), -32768);
    EXPECT_EQ(r.get<int>("m"), -8388608);
    EXPECT_EQ(r.get<std::int64_t>("i"), -2147483648LL);
    EXPECT_EQ(r.get<std::int64_t>("b"), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(r.get<std::string>("bu"), "18446744073709551615");
    EXPECT_EQ(r.get<double>("f"), 0.5);
    EXPECT_EQ(r.get<double>("d"), 1e300);
    EXPECT_EQ(r.get<std::string>("de"), "12345678901234567890.1234");
    EXPECT_EQ(r.get<int>("y"), 2024);
    EXPECT_TRUE(r.get<bool>("bi"));
    EXPECT_EQ(r.get<std::string>("bb"), "18446744073709551615");
    EXPECT_EQ(r.get<std::string>("da"), "2024-02-29");
    EXPECT_EQ(r.get<std::string>("ti"), "-12:34:56.789");
    EXPECT_EQ(r.get<std::string>("dt"), "2024-02-29 23:59:59.123456");
    EXPECT_EQ(r.get<std::string>("ts"), "2024-01-01 00:00:00");
    EXPECT_EQ(r.get<std::string>("ch"), "abc");
    EXPECT_EQ(r.get<std::string>("vc"), "ä");
    EXPECT_EQ(r.get<std::string>("tx"), "text");
    EXPECT_EQ(r.get<sql::bytes>("bn").size(), 4u);
    EXPECT_EQ(r.get<sql::bytes>("vb"), sql::bytes{std::byte{0}});
    EXPECT_EQ(r.get<sql::bytes>("bl"), (sql::bytes{std::byte{0xff}, std::byte{0}}));
    EXPECT_EQ(r.get<std::string>("en"), "green");
    EXPECT_EQ(r.get<std::string>("se"), "a,b");
    c.execute(
        "update kinds set t=null, bu=null, f=null, d=null, de=null, bi=null, dt=null, "
        "tx=null, bl=null");
    sql::row nulls = c.execute("select t, bu, f, d, de, bi, dt, tx, bl from kinds").one();
    for (std::size_t i = 0; i < nulls.size(); ++i) EXPECT_TRUE(nulls[i].is_null()) << i;
}

TEST_F(mariadb, tells_what_a_statement_did) {
    c.execute("create temporary table t (id int auto_increment primary key, x int)");
    EXPECT_EQ(c.execute("insert into t (x) values (1), (2), (3)").affected(), 3u);
    EXPECT_EQ(c.execute("insert into t (x) values (?)", 4).last_insert_id(), 4);
    EXPECT_EQ(c.execute("delete from t where x > ?", 2).affected(), 2u);
    EXPECT_TRUE(c.execute("select * from t where false").empty());
    EXPECT_EQ(c.execute("select x as a, id as b from t").columns()->at(1), "b");
}

TEST_F(mariadb, returns_many_rows) {
    sql::result all = c.execute("select seq, repeat('x', 100) from seq_1_to_20000");
    ASSERT_EQ(all.size(), 20000u);
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].get<std::size_t>(0), i + 1);
}

TEST_F(mariadb, streams_rows) {
    cursor rows =
        c.stream("select seq, repeat('y', seq % 50) from seq_1_to_20000 where seq > ?", 9);
    std::int64_t expected = 10;
    EXPECT_THROW(c.execute("select 1"), std::logic_error);  // one at a time
    while (auto r = rows.next()) {
        ASSERT_EQ(r->get<std::int64_t>(0), expected);
        ASSERT_EQ(r->get<std::string_view>(1).size(), static_cast<std::size_t>(expected % 50));
        ++expected;
    }
    EXPECT_EQ(expected, 20001);
    EXPECT_EQ(rows.next(), std::nullopt);
    EXPECT_EQ(c.execute("select 7").scalar<int>(), 7);
}

TEST_F(mariadb, streams_nothing_where_there_is_nothing) {
    cursor none = c.stream("select 1 from seq_1_to_5 where seq > 100");
    EXPECT_EQ(none.next(), std::nullopt);
    cursor done = c.stream("do 1");
    EXPECT_EQ(done.next(), std::nullopt);
    EXPECT_EQ(c.execute("select 7").scalar<int>(), 7);
}

TEST_F(mariadb, is_not_usable_after_half_a_stream) {
    {
        cursor rows = c.stream("select seq from seq_1_to_1000000");
        EXPECT_TRUE(rows.next());
    }
    EXPECT_THROW(c.execute("select 1"), connection_error);
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(mariadb, calls_procedures_with_several_results) {
    c.execute("create or replace table several_t (x int)");
    c.execute(
        "create or replace procedure several() begin select 1 as a; select 2, 3; insert into "
        "several_t values (1); end");
    for (int i = 0; i < 3; ++i) {
        sql::result first = c.execute("call several()");
        EXPECT_EQ(first.scalar<int>(), 1);
        EXPECT_EQ(c.execute("select ?", i).scalar<int>(), i);
        cursor rows = c.stream("call several()");
        EXPECT_EQ(rows.next()->get<int>("a"), 1);
        EXPECT_EQ(rows.next(), std::nullopt);
        EXPECT_EQ(c.execute("select ?", i).scalar<int>(), i);
    }
    EXPECT_EQ(c.execute("select count(*) from several_t").scalar<int>(), 6);
}

TEST_F(mariadb, executes_prepared_statements_again) {
    statement add = c.prepare("select ? + ?");
    statement text = c.prepare("select concat(?, '!')");
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(c.execute(add, i, 1).one().get<int>(0), i + 1);
        EXPECT_EQ(c.execute(text, std::to_string(i)).scalar<std::string>(),
                  std::to_string(i) + "!");
    }
    to.reset(c);
    EXPECT_THROW(c.execute(add, 1, 2), std::logic_error);
    EXPECT_THROW(c.execute(statement(), 1), std::logic_error);
    EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
}

TEST_F(mariadb, knows_a_statement_of_another_connection) {
    connection other = to.open();
    statement here = c.prepare("select 1");
    statement there = other.prepare("select 2");
    EXPECT_THROW(c.execute(there), std::logic_error);
    EXPECT_THROW(await(other.async_execute(here)), std::logic_error);
    EXPECT_EQ(c.execute(here).scalar<int>(), 1);
    EXPECT_EQ(other.execute(there).scalar<int>(), 2);
}

TEST_F(mariadb, refuses_what_does_not_fit_and_goes_on) {
    EXPECT_THROW(c.execute("select ?", 1, 2), statement_error);
    EXPECT_THROW(c.execute("select ?"), statement_error);
    EXPECT_THROW(c.execute("selec 1"), statement_error);
    EXPECT_THROW(c.execute("select 1; select 2"), statement_error);
    EXPECT_THROW(c.prepare("nonsense"), statement_error);
    EXPECT_THROW(c.stream("select * from nowhere"), statement_error);
    EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
    // With rows left to read.
    cursor rows = c.stream(
        "select if(seq < 3000, seq, (select 1 union select 2)) from "
        "seq_1_to_5000");
    EXPECT_THROW(while (rows.next()) continue, statement_error);
    EXPECT_EQ(rows.next(), std::nullopt);
    EXPECT_THROW(c.execute("select if(seq < 3000, seq, (select 1 union select 2)) from "
                           "seq_1_to_5000"),
                 statement_error);
    EXPECT_EQ(c.execute("select 2").scalar<int>(), 2);
}

TEST_F(mariadb, knows_whether_it_is_in_a_transaction) {
    c.execute("create or replace table orders.trx (x int) engine=innodb");
    EXPECT_FALSE(c.in_transaction());
    c.execute("begin");
    EXPECT_TRUE(c.in_transaction());
    c.execute("insert into trx values (1)");
    EXPECT_TRUE(c.in_transaction());
    c.execute("commit");
    EXPECT_FALSE(c.in_transaction());
    c.execute("set autocommit = 0");
    cursor rows = c.stream("select x from trx");
    while (rows.next()) continue;
    EXPECT_TRUE(c.in_transaction());
}

TEST_F(mariadb, gives_up_in_time) {
    support::stopped_clock time;
    c.set_timeout(50ms);
    std::atomic<bool> over{false};
    std::thread asks([&] {
        EXPECT_THROW(c.execute("select sleep(600)"), exchange_timeout);
        over = true;
    });
    std::string asleep =
        "select count(*) from information_schema.processlist where state = 'User sleep' and id = " +
        std::to_string(c.id());
    EXPECT_TRUE(
        support::eventually([&] { return the_mariadb().execute_as_admin(asleep) == "1\n"; }));
    time.advance(49ms);
    EXPECT_TRUE(support::for_a_while([&] { return !over; }));
    time.advance(1ms);
    asks.join();
    EXPECT_THROW(c.execute("select 1"), connection_error);
    EXPECT_EQ(to.before_release(c), verdict::discard);
    the_mariadb().kill_backends();  // the statement would go on sleeping
}

TEST_F(mariadb, sends_what_the_socket_does_not_take_at_once) {
    the_mariadb().execute_as_admin("set global max_allowed_packet = 67108864");
    connection large = to.open();
    std::string text(40'000'000, 'z');
    EXPECT_EQ(large.execute("select length(?)", text).scalar<int>(), 40'000'000);
    sql::bytes many(30'000'000, std::byte{3});
    EXPECT_EQ(large.execute("select ?", many).scalar<sql::bytes>(), many);
    std::string statement_text = "select length('" + text + "')";
    EXPECT_EQ(large.execute(statement_text).scalar<int>(), 40'000'000);
}

TEST_F(mariadb, looks_the_host_up) {
    std::string url = mariadb_url();
    url.replace(url.find("127.0.0.1"), 9, "localhost");
    EXPECT_EQ(connector(url).open().execute("select 1").scalar<int>(), 1);
    async_connector there(url);
    connection opened = await_open(there);
    EXPECT_EQ(opened.execute("select 1").scalar<int>(), 1);
}

TEST_F(mariadb, connects_to_a_unix_socket) {
    std::string path = the_mariadb().socket();
    std::string encoded;
    for (char ch : path) (ch == '/') ? encoded += "%2F" : encoded += ch;
    connector by("mysql://app:" + std::string(support::canary_password) + "@" + encoded +
                 "/orders");
    connection opened = by.open();
    EXPECT_EQ(opened.id(), backend_of(opened));
    async_connector awaited("mysql://app:" + std::string(support::canary_password) + "@" + encoded +
                            "/orders");
    connection again = await_open(awaited);
    EXPECT_EQ(await(again.async_execute("select 5")).scalar<int>(), 5);
}

// Awaited.

asio::awaitable<void> use(connection* c) {
    for (std::int64_t i : numbers) {
        sql::result got = co_await c->async_execute("select ?", i);
        EXPECT_EQ(got.scalar<std::int64_t>(), i);
    }
    for (const std::string& text : texts) {
        sql::result got = co_await c->async_execute("select ?", text);
        EXPECT_EQ(got.scalar<std::string>(), text);
    }
    statement add = co_await c->async_prepare("select ? + ?");
    sql::result sum = co_await c->async_execute(add, 2, 3);
    EXPECT_EQ(sum.one().get<int>(0), 5);
    cursor rows = co_await c->async_stream("select seq from seq_1_to_5000");
    std::int64_t count = 0;
    for (;;) {
        std::optional<sql::row> r = co_await rows.async_next();
        if (!r) break;
        EXPECT_EQ(r->get<std::int64_t>(0), ++count);
    }
    EXPECT_EQ(count, 5000);
}

asio::awaitable<void> misuse(connection* c) {
    bool refused = false;
    try {
        co_await c->async_execute("selec ?", 1);
    } catch (const statement_error&) {
        refused = true;
    }
    EXPECT_TRUE(refused);
    c->set_timeout(50ms);
    bool late = false;
    try {
        co_await c->async_execute("select sleep(20)");
    } catch (const exchange_timeout&) {
        late = true;
    }
    EXPECT_TRUE(late);
}

TEST_F(mariadb, is_awaited_on_any_executor) {
    async_connector awaited(mariadb_url());
    connection opened = await_open(awaited);
    for (int i = 0; i < 3; ++i) {
        await(use(&opened));  // each time on another io_context
        EXPECT_EQ(opened.execute("select ?", i).scalar<int>(), i);
        EXPECT_TRUE(await(awaited.probe(opened)));
        await(awaited.reset(opened));
    }
    await(misuse(&opened));
    EXPECT_EQ(awaited.before_release(opened), verdict::discard);
    await(awaited.close(opened));
    the_mariadb().kill_backends();  // the statement would go on sleeping
}

TEST_F(mariadb, is_probed) {
    EXPECT_TRUE(to.probe(c));
    EXPECT_EQ(to.before_release(c), verdict::keep);
    EXPECT_TRUE(to.before_acquire(c));
    c.execute("select 1");
    EXPECT_EQ(to.before_release(c), verdict::reset_later);
}

TEST_F(mariadb, prepared_statements_follow_their_table) {
    c.execute("drop table if exists followed");
    c.execute("create table followed(a int)");
    c.execute("insert into followed values (1)");
    statement all = c.prepare("select * from followed");
    EXPECT_EQ(c.execute(all)[0].size(), 1u);
    c.execute("alter table followed add column b int default 2");
    EXPECT_EQ(c.execute(all)[0].size(), 2u);
    EXPECT_EQ(c.execute(all)[0].get<int>("b"), 2);
    c.execute("drop table followed");
}

}  // namespace
}  // namespace cenote::mariadb
