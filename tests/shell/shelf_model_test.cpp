// The shelf under every interleaving of a few threads, and under planted flaws that must be found.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "shell/interleave.hpp"
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

class world {
public:
    world(const scenario& what, flaw planted)
        : what_(what),
          keeper_(what.at.cells, what.at.raised, what.with, planted),
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
        for (auto& some :
             {lending(), sweeping(), swapping(), recalling(), bypassing(), ending(), churning()})
            sum.insert(sum.end(), some.begin(), some.end());
        return sum;
    }();
    return all;
}

/// Enough to exhaust all but the largest. Each is searched again another way, with a bound on
/// preemptions instead of sleep sets, so that a flaw in the checker's cleverness would show.
constexpr std::uint64_t most_runs = 50'000;
constexpr std::uint64_t most_runs_again = 10'000;

verdict_of_search search(const scenario& what, flaw planted, unsigned preemptions,
                         std::uint64_t runs) {
    explorer all(preemptions, runs);
    return all.search([&] { return std::make_unique<world>(what, planted); });
}

std::uint64_t& runs_so_far() {
    static std::uint64_t runs = 0;
    return runs;
}

void PrintTo(const scenario& what, std::ostream* out) { *out << what.name; }

class shelf_model : public testing::TestWithParam<scenario> {};

TEST_P(shelf_model, keeps_its_promises_in_every_interleaving) {
    const scenario& what = GetParam();
    verdict_of_search all = search(what, flaw::none, explorer::no_bound, most_runs);
    EXPECT_EQ(all.broken, "") << all.schedule;
    verdict_of_search again = search(what, flaw::none, 4, most_runs_again);
    EXPECT_EQ(again.broken, "") << again.schedule;
    runs_so_far() += all.runs + again.runs;
    std::printf("%s: %llu runs%s, %llu with a bound; %llu in total\n", what.name,
                static_cast<unsigned long long>(all.runs), all.complete ? " (all there are)" : "",
                static_cast<unsigned long long>(again.runs),
                static_cast<unsigned long long>(runs_so_far()));
}

INSTANTIATE_TEST_SUITE_P(all, shelf_model, testing::ValuesIn(scenarios()),
                         [](const auto& test) { return test.param.name; });

struct named_flaw {
    flaw planted;
    const char* name;
    std::string_view shows_in;  // the scenario
};

void PrintTo(const named_flaw& what, std::ostream* out) { *out << what.name; }

class shelf_flaw : public testing::TestWithParam<named_flaw> {};

TEST_P(shelf_flaw, is_found) {
    auto what = std::ranges::find_if(
        scenarios(), [](const scenario& each) { return each.name == GetParam().shows_in; });
    ASSERT_NE(what, scenarios().end());
    verdict_of_search found = search(*what, GetParam().planted, explorer::no_bound, most_runs);
    EXPECT_NE(found.broken, "");
    std::printf("in %s after %llu runs: %s\n%s", what->name,
                static_cast<unsigned long long>(found.runs + found.pruned), found.broken.c_str(),
                found.schedule.c_str());
}

constexpr named_flaw flaws[] = {
    {flaw::put_does_not_look_again, "put_does_not_look_again", "two_share_one"},
    {flaw::take_ignores_attention, "take_ignores_attention", "release_meets_two_waiters"},
    {flaw::put_never_looks, "put_never_looks", "two_share_one"},
    {flaw::waiter_raises_after_collecting, "waiter_raises_after_collecting", "two_share_one"},
    {flaw::waiter_does_not_collect, "waiter_does_not_collect", "two_share_one"},
    {flaw::collect_skips_a_cell, "collect_skips_a_cell", "two_share_one_over_two_cells"},
    {flaw::lowers_while_somebody_waits, "lowers_while_somebody_waits", "release_meets_two_waiters"},
    {flaw::owed_never_shuts_the_lane, "owed_never_shuts_the_lane", "owed_while_in_put"},
    {flaw::owed_has_no_timer, "owed_has_no_timer", "owed_while_in_put"},
    {flaw::waiter_raises_after_collecting, "owed_raises_after_collecting", "owed_while_in_put"},
    {flaw::waiter_does_not_collect, "owed_does_not_collect", "owed_while_in_put"},
    {flaw::bypassed_shut_the_lane, "bypassed_shut_the_lane", "owed_while_in_put"},
    {flaw::steals_past_the_line, "steals_past_the_line", "release_meets_two_waiters"},
    {flaw::steals_on_a_shut_lane, "steals_on_a_shut_lane", "swap_meets_a_recall"},
    {flaw::steals_from_the_owed, "steals_from_the_owed", "owed_while_in_put_over_another"},
    {flaw::lays_on_a_shut_shelf, "lays_on_a_shut_shelf", "swap_meets_the_line"},
    {flaw::swap_loses_the_older, "swap_loses_the_older", "swap_on_an_open_lane"},
    {flaw::failed_swap_loses_the_older, "failed_swap_loses_the_older", "swap_on_an_open_lane"},
    {flaw::swap_lays_over_another, "swap_lays_over_another", "swap_meets_a_waiter"},
    {flaw::hand_in_counts_a_release, "hand_in_counts_a_release", "swap_counts"},
    {flaw::counts_what_it_no_longer_holds, "counts_what_it_no_longer_holds", "slow_release_counts"},
    {flaw::sweep_restores_on_a_shut_lane, "sweep_restores_on_a_shut_lane",
     "sweep_meets_release_and_waiter"},
    {flaw::sweep_restores_over_another, "sweep_restores_over_another", "sweep_meets_two_releases"},
    {flaw::sweeper_sleeps_without_collecting, "sweeper_sleeps_without_collecting", "sweep_twice"},
    {flaw::sweeper_is_not_woken, "sweeper_is_not_woken", "sweep_twice"},
    {flaw::close_collects_first, "close_collects_first", "close_meets_release_and_waiter"},
    {flaw::close_does_not_collect, "close_does_not_collect", "close_meets_release"},
    {flaw::recall_collects_first, "recall_collects_first", "recall_meets_put"},
    {flaw::recall_does_not_collect, "recall_does_not_collect", "recall_meets_take"},
    {flaw::recall_forgets_those_out, "recall_forgets_those_out",
     "recall_meets_put_and_slow_release"},
    {flaw::recall_ends_with_the_first, "recall_ends_with_the_first", "recall_meets_two_puts"},
    {flaw::recall_counts_newer_leases, "recall_counts_newer_leases", "recall_meets_take"},
    {flaw::recall_counts_while_it_collects, "recall_counts_while_it_collects",
     "recall_and_lend_twice"},
    {flaw::recall_misses_what_is_brought_back, "recall_misses_what_is_brought_back",
     "recall_meets_sweep"},
    {flaw::suspicion_is_not_noticed, "suspicion_is_not_noticed",
     "recall_meets_put_and_slow_release"},
};
INSTANTIATE_TEST_SUITE_P(all, shelf_flaw, testing::ValuesIn(flaws),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace cenote::interleave
