// What is retired without a request: the idle, the old, the former generations.
#include <set>

#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

TEST(machine_sweep, retires_what_was_idle_too_long) {
    dialogue d({.idle_timeout = 1min}, {});
    d.fill(2);
    EXPECT_EQ(d.it.wake_at(), d.now + 1min);
    d.pass(1min - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "close 0, close 1");
    EXPECT_EQ(d.look().retired(retire_reason::idle), 2u);
}

TEST(machine_sweep, keeps_what_was_used_meanwhile) {
    dialogue d({.idle_timeout = 1min, .probe_after_idle = forever});
    d.fill(2);
    d.pass(30s);
    d.attempt();
    d.release(1);
    d.pass(30s);
    EXPECT_EQ(d.said(), "close 0");
}

TEST(machine_sweep, retires_nothing_for_idleness_with_forever) {
    dialogue d({.idle_timeout = forever, .max_lifetime = forever}, {});
    d.fill(2);
    EXPECT_EQ(d.it.wake_at(), never);
    d.pass(1000h);
    EXPECT_EQ(d.idle(), 2u);
}

TEST(machine_sweep, stops_at_min_size) {
    dialogue d({.min_size = 2, .idle_timeout = 1min, .max_lifetime = forever});
    d.fill(5);
    d.pass(10min);
    d.finish_calls();
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_EQ(d.look().retired(retire_reason::idle), 3u);
}

TEST(machine_sweep, counts_the_leased_towards_min_size) {
    dialogue d({.min_size = 2, .idle_timeout = 1min, .max_lifetime = forever});
    d.fill(5);
    d.ask(1);
    d.ask(2);
    d.pass(10min);
    d.finish_calls();
    EXPECT_EQ(d.idle(), 0u);
}

TEST(machine_sweep, stops_at_min_idle) {
    dialogue d({.min_idle = 2, .idle_timeout = 1min, .max_lifetime = forever});
    d.fill(5);
    d.ask(1);
    std::uint64_t opened = d.look().opened;
    d.pass(10min);
    d.finish_calls();
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_EQ(d.it.total(), 3u);
    EXPECT_EQ(d.look().opened, opened);
}

TEST(machine_sweep, takes_up_again_what_the_minimum_no_longer_needs) {
    dialogue d({.min_size = 2, .idle_timeout = 1min, .max_lifetime = forever});
    d.fill(3);
    d.ask(1);
    d.pass(1min);
    d.finish_calls();
    EXPECT_EQ(d.it.total(), 2u);
    d.ask(2);
    d.ask(3);
    d.finish_calls();
    for (std::uint64_t who = 1; who <= 3; ++who) d.release(d.slot_of(who));
    d.pass(2min);
    d.finish_calls();
    EXPECT_EQ(d.it.total(), 2u);
}

TEST(machine_sweep, is_exact_but_no_more_frequent_than_its_interval) {
    dialogue d({.close_timeout = 1h, .idle_timeout = 60s, .sweep_interval = 10s});
    d.fill(4);
    for (std::uint64_t who = 1; who <= 4; ++who) d.ask(who);
    for (slot_id id = 0; id < 4; ++id) {
        d.release(id);
        d.pass(4s);
    }
    d.pass(60s - 16s);
    EXPECT_EQ(d.said(), "close 0");
    d.pass(10s - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "close 1, close 2");
    d.pass(10s - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "close 3");
}

TEST(machine_sweep, shrinks_to_the_hot_one_with_lifo) {
    dialogue d({.idle_timeout = 1min, .max_lifetime = forever, .order = order::lifo});
    d.fill(10);
    for (int second = 0; second < 300; ++second) {
        d.ask(1);
        d.pass(500ms);
        d.release(d.slot_of(1));
        d.pass(500ms);
        d.finish_calls();
    }
    EXPECT_EQ(d.it.total(), 1u);
    EXPECT_EQ(d.look().opened, 10u);
}

TEST(machine_sweep, keeps_all_in_use_with_fifo) {
    dialogue d({.idle_timeout = 1min,
                .max_lifetime = forever,
                .probe_after_idle = forever,
                .order = order::fifo});
    d.fill(10);
    for (int second = 0; second < 300; ++second) {
        d.ask(1);
        d.pass(500ms);
        d.release(d.slot_of(1));
        d.pass(500ms);
        d.finish_calls();
    }
    EXPECT_EQ(d.it.total(), 10u);
}

TEST(machine_sweep, retires_the_old) {
    dialogue d({.idle_timeout = forever, .max_lifetime = 30min, .lifetime_jitter = 0});
    d.fill(2);
    d.pass(30min - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "close 0, close 1");
    EXPECT_EQ(d.look().retired(retire_reason::age), 2u);
}

