// Units of work: nobody finds anything of whoever had one before, whatever goes wrong.
#include "cenote/unit_of_work.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"
#include "support/task.hpp"

using namespace std::chrono_literals;
using cenote::retire_reason;
using cenote::unit_hook;
using cenote::unit_hooks;
using cenote::unit_of_work;
using cenote::verdict;
using support::door;
using support::eventually;
using support::plenty;
using support::recorder;
using testing::ElementsAre;
using testing::IsEmpty;
using enum cenote::event_kind;

namespace {

/// What was done to the units of a test, in order, and what is to go wrong.
struct book {
    void note(std::string what) {
        std::lock_guard lock(mutex);
        notes.push_back(std::move(what));
        where.push_back(std::this_thread::get_id());
    }
    std::vector<std::string> all() const {
        std::lock_guard lock(mutex);
        return notes;
    }
    std::vector<std::thread::id> threads() const {
        std::lock_guard lock(mutex);
        return where;
    }

    support::script<bool> on_rollback;
    support::script<bool> on_clear;
    support::script<bool> on_broken;
    std::atomic<int> made{0};

    mutable std::mutex mutex;
    std::vector<std::string> notes;
    std::vector<std::thread::id> where;
};

/// What a user leaves in a unit, and nothing that would undo it.
struct bare {
    bool untouched() const { return user.empty() && !in_transaction; }
    void use(const char* who) {
        user = who;
        in_transaction = true;
    }

    int id = 0;
    std::string user{};
    bool in_transaction = false;
    bool lost = false;
};

/// Undoes it, as the session of an ORM does.
struct session : bare {
    session(std::shared_ptr<book> with, int number) : bare{.id = number}, by(std::move(with)) {}

    void rollback() {
        by->note("rollback");
        by->on_rollback(id);
        in_transaction = false;
    }
    void clear() {
        by->note("clear");
        by->on_clear(id);
        user.clear();
    }
    bool broken() const {
        by->note("broken?");
        by->on_broken(id);
        return lost;
    }

    std::shared_ptr<book> by;
};

/// One whose answers have to be explained.
struct wordy : bare {
    std::error_code rollback() { return in_transaction = false, std::error_code{}; }
    void clear() { user.clear(); }
    int broken() const { return lost ? 1 : 0; }
};

struct unit_of_work_pool : testing::Test {
    std::function<session()> make() const {
        return [by = by] { return session(by, ++by->made); };
    }
    cenote::options single() const {
        return {.max = 1,
                .acquire_timeout = plenty,
                .probe_timeout = plenty,
                .reset_timeout = plenty,
                .close_timeout = plenty,
                .observers = {watch}};
    }
    /// Why units were retired, each time.
    std::vector<retire_reason> reasons() const {
        std::vector<retire_reason> all;
        for (const auto& e : watch->seen())
            if (e.kind == retired) all.push_back(e.why);
        return all;
    }
    /// What was thrown by resets that failed; "nothing" where nothing was.
    std::vector<std::string> causes() const {
        std::vector<std::string> all;
        for (const auto& e : watch->seen()) {
            if (e.kind != reset_failed) continue;
            try {
                if (e.cause != nullptr) std::rethrow_exception(e.cause);
                all.emplace_back("nothing");
            } catch (const std::exception& what) {
                all.emplace_back(what.what());
            }
        }
        return all;
    }
    bool closes(std::size_t count) const {
        return eventually([&] { return watch->count(closed) == count; });
    }
    /// Somebody uses it and leaves everything as it is.
    static int leave_a_mess(cenote::pool<session>& units) {
        auto held = units.acquire();
        held->use("ann");
        return held->id;
    }
    static bool fails(int) { throw std::runtime_error("not today"); }

    std::shared_ptr<book> by = std::make_shared<book>();
    std::shared_ptr<recorder> watch =
        std::make_shared<recorder>(std::set{retired, reset_failed, probe_failed, closed});
};

/// A unit of work of the plainest type, with hooks for what it lacks.
unit_of_work<bare> of_bare(unit_hooks<bare> hooks) {
    return unit_of_work<bare>{
        [n = std::make_shared<std::atomic<int>>(0)] { return bare{.id = ++*n}; }, std::move(hooks)};
}
void roll_back(bare& unit) { unit.in_transaction = false; }
void forget(bare& unit) { unit.user.clear(); }

support::task borrow(cenote::pool<session>& units, support::loop& where,
                     std::optional<cenote::lease<session>>& held) {
    held = co_await units.co_acquire().resumed_by(support::on(where));
}

}  // namespace

