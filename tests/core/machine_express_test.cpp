// Express: in a full pool where nothing is due, only the line moves.
#include "core/machine_express.hpp"

#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

struct machine_express : testing::Test {
    /// A full pool, with `waiting` in line.
    void make(options settings = {}, std::uint64_t waiting = 3, abilities can = {.probe = true}) {
        settings.max = 2;
        d.emplace(settings, can);
        d->fill(2);
        d->ask(1);
        d->ask(2);
        for (std::uint64_t who = 1; who <= waiting; ++who) d->ask(10 + who);
        d->release(0);  // the strategy is told of the first success; from then on it is quiet
        d->ask(99);
        passed_on = d->it.passed_on();
        settles = d->it.settles();
    }
    bool express() const { return d->it.passed_on() > passed_on; }

    std::optional<dialogue> d;
    std::uint64_t passed_on = 0;
    std::uint64_t settles = 0;
};

TEST_F(machine_express, passes_a_lease_on_to_the_head) {
    make();
    d->now += 1ms;
    d->release(0);
    EXPECT_EQ(d->said(), "12 gets 0");
    EXPECT_TRUE(express());
    EXPECT_EQ(d->ask(20), "waits");
    EXPECT_EQ(d->it.settles(), settles);
}

TEST_F(machine_express, numbers_each_lend) {
    make();
    std::uint64_t before = d->it.lends();
    d->release(0);
    ASSERT_TRUE(express());
    EXPECT_EQ(d->it.lends(), before + 1);
    EXPECT_EQ(d->it.look(0).lent, before + 1);
}

TEST_F(machine_express, counts_as_the_long_way_does) {
    make();
    stats before;
    d->it.read(before);
    d->release(0);
    d->ask(20);
    stats after;
    d->it.read(after);
    EXPECT_EQ(after.granted, before.granted + 1);
    EXPECT_EQ(after.released, before.released + 1);
    EXPECT_EQ(after.waited, before.waited + 1);
    EXPECT_EQ(after.acquires, before.acquires + 1);
    EXPECT_EQ(after.waiting, before.waiting);
}

TEST_F(machine_express, ends_at_a_deadline_in_line) {
    make();
    d->ask(20, 5ms);
    d->now += 5ms;
    d->release(0);
    EXPECT_FALSE(express());
    EXPECT_EQ(d->said(), "20 refused: timed_out, 12 gets 0");
}

TEST_F(machine_express, is_not_for_the_last_in_line) {
    make({}, 1);
    ASSERT_EQ(d->it.passed_on(), 0u);
    d->release(0);
    EXPECT_FALSE(express());
    EXPECT_EQ(d->said(), "99 gets 0");
}

TEST_F(machine_express, is_not_for_what_is_worn_or_dirty) {
    make({.max_uses = 3});
    d->release(0, condition::clean, 1);
    EXPECT_FALSE(express());
    make({}, 3, {.probe = true, .reset = true});
    d->release(0, condition::dirty);
    EXPECT_FALSE(express());
    make();
    d->retire_all();
    d->release(0);
    EXPECT_FALSE(express());
}

TEST_F(machine_express, is_not_for_pools_that_look_at_every_lease) {
    make({.probe_on_release = true});
    d->release(1);
    EXPECT_FALSE(express());
    make({.fairness = fairness::bounded});
    d->release(1);
    EXPECT_FALSE(express());
    d.emplace(options{.max = 1}, abilities{}, true);
    d->fill(1);
    for (std::uint64_t who = 1; who <= 4; ++who) d->ask(who);
    d->release(0);
    d->release(0);
    EXPECT_EQ(d->it.passed_on(), 0u);
}

TEST_F(machine_express, takes_no_caller_without_room) {
    make();
    waiter_id id;
    waiter who{.cookie = 30, .arrived = d->now, .deadline = d->now + 1h};
    std::size_t joined = 0;
    for (; d->it.queue_up(d->now, who, id); ++joined) who.ticket = 0;
    EXPECT_GT(joined, 0u);
    d->it.check(d->now);
    actions out;
    d->it.make_room(out);
    EXPECT_TRUE(d->it.queue_up(d->now, who, id));
    d->it.check(d->now);
}

