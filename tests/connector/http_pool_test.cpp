// Pools of HTTP connections: which connection is leased, and what a restart of the server costs.
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/asio.hpp"
#include "cenote/http.hpp"
#include "cenote/pool.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/real_server.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// Otherwise the thread sanitizer ends a child process that starts a thread. It expects this name.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif
#endif

namespace {

using namespace cenote::http;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using support::eventually;
using support::nginx_server;
using support::plenty;
using steady = std::chrono::steady_clock;
using http_pool = cenote::pool<connection>;

struct http_pooled : testing::Test {
    static void SetUpTestSuite() {
        support::nginx_options chosen;
        chosen.locations =
            "location = /five { keepalive_requests 5; return 200 $connection; }\n"
            "location = /short { keepalive_timeout 50ms; return 200 $connection; }\n";
        server_ = new nginx_server(chosen);
    }
    static void TearDownTestSuite() { delete std::exchange(server_, nullptr); }

    static std::string url(const std::string& more = "") {
        return "http://127.0.0.1:" + std::to_string(server_->port()) + more;
    }

    static nginx_server* server_;
};
nginx_server* http_pooled::server_ = nullptr;

std::string ask(http_pool& pool, const char* target) {
    auto lease = pool.acquire_for(plenty);
    return lease->send(get(target)).body;
}

TEST_F(http_pooled, lends_the_same_connection_again) {
    http_pool pool{connector(url()), support::patient(3)};
    std::set<std::string> seen;
    for (int i = 0; i < 50; ++i) {
        std::string text = ask(pool, "/connection");
        seen.insert(text.substr(0, text.find(' ')));
    }
    EXPECT_EQ(seen.size(), 1U);
}

TEST_F(http_pooled, opens_another_one_when_the_server_has_closed_it) {
    http_pool pool{connector(url()), support::patient(1)};
    std::set<std::string> seen;
    for (int i = 0; i < 50; ++i) seen.insert(ask(pool, "/five"));
    EXPECT_EQ(seen.size(), 10U);
}

TEST_F(http_pooled, never_lends_what_the_server_has_closed) {
    connector made(url());
    http_pool pool{made, support::patient(1)};
    std::string first = ask(pool, "/short");
    // The server closes idle connections: when it has closed this later one, it has closed that of
    // the pool, too.
    connection later = made.open();
    later.send(get("/short"));
    ASSERT_TRUE(eventually([&] { return !made.before_acquire(later); }));
    EXPECT_NE(ask(pool, "/short"), first);
}

TEST_F(http_pooled, sends_again_what_was_not_sent) {
    support::gate between(server_->port());
    connector made("http://127.0.0.1:" + std::to_string(between.port()));
    http_pool pool{made, support::patient(1)};
    auto lease = pool.acquire_for(plenty);
    between.finish_all();
    ASSERT_TRUE(eventually([&] { return !made.before_acquire(*lease); }));
    // As the guide shows it.
    auto send = [&](const request& asked) {
        for (;;) {
            try {
                return lease->send(asked);
            } catch (const not_sent&) {
                lease.discard();
                lease = pool.acquire_for(plenty);
            }
        }
    };
    EXPECT_EQ(send(post("/echo?nonce=once", "x")).body, "once");
}

asio::awaitable<std::string> ask_awaited(http_pool* pool, std::string nonce) {
    auto lease = co_await pool->async_acquire(asio::use_awaitable);
    response r = co_await lease->async_send(get("/echo?nonce=" + nonce));
    co_return r.body;
}

TEST_F(http_pooled, needs_no_thread_on_an_executor) {
    asio::io_context loop;
    http_pool pool{loop, async_connector(url("?probe_target=/")), support::patient(3)};
    std::vector<std::future<std::string>> all;
    for (int i = 0; i < 100; ++i)
        all.push_back(
            asio::co_spawn(loop, ask_awaited(&pool, std::to_string(i)), asio::use_future));
    for (int i = 0; i < 100; ++i) {  // in any order
        auto& one = all[static_cast<std::size_t>(i)];
        while (one.wait_for(0s) != std::future_status::ready) loop.run_one_for(100ms);
        EXPECT_EQ(one.get(), std::to_string(i));
    }
    EXPECT_LE(pool.stats().total, 3U);
}

TEST_F(http_pooled, gives_up_at_once_if_a_retry_is_useless) {
    std::atomic<int> tried{0};
    struct counting : connector {
        counting(const std::string& to, std::atomic<int>& book) : connector(to), tried(&book) {}
        connection open() const {
            ++*tried;
            return connector::open();
        }
        std::atomic<int>* tried;
    };
    // The server's authority is not trusted here.
    std::string secure = "https://u:" + std::string(support::canary_password) +
                         "@localhost:" + std::to_string(server_->tls_port());
    http_pool pool{counting(secure, tried), support::patient(5)};
    auto begin = steady::now();
    try {
        auto lease = pool.acquire_for(plenty);
        ADD_FAILURE();
    } catch (const std::exception& e) {
        EXPECT_THAT(e.what(), testing::Not(testing::HasSubstr(support::canary_password)));
    }
    EXPECT_LT(steady::now() - begin, plenty / 2);
    EXPECT_LE(tried, 5);
}

TEST_F(http_pooled, leaves_the_parent_s_connections_alone_after_a_fork) {
    http_pool pool{connector(url()), support::patient(1)};
    std::string before = ask(pool, "/connection");
    pid_t child = ::fork();
    if (child == 0) {
        std::string mine = ask(pool, "/connection");
        bool another = mine.substr(0, mine.find(' ')) != before.substr(0, before.find(' '));
        ::_exit(another ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    std::string after = ask(pool, "/connection");
    EXPECT_EQ(after.substr(0, after.find(' ')), before.substr(0, before.find(' ')));
}

/// Threads that send requests all the time, and count.
class load {
public:
    static constexpr unsigned size = 8;

    explicit load(http_pool& pool) {
        for (unsigned i = 0; i < size; ++i)
            threads_.emplace_back([this, &pool, i] { run(pool, i); });
    }
    load(const load&) = delete;
    load& operator=(const load&) = delete;
    ~load() { stop(); }
    void stop() {
        over_ = true;
        for (std::thread& each : threads_)
            if (each.joinable()) each.join();
    }
    int right() const { return right_; }
    int wrong() const { return wrong_; }
    int failed() const { return failed_; }

private:
    void run(http_pool& pool, unsigned who) {
        for (int i = 0; !over_; ++i) {
            std::string nonce = std::to_string(who) + "-" + std::to_string(i);
            try {
                auto lease = pool.acquire_for(4 * plenty);
                bool same = lease->send(get("/echo?nonce=" + nonce)).body == nonce;
                ++(same ? right_ : wrong_);
            } catch (const std::exception&) {
                ++failed_;
            }
        }
    }

    std::atomic<bool> over_{false};
    std::atomic<int> right_{0};
    std::atomic<int> wrong_{0};
    std::atomic<int> failed_{0};
    std::vector<std::thread> threads_;
};

TEST_F(http_pooled, survives_restarts_under_load) {
    nginx_server server;
    constexpr int max = 5;
    http_pool pool{connector("http://127.0.0.1:" + std::to_string(server.port())),
                   support::patient(max)};
    load busy(pool);
    ASSERT_TRUE(eventually([&] { return busy.right() > 100; }));
    using ending = support::real_server::ending;
    for (ending how : {ending::fast, ending::immediate, ending::fast}) {
        int failed_before = busy.failed();
        std::uint64_t opened_before = pool.stats().opened;
        std::uint64_t refused_before = pool.stats().open_failed;
        server.stop(how);
        // All threads wait, and the pool has tried to open connections in vain.
        ASSERT_TRUE(eventually([&] {
            cenote::stats now = pool.stats();
            return now.waiting == load::size && now.open_failed > refused_before + 2;
        }));
        // A stopping server still accepts for a moment. Each connection fails at most once.
        std::uint64_t lost = max + pool.stats().opened - opened_before;
        int right_before = busy.right();
        server.start();
        ASSERT_TRUE(eventually([&] { return busy.right() > right_before + 100; }));
        int failed = busy.failed() - failed_before;
        EXPECT_LE(failed, static_cast<int>(lost));
    }
    busy.stop();
    EXPECT_EQ(busy.wrong(), 0);
}

/// A reload lets the server's workers finish: only a request may fail that meets the close of its
/// connection.
TEST_F(http_pooled, survives_reloads_under_load) {
    nginx_server server;
    constexpr int max = 5;
    http_pool pool{connector("http://127.0.0.1:" + std::to_string(server.port())),
                   support::patient(max)};
    load busy(pool);
    pid_t master = 0;
    std::ifstream(server.folder() / "pid") >> master;
    ASSERT_GT(master, 0);
    for (int i = 0; i < 3; ++i) {
        int right_before = busy.right();
        ASSERT_EQ(::kill(master, SIGHUP), 0);
        ASSERT_TRUE(eventually([&] { return busy.right() > right_before + 1000; }));
    }
    busy.stop();
    EXPECT_EQ(busy.wrong(), 0);
    EXPECT_LE(busy.failed(), 3 * max);
    std::printf("%d right, %d failed\n", busy.right(), busy.failed());
}

}  // namespace