static_assert(cenote::connector<unit_of_work<session>, session>);
static_assert(!cenote::connector<unit_of_work<session>, bare*>);
static_assert(std::is_constructible_v<cenote::pool<session>, unit_of_work<session>>);
static_assert(std::is_constructible_v<unit_of_work<session>, session (*)()>);
static_assert(!std::is_convertible_v<std::function<session()>, unit_of_work<session>>);
static_assert(!std::is_constructible_v<unit_of_work<session>, std::string (*)()>);
static_assert(std::is_convertible_v<void (*)(bare&), unit_hook<bare>>);
static_assert(std::is_convertible_v<bool (*)(const bare&), unit_hook<bare>>);
static_assert(!std::is_convertible_v<bool (*)(bare*), unit_hook<bare>>);
static_assert(!std::is_convertible_v<bool (*)(std::string&), unit_hook<bare>>);
static_assert(std::is_same_v<decltype(unit_of_work{[] { return bare{}; }}), unit_of_work<bare>>);
static_assert(std::is_same_v<decltype(unit_of_work{[] { return bare{}; }, {.clear = forget}}),
                             unit_of_work<bare>>);

TEST_F(unit_of_work_pool, the_next_user_finds_nothing_of_the_last_one) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    leave_a_mess(units);
    auto next = units.acquire();
    EXPECT_EQ(next->id, 1) << "the same one";
    EXPECT_TRUE(next->untouched());
}

TEST_F(unit_of_work_pool, rolls_back_and_then_clears) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    EXPECT_THAT(by->all(), IsEmpty());
    leave_a_mess(units);
    (void)units.acquire();
    EXPECT_TRUE(eventually([&] { return units.stats().idle == 1; }));
    EXPECT_THAT(by->all(), ElementsAre("broken?", "rollback", "clear", "broken?",  //
                                       "broken?", "rollback", "clear", "broken?"));
}

TEST_F(unit_of_work_pool, also_undoes_what_a_throwing_user_left) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    try {
        auto held = units.acquire();
        held->use("ann");
        throw std::runtime_error("of the user's own");
    } catch (const std::runtime_error&) {
        SUCCEED();
    }
    EXPECT_TRUE(units.acquire()->untouched());
    EXPECT_EQ(by->made, 1);
}

TEST_F(unit_of_work_pool, asks_its_user_for_a_look_and_undoes_on_threads_of_the_pool) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    leave_a_mess(units);
    EXPECT_TRUE(eventually([&] { return units.stats().idle == 1; }));
    auto here = std::this_thread::get_id();
    EXPECT_THAT(by->threads(),
                ElementsAre(here, testing::Ne(here), testing::Ne(here), testing::Ne(here)));
}

TEST_F(unit_of_work_pool, nobody_waits_for_a_slow_rollback_but_whoever_wants_the_unit) {
    door way;
    by->on_rollback = [way](int) { return way.pass_through(); };
    auto settings = single();
    settings.reset_timeout = plenty;
    cenote::pool<session> units{unit_of_work<session>{make()}, settings};
    leave_a_mess(units);  // returns
    EXPECT_TRUE(eventually([&] { return way.waiting() == 1; }));
    EXPECT_FALSE(units.try_acquire()) << "not before it is undone";
    std::jthread next([&] {
        auto held = units.acquire();
        EXPECT_EQ(held->id, 1);
        EXPECT_TRUE(held->untouched());
    });
    EXPECT_TRUE(support::lines_up(units, 1));
    way.open();
}

TEST_F(unit_of_work_pool, a_coroutine_gets_it_when_it_is_undone) {
    door way;
    support::loop where;
    by->on_clear = [way](int) { return way.pass_through(); };
    auto settings = single();
    settings.reset_timeout = plenty;
    cenote::pool<session> units{unit_of_work<session>{make()}, settings};
    leave_a_mess(units);
    std::optional<cenote::lease<session>> held;
    auto next = borrow(units, where, held);
    next.start();
    EXPECT_TRUE(support::lines_up(units, 1));
    EXPECT_EQ(where.ready(), 0U);
    way.open();
    ASSERT_TRUE(eventually([&] { return where.ready() == 1; }));
    where.run();
    ASSERT_TRUE(next.done());
    EXPECT_EQ((*held)->id, 1);
    EXPECT_TRUE((*held)->untouched());
}

TEST_F(unit_of_work_pool, a_broken_one_is_rejected) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    units.acquire()->lost = true;
    auto next = units.acquire();
    EXPECT_EQ(next->id, 2);
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::rejected));
    EXPECT_THAT(by->all(), ElementsAre("broken?")) << "what is broken is not asked for more";
}

