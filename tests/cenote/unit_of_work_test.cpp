// Tests units of work: no user finds state of an earlier user, even if rollback or clear fails.
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
using support::eventually;
using support::latch;
using support::plenty;
using support::recorder;
using testing::ElementsAre;
using testing::IsEmpty;
using enum cenote::event_kind;

namespace {

/// The calls on the units of a test, in order, and scripts of the calls that fail.
struct call_log {
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

/// State of a user, and no function that undoes it.
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

/// Undoes the state, as the session of an ORM does.
struct session : bare {
    session(std::shared_ptr<call_log> with, int number) : bare{.id = number}, by(std::move(with)) {}

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

    std::shared_ptr<call_log> by;
};

/// Its functions return types that a unit of work cannot interpret.
struct with_codes : bare {
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
    /// The reason of each retirement.
    std::vector<retire_reason> reasons() const {
        std::vector<retire_reason> all;
        for (const auto& e : watch->seen())
            if (e.kind == retired) all.push_back(e.why);
        return all;
    }
    /// The exception text of each failed reset; "nothing" without an exception.
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
    /// Uses a unit and undoes nothing.
    static int use_and_leave(cenote::pool<session>& units) {
        auto lease = units.acquire();
        lease->use("ann");
        return lease->id;
    }
    static bool fails(int) { throw std::runtime_error("not today"); }

    std::shared_ptr<call_log> by = std::make_shared<call_log>();
    std::shared_ptr<recorder> watch =
        std::make_shared<recorder>(std::set{retired, reset_failed, probe_failed, closed});
};

/// A unit of work of `bare`, with hooks in place of the missing functions.
unit_of_work<bare> of_bare(unit_hooks<bare> hooks) {
    return unit_of_work<bare>{
        [n = std::make_shared<std::atomic<int>>(0)] { return bare{.id = ++*n}; }, std::move(hooks)};
}
void roll_back(bare& unit) { unit.in_transaction = false; }
void forget(bare& unit) { unit.user.clear(); }

support::task borrow(cenote::pool<session>& units, support::loop& where,
                     std::optional<cenote::lease<session>>& lease) {
    lease = co_await units.co_acquire().resumed_by(support::on(where));
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

TEST_F(unit_of_work_pool, the_next_user_finds_no_state_of_the_last_one) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    use_and_leave(units);
    auto next = units.acquire();
    EXPECT_EQ(next->id, 1) << "the same unit";
    EXPECT_TRUE(next->untouched());
}

TEST_F(unit_of_work_pool, rolls_back_and_then_clears) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    EXPECT_THAT(by->all(), IsEmpty());
    use_and_leave(units);
    (void)units.acquire();
    EXPECT_TRUE(eventually([&] { return units.stats().idle == 1; }));
    EXPECT_THAT(by->all(), ElementsAre("broken?", "rollback", "clear", "broken?",  //
                                       "broken?", "rollback", "clear", "broken?"));
}

TEST_F(unit_of_work_pool, also_undoes_the_work_of_a_user_that_throws) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    try {
        auto lease = units.acquire();
        lease->use("ann");
        throw std::runtime_error("of the user's own");
    } catch (const std::runtime_error&) {
        SUCCEED();
    }
    EXPECT_TRUE(units.acquire()->untouched());
    EXPECT_EQ(by->made, 1);
}

TEST_F(unit_of_work_pool, checks_on_the_thread_of_its_user_and_undoes_on_threads_of_the_pool) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    use_and_leave(units);
    EXPECT_TRUE(eventually([&] { return units.stats().idle == 1; }));
    auto here = std::this_thread::get_id();
    EXPECT_THAT(by->threads(),
                ElementsAre(here, testing::Ne(here), testing::Ne(here), testing::Ne(here)));
}

TEST_F(unit_of_work_pool, only_the_next_user_waits_for_a_slow_rollback) {
    latch way;
    by->on_rollback = [way](int) { return way.wait(); };
    auto settings = single();
    settings.reset_timeout = plenty;
    cenote::pool<session> units{unit_of_work<session>{make()}, settings};
    use_and_leave(units);  // returns before the rollback ends
    EXPECT_TRUE(eventually([&] { return way.waiting() == 1; }));
    EXPECT_FALSE(units.try_acquire()) << "the rollback is under way";
    std::jthread next([&] {
        auto lease = units.acquire();
        EXPECT_EQ(lease->id, 1);
        EXPECT_TRUE(lease->untouched());
    });
    EXPECT_TRUE(support::lines_up(units, 1));
    way.open();
}

TEST_F(unit_of_work_pool, a_coroutine_gets_it_when_it_is_undone) {
    latch way;
    support::loop where;
    by->on_clear = [way](int) { return way.wait(); };
    auto settings = single();
    settings.reset_timeout = plenty;
    cenote::pool<session> units{unit_of_work<session>{make()}, settings};
    use_and_leave(units);
    std::optional<cenote::lease<session>> lease;
    auto next = borrow(units, where, lease);
    next.start();
    EXPECT_TRUE(support::lines_up(units, 1));
    EXPECT_EQ(where.ready(), 0U);
    way.open();
    ASSERT_TRUE(eventually([&] { return where.ready() == 1; }));
    where.run();
    ASSERT_TRUE(next.done());
    EXPECT_EQ((*lease)->id, 1);
    EXPECT_TRUE((*lease)->untouched());
}

