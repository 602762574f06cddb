// Errors of Redis and their kinds; and connections after faults: no borrower reads the reply to
// another one.
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/pool.hpp"
#include "cenote/redis.hpp"
#include "connector/redis_fixture.hpp"
#include "support/gate.hpp"
#include "support/no_such_host.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/time_lapse.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace cenote::redis;
using namespace redis_fixture;
using cenote::error_kind;
using cenote::verdict;
using support::eventually;
using redis_pool = cenote::pool<connection>;

// Errors.

TEST(redis_error, of_a_wrong_password_is_final) {
    std::string port = std::to_string(server().port());
    for (const std::string& url :
         {"redis://:wr0ng-pw@127.0.0.1:" + port, "redis://stranger:wr0ng-pw@127.0.0.1:" + port}) {
        cenote::redis::connector via(url);
        auto [kind, text] = failure([&] { via.open(); });
        EXPECT_EQ(kind, error_kind::final);
        EXPECT_EQ(text,
                  "cenote: Redis: AUTH was refused: WRONGPASS: the user or the password is wrong");
        EXPECT_EQ(text.find("wr0ng"), text.npos);
    }
    auto [kind, text] =
        failure([&] { cenote::redis::connector("redis://127.0.0.1:" + port).open(); });
    EXPECT_EQ(kind, error_kind::final);
    EXPECT_EQ(text, "cenote: Redis: PING was refused: NOAUTH: the server requires a password");
}

TEST(redis_error, of_a_wrong_password_is_not_retried) {
    support::stopped_clock time;
    support::gate between(server().port());
    cenote::redis::connector via("redis://:wr0ng-pw@127.0.0.1:" + std::to_string(between.port()));
    redis_pool pool(via, support::patient(5));
    std::atomic<bool> over{false};
    std::thread tries([&] {
        for (int i = 0; i < 20; ++i) {
            try {
                static_cast<void>(pool.acquire_for(50ms));
                ADD_FAILURE();
            } catch (const std::exception& e) {
                EXPECT_EQ(std::string(e.what()).find("wr0ng"), std::string::npos) << e.what();
            }
        }
        over = true;
    });
    EXPECT_TRUE(support::time_passes_in_line(time, pool, [&] { return over.load(); }));
    tries.join();
    EXPECT_LE(between.accepted(), 12U);
}

TEST(redis_error, of_an_unknown_database_is_final) {
    auto [kind, text] = failure([] { here("/9999").open(); });
    EXPECT_EQ(kind, error_kind::final);
    EXPECT_EQ(text, "cenote: Redis: SELECT was refused: the database does not exist");
    server().execute_as_admin({"acl", "setuser", "weak", "on", ">weak", "+ping"});
    std::string url = "redis://weak:weak@127.0.0.1:" + std::to_string(server().port()) + "/1";
    EXPECT_EQ(failure([&] { cenote::redis::connector(url).open(); }).first, error_kind::final);
}

/// A server with another name for AUTH repeats the request in its error.
TEST(redis_error, does_not_repeat_what_a_server_repeats) {
    support::redis_server there{{.settings = "rename-command AUTH login"}};
    auto [kind, text] = failure([&] { cenote::redis::connector(url_of(there.port())).open(); });
    EXPECT_EQ(kind, error_kind::final);
    EXPECT_EQ(text, "cenote: Redis: AUTH was refused: the server does not know the command");
    support::redis_server open{{.password = "", .settings = "rename-command AUTH login"}};
    connection c =
        cenote::redis::connector("redis://127.0.0.1:" + std::to_string(open.port())).open();
    EXPECT_STREQ(failure([&] { c.command("AUTH", support::canary_password); }).second.c_str(),
                 "cenote: Redis: ERR");
}

TEST(redis_error, of_too_many_clients_is_transient) {
    support::redis_server there{{.max_clients = 5}};
    cenote::redis::connector via(url_of(there.port()));
    std::vector<connection> all;
    for (int i = 0; i < 5; ++i) all.push_back(via.open());
    for (int i = 0; i < 20; ++i) {
        auto [kind, text] = failure([&] { via.open(); });
        EXPECT_EQ(kind, error_kind::transient) << text;
        EXPECT_NE(text.find("max number of clients reached"), text.npos) << text;
    }
    async_connector awaited(url_of(there.port()));
    EXPECT_EQ(failure([&] { await(awaited.open()); }).first, error_kind::transient);
    for (connection& c : all) EXPECT_EQ(c.command("PING").text(), "PONG");
}

