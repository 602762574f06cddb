// The server with well-behaved, slow, numerous and hostile clients.
#include "cenote/http_server.hpp"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/error.hpp"
#include "http_server/served.hpp"
#include "support/clock.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"
#include "support/process.hpp"
#include "support/tcp_peer.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace served;
using cenote::answer;
using cenote::http_server::to_response;
using support::ended;
using support::eventually;
using support::for_a_while;
using support::has_arrived;
using support::has_been_read;
using support::passes_until;
using support::stopped_clock;
using support::tcp_client;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

/// Returns method, target and body of the request.
asio::awaitable<response> echo(request r) {
    std::string said(r.method_string().data(), r.method_string().size());
    said += " ";
    said.append(r.target().data(), r.target().size());
    said += " " + r.body();
    co_return to_response(answer(200, said));
}

/// A handler that answers when the test calls go().
class slow {
public:
    handler work() {
        return [me = inner_](request r) { return wait(me, std::move(r)); };
    }
    void go() {
        std::lock_guard lock(inner_->mutex);
        inner_->open = true;
        for (const std::weak_ptr<asio::steady_timer>& each : inner_->waiting)
            if (auto timer = each.lock())
                asio::post(timer->get_executor(), [timer] { timer->cancel(); });
    }
    int begun() const { return inner_->begun; }

private:
    struct inner {
        std::atomic<int> begun{0};
        std::mutex mutex;
        bool open = false;
        std::vector<std::weak_ptr<asio::steady_timer>> waiting;
    };
    /// Whether the handler has to wait.
    static bool waits(inner& me, const std::shared_ptr<asio::steady_timer>& until) {
        std::lock_guard lock(me.mutex);
        if (!me.open) me.waiting.push_back(until);
        return !me.open;
    }
    static asio::awaitable<response> wait(std::shared_ptr<inner> me, request r) {
        auto until = std::make_shared<asio::steady_timer>(co_await asio::this_coro::executor,
                                                          asio::steady_timer::time_point::max());
        bool closed = waits(*me, until);
        ++me->begun;
        boost::system::error_code canceled;
        if (closed) co_await until->async_wait(asio::redirect_error(asio::use_awaitable, canceled));
        co_return co_await echo(std::move(r));
    }
    std::shared_ptr<inner> inner_ = std::make_shared<inner>();
};

constexpr std::string_view plain = "GET /a HTTP/1.1\r\nHost: test\r\n\r\n";

// Well-behaved clients.

TEST(http_server, answers_one_request_after_the_other_on_one_connection) {
    front f(echo);
    tcp_client client(f.port());
    for (int i = 0; i < 3; ++i) {
        heard a = ask(client, plain);
        EXPECT_EQ(a.status, 200);
        EXPECT_EQ(a.body, "GET /a ");
        EXPECT_TRUE(a.has("Date: "));
    }
    EXPECT_EQ(f.stats().accepted, 1u);
    EXPECT_TRUE(eventually([&] { return f.stats().answered == 3; }));
}

TEST(http_server, leaves_no_descriptor_to_started_programs) {
    auto before = support::descriptors_of_a_child();
    front f(echo);
    tcp_client client(f.port());
    EXPECT_EQ(ask(client, plain).status, 200);
    EXPECT_EQ(support::descriptors_of_a_child(), before);
}

TEST(http_server, answers_pipelined_requests_in_order) {
    front f(echo);
    tcp_client client(f.port());
    std::string all;
    for (int i = 0; i < 50; ++i)
        all +=
            "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc";
    client.say(all);
    for (int i = 0; i < 50; ++i)
        ASSERT_EQ(hear_answer(client).body, "POST /" + std::to_string(i) + " abc");
}

