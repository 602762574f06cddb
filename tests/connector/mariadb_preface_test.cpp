// Packets in front of the library's request, and their replies in front of its reply.
#include "connector/mariadb_preface.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cenote::mariadb::detail {
namespace {

using namespace std::string_literals;

const std::string yes = "\x07\0\0\x01\0\0\0\x02\0\0\0"s;
const std::string no = "\x11\0\0\x01\xff\x28\x04#42000nonsense"s;
const std::string behind = "what the library asked for";

std::string packets() { return packet_of(31, {}) + packet_of(3, "SET x"); }

/// What is left of these bytes if they come in pieces of this size.
std::string left_of(preface& p, const std::string& all, std::size_t piece) {
    std::string left;
    for (std::size_t at = 0; at < all.size() && !p.refused(); at += piece) {
        std::string part = all.substr(at, piece);
        std::vector<unsigned char> bytes(part.begin(), part.end());
        std::size_t rest = p.is_open() ? p.take_out(bytes) : bytes.size();
        left.append(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(rest));
    }
    return left;
}

TEST(mariadb_preface, is_packets) {
    EXPECT_EQ(packet_of(31, {}), "\x01\0\0\0\x1f"s);
    EXPECT_EQ(packet_of(3, "DO 0"), "\x05\0\0\0\x03"s + "DO 0");
    EXPECT_EQ(packet_of(3, std::string(70'000, 'x')).substr(0, 5), "\x71\x11\x01\0\x03"s);
}

TEST(mariadb_preface, is_sent_in_pieces) {
    preface p;
    EXPECT_TRUE(p.unsent().empty());
    const std::string all = packets();
    p.begin(all, 2);
    p.note_sent(3);
    EXPECT_EQ(p.unsent(), all.substr(3));
    p.note_sent(all.size() - 3);
    EXPECT_TRUE(p.unsent().empty());
}

TEST(mariadb_preface, takes_its_replies_out_of_pieces_of_any_size) {
    const std::string all = yes + yes + behind;
    for (std::size_t piece = 1; piece <= all.size(); ++piece) {
        preface p;
        p.begin({}, 2);
        EXPECT_EQ(left_of(p, all, piece), behind) << piece;
        EXPECT_FALSE(p.is_open());
        EXPECT_FALSE(p.refused());
    }
}

TEST(mariadb_preface, tells_why_it_was_refused) {
    const std::string all = yes + no + behind;
    for (std::size_t piece = 1; piece <= all.size(); ++piece) {
        preface p;
        p.begin({}, 2);
        left_of(p, all, piece);
        ASSERT_TRUE(p.refused()) << piece;
        EXPECT_TRUE(p.is_open());
        EXPECT_EQ(p.code(), 1064u);
        EXPECT_EQ(p.sqlstate(), "42000");
        EXPECT_EQ(p.text(), "nonsense");
    }
}

/// The last packet may fail: what follows is read. An earlier one may not.
TEST(mariadb_preface, goes_on_after_an_error_of_the_last) {
    const std::string all = yes + no + behind;
    for (std::size_t piece = 1; piece <= all.size(); ++piece) {
        preface p;
        p.begin({}, 2, true);
        EXPECT_FALSE(p.last_failed());
        EXPECT_EQ(left_of(p, all, piece), behind) << piece;
        EXPECT_FALSE(p.refused());
        EXPECT_FALSE(p.is_open());
        ASSERT_TRUE(p.last_failed());
        EXPECT_EQ(p.code(), 1064u);
        EXPECT_EQ(p.sqlstate(), "42000");
        EXPECT_EQ(p.text(), "nonsense");
        p.begin({}, 3, true);
        EXPECT_FALSE(p.last_failed());
        left_of(p, all, piece);
        EXPECT_TRUE(p.refused());
    }
}

TEST(mariadb_preface, refuses_malformed_replies) {
    for (const std::string& odd : {"\0\0\0\x01"s, "\x01\0\0\x01\xfe"s, "\x01\0\0\x01\x05"s,
                                   "\x01\0\0\x01\xff"s, "\x03\0\0\x01\xff\x28\x04"s}) {
        preface p;
        p.begin({}, 1);
        left_of(p, odd, 2);
        EXPECT_TRUE(p.refused());
        EXPECT_FALSE(p.text().find("password") != std::string::npos);
        EXPECT_EQ(p.sqlstate(), "");
    }
}

TEST(mariadb_preface, begins_again_after_a_long_reply) {
    preface p;
    p.begin({}, 1);
    std::string lengthy = "\xb8\x0b\0\x01\0"s + std::string(2999, 'x');
    EXPECT_EQ(left_of(p, lengthy + behind, 1000), behind);
    p.begin({}, 1);
    EXPECT_TRUE(p.is_open());
    EXPECT_EQ(left_of(p, yes, 100), "");
    EXPECT_FALSE(p.is_open());
}

}  // namespace
}  // namespace cenote::mariadb::detail
