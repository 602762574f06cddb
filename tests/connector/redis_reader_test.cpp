// The parser of replies: what it accepts, in pieces of any size, and what it refuses.
#include "connector/redis_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/server_error.hpp"

namespace {

using cenote::redis::reply;
using cenote::redis::detail::reply_reader;
using array = reply::array;

constexpr std::size_t enough = std::size_t{1} << 20U;

reply text(std::string t) { return reply(std::move(t)); }
reply number(std::int64_t n) { return reply(n); }

/// All replies in these bytes, which must end with the last reply.
std::vector<reply> read_all(std::string_view bytes, std::size_t piece = enough) {
    reply_reader reader(enough);
    std::vector<reply> all;
    while (!bytes.empty()) {
        std::string_view some = bytes.substr(0, piece);
        bytes.remove_prefix(some.size());
        while (!some.empty()) {
            some.remove_prefix(reader.feed(some));
            if (reader.complete()) all.push_back(reader.take());
        }
    }
    EXPECT_TRUE(reader.fresh());
    return all;
}

std::string refusal(std::string_view bytes, std::size_t most = enough) {
    reply_reader reader(most);
    try {
        while (!bytes.empty()) {
            bytes.remove_prefix(reader.feed(bytes));
            if (reader.complete()) static_cast<void>(reader.take());
        }
    } catch (const cenote::connection_error& e) {
        EXPECT_EQ(e.kind(), cenote::error_kind::connection);
        EXPECT_THROW(reader.feed("+OK\r\n"), cenote::connection_error);  // from now on
        return e.what();
    }
    return "";
}

TEST(redis_reader, takes_each_kind) {
    EXPECT_EQ(read_all("+OK\r\n"), (array{text("OK")}));
    EXPECT_EQ(read_all("+\r\n"), (array{text("")}));
    EXPECT_EQ(read_all("-ERR no\r\n"), (array{reply(reply::error{"ERR no"})}));
    EXPECT_EQ(read_all(":0\r\n:-1\r\n"), (array{number(0), number(-1)}));
    EXPECT_EQ(read_all(":9223372036854775807\r\n:-9223372036854775808\r\n"),
              (array{number(INT64_MAX), number(INT64_MIN)}));
    EXPECT_EQ(read_all("$-1\r\n*-1\r\n"), (array{reply(), reply()}));
    EXPECT_EQ(read_all("$0\r\n\r\n"), (array{text("")}));
    EXPECT_EQ(read_all(std::string_view("$4\r\n\r\n\0x\r\n", 10)),
              (array{text(std::string("\r\n\0x", 4))}));
    EXPECT_EQ(read_all("*0\r\n"), (array{reply(array())}));
    EXPECT_EQ(read_all("*3\r\n:1\r\n*2\r\n$-1\r\n-E x\r\n*0\r\n"),
              (array{reply(array{number(1), reply(array{reply(), reply(reply::error{"E x"})}),
                                 reply(array())})}));
}

TEST(redis_reader, accepts_pieces_of_any_size) {
    std::string bytes;
    bytes += "*2\r\n$5\r\nhello\r\n*3\r\n:42\r\n+fine\r\n-ERR x y\r\n";
    bytes += "$-1\r\n+OK\r\n$12\r\nab\r\ncd\r\n\r\n\r\n\r\n*0\r\n";
    std::vector<reply> whole = read_all(bytes);
    EXPECT_EQ(whole.size(), 5U);
    for (std::size_t piece = 1; piece < bytes.size(); ++piece)
        EXPECT_EQ(read_all(bytes, piece), whole) << piece;
}

TEST(redis_reader, refuses_malformed_replies) {
    for (const char* bad : {"x",
                            "\r\n",
                            "HTTP/1.1 400 Bad Request\r\n",
                            "%1\r\n",
                            ">2\r\n",
                            "_\r\n",
                            "#t\r\n",
                            ":\r\n",
                            ":1x\r\n",
                            ":+1\r\n",
                            ":01\r\n",
                            ":-0\r\n",
                            ": 1\r\n",
                            ":9223372036854775808\r\n",
                            ":-\r\n",
                            ":123456789012345678901",
                            "$-2\r\n",
                            "$x\r\n",
                            "$\r\n",
                            "*-2\r\n",
                            "*1 \r\n",
                            "$3\r\nabcd\r\n",
                            "$3\r\nabc\n\n",
                            "$3\r\nabc\r\r",
                            "+OK\n",
                            "+O\rK\r\n",
                            "+OK\r\r\n",
                            "*1\r\n\r\n",
                            "$00\r\n"})
        EXPECT_NE(refusal(bad), "") << bad;
}

TEST(redis_reader, never_quotes_what_it_was_sent) {
    EXPECT_EQ(refusal("secret\r\n"),
              "cenote: Redis: the server sent a malformed reply: it begins with none of + - : $ *");
}

/// A known flaw of hiredis: 16 bytes must not cause an allocation of gigabytes.
TEST(redis_reader, believes_no_length_that_is_too_large) {
    for (const char* bad : {"$1001\r\n", "$1048576\r\n", "$9223372036854775807\r\n",
                            "*1073741823\r\n", "*2147483647\r\n", "*4294967297\r\n",
                            "*9223372036854775807\r\n", "*30000\r\n", "*2\r\n$960\r\n"})
        EXPECT_NE(refusal(bad, 1000), "") << bad;
    EXPECT_NE(refusal("*2\r\n$500\r\n" + std::string(500, 'x') + "\r\n$500\r\n", 1000), "");
    EXPECT_EQ(refusal("*2\r\n$500\r\n" + std::string(500, 'x') + "\r\n$3\r\nabc\r\n", 1000), "");
}

TEST(redis_reader, counts_each_reply_by_itself) {
    std::string one = "$500\r\n" + std::string(500, 'x') + "\r\n";
    EXPECT_EQ(refusal(one + one + one + one, 1000), "");
}

/// Four bytes of the protocol take forty bytes of memory.
TEST(redis_reader, limits_memory_and_not_bytes) {
    std::string many = "*100\r\n";
    for (int i = 0; i < 100; ++i) many += ":1\r\n";
    EXPECT_NE(refusal(many, 1000), "");
    EXPECT_EQ(refusal(many, 101 * sizeof(reply)), "");
}

TEST(redis_reader, refuses_lines_that_do_not_end) {
    EXPECT_EQ(refusal("+" + std::string(reply_reader::max_line, 'x') + "\r\n"), "");
    EXPECT_NE(refusal("+" + std::string(reply_reader::max_line + 1, 'x')), "");
    EXPECT_NE(refusal("+" + std::string(2000, 'x'), 1000), "");
}

TEST(redis_reader, nests_so_deep_and_no_deeper) {
    auto nested = [](std::size_t depth) {
        std::string bytes;
        for (std::size_t i = 0; i < depth; ++i) bytes += "*1\r\n";
        return bytes + ":1\r\n";
    };
    EXPECT_EQ(read_all(nested(reply_reader::max_depth)).size(), 1U);
    EXPECT_NE(refusal(nested(reply_reader::max_depth + 1)), "");
}

}  // namespace
