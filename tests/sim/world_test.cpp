// Tests simulated worlds: one seed gives one trace; runs can be written, read back and shrunk.
#include "sim/world.hpp"

#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "faults/planting.hpp"
#include "sim/recording.hpp"
#include "sim/run.hpp"

namespace cenote::sim {
namespace {

constexpr std::size_t steps = 1000;

/// The first run that finds the planted fault.
verdict first_finding(const std::string& fault, plan& p) {
    EXPECT_TRUE(faults::plant(fault));
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        p = draw_plan(seed, steps);
        verdict v = run(p, true);
        if (v.failed) return v;
    }
    ADD_FAILURE() << fault << " survived";
    return {};
}

class world_with_faults : public testing::Test {
protected:
    ~world_with_faults() override { faults::plant("none"); }
};

TEST(world, has_the_same_trace_for_the_same_seed) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        verdict first = run(draw_plan(seed, steps), false);
        verdict second = run(draw_plan(seed, steps), false);
        EXPECT_FALSE(first.failed) << first.what;
        EXPECT_EQ(first.hash, second.hash);
        EXPECT_EQ(first.seen.steps, second.seen.steps);
    }
}

TEST(world, has_another_trace_for_another_seed) {
    std::set<std::uint64_t> hashes;
    for (std::uint64_t seed = 0; seed < 100; ++seed)
        hashes.insert(run(draw_plan(seed, 200), false).hash);
    EXPECT_EQ(hashes.size(), 100u);
}

TEST(world, has_the_same_trace_whether_or_not_it_is_recorded) {
    plan p = draw_plan(7, steps);
    EXPECT_EQ(run(p, true).hash, run(p, false).hash);
}

TEST(world, passes_over_decisions_that_do_not_fit) {
    plan p = draw_plan(3, steps);
    std::vector<decision> decisions;
    for (auto what :
         {decision::kind::release, decision::kind::cancel, decision::kind::detach,
          decision::kind::reject, decision::kind::resume, decision::kind::destroy,
          decision::kind::look, decision::kind::admit, decision::kind::storm, decision::kind::late})
        decisions.push_back({.what = what, .a = 1, .b = 2});
    verdict v = replay(p, decisions);
    EXPECT_FALSE(v.failed) << v.what;
}

TEST(world, has_the_same_trace_without_express) {
    tallies seen;
    tallies without;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        verdict express = run(draw_plan(seed, steps), false);
        faults::switched_on = faults::without_express;
        verdict plain = run(draw_plan(seed, steps), false);
        faults::plant("none");
        EXPECT_EQ(express.hash, plain.hash) << "seed " << seed;
        seen.add(express.seen);
        without.add(plain.seen);
    }
    // Of all grants a tenth is passed on to the head of the line, and a tenth is lent at once.
    EXPECT_GE(10 * seen.passed_on, seen.grants);
    EXPECT_GE(10 * seen.lent_now, seen.grants);
    EXPECT_EQ(without.grants, seen.grants);
    EXPECT_EQ(without.passed_on + without.lent_now, 0u);
}

TEST(world, sees_grants_refusals_cancels_and_faults) {
    tallies seen;
    for (std::uint64_t seed = 0; seed < 50; ++seed)
        seen.add(run(draw_plan(seed, steps), false).seen);
    EXPECT_GT(seen.grants, 1000u);
    EXPECT_GT(seen.refusals, 100u);
    EXPECT_GT(seen.cancels, 100u);
    EXPECT_GT(seen.destroyed, 100u);
    EXPECT_GT(seen.faults, 100u);
}

/// A world with one resource and coroutines, in which only the given decisions happen.
class world_of_coroutines : public testing::Test {
protected:
    world_of_coroutines() {
        plan_.settings.max = 1;
        plan_.ends_live = true;
        plan_.borrowers = plan_.coroutines = 3;
    }

    /// What the world has seen after these decisions and its end, without a finding.
    tallies after(const std::vector<const char*>& texts) {
        std::vector<decision> decisions;
        for (const char* text : texts) EXPECT_TRUE(parse(text, decisions.emplace_back())) << text;
        verdict v = replay(plan_, decisions);
        EXPECT_FALSE(v.failed) << v.what;
        return v.seen;
    }

