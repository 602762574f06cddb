// Subscriptions to channels of Redis.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "cenote/redis_subscribe.hpp"
#include "connector/listening_suite.hpp"
#include "connector/redis_fixture.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// Otherwise the thread sanitizer ends a child process that starts a thread. It expects this name.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif
#endif

namespace listening {
namespace {

using cenote::redis::async_psubscribe;
using cenote::redis::async_subscribe;
using cenote::redis::psubscribe;
using cenote::redis::subscribe;
using cenote::redis::subscribe_options;

cenote::redis::connector via(std::uint16_t port) {
    return cenote::redis::connector(redis_fixture::url_of(port, support::patiently("")));
}

subscribe_options these(const listen_options& how) {
    return {.probe_after = how.probe_after, .reply_timeout = how.reply_timeout};
}

class redis_place {
public:
    static constexpr bool close_is_noticed = false;

    explicit redis_place(std::uint16_t port = redis_fixture::server().port(), std::size_t max = 2)
        : port_(port), pool_(via(port), support::patient(max)) {}

    static support::redis_server& server() { return redis_fixture::server(); }
    static std::uint16_t port() { return server().port(); }

    notifications stream(const channel_list& to, listen_options how) {
        return subscribe({via(port_), support::patient(1)}, to, these(how));
    }
    asio::awaitable<notifications> async_stream(channel_list to, listen_options how) {
        return async_subscribe({via(port_), support::patient(1)}, to, these(how));
    }
    notifications stream_within(const channel_list& to, listen_options how) {
        return subscribe(pool_, to, these(how));
    }
    asio::awaitable<notifications> async_stream_within(channel_list to, listen_options how) {
        return async_subscribe(pool_, to, these(how));
    }

    static void send(const std::string& channel, const std::string& payload) {
        via(port()).open().command("PUBLISH", channel, payload);
    }
    static void send_many(const std::string& channel, int count) {
        via(port()).open().command("EVAL",
                                   "for i = 1, ARGV[1] do redis.call('PUBLISH', KEYS[1], i) end", 1,
                                   channel, count);
    }
    static void kill() { server().execute_as_admin({"client", "kill", "type", "pubsub"}); }
    void close() { pool_.close(); }
    std::size_t leased() const { return pool_.stats().leased; }
    void expect_clean() { EXPECT_EQ(pool_.acquire()->command("ECHO", "clean").text(), "clean"); }
    static std::vector<std::string> payloads() {
        std::string all;
        for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
        return {all, "\r\n", std::string(1 << 20, '\0')};
    }

private:
    std::uint16_t port_;
    cenote::pool<cenote::redis::connection> pool_;
};

using kinds = testing::Types<kind<redis_place, blocking>, kind<redis_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(redis, any_stream, kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(redis, any_canceled_stream, testing::Types<redis_place>);

notification matched(std::string pattern, std::string channel, std::string payload) {
    notification n = heard(std::move(channel), std::move(payload));
    n.pattern = std::move(pattern);
    return n;
}

TEST(redis_listen, brings_what_matches_patterns) {
    support::stopped_clock no_time_passes;  // the time limits are the default ones
    redis_place at;
    for (bool is_awaited : {false, true}) {
        channel_list patterns{"news.*", "*.local"};
        notifications all = is_awaited ? support::await(async_psubscribe(via(at.port()), patterns))
                                       : psubscribe(via(at.port()), patterns);
        at.send("news.world", "one");
        at.send("other", "two");
        at.send("news.local", "three");
        EXPECT_EQ(all.next(), matched("news.*", "news.world", "one"));
        std::vector<std::optional<notification>> both{all.next(), all.next()};  // in any order
        EXPECT_NE(std::ranges::find(both, matched("news.*", "news.local", "three")), both.end());
        EXPECT_NE(std::ranges::find(both, matched("*.local", "news.local", "three")), both.end());
        EXPECT_EQ(all.control().name(), "redis-listen");
        at.kill();
        EXPECT_EQ(all.next(), gap);
        at.send("news.again", "four");
        EXPECT_EQ(all.next(), matched("news.*", "news.again", "four"));
    }
}

TEST(redis_listen, takes_names_with_any_bytes) {
    redis_place at;
    std::string name("a b\r\n\0c", 7);
    notifications all = subscribe({via(at.port()), support::patient(1)}, name, these(patiently));
    at.send(name, "one");
    EXPECT_EQ(all.next(), heard(name, "one"));
    EXPECT_THROW(static_cast<void>(subscribe(via(at.port()), std::vector<std::string>())),
                 std::invalid_argument);
}

TEST(redis_listen, over_tls_brings_many_in_order) {
    std::string port = std::to_string(redis_fixture::server().tls_port());
    cenote::redis::connector tls(
        "rediss://:" + std::string(support::canary_password) + "@127.0.0.1:" + port +
        support::patiently("tls_ca=" + redis_fixture::server().authority().string()));
    notifications all = subscribe({tls, support::patient(1)}, "news", these(patiently));
    redis_place::send_many("news", 20'000);
    for (int i = 1; i <= 20'000; ++i)
        ASSERT_EQ(support::await(all.async_next()), heard("news", std::to_string(i)));
}

TEST(redis_listen, throws_what_the_server_refuses) {
    redis_fixture::server().execute_as_admin(
        {"acl", "setuser", "deaf", "on", ">deaf", "+@all", "resetchannels", "&allowed"});
    cenote::redis::connector to("redis://deaf:deaf@127.0.0.1:" +
                                std::to_string(redis_place::port()) + support::patiently(""));
    cenote::pool<cenote::redis::connection> pool(to, support::patient(1));
    EXPECT_THROW(static_cast<void>(subscribe(pool, {"allowed", "forbidden"}, these(patiently))),
                 cenote::redis::command_error);
    EXPECT_EQ(pool.stats().leased, 0U);
    notifications all = subscribe(pool, "allowed", these(patiently));
    redis_place::send("allowed", "one");
    EXPECT_EQ(all.next(), heard("allowed", "one"));
}

/// A reader that is too slow loses its connection, and is told.
TEST(redis_listen, tells_a_slow_reader_what_it_has_lost) {
    support::redis_server there{{.settings = "client-output-buffer-limit pubsub 1mb 1mb 1\n"}};
    notifications all =
        subscribe({via(there.port()), support::patient(1)}, "news", these(patiently));
    auto sender = via(there.port()).open();
    std::string large(1 << 20, 'x');
    for (int i = 0; i < 20; ++i) sender.command("PUBLISH", "news", large);
    int came = 0;
    std::optional<notification> one = all.next();
    for (; one && !one->missed; one = all.next()) ++came;
    EXPECT_EQ(one, gap);
    EXPECT_LT(came, 20);
    sender.command("PUBLISH", "news", "small");
    EXPECT_EQ(all.next(), heard("news", "small"));
}

}  // namespace
}  // namespace listening
