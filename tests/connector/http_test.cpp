// HTTP connections to a real nginx: their operations, with and without TLS, blocking and awaited.
#include "cenote/http.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "connector/awaiting.hpp"
#include "support/descriptors.hpp"
#include "support/gate.hpp"
#include "support/no_such_host.hpp"
#include "support/patience.hpp"
#include "support/real_server.hpp"

namespace {

using namespace cenote::http;
using namespace std::chrono_literals;
using boost::asio::awaitable;
using cenote::connection_error;
using cenote::error_kind;
using cenote::verdict;
using support::await;
using support::await_on;
using support::eventually;
using support::nginx_server;
using testing::HasSubstr;
using testing::Not;

constexpr const char* page = "<p>cenote: a pool of clear water\n";

struct http_server : testing::Test {
    static void SetUpTestSuite() {
        support::nginx_options chosen;
        chosen.locations =
            "ssl_protocols TLSv1.2 TLSv1.3;\n"
            "location = /five { keepalive_requests 5; return 200 five; }\n"
            "location = /short { keepalive_timeout 50ms; return 200 short; }\n"
            "location = /agent { return 200 $http_user_agent; }\n"
            "location = /authorization { return 200 $http_authorization; }\n"
            "location = /host { return 200 $http_host; }\n"
            "location = /encoding { return 200 '$http_accept_encoding'; }\n"
            "location = /small_bodies { client_max_body_size 10; return 200 fine; }\n"
            "location = /length { return 200 $content_length; }\n"
            "location = /protocol { return 200 \"$ssl_protocol $ssl_alpn_protocol\"; }\n";
        server_ = new nginx_server(chosen);
    }
    static void TearDownTestSuite() { delete std::exchange(server_, nullptr); }

    static std::string plain(const std::string& more = "") {
        return "http://127.0.0.1:" + std::to_string(server_->port()) + more;
    }
    static std::string secure(const std::string& more = "") {
        return "https://localhost:" + std::to_string(server_->tls_port()) +
               "?tls_ca=" + server_->authority().string() + more;
    }
    static connection open(const std::string& url = plain()) { return connector(url).open(); }