TEST_F(unit_of_work_pool, a_broken_one_is_rejected) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    units.acquire()->lost = true;
    auto next = units.acquire();
    EXPECT_EQ(next->id, 2);
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::rejected));
    EXPECT_THAT(by->all(), ElementsAre("broken?")) << "no further call on a broken unit";
}

TEST_F(unit_of_work_pool, one_whose_broken_throws_is_rejected) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    by->on_broken = [](int id) { return id == 1 ? fails(id) : true; };
    use_and_leave(units);
    EXPECT_EQ(units.acquire()->id, 2);
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::rejected));
    EXPECT_EQ(by->all().front(), "broken?");
}

TEST_F(unit_of_work_pool, one_that_cannot_be_rolled_back_is_retired_with_the_cause) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    by->on_rollback = [](int id) { return id == 1 ? fails(id) : true; };
    use_and_leave(units);
    auto next = units.acquire();
    EXPECT_EQ(next->id, 2);
    EXPECT_TRUE(next->untouched());
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::reset_failed));
    EXPECT_THAT(causes(), ElementsAre("not today"));
    EXPECT_THAT(by->all(), ElementsAre("broken?", "rollback")) << "no further call on the unit";
}

TEST_F(unit_of_work_pool, one_that_cannot_be_cleared_is_retired_with_the_cause) {
    cenote::pool<session> units{unit_of_work<session>{make()}, single()};
    by->on_clear = [](int id) { return id == 1 ? fails(id) : true; };
    use_and_leave(units);
    auto next = units.acquire();
    EXPECT_EQ(next->id, 2);
    EXPECT_TRUE(next->untouched());
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::reset_failed));
    EXPECT_THAT(causes(), ElementsAre("not today"));
    EXPECT_THAT(by->all(), ElementsAre("broken?", "rollback", "clear"));
}

// The rollback finds that the connection is lost, and sets a flag instead of throwing.
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
    latch way;
    by->on_rollback = [way](int id) { return id != 1 || way.wait(); };
    auto settings = single();
    settings.max = 2;  // a call that hangs occupies its slot for a while
    settings.reset_timeout = 1ms;
    cenote::pool<session> units{unit_of_work<session>{make()}, settings};
    use_and_leave(units);
    EXPECT_TRUE(eventually([&] { return reasons().size() == 1; }));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::reset_failed));
    EXPECT_NE(units.acquire()->id, 1);
    way.open();
}

TEST_F(unit_of_work_pool, hooks_may_return_false_instead_of_throwing) {
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

TEST_F(unit_of_work_pool, is_replaced_after_max_uses) {
    auto settings = single();
    settings.max_uses = 3;
    cenote::pool<session> units{unit_of_work<session>{make()}, settings};
    std::vector<int> ids;
    for (int i = 0; i < 7; ++i) {
        auto lease = units.acquire();
        EXPECT_TRUE(lease->untouched());
        lease->use("ann");
        ids.push_back(lease->id);
    }
    EXPECT_THAT(ids, ElementsAre(1, 1, 1, 2, 2, 2, 3));
    EXPECT_TRUE(closes(2));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::uses, retire_reason::uses));
    EXPECT_TRUE(eventually([&] { return units.stats().idle == 1; }));
    EXPECT_EQ(std::ranges::count(by->all(), "rollback"), 5)
        << "a unit that is retired is not rolled back";
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
    use_and_leave(units);
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
    use_and_leave(units);
    EXPECT_TRUE(units.acquire()->untouched());
    EXPECT_EQ(by->all()[0], "rollback");
    EXPECT_EQ(by->all()[1], "clear");
}

// A session that cannot be moved is pooled by a pointer.
TEST_F(unit_of_work_pool, hooks_may_be_members_of_the_object_behind_a_pointer) {
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
    EXPECT_EQ((*units.acquire())->id, 3) << "a null pointer is broken";
}

TEST_F(unit_of_work_pool, one_of_rollback_and_clear_is_enough) {
    cenote::pool<bare> rolled{of_bare({.rollback = roll_back}), single()};
    rolled.acquire()->in_transaction = true;
    EXPECT_TRUE(rolled.acquire()->untouched());
    cenote::pool<bare> cleared{of_bare({.clear = forget}), single()};
    cleared.acquire()->user = "ann";
    EXPECT_TRUE(cleared.acquire()->untouched());
}

