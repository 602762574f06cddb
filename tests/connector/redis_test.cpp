// Commands and replies with a real Redis server, blocking and awaited, with and without TLS.
#include "cenote/redis.hpp"

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/pool.hpp"
#include "connector/redis_fixture.hpp"
#include "support/descriptors.hpp"
#include "support/patient.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace cenote::redis;
using namespace redis_fixture;

struct redis_command : testing::Test {
    cenote::redis::connector via = here();
    connection c = via.open();

    void SetUp() override { c.command("FLUSHALL"); }
};

TEST_F(redis_command, leaves_no_descriptor_to_programs_that_are_started) {
    auto before = support::descriptors_of_a_child();
    connection another = via.open();
    connection awaited = await(async_connector(url_of(server().port())).open());
    EXPECT_EQ(support::descriptors_of_a_child(), before);
}

TEST_F(redis_command, brings_back_what_was_stored) {
    std::string all;
    for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
    std::string much(std::size_t{5} << 20U, 'x');
    for (const std::string& value : {""s, "text"s, "\r\n"s, "\0"s, "a\0b"s, all, much}) {
        EXPECT_EQ(c.command("SET", "k", value).text(), "OK");
        EXPECT_TRUE(c.command("GET", "k").text() == value) << value.size();
    }
    bytes octets{std::byte{0}, std::byte{0x80}, std::byte{0xff}};
    c.command("SET", "k", octets);
    EXPECT_EQ(c.command("GET", "k").as<bytes>(), octets);
}

TEST_F(redis_command, brings_back_numbers) {
    for (std::int64_t n : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1},
                           std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}) {
        c.command("SET", "k", n);
        EXPECT_EQ(c.command("INCRBY", "k", 0).integer(), n);
        EXPECT_EQ(c.command("GET", "k").as<std::int64_t>(), n);
    }
    for (double d : {0.1, -1e300, 5e-324, 1.0 / 3}) {
        c.command("SET", "d", d);
        EXPECT_EQ(c.command("GET", "d").as<double>(), d);
    }
    EXPECT_TRUE(c.command("EXISTS", "k").as<bool>());
}

TEST_F(redis_command, brings_back_nil_and_arrays) {
    EXPECT_TRUE(c.command("GET", "nothing").is_nil());
    EXPECT_EQ(c.command("GET", "nothing").as<std::optional<std::string>>(), std::nullopt);
    c.command("MSET", "a", 1, "b", "");
    reply got = c.command("MGET", "a", "nothing", "b");
    ASSERT_EQ(got.elements().size(), 3U);
    EXPECT_EQ(got[0].text(), "1");
    EXPECT_TRUE(got[1].is_nil());
    EXPECT_EQ(got[2].text(), "");
    reply nested = c.command("EVAL", "return {1, {2, {'x', false}}, {err='ODD one'}}", 0);
    EXPECT_EQ(nested[1][1][0].text(), "x");
    EXPECT_TRUE(nested[1][1][1].is_nil());
    EXPECT_TRUE(nested[2].is_error());
    EXPECT_EQ(nested[2].error_text(), "ODD one");
}