TEST_F(unit_of_work_pool, one_that_cannot_say_whether_it_is_broken_is_rejected) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    by->on_broken = [](int id) { return id == 1 ? fails(id) : true; };
    leave_a_mess(units);
    EXPECT_EQ(units.acquire()->id, 2);
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::rejected));
    EXPECT_EQ(by->all().front(), "broken?");
}

TEST_F(unit_of_work_pool, one_that_cannot_be_rolled_back_is_retired_with_the_cause) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    by->on_rollback = [](int id) { return id == 1 ? fails(id) : true; };
    leave_a_mess(units);
    auto next = units.acquire();
    EXPECT_EQ(next->id, 2);
    EXPECT_TRUE(next->untouched());
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::reset_failed));
    EXPECT_THAT(causes(), ElementsAre("not today"));
    EXPECT_THAT(by->all(), ElementsAre("broken?", "rollback")) << "and is left alone";
}

TEST_F(unit_of_work_pool, one_that_cannot_be_cleared_is_retired_with_the_cause) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    by->on_clear = [](int id) { return id == 1 ? fails(id) : true; };
    leave_a_mess(units);
    auto next = units.acquire();
    EXPECT_EQ(next->id, 2);
    EXPECT_TRUE(next->untouched());
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::reset_failed));
    EXPECT_THAT(causes(), ElementsAre("not today"));
    EXPECT_THAT(by->all(), ElementsAre("broken?", "rollback", "clear"));
}

// The rollback finds that the connection is lost, and notes it instead of throwing.
TEST_F(unit_of_work_pool, one_that_turns_out_to_be_broken_while_it_is_undone_is_retired) {
    cenote::pool<bare> units{of_bare({.rollback = [](bare& unit) { unit.lost = unit.id == 1; },
                                      .clear = forget,
                                      .broken = &bare::lost}),
                             single()};
    units.acquire()->use("ann");
    EXPECT_EQ(units.acquire()->id, 2);
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::reset_failed));
    EXPECT_THAT(causes(), ElementsAre("nothing"));
}

TEST_F(unit_of_work_pool, one_that_takes_too_long_to_undo_is_retired) {
    door way;
    by->on_rollback = [way](int id) { return id != 1 || way.pass_through(); };
    auto settings = single();
    settings.max = 2;  // a call that hangs keeps its slot for a while
    settings.reset_timeout = 1ms;
    cenote::pool<session> units{unit_of_work<session>{make()}, settings};
    leave_a_mess(units);
    EXPECT_TRUE(eventually([&] { return reasons().size() == 1; }));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::reset_failed));
    EXPECT_NE(units.acquire()->id, 1);
    way.open();
}

TEST_F(unit_of_work_pool, hooks_may_say_no_instead_of_throwing) {
    for (bool rolls_back : {true, false}) {
        cenote::pool<bare> units{
            of_bare({.rollback = [=](bare& unit) { return rolls_back || unit.id != 1; },
                     .clear = [=](bare& unit) { return !rolls_back || unit.id != 1; }}),
            single()};
        units.acquire()->use("ann");
        EXPECT_EQ(units.acquire()->id, 2);
    }
    EXPECT_TRUE(closes(4)) << "both units of both pools";
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::reset_failed, retire_reason::reset_failed));
    EXPECT_THAT(causes(), ElementsAre("nothing", "nothing"));
}

TEST_F(unit_of_work_pool, is_made_anew_after_so_many_uses) {
    auto settings = single();
    settings.max_uses = 3;
    cenote::pool<session> units{unit_of_work<session>{make()}, settings};
    std::vector<int> lent;
    for (int i = 0; i < 7; ++i) {
        auto held = units.acquire();
        EXPECT_TRUE(held->untouched());
        held->use("ann");
        lent.push_back(held->id);
    }
    EXPECT_THAT(lent, ElementsAre(1, 1, 1, 2, 2, 2, 3));
    EXPECT_TRUE(closes(2));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::uses, retire_reason::uses));
    EXPECT_TRUE(eventually([&] { return units.stats().idle == 1; }));
    EXPECT_EQ(std::ranges::count(by->all(), "rollback"), 5) << "what ends is not rolled back";
}

TEST_F(unit_of_work_pool, hooks_are_called_instead_of_members) {
    cenote::pool<session> units{
        unit_of_work<session>{make(),
                              {.rollback = [by = by](session&) { by->note("my rollback"); },
                               .clear = [by = by](session&) { by->note("my clear"); },
                               .broken =
                                   [by = by](const session&) {
                                       by->note("my broken?");
                                       return false;
                                   }}},
        single()};
    leave_a_mess(units);
    EXPECT_TRUE(eventually([&] { return units.stats().idle == 1; }));
    EXPECT_THAT(by->all(), ElementsAre("my broken?", "my rollback", "my clear", "my broken?"));
}

