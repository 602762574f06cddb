// cenote-sim-faulty: the simulator with planted faults, and a search for each of them.
#include <cstdint>
#include <iostream>

#include "faults/planting.hpp"
#include "sim/run.hpp"
#include "sim_runs.hpp"

namespace {

using namespace cenote;
using sim_options::settings;

/// Looks for the planted fault with up to s.seeds seeds, and prints a line. Whether it was found.
bool find(const char* fault, const settings& s) {
    for (std::uint64_t seed = 0; seed < s.seeds; ++seed) {
        sim::plan p = sim::draw_plan(seed, s.steps);
        sim::verdict v = sim::run(p, true);
        if (!v.failed) continue;
        std::size_t shortest = sim::shrink(p, v.decisions).size();
        std::cout << "found    " << fault << ": seed " << seed << ", " << shortest
                  << " decisions: " << v.what << std::endl;
        return true;
    }
    std::cout << "SURVIVED " << fault << std::endl;
    return false;
}

int find_all(const settings& s) {
    std::size_t found = 0;
    for (std::size_t i = 1; i < faults::names.size(); ++i) {
        faults::plant(faults::names[i]);
        found += find(faults::names[i], s);
    }
    std::size_t all = faults::names.size() - 1;
    std::cout << found << " of " << all << " planted faults found" << std::endl;
    return found == all ? 0 : 1;
}

int list_all() {
    for (std::size_t i = 1; i < faults::names.size(); ++i) std::cout << faults::names[i] << '\n';
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    settings s;
    s.command = "build/bin/cenote-sim-faulty";
    s.faulty = true;
    if (auto status = sim_options::read(argc, argv, s)) return *status;
    if (s.list_plants) return list_all();
    if (s.plants) return find_all(s);
    if (s.without_express) {
        faults::switched_on = faults::without_express;
        s.command += " --without-express";
    } else if (!s.plant.empty()) {
        if (!faults::plant(s.plant)) {
            std::cerr << "cenote-sim-faulty: there is no fault " << s.plant
                      << ": see --list-plants\n";
            return 2;
        }
        s.command += " --plant " + s.plant;
    }
    return sim_runs::run(s);
}
