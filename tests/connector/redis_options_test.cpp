// URLs of Redis, commands in the protocol's form, and conversions of replies.
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/redis.hpp"
#include "cenote/url.hpp"

namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace cenote::redis;
using mark = pipeline::mark;

std::string refusal(const std::string& url) {
    try {
        static_cast<void>(options::from_url(url));
    } catch (const cenote::invalid_url& e) {
        return e.what();
    }
    return "(accepted)";
}

TEST(redis_url, has_defaults) {
    options o = options::from_url("redis://");
    EXPECT_EQ(o.host, "127.0.0.1");
    EXPECT_EQ(o.port, 6379);
    EXPECT_EQ(o.user, "");
    EXPECT_TRUE(o.password.empty());
    EXPECT_EQ(o.database, 0);
    EXPECT_EQ(o.use_tls, options::protection::off);
    EXPECT_EQ(o.connect_timeout, 5s);
    EXPECT_EQ(o.operation_timeout, 30s);
    EXPECT_EQ(o.max_reply, std::size_t{64} << 20U);
}

TEST(redis_url, says_everything) {
    options o = options::from_url(
        "rediss://ann:p%40ss@redis.example:7000/3?tls_ca=/ca.pem&tls_cert=/c.pem&tls_key=/k.pem"
        "&tls_server_name=other.example&client_name=shop&connect_timeout=250ms"
        "&operation_timeout=2&max_reply=4096");
    EXPECT_EQ(o.host, "redis.example");
    EXPECT_EQ(o.port, 7000);
    EXPECT_EQ(o.user, "ann");
    EXPECT_EQ(o.password.reveal(), "p@ss");
    EXPECT_EQ(o.database, 3);
    EXPECT_EQ(o.use_tls, options::protection::on);
    EXPECT_EQ(o.tls.ca_file, "/ca.pem");
    EXPECT_EQ(o.tls.certificate_file, "/c.pem");
    EXPECT_EQ(o.tls.key_file, "/k.pem");
    EXPECT_EQ(o.tls.server_name, "other.example");
    EXPECT_EQ(o.client_name, "shop");
    EXPECT_EQ(o.connect_timeout, 250ms);
    EXPECT_EQ(o.operation_timeout, 2s);
    EXPECT_EQ(o.max_reply, 4096U);
}

TEST(redis_url, takes_a_socket_and_a_password_alone) {
    options o = options::from_url("redis://:pw@%2Ftmp%2Fredis.sock/1");
    EXPECT_EQ(o.host, "/tmp/redis.sock");
    EXPECT_EQ(o.password.reveal(), "pw");
    EXPECT_EQ(o.use_tls, options::protection::off);
}

TEST(redis_url, sends_nothing_in_clear_text_by_accident) {
    EXPECT_EQ(
        refusal("redis://redis.example"),
        "cenote: the URL would send everything to another machine in clear text, the password "
        "included; use rediss: for TLS, or tls=off to allow that");
    EXPECT_EQ(options::from_url("redis://redis.example?tls=off").use_tls, options::protection::off);
    EXPECT_EQ(options::from_url("redis://redis.example?tls=on").use_tls, options::protection::on);
    EXPECT_EQ(options::from_url("rediss://localhost").use_tls, options::protection::on);
}

