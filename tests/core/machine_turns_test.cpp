// Turns: a thread that comes again at once has its own back, a few times.
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

constexpr std::uint32_t turns = 3;
constexpr duration moment = machine::aside_for;

/// Borrowers are threads, named by their numbers; each has the slot that it was lent last.
struct machine_turns : testing::Test {
    void make(options settings = {}, abilities can = {.probe = true, .reset = true}) {
        if (settings.max == options{}.max) settings.max = 1;
        settings.fairness = fairness::turns;
        can.turns = turns;
        d.emplace(settings, can);
        d->fill(settings.max);
    }
    /// One resource, which thread 1 has; 2 and 3 wait for it.
    machine_turns() {
        make();
        come(1);
        come(2);
        come(3);
        end_shortest_turn();
    }

    std::string come(std::uint64_t who, priority rank = priority::normal) {
        return d->ask({.deadline = d->now + 1h, .cookie = who, .rank = rank, .thread = who});
    }
    std::string coroutine_comes(std::uint64_t who, priority rank = priority::normal) {
        return d->ask({.deadline = d->now + 1h, .cookie = who, .rank = rank});
    }
    void give_back(std::uint64_t who, condition how = condition::clean) {
        d->release(d->slot_of(who), how, 0, who);
    }
    /// From now on turns end by their number of leases.
    void end_shortest_turn() {
        d->now += machine::shortest_turn;
        d->tick();
    }
    std::size_t aside() const { return d->idle(); }

    std::optional<dialogue> d;
};

TEST_F(machine_turns, a_thread_that_comes_again_has_its_own_back) {
    give_back(1);
    EXPECT_EQ(d->said(), "nothing");
    EXPECT_EQ(aside(), 1u);
    EXPECT_EQ(come(1), "got 0");
}

TEST_F(machine_turns, a_turn_ends_after_a_number_of_leases) {
    for (std::uint32_t i = 0; i < turns; ++i) {
        give_back(1);
        ASSERT_EQ(come(1), "got 0") << i;
    }
    give_back(1);
    EXPECT_EQ(d->said(), "2 gets 0");
    EXPECT_EQ(come(1), "waits");
}

TEST_F(machine_turns, the_next_one_has_a_whole_turn) {
    for (std::uint32_t i = 0; i < turns; ++i) {
        give_back(1);
        come(1);
    }
    give_back(1);
    end_shortest_turn();
    for (std::uint32_t i = 0; i < turns; ++i) {
        give_back(2);
        ASSERT_EQ(come(2), "got 0") << i;
    }
    give_back(2);
    EXPECT_EQ(d->said(), "3 gets 0");
}

// Leases of a microsecond are not worth a switch of threads each few.
TEST_F(machine_turns, a_turn_lasts_some_time_however_short_its_leases_are) {
    make();
    come(1);
    come(2);
    for (std::uint32_t i = 0; i < 10 * turns; ++i) {
        give_back(1);
        ASSERT_EQ(come(1), "got 0") << i;
        d->now += 1us;
    }
    d->now += machine::shortest_turn;
    give_back(1);
    EXPECT_EQ(d->said(), "2 gets 0");
}

TEST_F(machine_turns, no_other_caller_gets_what_is_set_aside) {
    give_back(1);
    EXPECT_EQ(come(4), "waits");
    EXPECT_EQ(coroutine_comes(5), "waits");
    EXPECT_EQ(d->attempt(), std::nullopt);
    EXPECT_EQ(come(1), "got 0");
}

TEST_F(machine_turns, who_does_not_come_again_loses_it_to_the_head) {
    give_back(1);
    EXPECT_EQ(d->it.wake_at(), d->now + moment);
    d->pass(moment - 1ns);
    EXPECT_EQ(d->said(), "nothing");
    d->pass(1ns);
    EXPECT_EQ(d->said(), "2 gets 0");
}

TEST_F(machine_turns, a_later_call_gives_it_to_the_head) {
    give_back(1);
    d->now += moment;
    EXPECT_EQ(come(1), "waits");
    EXPECT_EQ(d->said(), "2 gets 0");
}

