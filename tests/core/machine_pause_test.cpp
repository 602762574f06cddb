// A paused pool: nothing is lent, nobody loses place or deadline.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

TEST(machine_pause, lends_nothing) {
    dialogue d({});
    d.fill(1);
    d.pause();
    EXPECT_EQ(d.ask(1), "waits");
    d.resume();
    EXPECT_EQ(d.said(), "1 gets 0");
}

TEST(machine_pause, finds_nothing_for_those_who_only_try) {
    dialogue d({});
    d.fill(1);
    d.pause();
    EXPECT_EQ(d.attempt(), std::nullopt);
    d.resume();
    EXPECT_EQ(d.attempt(), 0u);
}

TEST(machine_pause, keeps_what_comes_back) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.pause();
    d.release(0);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.idle(), 1u);
    d.resume();
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_pause, keeps_places) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.pause();
    d.ask(3);
    d.resume();
    d.release(0);
    EXPECT_EQ(d.said(), "2 gets 0");
    d.release(0);
    EXPECT_EQ(d.said(), "3 gets 0");
}

TEST(machine_pause, keeps_deadlines) {
    dialogue d({});
    d.fill(1);
    d.pause();
    d.ask(1, 10ms);
    d.ask(2, 1s);
    d.pass(10ms);
    EXPECT_EQ(d.said(), "1 refused: timed_out");
    d.resume();
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_pause, opens_sweeps_and_probes_nothing) {
    dialogue d({.min_size = 1,
                .opening_max = 1,
                .idle_timeout = 1s,
                .probe_after_idle = forever,
                .heartbeat = 500ms});
    d.finish_calls();
    d.pause();
    d.ask(1);
    d.ask(2);
    d.pass(1min);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.wake_at(), never);
}

TEST(machine_pause, ends_calls_in_flight) {
    dialogue d({.open_timeout = 1s});
    d.ask(1);
    EXPECT_EQ(d.said(), "open 0");
    d.pause();
    d.opened(0);
    EXPECT_EQ(d.said(), "nothing");
    d.ask(2);
    d.resume();
    EXPECT_EQ(d.said(), "1 gets 0, open 1");
}

TEST(machine_pause, closes_what_retire_all_dooms) {
    dialogue d({});
    d.fill(2);
    d.pause();
    d.retire_all();
    EXPECT_EQ(d.said(), "close 0, close 1");
}

TEST(machine_pause, ends_with_the_pool) {
    dialogue d({});
    d.fill(1);
    d.pause();
    d.ask(1);
    d.close();
    EXPECT_EQ(d.said(), "1 refused: closed, close 0");
    d.closed(0);
    EXPECT_TRUE(d.it.drained());
}

TEST(machine_pause, can_be_said_twice) {
    dialogue d({}, {}, true);
    d.pause();
    EXPECT_EQ(d.said(), "paused");
    d.pause();
    EXPECT_EQ(d.said(), "nothing");
    d.resume();
    EXPECT_EQ(d.said(), "resumed");
    d.resume();
    EXPECT_EQ(d.said(), "nothing");
}

}  // namespace
}  // namespace cenote::core
