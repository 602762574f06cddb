// Looks for a mutant with seeds of the simulator: CENOTE_SEEDS says how many (scripts/mutate).
#include <cstdlib>

#include <gtest/gtest.h>

#include "sim/run.hpp"

namespace cenote::sim {
namespace {

TEST(mutant, is_found_by_no_seed) {
    const char* seeds = std::getenv("CENOTE_SEEDS");
    std::uint64_t end = seeds == nullptr ? 1 : std::strtoull(seeds, nullptr, 10);
    for (std::uint64_t seed = 0; seed < end; ++seed) {
        verdict v = run(draw_plan(seed, 2000), false);
        ASSERT_FALSE(v.failed) << "seed " << seed << ": " << v.what;
    }
}

}  // namespace
}  // namespace cenote::sim