TEST(redis_url, refuses_each_mistake_by_name) {
    const std::array<std::array<const char*, 2>, 19> mistakes{{
        {"http://localhost", "must begin with redis:// or rediss://"},
        {"redis:localhost", "has no // after its scheme"},
        {"redis://a.example,b.example?tls=off", "has more than one host"},
        {"redis://%2Ftmp%2Fs:6379", "has a port, but its host is a Unix socket"},
        {"redis://localhost/x", "has a path that is not the number of a database"},
        {"redis://localhost/-1", "has a path that is not the number of a database"},
        {"redis://localhost/1/2", "has a path that is not the number of a database"},
        {"redis://localhost/99999999999", "has a path that is not the number of a database"},
        {"redis://localhost:0", "has a port that is not a number from 1 to 65535"},
        {"rediss://localhost?tls=off", "has both rediss: and tls=off"},
        {"redis://localhost?tls=maybe", "parameter \"tls\" must be on or off"},
        {"redis://localhost?tls_ca=/x", "parameter \"tls_ca\" has no effect without TLS"},
        {"rediss://localhost?tls_key=/x", "parameter \"tls_key\" needs \"tls_cert\", too"},
        {"redis://localhost?client_name=a%20b",
         "parameter \"client_name\" has characters that are not allowed"},
        {"redis://localhost?connect_timeout=soon",
         "parameter \"connect_timeout\" must be a duration such as 250ms, 5s or 2min"},
        {"redis://localhost?operation_timeout=-1s",
         "parameter \"operation_timeout\" must be a duration such as 250ms, 5s or 2min"},
        {"redis://localhost?max_reply=1",
         "parameter \"max_reply\" must be a number from 1024 to 1099511627776"},
        {"redis://localhost?timeout=5", "parameter \"timeout\" is not supported"},
        {"redis://localhost?tls=off&tls=off", "parameter \"tls\" appears twice"},
    }};
    for (const auto& [url, why] : mistakes)
        EXPECT_EQ(refusal(url), std::string("cenote: the URL ") + why);
}

TEST(redis_url, never_tells_the_password) {
    for (const char* bad : {"redis://ann:c4n4ry@localhost/x", "redis://ann:c4n4ry@h?zz=1",
                            "redis://ann:c4n4ry@@h", "redis://ann:c4n4ry/@h", "redis://ann:c4n4ry"})
        EXPECT_EQ(refusal(bad).find("c4n4ry"), std::string::npos) << refusal(bad);
}

TEST(redis_options, are_checked) {
    auto with = [](auto&& change) {
        options o;
        change(o);
        connector made(o);
    };
    EXPECT_THROW(with([](options& o) { o.host = ""; }), std::invalid_argument);
    EXPECT_THROW(with([](options& o) { o.port = 0; }), std::invalid_argument);
    EXPECT_THROW(with([](options& o) { o.database = -1; }), std::invalid_argument);
    EXPECT_THROW(with([](options& o) { o.max_reply = 10; }), std::invalid_argument);
    EXPECT_THROW(with([](options& o) { o.client_name = "a b"; }), std::invalid_argument);
    EXPECT_NO_THROW(with([](options&) {}));
}

TEST(redis_pipeline, is_written_as_redis_reads_it) {
    pipeline p;
    p.add("SET", "key", "a\0b"s);
    EXPECT_EQ(p.wire(), "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$3\r\na\0b\r\n"s);
    p.clear();
    bytes octets{std::byte{0}, std::byte{255}};
    p.add("x", -5, std::numeric_limits<std::uint64_t>::max(), 0.1, "", octets);
    EXPECT_EQ(p.wire(),
              "*6\r\n$1\r\nx\r\n$2\r\n-5\r\n$20\r\n18446744073709551615\r\n"
              "$3\r\n0.1\r\n$0\r\n\r\n$2\r\n\0\377\r\n"s);
    EXPECT_EQ(p.size(), 1U);
}

TEST(redis_pipeline, takes_as_many_words_as_there_are) {
    std::vector<std::string> keys{"a", "b"};
    std::vector<argument> words{"DEL"};
    words.insert(words.end(), keys.begin(), keys.end());
    pipeline p;
    p.add_words(words);
    EXPECT_EQ(p.wire(), "*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n");
}