TEST(http_server, closes_when_the_client_says_so) {
    front f(echo);
    tcp_client client(f.port());
    heard a = ask(client, "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(a.status, 200);
    EXPECT_TRUE(a.has("Connection: close"));
    EXPECT_EQ(client.end(), ended::finished);
}

TEST(http_server, speaks_http_1_0) {
    front f(echo);
    tcp_client once(f.port());
    heard a = ask(once, "GET / HTTP/1.0\r\n\r\n");
    EXPECT_THAT(a.head, HasSubstr("HTTP/1.0 200"));
    EXPECT_EQ(once.end(), ended::finished);

    tcp_client again(f.port());
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(ask(again, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").status, 200);
}

TEST(http_server, leaves_the_body_out_for_head) {
    front f(echo);
    tcp_client client(f.port());
    client.say("HEAD /a HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    std::string all = client.hear_all();
    EXPECT_THAT(all, HasSubstr("Content-Length: 8\r\n"));
    EXPECT_THAT(all, EndsWith("\r\n\r\n"));
}

TEST(http_server, sends_100_continue_when_expected) {
    front f(echo);
    tcp_client client(f.port());
    client.say("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    EXPECT_EQ(hear_answer(client).status, 100);
    EXPECT_EQ(ask(client, "ok").body, "POST / ok");
}

TEST(http_server, reads_chunks) {
    front f(echo);
    tcp_client client(f.port());
    heard a = ask(client,
                  "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    EXPECT_EQ(a.body, "POST / abcde");
}

TEST(http_server, drops_what_follows_the_chunks) {
    front f([](request r) -> asio::awaitable<response> {
        std::string said;
        for (const auto& each : r) {
            said.append(each.name_string().data(), each.name_string().size());
            said += "=";
            said.append(each.value().data(), each.value().size());
            said += ";";
        }
        co_return to_response(answer(200, said + r.body()));
    });
    tcp_client client(f.port());
    for (int i = 0; i < 2; ++i) {
        heard a = ask(client,
                      "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: Chunked\r\n\r\n"
                      "3\r\nabc\r\n0\r\nHost: evil\r\nX-User: root\r\nConnection: close\r\n\r\n");
        EXPECT_EQ(a.status, 200);
        EXPECT_EQ(a.body, "Host=t;Transfer-Encoding=Chunked;abc");
        EXPECT_FALSE(a.has("Connection: close"));
    }
}

TEST(http_server, reads_chunks_that_come_byte_by_byte) {
    front f(echo);
    tcp_client client(f.port());
    int on = 1;
    ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (std::string_view body : {"0\r\n\r\n", "2\r\nab\r\n1;x=y\r\nc\r\n0\r\nX: y\r\n\r\n"}) {
        client.say("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (char c : body) {
            ASSERT_TRUE(eventually([&] { return has_been_read(client); }));
            client.say(std::string_view(&c, 1));
        }
        EXPECT_EQ(hear_answer(client).body, body.size() == 5 ? "POST / " : "POST / abc");
    }
}

TEST(http_server, sends_http_1_0_nothing_before_the_response) {
    front f(echo);
    tcp_client client(f.port());
    for (std::string_view what : {"100-continue", "wonders"}) {
        heard a = ask(client,
                      "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n"
                      "Expect: " +
                          std::string(what) + "\r\n\r\nok");
        EXPECT_EQ(a.status, 200);
        EXPECT_EQ(a.body, "POST / ok");
    }
}

TEST(http_server, accepts_times_beyond_all_clocks) {
    constexpr auto forever = std::chrono::nanoseconds::max();
    front f(echo, {.header = static_cast<std::size_t>(-1),
                   .header_time = forever,
                   .body_time = forever,
                   .answer_time = forever,
                   .idle_time = forever,
                   .busy_pause = forever,
                   .last_call = forever});
    auto client = std::make_unique<tcp_client>(f.port());
    EXPECT_EQ(ask(*client, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nok").status,
              200);
    auto done = f.drain(forever);
    EXPECT_EQ(ask(*client, plain).status, 200);
    client.reset();
    EXPECT_EQ(done.get(), 0u);
    EXPECT_EQ(f.drain(std::chrono::nanoseconds::min()).get(), 0u);
}

TEST(http_server, splits_a_target_into_path_and_query) {
    auto parts = [](std::string_view target) {
        request r(boost::beast::http::verb::get, {target.data(), target.size()}, 11);
        return std::string(cenote::http_server::path_of(r)) + "|" +
               std::string(cenote::http_server::query_of(r));
    };
    EXPECT_EQ(parts("/orders/7"), "/orders/7|");
    EXPECT_EQ(parts("/orders?limit=3?4"), "/orders|limit=3?4");
    EXPECT_EQ(parts("http://host:80/orders?x"), "/orders|x");
    EXPECT_EQ(parts("http://host"), "/|");
    EXPECT_EQ(parts("http://host?a=/x"), "/|a=/x");
    EXPECT_EQ(parts("/x?u=http://host/y"), "/x|u=http://host/y");
    EXPECT_EQ(parts("*"), "*|");
}

// Exceptions of handlers.

TEST(http_server, answers_503_for_an_exhausted_pool) {
    front f([](request) -> asio::awaitable<response> {
        throw cenote::line_full_error("secret.cpp:12 holds all", nullptr, 2500ms);
        co_return response();
    });
    heard a = get(f.port(), "/");
    EXPECT_EQ(a.status, 503);
    EXPECT_TRUE(a.has("Retry-After: 3\r\n"));
    EXPECT_THAT(a.body, Not(HasSubstr("secret")));
}

TEST(http_server, pauses_a_connection_after_503) {
    stopped_clock time;
    std::atomic<int> handled{0};
    front f(
        [&handled](request) -> asio::awaitable<response> {
            ++handled;
            co_return to_response(answer(503, "busy"));
        },
        {.busy_pause = 200ms});
    tcp_client client(f.port());
    EXPECT_EQ(ask(client, plain).status, 503);
    client.say(plain);
    time.advance(199ms);
    EXPECT_TRUE(client.hears_nothing());
    EXPECT_EQ(handled, 1);
    // The pause may have begun only now.
    EXPECT_TRUE(passes_until(time, [&] { return handled == 2; }, 1ms));
    EXPECT_EQ(hear_answer(client).status, 503);
}

TEST(http_server, answers_500_without_the_text_of_other_errors) {
    std::mutex mutex;
    std::string told;
    auto tell = [&](const std::exception_ptr& error) {
        std::lock_guard lock(mutex);
        try {
            std::rethrow_exception(error);
        } catch (const std::exception& e) {
            told = e.what();
        }
        throw std::logic_error("ignored");
    };
    front f([](request) -> asio::awaitable<response> { throw std::runtime_error("secret"); }, {},
            tell);
    tcp_client client(f.port());
    heard a = ask(client, plain);
    EXPECT_EQ(a.status, 500);
    EXPECT_THAT(a.body, Not(HasSubstr("secret")));
    EXPECT_EQ(ask(client, plain).status, 500);  // the connection is fine
    std::lock_guard lock(mutex);
    EXPECT_EQ(told, "secret");
}

TEST(http_server, omits_the_body_of_statuses_without_one) {
    front f([](request r) -> asio::awaitable<response> {
        unsigned status = r.target() == "/204" ? 204 : 304;
        response said(static_cast<boost::beast::http::status>(status), 11);
        said.body() = "too much";
        said.content_length(said.body().size());
        co_return said;
    });
    tcp_client client(f.port());
    for (int status : {204, 304}) {
        heard a = ask(client, "GET /" + std::to_string(status) + " HTTP/1.1\r\nHost: t\r\n\r\n");
        EXPECT_EQ(a.status, status);
        EXPECT_FALSE(a.has("Content-Length"));
    }
    EXPECT_TRUE(client.hears_nothing());

    front g([](request r) -> asio::awaitable<response> {
        if (r.target() == "/") co_return to_response(answer(204, "too much"));
        throw cenote::answer_error(102, "too much");
    });
    tcp_client other(g.port());
    EXPECT_EQ(ask(other, "GET / HTTP/1.1\r\nHost: t\r\n\r\n").status, 204);
    EXPECT_EQ(ask(other, "GET /1 HTTP/1.1\r\nHost: t\r\n\r\n").status, 102);
    EXPECT_EQ(other.hear_all(), "") << "the connection is closed after a 1xx";
}

TEST(http_server, answers_500_for_a_response_that_cannot_be_sent) {
    std::atomic<int> told{0};
    front f(
        [](request r) -> asio::awaitable<response> {
            if (r.target() == "/none") throw cenote::answer_error(12345, "no status");
            response said(boost::beast::http::status::ok, 11);
            // No field can be longer than this, and `close` must be put into it.
            said.set(boost::beast::http::field::connection, std::string(65'530, 'x'));
            co_return said;
        },
        {}, [&](const std::exception_ptr&) { ++told; });
    tcp_client client(f.port());
    EXPECT_EQ(ask(client, "GET /none HTTP/1.1\r\nHost: t\r\n\r\n").status, 500);
    EXPECT_EQ(told, 1);
    heard a = ask(client, "GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(a.status, 500);
    EXPECT_TRUE(a.has("Connection: close"));
    EXPECT_EQ(told, 2);
}

/// Tries every transaction twice, each time with a copy of the work.
struct fake_database {
    template <class Work>
    asio::awaitable<response> async_transaction(Work& work) {
        auto first = work;
        auto second = work;
        return twice(first(*this), second(*this));
    }
    static asio::awaitable<response> twice(asio::awaitable<response> a,
                                           asio::awaitable<response> b) {
        co_await std::move(a);
        co_return co_await std::move(b);
    }
};

TEST(http_server, gives_each_try_of_a_transaction_the_same_request) {
    fake_database db;
    std::vector<const request*> seen;
    auto work = [&seen](fake_database&, const request& r) {
        seen.push_back(&r);
        return echo(r);
    };
    front f(cenote::http_server::transactional(db, work));
    EXPECT_EQ(get(f.port(), "/x").body, "GET /x ");
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0], seen[1]);
}

// Hostile clients.

struct bad_request {
    const char* name;
    std::string bytes;
    int status;  // 0: no answer
};

class http_server_hostile : public testing::TestWithParam<bad_request> {};

TEST_P(http_server_hostile, is_refused_without_effect_on_other_clients) {
    stopped_clock time;  // so the server lingers until the client has read the response
    std::atomic<int> handled{0};
    front f(
        [&handled](request r) {
            ++handled;
            return echo(std::move(r));
        },
        {.header = 4096, .body = 4096});
    tcp_client other(f.port());
    tcp_client client(f.port());
    client.say(GetParam().bytes);
    ::shutdown(client.get(), SHUT_WR);
    heard a = hear_answer(client);
    EXPECT_EQ(a.status, GetParam().status);
    EXPECT_EQ(client.hear_all(), "") << "exactly one response";
    EXPECT_EQ(client.end(), ended::finished);
    EXPECT_EQ(handled, 0);
    EXPECT_EQ(ask(other, plain).status, 200);
}

std::string with_head(const std::string& rest) { return "GET / HTTP/1.1\r\n" + rest + "\r\n\r\n"; }

/// A second request, which is served if the first one is taken to have no body.
const std::string smuggled = "GET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n";

INSTANTIATE_TEST_SUITE_P(
    requests, http_server_hostile,
    testing::Values(
        bad_request{"nonsense", "\x16\x03\x01\x02\x00\x01\xfc\x03\x03 hello\r\n\r\n", 400},
        bad_request{"nothing", "", 0}, bad_request{"half_a_line", "GET / HT", 0},
        bad_request{"half_a_header", "GET / HTTP/1.1\r\nHost: t\r\n", 0},
        bad_request{"no_host", "GET / HTTP/1.1\r\n\r\n", 400},
        bad_request{"two_hosts", with_head("Host: a\r\nHost: b"), 400},
        bad_request{"http_2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        bad_request{"an_unknown_version", "GET / HTTP/1.9\r\nHost: t\r\n\r\n", 400},
        bad_request{"no_version", "GET /\r\n\r\n", 400},
        bad_request{"a_long_line", "GET /" + std::string(8000, 'a') + " HTTP/1.1\r\n\r\n", 431},
        bad_request{"a_long_field", with_head("Host: t\r\nX: " + std::string(8000, 'a')), 431},
        bad_request{"a_field_without_end", "GET / HTTP/1.1\r\nX: " + std::string(100'000, 'a'),
                    431},
        bad_request{"many_fields",
                    [] {
                        std::string all = "Host: t";
                        for (int i = 0; i < 1000; ++i) all += "\r\nX: y";
                        return with_head(all);
                    }(),
                    431},
        bad_request{"a_space_before_the_colon", with_head("Host : t"), 400},
        bad_request{"a_zero_in_a_field", with_head(std::string("Host: t\0t", 9)), 400},
        bad_request{"a_large_body",
                    with_head("Host: t\r\nContent-Length: 5000") + std::string(5000, 'a'), 413},
        bad_request{"an_absurd_length", with_head("Host: t\r\nContent-Length: 9999999999999999"),
                    413},
        bad_request{"a_negative_length", with_head("Host: t\r\nContent-Length: -1"), 400},
        bad_request{"a_length_beyond_numbers",
                    with_head("Host: t\r\nContent-Length: 99999999999999999999999"), 400},
        bad_request{"two_lengths", with_head("Host: t\r\nContent-Length: 3\r\nContent-Length: 4"),
                    400},
        bad_request{"length_and_chunks",
                    with_head("Host: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked") +
                        "0\r\n\r\n",
                    400},
        bad_request{"chunks_in_http_1_0",
                    "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        bad_request{"another_coding", with_head("Host: t\r\nTransfer-Encoding: gzip") + smuggled,
                    400},
        bad_request{"another_coding_after_chunks",
                    with_head("Host: t\r\nTransfer-Encoding: chunked, gzip") + smuggled, 400},
        bad_request{"another_coding_before_chunks",
                    with_head("Host: t\r\nTransfer-Encoding: gzip, chunked") + "0\r\n\r\n", 400},
        bad_request{"chunks_of_chunks",
                    with_head("Host: t\r\nTransfer-Encoding: chunked, chunked") + smuggled, 400},
        bad_request{"identity_coding",
                    with_head("Host: t\r\nTransfer-Encoding: identity") + smuggled, 400},
        bad_request{"another_coding_and_a_length",
                    with_head("Host: t\r\nTransfer-Encoding: gzip\r\nContent-Length: 3") + "abc",
                    400},
        bad_request{"a_length_and_another_coding",
                    with_head("Host: t\r\nContent-Length: 3\r\nTransfer-Encoding: gzip") + "abc",
                    400},
        bad_request{"another_coding_and_chunks",
                    with_head("Host: t\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked") +
                        "0\r\n\r\n",
                    400},
        bad_request{"chunks_twice",
                    with_head("Host: t\r\nTransfer-Encoding: chunked\r\n"
                              "Transfer-Encoding: chunked") +
                        "0\r\n\r\n",
                    400},
        bad_request{"nearly_chunks", with_head("Host: t\r\nTransfer-Encoding: xchunked") + smuggled,
                    400},
        bad_request{"no_coding_at_all", with_head("Host: t\r\nTransfer-Encoding:") + smuggled, 400},
        bad_request{"another_coding_in_http_1_0",
                    "POST / HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n", 400},
        bad_request{"long_extensions_of_a_chunk",
                    with_head("Host: t\r\nTransfer-Encoding: chunked") + "3;" +
                        std::string(100'000, 'a'),
                    431},
        bad_request{"trailers_without_end",
                    with_head("Host: t\r\nTransfer-Encoding: chunked") +
                        "0\r\nX: " + std::string(100'000, 'a'),
                    431},
        bad_request{"a_malformed_chunk",
                    with_head("Host: t\r\nTransfer-Encoding: chunked") + "xyz\r\n", 400},
        bad_request{"large_chunks",
                    with_head("Host: t\r\nTransfer-Encoding: chunked") + "1388\r\n" +
                        std::string(5000, 'a') + "\r\n0\r\n\r\n",
                    413},
        bad_request{"half_a_body", with_head("Host: t\r\nContent-Length: 5") + "abc", 0},
        bad_request{"another_expectation", with_head("Host: t\r\nExpect: wonders"), 417}),
    [](const auto& which) { return which.param.name; });

/// Sends `some` repeatedly, each time after the previous one was read. Whether the connection is
/// dropped.
bool dribbles_until_dropped(stopped_clock& time, const tcp_client& client, std::string_view some) {
    return passes_until(
        time,
        [&] {
            try {
                client.say(some);
            } catch (const std::system_error&) {
                return true;
            }
            EXPECT_TRUE(eventually([&] { return has_been_read(client); }));
            return false;
        },
        20ms);
}

TEST(http_server_slow, drops_idle_clients) {
    stopped_clock time;
    front f(echo, {.idle_time = 50ms});
    tcp_client silent(f.port());
    EXPECT_TRUE(eventually([&] { return f.stats().connections == 1; }));
    time.advance(49ms);
    EXPECT_TRUE(silent.hears_nothing());
    EXPECT_TRUE(passes_until(time, [&] { return silent.end(0s) == ended::finished; }, 1ms));
    tcp_client once(f.port());
    EXPECT_EQ(ask(once, plain).status, 200);
    time.advance(49ms);
    EXPECT_TRUE(once.hears_nothing());
    EXPECT_TRUE(passes_until(time, [&] { return once.end(0s) == ended::finished; }, 1ms));
}

TEST(http_server_slow, drops_clients_that_dribble_a_header) {
    stopped_clock time;
    front f(echo, {.header_time = 300ms});
    tcp_client client(f.port());
    auto since = std::chrono::steady_clock::now();
    client.say("GET / HTTP/1.1\r\nHost: t\r\n");
    EXPECT_TRUE(dribbles_until_dropped(time, client, "X: y\r\n"));
    EXPECT_GE(std::chrono::steady_clock::now() - since, 300ms);
}

TEST(http_server_slow, bounds_a_header_that_arrives_field_by_field) {
    stopped_clock time;
    front f(echo, {.header = 4096});
    tcp_client client(f.port());
    client.say("GET / HTTP/1.1\r\nHost: t\r\n");
    for (int i = 0; i < 60; ++i) {  // 6300 bytes
        client.say("X: " + std::string(100, 'y') + "\r\n");
        ASSERT_TRUE(eventually([&] { return has_been_read(client); }));
    }
    EXPECT_EQ(hear_answer(client).status, 431);
}

TEST(http_server_slow, drops_clients_that_dribble_a_body) {
    stopped_clock time;
    front f(echo, {.body_time = 300ms});
    tcp_client client(f.port());
    auto since = std::chrono::steady_clock::now();
    client.say("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n");
    EXPECT_TRUE(dribbles_until_dropped(time, client, "x"));
    EXPECT_GE(std::chrono::steady_clock::now() - since, 300ms);
}

TEST(http_server_slow, drops_clients_that_do_not_read_the_response) {
    stopped_clock time;
    std::string much(8 << 20, 'a');
    front f(
        [&much](request) -> asio::awaitable<response> { co_return to_response(answer(200, much)); },
        {.answer_time = 200ms});
    tcp_client client(f.port());
    client.say(plain);
    EXPECT_TRUE(eventually([&] { return f.stats().requests == 1; }));
    time.advance(199ms);
    EXPECT_TRUE(for_a_while([&] { return f.stats().connections == 1; }));
    EXPECT_TRUE(passes_until(time, [&] { return f.stats().connections == 0; }, 1ms));
    EXPECT_EQ(f.stats().answered, 0u);  // it was not
}

TEST(http_server_slow, does_not_count_half_a_body_as_answered) {
    front f(echo);
    {
        tcp_client client(f.port());
        client.say("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nabc");
        EXPECT_TRUE(eventually([&] { return f.stats().requests == 1; }));
    }
    EXPECT_TRUE(eventually([&] { return f.stats().connections == 0; }));
    EXPECT_EQ(f.stats().answered, 0u);
}

TEST(http_server_slow, does_not_limit_the_time_of_handlers) {
    stopped_clock time;
    slow s;
    front f(s.work(), {.header_time = 50ms, .body_time = 50ms, .idle_time = 50ms});
    tcp_client client(f.port());
    client.say(plain);
    ASSERT_TRUE(eventually([&] { return s.begun() == 1; }));
    time.advance(1h);
    EXPECT_TRUE(client.hears_nothing());
    s.go();
    EXPECT_EQ(hear_answer(client).status, 200);
}

// Too many clients.

TEST(http_server_crowd, answers_503_to_new_clients_at_the_maximum) {
    stopped_clock time;  // so the server keeps lingering for the late client
    slow s;
    front f(s.work(), {.connections = 3});
    std::vector<std::unique_ptr<tcp_client>> all;
    for (int i = 0; i < 3; ++i) {
        all.push_back(std::make_unique<tcp_client>(f.port()));
        all.back()->say(plain);
    }
    EXPECT_TRUE(eventually([&] { return s.begun() == 3; }));
    tcp_client late(f.port());
    late.say(plain);
    heard a = hear_answer(late);
    EXPECT_EQ(a.status, 503);
    EXPECT_TRUE(a.has("Retry-After: 1"));
    EXPECT_EQ(late.end(), ended::finished);
    s.go();
    for (auto& each : all) EXPECT_EQ(hear_answer(*each).status, 200);
    EXPECT_EQ(f.stats().refused, 1u);
}

TEST(http_server_crowd, drops_idle_connections_for_new_ones) {
    stopped_clock time;
    front f(echo, {.connections = 4});
    std::vector<std::unique_ptr<tcp_client>> idle;
    for (int i = 0; i < 4; ++i) idle.push_back(std::make_unique<tcp_client>(f.port()));
    EXPECT_TRUE(eventually([&] { return f.stats().connections == 4; }));
    time.advance(999ms);
    EXPECT_EQ(get(f.port(), "/").status, 503);  // they have only just come
    time.advance(1ms);
    EXPECT_EQ(ask(*idle[0], plain).status, 200);  // so the second is the oldest
    tcp_client late(f.port());
    EXPECT_EQ(ask(late, plain).status, 200);
    EXPECT_EQ(idle[1]->end(), ended::finished);
    EXPECT_EQ(ask(*idle[0], plain).status, 200);
    EXPECT_EQ(ask(*idle[2], plain).status, 200);
    EXPECT_EQ(f.stats().dropped, 1u);
}

TEST(http_server_crowd, survives_a_thousand_idle_clients) {
    stopped_clock time;
    front f(echo, {.connections = 200});
    std::vector<std::unique_ptr<tcp_client>> idle;
    auto come = [&](std::size_t count) {
        while (idle.size() < count) idle.push_back(std::make_unique<tcp_client>(f.port()));
        EXPECT_TRUE(eventually([&] { return f.stats().accepted == count; }));
    };
    come(200);
    time.advance(1s);
    come(1000);
    EXPECT_LE(f.stats().connections, 200u);
    EXPECT_EQ(f.stats().dropped, 200u);
    EXPECT_EQ(f.stats().refused, 600u);
    time.advance(1s);
    EXPECT_EQ(get(f.port(), "/").status, 200);
}

TEST(http_server_crowd, drops_slow_bodies_for_new_connections) {
    stopped_clock time;
    front f(echo, {.connections = 3});
    std::vector<std::unique_ptr<tcp_client>> all;
    for (int i = 0; i < 3; ++i) {
        all.push_back(std::make_unique<tcp_client>(f.port()));
        all.back()->say("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\na");
        EXPECT_TRUE(eventually([&] { return f.stats().requests == all.size(); }));
    }
    time.advance(1999ms);
    EXPECT_EQ(get(f.port(), "/").status, 503);  // they have only just begun
    time.advance(1ms);
    for (auto& each : all) each->say("b");  // sending a little does not help
    tcp_client late(f.port());
    EXPECT_EQ(ask(late, plain).status, 200);
    EXPECT_NE(all[0]->end(), ended::not_yet);
    EXPECT_EQ(ask(*all[1], "cde").body, "POST / abcde");
    EXPECT_EQ(ask(*all[2], "cde").body, "POST / abcde");
    EXPECT_EQ(f.stats().dropped, 1u);
}

// Draining.

TEST(http_server_drain, finishes_received_requests_with_connection_close) {
    stopped_clock time;
    slow s;
    front f(s.work(), {.last_call = 50ms});
    tcp_client busy(f.port());
    busy.say(plain);
    EXPECT_TRUE(eventually([&] { return s.begun() == 1; }));
    tcp_client idle(f.port());
    auto done = f.drain(1h);
    EXPECT_TRUE(eventually([&] { return !support::listens(f.port()); }));
    time.advance(49ms);
    EXPECT_TRUE(idle.hears_nothing());
    time.advance(1ms);
    EXPECT_EQ(idle.end(), ended::finished);
    EXPECT_TRUE(busy.hears_nothing());
    s.go();
    heard a = hear_answer(busy);
    EXPECT_EQ(a.status, 200);
    EXPECT_TRUE(a.has("Connection: close"));
    EXPECT_EQ(busy.end(), ended::finished);
    EXPECT_TRUE(passes_until(time, [&] { return is_ready(done); }));
    EXPECT_EQ(done.get(), 0u);
    EXPECT_EQ(f.stats().connections, 0u);
}

TEST(http_server_drain, answers_requests_of_idle_connections_in_time) {
    stopped_clock time;
    front f(echo, {.last_call = 10s});
    tcp_client one(f.port());
    tcp_client other(f.port());
    EXPECT_EQ(ask(one, plain).status, 200);
    auto done = f.drain(1h);
    EXPECT_TRUE(eventually([&] { return !support::listens(f.port()); }));
    time.advance(9999ms);
    for (tcp_client* each : {&one, &other}) {
        heard a = ask(*each, plain);
        EXPECT_EQ(a.status, 200);
        EXPECT_TRUE(a.has("Connection: close"));
        EXPECT_EQ(each->end(), ended::finished);
    }
    EXPECT_TRUE(passes_until(time, [&] { return is_ready(done); }));
    EXPECT_EQ(done.get(), 0u);
}

TEST(http_server_drain, serves_clients_in_the_backlog) {
    for (int round = 0; round < support::rounds(50); ++round) {
        front f(echo);
        std::vector<std::unique_ptr<tcp_client>> all;
        for (int i = 0; i < 20; ++i) {
            all.push_back(std::make_unique<tcp_client>(f.port()));
            all.back()->say(plain);
        }
        auto done = f.drain(30s);
        for (auto& each : all) ASSERT_EQ(hear_answer(*each).status, 200);
        all.clear();
        EXPECT_EQ(done.get(), 0u);
    }
}

TEST(http_server_drain, ends_in_time_and_returns_how_many_were_lost) {
    stopped_clock time;
    slow s;
    front f(s.work(), {.last_call = 10ms});
    tcp_client busy(f.port());
    busy.say(plain);
    EXPECT_TRUE(eventually([&] { return s.begun() == 1; }));
    auto done = f.drain(100ms);
    EXPECT_TRUE(eventually([&] { return !support::listens(f.port()); }));
    time.advance(99ms);
    EXPECT_TRUE(for_a_while([&] { return !is_ready(done); }));
    time.advance(1ms);
    EXPECT_EQ(done.get(), 1u);
    EXPECT_EQ(busy.end(), ended::finished);
    s.go();
    EXPECT_TRUE(eventually([&] { return f.stats().connections == 0; }));
}

TEST(http_server_drain, answers_all_received_pipelined_requests) {
    stopped_clock time;
    constexpr int count = 300;  // more than is read at a time
    slow s;
    front f(s.work(), {.last_call = 10ms});
    tcp_client client(f.port());
    std::string all;
    for (int i = 0; i < count; ++i)
        all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: t\r\n\r\n";
    client.say(all);
    EXPECT_TRUE(eventually([&] { return s.begun() == 1 && has_arrived(client); }));
    auto done = f.drain(1h);
    EXPECT_TRUE(eventually([&] { return !support::listens(f.port()); }));
    time.advance(50ms);  // longer than last_call
    EXPECT_TRUE(client.hears_nothing());
    s.go();
    for (int i = 0; i < count; ++i) {
        heard a = hear_answer(client);
        ASSERT_EQ(a.body, "GET /" + std::to_string(i) + " ");
        ASSERT_EQ(a.has("Connection: close"), i == count - 1);
    }
    EXPECT_EQ(client.end(), ended::finished);
    EXPECT_TRUE(passes_until(time, [&] { return is_ready(done); }));
    EXPECT_EQ(done.get(), 0u);
}

TEST(http_server_drain, does_not_wait_for_clients_that_keep_sending) {
    stopped_clock time;
    slow s;
    front f(s.work(), {.last_call = 10ms});
    tcp_client client(f.port());
    client.say(plain);
    EXPECT_TRUE(eventually([&] { return s.begun() == 1; }));
    auto done = f.drain(1h);
    EXPECT_TRUE(eventually([&] { return !support::listens(f.port()); }));
    s.go();
    EXPECT_TRUE(passes_until(time, [&] {
        try {
            client.say(plain);
        } catch (const std::system_error&) {
            return true;
        }
        return false;
    }));
    EXPECT_TRUE(passes_until(time, [&] { return is_ready(done); }));
    EXPECT_EQ(done.get(), 0u);
}

TEST(http_server_drain, does_not_wait_after_a_response_with_keep_alive) {
    stopped_clock time;
    std::string much(8 << 20, 'a');
    front f(
        [&much](request) -> asio::awaitable<response> { co_return to_response(answer(200, much)); },
        {.last_call = 10ms});
    tcp_client client(f.port());
    client.say(plain);
    EXPECT_EQ(client.hear(1), "H");  // is being sent
    auto done = f.drain(1h);
    EXPECT_TRUE(eventually([&] { return !support::listens(f.port()); }));
    time.advance(100ms);  // longer than last_call
    EXPECT_TRUE(for_a_while([&] { return !is_ready(done); }));
    EXPECT_GE(client.hear(much.size()).size(), much.size());
    EXPECT_TRUE(passes_until(time, [&] { return client.end(0s) == ended::finished; }));
    EXPECT_TRUE(passes_until(time, [&] { return is_ready(done); }));
    EXPECT_EQ(done.get(), 0u);
}

/// Destroys the server after each number of steps of the event loop since a client connected.
TEST(http_server_drain, accepts_no_client_after_the_end) {
    for (int steps = 0; steps < 15; ++steps) {
        asio::io_context io(1);
        auto here = std::make_unique<server>(
            io.get_executor(), asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0), echo);
        io.poll();
        tcp_client client(here->endpoint().port());
        // So that the wait for the client may complete before it is accepted.
        for (int i = 0; i < 5; ++i) asio::post(io, [] {});
        for (int i = 0; i < steps; ++i) io.poll_one();
        here.reset();
        io.run_for(support::plenty);
        EXPECT_TRUE(io.stopped()) << "a client was accepted after " << steps << " steps";
        EXPECT_NE(client.end(), ended::not_yet);
    }
}

TEST(http_server_drain, leaves_nothing_behind) {
    auto before = support::descriptor_count();
    {
        slow s;
        front f(s.work());
        tcp_client busy(f.port());
        busy.say(plain);
        tcp_client idle(f.port());
        EXPECT_TRUE(eventually([&] { return s.begun() == 1; }));
    }
    EXPECT_EQ(support::descriptor_count(), before);
}

}  // namespace
