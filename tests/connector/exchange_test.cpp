// Exchanges: which of them leave a connection usable.
#include "connector/exchange.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "support/clock.hpp"

namespace cenote::connector_detail {
namespace {

using namespace std::chrono_literals;

TEST(exchange, leaves_a_connection_clean_only_if_it_was_completed) {
    condition of;
    EXPECT_EQ(of.judge(), verdict::keep);
    {
        exchange one(of);
        EXPECT_EQ(of.judge(), verdict::discard);
        one.complete();
    }
    EXPECT_EQ(of.judge(), verdict::keep);
    {
        exchange left(of);
    }
    EXPECT_EQ(of.judge(), verdict::discard);
    EXPECT_THROW(exchange{of}, connection_error);
}

TEST(exchange, is_one_at_a_time) {
    condition of;
    exchange one(of);
    EXPECT_THROW(exchange{of}, std::logic_error);
    one.complete();
    exchange{of}.complete();
}

TEST(exchange, is_moved_without_an_end) {
    condition of;
    std::optional<exchange> one(std::in_place, of);
    exchange other = std::move(*one);
    one.reset();
    EXPECT_FALSE(of.broken());
    other.complete();
    EXPECT_TRUE(of.idle());
}

TEST(exchange, does_not_repair_a_broken_connection) {
    condition of;
    exchange one(of);
    of.note_broken(error_kind::suspect);
    one.complete();
    EXPECT_EQ(of.judge(), verdict::suspect);
}

TEST(condition, is_known_to_be_quiet_for_a_moment) {
    support::stopped_clock time;
    condition of;
    EXPECT_FALSE(of.still_quiet());
    of.note_quiet();
    EXPECT_TRUE(of.still_quiet());
    time.advance(9us);
    EXPECT_TRUE(of.still_quiet());
    time.advance(1us);
    EXPECT_FALSE(of.still_quiet());
}

TEST(condition, is_not_known_to_be_quiet_after_an_exchange_or_once_it_has_moved) {
    support::stopped_clock time;
    condition of;
    of.note_quiet();
    exchange{of}.complete();
    EXPECT_FALSE(of.still_quiet());
    of.note_quiet();
    condition moved = std::move(of);
    EXPECT_FALSE(of.still_quiet());
    EXPECT_FALSE(moved.still_quiet());
    of = std::move(moved);
    EXPECT_FALSE(of.still_quiet());
    of.note_quiet();
    of.note_broken();
    EXPECT_FALSE(of.still_quiet());
}

TEST(condition, remembers_a_change_until_it_is_reset) {
    condition of;
    of.note_changed();
    EXPECT_EQ(of.judge(), verdict::reset);
    of.note_reset();
    EXPECT_EQ(of.judge(), verdict::keep);
}

TEST(condition, moves_and_leaves_nothing_usable) {
    condition of;
    of.note_changed();
    condition to = std::move(of);
    EXPECT_EQ(to.judge(), verdict::reset);
    EXPECT_TRUE(of.broken());
}

}  // namespace
}  // namespace cenote::connector_detail
