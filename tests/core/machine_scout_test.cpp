// Opens that hang, and the scouts that are sent to see whether the other side is back.
#include <vector>

#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

/// Without jitter or doubling: another one is tried every 200 ms.
constexpr backoff even_spacing{.first = 200ms, .cap_waiting = 200ms, .cap_idle = 200ms};

options with_lanes(std::size_t lanes) {
    return {.max = 20, .open_timeout = 60s, .opening_max = lanes, .backoff = even_spacing};
}

/// A pool that has been opened once, in `took`, and lost it again.
struct once_opened : dialogue {
    explicit once_opened(duration took, std::size_t lanes = 3) : dialogue(with_lanes(lanes)) {
        ask(1);
        pass(took);
        opened(0);
        release(0, condition::discard);
        closed(0);
    }
};

TEST(machine_scout, comes_when_the_first_open_has_taken_a_second) {
    dialogue d(with_lanes(3));
    d.ask(1);
    d.pass(1s - 1ns);
    EXPECT_EQ(d.opening(), 1u);
    d.pass(1ns);
    EXPECT_EQ(d.said(), "open 1");
}

TEST(machine_scout, comes_when_an_open_takes_four_times_as_long_as_the_last) {
    once_opened d(300ms);
    d.ask(2);
    d.pass(1200ms - 1ns);
    EXPECT_EQ(d.opening(), 1u);
    d.pass(1ns);
    EXPECT_EQ(d.said(), "open 1");
}

TEST(machine_scout, comes_no_sooner_than_after_a_second) {
    once_opened d(1ms);
    d.ask(2);
    d.pass(1s - 1ns);
    EXPECT_EQ(d.opening(), 1u);
    d.pass(1ns);
    EXPECT_EQ(d.said(), "open 1");
}

TEST(machine_scout, leaves_slow_opens_alone) {
    once_opened d(900ms);
    d.ask(2);
    for (int i = 0; i < 3; ++i) {
        d.pass(1s);
        EXPECT_EQ(d.opening(), 1u);
    }
    d.opened(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_scout, comes_every_cap_waiting_and_the_youngest_makes_way) {
    once_opened d(1ms);
    d.ask(2);
    d.pass(1s);
    EXPECT_EQ(d.said(), "open 1");
    d.pass(200ms);
    EXPECT_EQ(d.said(), "open 2");
    d.pass(200ms);
    EXPECT_EQ(d.said(), "2 makes way, open 2");
    d.pass(200ms);
    EXPECT_EQ(d.said(), "2 makes way, open 2");
    EXPECT_EQ(d.look().abandoned, 2u);
    EXPECT_EQ(d.look().open_failed, 0u);  // they are only given up
    d.opened(0);                          // the oldest was just slow
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_scout, whose_answer_comes_after_it_made_way_is_not_believed) {
    once_opened d(1ms, 2);
    d.ask(2);
    d.pass(1s);
    std::uint64_t call = d.call_of(1);
    d.pass(200ms);
    ASSERT_EQ(d.said(), "1 makes way, open 1");
    EXPECT_FALSE(d.opened(1, call, outcome::ok));
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_TRUE(d.opened(1));
    EXPECT_EQ(d.said(), "2 gets 1");
}

TEST(machine_scout, needs_a_lane_beside_the_one_that_waits) {
    once_opened d(1ms, 1);
    d.ask(2);
    d.pass(59s);
    EXPECT_EQ(d.opening(), 1u);
    EXPECT_EQ(d.look().abandoned, 0u);
}

TEST(machine_scout, is_for_waiters) {
    options settings = with_lanes(3);
    settings.min_size = 1;
    dialogue d(settings);
    d.pass(59s);
    EXPECT_EQ(d.opening(), 1u);
    d.ask(1, 1s);
    EXPECT_EQ(d.said(), "open 1");
    d.pass(1s);  // a timer, or more than one: some are sent, then no caller waits
    std::size_t sent = d.opening();
    d.pass(10ms);
    EXPECT_EQ(d.opening(), sent);
}

TEST(machine_scout, stays_at_home_while_many_hang_somewhere) {
    once_opened d(1ms, 2);
    d.ask(2);
    d.pass(1s);
    std::vector<std::uint64_t> calls;
    for (std::size_t i = 0; i < pacer::most_strays; ++i) {
        calls.push_back(d.call_of(1));
        d.pass(200ms);
        ASSERT_EQ(d.said(), "1 makes way, open 1");
    }
    d.pass(10s);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.look().abandoned, pacer::most_strays);
    d.opened(1, calls.front(), outcome::failed);  // one has come home
    EXPECT_EQ(d.said(), "1 makes way, open 1");
}