TEST_F(unit_of_work_pool, members_are_called_where_there_is_no_hook) {
    void (*none)(session&) = nullptr;
    cenote::pool<session> units{unit_of_work<session>{make(),
                                                      {.rollback = none,
                                                       .clear = std::function<bool(session&)>{},
                                                       .broken = [](session&) { return false; }}},
                                single()};
    leave_a_mess(units);
    EXPECT_TRUE(units.acquire()->untouched());
    EXPECT_EQ(by->all()[0], "rollback");
    EXPECT_EQ(by->all()[1], "clear");
}

// A session that cannot be moved is pooled by a pointer.
TEST_F(unit_of_work_pool, hooks_may_be_members_of_what_the_unit_points_to) {
    using pointer = std::unique_ptr<session>;
    cenote::pool units{
        unit_of_work{
            [by = by] { return std::make_unique<session>(by, ++by->made); },
            {.rollback = &session::rollback, .clear = &session::clear, .broken = &session::broken}},
        single()};
    static_assert(std::is_same_v<decltype(units), cenote::pool<pointer>>);
    (*units.acquire())->use("ann");
    EXPECT_TRUE((*units.acquire())->untouched());
    EXPECT_EQ(by->made, 1);
    (*units.acquire())->lost = true;
    EXPECT_EQ((*units.acquire())->id, 2);
    {
        auto taken = std::move(*units.acquire());
    }
    EXPECT_EQ((*units.acquire())->id, 3) << "what is null is broken";
}

TEST_F(unit_of_work_pool, one_of_rollback_and_clear_is_enough) {
    cenote::pool<bare> rolled{of_bare({.rollback = roll_back}), single()};
    rolled.acquire()->in_transaction = true;
    EXPECT_TRUE(rolled.acquire()->untouched());
    cenote::pool<bare> cleared{of_bare({.clear = forget}), single()};
    cleared.acquire()->user = "ann";
    EXPECT_TRUE(cleared.acquire()->untouched());
}

TEST_F(unit_of_work_pool, without_anything_that_undoes_there_is_none) {
    try {
        of_bare({.broken = &bare::lost});
        FAIL() << "nothing would be undone";
    } catch (const cenote::invalid_option& e) {
        EXPECT_EQ(e.option(), "clear");
    }
    EXPECT_THROW(unit_of_work<session>{std::function<session()>{}}, cenote::invalid_option);
}

TEST_F(unit_of_work_pool, a_member_whose_answer_is_not_known_needs_a_hook) {
    auto made = [] { return wordy{}; };
    auto refused = [&](unit_hooks<wordy> hooks) {
        try {
            unit_of_work<wordy>{made, std::move(hooks)};
            return std::string{};
        } catch (const cenote::invalid_option& e) {
            return e.option();
        }
    };
    auto rolls_back = [](wordy& unit) { return !unit.rollback(); };
    auto is_broken = [](wordy& unit) { return unit.broken() != 0; };
    EXPECT_EQ(refused({}), "rollback");
    EXPECT_EQ(refused({.rollback = rolls_back}), "broken");
    EXPECT_EQ(refused({.rollback = rolls_back, .broken = is_broken}), "");
    cenote::pool units{unit_of_work{made, {.rollback = rolls_back, .broken = is_broken}}, single()};
    units.acquire()->use("ann");
    EXPECT_TRUE(units.acquire()->untouched());
}

TEST_F(unit_of_work_pool, is_probed_by_its_hook) {
    auto settings = single();
    settings.probe_after_idle = 0ns;
    cenote::pool<bare> units{
        of_bare({.clear = forget, .probe = [](bare& unit) { return unit.id != 1; }}), settings};
    (void)units.acquire();
    EXPECT_EQ(units.acquire()->id, 2);
    EXPECT_EQ(units.acquire()->id, 2);
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::probe_failed));
}

TEST_F(unit_of_work_pool, is_probed_by_its_member) {
    struct probed : bare {
        bool probe() const { return id != 1; }
    };
    auto settings = single();
    settings.probe_after_idle = 0ns;
    cenote::pool<probed> units{unit_of_work<probed>{[by = by] {
                                                        probed unit;
                                                        unit.id = ++by->made;
                                                        return unit;
                                                    },
                                                    {.clear = [](probed& unit) { forget(unit); }}},
                               settings};
    (void)units.acquire();
    EXPECT_EQ(units.acquire()->id, 2);
}