    plan plan_;
};

TEST_F(world_of_coroutines, holds_leases_that_their_coroutines_do_not_know_of_yet) {
    tallies seen = after({"acquire 0 0", "answer 0 0", "cancel 0 0", "pass 75 500", "resume 0 0"});
    EXPECT_EQ(seen.grants, 1u);
    EXPECT_EQ(seen.cancels, 0u) << "it came too late";
    EXPECT_EQ(seen.refusals, 0u);
}

TEST_F(world_of_coroutines, lends_what_a_destroyed_one_was_granted_to_the_next) {
    tallies seen = after({"acquire 0 0", "acquire 1 0", "answer 0 0", "destroy 0 0", "resume 1 0"});
    EXPECT_EQ(seen.grants, 2u);
    EXPECT_EQ(seen.destroyed, 1u);
    EXPECT_EQ(seen.refusals, 0u);
}

TEST_F(world_of_coroutines, forgets_a_waiter_that_is_destroyed) {
    tallies seen = after({"acquire 0 0", "acquire 1 0", "destroy 0 0", "answer 0 0", "resume 1 0"});
    EXPECT_EQ(seen.grants, 1u);
    EXPECT_EQ(seen.cancels, 1u);
}

TEST_F(world_of_coroutines, cancels_a_coroutine_that_was_stopped_before) {
    tallies seen = after({"stop 0 0", "acquire 0 0", "acquire 1 0", "answer 0 0"});
    EXPECT_EQ(seen.cancels, 1u);
    EXPECT_EQ(seen.grants, 1u);
}

// The first coroutine is granted something unfit; the second must not get the next resource.
TEST_F(world_of_coroutines, keeps_the_place_of_a_waiter_with_an_unfit_grant) {
    plan_.looks = true;
    tallies seen = after({"acquire 0 0", "acquire 1 0", "answer 0 0", "look 0 0", "admit 0 1",
                          "answer 0 0", "pass 0 0", "answer 0 0", "admit 0 0", "resume 0 0"});
    EXPECT_EQ(seen.grants, 3u);
}

TEST_F(world_of_coroutines, does_not_acquire_again_for_a_waiter_that_has_left) {
    plan_.looks = true;
    for (const char* leaves : {"cancel 0 0", "destroy 0 0"}) {
        tallies seen = after({"acquire 0 0", "answer 0 0", "look 0 0", leaves, "admit 0 1"});
        EXPECT_EQ(seen.grants, 1u) << leaves;
        EXPECT_EQ(seen.cancels, 0u) << leaves;
    }
}

TEST_F(world_of_coroutines, ends_admissions_after_a_close) {
    plan_.looks = true;
    tallies seen = after({"acquire 0 0", "acquire 1 0", "answer 0 0", "close 0 0", "admit 0 0"});
    EXPECT_EQ(seen.grants, 1u);
    EXPECT_EQ(seen.refusals, 1u);
}

TEST_F(world_of_coroutines, is_calm_after_a_storm) {
    plan_.borrowers = plan_.coroutines = 300;
    tallies seen = after({"crowd 0 0", "answer 0 0", "storm 200 0", "storm 100 1"});
    EXPECT_EQ(seen.cancels, 200u);
    EXPECT_EQ(seen.destroyed, 200u) << "also coroutines that were told that they are canceled";
    EXPECT_EQ(seen.grants, 100u);
}

TEST(replay, repeats_a_run_that_went_through_text) {
    plan p = draw_plan(11, steps);
    verdict v = run(p, true);
    std::stringstream file;
    for (const decision& d : v.decisions) file << "  " << to_string(d) << '\n';
    std::vector<decision> read;
    for (std::string line; std::getline(file, line);) {
        decision d;
        ASSERT_TRUE(parse(line, d)) << line;
        read.push_back(d);
    }
    EXPECT_EQ(read.size(), v.decisions.size());
    EXPECT_EQ(replay(p, read).hash, v.hash);
}

TEST(replay, refuses_what_is_not_a_decision) {
    decision d;
    for (const char* text : {"", "acquire", "acquire 1", "acquire x y", "dance 1 2"})
        EXPECT_FALSE(parse(text, d)) << text;
}