TEST_F(machine_express, refuses_by_ticket_those_whose_time_is_over_at_once) {
    make({.head_start = 1ms}, 1);
    auto ask = [&](std::uint64_t who, priority rank, duration timeout = 5ms) {
        EXPECT_EQ(d->ask({.deadline = d->now + timeout, .cookie = who, .rank = rank}), "waits");
    };
    ask(20, priority::low);
    ask(21, priority::normal, 1h);
    ask(22, priority::normal);  // not in order
    ask(23, priority::reserved);
    ask(24, priority::high);
    ask(25, priority::normal);
    std::uint64_t last = d->it.last_ticket();
    EXPECT_TRUE(d->cancel(24));
    d->ask({.deadline = d->now + 5ms,
            .cookie = 26,
            .ticket = last + 10,
            .arrived = d->now,
            .again = true});
    // Back to the place of the one that was canceled.
    d->ask({.deadline = d->now + 5ms,
            .cookie = 27,
            .ticket = last - 1,
            .arrived = d->now,
            .again = true});
    d->pass(5ms);
    EXPECT_EQ(d->said(),
              "20 refused: timed_out, 22 refused: timed_out, 23 refused: timed_out, "
              "27 refused: timed_out, 25 refused: timed_out, 26 refused: timed_out");
}

TEST_F(machine_express, serves_priorities_in_turn) {
    make({.head_start = 1s}, 2);
    for (auto [who, rank] : {std::pair{20u, priority::low},
                             {21u, priority::normal},
                             {22u, priority::high},
                             {23u, priority::reserved}})
        d->ask({.cookie = who, .rank = rank});
    passed_on = d->it.passed_on();
    std::string order;
    for (int i = 0; i < 6; ++i) {
        d->release(0);
        order += d->said() + ", ";
    }
    EXPECT_EQ(order, "23 gets 0, 22 gets 0, 12 gets 0, 99 gets 0, 21 gets 0, 20 gets 0, ");
    EXPECT_EQ(d->it.passed_on(), passed_on + 5) << "all but the last one";
}

TEST_F(machine_express, tells_the_strategy_of_successes_all_the_same) {
    make();
    d->release(0);
    EXPECT_TRUE(express());
    EXPECT_EQ(d->judged(), "nothing");
    d->pass(100ms);
    d->release(0);
    EXPECT_NE(d->judged(), "nothing");
    // And goes on being express afterwards.
    passed_on = d->it.passed_on();
    d->ask(30);
    d->release(0);
    EXPECT_TRUE(express());
}

TEST_F(machine_express, notes_each_lease_as_the_long_way_does) {
    make();
    d->it.held_by(0, 5);
    d->now += 3ms;
    stats before = d->look();
    std::uint64_t to = 0;
    ASSERT_TRUE(d->it.pass_on(d->now, 0, 0, std::nullopt, false, to));
    EXPECT_EQ(to, 12u);
    EXPECT_EQ(d->it.look(0).leased_at, d->now);
    EXPECT_EQ(d->it.look(0).holder, 0u) << "the new thread is unknown";
    stats after = d->look();
    EXPECT_EQ(after.hold.count(), before.hold.count()) << "nothing was measured";
    EXPECT_EQ(after.wait.count(), before.wait.count() + 1);
    auto slow = [](const stats& s) {
        std::uint64_t n = 0;
        for (std::size_t i = histogram::bucket_of(3ms); i < s.wait.buckets.size(); ++i)
            n += s.wait.buckets[i];
        return n;
    };
    EXPECT_EQ(slow(after), slow(before) + 1) << "it waited for 3 ms";
    ASSERT_TRUE(d->it.pass_on(d->now, 0, 0, 2ms, false, to));
    EXPECT_EQ(d->look().hold.count(), after.hold.count() + 1);
}

}  // namespace
}  // namespace cenote::core