TEST(machine_scout, is_not_sent_if_there_could_be_more_than_max) {
    options settings = with_lanes(2);
    settings.max = 4;
    dialogue d(settings);
    d.ask(1);
    d.pass(1s);
    ASSERT_EQ(d.said(), "open 1");
    std::uint64_t first = d.call_of(1);
    for (int i = 0; i < 2; ++i) {
        d.pass(200ms);
        ASSERT_EQ(d.said(), "1 makes way, open 1");
    }
    d.pass(10s);  // two are being opened, and two hang somewhere
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.look().abandoned, 2u);
    d.opened(1, first, outcome::failed);
    EXPECT_EQ(d.said(), "1 makes way, open 1");
}

// With all that is opened meanwhile, and with any number of waiters.
TEST(machine_scout, leaves_those_that_made_way_their_room_until_their_time_is_over) {
    options settings = with_lanes(2);
    settings.max = 4;
    settings.open_timeout = 10s;
    dialogue d(settings);
    for (std::uint64_t i = 1; i <= 6; ++i) d.ask(i);
    d.pass(1s);
    d.pass(200ms);
    while (d.look().abandoned < 2) d.pass(200ms);
    d.opened(0);
    EXPECT_EQ(d.said(), "1 gets 0");  // and nothing is opened for the next
    d.opened(1);
    EXPECT_EQ(d.said(), "2 gets 1");
    EXPECT_EQ(d.look().total, 2u);
    d.pass(10s);
    EXPECT_EQ(d.look().total, 4u);
}

TEST(machine_scout, takes_a_token_like_every_open) {
    options settings = with_lanes(3);
    settings.open_rate = {.per_second = 1, .burst = 1};
    dialogue d(settings);
    d.ask(1);
    d.pass(1s);
    ASSERT_EQ(d.said(), "open 1");
    d.pass(1s - 1ns);
    EXPECT_EQ(d.opening(), 2u);
    d.pass(1ns);
    EXPECT_EQ(d.said(), "open 2");
    d.pass(1s);
    EXPECT_EQ(d.said(), "2 makes way, open 2");
}

TEST(machine_scout, is_not_sent_while_the_last_one_has_not_begun) {
    once_opened d(1ms, 2);
    d.ask(2);
    d.calls_begin = false;
    d.pass(1s);
    ASSERT_EQ(d.said(), "open 1");
    d.pass(10s);
    EXPECT_EQ(d.look().abandoned, 0u);
    d.it.begun(d.now, 1, d.call_of(1));
    d.calls_begin = true;
    d.pass(200ms);
    EXPECT_EQ(d.said(), "1 makes way, open 1");
}

TEST(machine_scout, whose_predecessor_was_never_made_has_its_room) {
    options settings = with_lanes(2);
    settings.max = 3;
    settings.open_timeout = 10s;
    dialogue d(settings);
    for (std::uint64_t i = 1; i <= 6; ++i) d.ask(i);
    d.pass(1s);
    std::vector<std::uint64_t> made_way;
    while (made_way.empty()) {
        d.pass(200ms);
        for (const action& a : d.heard())
            if (a.what == action::kind::make_way) made_way.push_back(a.call);
    }
    d.opened(0);
    d.opened(1);
    ASSERT_EQ(d.look().total, 2u) << "the open that made way takes up room";
    d.it.never_made(made_way.front() + 1000);
    d.tick();
    ASSERT_EQ(d.look().total, 2u) << "of another one nothing is known";
    d.it.never_made(made_way.front());
    d.tick();
    EXPECT_EQ(d.look().total, 3u);
}

// The resource that is being reset has the youngest call, but it is no open.
TEST(machine_scout, never_makes_a_reset_or_a_close_make_way) {
    options settings = with_lanes(2);
    settings.max = 6;
    settings.reset_timeout = 1h;
    settings.close_timeout = 1h;
    dialogue d(settings);
    d.ask(1);
    d.ask(2);
    d.opened(0);
    d.opened(1);
    for (std::uint64_t i = 3; i <= 8; ++i) d.ask(i);
    d.pass(1s);
    ASSERT_EQ(d.opening(), 2u);
    d.release(0, condition::dirty);
    d.release(1, condition::discard);
    std::size_t made_way = 0;
    for (int i = 0; i < 20; ++i) {
        d.pass(200ms);
        for (const action& a : d.heard()) made_way += a.what == action::kind::make_way;
        ASSERT_EQ(d.in_flight(verb::reset), 1u);
        ASSERT_EQ(d.in_flight(verb::close), 1u);
    }
    EXPECT_GT(made_way, 0u);
}

}  // namespace
}  // namespace cenote::core
