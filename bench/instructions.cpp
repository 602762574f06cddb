// Runs this program under callgrind, twice for each pool; the difference is the cost of the cycles.
#include "instructions.hpp"

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "command.hpp"
#include "peers.hpp"
#include "subjects.hpp"

namespace cenote::bench {

namespace {

constexpr std::uint64_t few = 2'000;
constexpr std::uint64_t many = 22'000;

/// The instructions of a process with this number of cycles.
double count_all(const std::string& self, const std::string& name, std::uint64_t cycles) {
    std::string output =
        output_of({"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", self,
                   "--cycles", name, std::to_string(cycles)});
    constexpr std::string_view label = "Collected : ";
    std::size_t at = output.find(label);
    if (at == output.npos) throw std::runtime_error("callgrind printed no number of instructions");
    return std::stod(output.substr(at + label.size()));
}

measured count_cycle(const std::string& self, const std::string& name) {
    try {
        double more = count_all(self, name, many) - count_all(self, name, few);
        return {.metrics = {{"instructions", more / static_cast<double>(many - few), ""}}};
    } catch (const std::exception& e) {
        return {.metrics = {}, .cores = 0, .declined = {}, .failed = e.what()};
    }
}

template <class Pool>
void make_cycles_with(Pool pool, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) cycle(*pool);
}

}  // namespace

bool make_cycles(const std::string& name, std::uint64_t count) {
    bool found = false;
    auto match = [&]<class Pool>(const char* pool_name) {
        if (name != pool_name) return;
        make_cycles_with(std::make_unique<Pool>(10), count);
        found = true;
    };
    match.operator()<cenote_pool>("cenote");
    for_each_peer(match);
    return found;
}

workload instructions(const std::string& self) {
    workload w{.about = "one thread, pool of 10: instructions of a cycle, counted by callgrind",
               .subjects = {},
               .goals = {},
               .exact = true};
    bool has_valgrind = std::system("command -v valgrind >/dev/null 2>&1") == 0;
    auto add = [&]<class Pool>(const char* name) {
        w.subjects.push_back({name, [=, name = std::string(name)](double) {
                                  if (has_valgrind) return count_cycle(self, name);
                                  return measured{.declined = "valgrind is not installed"};
                              }});
    };
    add.operator()<cenote_pool>("cenote");
    for_each_peer(add);
    w.goals = {
        {"cenote", goal::bound::at_most, 105, value_of("cenote", "instructions")},
        {"cenote / textbook", goal::bound::at_most, 1, ratio("cenote", textbook, "instructions")}};
    return w;
}

}  // namespace cenote::bench
