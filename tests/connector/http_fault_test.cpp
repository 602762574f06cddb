// Connections after faults: a response that is cut off, late, split, hostile or unsolicited leaves
// no connection that is leased again.
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <gmock/gmock.h>

#include "cenote/http.hpp"
#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/scripted_server.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/real_server.hpp"

namespace {

using namespace cenote::http;
using namespace std::chrono_literals;
using boost::asio::awaitable;
using cenote::connection_error;
using cenote::error_kind;
using cenote::verdict;
using support::await;
using support::eventually;
using support::gate;
using support::nginx_server;
using support::plenty;
using support::scripted_answer;
using support::scripted_server;
using then = support::scripted_answer::then;
using http_pool = cenote::pool<connection>;

std::string url_of(std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); }

struct http_gate : testing::Test {
    static void SetUpTestSuite() { server_ = new nginx_server; }
    static void TearDownTestSuite() { delete std::exchange(server_, nullptr); }

    std::string url(const char* more = "") const { return url_of(gate_.port()) + more; }

    static nginx_server* server_;
    gate gate_{server_->port()};
};
nginx_server* http_gate::server_ = nullptr;

std::string echo_through(http_pool& pool, const std::string& nonce) {
    auto lease = pool.acquire_for(plenty);
    return lease->send(get("/echo?nonce=" + nonce)).body;
}

TEST_F(http_gate, cuts_after_every_byte_and_the_next_borrower_is_fine) {
    http_pool pool{connector(url()), support::patient(1)};
    request asked = get("/echo?nonce=all");
    std::size_t whole = 0;
    {
        // The length of the response without a fault.
        auto lease = pool.acquire_for(plenty);
        response r = lease->send(asked);
        whole = std::string("HTTP/1.1 200 OK\r\n\r\n").size() + r.body.size();
        for (const auto& each : r.headers) whole += each.name.size() + each.value.size() + 4;
    }
    for (auto how : {gate::ending::finish, gate::ending::reset}) {
        for (std::size_t i = 0; i < whole; ++i) {
            auto lease = pool.acquire_for(plenty);
            gate_.cut_after(i, how);
            EXPECT_THROW(lease->send(asked), connection_error) << "after byte " << i;
            gate_.pass();
            EXPECT_FALSE(lease->reusable());
            lease.give_back();
            ASSERT_EQ(echo_through(pool, std::to_string(i)), std::to_string(i));
        }
    }
}

TEST_F(http_gate, splits_everything_into_single_bytes) {
    gate_.split();
    connection c = connector(url()).open();
    for (const char* target : {"/chunked", "/", "/echo?nonce=split", "/chunked"})
        EXPECT_EQ(c.send(get(target)).status, 200);
    EXPECT_EQ(await(c.async_send(get("/echo?nonce=split"))).body, "split");
    EXPECT_TRUE(c.reusable());
}

/// The request is canceled while the response is on its way.
TEST_F(http_gate, keeps_a_late_answer_from_the_next_borrower) {
    http_pool pool{connector(url()), support::patient(1)};
    for (int i = 0; i < 20; ++i) {
        boost::asio::io_context loop;
        auto lease = pool.acquire_for(plenty);
        gate_.hold_replies();
        boost::asio::cancellation_signal stop;
        auto sent = boost::asio::co_spawn(
            loop, lease->async_send(get("/echo?nonce=secret")),
            boost::asio::bind_cancellation_slot(stop.slot(), boost::asio::use_future));
        EXPECT_TRUE(eventually([&] { return loop.poll(), gate_.buffered() > 0; }));
        stop.emit(boost::asio::cancellation_type::terminal);
        loop.run();
        EXPECT_THROW(sent.get(), boost::system::system_error);
        EXPECT_FALSE(lease->reusable());
        lease.give_back();
        gate_.let_go();
        std::string nonce = "mine" + std::to_string(i);
        gate_.pass();
        ASSERT_EQ(echo_through(pool, nonce), nonce);
    }
}

TEST_F(http_gate, keeps_the_answer_of_a_destroyed_coroutine_from_the_next_borrower) {
    http_pool pool{connector(url()), support::patient(1)};
    auto lease = pool.acquire_for(plenty);
    gate_.hold_replies();
    {
        boost::asio::io_context loop;
        auto sent = boost::asio::co_spawn(loop, lease->async_send(get("/echo?nonce=secret")),
                                          boost::asio::use_future);
        loop.poll();
    }
    EXPECT_FALSE(lease->reusable());
    lease.give_back();
    gate_.pass();
    EXPECT_EQ(echo_through(pool, "mine"), "mine");
}