    static nginx_server* server_;
};
nginx_server* http_server::server_ = nullptr;

/// The server's number for the connection.
std::string number_of(connection& c) {
    std::string text = c.send(get("/connection")).body;
    return text.substr(0, text.find(' '));
}

struct http_connection : http_server {};

TEST_F(http_connection, leaves_no_descriptor_to_programs_that_are_started) {
    auto before = support::descriptors_of_a_child();
    connection c = open();
    connection awaited = await(async_connector(secure()).open());
    EXPECT_EQ(support::descriptors_of_a_child(), before);
}

TEST_F(http_connection, answers) {
    connection c = open();
    response r = c.send(get("/"));
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(r.reason, "OK");
    EXPECT_EQ(r.body, page);
    EXPECT_EQ(r.headers.find("content-TYPE"), "text/html");
    EXPECT_TRUE(c.reusable());
    EXPECT_GE(c.native_handle(), 0);
}

TEST_F(http_connection, is_kept_alive) {
    connection c = open();
    std::string number = number_of(c);
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(c.send(get("/echo?nonce=" + std::to_string(i))).body, std::to_string(i));
    EXPECT_EQ(number_of(c), number);
}

TEST_F(http_connection, reads_bodies_of_all_kinds) {
    connection c = open();
    response large = c.send(get("/large"));
    ASSERT_EQ(large.body.size(), nginx_server::large_size);
    EXPECT_TRUE(large.body.starts_with("0123456789abcdef0123"));
    response chunked = c.send(get("/chunked"));
    EXPECT_EQ(chunked.headers.find("Transfer-Encoding"), "chunked");
    EXPECT_EQ(chunked.body, page);
    response head_only = c.send(head("/large"));
    EXPECT_EQ(head_only.headers.find("Content-Length"), std::to_string(large.body.size()));
    EXPECT_EQ(head_only.body, "");
    EXPECT_EQ(c.send(get("/status/204")).status, 204);
    response unchanged = c.send(get("/").with("If-None-Match", "*"));
    response fresh = c.send(get("/"));
    std::string tag(*fresh.headers.find("ETag"));
    unchanged = c.send(get("/").with("If-None-Match", tag));
    EXPECT_EQ(unchanged.status, 304);
    EXPECT_EQ(unchanged.body, "");
    EXPECT_EQ(c.send(get("/")).body, page);
    EXPECT_TRUE(c.reusable());
}

TEST_F(http_connection, takes_refusals_for_answers) {
    connection c = open();
    std::string number = number_of(c);
    for (int status : {301, 400, 401, 403, 404, 410, 418, 429, 500, 502, 503, 504}) {
        response r = c.send(get("/status/" + std::to_string(status)));
        EXPECT_EQ(r.status, status);
        // nginx closes the connection after a bad request.
        if (!c.reusable()) {
            c = open();
            number = number_of(c);
        }
    }
    EXPECT_EQ(c.send(get("/nothing/there")).status, 404);
    EXPECT_EQ(number_of(c), number);
}

TEST_F(http_connection, sends_bodies) {
    connection c = open();
    EXPECT_EQ(c.send(post("/length", std::string(1000, 'x'))).body, "1000");
    EXPECT_EQ(c.send(post("/length", std::string(500'000, 'x'))).body, "500000");
    EXPECT_EQ(c.send(post("/length", "")).body, "0");
    EXPECT_TRUE(c.reusable());
}

TEST_F(http_connection, hears_the_answer_to_a_request_that_is_too_long) {
    connection c = open();
    response r = c.send(post("/small_bodies", std::string(20'000'000, 'x')));
    EXPECT_EQ(r.status, 413);
    EXPECT_FALSE(c.reusable());
    connection d = open();
    auto again = [](connection& on) -> awaitable<response> {
        request asked = post("/small_bodies", std::string(20'000'000, 'x'));
        response got = co_await on.async_send(std::move(asked));
        co_return got;
    };
    EXPECT_EQ(await(again(d)).status, 413);
}

TEST_F(http_connection, says_who_it_is_and_asks_for_nothing_compressed) {
    connection c = open(plain("?user_agent=robot%207"));
    EXPECT_EQ(c.send(get("/agent")).body, "robot 7");
    EXPECT_EQ(c.send(get("/encoding")).body, "");
    EXPECT_EQ(c.send(get("/host")).body, "127.0.0.1:" + std::to_string(server_->port()));
    options with_password = options::from_url(plain());
    with_password.user = "me";
    with_password.password = cenote::secret(support::canary_password);
    connection d = connector(with_password).open();
    EXPECT_THAT(d.send(get("/authorization")).body, testing::StartsWith("Basic bWU6"));
}

TEST_F(http_connection, ends_where_the_server_says_so) {
    connection c = open();
    response r = c.send(get("/close"));
    EXPECT_EQ(r.body, "bye");
    EXPECT_FALSE(c.reusable());
    EXPECT_THROW(c.send(get("/")), not_sent);

    connection five = open();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(five.send(get("/five")).body, "five");
    EXPECT_FALSE(five.reusable());
}

TEST_F(http_connection, ends_at_the_server_s_limit_of_requests) {
    connector made(plain());
    connection c = made.open();
    EXPECT_EQ(c.send(get("/short")).body, "short");
    EXPECT_EQ(made.before_release(c), verdict::keep);
    ASSERT_TRUE(eventually([&] { return !made.before_acquire(c); }));
    EXPECT_FALSE(made.probe(c));
    EXPECT_THROW(c.send(get("/")), not_sent);
}

TEST_F(http_connection, refuses_bad_requests_and_goes_on) {
    connection c = open();
    EXPECT_THROW(c.send(get("/a\r\nX: y")), std::invalid_argument);
    EXPECT_THROW(c.send(get("/").with("X", "a\nb")), std::invalid_argument);
    EXPECT_THROW(await(c.async_send(get("/a b"))), std::invalid_argument);
    EXPECT_TRUE(c.reusable());
    EXPECT_EQ(c.send(get("/")).body, page);
}

TEST_F(http_connection, refuses_what_is_larger_than_allowed) {
    connection c = open(plain("?max_body=1000"));
    EXPECT_EQ(c.send(get("/")).body, page);
    EXPECT_THROW(c.send(get("/large")), connection_error);
    EXPECT_FALSE(c.reusable());
}

TEST_F(http_connection, gives_up_in_time) {
    connector made(plain());
    connection c = made.open();
    c.set_timeout(30ms);
    EXPECT_THROW(c.send(get("/slow")), cenote::exchange_timeout);
    EXPECT_FALSE(c.reusable());
    EXPECT_EQ(made.before_release(c), verdict::discard);
    connection d = made.open();
    d.set_timeout(30ms);
    EXPECT_THROW(await(d.async_send(get("/slow"))), cenote::exchange_timeout);
    // The timeout of a lease ends with the lease.
    connection e = made.open();
    e.set_timeout(1ns);
    EXPECT_EQ(made.before_release(e), verdict::keep);
    EXPECT_EQ(e.send(get("/large")).status, 200);
}

struct http_stream : http_server {};

TEST_F(http_stream, hands_out_a_large_body_in_pieces) {
    connection c = open(plain("?max_body=1000"));
    streamed s = c.stream(get("/large"));
    EXPECT_EQ(s.head().status, 200);
    EXPECT_EQ(s.head().body, "");
    EXPECT_FALSE(c.reusable());
    EXPECT_THROW(c.send(get("/")), std::logic_error);
    std::string all;
    while (std::optional<std::string> piece = s.next()) {
        EXPECT_LE(piece->size(), 65536U);
        all += *piece;
    }
    EXPECT_EQ(all.size(), nginx_server::large_size);
    EXPECT_EQ(s.next(), std::nullopt);
    EXPECT_TRUE(c.reusable());
    EXPECT_EQ(c.send(get("/")).body, page);
    EXPECT_EQ(s.next(), std::nullopt);
}

TEST_F(http_stream, reads_into_a_buffer) {
    connection c = open();
    streamed s = c.stream(get("/chunked"));
    std::string all;
    char some[7];
    while (std::size_t size = s.read(some)) all.append(some, size);
    EXPECT_EQ(all, page);
    EXPECT_TRUE(c.reusable());
    EXPECT_THROW(s.read(std::span<char>()), std::invalid_argument);
}

TEST_F(http_stream, needs_no_reading_if_there_is_nothing_to_read) {
    connection c = open();
    EXPECT_EQ(c.stream(get("/status/204")).head().status, 204);
    EXPECT_TRUE(c.reusable());
    EXPECT_EQ(c.stream(head("/large")).head().status, 200);
    EXPECT_TRUE(c.reusable());
}

TEST_F(http_stream, that_is_left_early_ends_the_connection) {
    connector made(plain());
    connection c = made.open();
    {
        streamed s = c.stream(get("/large"));
        s.next();
    }
    EXPECT_FALSE(c.reusable());
    EXPECT_EQ(made.before_release(c), verdict::discard);
    EXPECT_THROW(c.send(get("/")), not_sent);
}

TEST_F(http_stream, may_be_left_if_all_of_it_has_come) {
    connection c = open();
    {
        streamed s = c.stream(get("/"));
        s.next();
    }
    EXPECT_TRUE(c.reusable());
    EXPECT_EQ(c.send(get("/")).body, page);
}

TEST_F(http_stream, outlives_its_connection_without_harm) {
    connector made(plain());
    std::optional<streamed> s;
    {
        connection c = made.open();
        s.emplace(c.stream(get("/large")));
        made.close(c);
    }
    EXPECT_THROW(s->next(), connection_error);
}

awaitable<std::string> read_all(connection* c, std::string target) {
    request asked = get(std::move(target));
    streamed s = co_await c->async_stream(std::move(asked));
    std::string all;
    for (;;) {
        std::optional<std::string> piece = co_await s.async_next();
        if (!piece) co_return all;
        all += *piece;
        char some[100];
        std::size_t size = co_await s.async_read(some);
        all.append(some, size);
    }
}

TEST_F(http_stream, can_be_awaited) {
    connection c = open();
    EXPECT_EQ(await(read_all(&c, "/large")).size(), nginx_server::large_size);
    EXPECT_EQ(await(read_all(&c, "/chunked")), page);
    EXPECT_TRUE(c.reusable());
}

struct http_awaited : http_server {};

awaitable<std::string> ask(connection* c, std::string target) {
    response r = co_await c->async_send(get(std::move(target)));
    co_return r.body;
}

TEST_F(http_awaited, answers_on_one_executor_after_the_other) {
    boost::asio::io_context one;
    boost::asio::io_context other;
    connection c = await_on(one, async_connector(plain()).open());
    std::string number = number_of(c);
    for (int i = 0; i < 10; ++i) {
        std::string nonce = std::to_string(i);
        EXPECT_EQ(await_on(i % 2 == 0 ? one : other, ask(&c, "/echo?nonce=" + nonce)), nonce);
    }
    EXPECT_EQ(number_of(c), number);
}

TEST_F(http_awaited, owns_what_it_was_given) {
    connection c = open();
    std::optional<awaitable<response>> later;
    {
        request asked = get("/echo?nonce=still-there");
        later.emplace(c.async_send(asked));
    }
    EXPECT_EQ(await(std::move(*later)).body, "still-there");
}

struct http_tls : http_server {};

TEST_F(http_tls, is_verified_and_speaks_http) {
    connection c = open(secure());
    EXPECT_EQ(c.send(get("/")).body, page);
    EXPECT_THAT(c.send(get("/protocol")).body, HasSubstr("TLSv1.3"));
    EXPECT_EQ(c.send(get("/large")).body.size(), nginx_server::large_size);
    EXPECT_EQ(c.send(post("/length", std::string(500'000, 'x'))).body, "500000");
    connection awaited = await(async_connector(secure()).open());
    EXPECT_EQ(await(ask(&awaited, "/chunked")), page);
    EXPECT_EQ(await(read_all(&awaited, "/large")).size(), nginx_server::large_size);
}

TEST_F(http_tls, looks_through_the_protection) {
    connector made(secure());
    connection c = made.open();
    // The server's session tickets have come already, or come during the check.
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(c.send(get("/")).body, page);
        EXPECT_EQ(made.before_release(c), verdict::keep);
        EXPECT_TRUE(made.before_acquire(c));
    }
    c.send(get("/close"));
    EXPECT_EQ(made.before_release(c), verdict::discard);
    made.close(c);
    EXPECT_EQ(c.native_handle(), -1);
}

TEST_F(http_tls, names_the_server_by_its_address_too) {
    std::string url = "https://127.0.0.1:" + std::to_string(server_->tls_port()) +
                      "?tls_ca=" + server_->authority().string();
    EXPECT_EQ(open(url).send(get("/")).status, 200);
}

std::pair<error_kind, std::string> failure(const std::string& url) {
    try {
        connection c = connector(url).open();
    } catch (const connection_error& e) {
        return {e.kind(), e.what()};
    }
    return {error_kind::statement, "opened"};
}

TEST_F(http_tls, refuses_servers_it_does_not_trust) {
    // From an authority that the system does not trust.
    std::string port = std::to_string(server_->tls_port());
    auto [kind, text] = failure("https://localhost:" + port);
    EXPECT_EQ(kind, error_kind::final) << text;
    // For another name.
    auto other = failure(secure("&tls_server_name=other.example"));
    EXPECT_EQ(other.first, error_kind::final) << other.second;
    EXPECT_THAT(other.second, HasSubstr("mismatch"));
    auto awaited = [&] { await(async_connector("https://localhost:" + port).open()); };
    EXPECT_THROW(awaited(), connection_error);
}

TEST_F(http_tls, refuses_names_and_dates_that_are_wrong) {
    using identity = support::nginx_options::identity;
    for (identity bad : {identity::wrong_name, identity::expired}) {
        support::nginx_options chosen;
        chosen.certificate = bad;
        nginx_server other(chosen);
        auto [kind, text] = failure("https://localhost:" + std::to_string(other.tls_port()) +
                                    "?tls_ca=" + other.authority().string());
        EXPECT_EQ(kind, error_kind::final) << text;
        EXPECT_EQ(
            connector(plain()).classify(std::make_exception_ptr(connection_error(kind, text))),
            verdict::final);
    }
}

TEST_F(http_tls, is_not_mistaken_for_plain_text_or_the_other_way_round) {
    auto [kind, text] = failure("https://localhost:" + std::to_string(server_->port()));
    EXPECT_EQ(kind, error_kind::transient) << text;
    connection c = open("http://localhost:" + std::to_string(server_->tls_port()));
    EXPECT_EQ(c.send(get("/")).status, 400);
}

struct http_connector : http_server {};

TEST_F(http_connector, says_what_kind_of_failure_it_was) {
    std::uint16_t closed = 0;
    {
        support::gate g(server_->port());
        closed = g.port();
    }
    EXPECT_EQ(failure("http://127.0.0.1:" + std::to_string(closed)).first, error_kind::transient);
    auto unknown =
        failure("http://u:" + std::string(support::canary_password) + "@" + support::no_such_host);
    EXPECT_THAT(unknown.second, Not(HasSubstr(support::canary_password)));
    // Without a name server the lookup fails for another reason.
    EXPECT_TRUE(unknown.first == error_kind::final || unknown.first == error_kind::transient);
}

TEST_F(http_connector, probes_by_a_check_or_a_request) {
    connector looks(plain());
    connection c = looks.open();
    EXPECT_TRUE(looks.probe(c));
    connector asks(plain("?probe_target=/connection"));
    connection d = asks.open();
    EXPECT_TRUE(asks.probe(d));
    EXPECT_EQ(d.send(get("/connection")).body.substr(d.send(get("/connection")).body.find(' ')),
              " 2");
    connector missing(plain("?probe_target=/status/404"));
    connection e = missing.open();
    EXPECT_TRUE(missing.probe(e));
    connector ill(plain("?probe_target=/status/503"));
    connection f = ill.open();
    EXPECT_FALSE(ill.probe(f));
    connector leaves(plain("?probe_target=/close"));
    connection g = leaves.open();
    EXPECT_FALSE(leaves.probe(g));
    async_connector awaits(plain("?probe_target=/status/503"));
    EXPECT_FALSE(await(awaits.probe(c)));
    async_connector awaits_look(plain());
    EXPECT_TRUE(await(awaits_look.probe(c)));
}

TEST_F(http_connector, resets_nothing_and_closes) {
    connector made(plain());
    connection c = made.open();
    made.reset(c);
    EXPECT_EQ(c.send(get("/")).status, 200);
    made.close(c);
    EXPECT_EQ(c.native_handle(), -1);
    EXPECT_THROW(made.reset(c), connection_error);
    EXPECT_FALSE(made.before_acquire(c));
    EXPECT_EQ(made.before_release(c), verdict::discard);
    EXPECT_THROW(c.send(get("/")), not_sent);
}

TEST_F(http_connector, forsakes_without_telling_the_server) {
    connector made(secure());
    connection c = made.open();
    int socket = c.native_handle();
    int other = ::dup(socket);
    made.forsake(c);
    EXPECT_EQ(::fcntl(socket, F_GETFD), -1);
    // The server has received nothing: the connection still exists.
    char byte = 0;
    EXPECT_EQ(::recv(other, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0, false);
    ::close(other);
}

}  // namespace
