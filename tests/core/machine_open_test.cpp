// When resources are opened, how many at once, and what happens when that fails.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

TEST(machine_start, opens_the_minimum_in_the_background) {
    dialogue d({.min_size = 2});
    EXPECT_EQ(d.said(), "open 0, open 1");
    EXPECT_FALSE(d.it.ready());
    d.finish_calls();
    EXPECT_TRUE(d.it.ready());
    EXPECT_EQ(d.idle(), 2u);
}

TEST(machine_start, opens_nothing_without_warm_up) {
    dialogue d({.min_size = 2, .min_idle = 1, .warm_up = warm_up::none});
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1h);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_start, keeps_the_minimum_from_the_first_acquire_on) {
    dialogue d({.min_size = 2, .warm_up = warm_up::none});
    d.ask(1);
    EXPECT_EQ(d.said(), "open 0, open 1");
}

TEST(machine_warm, keeps_the_minimum_from_now_on) {
    dialogue d({.min_size = 2, .warm_up = warm_up::none});
    d.warm();
    EXPECT_EQ(d.said(), "open 0, open 1");
}

TEST(machine_open, keeps_within_opening_max) {
    dialogue d({.min_size = 8, .opening_max = 3});
    EXPECT_EQ(d.said(), "open 0, open 1, open 2");
    d.opened(1);
    EXPECT_EQ(d.said(), "open 3");
    d.finish_calls();
    EXPECT_EQ(d.idle(), 8u);
}

TEST(machine_open, opens_no_more_than_the_waiters_need) {
    dialogue d({.opening_max = 4});
    d.ask(1);
    d.ask(2);
    EXPECT_EQ(d.opening(), 2u);
    d.pass(1s - 1ns);
    EXPECT_EQ(d.opening(), 2u);  // from then on they hang: see the scouts
}

TEST(machine_open, counts_waiters_who_left_no_longer) {
    dialogue d({.max = 4, .opening_max = 1});
    d.ask(1);
    d.ask(2);
    d.cancel(2);
    d.opened(0);
    EXPECT_EQ(d.said(), "1 gets 0");
}

TEST(machine_open, keeps_spares_on_top_of_the_leased) {
    dialogue d({.min_idle = 2});
    d.finish_calls();
    EXPECT_EQ(d.idle(), 2u);
    EXPECT_EQ(d.ask(1), "got 1");
    EXPECT_EQ(d.said(), "open 2");
    d.opened(2);
    EXPECT_EQ(d.idle(), 2u);
}

TEST(machine_open, keeps_spares_only_as_far_as_max_allows) {
    dialogue d({.max = 3, .min_idle = 2});
    d.finish_calls();
    d.ask(1);
    d.finish_calls();
    d.ask(2);
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_EQ(d.it.total(), 3u);
}

TEST(machine_open, counts_the_leased_towards_min_size) {
    dialogue d({.min_size = 2});
    d.finish_calls();
    d.ask(1);
    d.ask(2);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_open, refills_the_minimum_after_a_loss) {
    dialogue d({.max = 2, .min_size = 2});
    d.finish_calls();
    d.ask(1);
    d.release(1, condition::discard);
    EXPECT_EQ(d.said(), "close 1");
    d.closed(1);
    EXPECT_EQ(d.said(), "open 1");
}

TEST(machine_open, starts_one_at_a_time_while_resources_circulate) {
    dialogue d({.max = 20, .opening_max = 8});
    d.fill(1);
    for (std::uint64_t who = 1; who <= 11; ++who) d.ask(who);
    EXPECT_EQ(d.opening(), 1u);
    d.opened(1);
    EXPECT_EQ(d.opening(), 2u);
    d.opened(2);
    EXPECT_EQ(d.opening(), 4u);
}

TEST(machine_open, doubles_when_none_has_ended_for_a_while) {
    dialogue d({.max = 20, .opening_max = 8});
    d.fill(1);
    for (std::uint64_t who = 1; who <= 11; ++who) d.ask(who);
    d.pass(pacer::patience - 1ns);
    EXPECT_EQ(d.opening(), 1u);
    d.pass(1ns);
    EXPECT_EQ(d.opening(), 2u);
    d.pass(pacer::patience);
    EXPECT_EQ(d.opening(), 4u);
    d.pass(pacer::patience * 4);
    EXPECT_EQ(d.opening(), 8u);
}

// Fifty come at once, each for 2 ms, while an open takes 150 ms: the five that are there serve all
// of them before the first open ends.
std::size_t most_resources_in_a_spike(const options& settings) {
    dialogue d(settings);
    d.finish_calls();
    std::map<slot_id, instant> leased_until;
    std::map<slot_id, instant> open_at;
    std::map<std::uint64_t, slot_id> known;
    for (std::uint64_t who = 1; who <= 50; ++who) d.ask(who);
    std::size_t most = 0;
    for (int ms = 0; ms < 500; ++ms) {
        for (std::uint64_t who = 1; who <= 50; ++who)
            if (d.holds(who) && known.emplace(who, d.slot_of(who)).second)
                leased_until[d.slot_of(who)] = d.now + 2ms;
        for (slot_id id = 0; id < d.it.max(); ++id)
            if (d.it.look(id).state == slot_state::opening) open_at.emplace(id, d.now + 150ms);
        most = std::max(most, d.it.total());
        d.pass(1ms);
        for (slot_id id = 0; id < d.it.max(); ++id) {
            if (leased_until.contains(id) && leased_until[id] <= d.now) {
                leased_until.erase(id);
                d.release(id);
            }
            if (open_at.contains(id) && open_at[id] <= d.now) {
                open_at.erase(id);
                d.opened(id);
            }
        }
    }
    EXPECT_EQ(known.size(), 50u);
    return std::max(most, d.it.total());
}

TEST(machine_open, survives_a_spike_with_one_more_resource_than_min_size) {
    EXPECT_LE(most_resources_in_a_spike({.max = 50, .min_size = 5}), 6u);
}

TEST(machine_open, survives_a_spike_with_one_more_resource_than_min_idle) {
    EXPECT_LE(most_resources_in_a_spike({.max = 50, .min_idle = 5}), 6u);
}

TEST(machine_open, is_given_up_at_open_timeout_and_its_slot_is_free) {
    dialogue d({.open_timeout = 300ms, .backoff = {.first = 1ms}});
    d.ask(1);
    std::uint64_t call = d.call_of(0);
    d.pass(300ms - 1ns);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ns);
    EXPECT_EQ(d.said(), "abandon 0, open 0");
    EXPECT_FALSE(d.opened(0, call, outcome::ok));
    EXPECT_EQ(d.said(), "nothing");
    EXPECT_TRUE(d.opened(0));
    EXPECT_EQ(d.said(), "1 gets 0");
    EXPECT_EQ(d.look().abandoned, 1u);
}

}  // namespace
}  // namespace cenote::core