TEST(redis_error, of_too_many_clients_leaves_leases_alone) {
    support::stopped_clock time;
    support::redis_server there{{.max_clients = 3}};
    support::gate between(there.port());
    redis_pool pool(cenote::redis::connector(url_of(between.port())), support::patient(10));
    std::vector<cenote::lease<connection>> held;
    for (int i = 0; i < 3; ++i) held.push_back(pool.acquire());
    std::atomic<bool> over{false};
    std::thread waits([&] {
        EXPECT_THROW(static_cast<void>(pool.acquire_for(300ms)), std::exception);
        over = true;
    });
    // No tight loop: it retries with growing pauses.
    EXPECT_TRUE(eventually([&] { return pool.stats().open_failed > 0; }));
    EXPECT_TRUE(support::for_a_while([&] { return between.accepted() <= 13; }));
    EXPECT_TRUE(support::time_passes_in_line(time, pool, [&] { return over.load(); }));
    waits.join();
    for (auto& lease : held) EXPECT_EQ(lease->command("PING").text(), "PONG");
    EXPECT_LE(between.accepted(), 30U);
    held.pop_back();
    EXPECT_EQ(pool.acquire_for(5s)->command("PING").text(), "PONG");
}

TEST(redis_error, of_a_refused_connection_is_transient) {
    support::redis_server there;
    cenote::redis::connector via(url_of(there.port()));
    there.stop();
    EXPECT_EQ(failure([&] { via.open(); }).first, error_kind::transient);
    std::string unknown = "redis://" + support::no_such_host + support::patiently("tls=off");
    auto [kind, text] = failure([&] { cenote::redis::connector(unknown).open(); });
    EXPECT_TRUE(kind == error_kind::final || kind == error_kind::transient) << text;
}

TEST(redis_error, of_a_demoted_primary_makes_all_suspect) {
    support::redis_server there{{.settings = "replica-serve-stale-data yes"}};
    cenote::redis::connector via(url_of(there.port()));
    connection c = via.open();
    connection d = via.open();
    connection e = via.open();
    there.execute_as_admin({"replicaof", "127.0.0.1", "1"});
    EXPECT_EQ(failure([&] { c.command("SET", "k", 1); }).first, error_kind::suspect);
    EXPECT_EQ(via.before_release(c), verdict::suspect);
    pipeline p;
    p.add("SET", "k", 1);
    EXPECT_TRUE(d.execute(p).front().is_error());
    EXPECT_EQ(via.before_release(d), verdict::suspect);
    EXPECT_EQ(failure([&] { e.transaction(p); }).first, error_kind::suspect);
    EXPECT_EQ(via.before_release(e), verdict::suspect);
}

TEST(redis_error, of_a_replica_without_its_primary_is_transient) {
    support::redis_server there{{.settings = "replica-serve-stale-data no"}};
    cenote::redis::connector via(url_of(there.port()));
    connection c = via.open();
    there.execute_as_admin({"replicaof", "127.0.0.1", "1"});
    auto [kind, text] = failure([&] { via.open(); });
    EXPECT_EQ(kind, error_kind::transient);
    EXPECT_EQ(text, "cenote: Redis: PING was refused: MASTERDOWN: the primary is down");
    EXPECT_EQ(failure([&] { c.command("GET", "k"); }).first, error_kind::statement);
    EXPECT_EQ(via.before_release(c), verdict::keep);
}