TEST(redis_pipeline, refuses_what_is_not_answered_once) {
    pipeline p;
    for (const char* name : {"SUBSCRIBE", "psubscribe", "SSubscribe", "UNSUBSCRIBE", "PUNSUBSCRIBE",
                             "SUNSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "REPLCONF", "quit", ""})
        EXPECT_THROW(p.add(name), std::invalid_argument) << name;
    EXPECT_THROW(p.add("HELLO", 3), std::invalid_argument);
    EXPECT_THROW(p.add("hello", "4"), std::invalid_argument);
    EXPECT_THROW(p.add("CLIENT", "reply", "OFF"), std::invalid_argument);
    EXPECT_THROW(p.add("SCRIPT", "DEBUG", "YES"), std::invalid_argument);
    EXPECT_THROW(p.add("GET", static_cast<const char*>(nullptr)), std::invalid_argument);
    EXPECT_THROW(p.add_words({}), std::invalid_argument);
    EXPECT_TRUE(p.empty());
    EXPECT_EQ(p.wire(), "");
}

TEST(redis_pipeline, knows_what_changes_a_session) {
    auto marked = [](auto... words) {
        pipeline p;
        p.add(words...);
        return p.marks().front();
    };
    EXPECT_EQ(marked("GET", "k"), mark::harmless);
    EXPECT_EQ(marked("zadd", "k", 1, "m"), mark::harmless);
    EXPECT_EQ(marked("APPEND"), mark::harmless);
    EXPECT_EQ(marked("ZUNIONSTORE"), mark::harmless);
    EXPECT_EQ(marked("SELECT", 1), mark::changes);
    EXPECT_EQ(marked("EVAL", "return 1", 0), mark::changes);
    EXPECT_EQ(marked("FCALL", "f", 0), mark::changes);
    EXPECT_EQ(marked("READONLY"), mark::changes);
    EXPECT_EQ(marked("SOME.MODULE"), mark::changes);
    EXPECT_EQ(marked("GETT"), mark::changes);
    EXPECT_EQ(marked("AUTH", "x"), mark::confidential);
    EXPECT_EQ(marked("HELLO", 2), mark::confidential);
    EXPECT_EQ(marked("WATCH", "k"), mark::watches);
    EXPECT_EQ(marked("MULTI"), mark::begins);
    EXPECT_EQ(marked("exec"), mark::ends);
    EXPECT_EQ(marked("CLIENT", "setname", "x"), mark::changes);
    EXPECT_EQ(marked("CLIENT", "NO-EVICT", "ON"), mark::no_evict);
    EXPECT_EQ(marked("CLIENT", "SETINFO", "LIB-NAME", "x"), mark::cannot_undo);
    EXPECT_EQ(marked("CLIENT"), mark::cannot_undo);
}

TEST(redis_reply, becomes_what_it_is) {
    reply number(std::int64_t{300});
    EXPECT_EQ(number.as<int>(), 300);
    EXPECT_EQ(number.as<double>(), 300.0);
    EXPECT_THROW(number.as<std::uint8_t>(), bad_reply);
    EXPECT_THROW(number.as<bool>(), bad_reply);
    EXPECT_THROW(number.as<std::string>(), bad_reply);
    EXPECT_TRUE(reply(std::int64_t{1}).as<bool>());
    reply text(std::string("-12"));
    EXPECT_EQ(text.as<long>(), -12);
    EXPECT_EQ(text.as<std::string_view>(), "-12");
    EXPECT_EQ(text.as<bytes>().size(), 3U);
    EXPECT_EQ(text.as<std::optional<int>>(), -12);
    EXPECT_THROW(reply(std::string("12 ")).as<int>(), bad_reply);
    EXPECT_EQ(reply(std::string("0.5")).as<double>(), 0.5);
    EXPECT_TRUE(std::isinf(reply(std::string("inf")).as<double>()));
    EXPECT_EQ(reply().as<std::optional<std::string>>(), std::nullopt);
    EXPECT_THROW(reply().as<std::string>(), bad_reply);
    reply list(reply::array{number, text});
    EXPECT_EQ(list.as<std::vector<int>>(), (std::vector<int>{300, -12}));
    EXPECT_EQ(list[1], text);
    EXPECT_THROW(list[2], std::out_of_range);
    EXPECT_THROW(list.integer(), bad_reply);
}

TEST(redis_reply, that_is_an_error_throws_it) {
    reply failed(reply::error{"WRONGTYPE Operation\x1b[2J against"});
    try {
        failed.text();
        ADD_FAILURE();
    } catch (const command_error& e) {
        EXPECT_EQ(e.word(), "WRONGTYPE");
        EXPECT_STREQ(e.what(), "cenote: Redis: WRONGTYPE Operation?[2J against");
        EXPECT_EQ(e.kind(), cenote::error_kind::statement);
    }
    EXPECT_EQ(command_error("no word here").word(), "ERR");
    EXPECT_STREQ(command_error("ERR c4n4ry", true).what(), "cenote: Redis: ERR");
}

}  // namespace
