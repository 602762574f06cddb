// What waiting is like when there are more threads than resources.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "crew.hpp"
#include "stopwatch.hpp"
#include "subjects.hpp"
#include "waits.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

using namespace std::chrono_literals;

/// Keeps the processor busy for about a microsecond.
void work_a_microsecond() {
    static const auto microsecond = static_cast<std::uint64_t>(1000 / nanoseconds_per_tick());
    for (std::uint64_t began = ticks(); ticks() - began < microsecond;) {
    }
}

/// As long as a query: the thread gives its processor away.
void wait_for_an_answer() { std::this_thread::sleep_for(100us); }

template <class Pool>
measured run_crowd(Pool& pool, std::size_t threads, double seconds, void (*hold)()) {
    std::vector<waits> each(threads);
    shift done =
        run_crew(threads, false, seconds, [&](std::size_t index, const std::atomic<bool>& stop) {
            std::uint64_t cycles = 0;
            for (; !stop.load(std::memory_order_relaxed); ++cycles) {
                std::uint64_t asked = ticks();
                auto lease = pool.acquire();
                each[index].record(ticks() - asked);
                ++lease->uses;
                hold();
            }
            return cycles;
        });
    waits all;
    for (const waits& w : each) all.add(w);
    auto microseconds = [](std::uint64_t t) {
        return static_cast<double>(t) * nanoseconds_per_tick() * 1e-3;
    };
    auto [least, most] = std::minmax_element(done.served.begin(), done.served.end());
    double evenness = static_cast<double>(*least) / static_cast<double>(std::max(*most, 1ul));
    return {.metrics = {{"cycles", done.per_second() * 1e-3, "k/s"},
                        {"wait p50", microseconds(all.quantile(0.5)), "us"},
                        {"wait p99", microseconds(all.quantile(0.99)), "us"},
                        {"wait longest", microseconds(all.longest()), "us"},
                        {"least/most", evenness, ""},
                        {"cores", done.cores, ""}},
            .cores = done.cores};
}

std::vector<subject> crowds(std::size_t threads, cenote::fairness fairness, void (*hold)(),
                            double cores_needed) {
    constexpr std::size_t resources = 4;
    auto ours = std::make_shared<cenote_pool>(resources, options{.fairness = fairness});
    auto theirs = std::make_shared<textbook_pool<thing>>(resources);
    return {
        {"cenote", [=](double s) { return run_crowd(*ours, threads, s, hold); }, cores_needed},
        {"textbook", [=](double s) { return run_crowd(*theirs, threads, s, hold); }, cores_needed}};
}

workload long_holds() {
    return {.about = "32 threads on 4 resources, each held for 100 us asleep",
            .seconds = 0.8,
            .subjects = crowds(32, fairness::strict, wait_for_an_answer, 0),
            .goals = {{"least / most served", goal::bound::at_least, 0.9,
                       value_of("cenote", "least/most")},
                      {"p99 wait, cenote / textbook", goal::bound::at_most, 0.2,
                       ratio("cenote", "textbook", "wait p99")},
                      {"throughput, cenote / textbook", goal::bound::at_least, 0.95,
                       ratio("cenote", "textbook", "cycles")}}};
}

workload short_holds(std::size_t threads, double throughput) {
    constexpr double cores_needed = 1.8;
    auto subjects = crowds(threads, fairness::bounded, work_a_microsecond, cores_needed);
    // Its waits are what the threads lose to each other's time slices: nobody can promise less.
    auto alone = [=](double s) {
        no_pool each_its_own;
        return run_crowd(each_its_own, threads, s, work_a_microsecond);
    };
    subjects.push_back({"no pool", alone, cores_needed});
    return {.about = std::to_string(threads) +
                     " threads on 4 resources, each held for 1 us busy; bounded fairness",
            .seconds = 0.8,
            .subjects = subjects,
            .goals = {{"throughput, cenote / textbook", goal::bound::at_least, throughput,
                       ratio("cenote", "textbook", "cycles")},
                      {"longest wait, cenote / textbook", goal::bound::at_most, 0.4,
                       ratio("cenote", "textbook", "wait longest")},
                      {"least / most served", goal::bound::at_least, 0.6,
                       value_of("cenote", "least/most")}}};
}

}  // namespace

void run_contention(report& into) {
    into.run("long-holds-32", long_holds);
    into.run("short-holds-8", [] { return short_holds(8, 0.95); });
    into.run("short-holds-32", [] { return short_holds(32, 0.75); });
}

}  // namespace cenote::bench
