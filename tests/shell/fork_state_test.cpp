// What becomes of the parent's resources, in a process that only says that it is another one.
#include "shell/fork_state.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/machine_dialogue.hpp"

using cenote::shell::call_queue;
using cenote::shell::errands;
using cenote::shell::fork_state;
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

struct someone final : detail::waiter {
    void notify() noexcept override {}
};

struct fork_state_test : testing::Test {
    static constexpr core::slot_id slots = 3;

    core::dialogue talk{cenote::options{.max = slots}};
    call_queue calls{slots};
    fork_state forks;
    const detail::process_number parent = detail::this_process;

    ~fork_state_test() override { detail::this_process = parent; }

    /// As in the child of a fork.
    static void fork() { ++detail::this_process; }

    void disown_all() { forks.disown_all(talk.it, calls); }
    /// A lease of a new resource.
    void lend(thing& r) {
        talk.ask(1);
        talk.finish_calls();
        r.slot = talk.slot_of(1);
        calls.in(r.slot) = &r;
    }
    std::vector<detail::resource*> to_forsake() {
        errands todo;
        forks.forsake_later(todo);
        std::vector<detail::resource*> all;
        for (detail::resource* r = todo.foreign; r != todo.foreign_end; r = r->next_orphan)
            all.push_back(r);
        return all;
    }
};

}  // namespace

TEST_F(fork_state_test, is_not_behind_in_the_process_it_was_made_in) {
    EXPECT_FALSE(forks.is_behind());
    EXPECT_FALSE(forks.must_begin());
    EXPECT_FALSE(forks.take_beginning());
}

TEST_F(fork_state_test, is_behind_after_a_fork_until_the_keeper_has_begun_again) {
    fork();
    EXPECT_TRUE(forks.is_behind());
    forks.has_begun();
    EXPECT_FALSE(forks.is_behind());
    fork();
    EXPECT_TRUE(forks.is_behind());
}

TEST_F(fork_state_test, leaves_the_beginning_to_one_caller) {
    fork();
    forks.has_begun();
    EXPECT_TRUE(forks.must_begin());
    EXPECT_TRUE(forks.take_beginning());
    EXPECT_FALSE(forks.take_beginning());
    EXPECT_FALSE(forks.must_begin());
}

TEST_F(fork_state_test, knows_what_is_from_another_process) {
    thing r(0);
    someone waits;
    someone rests;
    waits.process = detail::this_process;
    EXPECT_FALSE(cenote::shell::is_foreign(&r));
    EXPECT_FALSE(cenote::shell::is_forgotten(waits));
    fork();
    EXPECT_TRUE(cenote::shell::is_foreign(&r));
    EXPECT_TRUE(cenote::shell::is_forgotten(waits));
    EXPECT_FALSE(cenote::shell::is_forgotten(rests));
}

TEST_F(fork_state_test, forsakes_nothing_in_the_process_it_was_made_in) {
    thing r(0);
    calls.in(0) = &r;
    disown_all();
    EXPECT_EQ(calls.in(0), &r);
    EXPECT_THAT(to_forsake(), IsEmpty());
}

TEST_F(fork_state_test, forsakes_what_no_borrower_holds) {
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
    disown_all();
    for (core::slot_id id = 0; id < slots; ++id) EXPECT_EQ(calls.in(id), nullptr);
    EXPECT_THAT(to_forsake(), UnorderedElementsAre(&idle, &orphan));
    EXPECT_THAT(to_forsake(), IsEmpty());
}

TEST_F(fork_state_test, forsakes_what_lay_on_the_shelf_though_it_is_leased) {
    thing lent(0);
    lend(lent);
    lent.orphan = true;  // so the keeper marks it when it empties the shelf
    fork();
    disown_all();
    EXPECT_THAT(to_forsake(), UnorderedElementsAre(&lent));
}

TEST_F(fork_state_test, sorts_only_once_in_each_process) {
    thing a(0);
    thing b(1);
    calls.in(0) = &a;
    fork();
    disown_all();
    calls.in(1) = &b;  // the child's own
    disown_all();
    EXPECT_EQ(calls.in(1), &b);
    EXPECT_THAT(to_forsake(), UnorderedElementsAre(&a));
    fork();
    disown_all();
    EXPECT_THAT(to_forsake(), UnorderedElementsAre(&b));  // the first was told already
    EXPECT_EQ(b.next_orphan, &a);                         // and is kept
}

TEST_F(fork_state_test, keeps_what_is_inherited_until_it_is_given_up) {
    thing a(0);
    thing b(1);
    thing c(2);
    for (thing* each : {&a, &b, &c}) forks.inherit(each);
    forks.disinherit(&b);
    forks.disinherit(&b);  // it may have gone already
    EXPECT_EQ(c.next_orphan, &a);
    forks.disinherit(&c);
    forks.disinherit(&a);
    forks.inherit(&b);
    EXPECT_EQ(b.next_orphan, nullptr);
}
