// Planting bugs and finding them.
#include "sim/faults.hpp"

#include <array>
#include <ostream>

#include "sim/run.hpp"

namespace cenote::sim {

namespace {

constexpr std::array<const char*, core::fault_count> fault_names = {"none",
#define CENOTE_FAULT(name) #name,
                                                                    CENOTE_FAULTS(CENOTE_FAULT)
#undef CENOTE_FAULT
};

#ifdef CENOTE_PLANTED_FAULTS

/// The first seed that finds the planted fault, or `seeds`.
std::uint64_t first_finding(std::size_t steps, std::uint64_t seeds, verdict& v) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        v = run(draw_plan(seed, steps), true);
        if (v.failed) return seed;
    }
    return seeds;
}

#endif

}  // namespace

const char* name_of(core::fault f) { return fault_names[static_cast<std::size_t>(f)]; }

#ifdef CENOTE_PLANTED_FAULTS

bool can_plant() { return true; }

bool plant(const std::string& name) {
    for (std::size_t i = 0; i < fault_names.size(); ++i)
        if (name == fault_names[i]) {
            core::planted_fault = static_cast<core::fault>(i);
            return true;
        }
    return false;
}

bool switch_express_off(bool off) {
    core::without_express = off;
    return true;
}

bool find_planted_faults(std::ostream& out, std::size_t steps, std::uint64_t seeds) {
    std::size_t found = 0;
    for (std::size_t i = 1; i < core::fault_count; ++i) {
        core::planted_fault = static_cast<core::fault>(i);
        verdict v;
        std::uint64_t seed = first_finding(steps, seeds, v);
        found += v.failed;
        out << (v.failed ? "found    " : "SURVIVED ") << fault_names[i];
        if (v.failed) {
            auto shortest = shrink(draw_plan(seed, steps), v.decisions);
            out << ": seed " << seed << ", " << shortest.size() << " decisions: " << v.what;
        }
        out << std::endl;
    }
    core::planted_fault = core::fault::none;
    out << found << " of " << core::fault_count - 1 << " planted faults found" << std::endl;
    return found == core::fault_count - 1;
}

#else

bool can_plant() { return false; }
bool plant(const std::string&) { return false; }
bool switch_express_off(bool) { return false; }
bool find_planted_faults(std::ostream& out, std::size_t, std::uint64_t) {
    out << "this build has no planted faults; use cenote-sim-faulty\n";
    return false;
}

#endif

}  // namespace cenote::sim
