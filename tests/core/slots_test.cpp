// States that add up, and the idle in the order they are lent.
#include "core/slots.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

instant at(std::int64_t ms) { return instant{} + std::chrono::milliseconds{ms}; }

void make_idle(slots& s, slot_id id, std::int64_t since) {
    s.enter(id, slot_state::opening);
    s[id].idle_since = at(since);
    s.make_fresh(id);
}

std::vector<slot_id> listed(const slots& s, idle_kind kind) {
    std::vector<slot_id> result;
    for (slot_id id = s.oldest(kind); id != no_slot; id = s[id].next) result.push_back(id);
    return result;
}

TEST(slots, are_vacant_at_first) {
    slots s(3);
    s.check();
    EXPECT_EQ(s.count(slot_state::vacant), 3u);
    EXPECT_EQ(s.total(), 0u);
    EXPECT_EQ(s.vacant(), 0u);
}

TEST(slots, are_counted_by_state) {
    slots s(3);
    s.enter(0, slot_state::opening);
    s.enter(1, slot_state::opening);
    s.enter(0, slot_state::closing);
    s.check();
    EXPECT_EQ(s.count(slot_state::opening), 1u);
    EXPECT_EQ(s.count(slot_state::closing), 1u);
    EXPECT_EQ(s.total(), 2u);
}

TEST(slots, fill_the_one_vacated_last) {
    slots s(3);
    s.enter(0, slot_state::opening);
    s.enter(1, slot_state::opening);
    s.enter(0, slot_state::vacant);
    EXPECT_EQ(s.vacant(), 0u);
    s.enter(1, slot_state::vacant);
    EXPECT_EQ(s.vacant(), 1u);
}

TEST(slots, are_fresh_in_the_order_of_their_last_use) {
    slots s(4);
    make_idle(s, 0, 30);
    make_idle(s, 1, 10);
    make_idle(s, 2, 20);
    make_idle(s, 3, 20);
    s.check();
    EXPECT_EQ(listed(s, idle_kind::fresh), (std::vector<slot_id>{1, 2, 3, 0}));
    EXPECT_EQ(s.newest(idle_kind::fresh), 0u);
}

TEST(slots, are_stale_and_doomed_in_the_order_they_became_so) {
    slots s(4);
    for (slot_id id = 0; id < 4; ++id) make_idle(s, id, id);
    s.move(2, idle_kind::stale);
    s.move(0, idle_kind::stale);
    s.move(3, idle_kind::doomed);
    s.move(2, idle_kind::doomed);
    s.check();
    EXPECT_EQ(listed(s, idle_kind::fresh), (std::vector<slot_id>{1}));
    EXPECT_EQ(listed(s, idle_kind::stale), (std::vector<slot_id>{0}));
    EXPECT_EQ(listed(s, idle_kind::doomed), (std::vector<slot_id>{3, 2}));
    EXPECT_EQ(s.doomed(), 2u);
}

TEST(slots, leave_their_list_when_they_leave_idle) {
    slots s(2);
    make_idle(s, 0, 0);
    make_idle(s, 1, 1);
    s.move(0, idle_kind::doomed);
    s.enter(0, slot_state::closing);
    s.enter(1, slot_state::leased);
    s.check();
    EXPECT_EQ(s.doomed(), 0u);
    EXPECT_EQ(s.oldest(idle_kind::fresh), no_slot);
}

TEST(slots, stay_expiring_until_they_go) {
    slots s(2);
    make_idle(s, 0, 0);
    s.mark_expiring(0);
    s.mark_expiring(0);
    EXPECT_EQ(s.expiring(), 1u);
    s.move(0, idle_kind::stale);
    EXPECT_EQ(s.expiring(), 1u);
    s.move(0, idle_kind::doomed);
    EXPECT_EQ(s.expiring(), 0u);
    s.check();
}

