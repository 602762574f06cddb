// Simulated worlds: one seed, one trace; decisions can be written down, read back and shrunk.
#include "sim/world.hpp"

#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "sim/faults.hpp"
#include "sim/run.hpp"

namespace cenote::sim {
namespace {

constexpr std::size_t steps = 1000;

/// The first run that finds the planted fault.
verdict first_finding(const std::string& fault, plan& p) {
    EXPECT_TRUE(plant(fault));
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
    ~world_with_faults() override { plant("none"); }
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
    for (auto what : {decision::kind::release, decision::kind::cancel, decision::kind::detach,
                      decision::kind::reject, decision::kind::late})
        decisions.push_back({.what = what, .a = 1, .b = 2});
    verdict v = replay(p, decisions);
    EXPECT_FALSE(v.failed) << v.what;
}

TEST(world, sees_grants_refusals_cancels_and_faults) {
    tallies seen;
    for (std::uint64_t seed = 0; seed < 50; ++seed)
        seen.add(run(draw_plan(seed, steps), false).seen);
    EXPECT_GT(seen.grants, 1000u);
    EXPECT_GT(seen.refusals, 100u);
    EXPECT_GT(seen.cancels, 100u);
    EXPECT_GT(seen.faults, 100u);
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

TEST(plan, is_drawn_from_its_seed_alone) {
    EXPECT_EQ(draw_plan(5, 10).weights, draw_plan(5, 10).weights);
    EXPECT_EQ(draw_plan(5, 10).settings.max, draw_plan(5, 99).settings.max);
    EXPECT_EQ(draw_plan(5, 99).steps, 99u);
}

// `std::chrono::nanoseconds{forever}` takes forever_t's way over uint64_t and is -1 ns, so six
// plans in ten have a heartbeat that is always due instead of none.
TEST(plan, has_only_options_that_a_pool_accepts) {
    for (std::uint64_t seed = 0; seed < 2000; ++seed)
        EXPECT_NO_THROW(validate(draw_plan(seed, 1).settings)) << seed;
}

TEST_F(world_with_faults, finds_the_fault_again_in_a_replay) {
    plan p;
    verdict found = first_finding("discard_wakes_nobody", p);
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
    plant("none");
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
    EXPECT_TRUE(can_plant());
    EXPECT_GE(core::fault_count - 1, 20u);
    EXPECT_FALSE(plant("no_such_fault"));
    EXPECT_STREQ(name_of(core::fault::none), "none");
}

}  // namespace
}  // namespace cenote::sim
