// The lane and its shelf in every interleaving of a few threads, and with planted flaws that must
// be found.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "shell/interleave.hpp"
#include "shell/lane_flaws.hpp"
#include "shell/toy_keeper.hpp"

namespace cenote::interleave {
namespace {

/// One call of a script. A release without a lease does nothing.
struct call {
    enum class kind {
        acquire,
        try_acquire,
        release,
        slow_release,
        owe,  // release, and owe a reset
        sweep,
        close,
        retire_all,
        suspect_all
    };
    kind what{};
    std::size_t cell = 0;
};

constexpr call acquire(std::size_t cell = 0) { return {call::kind::acquire, cell}; }
constexpr call try_acquire(std::size_t cell = 0) { return {call::kind::try_acquire, cell}; }
constexpr call release(std::size_t cell = 0) { return {call::kind::release, cell}; }
constexpr call slow_release(std::size_t cell = 0) { return {call::kind::slow_release, cell}; }
constexpr call owe(std::size_t cell = 0) { return {call::kind::owe, cell}; }
constexpr call sweep{call::kind::sweep};
constexpr call close{call::kind::close};
constexpr call retire_all{call::kind::retire_all};
constexpr call suspect_all{call::kind::suspect_all};

/// Where the resources are at first.
struct beginning {
    std::size_t cells;
    std::size_t held;      // by the first threads, one each
    std::size_t idle;      // at the keeper
    std::size_t on_shelf;  // from the first cell on
    std::uint32_t raised;  // reasons
};

struct scenario {
    const char* name;
    beginning at;
    std::vector<std::vector<call>> scripts;
    scope with = {};
};

constexpr scope counters{.counts = true, .bounded = false};
constexpr scope bounded{.counts = false, .bounded = true};

/// What is run: the real lane, or something with a flaw.
struct trial {
    lane_maker lane = real_lane;
    toy_flaw planted = toy_flaw::none;
};

class world {
public:
    world(const scenario& what, const trial& of)
        : what_(what),
          keeper_(of.lane, what.at.cells, what.at.raised, what.with, of.planted),
          items_(what.at.held + what.at.idle + what.at.on_shelf),
          holds_(what.scripts.size()),
          finished_(what.scripts.size()) {
        for (std::size_t i = 0; i < items_.size(); ++i) {
            items_[i].number = i;
            items_[i].touches = 1;  // hot: the first sweep leaves it
            if (i < what.at.held) keeper_.start_with(holds_[i] = &items_[i], true);
            else if (i < what.at.held + what.at.idle) keeper_.start_with(&items_[i], false);
            else keeper_.start_on_shelf(i - what.at.held - what.at.idle, &items_[i]);
        }
        for (std::size_t i = 0; i < what.scripts.size(); ++i)
            threads.emplace_back([this, i] {
                for (const call& each : what_.scripts[i]) act(holds_[i], each);
                finished_[i] = 1;
            });
        if (what.with.bounded)
            threads.emplace_back([this] {
                for (;;) keeper_.mind_the_clock();
            });
    }

    std::string judge() {
        std::vector<unsigned> seen(items_.size());
        std::string broken = keeper_.judge(seen);
        if (!broken.empty()) return broken;
        std::size_t unfinished = 0;
        for (char each : finished_) unfinished += each == 0 ? 1 : 0;
        if (unfinished != keeper_.waiting()) return "a thread is stuck outside the line";
        for (item* r : holds_)
            if (r != nullptr) ++seen[r->number];
        for (unsigned times : seen) {
            if (times == 0) return "a resource is lost";
            if (times > 1) return "a resource is in two places";
        }
        return keeper_.judge_counts(items_, holds_);
    }