TEST_F(http_gate, holds_answers_until_the_deadline) {
    http_pool pool{connector(url()), support::patient(1)};
    {
        auto lease = pool.acquire_for(plenty);
        lease->set_timeout(20ms);
        gate_.hold_replies();
        EXPECT_THROW(lease->send(get("/echo?nonce=late")), cenote::exchange_timeout);
    }
    gate_.let_go();
    gate_.pass();
    EXPECT_EQ(echo_through(pool, "mine"), "mine");
}

TEST_F(http_gate, ends_idle_connections_which_are_not_leased_again) {
    http_pool pool{connector(url()), support::patient(1)};
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(echo_through(pool, "one"), "one");
        if (i % 2 == 0) gate_.finish_all();
        else gate_.reset_all();
        EXPECT_EQ(echo_through(pool, "two"), "two");
    }
}

TEST_F(http_gate, ends_a_connection_in_use_and_says_that_nothing_was_sent) {
    connector made(url());
    for (auto ends : {&gate::finish_all, &gate::reset_all}) {
        connection c = made.open();
        EXPECT_EQ(c.send(get("/echo?nonce=1")).body, "1");
        (gate_.*ends)();
        ASSERT_TRUE(eventually([&] { return !made.before_acquire(c); }));
        EXPECT_THROW(c.send(post("/echo?nonce=2", "x")), not_sent);
        EXPECT_THROW(c.send(get("/")), not_sent);
    }
}

TEST_F(http_gate, loses_a_request_and_does_not_say_that_it_was_not_sent) {
    connection c = connector(url()).open();
    gate_.cut_after(1);
    try {
        c.send(get("/echo?nonce=1"));
        ADD_FAILURE();
    } catch (const not_sent&) {
        ADD_FAILURE() << "it was";
    } catch (const connection_error& e) {
        EXPECT_EQ(e.kind(), error_kind::connection);
    }
}

TEST_F(http_gate, is_silent_during_the_handshake) {
    gate tls(server_->tls_port());
    tls.accept_and_be_silent();
    std::string to = "https://localhost:" + std::to_string(tls.port()) + "?connect_timeout=30ms";
    EXPECT_THROW(connector(to).open(), connection_error);
    EXPECT_THROW(await(async_connector(to).open()), connection_error);
}

