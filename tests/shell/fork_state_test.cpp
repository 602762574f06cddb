// What becomes of the parent's resources in the child of a fork. The fork is simulated: only the
// process number changes.
#include "shell/fork_state.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/machine_dialogue.hpp"

using cenote::shell::call_queue;
using cenote::shell::fork_state;
using cenote::shell::pending_actions;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
namespace core = cenote::core;
namespace detail = cenote::detail;

namespace {

struct thing final : detail::resource {
    explicit thing(core::slot_id in) {
        slot = in;
        process = detail::this_process;
    }
    void destroy() noexcept override {}
};

struct fake_waiter final : detail::waiter {
    void notify() noexcept override {}
};

struct fork_state_test : testing::Test {
    static constexpr core::slot_id slots = 3;

    core::dialogue talk{cenote::options{.max = slots}};
    call_queue calls{slots};
    fork_state forks;
    const detail::process_number parent = detail::this_process;

    ~fork_state_test() override { detail::this_process = parent; }

    static void fork() { ++detail::this_process; }

    void take_foreign() { forks.take_foreign(talk.it, calls); }
    /// A lease of a new resource.
    void lend(thing& r) {
        talk.ask(1);
        talk.finish_calls();
        r.slot = talk.slot_of(1);
        calls.in(r.slot) = &r;
    }
    std::vector<detail::resource*> to_forsake() {
        pending_actions todo;
        forks.forsake_later(todo);
        std::vector<detail::resource*> all;
        for (detail::resource* r = todo.foreign; r != todo.foreign_end; r = r->next_orphan)
            all.push_back(r);
        return all;
    }
};

}  // namespace

TEST_F(fork_state_test, must_not_restart_in_its_first_process) {
    EXPECT_FALSE(forks.must_restart());
    EXPECT_FALSE(forks.must_warm_up());
    EXPECT_FALSE(forks.take_warm_up());
}

TEST_F(fork_state_test, must_restart_once_after_a_fork) {
    fork();
    EXPECT_TRUE(forks.must_restart());
    forks.restarted();
    EXPECT_FALSE(forks.must_restart());
    fork();
    EXPECT_TRUE(forks.must_restart());
}

TEST_F(fork_state_test, has_one_caller_warm_up) {
    fork();
    forks.restarted();
    EXPECT_TRUE(forks.must_warm_up());
    EXPECT_TRUE(forks.take_warm_up());
    EXPECT_FALSE(forks.take_warm_up());
    EXPECT_FALSE(forks.must_warm_up());
}

TEST_F(fork_state_test, tells_what_is_from_another_process) {
    thing r(0);
    fake_waiter waits;
    fake_waiter rests;
    waits.process = detail::this_process;
    EXPECT_FALSE(cenote::shell::is_foreign(&r));
    EXPECT_FALSE(cenote::shell::is_foreign(waits));
    fork();
    EXPECT_TRUE(cenote::shell::is_foreign(&r));
    EXPECT_TRUE(cenote::shell::is_foreign(waits));
    EXPECT_FALSE(cenote::shell::is_foreign(rests));
}

TEST_F(fork_state_test, forsakes_nothing_in_the_process_it_was_made_in) {
    thing r(0);
    calls.in(0) = &r;
    take_foreign();
    EXPECT_EQ(calls.in(0), &r);
    EXPECT_THAT(to_forsake(), IsEmpty());
}

TEST_F(fork_state_test, forsakes_resources_without_a_borrower) {
    thing lent(0);
    lend(lent);
    thing idle(1);
    calls.in(1) = &idle;
    thing busy(2);
    busy.busy = true;
    calls.in(2) = &busy;
    thing orphan(0);
    calls.add_orphan(&orphan);
    ASSERT_EQ(lent.slot, 0U);
    fork();
    take_foreign();
    for (core::slot_id id = 0; id < slots; ++id) EXPECT_EQ(calls.in(id), nullptr);
    EXPECT_THAT(to_forsake(), UnorderedElementsAre(&idle, &orphan));
    EXPECT_THAT(to_forsake(), IsEmpty());
}

TEST_F(fork_state_test, forsakes_resources_from_the_shelf) {
    thing lent(0);
    lend(lent);
    lent.orphan = true;  // as the fork handler marks what was on the shelf
    fork();
    take_foreign();
    EXPECT_THAT(to_forsake(), UnorderedElementsAre(&lent));
}

TEST_F(fork_state_test, sorts_only_once_in_each_process) {
    thing a(0);
    thing b(1);
    calls.in(0) = &a;
    fork();
    take_foreign();
    calls.in(1) = &b;  // the child's own
    take_foreign();
    EXPECT_EQ(calls.in(1), &b);
    EXPECT_THAT(to_forsake(), UnorderedElementsAre(&a));
    fork();
    take_foreign();
    EXPECT_THAT(to_forsake(), UnorderedElementsAre(&b));  // the first one was forsaken before
    EXPECT_EQ(b.next_orphan, &a);                         // and is kept
}

TEST_F(fork_state_test, keeps_resources_until_they_are_given_up) {
    thing a(0);
    thing b(1);
    thing c(2);
    for (thing* each : {&a, &b, &c}) forks.keep(each);
    forks.give_up(&b);
    forks.give_up(&b);  // given up before
    EXPECT_EQ(a.next_orphan, &c);
    forks.give_up(&c);
    forks.give_up(&a);
    forks.keep(&b);
    EXPECT_EQ(b.next_orphan, nullptr);
}
