// What comes back before its reset: the next use makes it, or the pool in time.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

constexpr abilities resets = {.reset = true};
constexpr abilities both = {.probe = true, .reset = true};

struct machine_debt : testing::Test {
    /// A pool with `idle` idle resources that owe nothing.
    void make(options settings = {}, std::uint64_t idle = 1, abilities can = resets) {
        settings.max = std::max<std::size_t>(idle, 1);
        d.emplace(settings, can);
        d->fill(idle);
    }
    /// A lease that leaves a debt.
    void owe(slot_id id = 0) { d->release(id, condition::owing); }
    bool owes(slot_id id = 0) const { return d->it.look(id).owes; }

    std::optional<dialogue> d;
};

TEST_F(machine_debt, is_lent_as_it_is) {
    make();
    d->ask(1);
    owe();
    EXPECT_EQ(d->said(), "nothing");
    EXPECT_TRUE(owes());
    d->now += 49ms;
    EXPECT_EQ(d->ask(2), "got 0");
    EXPECT_EQ(d->said(), "nothing");
}

TEST_F(machine_debt, is_paid_by_a_use_that_leaves_none) {
    make();
    d->ask(1);
    owe();
    d->ask(2);
    d->release(0);
    EXPECT_FALSE(owes());
    d->pass(1s);
    EXPECT_EQ(d->said(), "nothing");
}

TEST_F(machine_debt, stays_if_its_borrower_never_used_it) {
    make();
    d->ask(1);
    owe();
    d->ask(2);
    d->release(0, condition::owing_unused);
    EXPECT_TRUE(owes());
    d->now += 50ms;
    d->tick();
    EXPECT_EQ(d->said(), "reset 0");
}

TEST_F(machine_debt, is_paid_when_it_was_idle_for_reset_after) {
    make({.reset_after = 70ms});
    d->ask(1);
    owe();
    EXPECT_EQ(d->it.wake_at(), d->now + 70ms);
    d->pass(69ms);
    EXPECT_EQ(d->said(), "nothing");
    d->now += 1ms;
    d->tick();
    EXPECT_EQ(d->said(), "reset 0");
    d->reset(0);
    EXPECT_FALSE(owes());
    EXPECT_EQ(d->idle(), 1u);
    d->pass(1s);
    EXPECT_EQ(d->said(), "nothing") << "once is enough";
}

TEST_F(machine_debt, is_paid_later_for_each_later_one) {
    make({}, 2);
    d->ask(1);
    d->ask(2);
    owe(0);
    d->now += 30ms;
    owe(1);
    d->now += 20ms;
    d->tick();
    EXPECT_EQ(d->said(), "reset 0");
    d->now += 30ms;
    d->tick();
    EXPECT_EQ(d->said(), "reset 1");
}

TEST_F(machine_debt, is_not_looked_for_after_every_lease) {
    make();
    std::uint64_t settles = d->it.settles();
    for (int i = 0; i < 40; ++i) {
        d->ask(1);
        d->now += 1ms;
        owe();
    }
    EXPECT_EQ(d->it.settles(), settles) << "all of it by express";
    EXPECT_GE(d->it.wake_at(), d->now + 10ms);
}

TEST_F(machine_debt, goes_with_the_resource_to_the_head_of_the_line) {
    make();
    d->ask(1);
    d->ask(2);
    d->ask(3);
    owe();
    EXPECT_EQ(d->said(), "2 gets 0");
    owe();
    EXPECT_EQ(d->said(), "3 gets 0");
    d->release(0);
    d->pass(1s);
    EXPECT_EQ(d->said(), "nothing");
}

TEST_F(machine_debt, that_no_caller_needs_is_left_to_the_next_use) {
    make({.reset_after = forever});
    d->ask(1);
    owe();
    d->pass(10s);
    EXPECT_EQ(d->said(), "nothing");
    EXPECT_TRUE(owes());
}

TEST_F(machine_debt, does_not_arise_where_a_reset_is_made_at_once) {
    make({.reset_after = 0ms});
    d->ask(1);
    owe();
    EXPECT_EQ(d->said(), "reset 0");
}

