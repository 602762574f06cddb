// A PostgreSQL server that sends without end, at login, in notices and in rows: each call ends in
// time, keeps to its memory limit, and lets the event loop run other handlers.
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "cenote/postgres.hpp"
#include "connector/awaiting.hpp"
#include "connector/flooded.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::postgres {
namespace {

using namespace std::chrono_literals;
using support::await;
using support::eventually;
using support::expect_in_bounds;
using support::expect_in_time;
using support::flooding_server;

constexpr std::size_t unlimited = std::size_t{1} << 40U;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;

std::string number(std::uint32_t n, int bytes) {
    std::string text;
    for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(n >> (8 * i) & 0xffU);
    return text;
}

std::string message(char type, const std::string& body) {
    return type + number(static_cast<std::uint32_t>(body.size() + 4), 4) + body;
}

std::string text(std::string_view s) { return std::string(s) + '\0'; }

std::string notice() {
    return message('N', text("SNOTICE") + text("C00000") + text("Mmore") + '\0');
}
std::string parameter(std::string_view name) { return message('S', text(name) + text("value")); }
std::string login() {
    return message('R', number(0, 4)) + parameter("server_version") +
           message('K', number(1, 4) + number(2, 4)) + message('Z', "I");
}
/// The reply to a statement with parameters, before its rows.
std::string begun() {
    std::string column = text("x") + number(0, 4) + number(0, 2) + number(25, 4) +
                         number(0xffff, 2) + number(0xffffffff, 4) + number(0, 2);
    return message('1', "") + message('2', "") + message('T', number(1, 2) + column);
}
std::string row(std::size_t size) {
    return message('D', number(1, 2) + number(static_cast<std::uint32_t>(size), 4) +
                            std::string(size, 'x'));
}

options to(const flooding_server& server, std::size_t max_reply = unlimited) {
    options o = options::from_url("postgresql://user@127.0.0.1/db");
    o.hosts.front().port = server.port();
    o.operation_timeout = o.connect_timeout = 1s;
    o.max_reply_bytes = max_reply;
    return o;
}

TEST(postgres_flood, of_notices_in_a_login_ends_it) {
    flooding_server server({.answers = {message('R', number(0, 4))}, .unit = notice()});
    const std::string reason = "sends too much";
    expect_in_bounds(server, mebibyte, reason, [&] { connector{to(server)}.open(); });
    expect_in_bounds(server, mebibyte, reason, [&] { await(async_connector{to(server)}.open()); });
    EXPECT_TRUE(eventually([&] { return server.present() == 0; }));
}

TEST(postgres_flood, of_parameters_in_a_login_ends_it) {
    std::string many;
    for (int i = 0; i < 1000; ++i) many += parameter("name" + std::to_string(i));
    flooding_server server({.answers = {message('R', number(0, 4))}, .unit = many});
    expect_in_bounds(server, mebibyte, "sends too much", [&] { connector{to(server)}.open(); });
}

/// Failed opens leave no thread and no socket behind.
TEST(postgres_flood, in_logins_leaves_no_sockets_behind) {
    flooding_server server({.answers = {message('R', number(0, 4))}, .unit = notice()});
    pool<connection> hopeful{connector{to(server)}, support::patient(4)};
    EXPECT_FALSE(hopeful.try_acquire());
    EXPECT_TRUE(eventually([&] {
        static_cast<void>(hopeful.try_acquire());
        return server.connections() >= 6;
    }));
    hopeful.close();
    EXPECT_TRUE(eventually([&] { return server.present() == 0; }));
}

TEST(postgres_flood, of_notices_in_a_reply_ends_in_time) {
    flooding_server server({.answers = {login(), notice()}, .unit = notice()});
    expect_in_time(server, [&] { connector{to(server)}.open().execute("select 1"); });
    expect_in_time(server, [&] {
        connection c = await(async_connector{to(server)}.open());
        await(c.async_execute("select 1"));
    });
}

TEST(postgres_flood, of_notices_in_a_stream_ends_in_time) {
    flooding_server server({.answers = {login(), begun()}, .unit = notice()});
    expect_in_time(server, [&] { connector{to(server)}.open().stream("select 1"); });
}

TEST(postgres_flood, of_notices_in_a_reset_ends_in_time) {
    flooding_server server({.answers = {login(), notice()}, .unit = notice()});
    expect_in_time(server, [&] {
        connector c{to(server)};
        connection one = c.open();
        c.reset(one);
    });
}

TEST(postgres_flood, of_rows_ends_at_max_reply_bytes) {
    for (std::size_t size : {0U, 10U, 100'000U}) {
        flooding_server server({.answers = {login(), begun()}, .unit = row(size)});
        options small = to(server, mebibyte);
        expect_in_bounds(server, mebibyte, "max_reply_bytes",
                         [&] { connector{small}.open().execute("select 1"); });
        expect_in_bounds(server, mebibyte, "max_reply_bytes", [&] {
            connection c = await(async_connector{small}.open());
            await(c.async_execute("select 1"));
        });
    }
}

/// One message longer than libpq's buffer: libpq may read all of it in one call. If the bytes that
/// follow are not a message, libpq fails first. In both cases the connection is lost.
TEST(postgres_flood, of_one_long_value_ends) {
    constexpr std::uint32_t long_value = 1U << 26U;
    constexpr std::size_t buffer = 2 * std::size_t{long_value};  // libpq doubles it until it fits
    const std::string any_reason;
    std::string head = 'D' + number(long_value + 10, 4) + number(1, 2) + number(long_value, 4);
    flooding_server server({.answers = {login(), begun() + head}, .unit = "x"});
    expect_in_bounds(server, buffer, any_reason,
                     [&] { connector{to(server, mebibyte)}.open().execute("select 1"); });
    expect_in_bounds(server, buffer, any_reason,
                     [&] { connector{to(server, mebibyte)}.open().stream("select 1"); });
}

/// A stream has no limit, only its rows have one.
TEST(postgres_flood, of_rows_in_a_stream_is_read_on) {
    flooding_server server({.answers = {login(), begun()}, .unit = row(10'000)});
    connection c = connector{to(server, mebibyte)}.open();
    cursor rows = c.stream("select 1");
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(rows.next());
}

TEST(postgres_flood, leaves_the_event_loop_to_others) {
    flooding_server server({.answers = {login(), begun()}, .unit = row(100)});
    boost::asio::io_context loop;
    connection c = support::await_on(loop, async_connector{to(server, 64 * mebibyte)}.open());
    support::expect_turns(loop, 64 * mebibyte, [&] { return c.async_execute("select 1"); });
}

}  // namespace
}  // namespace cenote::postgres
