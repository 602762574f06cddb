// A Redis server that sends without end, at login and in replies: each call ends in time, keeps to
// its memory limit, and lets the event loop run other handlers.
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "cenote/redis.hpp"
#include "connector/awaiting.hpp"
#include "connector/flooded.hpp"
#include "support/patience.hpp"

namespace cenote::redis {
namespace {

using namespace std::chrono_literals;
using support::await;
using support::expect_in_bounds;
using support::expect_in_time;
using support::flood;
using support::flooding_server;

constexpr std::size_t mebibyte = std::size_t{1} << 20U;
constexpr std::size_t gibibyte = std::size_t{1} << 30U;

/// The reply to the PING with a random text.
std::string pong(std::string_view heard) {
    std::string_view word = heard.substr(heard.find("cenote-"));
    return "+" + std::string(word.substr(0, word.find('\r'))) + "\r\n";
}

/// The beginning of a text of this size.
std::string text_of(std::size_t size) { return "$" + std::to_string(size) + "\r\n"; }

flood at_login() { return {.answers = {text_of(gibibyte)}, .unit = "x"}; }
flood in_a_reply(const std::string& begins, const std::string& unit) {
    return {.first = pong, .answers = {begins}, .unit = unit};
}

options to(const flooding_server& server, std::size_t max_reply = 2 * gibibyte) {
    options o = options::from_url("redis://127.0.0.1:" + std::to_string(server.port()));
    o.operation_timeout = o.connect_timeout = 1s;
    o.max_reply = max_reply;
    return o;
}

TEST(redis_flood, at_login_ends_in_time) {
    flooding_server server(at_login());
    expect_in_time(server, [&] { connector{to(server)}.open(); });
    expect_in_time(server, [&] { await(async_connector{to(server)}.open()); });
}

TEST(redis_flood, at_login_ends_at_max_reply) {
    flooding_server server(at_login());
    expect_in_bounds(server, mebibyte, "max_reply",
                     [&] { connector{to(server, mebibyte)}.open(); });
}

TEST(redis_flood, in_a_reply_ends_in_time) {
    flooding_server server(in_a_reply(text_of(gibibyte), "x"));
    expect_in_time(server, [&] { connector{to(server)}.open().command("GET", "a"); });
    expect_in_time(server, [&] {
        connection c = await(async_connector{to(server)}.open());
        await(c.async_command("GET", "a"));
    });
}

TEST(redis_flood, in_a_reply_ends_at_max_reply) {
    flooding_server texts(
        in_a_reply("*1000\r\n", text_of(10'000) + std::string(10'000, 'x') + "\r\n"));
    flooding_server numbers(in_a_reply(
        "*20000\r\n",
        "*10\r\n" + std::string(":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n")));
    for (const flooding_server* server : {&texts, &numbers}) {
        expect_in_bounds(*server, mebibyte, "max_reply",
                         [&] { connector{to(*server, mebibyte)}.open().command("GET", "a"); });
        expect_in_bounds(*server, mebibyte, "max_reply", [&] {
            connection c = await(async_connector{to(*server, mebibyte)}.open());
            await(c.async_command("GET", "a"));
        });
    }
}

/// More replies than there were commands.
TEST(redis_flood, of_replies_ends_with_the_first_too_many) {
    flooding_server server(in_a_reply("", ":1\r\n"));
    expect_in_bounds(server, mebibyte, "more replies than expected",
                     [&] { connector{to(server)}.open().command("GET", "a"); });
}

TEST(redis_flood, leaves_the_event_loop_to_others) {
    flooding_server server(in_a_reply(text_of(64 * mebibyte), "x"));
    boost::asio::io_context loop;
    connection c = support::await_on(loop, async_connector{to(server)}.open());
    support::expect_turns(loop, 64 * mebibyte, [&] { return c.async_command("GET", "a"); });
}

}  // namespace
}  // namespace cenote::redis