// A probe that always says yes would clear all of them of every suspicion.
TEST_F(unit_of_work_pool, without_a_probe_what_is_suspect_is_retired) {
    cenote::pool<bare> blind{of_bare({.clear = forget}), single()};
    (void)blind.acquire();
    EXPECT_TRUE(eventually([&] { return blind.stats().idle == 1; }));
    blind.suspect_all();
    EXPECT_EQ(blind.acquire()->id, 2);
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::generation));

    cenote::pool<bare> seeing{of_bare({.clear = forget, .probe = [](bare&) {}}), single()};
    (void)seeing.acquire();
    EXPECT_TRUE(eventually([&] { return seeing.stats().idle == 1; }));
    seeing.suspect_all();
    EXPECT_EQ(seeing.acquire()->id, 1);
}

TEST_F(unit_of_work_pool, after_an_exception_it_is_kept_if_it_says_that_it_is_not_broken) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    auto fail_with = [&](bool lost) {
        units.with([&](session& unit) {
            unit.use("ann");
            unit.lost = lost;
            throw std::runtime_error("of the user's own");
        });
    };
    EXPECT_THROW(fail_with(false), std::runtime_error);
    EXPECT_EQ(units.acquire()->id, 1);
    EXPECT_TRUE(units.acquire()->untouched());
    EXPECT_THROW(fail_with(true), std::runtime_error);
    EXPECT_EQ(units.acquire()->id, 2);
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::rejected));
}

TEST_F(unit_of_work_pool, after_an_exception_it_is_discarded_if_it_cannot_say) {
    cenote::pool<bare> units{of_bare({.rollback = roll_back, .clear = forget}), single()};
    EXPECT_THROW(units.with([](bare&) { throw std::runtime_error("whatever it means"); }),
                 std::runtime_error);
    EXPECT_EQ(units.acquire()->id, 2);
    EXPECT_EQ(units.stats().discarded, 1U);
}

TEST_F(unit_of_work_pool, what_an_exception_means_can_be_said) {
    auto says = std::make_shared<std::atomic<verdict>>(verdict::keep);
    cenote::pool<bare> units{
        of_bare({.rollback = roll_back,
                 .clear = forget,
                 .classify = [says](const std::exception_ptr&) { return says->load(); }}),
        single()};
    auto fail = [&] {
        units.with([](bare& unit) {
            unit.use("ann");
            throw std::runtime_error("whatever it means");
        });
    };
    EXPECT_THROW(fail(), std::runtime_error);
    EXPECT_EQ(units.acquire()->id, 1);
    EXPECT_TRUE(units.acquire()->untouched()) << "also what is kept is undone";
    *says = verdict::discard;
    EXPECT_THROW(fail(), std::runtime_error);
    EXPECT_EQ(units.acquire()->id, 2);
}

TEST_F(unit_of_work_pool, a_unit_that_can_never_be_made_is_told_at_once) {
    auto make_none = []() -> session { throw std::runtime_error("no such database"); };
    cenote::pool<session> units{
        unit_of_work<session>{make_none, {.classify = [](const auto&) { return verdict::final; }}},
        single()};
    EXPECT_THROW((void)units.acquire(), cenote::open_failed_error);
}

TEST_F(unit_of_work_pool, nothing_is_undone_for_a_unit_that_outlives_its_pool) {
    auto units = std::make_unique<cenote::pool<session>>(unit_of_work<session>{make()}, single());
    auto held = units->acquire();
    units.reset();
    held.give_back();
    EXPECT_THAT(by->all(), ElementsAre("broken?"));
    EXPECT_EQ(by.use_count(), 1) << "neither the unit nor what made it is left";
}

TEST_F(unit_of_work_pool, no_user_among_many_meets_another_one) {
    by->on_rollback = [](int id) { return id % 7 == 0 ? fails(id) : true; };
    by->on_clear = [](int id) { return id % 5 == 0 ? fails(id) : true; };
    std::atomic<int> meetings{0};
    {
        cenote::pool<session> units{unit_of_work<session>{make()},
                                    {.max = 2, .acquire_timeout = plenty, .max_uses = 9}};
        std::vector<std::jthread> users;
        for (int u = 0; u < 4; ++u)
            users.emplace_back([&, u] {
                for (int i = 0; i < support::rounds(500); ++i) {
                    auto held = units.acquire();
                    if (!held->untouched() || held->lost) ++meetings;
                    held->use("ann");
                    held->lost = i % (11 + u) == 0;
                }
            });
    }
    EXPECT_EQ(meetings, 0);
    EXPECT_GT(by->made, 2);
    EXPECT_EQ(by.use_count(), 1);
}