TEST(slots, stop_being_expiring_when_they_are_lent) {
    slots s(1);
    make_idle(s, 0, 0);
    s.mark_expiring(0);
    s.enter(0, slot_state::leased);
    EXPECT_EQ(s.expiring(), 0u);
    EXPECT_FALSE(s[0].expiring);
}

TEST(slots, become_more_and_the_first_new_one_is_filled_next) {
    slots s(2);
    make_idle(s, 0, 0);
    s.make_places(5);
    s.check();
    EXPECT_EQ(s.places(), 5u);
    EXPECT_EQ(s.max(), 2u);
    EXPECT_EQ(s.count(slot_state::vacant), 4u);
    EXPECT_EQ(s.total(), 1u);
    EXPECT_EQ(s.vacant(), 2u);
    EXPECT_EQ(listed(s, idle_kind::fresh), (std::vector<slot_id>{0}));
}

TEST(slots, do_not_become_fewer) {
    slots s(3);
    s.make_places(1);
    s.resize(1);
    s.check();
    EXPECT_EQ(s.places(), 3u);
    EXPECT_EQ(s.max(), 1u);
    EXPECT_EQ(s.room(), 1u);
}

TEST(slots, have_room_up_to_max_and_are_surplus_beyond_unless_they_are_going) {
    slots s(3);
    EXPECT_EQ(s.room(), 3u);
    for (slot_id id = 0; id < 3; ++id) make_idle(s, id, id);
    EXPECT_EQ(s.room(), 0u);
    EXPECT_FALSE(s.surplus());
    s.resize(1);
    EXPECT_EQ(s.room(), 0u);
    EXPECT_TRUE(s.surplus());
    s.move(0, idle_kind::doomed);
    EXPECT_TRUE(s.surplus());
    s.enter(1, slot_state::closing);
    EXPECT_FALSE(s.surplus());
    EXPECT_EQ(s.room(), 0u) << "they count until they are gone";
    s.enter(0, slot_state::closing);
    for (slot_id id : {0u, 1u}) s.enter(id, slot_state::vacant);
    EXPECT_EQ(s.room(), 0u);
    EXPECT_EQ(s.total(), 1u);
    s.resize(3);
    EXPECT_EQ(s.room(), 2u);
    s.check();
}

using slots_death = testing::Test;

TEST_F(slots_death, stop_the_program_when_there_are_fewer_places_than_max) {
    slots s(1);
    EXPECT_DEATH(s.resize(2), "there are as many places as there may be resources");
}

TEST_F(slots_death, stop_the_program_when_one_enters_the_state_it_is_in) {
    slots s(1);
    s.enter(0, slot_state::opening);
    EXPECT_DEATH(s.enter(0, slot_state::opening), "a slot changes its state");
}

TEST_F(slots_death, stop_the_program_when_none_is_vacant) {
    slots s(1);
    s.enter(0, slot_state::opening);
    EXPECT_DEATH((void)s.vacant(), "there is a vacant slot");
}

TEST(slots, lends_and_takes_back_as_enter_and_make_fresh_do) {
    slots s(4);
    auto put = [&](slot_id id, int ms) {
        s[id].idle_since = instant{} + std::chrono::milliseconds{ms};
        s.take_back(id);
        s.check();
    };
    for (slot_id id : {0u, 1u, 2u}) {
        s.enter(id, slot_state::leased);
        put(id, 10 * static_cast<int>(id));
    }
    s.lend(1);
    s.check();
    EXPECT_EQ(s.count(slot_state::leased), 1u);
    EXPECT_EQ(s.oldest(idle_kind::fresh), 0u);
    put(1, 5);  // used before the newest: it finds its place
    EXPECT_EQ(s.newest(idle_kind::fresh), 2u);
    s.lend(2);
    s.lend(0);
    s.lend(1);
    s.check();
    EXPECT_EQ(s.newest(idle_kind::fresh), no_slot);
    EXPECT_EQ(s.count(slot_state::leased), 3u);
}

}  // namespace
}  // namespace cenote::core
