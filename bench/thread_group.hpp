// Runs threads that start and stop together, and counts and times their cycles.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include "report.hpp"
#include "stopwatch.hpp"
#include "waits.hpp"

namespace cenote::bench {

struct group_result {
    std::vector<std::uint64_t> served;  // cycles by thread
    double seconds = 0;
    double cores = 0;

    double per_second() const {
        double all = 0;
        for (std::uint64_t n : served) all += static_cast<double>(n);
        return all / seconds;
    }
};

/// Pins the calling thread to the n-th processor that it may use.
inline void pin_to_processor(std::size_t n) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    n %= static_cast<std::size_t>(CPU_COUNT(&allowed));
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed) || n-- != 0) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        return;
    }
}

/// Runs `work(index, stop)` on `count` threads; `work` returns its number of cycles.
template <class Work>
group_result run_thread_group(std::size_t count, bool pinned, double seconds, Work work) {
    group_result done;
    done.served.resize(count);
    std::atomic<bool> stop{false};
    std::latch ready(static_cast<std::ptrdiff_t>(count) + 1);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; ++i)
        threads.emplace_back([&, i] {
            if (pinned) pin_to_processor(i);
            ready.arrive_and_wait();
            done.served[i] = work(i, stop);
        });
    ready.arrive_and_wait();
    stopwatch watch;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop.store(true, std::memory_order_relaxed);
    done.seconds = watch.seconds();
    done.cores = watch.cores();
    for (std::thread& t : threads) t.join();
    return done;
}

/// Runs `cycle()` again and again on `count` threads.
template <class Cycle>
group_result repeat_on_threads(std::size_t count, bool pinned, double seconds, Cycle cycle) {
    return run_thread_group(count, pinned, seconds,
                            [&](std::size_t index, const std::atomic<bool>& stop) {
                                std::uint64_t cycles = 0;
                                for (; !stop.load(std::memory_order_relaxed); ++cycles)
                                    cycle(index);
                                return cycles;
                            });
}

/// A group's result with the wait times of its acquires.
struct timed_result : group_result {
    waits all;

    /// Throughput under this name, waits in microseconds, and fairness.
    measured as_measured(const std::string& throughput) const {
        auto microseconds = [](std::uint64_t t) {
            return static_cast<double>(t) * nanoseconds_per_tick() * 1e-3;
        };
        auto [least, most] = std::minmax_element(served.begin(), served.end());
        double evenness = static_cast<double>(*least) / static_cast<double>(std::max(*most, 1ul));
        return {.metrics = {{throughput, per_second() * 1e-3, "k/s"},
                            {"wait p50", microseconds(all.quantile(0.5)), "µs"},
                            {"wait p99", microseconds(all.quantile(0.99)), "µs"},
                            {"wait p99.9", microseconds(all.quantile(0.999)), "µs"},
                            {"wait longest", microseconds(all.longest()), "µs"},
                            {"least/most", evenness, ""}},
                .cores = cores};
    }
};

/// Runs cycles of `acquire(index)`, which is timed, and `use(lease, index)` on `count` threads.
template <class Acquire, class Use>
timed_result run_timed(std::size_t count, double seconds, Acquire acquire, Use use) {
    std::vector<waits> each(count);
    timed_result done{repeat_on_threads(count, false, seconds,
                                        [&](std::size_t index) {
                                            std::uint64_t begun = ticks();
                                            auto lease = acquire(index);
                                            each[index].record(ticks() - begun);
                                            use(lease, index);
                                        }),
                      {}};
    for (const waits& w : each) done.all.add(w);
    return done;
}

}  // namespace cenote::bench
