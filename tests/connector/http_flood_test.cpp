// An HTTP server that sends without end, in the TLS handshake, in heads and in bodies: each call
// ends in time, keeps to its memory limit, and lets the event loop run other handlers.
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "cenote/http.hpp"
#include "connector/awaiting.hpp"
#include "connector/flooded.hpp"
#include "support/patience.hpp"

namespace cenote::http {
namespace {

using namespace std::chrono_literals;
using support::await;
using support::expect_in_bounds;
using support::expect_in_time;
using support::flood;
using support::flooding_server;

constexpr std::size_t unlimited = std::size_t{1} << 40U;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;

flood of_chunks(const std::string& one) {
    return {.answers = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"}, .unit = one};
}
flood of_tiny_chunks() { return of_chunks("1\r\nx\r\n"); }

/// Hello requests, which a client ignores during a handshake.
flood of_handshake() {
    const std::string hello_request{'\x16', '\x03', '\x03', '\0', '\4', '\0', '\0', '\0', '\0'};
    return {.answers = {""}, .unit = hello_request};
}

options to(const flooding_server& server, std::size_t max_body = unlimited) {
    options o = options::from_url("http://127.0.0.1:" + std::to_string(server.port()));
    o.operation_timeout = o.connect_timeout = 1s;
    o.max_body = max_body;
    return o;
}

TEST(http_flood, in_a_tls_handshake_ends_in_time) {
    flooding_server server(of_handshake());
    options o = to(server);
    o.secure = true;
    expect_in_time(server, [&] { connector{o}.open(); });
    expect_in_time(server, [&] { await(async_connector{o}.open()); });
}

TEST(http_flood, of_tiny_chunks_ends_in_time) {
    flooding_server server(of_tiny_chunks());
    expect_in_time(server, [&] { connector{to(server)}.open().send(get("/")); });
    expect_in_time(server, [&] {
        connection c = await(async_connector{to(server)}.open());
        await(c.async_send(get("/")));
    });
}

TEST(http_flood, of_a_body_ends_at_max_body) {
    flooding_server server(of_tiny_chunks());
    const std::size_t on_the_wire = 6 * mebibyte;
    expect_in_bounds(server, on_the_wire, "max_body",
                     [&] { connector{to(server, mebibyte)}.open().send(get("/")); });
    expect_in_bounds(server, on_the_wire, "max_body", [&] {
        connection c = await(async_connector{to(server, mebibyte)}.open());
        await(c.async_send(get("/")));
    });
}

TEST(http_flood, of_a_head_ends_at_max_header) {
    const flood fields{.answers = {"HTTP/1.1 200 OK\r\n"}, .unit = "a: b\r\n"};
    const flood announcements{.answers = {""}, .unit = "HTTP/1.1 100 Continue\r\n\r\n"};
    for (const flood& what : {fields, announcements}) {
        flooding_server server(what);
        expect_in_bounds(server, mebibyte, "max_header",
                         [&] { connector{to(server)}.open().send(get("/")); });
        expect_in_bounds(server, mebibyte, "max_header",
                         [&] { connector{to(server)}.open().stream(get("/")); });
    }
}

/// A stream has no limit.
TEST(http_flood, in_a_stream_is_read_on) {
    flooding_server server(of_tiny_chunks());
    connection c = connector{to(server, 0)}.open();
    streamed body = c.stream(get("/"));
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(body.next());
}

TEST(http_flood, leaves_the_event_loop_to_others) {
    flooding_server server(of_chunks("1000\r\n" + std::string(4096, 'x') + "\r\n"));
    boost::asio::io_context loop;
    connection c = support::await_on(loop, async_connector{to(server, 64 * mebibyte)}.open());
    support::expect_turns(loop, 64 * mebibyte, [&] { return c.async_send(get("/")); });
}

}  // namespace
}  // namespace cenote::http