/// An attacker could have made an end of the stream without a close_notify of TLS.
TEST_F(http_gate, cannot_shorten_what_is_protected) {
    gate tls(server_->tls_port());
    std::string to = "https://localhost:" + std::to_string(tls.port()) +
                     "?tls_ca=" + server_->authority().string();
    connector made(to);
    connection c = made.open();
    EXPECT_EQ(c.send(get("/")).status, 200);
    for (std::size_t i : {1U, 20U, 100U, 300U, 5000U, 100'000U}) {
        connection d = made.open();
        tls.cut_after(i);
        EXPECT_THROW(d.send(get("/large")), connection_error) << i;
        EXPECT_EQ(made.before_release(d), verdict::discard);
        tls.pass();
    }
    tls.finish_all();
    EXPECT_TRUE(eventually([&] { return !made.before_acquire(c); }));
}

TEST_F(http_gate, corrupts_tls_and_it_is_noticed) {
    gate tls(server_->tls_port());
    connector made("https://localhost:" + std::to_string(tls.port()) +
                   "?tls_ca=" + server_->authority().string());
    connection c = made.open();
    tls.corrupt(50);
    EXPECT_THROW(c.send(get("/large")), connection_error);
    EXPECT_EQ(made.before_release(c), verdict::discard);
}

TEST_F(http_gate, stays_idle_between_two_requests_when_an_exception_comes_between) {
    http_pool pool{connector(url()), support::patient(1)};
    try {
        auto lease = pool.acquire_for(plenty);
        streamed s = lease->stream(get("/large"));
        throw std::runtime_error("unrelated");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(echo_through(pool, "mine"), "mine");
    EXPECT_EQ(gate_.accepted(), 2U);
}

// Responses that no real server sends.

struct http_script : testing::Test {
    static constexpr const char* fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
};

TEST_F(http_script, refuses_hostile_answers_and_keeps_no_such_connection) {
    for (std::string bad :
         {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
          "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
          "HTTP/1.1 101 Switching\r\n\r\n", "garbage\r\n\r\n",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"}) {
        scripted_server server({{bad}, {fine}});
        connector made(url_of(server.port()));
        connection c = made.open();
        EXPECT_THROW(c.send(get("/")), connection_error) << bad;
        EXPECT_EQ(made.before_release(c), verdict::discard);
        connection d = made.open();
        EXPECT_THROW(
            {
                scripted_server other({{bad}});
                connection e = connector(url_of(other.port())).open();
                await(e.async_send(get("/")));
            },
            connection_error);
        EXPECT_EQ(d.send(get("/")).body, "ok");
    }
}

TEST_F(http_script, is_bounded_however_much_comes) {
    std::string long_head = "HTTP/1.1 200 OK\r\n";
    while (long_head.size() < 200'000) long_head += "X-More: and more\r\n";
    scripted_server server({{long_head}});
    connection c = connector(url_of(server.port())).open();
    EXPECT_THROW(c.send(get("/")), connection_error);

    std::string endless = "HTTP/1.1 200 OK\r\n\r\n" + std::string(100'000, 'x');
    scripted_server other({{endless}});
    connection d = connector(url_of(other.port()) + "?max_body=50000").open();
    EXPECT_THROW(d.send(get("/")), connection_error);
}

TEST_F(http_script, returns_an_answer_with_something_behind_it_but_not_the_connection) {
    for (std::string bytes : {std::string(fine) + "x", std::string(fine) + fine,
                              std::string("HTTP/1.1 204 No\r\n\r\nbody")}) {
        scripted_server server({{bytes}});
        connector made(url_of(server.port()));
        connection c = made.open();
        EXPECT_LT(c.send(get("/")).status, 300);
        // The next check finds what came later.
        EXPECT_TRUE(eventually([&] { return !made.before_acquire(c); }));
        EXPECT_EQ(made.before_release(c), verdict::discard);
        EXPECT_THROW(c.send(get("/")), not_sent);
    }
}

TEST_F(http_script, ignores_an_unsolicited_answer) {
    // The body of the answer to a HEAD, as some servers send it, would be the next answer.
    std::string lie = "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n";
    scripted_server server({{lie + fine}, {fine}});
    http_pool pool{connector(url_of(server.port())), support::patient(1)};
    {
        auto lease = pool.acquire_for(plenty);
        EXPECT_EQ(lease->send(head("/")).status, 200);
    }
    auto lease = pool.acquire_for(plenty);
    EXPECT_EQ(lease->send(get("/")).body, "ok");
    EXPECT_EQ(server.connections(), 2);
}

TEST_F(http_script, reads_until_the_end_and_then_it_is_over) {
    scripted_server server({{"HTTP/1.1 200 OK\r\n\r\nuntil the end", then::finish}});
    connector made(url_of(server.port()));
    connection c = made.open();
    EXPECT_EQ(c.send(get("/")).body, "until the end");
    EXPECT_EQ(made.before_release(c), verdict::discard);
    connection d = made.open();
    streamed s = d.stream(get("/"));
    std::string all;
    while (auto piece = s.next()) all += *piece;
    EXPECT_EQ(all, "until the end");
    EXPECT_FALSE(d.reusable());
    scripted_server resets({{"HTTP/1.1 200 OK\r\n\r\nuntil the end", then::reset}});
    connection e = connector(url_of(resets.port())).open();
    EXPECT_THROW(e.send(get("/")), connection_error);
}

TEST_F(http_script, speaks_to_servers_of_http_1_0) {
    scripted_server server(
        {{"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"},
         {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"}});
    connection c = connector(url_of(server.port())).open();
    EXPECT_EQ(c.send(get("/")).body, "ok");
    EXPECT_TRUE(c.reusable());
    EXPECT_EQ(c.send(get("/")).body, "ok");
    EXPECT_FALSE(c.reusable());
}

TEST_F(http_script, skips_100_continue) {
    scripted_server server({{std::string("HTTP/1.1 100 Continue\r\n\r\n") + fine}});
    connection c = connector(url_of(server.port())).open();
    EXPECT_EQ(c.send(post("/", "x").with("Expect", "100-continue")).body, "ok");
    EXPECT_TRUE(c.reusable());
}

TEST_F(http_script, sends_nothing_of_a_request_it_refuses) {
    scripted_server server({{fine}});
    connection c = connector(url_of(server.port())).open();
    EXPECT_THROW(c.send(get("/\r\nX: y")), std::invalid_argument);
    EXPECT_EQ(c.send(get("/good")).body, "ok");
    EXPECT_TRUE(server.received().starts_with("GET /good HTTP/1.1\r\n"));
}

TEST_F(http_script, survives_a_server_that_resets_during_a_write) {
    scripted_server server({{"", then::reset}});
    for (int i = 0; i < 20; ++i) {
        connection c = connector(url_of(server.port())).open();
        EXPECT_THROW(c.send(post("/", std::string(5'000'000, 'x'))), connection_error);
    }
}

TEST_F(http_script, allows_one_thing_at_a_time) {
    scripted_server server({{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf "}});
    connection c = connector(url_of(server.port())).open();
    streamed s = c.stream(get("/"));
    EXPECT_THROW(c.send(get("/")), std::logic_error);
    EXPECT_THROW(await(c.async_send(get("/"))), std::logic_error);
    EXPECT_EQ(s.next(), "half ");
    c.set_timeout(20ms);
    EXPECT_THROW(s.next(), cenote::exchange_timeout);
    EXPECT_THROW(s.next(), connection_error);
    EXPECT_THROW(c.send(get("/")), not_sent);
}

}  // namespace
