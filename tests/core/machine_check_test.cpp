// What can be seen of the machine: counters that add up, reports in a legal order.
#include <memory>

#include "cenote/observer.hpp"
#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

constexpr abilities all = {.probe = true, .reset = true};

TEST(machine_read, counts_every_state) {
    dialogue d({.max = 6, .probe_after_idle = 5s});
    d.fill(5);
    d.pass(5s);
    for (std::uint64_t who = 1; who <= 3; ++who) d.ask(who);
    for (slot_id id : {4u, 3u, 2u}) d.probed(id);
    d.release(4, condition::dirty);
    d.release(3, condition::discard);
    d.ask(4);
    d.ask(5);
    d.ask(6);
    stats s = d.look();
    EXPECT_EQ(s.leased, 1u);
    EXPECT_EQ(s.resetting, 1u);
    EXPECT_EQ(s.closing, 1u);
    EXPECT_EQ(s.probing, 2u);
    EXPECT_EQ(s.waiting, 3u);
    EXPECT_EQ(s.total, s.leased + s.idle + s.opening + s.probing + s.resetting + s.closing);
}

TEST(machine_read, counts_every_acquire_in_exactly_one_way) {
    dialogue d({.max = 1, .line_max = 3});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.ask(3, 10ms);
    d.ask(4);
    d.ask(5);
    d.cancel(4);
    d.pass(10ms);
    d.release(0);
    d.ask(6);
    stats s = d.look();
    EXPECT_EQ(s.acquires, 7u);
    EXPECT_EQ(s.granted, 3u);
    EXPECT_EQ(s.waited, 2u);
    EXPECT_EQ(s.waiting, 1u);
    EXPECT_EQ(s.refused(errc::timed_out), 1u);
    EXPECT_EQ(s.refused(errc::canceled), 1u);
    EXPECT_EQ(s.refused(errc::line_full), 1u);
}

TEST(machine_read, counts_an_empty_try_acquire_apart) {
    dialogue d({});
    d.attempt();
    EXPECT_EQ(d.look().try_empty, 1u);
    EXPECT_EQ(d.look().acquires, 0u);
    d.opened(0);
    d.attempt();
    EXPECT_EQ(d.look().try_empty, 1u);
    EXPECT_EQ(d.look().acquires, 1u);
}

TEST(machine_read, knows_how_long_waits_holds_and_opens_took) {
    dialogue d({.max = 1});
    d.ask(1);
    d.pass(30ms);
    d.opened(0);
    d.release(0);
    d.ask(2);
    stats s = d.look();
    EXPECT_EQ(s.open.count(), 1u);
    EXPECT_GE(s.open.quantile(1), 30ms);
    EXPECT_LE(s.open.quantile(1), 38ms);
    EXPECT_EQ(s.wait.count(), 2u);
    EXPECT_GE(s.wait.quantile(1), 30ms);
    EXPECT_LT(s.wait.quantile(0.5), 1us);
    EXPECT_EQ(s.hold.count(), 1u);
    EXPECT_GE(s.hold.quantile(1), 1ms);
}

TEST(machine_report, follows_a_resource_through_its_life) {
    dialogue d({}, all, true);
    d.ask(1);
    EXPECT_EQ(d.said(), "open 0");
    d.opened(0);
    EXPECT_EQ(d.said(), "opened, acquired, 1 gets 0");
    d.release(0);
    EXPECT_EQ(d.said(), "released");
    d.pass(5min);
    EXPECT_EQ(d.said(), "retired: idle, close 0");
    d.closed(0);
    EXPECT_EQ(d.said(), "closed");
}

TEST(machine_report, says_why_a_resource_goes) {
    dialogue d({.probe_after_idle = 1s}, all, true);
    d.fill(2);
    d.ask(1);
    d.release(1, condition::discard);
    EXPECT_EQ(d.said(), "released, discarded, close 1");
    d.closed(1);
    d.pass(1s);
    d.ask(2);
    d.probed(0, outcome::failed);
    EXPECT_EQ(d.said(), "probe_failed, retired: probe_failed, close 0, open 1");
    d.opened(1, outcome::failed);
    EXPECT_EQ(d.said(), "open_failed");
}