TEST_F(machine_debt, does_not_arise_without_a_reset) {
    make({}, 1, {});
    d->ask(1);
    owe();
    EXPECT_EQ(d->said(), "close 0");
    EXPECT_EQ(d->look().retired(retire_reason::reset_failed), 1u);
}

TEST_F(machine_debt, fails_like_any_reset) {
    make();
    d->ask(1);
    owe();
    d->now += 50ms;
    d->tick();
    d->reset(0, outcome::failed);
    EXPECT_EQ(d->said(), "close 0");
    EXPECT_EQ(d->look().retired(retire_reason::reset_failed), 1u);
}

TEST_F(machine_debt, is_paid_before_a_probe_at_acquire) {
    make({.probe_after_idle = 20ms}, 1, both);
    d->ask(1);
    owe();
    d->now += 20ms;
    EXPECT_EQ(d->ask(2), "waits");
    EXPECT_EQ(d->said(), "reset 0");
    d->reset(0);
    EXPECT_EQ(d->said(), "probe 0");
    d->probed(0);
    EXPECT_EQ(d->said(), "2 gets 0");
}

TEST_F(machine_debt, is_paid_before_a_heartbeat) {
    make({.heartbeat = 20ms}, 1, both);
    d->ask(1);
    owe();
    d->now += 20ms;
    d->tick();
    EXPECT_EQ(d->said(), "reset 0");
    d->reset(0);
    EXPECT_EQ(d->said(), "probe 0");
}

TEST_F(machine_debt, does_not_arise_where_releases_are_probed) {
    make({.probe_on_release = true}, 1, both);
    d->ask(1);
    owe();
    EXPECT_EQ(d->said(), "reset 0");
    d->reset(0);
    EXPECT_EQ(d->said(), "probe 0");
}

TEST_F(machine_debt, of_what_is_suspect_is_paid_before_it_is_probed) {
    make({}, 1, both);
    d->ask(1);
    d->now += 1ms;
    owe();
    d->suspect_all();
    EXPECT_EQ(d->ask(2), "waits");
    EXPECT_EQ(d->said(), "reset 0");
}

TEST_F(machine_debt, is_paid_before_a_pause_and_none_is_made_in_it) {
    make({}, 2);
    d->ask(1);
    d->ask(2);
    owe(0);
    d->pause();
    EXPECT_EQ(d->said(), "reset 0");
    owe(1);
    EXPECT_EQ(d->said(), "reset 1");
    d->finish_calls();
    d->resume();
    d->pass(1s);
    EXPECT_EQ(d->said(), "nothing");
}

TEST_F(machine_debt, is_paid_before_maintenance_is_suspended_and_none_is_made_without_it) {
    make({}, 2);
    d->ask(1);
    d->ask(2);
    owe(0);
    d->suspend_maintenance();
    EXPECT_EQ(d->said(), "reset 0");
    owe(1);
    EXPECT_EQ(d->said(), "reset 1");
}

TEST_F(machine_debt, ends_with_the_resource) {
    make();
    d->ask(1);
    owe();
    d->retire_all();
    EXPECT_EQ(d->said(), "close 0");
    d->closed(0);
    EXPECT_FALSE(owes());
    d->ask(2);
    d->opened(0);
    d->release(0);
    EXPECT_FALSE(owes());
}

TEST_F(machine_debt, is_marked_dirty_and_so_reset_at_once) {
    make();
    d->ask(1);
    owe();
    d->ask(2);
    d->release(0, condition::dirty);
    EXPECT_EQ(d->said(), "reset 0");
}

TEST_F(machine_debt, of_what_is_brought_back_counts_from_the_end_of_its_lease) {
    make();
    d->ask(1);
    actions heard;
    d->now += 30ms;
    d->it.bring_back(d->now, 0, 0, d->now - 20ms, true, heard);
    EXPECT_TRUE(heard.empty());
    EXPECT_EQ(d->it.wake_at(), d->now + 30ms);
    d->it.check(d->now);
}

TEST_F(machine_debt, of_what_is_brought_back_too_late_is_paid_at_once) {
    make();
    d->ask(1);
    actions heard;
    d->now += 1s;
    d->it.bring_back(d->now, 0, 0, d->now - 100ms, true, heard);
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_EQ(heard[0].which, verb::reset);
    d->it.check(d->now);
}

}  // namespace
}  // namespace cenote::core