TEST(recording, keeps_the_kinds_of_borrowers) {
    recording r{.from = draw_plan(11, steps), .decisions = {}};
    r.from.coroutines = 3;
    r.from.looks = true;
    recording read = from_text(to_text(r));
    EXPECT_EQ(read.from.borrowers, r.from.borrowers);
    EXPECT_EQ(read.from.coroutines, 3u);
    EXPECT_TRUE(read.from.looks);
    EXPECT_EQ(from_text("borrowers 2\n").from.coroutines, 0u) << "as in old ones";
}

TEST(plan, has_threads_coroutines_both_and_crowds) {
    std::size_t threads = 0;
    std::size_t coroutines = 0;
    std::size_t looks = 0;
    std::size_t crowds = 0;
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        plan p = draw_plan(seed, 1);
        EXPECT_LE(p.coroutines, p.borrowers);
        threads += p.coroutines == 0;
        coroutines += p.coroutines == p.borrowers;
        looks += p.coroutines > 0 && p.looks;
        crowds += p.borrowers >= 100;
    }
    EXPECT_GT(threads, 250u);
    EXPECT_GT(coroutines, 250u);
    EXPECT_LT(threads + coroutines, 900u);
    EXPECT_GT(looks, 150u);
    EXPECT_GT(crowds, 10u);
}

TEST(plan, is_drawn_from_its_seed_alone) {
    EXPECT_EQ(draw_plan(5, 10).weights, draw_plan(5, 10).weights);
    EXPECT_EQ(draw_plan(5, 10).settings.max, draw_plan(5, 99).settings.max);
    EXPECT_EQ(draw_plan(5, 99).steps, 99u);
}

// `std::chrono::nanoseconds{forever}` once converted forever_t by way of uint64_t to -1 ns, so six
// plans in ten had a heartbeat that is always due.
TEST(plan, has_only_options_that_a_pool_accepts) {
    for (std::uint64_t seed = 0; seed < 2000; ++seed)
        EXPECT_NO_THROW(validate(draw_plan(seed, 1).settings)) << seed;
}

TEST_F(world_with_faults, finds_the_fault_again_in_a_replay) {
    plan p;
    verdict found = first_finding("discard_serves_no_waiter", p);
    verdict again = replay(p, found.decisions);
    EXPECT_TRUE(again.failed);
    EXPECT_EQ(again.what, found.what);
    EXPECT_EQ(again.hash, found.hash);
}

TEST_F(world_with_faults, is_shrunk_to_few_decisions_that_still_fail) {
    plan p;
    verdict found = first_finding("cancel_leaves_the_waiter_in_line", p);
    std::vector<decision> shortest = shrink(p, found.decisions);
    EXPECT_LT(shortest.size(), found.decisions.size());
    EXPECT_LE(shortest.size(), 10u);
    verdict again = replay(p, shortest);
    EXPECT_TRUE(again.failed);
    EXPECT_EQ(again.what, found.what);
    faults::plant("none");
    EXPECT_FALSE(replay(p, shortest).failed);
}

TEST_F(world_with_faults, needs_every_decision_that_is_left) {
    plan p;
    verdict found = first_finding("late_answer_believed", p);
    std::vector<decision> shortest = shrink(p, found.decisions);
    for (std::size_t i = 0; i < shortest.size(); ++i) {
        auto fewer = shortest;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        verdict v = replay(p, fewer);
        EXPECT_FALSE(v.failed && v.what == found.what) << "without decision " << i;
    }
}

TEST(plant, knows_the_faults_by_name) {
    EXPECT_GE(faults::names.size() - 1, 60u);
    EXPECT_TRUE(faults::plant("discard_serves_no_waiter"));
    EXPECT_EQ(faults::names[faults::switched_on], std::string("discard_serves_no_waiter"));
    EXPECT_FALSE(faults::plant("no_such_fault"));
    EXPECT_TRUE(faults::plant("none"));
    EXPECT_EQ(faults::switched_on, 0u);
}

}  // namespace
}  // namespace cenote::sim