TEST(machine_sweep, spreads_the_ends_of_what_was_born_together) {
    dialogue d({.max = 50,
                .idle_timeout = forever,
                .max_lifetime = 1000s,
                .lifetime_jitter = 0.1,
                .sweep_interval = 1ns},
               {});
    d.fill(50);
    std::set<instant> ends;
    for (slot_id id = 0; id < 50; ++id) {
        instant end = d.it.look(id).expires_at;
        EXPECT_GE(end, d.now + 900s);
        EXPECT_LE(end, d.now + 1000s);
        ends.insert(end);
    }
    EXPECT_GT(ends.size(), 40u);
    EXPECT_EQ(d.it.wake_at(), *ends.begin());
    d.pass(*ends.begin() - d.now);
    EXPECT_EQ(d.it.count(slot_state::closing), 1u);
}

TEST(machine_sweep, draws_an_age_limit_once) {
    dialogue d({.idle_timeout = forever, .max_lifetime = 1000s, .lifetime_jitter = 0.5});
    d.fill(1);
    instant end = d.it.look(0).expires_at;
    for (int i = 0; i < 100; ++i) {
        d.pass(4s);
        d.ask(1);
        d.release(0);
        EXPECT_EQ(d.it.look(0).expires_at, end);
    }
}

TEST(machine_sweep, replaces_the_minimum_before_it_goes) {
    dialogue d({.max = 4,
                .min_size = 2,
                .idle_timeout = forever,
                .max_lifetime = 1h,
                .lifetime_jitter = 0});
    d.finish_calls();
    d.pass(1h);
    EXPECT_EQ(d.said(), "open 2, open 3");
    EXPECT_EQ(d.idle(), 2u);
    d.pass(5s);
    EXPECT_EQ(d.said(), "nothing");
    d.opened(2);
    EXPECT_EQ(d.said(), "nothing");
    d.opened(3);
    d.pass(1s);
    EXPECT_EQ(d.said(), "close 0, close 1");
    d.finish_calls();
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_EQ(d.look().retired(retire_reason::age), 2u);
}

TEST(machine_sweep, replaces_the_minimum_one_by_one_if_there_is_no_room_for_more) {
    dialogue d({.max = 2,
                .min_size = 2,
                .idle_timeout = forever,
                .max_lifetime = 1h,
                .lifetime_jitter = 0});
    d.finish_calls();
    d.pass(1h);
    EXPECT_EQ(d.it.count(slot_state::closing), 1u);
    EXPECT_EQ(d.idle(), 1u);
    d.finish_calls();
    d.pass(1min);
    d.finish_calls();
    d.pass(1min);
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_EQ(d.look().retired(retire_reason::age), 2u);
}

TEST(machine_sweep, takes_nothing_away_while_a_caller_waits) {
    dialogue d({.max = 2, .idle_timeout = 1min, .probe_after_idle = 1min - 500ms});
    d.fill(2);
    d.ask(1);
    d.pass(1min - 500ms);
    d.ask(2);
    EXPECT_EQ(d.said(), "probe 0");
    d.pass(900ms);
    EXPECT_EQ(d.said(), "nothing");
    d.probed(0);
    EXPECT_EQ(d.said(), "2 gets 0");
}

TEST(machine_retire_all, closes_idle_ones_paced_by_opening_max) {
    dialogue d({.opening_max = 2});
    d.fill(5);
    d.retire_all();
    EXPECT_EQ(d.said(), "close 0, close 1");
    d.closed(0);
    EXPECT_EQ(d.said(), "close 2");
    d.finish_calls();
    EXPECT_EQ(d.it.total(), 0u);
    EXPECT_EQ(d.look().retired(retire_reason::generation), 5u);
}

TEST(machine_retire_all, lends_none_of_the_old_ones) {
    dialogue d({.opening_max = 1});
    d.fill(3);
    d.retire_all();
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_EQ(d.attempt(), std::nullopt);
    EXPECT_EQ(d.ask(1), "waits");
    d.finish_calls();
    EXPECT_TRUE(d.holds(1));
    EXPECT_EQ(d.it.look(d.slot_of(1)).epoch, d.it.generation());
}

TEST(machine_retire_all, has_the_minimum_replaced) {
    dialogue d({.max = 4, .min_size = 2});
    d.finish_calls();
    d.retire_all();
    EXPECT_EQ(d.said(), "close 0, close 1, open 2, open 3");
}

TEST(machine_retire_all, reaches_what_is_being_opened) {
    dialogue d({});
    d.ask(1);
    d.retire_all();
    d.opened(0);
    EXPECT_EQ(d.said(), "close 0, open 1");
    d.opened(1);
    EXPECT_EQ(d.said(), "1 gets 1");
}

TEST(machine_retire_all, reaches_what_is_being_probed_or_reset) {
    dialogue d({.max = 2, .probe_after_idle = 0s});
    d.fill(2);
    d.pass(1ms);
    d.ask(1);
    d.finish_calls();
    d.ask(2);
    d.release(d.slot_of(1), condition::dirty);
    EXPECT_EQ(d.in_flight(verb::probe) + d.in_flight(verb::reset), 2u);
    d.retire_all();
    d.probed(0);
    d.reset(1);
    EXPECT_EQ(d.in_flight(verb::close), 2u);
    EXPECT_FALSE(d.holds(2));
}

}  // namespace
}  // namespace cenote::core