TEST_F(machine_turns, no_thread_is_waited_for_after_one_that_did_not_come) {
    give_back(1);
    d->pass(moment);
    end_shortest_turn();
    std::uint64_t has = 2;
    for (int lease = 0; lease < 63; ++lease) {
        come(10 + static_cast<std::uint64_t>(lease));
        give_back(has);
        ASSERT_NE(d->said(), "nothing") << lease;
        has = d->heard().back().cookie;
    }
    come(100);
    give_back(has);
    EXPECT_EQ(d->said(), "nothing") << "then it is tried again";
}

TEST_F(machine_turns, threads_that_mostly_come_are_waited_for_all_the_same) {
    std::uint64_t has = 1;
    for (int lease = 0; lease < 30; ++lease) {
        end_shortest_turn();
        give_back(has);
        bool ended = d->said() != "nothing";
        std::uint64_t next = ended ? d->heard().back().cookie : has;
        ASSERT_EQ(come(has), ended ? "waits" : "got 0");
        has = next;
    }
    end_shortest_turn();
    d->pass(0ns);
    while (d->it.look(0).turns == turns) {
        give_back(has);
        std::uint64_t next = d->heard().back().cookie;
        come(has);
        has = next;
    }
    give_back(has);
    ASSERT_EQ(d->said(), "nothing");
    d->pass(moment);  // this one does not come
    std::uint64_t next = d->heard().back().cookie;
    end_shortest_turn();
    come(has);
    give_back(next);
    EXPECT_EQ(d->said(), "nothing");
}

TEST_F(machine_turns, a_coroutine_is_not_made_to_wait_for_a_turn) {
    d->cancel(2);
    d->cancel(3);
    coroutine_comes(4);
    give_back(1);
    EXPECT_EQ(d->said(), "4 gets 0");
}

TEST_F(machine_turns, a_coroutine_has_no_turns) {
    make();
    coroutine_comes(1);
    come(2);
    give_back(1);
    EXPECT_EQ(d->said(), "2 gets 0");
}

TEST_F(machine_turns, a_coroutine_that_becomes_the_head_gets_what_is_set_aside) {
    coroutine_comes(4);
    give_back(1);
    d->cancel(2);
    EXPECT_EQ(d->said(), "2 refused: canceled");
    d->cancel(3);
    EXPECT_EQ(d->said(), "3 refused: canceled, 4 gets 0");
    give_back(4);
    come(1);
    come(2);
    give_back(1);
    EXPECT_EQ(coroutine_comes(5, priority::high), "waits");
    EXPECT_EQ(d->said(), "5 gets 0");
}

TEST_F(machine_turns, who_wants_several_is_not_made_to_wait_for_a_turn) {
    make({.max = 2});
    come(1);
    come(2);
    d->ask({.deadline = d->now + 1h, .cookie = 3, .count = 2, .thread = 3});
    come(4);
    give_back(1);
    EXPECT_EQ(d->said(), "nothing");
    EXPECT_EQ(come(1), "waits");
    give_back(2);
    EXPECT_EQ(d->said(), "3 gets 1, 3 gets 0");
}

TEST_F(machine_turns, a_higher_priority_is_not_made_to_wait_for_a_turn) {
    come(4, priority::high);
    give_back(1);
    EXPECT_EQ(d->said(), "4 gets 0") << "its last lease was of a lower one";
}

TEST_F(machine_turns, a_lower_priority_does_not_go_on) {
    give_back(1);
    EXPECT_EQ(come(1, priority::low), "waits");
    d->pass(moment);
    EXPECT_EQ(d->said(), "2 gets 0");
}

TEST_F(machine_turns, a_higher_priority_that_comes_is_not_overtaken_by_a_lower_one) {
    give_back(1);
    come(4, priority::high);
    EXPECT_EQ(come(1), "waits");
    d->pass(moment);
    EXPECT_EQ(d->said(), "4 gets 0");
}

TEST_F(machine_turns, the_reserved_are_not_made_to_wait_for_a_turn) {
    give_back(1);
    come(4, priority::reserved);
    EXPECT_EQ(d->said(), "4 gets 0");
}

