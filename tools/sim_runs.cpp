// Runs simulated worlds from seeds, replays one, shrinks a run that fails.
#include "sim_runs.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/recording.hpp"
#include "sim/run.hpp"

namespace sim_runs {

using namespace cenote;
using sim_options::settings;

namespace {

std::string replay_command(const sim::plan& p, const settings& s) {
    return s.command + " --seed " + std::to_string(p.seed) + " --steps " + std::to_string(p.steps);
}

void print_decisions(std::ostream& out, const std::vector<sim::decision>& decisions) {
    for (const auto& d : decisions) out << "  " << sim::to_string(d) << '\n';
}

/// Prints what was found, the command that repeats it, and the shortest run that finds it.
void explain(const sim::plan& p, const sim::verdict& v, const settings& s) {
    std::cout << "FOUND in seed " << p.seed << ": " << v.what << '\n'
              << "  replay: " << replay_command(p, s) << '\n';
    auto shortest = sim::shrink(p, v.decisions);
    std::cout << "  shrunk from " << v.decisions.size() << " to " << shortest.size()
              << " decisions:\n";
    print_decisions(std::cout, shortest);
    if (!s.save.empty()) {
        std::ofstream file(s.save);
        file << sim::to_text({.from = p, .decisions = shortest});
        std::cout << "  saved: " << s.command << " --replay " << s.save << '\n';
    }
}

void print_hash(std::uint64_t hash) {
    std::printf("%016llx\n", static_cast<unsigned long long>(hash));
}

int run_one(const settings& s) {
    sim::plan p = sim::draw_plan(s.seed, s.steps);
    sim::verdict v = sim::run(p, true);
    if (s.verbose) print_decisions(std::cout, v.decisions);
    if (v.failed) explain(p, v, s);
    print_hash(v.hash);
    return v.failed ? 1 : 0;
}

int replay_file(const settings& s) {
    std::ifstream file(s.replay);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) {
        std::cerr << "cenote-sim: cannot read " << s.replay << '\n';
        return 2;
    }
    try {
        sim::recording r = sim::from_text(text.str());
        sim::verdict v = sim::replay(r.from, r.decisions);
        if (v.failed) std::cout << "FOUND: " << v.what << '\n';
        print_hash(v.hash);
        return v.failed ? 1 : 0;
    } catch (const std::invalid_argument& e) {
        std::cerr << "cenote-sim: " << s.replay << ": " << e.what() << '\n';
        return 2;
    }
}

/// Many seeds on several threads. The hash does not depend on the number of threads.
class batch {
public:
    batch(std::vector<std::uint64_t> seeds, const settings& s)
        : seeds_(std::move(seeds)), settings_(s) {}

    int run() {
        auto began = std::chrono::steady_clock::now();
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < settings_.jobs; ++i) threads.emplace_back([this] { work(); });
        threads.clear();
        std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
        std::cout << done_ << " seeds, " << seen_.steps << " checked steps, " << seen_.grants
                  << " grants (by express " << seen_.passed_on << " passed on and "
                  << seen_.lent_now << " lent; " << seen_.turns << " taken back), " << seen_.cancels
                  << " cancels, " << seen_.destroyed << " destroyed coroutines, " << seen_.refusals
                  << " refusals, " << seen_.faults << " injected faults in " << took.count()
                  << " s\n";
        print_hash(hash_);
        return failures_ == 0 ? 0 : 1;
    }

private:
    void work() {
        for (std::size_t i = next_++; i < seeds_.size() && failures_ < 3; i = next_++) {
            sim::plan p = sim::draw_plan(seeds_[i], settings_.steps);
            sim::verdict v = sim::run(p, false);
            std::lock_guard lock(mutex_);
            seen_.add(v.seen);
            hash_ += v.hash * (2 * i + 1);
            ++done_;
            if (v.failed && failures_++ < 3) explain(p, sim::run(p, true), settings_);
            if (settings_.verbose && done_ % 10'000 == 0)
                std::cerr << done_ << " of " << seeds_.size() << " seeds\n";
        }
    }

    std::vector<std::uint64_t> seeds_;
    const settings& settings_;
    std::atomic<std::size_t> next_{0};
    std::atomic<int> failures_{0};
    std::mutex mutex_;
    std::uint64_t hash_ = 0;
    std::size_t done_ = 0;
    sim::tallies seen_;
};

int run_batch(const settings& s) {
    std::vector<std::uint64_t> seeds;
    for (std::uint64_t i = 0; i < s.seeds; ++i) seeds.push_back(s.from + i);
    std::random_device entropy;
    for (std::uint64_t i = 0; i < s.fresh; ++i)
        seeds.push_back((std::uint64_t{entropy()} << 32 | entropy()) >> 1);
    return batch(std::move(seeds), s).run();
}

}  // namespace

int run(const settings& s) {
    if (!s.replay.empty()) return replay_file(s);
    if (s.seeds + s.fresh > 0) return run_batch(s);
    return run_one(s);
}

}  // namespace sim_runs