TEST_F(redis_command, brings_back_many) {
    std::vector<std::string> keys;
    for (int i = 0; i < 100'000; ++i) keys.push_back(std::to_string(i));
    std::vector<argument> words{"RPUSH", "list"};
    words.insert(words.end(), keys.begin(), keys.end());
    pipeline p;
    p.add_words(words);
    EXPECT_EQ(c.execute(p).front().integer(), 100'000);
    EXPECT_EQ(c.command("LRANGE", "list", 0, -1).as<std::vector<std::string>>(), keys);
}

TEST_F(redis_command, that_fails_leaves_the_connection_as_it_was) {
    c.command("SET", "k", "text");
    try {
        c.command("LPUSH", "k", 1);
        ADD_FAILURE();
    } catch (const command_error& e) {
        EXPECT_EQ(e.word(), "WRONGTYPE");
        EXPECT_EQ(e.kind(), cenote::error_kind::statement);
    }
    EXPECT_THROW(c.command("NO.SUCH", "x"), cenote::statement_error);
    EXPECT_EQ(c.command("GET", "k").text(), "text");
}

TEST_F(redis_command, that_is_not_answered_once_is_not_sent) {
    EXPECT_THROW(c.command("SUBSCRIBE", "x"), std::invalid_argument);
    EXPECT_THROW(c.command("HELLO", 3), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(c.async_command("MONITOR")), std::invalid_argument);
    EXPECT_EQ(c.command("PING").text(), "PONG");
    EXPECT_EQ(via.before_release(c), cenote::verdict::keep);
}

TEST_F(redis_command, keeps_errors_of_a_pipeline_in_their_place) {
    pipeline p;
    p.add("SET", "k", "v").add("LPUSH", "k", 1).add("GET", "k").add("NO.SUCH");
    std::vector<reply> got = c.execute(p);
    ASSERT_EQ(got.size(), 4U);
    EXPECT_EQ(got[0].text(), "OK");
    EXPECT_TRUE(got[1].is_error());
    EXPECT_THROW(got[1].integer(), command_error);
    EXPECT_EQ(got[2].text(), "v");
    EXPECT_TRUE(got[3].is_error());
    EXPECT_TRUE(c.execute(pipeline()).empty());
}

/// If neither side read before it has written everything, both would wait for ever.
TEST_F(redis_command, sends_and_reads_at_once_if_there_is_much) {
    std::string large(std::size_t{256} << 10U, 'y');
    pipeline p;
    for (int i = 0; i < 128; ++i) p.add("ECHO", large);
    for (bool awaited : {false, true}) {
        std::vector<reply> got = awaited ? await(c.async_execute(p)) : c.execute(p);
        ASSERT_EQ(got.size(), 128U);
        for (const reply& each : got) EXPECT_TRUE(each.text() == large);
    }
}

TEST_F(redis_command, in_a_transaction_are_done_together) {
    pipeline p;
    p.add("INCR", "n").add("INCR", "n").add("LPUSH", "n", 1);
    auto got = c.transaction(p);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ((*got)[1].integer(), 2);
    EXPECT_TRUE((*got)[2].is_error());
    EXPECT_FALSE(c.in_transaction());
    EXPECT_EQ(via.before_release(c), cenote::verdict::keep);
}

TEST_F(redis_command, in_a_transaction_are_not_done_if_a_watched_key_changes) {
    connection other = via.open();
    c.command("WATCH", "n");
    other.command("SET", "n", 5);
    pipeline p;
    p.add("SET", "n", 1);
    EXPECT_EQ(c.transaction(p), std::nullopt);
    EXPECT_EQ(await(c.async_transaction(p)).value().front().text(), "OK");
    EXPECT_EQ(c.command("GET", "n").as<int>(), 1);
}

TEST_F(redis_command, in_a_transaction_are_not_begun_if_one_is_invalid) {
    pipeline p;
    p.add("SET", "n", 1).add("GET");
    EXPECT_THROW(c.transaction(p), command_error);
    EXPECT_TRUE(c.command("GET", "n").is_nil());
    EXPECT_FALSE(c.in_transaction());
    EXPECT_EQ(via.before_release(c), cenote::verdict::keep);
    pipeline nested;
    nested.add("MULTI");
    EXPECT_THROW(c.transaction(nested), std::invalid_argument);
    c.command("MULTI");
    EXPECT_TRUE(c.in_transaction());
    EXPECT_THROW(c.transaction(p), std::logic_error);
    EXPECT_EQ(c.command("SET", "n", 2).text(), "QUEUED");
    EXPECT_EQ(c.command("EXEC").elements().size(), 1U);
    EXPECT_FALSE(c.in_transaction());
}

asio::awaitable<std::string> awaited_round_trip(connection* c, std::string value) {
    co_await c->async_command("SET", "k", value);
    reply got = co_await c->async_command("GET", "k");
    try {
        co_await c->async_command("LPUSH", "k", 1);
        ADD_FAILURE();
    } catch (const command_error& e) {
        EXPECT_EQ(e.word(), "WRONGTYPE");
    }
    pipeline p;
    p.add("ECHO", got.text()).add("NO.SUCH");
    std::vector<reply> both = co_await c->async_execute(p);
    EXPECT_TRUE(both.back().is_error());
    co_return both.front().text();
}

TEST_F(redis_command, is_awaited_on_any_executor) {
    for (int i = 0; i < 3; ++i) {
        std::string value = "value " + std::to_string(i);
        EXPECT_EQ(await(awaited_round_trip(&c, value)), value);  // another loop each time
        EXPECT_EQ(c.command("GET", "k").text(), value);          // and none
    }
}

TEST_F(redis_command, comes_one_after_the_other) {
    asio::io_context loop;
    c.set_timeout(std::chrono::duration_cast<std::chrono::milliseconds>(support::plenty));
    auto first = asio::co_spawn(loop, c.async_command("BLPOP", "later", 0), asio::use_future);
    loop.poll();
    EXPECT_THROW(c.command("PING"), std::logic_error);
    EXPECT_THROW(await(c.async_command("PING")), std::logic_error);
    via.open().command("RPUSH", "later", "x");
    loop.run();
    EXPECT_EQ(first.get()[1].text(), "x");
    EXPECT_EQ(c.command("PING").text(), "PONG");
}

TEST(redis_open, knows_its_database_and_its_name) {
    connection c = here("/3?client_name=shop").open();
    EXPECT_EQ(about(c, "db"), "3");
    EXPECT_EQ(about(c, "name"), "shop");
    EXPECT_EQ(about(c, "user"), "default");
    EXPECT_GE(c.native_handle(), 0);
}

TEST(redis_open, by_a_unix_socket) {
    support::redis_server there{{.settings = "unixsocket redis.sock\nunixsocketperm 777"}};
    std::string path = there.folder() / "redis.sock";
    std::string host;
    for (char c : path) host += c == '/' ? "%2F" : std::string(1, c);
    cenote::redis::connector via("redis://:" + std::string(support::canary_password) + "@" + host);
    connection c = via.open();
    EXPECT_EQ(c.command("PING").text(), "PONG");
    EXPECT_TRUE(via.before_acquire(c));
}

std::string tls_url(const std::string& rest) {
    return "rediss://:" + std::string(support::canary_password) +
           "@localhost:" + std::to_string(server().tls_port()) + "?" + rest;
}

TEST(redis_open, protected_by_tls) {
    cenote::redis::connector via(tls_url("tls_ca=" + server().authority().string()));
    connection c = via.open();
    std::string large(std::size_t{1} << 20U, 'z');
    EXPECT_TRUE(c.command("ECHO", large).text() == large);
    EXPECT_TRUE(await(c.async_command("ECHO", large)).text() == large);
    EXPECT_EQ(via.before_release(c), cenote::verdict::keep);
    EXPECT_TRUE(via.before_acquire(c));
    async_connector awaited(tls_url("tls_ca=" + server().authority().string()));
    connection d = await(awaited.open());
    EXPECT_EQ(d.command("PING").text(), "PONG");
    EXPECT_TRUE(await(awaited.probe(d)));
    via.close(c);
}

TEST(redis_open, refuses_a_stranger) {
    auto [kind, text] = failure([] { cenote::redis::connector(tls_url("tls=on")).open(); });
    EXPECT_EQ(kind, cenote::error_kind::final);
    EXPECT_NE(text.find("certificate"), text.npos) << text;
    std::string other = "tls_server_name=elsewhere.example&tls_ca=" + server().authority().string();
    auto [kind2, text2] = failure([&] { cenote::redis::connector(tls_url(other)).open(); });
    EXPECT_EQ(kind2, cenote::error_kind::final);
    EXPECT_NE(text2.find("mismatch"), text2.npos) << text2;
}

TEST(redis_probe, tells_the_living_from_the_dead) {
    cenote::redis::connector via = here();
    connection c = via.open();
    EXPECT_TRUE(via.probe(c));
    server().kill_backends();
    EXPECT_EQ(failure([&] { via.probe(c); }).first, cenote::error_kind::connection);
    EXPECT_EQ(via.before_release(c), cenote::verdict::discard);
}

TEST(redis_pool, lends_connections_to_threads_and_coroutines) {
    cenote::pool<connection> pool(here(), support::patient(2));
    EXPECT_EQ(pool.acquire()->command("ECHO", "x").text(), "x");
    asio::io_context loop;
    cenote::pool<connection> awaited(loop, async_connector(url_of(server().port())),
                                     support::patient(2));
    auto done = asio::co_spawn(
        loop,
        [](cenote::pool<connection>* from) -> asio::awaitable<std::string> {
            auto lease = co_await from->async_acquire(asio::use_awaitable);
            reply got = co_await lease->async_command("ECHO", "y");
            co_return got.text();
        }(&awaited),
        asio::use_future);
    while (done.wait_for(0s) != std::future_status::ready) loop.run_one();
    EXPECT_EQ(done.get(), "y");
}

}  // namespace
