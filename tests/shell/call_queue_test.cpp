// The queue of jobs: their order, and jobs that are removed.
#include "shell/call_queue.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using cenote::core::slot_id;
using cenote::core::verb;
using cenote::shell::call_queue;
using cenote::shell::job;
using testing::ElementsAre;
using testing::IsEmpty;
namespace detail = cenote::detail;

namespace {

struct thing final : detail::resource {
    explicit thing(slot_id in) { slot = in; }
    void destroy() noexcept override {}
};

/// Only its address counts.
struct fake_connector final : detail::any_connector {
    detail::connector_abilities abilities() const noexcept override { return {}; }
    bool before_acquire(detail::resource&) override { return true; }
    cenote::verdict before_release(detail::resource&) override { return cenote::verdict::keep; }
    cenote::verdict classify(const std::exception_ptr&) const noexcept override {
        return cenote::verdict::discard;
    }
    cenote::verdict classify_open(const std::exception_ptr&) const noexcept override {
        return cenote::verdict::discard;
    }
    void forsake(detail::resource&) noexcept override {}
};

struct fake_waiter final : detail::waiter {
    void notify() noexcept override {}
};

struct call_queue_test : testing::Test {
    call_queue calls{4};
    std::uint64_t before = 0;

    call_queue::added add(slot_id slot, std::uint64_t number, verb what = verb::probe) {
        return calls.add({.which = what, .slot = slot, .call = number, .on = calls.in(slot)},
                         before);
    }
    /// Takes out all calls. Returns their numbers.
    std::vector<std::uint64_t> all() {
        std::vector<std::uint64_t> numbers;
        for (job j; numbers.size() < 10 && calls.next(j);) numbers.push_back(j.call);
        return numbers;
    }
};

}  // namespace

TEST_F(call_queue_test, is_empty_at_first) {
    job j;
    EXPECT_FALSE(calls.next(j));
    EXPECT_EQ(calls.waiting(), 0U);
    EXPECT_EQ(calls.slots(), 4U);
    for (slot_id id = 0; id < 4; ++id) EXPECT_EQ(calls.in(id), nullptr);
}

TEST_F(call_queue_test, makes_calls_in_the_order_of_arrival) {
    for (slot_id id : {2U, 0U, 3U}) EXPECT_EQ(add(id, 10 + id), call_queue::added::queued);
    EXPECT_EQ(calls.waiting(), 3U);
    EXPECT_THAT(all(), ElementsAre(12, 10, 13));
    EXPECT_EQ(calls.waiting(), 0U);
    add(3, 23);
    add(0, 20);  // in front of 3 before
    EXPECT_THAT(all(), ElementsAre(23, 20));
}

TEST_F(call_queue_test, names_the_connector_and_the_resource_of_a_call) {
    thing r(1);
    r.made_by = detail::connector_ref(new fake_connector);
    calls.in(1) = &r;
    add(1, 7, verb::reset);
    job j;
    ASSERT_TRUE(calls.next(j));
    EXPECT_EQ(j.which, verb::reset);
    EXPECT_EQ(j.slot, 1U);
    EXPECT_EQ(j.on, &r);
    EXPECT_EQ(j.by, r.made_by.get());
    EXPECT_TRUE(r.busy);
}

TEST_F(call_queue_test, makes_only_the_last_call_for_a_slot) {
    add(0, 1, verb::open);
    add(1, 2);
    EXPECT_EQ(add(0, 3, verb::close), call_queue::added::replaced);
    EXPECT_EQ(before, 1U);
    EXPECT_EQ(calls.waiting(), 2U);
    EXPECT_THAT(all(), ElementsAre(3, 2));  // where the first one was
}

TEST_F(call_queue_test, blocks_a_call_while_another_one_of_its_slot_runs) {
    thing r(0);
    calls.in(0) = &r;
    add(0, 1);
    EXPECT_THAT(all(), ElementsAre(1));
    EXPECT_EQ(add(0, 2, verb::close), call_queue::added::blocked);
    EXPECT_EQ(before, 1U);
    EXPECT_EQ(calls.waiting(), 0U);
    r.busy = false;
    calls.add_blocked(0);
    EXPECT_EQ(calls.waiting(), 1U);
    EXPECT_THAT(all(), ElementsAre(2));
}