TEST_F(machine_turns, a_deadline_of_the_head_passes_while_something_is_set_aside) {
    d->cancel(2);
    d->cancel(3);
    d->ask({.deadline = d->now + moment / 2, .cookie = 4, .thread = 4});
    give_back(1);
    d->pass(moment / 2);
    EXPECT_EQ(d->said(), "4 refused: timed_out");
    EXPECT_EQ(come(5), "got 0") << "no caller waits any longer";
}

TEST_F(machine_turns, close_closes_what_is_set_aside) {
    give_back(1);
    d->close();
    EXPECT_EQ(d->said(), "2 refused: closed, 3 refused: closed, close 0");
}

TEST_F(machine_turns, pause_keeps_what_is_set_aside_for_the_head) {
    give_back(1);
    d->pause();
    EXPECT_EQ(come(1), "waits");
    d->resume();
    EXPECT_EQ(d->said(), "2 gets 0");
}

TEST_F(machine_turns, resize_takes_what_is_set_aside) {
    make({.max = 2});
    come(1);
    come(2);
    come(3);
    give_back(1);
    ASSERT_EQ(aside(), 1u);
    d->resize(1);
    EXPECT_NE(d->said().find("close "), std::string::npos);
    EXPECT_EQ(come(1), "waits");
}

TEST_F(machine_turns, retire_all_takes_what_is_set_aside) {
    give_back(1);
    d->retire_all();
    EXPECT_EQ(d->said(), "close 0");
}

TEST_F(machine_turns, what_is_suspect_is_probed_before_any_caller_gets_it) {
    give_back(1);
    d->suspect_all();
    EXPECT_EQ(d->said(), "probe 0");
    EXPECT_EQ(come(1), "waits");
}

TEST_F(machine_turns, what_comes_back_unclean_is_not_set_aside) {
    give_back(1, condition::dirty);
    EXPECT_EQ(d->said(), "reset 0");
    d->reset(0);
    EXPECT_EQ(d->said(), "2 gets 0");
    give_back(2, condition::discard);
    EXPECT_EQ(d->said(), "close 0");
}

TEST_F(machine_turns, what_owes_a_reset_is_set_aside_like_what_is_clean) {
    give_back(1, condition::owing);
    EXPECT_EQ(d->said(), "nothing");
    EXPECT_EQ(come(1), "got 0");
    give_back(1, condition::owing);
    d->pass(moment);
    EXPECT_EQ(d->said(), "2 gets 0");
}

TEST_F(machine_turns, a_debt_that_was_set_aside_is_paid_when_no_caller_waits_any_longer) {
    make({.reset_after = 5ms});
    come(1);
    come(2);
    give_back(1, condition::owing);
    d->cancel(2);
    EXPECT_EQ(d->said(), "2 refused: canceled");
    EXPECT_EQ(d->it.wake_at(), d->now + 5ms);
    d->pass(5ms);
    EXPECT_EQ(d->said(), "reset 0");
}

TEST_F(machine_turns, pause_and_suspended_maintenance_pay_what_was_set_aside_with_a_debt) {
    give_back(1, condition::owing);
    d->pause();
    EXPECT_EQ(d->said(), "reset 0");
    d->reset(0);
    d->resume();
    EXPECT_EQ(d->said(), "2 gets 0");
    give_back(2, condition::owing);
    ASSERT_EQ(aside(), 1u);
    d->suspend_maintenance();
    EXPECT_EQ(d->said(), "reset 0");
}

TEST_F(machine_turns, what_is_suspect_and_owes_a_reset_is_reset_and_probed) {
    give_back(1, condition::owing);
    d->suspect_all();
    EXPECT_EQ(d->said(), "reset 0");
    d->reset(0);
    EXPECT_EQ(d->said(), "probe 0");
}

TEST_F(machine_turns, take_no_longer_than_leases_do_in_a_strict_pool_without_a_line) {
    make();
    come(1);
    give_back(1);
    EXPECT_EQ(come(2), "got 0");
}

TEST_F(machine_turns, are_counted_as_leases) {
    stats before = d->look();
    give_back(1);
    come(1);
    stats after = d->look();
    EXPECT_EQ(after.acquires, before.acquires + 1);
    EXPECT_EQ(after.granted, before.granted + 1);
    EXPECT_EQ(after.released, before.released + 1);
    EXPECT_EQ(after.waited, before.waited);
    EXPECT_EQ(after.leased, 1u);
}

