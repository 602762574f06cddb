// The parser of responses: valid ones in pieces of any size, and invalid ones.
#include "connector/http_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/server_error.hpp"

namespace {

using cenote::connection_error;
using cenote::http::response;
using cenote::http::detail::response_reader;
using testing::ElementsAre;
using testing::HasSubstr;

struct how {
    bool to_head = false;
    bool ends = false;  // the stream ends afterwards
    std::optional<std::uint64_t> max_body = 1000;
    std::size_t max_header = 1024;
};

struct outcome {
    std::string refused;  // why
    bool done = false;
    bool reusable = false;
    response answer;
};

bool operator==(const outcome& a, const outcome& b) {
    if (!a.refused.empty() || !b.refused.empty()) return a.refused.empty() == b.refused.empty();
    return a.done == b.done && a.reusable == b.reusable && a.answer.status == b.answer.status &&
           a.answer.headers == b.answer.headers && a.answer.body == b.answer.body;
}

void feed(response_reader& reader, std::string_view piece) {
    while (!piece.empty()) {
        std::span<char> room = reader.room();
        std::size_t size = std::min(room.size(), piece.size());
        std::copy_n(piece.begin(), size, room.begin());
        reader.received(size);
        piece.remove_prefix(size);
    }
}

outcome read(const std::vector<std::string_view>& pieces, how h) {
    response_reader reader(h.max_header);
    reader.begin(h.to_head, h.max_body);
    outcome o;
    try {
        for (std::string_view piece : pieces) feed(reader, piece);
        if (h.ends) reader.ended();
    } catch (const connection_error& e) {
        o.refused = e.what();
    }
    o.done = reader.done();
    o.reusable = reader.reusable();
    o.answer = reader.take_response();
    return o;
}

/// In one piece, in two pieces split at every byte, and byte by byte: the outcome is the same.
outcome read(std::string_view all, how h = {}) {
    outcome whole = read(std::vector{all}, h);
    for (std::size_t i = 1; i < all.size(); ++i) {
        outcome cut = read({all.substr(0, i), all.substr(i)}, h);
        EXPECT_TRUE(cut == whole) << "cut at " << i << ": " << whole.refused << cut.refused;
    }
    std::vector<std::string_view> bytes;
    for (std::size_t i = 0; i < all.size(); ++i) bytes.push_back(all.substr(i, 1));
    outcome single = read(bytes, h);
    EXPECT_TRUE(single == whole) << "byte by byte: " << whole.refused << single.refused;
    return whole;
}

TEST(http_reader, reads_status_fields_and_a_body_of_known_length) {
    outcome o =
        read("HTTP/1.1 200 All fine\r\nContent-Length: 5\r\nX-A: one\r\nx-a:two \r\n\r\nhello");
    EXPECT_TRUE(o.done);
    EXPECT_TRUE(o.reusable);
    EXPECT_EQ(o.answer.status, 200);
    EXPECT_EQ(o.answer.reason, "All fine");
    EXPECT_EQ(o.answer.body, "hello");
    EXPECT_THAT(o.answer.headers.all("X-a"), ElementsAre("one", "two"));
    EXPECT_EQ(o.answer.headers.find("content-length"), "5");
    EXPECT_FALSE(o.answer.headers.find("nothing"));
}

TEST(http_reader, reads_chunks) {
    outcome o = read(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\nA;name=\"va;lue\"\r\n, world!!!\r\n0\r\nX-Trailer: ignored\r\n\r\n");
    EXPECT_TRUE(o.done && o.reusable) << o.refused;
    EXPECT_EQ(o.answer.body, "hello, world!!!");
    EXPECT_FALSE(o.answer.headers.contains("X-Trailer"));
}

TEST(http_reader, reads_no_chunk_at_all) {
    outcome o = read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    EXPECT_TRUE(o.done && o.reusable) << o.refused;
    EXPECT_EQ(o.answer.body, "");
}

TEST(http_reader, reads_until_the_end_if_there_is_no_other_and_then_it_was_the_last) {
    outcome o = read("HTTP/1.1 200 OK\r\n\r\nall of it", {.ends = true});
    EXPECT_TRUE(o.done) << o.refused;
    EXPECT_FALSE(o.reusable);
    EXPECT_EQ(o.answer.body, "all of it");
    EXPECT_FALSE(read("HTTP/1.1 200 OK\r\n\r\nall of it").done);
}

TEST(http_reader, expects_no_body_where_there_is_none) {
    for (const char* none : {"204 No Content", "304 Not Modified"}) {
        std::string answer = std::string("HTTP/1.1 ") + none + "\r\nContent-Length: 5\r\n\r\n";
        outcome o = read(answer);
        EXPECT_TRUE(o.done && o.reusable) << none << o.refused;
    }
    how head{.to_head = true};
    EXPECT_TRUE(read("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n", head).reusable);
    EXPECT_TRUE(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", head).reusable);
    EXPECT_TRUE(read("HTTP/1.1 200 OK\r\n\r\n", head).reusable);
}

TEST(http_reader, skips_what_comes_before_the_answer) {
    outcome o = read(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
    EXPECT_TRUE(o.done && o.reusable) << o.refused;
    EXPECT_EQ(o.answer.status, 201);
    EXPECT_FALSE(o.answer.headers.contains("Link"));
    EXPECT_NE(read("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n").refused, "");
    EXPECT_NE(read("HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n").refused, "");
}

TEST(http_reader, handles_the_end_of_the_stream) {
    auto reusable = [](const std::string& lines) {
        return read("HTTP/1." + lines + "Content-Length: 0\r\n\r\n").reusable;
    };
    EXPECT_TRUE(reusable("1 200 OK\r\n"));
    EXPECT_FALSE(reusable("1 200 OK\r\nConnection: close\r\n"));
    EXPECT_FALSE(reusable("1 200 OK\r\nConnection: x, CLOSE\r\n"));
    EXPECT_FALSE(reusable("0 200 OK\r\n"));
    EXPECT_TRUE(reusable("0 200 OK\r\nConnection: keep-alive\r\n"));
}

TEST(http_reader, does_not_reuse_a_connection_with_chunks_in_http_1_0) {
    outcome o = read(
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
        "1\r\nx\r\n0\r\n\r\n");
    EXPECT_TRUE(o.done) << o.refused;
    EXPECT_FALSE(o.reusable);
}

TEST(http_reader, notices_what_comes_after_the_answer) {
    outcome o = read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n");
    EXPECT_TRUE(o.done);
    EXPECT_FALSE(o.reusable);
    EXPECT_EQ(o.answer.body, "ok");
    EXPECT_FALSE(read("HTTP/1.1 204 No\r\n\r\nx").reusable);
    EXPECT_FALSE(
        read("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", {.to_head = true}).reusable);
    EXPECT_FALSE(
        read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\r\n").reusable);
}

TEST(http_reader, refuses_doubt_about_where_an_answer_ends) {
    auto refused = [](const std::string& lines) {
        outcome o = read("HTTP/1.1 200 OK\r\n" + lines + "\r\n5\r\nhello\r\n0\r\n\r\n");
        return !o.refused.empty() && !o.reusable;
    };
    for (const char* lines :
         {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
          "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
          "Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
          "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, gzip\r\n",
          "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
          "Transfer-Encoding: \vchunked\r\n", "Transfer-Encoding : chunked\r\n",
          "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 6\r\n",
          "Content-Length: -5\r\n", "Content-Length: +5\r\n", "Content-Length: 0x5\r\n",
          "Content-Length: 5 5\r\n", "Content-Length: \r\n",
          "Content-Length: 18446744073709551616\r\n", "Content-Length : 5\r\n"})
        EXPECT_TRUE(refused(lines)) << lines;
}

TEST(http_reader, refuses_malformed_answers) {
    for (const char* what :
         {"+OK redis\r\n", "SSH-2.0-x\r\n", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.7 200 OK\r\n\r\n",
          "http/1.1 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
          "HTTP/1.1 abc OK\r\n\r\n", "HTTP/1.1 200 OK\r\n Folded: first\r\n\r\n",
          "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
          "HTTP/1.1 200 OK\r\na\rb: c\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n\r\n\r\n"})
        EXPECT_NE(read(what).refused, "") << what;
    std::string zero("HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", 27);
    EXPECT_NE(read(zero).refused, "");
}

TEST(http_reader, refuses_malformed_chunks) {
    for (const char* chunks :
         {"x\r\n\r\n", "-1\r\n\r\n\r\n", "5\r\nhelloXX0\r\n\r\n", "5\nhello\r\n0\r\n\r\n",
          "FFFFFFFFFFFFFFFFF\r\nx\r\n", " 5\r\nhello\r\n0\r\n\r\n", "5;=\r\nhello\r\n0\r\n\r\n",
          "0\r\nContent-Length: 3\r\n\r\n", "0\r\nno colon\r\n\r\n"})
        EXPECT_NE(
            read(std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") + chunks)
                .refused,
            "")
            << chunks;
}

TEST(http_reader, refuses_heads_that_are_too_long) {
    std::string line = "X-Filler: " + std::string(88, 'x') + "\r\n";
    std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n";
    std::string fits = head;
    while (fits.size() + line.size() + 2 <= 1024) fits += line;
    std::string too_long = fits + line + "\r\n";
    EXPECT_TRUE(read(fits + "\r\n").reusable);
    EXPECT_THAT(read(too_long).refused, HasSubstr("max_header"));
    // Line by line; Beast alone would not count these.
    std::vector<std::string_view> lines = {head};
    for (int i = 0; i < 100; ++i) lines.push_back(line);
    EXPECT_THAT(read(lines, {}).refused, HasSubstr("max_header"));
    // Informational responses without end.
    std::vector<std::string_view> hints(100, "HTTP/1.1 100 Continue\r\n\r\n");
    EXPECT_THAT(read(hints, {}).refused, HasSubstr("max_header"));
}

TEST(http_reader, refuses_lines_between_chunks_that_are_too_long) {
    std::string begun = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1";
    std::string end = "\r\nx\r\n0\r\n\r\n";
    EXPECT_TRUE(read(begun + ";a=" + std::string(1000, 'x') + end).reusable);
    EXPECT_NE(read(begun + ";a=" + std::string(1100, 'x') + end).refused, "");
    std::string trailer = "\r\nx\r\n0\r\nX: " + std::string(1100, 'x') + "\r\n\r\n";
    EXPECT_NE(read(begun + trailer).refused, "");
}

TEST(http_reader, refuses_bodies_that_are_too_long) {
    std::string body(1001, 'x');
    how h{.ends = true};
    EXPECT_THAT(read("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n").refused,
                HasSubstr("max_body"));
    EXPECT_THAT(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + body +
                     "\r\n0\r\n\r\n")
                    .refused,
                HasSubstr("max_body"));
    EXPECT_THAT(read("HTTP/1.1 200 OK\r\n\r\n" + body, h).refused, HasSubstr("max_body"));
    body.pop_back();
    EXPECT_TRUE(read("HTTP/1.1 200 OK\r\n\r\n" + body, h).done);
    EXPECT_TRUE(read("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + body).reusable);
}

TEST(http_reader, refuses_an_end_that_comes_too_early) {
    std::string all = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    std::string chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    for (const std::string& each : {all, chunks}) {
        for (std::size_t i = 0; i < each.size(); ++i)
            EXPECT_NE(
                read(std::vector{std::string_view(each).substr(0, i)}, {.ends = true}).refused, "")
                << i;
        EXPECT_TRUE(read(each, {.ends = true}).reusable);
    }
}

TEST(http_reader, hands_out_the_body_in_pieces) {
    response_reader reader(1024);
    reader.begin(false, std::nullopt);
    feed(reader, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123");
    response head = reader.take_head();
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.body, "");
    EXPECT_EQ(reader.take_body(), "0123");
    EXPECT_FALSE(reader.has_body());
    feed(reader, "456789");
    char three[3];
    EXPECT_EQ(reader.take_body(three), 3U);
    EXPECT_EQ(std::string(three, 3), "456");
    EXPECT_TRUE(reader.has_body());
    EXPECT_EQ(reader.take_body(), "789");
    EXPECT_TRUE(reader.done() && reader.reusable());
    // The reader reads the next response, too.
    reader.begin(false, std::nullopt);
    feed(reader, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    EXPECT_EQ(reader.take_response().status, 404);
    EXPECT_TRUE(reader.reusable());
}

TEST(http_reader, reads_what_is_larger_than_its_buffer) {
    response_reader reader(std::size_t{1} << 20);
    std::string body(3'000'000, 'b');
    std::string fields;
    for (int i = 0; i < 5000; ++i) fields += "X-Field-" + std::to_string(i) + ": some value\r\n";
    for (int round = 0; round < 2; ++round) {
        reader.begin(false, std::nullopt);
        feed(reader, "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n" + fields + "\r\n" + body);
        EXPECT_TRUE(reader.reusable());
        response all = reader.take_response();
        EXPECT_EQ(all.body, body);
        EXPECT_EQ(all.headers.size(), 5001U);
    }
}

}  // namespace