TEST(machine_report, says_that_a_reset_failed) {
    dialogue d({}, all, true);
    d.fill(1);
    d.ask(1);
    d.release(0, condition::dirty);
    d.reset(0, outcome::failed);
    EXPECT_EQ(d.said(), "reset_failed, retired: reset_failed, close 0");
}

TEST(machine_report, says_that_a_resource_was_detached) {
    dialogue d({}, all, true);
    d.fill(1);
    d.ask(1);
    d.detach(0);
    EXPECT_EQ(d.said(), "detached");
}

TEST(machine_report, ends_with_closed_pool) {
    dialogue d({}, all, true);
    d.fill(1);
    d.close();
    EXPECT_EQ(d.said(), "closing, close 0");
    d.closed(0);
    EXPECT_EQ(d.said(), "closed, closed_pool");
}

TEST(machine_report, ends_with_closed_pool_if_there_was_nothing_to_close) {
    dialogue d({}, all, true);
    d.close();
    EXPECT_EQ(d.said(), "closing, closed_pool");
    d.close();
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_report, says_closed_pool_also_after_a_hanging_open) {
    dialogue d({.min_size = 1, .open_timeout = 1s}, all, true);
    d.close();
    EXPECT_EQ(d.said(), "closing");
    d.pass(1s);
    EXPECT_EQ(d.said(), "abandon 0, open_failed, closed_pool");
}

TEST(machine_read, begins_with_nothing) {
    machine m({.max = 2}, {}, false, 1, instant{} + 1h);
    EXPECT_EQ(m.generation(), 0u);
    EXPECT_EQ(m.settles(), 0u);
    EXPECT_EQ(m.lends(), 0u);
    EXPECT_EQ(m.set_asides(), 0u);
    EXPECT_EQ(m.last_ticket(), 0u);
    EXPECT_EQ(m.suspect_at(), long_ago);
    EXPECT_EQ(m.owed_at(), never);
    EXPECT_EQ(m.aside_at(), never);
    EXPECT_FALSE(m.anyone_waits());
    EXPECT_TRUE(m.maintains());
    EXPECT_FALSE(m.paused());
    EXPECT_EQ(m.breaker().probes(), 1u);
}

TEST(machine_read, has_actions_and_requests_that_say_nothing_unless_told) {
    EXPECT_EQ(action{}.slot, no_slot);
    EXPECT_EQ(action{}.call, 0u);
    EXPECT_EQ(action{}.cookie, 0u);
    EXPECT_EQ(action{}.successes, 0u);
    request r;
    EXPECT_EQ(r.deadline, never);
    EXPECT_EQ(r.cookie + r.ticket + r.holder + r.thread, 0u);
    EXPECT_FALSE(r.bypassable || r.again || r.cannot_wait);
    EXPECT_TRUE(r.queues);
    EXPECT_EQ(r.count, 1u);
    answer a;
    EXPECT_EQ(a.slot, no_slot);
    EXPECT_EQ(a.ticket, 0u);
    EXPECT_FALSE(a.nested);
    waiter w;
    EXPECT_EQ(w.cookie + w.ticket + w.holder, 0u);
    EXPECT_EQ(w.count, 1u);
    EXPECT_FALSE(w.bypassable || w.is_thread);
    abilities none;
    EXPECT_FALSE(none.probe || none.reset);
    EXPECT_TRUE(none.sees_freezes);
    EXPECT_EQ(none.turns, 0u);
    slot s;
    EXPECT_EQ(s.uses + s.epoch + s.holder + s.resource + s.call + s.lent + s.trial_of + s.turns,
              0u);
    EXPECT_FALSE(s.expiring || s.trial || s.begun || s.owes || s.by_thread);
    shortage nothing;
    EXPECT_EQ(nothing.of_minimum + nothing.of_spares, 0u);
}

TEST(machine_read, counts_no_wait_for_what_is_lent_at_once) {
    dialogue d({.max = 2}, {}, true);  // reports: no express
    d.fill(2);
    stats before = d.look();
    EXPECT_EQ(d.ask(1).substr(0, 3), "got");
    EXPECT_TRUE(d.attempt().has_value());
    stats after = d.look();
    EXPECT_EQ(after.granted, before.granted + 2);
    EXPECT_EQ(after.waited, before.waited);
    EXPECT_EQ(after.wait.buckets[0], before.wait.buckets[0] + 2);
}

