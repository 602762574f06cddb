// A MariaDB server that sends without end, at login, in column definitions and in rows: each call
// ends in time, keeps to its memory limit, and lets the event loop run other handlers.
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "cenote/mariadb.hpp"
#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/flooded.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::mariadb {
namespace {

using namespace std::chrono_literals;
using support::await;
using support::eventually;
using support::expect_in_bounds;
using support::expect_in_time;
using support::flood;
using support::flooding_server;

constexpr std::size_t unlimited = std::size_t{1} << 40U;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;
const std::string too_long = "max_reply_bytes";

std::string number(std::uint64_t n, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(n >> (8 * i) & 0xffU);
    return text;
}

std::string packet(unsigned sequence, const std::string& body) {
    return number(body.size(), 3) + number(sequence & 0xffU, 1) + body;
}

/// A packet with each sequence number, beginning with this one.
std::string packets_from(unsigned first, const std::string& body) {
    std::string all;
    for (unsigned i = 0; i < 256; ++i) all += packet(first + i, body);
    return all;
}

std::string counted(const std::string& text) { return static_cast<char>(text.size()) + text; }

std::string handshake() {
    constexpr std::uint32_t capabilities = 0x000e'a20fU;
    return packet(0, '\x0a' + std::string("5.7.0") + '\0' + number(1, 4) + "12345678" + '\0' +
                         number(capabilities & 0xffffU, 2) + '\x2d' + number(2, 2) +
                         number(capabilities >> 16U, 2) + '\x15' + std::string(10, '\0') +
                         "123456789012" + '\0' + "mysql_native_password" + '\0');
}
std::string fine(unsigned sequence) {
    return packet(sequence, number(0, 3) + number(2, 2) + number(0, 2));
}
std::string unknown() {
    return packet(1, '\xff' + number(1305, 2) + "#42000" + "no such function");
}
std::string end_of_columns(unsigned sequence) {
    return packet(sequence, '\xfe' + number(0, 2) + number(2, 2));
}
std::string column() {
    return counted("def") + counted("") + counted("") + counted("") + counted("x") + counted("x") +
           '\x0c' + number(45, 2) + number(1000, 4) + '\xfd' + number(0, 2) + number(0, 3);
}
std::string prepared() {
    return packet(1, '\0' + number(1, 4) + number(1, 2) + number(0, 2) + '\0' + number(0, 2)) +
           packet(2, column()) + end_of_columns(3);
}
/// The packets before the rows; the rows begin with the fourth packet.
std::string executed() { return packet(1, number(1, 1)) + packet(2, column()) + end_of_columns(3); }
std::string row(std::size_t size) {
    return number(0, 2) + '\xfd' + number(size, 3) + std::string(size, 'x');
}

/// After a login and the preparation of a statement.
flood after_prepare(const std::string& answer, const std::string& unit) {
    return {.greeting = handshake(),
            .answers = {fine(2), fine(1), unknown(), prepared(), answer},
            .unit = unit};
}
flood of_rows(std::size_t size) { return after_prepare(executed(), packets_from(4, row(size))); }
flood of_columns() { return after_prepare(packet(1, number(1, 1)), packets_from(2, column())); }
/// A packet of 8 MiB where a short one belongs.
std::string long_packet(unsigned sequence) { return number(0x7fffff, 3) + number(sequence, 1); }
/// In the first reply after the handshake.
flood at_login() {
    return {.greeting = handshake(), .answers = {fine(2), long_packet(1)}, .unit = "x"};
}

options to(const flooding_server& server, std::size_t max_reply = unlimited) {
    options o = options::from_url("mariadb://user@127.0.0.1/db");
    o.port = server.port();
    o.operation_timeout = o.connect_timeout = 1s;
    o.max_reply_bytes = max_reply;
    return o;
}

TEST(mariadb_flood, at_login_ends_it) {
    flooding_server server(at_login());
    const std::string reason = "sends too much";
    expect_in_bounds(server, mebibyte, reason, [&] { connector{to(server)}.open(); });
    expect_in_bounds(server, mebibyte, reason, [&] { await(async_connector{to(server)}.open()); });
    EXPECT_TRUE(eventually([&] { return server.present() == 0; }));
}

/// The library itself refuses packets that are too long for a handshake.
TEST(mariadb_flood, in_a_handshake_ends_it) {
    const flood first{.greeting = long_packet(0), .unit = "x"};
    const flood second{.greeting = handshake(), .answers = {long_packet(2)}, .unit = "x"};
    for (const flood& what : {first, second}) {
        flooding_server server(what);
        expect_in_bounds(server, mebibyte, "", [&] { connector{to(server)}.open(); });
        expect_in_bounds(server, mebibyte, "", [&] { await(async_connector{to(server)}.open()); });
    }
}

TEST(mariadb_flood, in_logins_leaves_no_sockets_behind) {
    flooding_server server(at_login());
    pool<connection> hopeful{connector{to(server)}, support::patient(4)};
    EXPECT_TRUE(eventually([&] {
        static_cast<void>(hopeful.try_acquire());
        return server.connections() >= 6;
    }));
    hopeful.close();
    EXPECT_TRUE(eventually([&] { return server.present() == 0; }));
}

TEST(mariadb_flood, in_a_reset_ends_it) {
    flooding_server server({.greeting = handshake(),
                            .answers = {fine(2), fine(1), unknown(), long_packet(1)},
                            .unit = "x"});
    connector c{to(server)};
    connection one = c.open();
    expect_in_bounds(server, mebibyte, "sends too much", [&] { c.reset(one); });
}

TEST(mariadb_flood, of_columns_ends_at_max_reply_bytes) {
    flooding_server server(of_columns());
    options small = to(server, mebibyte);
    expect_in_bounds(server, mebibyte, too_long,
                     [&] { connector{small}.open().execute("select 1"); });
    expect_in_bounds(server, mebibyte, too_long, [&] {
        connection c = await(async_connector{small}.open());
        await(c.async_execute("select 1"));
    });
}

TEST(mariadb_flood, of_columns_ends_in_time) {
    flooding_server server(of_columns());
    expect_in_time(server, [&] { connector{to(server)}.open().execute("select 1"); });
    expect_in_time(server, [&] {
        connection c = await(async_connector{to(server)}.open());
        await(c.async_execute("select 1"));
    });
    expect_in_time(server, [&] { connector{to(server)}.open().stream("select 1"); });
}

TEST(mariadb_flood, of_rows_ends_at_max_reply_bytes) {
    for (std::size_t size : {0U, 10U, 100'000U}) {
        flooding_server server(of_rows(size));
        options small = to(server, mebibyte);
        expect_in_bounds(server, mebibyte, too_long,
                         [&] { connector{small}.open().execute("select 1"); });
        expect_in_bounds(server, mebibyte, too_long, [&] {
            connection c = await(async_connector{small}.open());
            await(c.async_execute("select 1"));
        });
    }
}

/// A stream has no limit, only its rows have one.
TEST(mariadb_flood, of_rows_in_a_stream_is_read_on) {
    flooding_server server(of_rows(10'000));
    connection c = connector{to(server, mebibyte)}.open();
    cursor rows = c.stream("select 1");
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(rows.next());
}

TEST(mariadb_flood, leaves_the_event_loop_to_others) {
    flooding_server server(of_rows(100));
    boost::asio::io_context loop;
    connection c = support::await_on(loop, async_connector{to(server, 64 * mebibyte)}.open());
    support::expect_turns(loop, 64 * mebibyte, [&] { return c.async_execute("select 1"); });
}

}  // namespace
}  // namespace cenote::mariadb