TEST_F(machine_turns, are_off_where_no_time_passes) {
    d.emplace(options{.max = 1, .fairness = fairness::turns}, abilities{});
    d->fill(1);
    come(1);
    come(2);
    give_back(1);
    EXPECT_EQ(d->said(), "2 gets 0");
}

TEST_F(machine_turns, are_announced_to_threads_that_come_without_the_lock) {
    EXPECT_TRUE(d->it.has_thread_at_head());
    EXPECT_FALSE(d->it.has_aside());
    std::uint64_t before = d->it.set_asides();
    give_back(1);
    EXPECT_TRUE(d->it.has_aside());
    EXPECT_EQ(d->it.set_asides(), before + 1);
    d->cancel(2);
    d->cancel(3);
    EXPECT_FALSE(d->it.has_thread_at_head()) << "no caller waits";
    EXPECT_FALSE(d->it.has_aside());
    come(1);
    coroutine_comes(4);
    EXPECT_FALSE(d->it.has_thread_at_head());
}

TEST_F(machine_turns, a_resource_that_comes_meanwhile_serves_the_head_and_the_next_head) {
    make({.max = 2});
    come(1);
    come(2);
    come(3);
    coroutine_comes(4);
    come(5);
    give_back(1);
    ASSERT_EQ(aside(), 1u);
    slot_id set_aside = d->slot_of(1);
    d->release(d->slot_of(2));  // by another thread
    EXPECT_TRUE(d->holds(3));
    ASSERT_TRUE(d->holds(4)) << "a coroutine is not made to wait for a turn";
    EXPECT_EQ(d->slot_of(4), set_aside);
}

TEST_F(machine_turns, set_the_timer_for_their_end_however_long_nothing_was_due) {
    d->now += 10s;
    give_back(1);
    ASSERT_EQ(aside(), 1u);
    EXPECT_EQ(d->it.wake_at(), d->now + moment);
}

TEST_F(machine_turns, count_the_uses_of_the_fast_lane_and_forget_the_thread) {
    std::uint64_t uses = d->it.look(0).uses;
    d->release(0, condition::clean, 3, 1);
    ASSERT_EQ(aside(), 1u);
    EXPECT_EQ(d->it.look(0).uses, uses + 3);
    EXPECT_EQ(d->it.look(0).holder, 1u);
    d->now += 1us;
    std::uint64_t lends = d->it.lends();
    EXPECT_EQ(come(1), "got 0");
    EXPECT_EQ(d->it.look(0).uses, uses + 4);
    EXPECT_EQ(d->it.look(0).holder, 0u);
    EXPECT_EQ(d->it.look(0).leased_at, d->now);
    EXPECT_EQ(d->it.lends(), lends + 1);
    EXPECT_EQ(d->it.look(0).lent, lends + 1);
}

TEST_F(machine_turns, also_with_reports_serve_the_head_and_the_next_head) {
    d.emplace(options{.max = 2, .fairness = fairness::turns},
              abilities{.probe = true, .turns = turns}, true);
    d->fill(2);
    come(1);
    come(2);
    come(3);
    coroutine_comes(4);
    come(5);
    give_back(1);
    ASSERT_EQ(aside(), 1u);
    slot_id set_aside = d->slot_of(1);
    d->release(d->slot_of(2));  // by another thread
    EXPECT_TRUE(d->holds(3));
    ASSERT_TRUE(d->holds(4)) << "a coroutine is not made to wait for a turn";
    EXPECT_EQ(d->slot_of(4), set_aside);
}

TEST_F(machine_turns, a_coroutine_that_comes_back_to_the_front_gets_what_is_set_aside) {
    make();
    come(1);
    come(2);
    come(3);
    end_shortest_turn();
    give_back(1);
    ASSERT_EQ(aside(), 1u);
    constexpr std::uint64_t ticket = 1;  // the first that was ever drawn
    d->ask(
        {.deadline = d->now + 1h, .cookie = 9, .ticket = ticket, .arrived = d->now, .again = true});
    EXPECT_EQ(d->said(), "9 gets 0");
}

}  // namespace
}  // namespace cenote::core