TEST(machine_read, keeps_no_observer_alive) {
    struct silent : observer {
        void on_event(const event&) override {}
    };
    auto one = std::make_shared<silent>();
    options settings;
    settings.observers.push_back(one);
    auto uses = one.use_count();
    machine m(settings, {}, false, 1, instant{} + 1h);
    EXPECT_EQ(one.use_count(), uses);
}

TEST(machine_read, counts_refusals_after_a_wait_and_failed_opens) {
    dialogue d({.max = 1, .line_max = 1});
    d.ask(1, 5ms);
    EXPECT_EQ(d.ask(2), "refused: line_full");
    EXPECT_EQ(d.look().refused_after_wait, 0u);
    d.opened(0, outcome::failed);
    EXPECT_EQ(d.look().open_failed, 1u);
    d.pass(5ms);
    EXPECT_EQ(d.look().refused_after_wait, 1u);
    EXPECT_EQ(d.look().refused(errc::timed_out), 1u);
}

TEST(machine_read, records_no_hold_that_is_not_known) {
    dialogue d({.max = 1}, {}, true);  // reports: no express
    d.fill(1);
    d.now += 1ms;
    EXPECT_EQ(d.ask(1), "got 0");
    EXPECT_EQ(d.it.look(0).leased_at, d.now);
    stats before = d.look();
    d.it.release(d.now, 0, condition::clean, 0, std::nullopt, d.unread);
    EXPECT_EQ(d.look().released, before.released + 1);
    EXPECT_EQ(d.look().hold.count(), before.hold.count());
}

TEST(machine_report, names_no_resource_when_the_pool_is_closed) {
    dialogue d({.max = 1}, {}, true);
    d.fill(1);
    d.close();
    d.closed(0);
    ASSERT_EQ(d.heard().back().event, event_kind::closed_pool);
    EXPECT_EQ(d.heard().back().call, 0u);
}

TEST(machine_report, says_that_a_lease_ended_that_is_brought_back) {
    dialogue d({.max = 1}, {}, true);
    d.fill(1);
    d.ask(1);
    d.it.bring_back(d.now, 0, 0, d.now, false, d.unread);
    ASSERT_EQ(d.unread.size(), 1u);
    EXPECT_EQ(d.unread.front().event, event_kind::released);
}

TEST(machine_read, counts_holds_of_the_fast_lane) {
    dialogue d({.max = 1});
    std::uint64_t before = d.look().hold.count();
    d.it.note_hold(2ms);
    EXPECT_EQ(d.look().hold.count(), before + 1);
}

TEST(machine_read, knows_the_state_of_the_breaker) {
    dialogue d({.max = 1});
    EXPECT_EQ(d.look().breaker, breaker_state::active);
    d.go({.to = breaker_state::inactive, .cool_down = 1s});
    EXPECT_EQ(d.look().breaker, breaker_state::inactive);
}

TEST(machine_report, names_no_resource_when_the_pool_pauses_and_resumes) {
    dialogue d({.max = 1}, {}, true);
    d.pause();
    ASSERT_EQ(d.heard().front().event, event_kind::paused);
    EXPECT_EQ(d.heard().front().call, 0u);
    d.resume();
    ASSERT_EQ(d.heard().front().event, event_kind::resumed);
    EXPECT_EQ(d.heard().front().call, 0u);
}

TEST(machine_report, says_where_the_breaker_moved) {
    dialogue d({.max = 1}, {}, true);
    d.go({.to = breaker_state::recovering});
    ASSERT_EQ(d.heard().front().event, event_kind::breaker_changed);
    EXPECT_EQ(d.heard().front().circuit, breaker_state::recovering);
}

TEST(machine_report, names_no_resource_when_an_empty_pool_is_closed) {
    dialogue d({.max = 1}, {}, true);
    d.close();
    ASSERT_EQ(d.heard().back().event, event_kind::closed_pool);
    EXPECT_EQ(d.heard().back().call, 0u);
}

}  // namespace
}  // namespace cenote::core