TEST(redis_error, of_a_reply_that_is_too_large_ends_the_connection) {
    cenote::redis::connector via = here("?max_reply=100000");
    connection c = via.open();
    c.command("SET", "large", std::string(200'000, 'x'));
    auto [kind, text] = failure([&] { c.command("GET", "large"); });
    EXPECT_EQ(kind, error_kind::connection);
    EXPECT_NE(text.find("max_reply"), text.npos);
    EXPECT_EQ(via.before_release(c), verdict::discard);
    EXPECT_EQ(failure([&] { c.command("PING"); }).first, error_kind::connection);
}

// Hostile servers.

/// Sends the same bytes to each client, and then reads until the client closes.
class parrot {
public:
    explicit parrot(std::string words) : words_(std::move(words)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        void* plain = &at;
        ::bind(listener_, static_cast<sockaddr*>(plain), size);
        ::listen(listener_, 8);
        ::getsockname(listener_, static_cast<sockaddr*>(plain), &size);
        port_ = ntohs(at.sin_port);
        speaking_ = std::thread([this] { speak(); });
    }
    parrot(const parrot&) = delete;
    parrot& operator=(const parrot&) = delete;
    ~parrot() {
        ::shutdown(listener_, SHUT_RDWR);
        speaking_.join();
        ::close(listener_);
    }
    std::string url() const { return url_of(port_); }

private:
    void speak() {
        for (int fd; (fd = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(fd)) {
            char some[4096];
            if (::recv(fd, some, sizeof some, 0) <= 0) continue;
            static_cast<void>(::send(fd, words_.data(), words_.size(), MSG_NOSIGNAL));
            while (::recv(fd, some, sizeof some, 0) > 0) continue;
        }
    }

    std::string words_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::thread speaking_;
};

TEST(redis_error, of_a_server_that_is_not_redis) {
    const std::vector<std::pair<std::string, error_kind>> table{
        {"HTTP/1.1 400 Bad Request\r\n\r\n", error_kind::connection},
        {"+OK\r\n$3\r\nabc\r\n", error_kind::connection},   // not the text of the PING
        {"+OK\r\n+PONG\r\n", error_kind::connection},       // neither
        {":1\r\n+PONG\r\n", error_kind::connection},        // not a text
        {"+OK\r\n+OK\r\n+OK\r\n", error_kind::connection},  // too many replies
        {"*1000000000\r\n", error_kind::connection},        // too large
        {"+OK\r\n-LOADING x\r\n", error_kind::transient},
        {"+OK\r\n-TRYAGAIN x\r\n", error_kind::transient},
        {"-ERR you said c4n4ry-Zx9-pw\r\n-ERR\r\n", error_kind::final},
        {"-c4n4ry-Zx9-pw\r\n-ERR\r\n", error_kind::final},
    };
    for (const auto& [words, expected] : table) {
        parrot p(words);
        auto [kind, text] = failure([&] { cenote::redis::connector(p.url()).open(); });
        EXPECT_EQ(kind, expected) << words << text;
        async_connector awaited(p.url());
        EXPECT_EQ(failure([&] { await(awaited.open()); }).first, expected) << words;
    }
}

// Connections after faults.

struct redis_dirt : testing::Test {
    support::gate between{server().port()};
    cenote::redis::connector via{url_of(between.port())};

    /// Runs the loop until a reply has reached the gate, which holds it.
    bool is_answered(asio::io_context& loop) {
        return eventually([&] { return loop.poll(), between.buffered() > 0; });
    }
};

/// The order of events of a known incident: a command is canceled after it was sent.
TEST_F(redis_dirt, of_a_canceled_command_is_never_leased) {
    redis_pool pool(via, support::patient(1));
    std::int64_t id = id_of(*pool.acquire());
    {
        auto lease = pool.acquire();
        lease->command("SET", "k", "mine");
        between.hold_replies();
        asio::io_context loop;
        asio::cancellation_signal cancel;
        auto done = asio::co_spawn(loop, lease->async_command("GET", "k"),
                                   asio::bind_cancellation_slot(cancel.slot(), asio::use_future));
        EXPECT_TRUE(is_answered(loop));
        asio::post(loop, [&] { cancel.emit(asio::cancellation_type::terminal); });
        loop.run();
        EXPECT_THROW(done.get(), boost::system::system_error);
        EXPECT_EQ(failure([&] { lease->command("PING"); }).first, error_kind::connection);
    }
    between.let_go();
    auto lease = pool.acquire();
    EXPECT_EQ(lease->command("ECHO", "yours").text(), "yours");
    EXPECT_NE(id_of(*lease), id);
}

TEST_F(redis_dirt, of_a_frame_that_is_destroyed_is_never_leased) {
    connection c = via.open();
    between.hold_replies();
    {
        asio::io_context loop;
        asio::co_spawn(loop, c.async_command("ECHO", "x"), [](auto, auto) {});
        EXPECT_TRUE(is_answered(loop));
    }
    EXPECT_EQ(via.before_release(c), verdict::discard);
    between.pass();
}

TEST_F(redis_dirt, of_a_timeout_is_never_leased) {
    connection c = via.open();
    connection d = via.open();
    c.set_timeout(30ms);
    d.set_timeout(30ms);
    between.hold_replies();
    EXPECT_EQ(failure([&] { c.command("ECHO", "x"); }).first, error_kind::timed_out);
    EXPECT_EQ(failure([&] { await(d.async_command("ECHO", "x")); }).first, error_kind::timed_out);
    between.let_go();
    EXPECT_EQ(via.before_release(c), verdict::discard);
    EXPECT_EQ(via.before_release(d), verdict::discard);
    EXPECT_FALSE(via.before_acquire(c));
}

/// All parts of an open share one time limit.
TEST_F(redis_dirt, of_a_silent_server_costs_no_more_than_the_time_limit) {
    between.accept_and_be_silent();
    cenote::redis::connector hurried(url_of(between.port(), "?connect_timeout=50ms"));
    async_connector awaited(url_of(between.port(), "?connect_timeout=50ms"));
    EXPECT_EQ(failure([&] { hurried.open(); }).first, error_kind::timed_out);
    EXPECT_EQ(failure([&] { await(awaited.open()); }).first, error_kind::timed_out);
}

/// A late reply to a command of the setup would shift all later replies.
TEST_F(redis_dirt, of_a_late_reset_or_probe_is_never_leased) {
    for (bool reset : {true, false}) {
        connection c = via.open();
        c.command("SELECT", 1);
        c.set_timeout(30ms);
        between.hold_replies();
        auto late = [&] { reset ? via.reset(c) : static_cast<void>(via.probe(c)); };
        EXPECT_EQ(failure(late).first, error_kind::timed_out);
        between.let_go();
        between.pass();
        EXPECT_EQ(via.before_release(c), verdict::discard);
        EXPECT_FALSE(via.before_acquire(c));
    }
}

TEST_F(redis_dirt, of_a_short_reply_is_an_error_wherever_it_ends) {
    redis_pool pool(via, support::patient(1));
    pool.acquire()->command("RPUSH", "list", "one", "two", "three");
    const std::size_t size = std::string("*3\r\n$3\r\none\r\n$3\r\ntwo\r\n$5\r\nthree\r\n").size();
    for (bool reset : {false, true})
        for (std::size_t i = 0; i < size; ++i) {
            auto lease = pool.acquire();
            between.cut_after(i,
                              reset ? support::gate::ending::reset : support::gate::ending::finish);
            auto whole = [&] { lease->command("LRANGE", "list", 0, 2); };
            EXPECT_EQ(failure(whole).first, error_kind::connection) << i;
            between.pass();
            lease.give_back();
            EXPECT_EQ(pool.acquire()->command("ECHO", std::to_string(i)).text(), std::to_string(i));
        }
    pool.acquire()->command("DEL", "list");
}

TEST_F(redis_dirt, of_unsolicited_bytes_is_never_leased) {
    connection c = via.open();
    EXPECT_TRUE(via.before_acquire(c));
    // Sent on the raw socket: a reply comes without a request of the connection.
    const std::string ping = "PING\r\n";
    ASSERT_EQ(::send(c.native_handle(), ping.data(), ping.size(), 0), 6);
    EXPECT_TRUE(eventually([&] { return !via.before_acquire(c); }));
    EXPECT_EQ(via.before_release(c), verdict::discard);
}

TEST_F(redis_dirt, of_a_server_that_closed_it_is_never_leased) {
    redis_pool pool(here(), support::patient(3));
    for (int i = 0; i < 3; ++i) {
        std::int64_t id = id_of(*pool.acquire());
        server().kill_backends();
        EXPECT_TRUE(eventually([] { return server().connections() == 0; }));
        auto lease = pool.acquire();
        EXPECT_EQ(lease->command("ECHO", "x").text(), "x");
        EXPECT_NE(id_of(*lease), id);
    }
}

TEST_F(redis_dirt, does_not_come_of_an_exception_of_the_borrower) {
    redis_pool pool(via, support::patient(1));
    std::int64_t id = id_of(*pool.acquire());
    EXPECT_THROW(pool.with([](connection& c) {
        c.command("SET", "k", 1);
        throw std::runtime_error("mine");
    }),
                 std::runtime_error);
    EXPECT_EQ(id_of(*pool.acquire()), id);
}

TEST_F(redis_dirt, does_not_come_of_slowness) {
    connection c = via.open();
    between.split();
    std::string text(500, 'x');
    EXPECT_EQ(c.command("ECHO", text).text(), text);
    EXPECT_EQ(await(c.async_command("ECHO", text)).text(), text);
    between.delay(5ms);
    EXPECT_EQ(c.command("ECHO", text).text(), text);
    EXPECT_EQ(via.before_release(c), verdict::keep);
}

// The server goes away and comes back.

TEST(redis_restart, costs_one_operation_per_connection_and_is_over_then) {
    support::redis_server there;
    // Only the restart may cost an operation, even on a slow machine.
    std::string url = url_of(there.port(), "?connect_timeout=2min&operation_timeout=2min");
    redis_pool pool(cenote::redis::connector(url), support::patient(4));
    constexpr unsigned workers = 8;
    std::atomic<bool> over{false};
    std::atomic<int> lost{0};
    std::atomic<int> served{0};
    auto work = [&] {
        while (!over) {
            try {
                auto lease = pool.acquire_for(4 * support::plenty);
                try {
                    std::string word = std::to_string(served);
                    EXPECT_EQ(lease->command("ECHO", word).text(), word);
                    ++served;
                } catch (const cenote::connection_error&) {
                    ++lost;
                }
            } catch (const std::exception& e) {
                ADD_FAILURE() << e.what();
            }
        }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < workers; ++i) threads.emplace_back(work);
    EXPECT_TRUE(eventually([&] { return served > 500 && pool.stats().total == 4; }));
    there.stop();
    // All threads wait, and the pool has tried to open connections in vain.
    EXPECT_TRUE(eventually(
        [&] { return pool.stats().waiting == workers && pool.stats().open_failed > 2; }));
    int lost_with_it = lost;
    int before = served;
    there.start();
    EXPECT_TRUE(eventually([&] { return served > before + 16; }));
    over = true;
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(lost, lost_with_it);
    EXPECT_LE(lost, 4);
}

}  // namespace