TEST_F(call_queue_test, removes_a_call_at_any_position) {
    for (slot_id gone : {0U, 1U, 2U, 3U}) {
        for (slot_id id = 0; id < 4; ++id) add(id, id);
        EXPECT_TRUE(calls.remove(gone));
        EXPECT_FALSE(calls.remove(gone));
        std::vector<std::uint64_t> rest;
        for (slot_id id = 0; id < 4; ++id)
            if (id != gone) rest.push_back(id);
        EXPECT_EQ(calls.waiting(), 3U);
        EXPECT_EQ(all(), rest);
    }
}

TEST_F(call_queue_test, visits_each_waiting_call) {
    add(3, 30);
    add(1, 10);
    std::vector<std::uint64_t> seen;
    calls.for_each_call([&](const job& each) { seen.push_back(each.call); });
    EXPECT_THAT(seen, ElementsAre(30, 10));
    EXPECT_EQ(calls.waiting(), 2U);
}

TEST_F(call_queue_test, grows_and_keeps_its_contents) {
    thing r(2);
    calls.in(2) = &r;
    add(2, 20);
    calls.grow(100);
    EXPECT_EQ(calls.slots(), 100U);
    EXPECT_EQ(calls.in(2), &r);
    EXPECT_EQ(calls.in(99), nullptr);
    add(99, 990);
    EXPECT_THAT(all(), ElementsAre(20, 990));
}

TEST_F(call_queue_test, closes_orphans) {
    thing r(3);
    calls.add_orphan(&r);
    EXPECT_TRUE(r.orphan);
    EXPECT_EQ(calls.next_orphan(), &r);
    job j;
    ASSERT_TRUE(calls.next(j));
    EXPECT_EQ(j.which, verb::close);
    EXPECT_EQ(j.slot, 3U);
    EXPECT_EQ(j.call, 0U);
    EXPECT_EQ(j.on, &r);
    EXPECT_EQ(calls.waiting(), 0U);
    EXPECT_EQ(calls.next_orphan(), nullptr);
}

TEST_F(call_queue_test, leaves_a_busy_orphan_to_the_thread_that_calls) {
    thing r(3);
    r.busy = true;
    calls.add_orphan(&r);
    EXPECT_TRUE(r.orphan);
    EXPECT_EQ(calls.waiting(), 0U);
}

TEST_F(call_queue_test, removes_a_check_at_any_position) {
    fake_waiter w[3];
    for (fake_waiter& gone : w) {
        for (fake_waiter& each : w) calls.add_check(each);
        EXPECT_TRUE(calls.remove_check(gone));
        EXPECT_FALSE(calls.remove_check(gone));
        EXPECT_EQ(calls.waiting(), 2U);
        fake_waiter last;
        calls.add_check(last);
        std::vector<const detail::waiter*> found;
        for (job j; calls.next(j);) found.push_back(j.checks_for);
        EXPECT_EQ(found.size(), 3U);
        EXPECT_EQ(found.back(), &last);
        EXPECT_EQ(std::ranges::count(found, &gone), 0);
    }
}

TEST_F(call_queue_test, serves_waiters_before_calls_and_calls_before_orphans) {
    thing orphan(3);
    fake_waiter who;
    calls.add_orphan(&orphan);
    add(0, 5);
    calls.add_check(who);
    EXPECT_EQ(calls.waiting(), 3U);
    job j;
    ASSERT_TRUE(calls.next(j));
    EXPECT_EQ(j.checks_for, &who);
    EXPECT_EQ(j.on, nullptr);
    ASSERT_TRUE(calls.next(j));
    EXPECT_EQ(j.checks_for, nullptr);
    EXPECT_EQ(j.call, 5U);
    ASSERT_TRUE(calls.next(j));
    EXPECT_EQ(j.on, &orphan);
    EXPECT_FALSE(calls.next(j));
}

TEST_F(call_queue_test, restarts_empty) {
    thing r(0);
    thing orphan(3);
    fake_waiter who;
    calls.in(0) = &r;
    add(0, 1);
    calls.add_orphan(&orphan);
    calls.add_check(who);
    calls.restart();
    EXPECT_EQ(calls.waiting(), 0U);
    EXPECT_EQ(calls.in(0), nullptr);
    EXPECT_THAT(all(), IsEmpty());
    EXPECT_EQ(calls.next_orphan(), nullptr);
    EXPECT_FALSE(calls.remove(0));
    add(2, 4);
    EXPECT_THAT(all(), ElementsAre(4));
}