    std::vector<std::function<void()>> threads;

private:
    void act(item*& mine, const call& c) {
        switch (c.what) {
            case call::kind::acquire:
                if (mine == nullptr) mine = keeper_.acquire(c.cell);
                return;
            case call::kind::try_acquire:
                if (mine == nullptr) mine = keeper_.try_acquire(c.cell);
                return;
            case call::kind::release:
                if (mine != nullptr) keeper_.release(c.cell, std::exchange(mine, nullptr));
                return;
            case call::kind::slow_release:
                if (mine != nullptr) keeper_.slow_release(c.cell, std::exchange(mine, nullptr));
                return;
            case call::kind::owe:
                if (mine != nullptr) keeper_.release(c.cell, std::exchange(mine, nullptr), true);
                return;
            case call::kind::sweep: return keeper_.sweep();
            case call::kind::close: return keeper_.close();
            case call::kind::retire_all: return keeper_.retire_all();
            case call::kind::suspect_all: return keeper_.suspect_all();
        }
    }

    const scenario& what_;
    toy_keeper keeper_;
    std::vector<item> items_;
    std::vector<item*> holds_;
    std::vector<char> finished_;
};

std::vector<scenario> lending() {
    return {
        {"two_share_one",
         {1, 0, 0, 1, 0},
         {{acquire(), release(), acquire(), release()}, {acquire(), release(), acquire()}}},
        {"two_share_one_over_two_cells",
         {2, 0, 0, 1, 0},
         {{acquire(0), release(0)}, {acquire(1), release(1), acquire(0)}}},
        {"release_meets_two_waiters",
         {2, 1, 0, 0, 0},
         {{release(0)}, {acquire(1), release(1)}, {acquire(0), release(0)}}},
        {"three_share_two",
         {2, 1, 0, 1, 0},
         {{release(0), acquire(0)}, {acquire(0), release(1)}, {acquire(1)}}},
        {"releaser_comes_back",
         {1, 1, 0, 0, 0},
         {{release(), acquire(), release()}, {acquire(), release()}}},
        {"two_releasers_one_cell",
         {1, 2, 0, 0, 0},
         {{release()}, {release()}, {acquire(), release()}}},
        {"try_acquire_meets_the_line",
         {2, 1, 0, 0, 0},
         {{release(0), try_acquire(0), release(1)}, {acquire(1), release(1)}, {try_acquire(0)}}},
    };
}

std::vector<scenario> sweeping() {
    using detail::sweeper_asleep;
    return {
        {"sweep_meets_release_and_waiter", {1, 1, 0, 0, 0}, {{release()}, {acquire()}, {sweep}}},
        {"sweep_twice", {2, 1, 0, 0, 0}, {{release(0)}, {acquire(1), release(1)}, {sweep, sweep}}},
        {"sweep_meets_two_releases",
         {1, 2, 0, 0, 0},
         {{release()}, {release(), acquire()}, {sweep}}},
        {"sweeper_wakes",
         {2, 1, 0, 0, sweeper_asleep},
         {{slow_release(0)}, {acquire(0), release(0)}, {acquire(1)}}},
        {"slow_release_meets_waiter",
         {1, 1, 0, 0, sweeper_asleep},
         {{slow_release()}, {acquire(), slow_release()}, {sweep}}},
        {"slow_release_counts",
         {1, 1, 0, 0, 0},
         {{slow_release()}, {acquire(), release()}, {acquire(), slow_release()}},
         counters},
        {"release_counts",
         {1, 1, 0, 0, 0},
         {{release()}, {acquire(), slow_release()}, {sweep}},
         counters},
        {"sweeper_sleeps_and_wakes",
         {1, 1, 0, 0, sweeper_asleep},
         {{slow_release(), acquire(), release()}, {sweep, sweep}, {acquire()}}},
    };
}

/// The cell is taken: what is handed in changes places with the one that lies there.
std::vector<scenario> swapping() {
    return {
        {"swap_on_an_open_lane", {1, 2, 0, 1, 0}, {{release()}, {release(), acquire()}}},
        {"swap_meets_a_waiter",
         {1, 2, 0, 1, 0},
         {{release()}, {release()}, {acquire(), release()}}},
        {"swap_meets_the_line",
         {1, 2, 0, 0, 0},
         {{release(), acquire()}, {slow_release()}, {acquire(), release()}}},
        {"swap_meets_a_recall",
         {1, 2, 0, 1, 0},
         {{release()}, {slow_release(), try_acquire()}, {suspect_all}}},
        {"swap_meets_a_sweep", {1, 2, 0, 1, 0}, {{release()}, {slow_release()}, {sweep, sweep}}},
        {"swap_counts", {1, 2, 0, 1, 0}, {{release()}, {slow_release()}, {acquire()}}, counters},
        {"swap_counts_on_a_shut_lane",
         {1, 2, 0, 0, 0},
         {{release()}, {slow_release()}, {acquire(), release(), acquire()}},
         counters},
    };
}

/// What owes a reset must be swept sooner than anything else.
std::vector<scenario> owing() {
    using detail::sweeper_asleep;
    return {
        {"owing_wakes_the_sweeper", {1, 1, 0, 0, sweeper_asleep}, {{owe(), acquire(), owe()}}},
        {"first_owing_on_a_swept_lane",
         {2, 2, 0, 0, 0},
         {{owe(0), acquire(1), owe(0)}, {release(1), acquire(0), owe(1)}}},
        {"owing_meets_a_sweep",
         {1, 2, 0, 0, 0},
         {{owe(), acquire(), owe()}, {slow_release()}, {sweep, sweep}}},
        {"owing_meets_sleep_and_waking",
         {2, 2, 0, 0, 0},
         {{owe(0), acquire(0), owe(0)}, {sweep, sweep, slow_release(1)}}},
        {"owing_meets_a_waiter",
         {1, 1, 0, 0, 0},
         {{owe(), acquire(), owe()}, {acquire(), release()}}},
        {"owing_meets_close", {1, 2, 0, 0, 0}, {{owe(), try_acquire(), owe()}, {owe()}, {close}}},
        {"owing_meets_a_recall",
         {1, 2, 0, 0, 0},
         {{owe(), acquire(), owe()}, {owe()}, {suspect_all}}},
        {"owing_is_counted", {1, 2, 0, 0, 0}, {{owe()}, {owe(), acquire()}, {sweep}}, counters},
    };
}

/// Leases are out when everything is to pass the machine, and come back in every way.
std::vector<scenario> recalling() {
    return {
        {"recall_meets_put", {2, 2, 0, 0, 0}, {{release(0)}, {}, {suspect_all, try_acquire(1)}}},
        {"recall_meets_put_and_slow_release",
         {2, 2, 0, 0, 0},
         {{release(0), acquire(0)}, {slow_release(1)}, {suspect_all}}},
        {"recall_meets_two_puts",
         {1, 2, 0, 0, 0},
         {{release(), acquire()}, {release()}, {suspect_all, try_acquire()}}},
        {"recall_meets_take",
         {1, 1, 0, 1, 0},
         {{release()}, {acquire(), release()}, {suspect_all}}},
        {"recall_meets_a_waiter",
         {1, 2, 0, 0, 0},
         {{release()}, {release()}, {acquire(), suspect_all, release()}}},
        {"recall_then_lend",
         {1, 2, 1, 0, 0},
         {{release()}, {}, {suspect_all, acquire(), slow_release(), try_acquire()}}},
        {"recall_twice",
         {1, 2, 0, 0, 0},
         {{release()}, {suspect_all, slow_release()}, {suspect_all}}},
        {"recall_and_lend_twice",
         {1, 1, 1, 0, 0},
         {{release()}, {acquire(), retire_all, release(), try_acquire()}, {suspect_all}}},
        {"recall_meets_retire_all",
         {2, 2, 0, 0, 0},
         {{release(0)}, {retire_all, release(1)}, {suspect_all, try_acquire(1)}}},
        {"recall_meets_sweep", {1, 2, 0, 0, 0}, {{release()}, {release()}, {suspect_all, sweep}}},
        {"recall_meets_close",
         {1, 2, 0, 0, 0},
         {{release(), try_acquire()}, {slow_release()}, {suspect_all, close}}},
    };
}

/// Newcomers may bypass the head for a while; the minder is one thread more.
std::vector<scenario> bypassing() {
    using detail::sweeper_asleep;
    return {
        {"owed_while_in_put", {1, 1, 0, 0, 0}, {{release()}, {acquire()}}, bounded},
        {"owed_while_in_two_puts",
         {2, 2, 0, 0, 0},
         {{release(0)}, {release(1)}, {acquire(0)}},
         bounded},
        {"owed_while_in_put_over_another",
         {1, 2, 0, 0, 0},
         {{release()}, {slow_release(), acquire()}, {acquire()}},
         bounded},
        {"bypassed_by_the_releaser",
         {1, 1, 0, 0, 0},
         {{release(), acquire(), release()}, {acquire(), release()}},
         bounded},
        {"bypassed_by_a_newcomer",
         {2, 1, 0, 0, 0},
         {{release(0)}, {acquire(0)}, {try_acquire(1), release(1)}},
         bounded},
        {"bypassed_and_swept",
         {1, 1, 0, 0, 0},
         {{release()}, {acquire()}, {sweep, sweep}},
         bounded},
        {"bypassed_and_the_sweeper_wakes",
         {1, 1, 0, 0, sweeper_asleep},
         {{release(), try_acquire(), slow_release()}, {acquire(), release()}},
         bounded},
        {"bypassed_and_recalled",
         {1, 1, 0, 0, 0},
         {{release(), try_acquire(), release()}, {acquire()}, {suspect_all}},
         bounded},
        {"bypassed_and_closed",
         {1, 1, 0, 0, 0},
         {{release(), try_acquire()}, {acquire()}, {close}},
         bounded},
        {"two_are_bypassed",
         {1, 1, 0, 0, 0},
         {{release()}, {acquire(), release()}, {acquire(), release()}},
         bounded},
    };
}

std::vector<scenario> ending() {
    using detail::sweeper_asleep;
    return {
        {"close_meets_release", {2, 1, 0, 0, 0}, {{release(0)}, {close}, {sweep}}},
        {"close_meets_release_and_waiter",
         {2, 1, 0, 1, 0},
         {{release(1)}, {acquire(0), release(0)}, {close}}},
        {"close_meets_slow_release",
         {1, 1, 0, 0, sweeper_asleep},
         {{slow_release()}, {acquire()}, {close}}},
        {"retire_all_meets_release",
         {1, 1, 0, 0, 0},
         {{release()}, {acquire(), release()}, {retire_all}}},
        {"retire_all_then_acquire", {1, 1, 1, 0, 0}, {{release()}, {retire_all, acquire()}}},
        {"retire_all_meets_sweep", {1, 1, 0, 0, 0}, {{release()}, {sweep}, {retire_all}}},
        {"close_then_acquire", {1, 1, 0, 0, 0}, {{release(), acquire()}, {close, acquire()}}},
        {"close_meets_two_releases",
         {2, 2, 0, 0, 0},
         {{release(0), try_acquire(1)}, {release(1), acquire(1)}, {close, try_acquire(0)}}},
        {"retire_all_then_try",
         {2, 2, 0, 0, 0},
         {{release(0)}, {release(1), acquire(1)}, {retire_all, try_acquire(0)}}},
        {"close_meets_swap", {1, 2, 0, 1, 0}, {{release()}, {slow_release()}, {close}}},
        {"close_meets_take_and_sweep",
         {1, 1, 0, 1, 0},
         {{release(), try_acquire()}, {acquire(), release()}, {sweep}, {close}}},
        {"close_meets_recall_and_waiter",
         {1, 2, 0, 0, 0},
         {{release()}, {suspect_all, release()}, {acquire()}, {close}}},
        {"retire_all_twice", {1, 1, 0, 1, 0}, {{release(), acquire()}, {retire_all}, {retire_all}}},
    };
}

std::vector<scenario> churning() {
    return {
        {"three_churn_one",
         {1, 0, 0, 1, 0},
         {{acquire(), release(), acquire()}, {acquire(), release()}, {acquire(), release()}}},
        {"three_churn_two",
         {2, 1, 0, 1, 0},
         {{release(0), acquire(1)},
          {acquire(0), release(0), acquire(0)},
          {acquire(1), release(1)}}},
        {"churn_and_sweep",
         {2, 1, 0, 1, 0},
         {{release(1), acquire(0), release(0)}, {acquire(1), release(1)}, {sweep, sweep}}},
        {"churn_sweep_and_close",
         {1, 1, 0, 0, 0},
         {{release(), acquire(), release()}, {acquire()}, {sweep, close}}},
        {"churn_and_retire_all",
         {1, 1, 1, 0, 0},
         {{release(), acquire(), release()}, {acquire(), release()}, {retire_all, sweep}}},
    };
}

const std::vector<scenario>& scenarios() {
    static const std::vector<scenario> all = [] {
        std::vector<scenario> sum;
        for (auto& some : {lending(), sweeping(), swapping(), owing(), recalling(), bypassing(),
                           ending(), churning()})
            sum.insert(sum.end(), some.begin(), some.end());
        return sum;
    }();
    return all;
}

/// Enough to exhaust all but the largest. Each is searched again another way, with a bound on
/// preemptions instead of sleep sets, so that a flaw in the checker's cleverness would show.
constexpr std::uint64_t most_runs = 50'000;
constexpr std::uint64_t most_runs_again = 10'000;

verdict_of_search search(const scenario& what, const trial& of, unsigned preemptions,
                         std::uint64_t runs) {
    explorer all(preemptions, runs);
    return all.search([&] { return std::make_unique<world>(what, of); });
}

std::uint64_t& runs_so_far() {
    static std::uint64_t runs = 0;
    return runs;
}

void PrintTo(const scenario& what, std::ostream* out) { *out << what.name; }

class lane_model : public testing::TestWithParam<scenario> {};

TEST_P(lane_model, keeps_its_promises_in_every_interleaving) {
    const scenario& what = GetParam();
    verdict_of_search all = search(what, {}, explorer::no_bound, most_runs);
    EXPECT_EQ(all.broken, "") << all.schedule;
    verdict_of_search again = search(what, {}, 4, most_runs_again);
    EXPECT_EQ(again.broken, "") << again.schedule;
    runs_so_far() += all.runs + again.runs;
    std::printf("%s: %llu runs%s, %llu with a bound; %llu in total\n", what.name,
                static_cast<unsigned long long>(all.runs), all.complete ? " (all there are)" : "",
                static_cast<unsigned long long>(again.runs),
                static_cast<unsigned long long>(runs_so_far()));
}

INSTANTIATE_TEST_SUITE_P(all, lane_model, testing::ValuesIn(scenarios()),
                         [](const auto& test) { return test.param.name; });

struct named_flaw {
    std::string name;
    std::string_view shows_in;  // the scenario
    trial of;
};

void PrintTo(const named_flaw& what, std::ostream* out) { *out << what.name; }

std::vector<named_flaw> all_flaws() {
    std::vector<named_flaw> all{
        {"owed_has_no_timer", "owed_while_in_put", {.planted = toy_flaw::owed_has_no_timer}},
        {"bypassed_shut_the_lane",
         "owed_while_in_put",
         {.planted = toy_flaw::bypassed_shut_the_lane}},
        {"owing_is_not_checked",
         "first_owing_on_a_swept_lane",
         {.planted = toy_flaw::owing_is_not_checked}},
    };
    for (const auto& each : lane_flaws::all)
        all.push_back({each.name, each.shows_in, {.lane = each.make}});
    return all;
}

class lane_flaw : public testing::TestWithParam<named_flaw> {};

TEST_P(lane_flaw, is_found) {
    auto what = std::ranges::find_if(
        scenarios(), [](const scenario& each) { return each.name == GetParam().shows_in; });
    ASSERT_NE(what, scenarios().end());
    verdict_of_search found = search(*what, GetParam().of, explorer::no_bound, most_runs);
    EXPECT_NE(found.broken, "");
    std::printf("in %s after %llu runs: %s\n%s", what->name,
                static_cast<unsigned long long>(found.runs + found.pruned), found.broken.c_str(),
                found.schedule.c_str());
}

INSTANTIATE_TEST_SUITE_P(all, lane_flaw, testing::ValuesIn(all_flaws()), [](const auto& test) {
    return test.param.name + "_in_" + std::string(test.param.shows_in);
});

}  // namespace
}  // namespace cenote::interleave
