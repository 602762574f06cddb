// Traceparents: which are read, and how they are written.
#include "cenote/trace_context.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

using cenote::trace_context;

namespace {

constexpr std::string_view usual = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

}  // namespace

TEST(trace_context, reads_a_traceparent) {
    auto it = trace_context::parse(usual);
    ASSERT_TRUE(it);
    EXPECT_TRUE(*it);
    EXPECT_TRUE(it->sampled());
    EXPECT_EQ(it->trace_id.front(), 0x4b);
    EXPECT_EQ(it->trace_id.back(), 0x36);
    EXPECT_EQ(it->span_id[1], 0xf0);
    EXPECT_EQ(it->flags, 1);
    EXPECT_EQ(it->traceparent(), usual);
    auto quiet = trace_context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
    ASSERT_TRUE(quiet);
    EXPECT_FALSE(quiet->sampled());
}

TEST(trace_context, writes_what_it_reads) {
    std::mt19937 random(7);
    for (int i = 0; i < 1000; ++i) {
        trace_context made;
        for (auto& byte : made.trace_id) byte = static_cast<std::uint8_t>(random());
        for (auto& byte : made.span_id) byte = static_cast<std::uint8_t>(random());
        made.flags = static_cast<std::uint8_t>(random());
        std::string text = made.traceparent();
        EXPECT_EQ(text.size(), 55U);
        EXPECT_EQ(trace_context::parse(text), made) << text;
    }
}

TEST(trace_context, refuses_what_the_standard_calls_invalid) {
    for (std::string_view bad : {
             "",
             "00",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
             " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0A",
             "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b'-01",
             "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
             "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
             "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.later",
         })
        EXPECT_EQ(trace_context::parse(bad), std::nullopt) << bad;
}

/// Each character of a traceparent counts.
TEST(trace_context, refuses_a_wrong_character_anywhere) {
    for (std::size_t i = 0; i < usual.size(); ++i)
        for (char wrong : {'\0', '\n', '*', '\'', 'G', 'F', '/', ':', '`', 'g', '\x7f', '\xff'}) {
            std::string bad(usual);
            bad[i] = wrong;
            EXPECT_EQ(trace_context::parse(bad), std::nullopt) << bad;
        }
}

TEST(trace_context, reads_later_versions_as_far_as_it_knows_them) {
    auto it = trace_context::parse("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff-later");
    ASSERT_TRUE(it);
    EXPECT_EQ(it->traceparent(), usual);
    EXPECT_EQ(trace_context::parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), it);
}

TEST(trace_context, without_a_span_is_no_text) {
    trace_context none;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.traceparent(), "");
    EXPECT_EQ(none.sql_comment(), "");
    none.trace_id.back() = 1;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.sql_comment(), "");
    none.span_id.back() = 1;
    EXPECT_TRUE(none);
    EXPECT_EQ(none.traceparent(), "00-00000000000000000000000000000001-0000000000000001-00");
}

TEST(trace_context, is_a_comment_for_sql) {
    EXPECT_EQ(trace_context::parse(usual)->sql_comment(),
              "/*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/");
    trace_context worst;
    worst.trace_id.fill('*');
    worst.span_id.fill('\'');
    EXPECT_EQ(worst.sql_comment(),
              "/*traceparent='00-2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a-2727272727272727-00'*/");
}