TEST_F(unit_of_work_pool, needs_a_rollback_or_a_clear) {
    try {
        of_bare({.broken = &bare::lost});
        FAIL() << "nothing would undo the state";
    } catch (const cenote::invalid_option& e) {
        EXPECT_EQ(e.option(), "clear");
    }
    EXPECT_THROW(unit_of_work<session>{std::function<session()>{}}, cenote::invalid_option);
}

TEST_F(unit_of_work_pool, a_member_with_an_unknown_return_type_needs_a_hook) {
    auto made = [] { return with_codes{}; };
    auto refused = [&](unit_hooks<with_codes> hooks) {
        try {
            unit_of_work<with_codes>{made, std::move(hooks)};
            return std::string{};
        } catch (const cenote::invalid_option& e) {
            return e.option();
        }
    };
    auto rolls_back = [](with_codes& unit) { return !unit.rollback(); };
    auto is_broken = [](with_codes& unit) { return unit.broken() != 0; };
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

// A probe that always succeeds would clear every suspicion.
TEST_F(unit_of_work_pool, without_a_probe_suspect_units_are_retired) {
    cenote::pool<bare> without{of_bare({.clear = forget}), single()};
    (void)without.acquire();
    EXPECT_TRUE(eventually([&] { return without.stats().idle == 1; }));
    without.suspect_all();
    EXPECT_EQ(without.acquire()->id, 2);
    EXPECT_TRUE(closes(1));
    EXPECT_THAT(reasons(), ElementsAre(retire_reason::generation));

    cenote::pool<bare> with{of_bare({.clear = forget, .probe = [](bare&) {}}), single()};
    (void)with.acquire();
    EXPECT_TRUE(eventually([&] { return with.stats().idle == 1; }));
    with.suspect_all();
    EXPECT_EQ(with.acquire()->id, 1);
}

TEST_F(unit_of_work_pool, after_an_exception_it_is_kept_if_it_is_not_broken) {
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

TEST_F(unit_of_work_pool, after_an_exception_it_is_discarded_if_it_has_no_broken) {
    cenote::pool<bare> units{of_bare({.rollback = roll_back, .clear = forget}), single()};
    EXPECT_THROW(units.with([](bare&) { throw std::runtime_error("any error"); }),
                 std::runtime_error);
    EXPECT_EQ(units.acquire()->id, 2);
    EXPECT_EQ(units.stats().discarded, 1U);
}

TEST_F(unit_of_work_pool, exceptions_can_be_classified) {
    auto result = std::make_shared<std::atomic<verdict>>(verdict::keep);
    cenote::pool<bare> units{
        of_bare({.rollback = roll_back,
                 .clear = forget,
                 .classify = [result](const std::exception_ptr&) { return result->load(); }}),
        single()};
    auto fail = [&] {
        units.with([](bare& unit) {
            unit.use("ann");
            throw std::runtime_error("any error");
        });
    };
    EXPECT_THROW(fail(), std::runtime_error);
    EXPECT_EQ(units.acquire()->id, 1);
    EXPECT_TRUE(units.acquire()->untouched()) << "a kept unit is undone, too";
    *result = verdict::discard;
    EXPECT_THROW(fail(), std::runtime_error);
    EXPECT_EQ(units.acquire()->id, 2);
}

TEST_F(unit_of_work_pool, a_final_error_of_the_factory_ends_the_acquire_at_once) {
    auto make_none = []() -> session { throw std::runtime_error("no such database"); };
    cenote::pool<session> units{
        unit_of_work<session>{make_none, {.classify = [](const auto&) { return verdict::final; }}},
        single()};
    EXPECT_THROW((void)units.acquire(), cenote::open_failed_error);
}

TEST_F(unit_of_work_pool, nothing_is_undone_for_a_unit_that_outlives_its_pool) {
    auto units = std::make_unique<cenote::pool<session>>(unit_of_work<session>{make()}, single());
    auto lease = units->acquire();
    units.reset();
    lease.give_back();
    EXPECT_THAT(by->all(), ElementsAre("broken?"));
    EXPECT_EQ(by.use_count(), 1) << "unit and factory are destroyed";
}

TEST_F(unit_of_work_pool, no_user_sees_the_state_of_another_under_load) {
    by->on_rollback = [](int id) { return id % 7 == 0 ? fails(id) : true; };
    by->on_clear = [](int id) { return id % 5 == 0 ? fails(id) : true; };
    std::atomic<int> leaks{0};
    {
        cenote::pool<session> units{unit_of_work<session>{make()},
                                    {.max = 2, .acquire_timeout = plenty, .max_uses = 9}};
        std::vector<std::jthread> users;
        for (int u = 0; u < 4; ++u)
            users.emplace_back([&, u] {
                for (int i = 0; i < support::rounds(500); ++i) {
                    auto lease = units.acquire();
                    if (!lease->untouched() || lease->lost) ++leaks;
                    lease->use("ann");
                    lease->lost = i % (11 + u) == 0;
                }
            });
    }
    EXPECT_EQ(leaks, 0);
    EXPECT_GT(by->made, 2);
    EXPECT_EQ(by.use_count(), 1);
}
