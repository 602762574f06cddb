// The dashboard over the network: valid requests are served, hostile ones harm neither it nor
// pools.
#include "cenote/dashboard.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"
#include "cenote/secret.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/task.hpp"
#include "support/tcp_client.hpp"
#include "support/tcp_peer.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// By default the sanitizer ends a forked child that starts a thread.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): its name
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif
#endif

namespace cenote {
namespace {

using namespace std::chrono_literals;
using support::ended;
using support::eventually;
using support::passes_until;
using support::stopped_clock;
using support::tcp_client;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string control_token = "a-token-for-controlling";

/// A dashboard whose timeouts pass when the test moves the clock.
struct served : testing::Test {
    explicit served(const dashboard_options& settings = {.control_token = secret(control_token),
                                                         .request_timeout = 300ms,
                                                         .idle_timeout = 600ms})
        : board(settings) {}

    stopped_clock time;
    dashboard board;
    pool<int> orders{[] { return 1; },
                     {.name = "orders", .max = 2, .observers = {board.observer()}}};
    dashboard::entry shown = board.watch(orders.control());

    std::string host() const { return "127.0.0.1:" + std::to_string(board.port()); }
    std::string request(const std::string& line, const std::string& fields = "") const {
        return line + " HTTP/1.1\r\nHost: " + host() + "\r\n" + fields + "\r\n";
    }
    /// Sends `bytes` and returns the whole response.
    std::string say(const std::string& bytes) const {
        tcp_client client(board.port());
        client.say(bytes);
        return client.hear_all();
    }
    std::string ask(const std::string& line, const std::string& fields = "") const {
        return say(request(line, "Connection: close\r\n" + fields));
    }
    std::string order(const std::string& body, const std::string& fields) const {
        return say(
            request("POST /control",
                    "Connection: close\r\nContent-Type: application/json\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n" + fields) +
            body);
    }
    /// A valid request is served, and the pool grants leases.
    void expect_unharmed() {
        EXPECT_THAT(ask("GET /state"), StartsWith("HTTP/1.1 200 "));
        std::error_code error;
        auto held = orders.acquire({.timeout = 1h}, error);
        EXPECT_TRUE(held) << error.message();
    }
};

TEST_F(served, listens_at_its_url) {
    EXPECT_EQ(board.url(), "http://" + host() + "/");
    EXPECT_THAT(ask("GET /"), HasSubstr("<title>cenote</title>"));
    EXPECT_THAT(ask("GET /dashboard.css"), HasSubstr("Content-Type: text/css"));
    EXPECT_THAT(ask("GET /dashboard.js"), HasSubstr("Content-Type: text/javascript"));
    EXPECT_THAT(ask("GET /state"), HasSubstr(R"("name":"orders")"));
}

TEST_F(served, serves_no_metrics_unless_told_to) {
    EXPECT_THAT(ask("GET /metrics"), StartsWith("HTTP/1.1 404 "));
    EXPECT_THAT(ask("GET /health"), StartsWith("HTTP/1.1 404 "));
}

struct monitored : served {
    monitored() : served({.serve_metrics = true, .serve_health = true}) {}
};

TEST_F(monitored, serves_the_metrics_of_the_watched_pools) {
    std::string answer = ask("GET /metrics");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4"));
    EXPECT_THAT(answer, HasSubstr("cenote_pool_max{pool=\"orders\"} 2"));
    shown = {};
    EXPECT_THAT(ask("GET /metrics"), Not(HasSubstr("pool=\"orders\"")));
}

TEST_F(monitored, says_whether_the_pools_can_serve) {
    EXPECT_THAT(ask("GET /health"), StartsWith("HTTP/1.1 200 "));
    pool<int> replica{[] { return 1; }, {.name = "orders-replica-1"}};
    auto watched = board.watch(replica.control());
    replica.pause();
    std::string answer = ask("GET /health");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 ")) << "the primary serves";
    EXPECT_THAT(answer, ContainsRegex("orders-replica-1.*paused"));
    orders.pause();
    EXPECT_THAT(ask("GET /health"), StartsWith("HTTP/1.1 503 "));
    orders.resume();
    EXPECT_THAT(ask("GET /health"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(served, sends_security_headers) {
    for (const char* line : {"GET /", "GET /state", "GET /nothing", "POST /control"}) {
        std::string answer = ask(line);
        EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'"));
        EXPECT_THAT(answer, HasSubstr("frame-ancestors 'none'"));
        EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff"));
        EXPECT_THAT(answer, Not(HasSubstr("Access-Control-")));
    }
    EXPECT_THAT(ask("GET /state"), HasSubstr("Cache-Control: no-store"));
}

TEST_F(served, sends_an_unchanged_file_once) {
    std::string first = ask("GET /dashboard.js");
    std::size_t at = first.find("ETag: ");
    ASSERT_NE(at, std::string::npos);
    std::string etag = first.substr(at + 6, first.find('\r', at) - at - 6);
    std::string again = ask("GET /dashboard.js", "If-None-Match: " + etag + "\r\n");
    EXPECT_THAT(again, StartsWith("HTTP/1.1 304 "));
    EXPECT_EQ(again.substr(again.find("\r\n\r\n")), "\r\n\r\n");
}

TEST_F(served, answers_many_requests_on_one_connection) {
    tcp_client client(board.port());
    std::string three = request("GET /dashboard.css") + request("HEAD /dashboard.css") +
                        request("GET /nothing", "Connection: close\r\n");
    client.say(three);
    std::string all = client.hear_all();
    std::size_t second = all.find("HTTP/1.1 200", 1);
    ASSERT_NE(second, std::string::npos);
    std::size_t third = all.find("HTTP/1.1 404", second);
    ASSERT_NE(third, std::string::npos);
    EXPECT_EQ(all.substr(third - 4, 4), "\r\n\r\n") << "HEAD has no body";
}

/// A dashboard with enough time for every command, also on a busy machine.
struct unhurried : served {
    unhurried()
        : served({.control_token = secret(control_token), .request_timeout = support::plenty}) {}
};

TEST_F(unhurried, controls_with_the_token) {
    std::string pause = R"({"pool":"orders","action":"pause"})";
    std::string with = "Authorization: Bearer " + control_token + "\r\n";
    EXPECT_THAT(order(pause, with), HasSubstr(R"({"done":true})"));
    EXPECT_EQ(orders.stats().state, pool_state::paused);
    EXPECT_THAT(order(R"({"pool":"orders","action":"resume"})", with), StartsWith("HTTP/1.1 200 "));
    EXPECT_EQ(orders.stats().state, pool_state::lending);
    EXPECT_THAT(order(R"({"pool":"orders","action":"resize","max":0})", with),
                ContainsRegex("HTTP/1.1 422 .*max"));
}

TEST_F(served, refuses_control_otherwise) {
    std::string pause = R"({"pool":"orders","action":"pause"})";
    std::string with = "Authorization: Bearer " + control_token + "\r\n";
    EXPECT_THAT(order(pause, ""), StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(order(pause, "Authorization: Bearer a-token-for-controllinG\r\n"),
                StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(order(pause, with + "Origin: http://evil.example.com\r\n"),
                StartsWith("HTTP/1.1 403 "));
    EXPECT_THAT(order(pause, with + "Sec-Fetch-Site: cross-site\r\n"), StartsWith("HTTP/1.1 403 "));
    EXPECT_THAT(ask("GET /control", with), StartsWith("HTTP/1.1 405 "));
    EXPECT_THAT(ask("OPTIONS /control",
                    "Origin: http://evil.example.com\r\n"
                    "Access-Control-Request-Method: POST\r\n"),
                StartsWith("HTTP/1.1 403 "));
    EXPECT_EQ(orders.stats().state, pool_state::lending);
}

TEST_F(served, refuses_unknown_hosts_and_paths) {
    for (const char* strange : {"evil.example.com", "127.0.0.1", "127.0.0.1:1"})
        EXPECT_THAT(say("GET /state HTTP/1.1\r\nConnection: close\r\nHost: " +
                        std::string(strange) + "\r\n\r\n"),
                    StartsWith("HTTP/1.1 421 "));
    EXPECT_THAT(say("GET /state HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
    EXPECT_THAT(say("GET /state HTTP/1.1\r\nConnection: close\r\nHost: " + host() +
                    "\r\nHost: evil.example.com\r\n\r\n"),
                StartsWith("HTTP/1.1 400 "));
    for (const char* path : {"/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/web/index.html",
                             "//etc/passwd", "/dashboard.js/../state", "/\\..\\state"})
        EXPECT_THAT(ask(std::string("GET ") + path), StartsWith("HTTP/1.1 404 ")) << path;
}

TEST_F(served, refuses_malformed_requests) {
    for (std::string bytes :
         {std::string("\0\0\0\0\r\n\r\n", 8), std::string("hello\r\n\r\n"),
          std::string("GET /state\r\n\r\n"), std::string("GET /state HTTP/9.9\r\n\r\n"),
          std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'x'),
          "GET /state HTTP/1.1\r\nHost : " + host() + "\r\n\r\n",
          "GET /state HTTP/1.1\r\nHost: " + host() + "\r\nContent-Length: -1\r\n\r\n"}) {
        std::string answer = say(bytes);
        EXPECT_THAT(answer, testing::AnyOf("", StartsWith("HTTP/1.1 400 "))) << bytes;
    }
    expect_unharmed();
}

TEST_F(served, refuses_what_is_too_large) {
    EXPECT_THAT(ask("GET /state", "X: " + std::string(9000, 'x') + "\r\n"),
                StartsWith("HTTP/1.1 431 "));
    EXPECT_THAT(ask("GET /" + std::string(9000, 'x')), StartsWith("HTTP/1.1 431 "));
    EXPECT_THAT(order(std::string(5000, ' '), ""), StartsWith("HTTP/1.1 413 "));
    expect_unharmed();
}

TEST_F(served, requires_a_content_length) {
    std::string chunk = "1000\r\n" + std::string(4096, ' ') + "\r\n";
    for (const std::string& body : {std::string("zz\r\n"), std::string("0\r\n\r\n"), chunk + chunk})
        for (const char* coding : {"chunked", "gzip", "chunked, gzip", "identity"})
            EXPECT_THAT(
                say(request("POST /control", std::string("Transfer-Encoding: ") + coding + "\r\n") +
                    body),
                StartsWith("HTTP/1.1 411 "))
                << coding;
    expect_unharmed();
}

TEST_F(served, bounds_what_it_reads_of_an_endless_request) {
    tcp_client client(board.port());
    std::string much(1 << 16, 'x');
    auto end = support::machine_time() + support::plenty;
    std::size_t said = 0;
    EXPECT_THROW(
        {
            client.say("GET /state HTTP/1.1\r\nX: ");
            while (support::machine_time() < end) {
                client.say(much);
                said += much.size();
            }
        },
        std::system_error);
    EXPECT_LT(said, 64U << 20) << "at most what socket buffers hold";
    expect_unharmed();
}

TEST_F(served, drops_slow_clients) {
    std::vector<std::unique_ptr<tcp_client>> slow;
    for (const char* begun :
         {"", "G", "GET /state HTTP/1.1\r\n", "GET /state HTTP/1.1\r\nHost: "}) {
        slow.push_back(std::make_unique<tcp_client>(board.port()));
        slow.back()->say(begun);
    }
    slow.push_back(std::make_unique<tcp_client>(board.port()));
    slow.back()->say(request("POST /control", "Content-Length: 100\r\n") + "{");
    expect_unharmed();
    EXPECT_TRUE(passes_until(time, [&] {
        return std::ranges::all_of(
            slow, [](const auto& each) { return each->end(0s) != ended::not_yet; });
    }));
    tcp_client idle(board.port());
    idle.say(request("GET /dashboard.css"));
    EXPECT_EQ(idle.hear(12), "HTTP/1.1 200");
    time.advance(599ms);
    EXPECT_EQ(idle.end(30ms), ended::not_yet);
    EXPECT_TRUE(passes_until(time, [&] { return idle.end(0s) != ended::not_yet; }));
    expect_unharmed();
}

/// A request has one timeout, not one for each of its parts.
TEST_F(served, drops_clients_that_continue_slowly) {
    tcp_client drip(board.port());
    auto begin = std::chrono::steady_clock::now();
    drip.say("GET /state HTTP/1.1\r\n");
    EXPECT_TRUE(passes_until(
        time,
        [&] {
            EXPECT_TRUE(eventually([&] { return support::has_been_read(drip); }));
            try {
                drip.say("X: 1\r\n");
            } catch (const std::system_error&) {
                return true;
            }
            return false;
        },
        20ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 300ms);
    expect_unharmed();
}

TEST_F(served, does_not_wait_for_clients_that_do_not_read) {
    std::vector<std::unique_ptr<tcp_client>> unread;
    for (int i = 0; i < 20; ++i) {
        unread.push_back(std::make_unique<tcp_client>(board.port()));
        std::string much;
        for (int j = 0; j < 100; ++j) much += request("GET /dashboard.js");
        unread.back()->say(much);
    }
    expect_unharmed();
    expect_unharmed();
}

TEST_F(served, serves_requests_among_a_thousand_idle_clients) {
    rlimit files{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
    auto count_files = [] {
        std::size_t count = 0;
        for (int fd = 0; fd < 4096; ++fd)
            if (::fcntl(fd, F_GETFD) >= 0) ++count;
        return count;
    };
    std::size_t before = count_files();
    std::vector<std::unique_ptr<tcp_client>> idle;
    for (int i = 0; i < 1000; ++i) {
        idle.push_back(std::make_unique<tcp_client>(board.port()));
        if (i % 3 == 0) idle.back()->say("GET /");
        if (i % 100 == 0) expect_unharmed();
    }
    expect_unharmed();
    EXPECT_LE(count_files(), before + idle.size() + 64) << "the server has 64 of them at most";
    EXPECT_TRUE(passes_until(time, [&] {
        return std::ranges::all_of(
            idle, [](const auto& each) { return each->end(0s) != ended::not_yet; });
    }));
    expect_unharmed();
}

TEST_F(served, keeps_the_least_idle_client) {
    std::vector<std::unique_ptr<tcp_client>> idle;
    tcp_client active(board.port());
    for (int i = 0; i < 200; ++i) {
        idle.push_back(std::make_unique<tcp_client>(board.port()));
        if (i % 10 != 0) continue;
        active.say(request("HEAD /dashboard.css"));
        std::string answer;
        while (!answer.ends_with("\r\n\r\n")) {
            std::string next = active.hear(1);
            ASSERT_NE(next, "") << answer;
            answer += next;
        }
        ASSERT_THAT(answer, StartsWith("HTTP/1.1 200"));
    }
}

TEST_F(served, ends_with_clients_in_every_state) {
    std::atomic<bool> stop{false};
    std::atomic<int> answers{0};
    auto other = std::make_unique<dashboard>();
    auto entry = other->watch(orders.control());
    std::uint16_t port = other->port();
    std::vector<std::jthread> crowd;
    for (int i = 0; i < 4; ++i)
        crowd.emplace_back([&] {
            while (!stop) {
                try {
                    tcp_client client(port);
                    client.say("GET /state HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
                               "\r\n\r\n");
                    if (client.hear(100).size() == 100) ++answers;
                } catch (const std::system_error&) {
                    std::this_thread::yield();
                }
            }
        });
    tcp_client silent(port);
    EXPECT_TRUE(eventually([&] { return answers >= 50; }));
    other.reset();
    stop = true;
    EXPECT_NE(silent.end(), ended::not_yet);
    entry = {};  // outlives the dashboard
}

TEST_F(served, allows_pools_to_come_and_go_during_reads) {
    std::jthread reading([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) ask("GET /state");
    });
    for (int i = 0; i < support::rounds(300); ++i) {
        pool<int> brief{[] { return 1; }, {.name = "brief", .observers = {board.observer()}}};
        auto entry = board.watch(brief.control());
        auto held = brief.acquire();
        if (i % 2 == 0) entry = {};
    }
    EXPECT_THAT(ask("GET /state"), Not(HasSubstr("\"name\":\"brief\"")));
}

/// Calls `f` while holding a lease.
support::task with_lease(pool<int>& from, const std::function<void()>* f) {
    auto held = co_await from.co_acquire();
    (*f)();
}

const std::string resume = R"({"pool":"orders","action":"resume"})";
const std::string with_token = "Authorization: Bearer " + control_token + "\r\n";

TEST_F(served, continues_while_a_coroutine_blocks_a_resume_command) {
    static_cast<void>(orders.acquire());
    orders.pause();
    support::latch busy;
    std::function<void()> block = [&] { busy.wait(); };
    auto waiter = with_lease(orders, &block);
    waiter.start();
    auto answer = std::async(std::launch::async, [&] { return order(resume, with_token); });
    EXPECT_TRUE(eventually([&] { return busy.waiting() == 1; }));
    time.advance(300ms);
    EXPECT_THAT(answer.get(), ContainsRegex("HTTP/1.1 202 .*\"done\":false"));
    EXPECT_THAT(ask("GET /state"), HasSubstr(R"("name":"orders")"));
    EXPECT_THAT(order(R"({"pool":"orders","action":"pause"})", with_token),
                StartsWith("HTTP/1.1 409 "));
    busy.open();
    EXPECT_TRUE(eventually(
        [&] { return order(resume, with_token).find("\"done\":true") != std::string::npos; }));
    shown = {};
    EXPECT_TRUE(waiter.done());
}

TEST_F(unhurried, allows_a_coroutine_to_destroy_its_entry_and_its_pool) {
    auto brief = std::make_unique<pool<int>>([] { return 1; }, options{.name = "brief"});
    auto entry = board.watch(brief->control());
    static_cast<void>(brief->acquire());
    brief->pause();
    std::function<void()> end = [&] {
        entry = {};
        brief.reset();
    };
    auto waiter = with_lease(*brief, &end);
    waiter.start();
    EXPECT_THAT(order(R"({"pool":"brief","action":"resume"})", with_token),
                HasSubstr(R"("done":true)"));
    EXPECT_THAT(ask("GET /state"), Not(HasSubstr("\"name\":\"brief\"")));
    EXPECT_EQ(brief, nullptr);
}

TEST_F(served, may_be_destroyed_by_a_command) {
    auto other =
        std::make_unique<dashboard>(dashboard_options{.control_token = secret(control_token)});
    auto entry = other->watch(orders.control());
    static_cast<void>(orders.acquire());
    orders.pause();
    std::atomic<bool> over{false};
    std::function<void()> end = [&] {
        other.reset();
        over = true;
    };
    auto waiter = with_lease(orders, &end);
    waiter.start();
    tcp_client client(other->port());
    client.say("POST /control HTTP/1.1\r\nContent-Type: application/json\r\nHost: localhost:" +
               std::to_string(other->port()) + "\r\n" + with_token +
               "Content-Length: " + std::to_string(resume.size()) + "\r\n\r\n" + resume);
    EXPECT_NE(client.end(), support::ended::not_yet);
    EXPECT_TRUE(eventually([&] { return over.load(); }));
    entry = {};  // waits for the command
    EXPECT_TRUE(waiter.done());
}

struct locked : served {
    locked()
        : served({.read_token = secret("a-token-for-reading"),
                  .control_token = secret(control_token)}) {}
};

TEST_F(locked, shows_the_page_but_no_pool_without_a_token) {
    EXPECT_THAT(ask("GET /"), StartsWith("HTTP/1.1 200 "));
    std::string no = ask("GET /state");
    EXPECT_THAT(no, StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(no, Not(HasSubstr("orders")));
    EXPECT_THAT(ask("GET /state", "Authorization: Bearer a-token-for-reading\r\n"),
                HasSubstr("orders"));
    EXPECT_THAT(order(R"({"pool":"orders","action":"pause"})",
                      "Authorization: Bearer a-token-for-reading\r\n"),
                StartsWith("HTTP/1.1 401 "));
}

struct named : served {
    named()
        : served(
              {.names = {"ops.example.com"}, .request_timeout = forever, .idle_timeout = forever}) {
    }
};

TEST_F(named, accepts_a_configured_host_name) {
    EXPECT_THAT(say("GET /state HTTP/1.1\r\nConnection: close\r\nHost: Ops.Example.com\r\n\r\n"),
                StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(order("{}", ""), ContainsRegex("HTTP/1.1 403 .*control_token"));
}

std::string refusal_of(const dashboard_options& settings) {
    try {
        dashboard board(settings);
        return "";
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
}

TEST(dashboard_options, are_refused_with_a_reason) {
    secret good("a-token-for-reading");
    EXPECT_THAT(refusal_of({.address = "localhost"}), HasSubstr("numeric"));
    EXPECT_THAT(refusal_of({.address = "0.0.0.0"}), HasSubstr("allow_public"));
    EXPECT_THAT(refusal_of({.address = "0.0.0.0", .read_token = good}), HasSubstr("allow_public"));
    EXPECT_THAT(refusal_of({.address = "0.0.0.0", .allow_public = true}), HasSubstr("read_token"));
    EXPECT_THAT(refusal_of({.address = "::", .allow_public = true, .read_token = good}),
                HasSubstr("names"));
    EXPECT_THAT(refusal_of({.read_token = secret("short")}), HasSubstr("16 characters"));
    EXPECT_THAT(refusal_of({.control_token = secret("short")}), HasSubstr("control_token"));
    EXPECT_THAT(refusal_of({.control_token = secret("a token that has spaces")}),
                HasSubstr("visible"));
    EXPECT_THAT(refusal_of({.read_token = good, .control_token = good}), HasSubstr("must differ"));
    EXPECT_THAT(refusal_of({.names = {"http://ops.example.com/"}}), HasSubstr("neither NAME"));
    EXPECT_THAT(refusal_of({.max_connections = 0}), HasSubstr("max_connections"));
    EXPECT_THAT(refusal_of({.request_timeout = 0s}), HasSubstr("request_timeout"));
    EXPECT_THAT(refusal_of({.idle_timeout = -1s}), HasSubstr("idle_timeout"));
    EXPECT_EQ(refusal_of({}), "");
}

TEST(dashboard, names_the_port_on_which_it_cannot_listen) {
    dashboard first;
    try {
        dashboard second({.port = first.port()});
        FAIL();
    } catch (const std::system_error& e) {
        EXPECT_THAT(e.what(), HasSubstr(std::to_string(first.port())));
    }
}

/// The open sockets. Reads /proc, because the descriptors belong to other threads.
std::vector<int> sockets() {
    std::vector<int> all;
    for (int fd = 3; fd < 4096; ++fd) {
        std::array<char, 32> what{};
        std::string link = "/proc/self/fd/" + std::to_string(fd);
        if (::readlink(link.c_str(), what.data(), what.size() - 1) <= 0) continue;
        if (std::string_view(what.data()).starts_with("socket:")) all.push_back(fd);
    }
    return all;
}

bool ends_with_exec(int fd) {
    std::ifstream about("/proc/self/fdinfo/" + std::to_string(fd));
    std::string word;
    while (about >> word && word != "flags:") {
    }
    unsigned flags = 0;
    about >> std::oct >> flags;
    return (flags & O_CLOEXEC) != 0;
}

bool is_listener(int fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

TEST(dashboard, leaves_no_socket_to_started_programs) {
    std::vector<int> before = sockets();
    dashboard board;
    tcp_client client(board.port());
    client.say("GET /state HTTP/1.1\r\nHost: localhost:" + std::to_string(board.port()) +
               "\r\n\r\n");
    ASSERT_EQ(client.hear(12), "HTTP/1.1 200");
    std::size_t own_sockets = 0;
    for (int fd : sockets()) {
        if (std::ranges::count(before, fd) != 0) continue;
        ++own_sockets;
        EXPECT_TRUE(ends_with_exec(fd)) << "descriptor " << fd;
    }
    EXPECT_EQ(own_sockets, 3) << "the listener, and both ends of a connection";
}

TEST(dashboard, does_not_keep_its_address_in_the_child_of_a_fork) {
    std::vector<int> before = sockets();
    static_cast<void>(std::make_unique<dashboard>());  // has ended
    dashboard another;
    dashboard board;
    pid_t child = ::fork();
    if (child == 0) {
        for (int fd : sockets())
            if (std::ranges::count(before, fd) == 0 && is_listener(fd)) ::_exit(1);
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(support::listens(board.port()));
}

TEST(dashboard, does_nothing_in_the_child_of_a_fork) {
    auto board = std::make_unique<dashboard>();
    pool<int> orders{[] { return 1; }, {.name = "orders", .observers = {board->observer()}}};
    auto entry = board->watch(orders.control());
    pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        {
            auto held = orders.acquire();
        }
        {
            auto none = board->watch(orders.control());
        }
        entry = {};
        board.reset();
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(support::listens(board->port()));
    tcp_client client(board->port());
    client.say("GET /state HTTP/1.1\r\nConnection: close\r\nHost: localhost:" +
               std::to_string(board->port()) + "\r\n\r\n");
    EXPECT_THAT(client.hear_all(), HasSubstr("orders"));
}

}  // namespace
}  // namespace cenote
