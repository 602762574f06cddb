// Measures the time of a cycle on one thread, and the throughput of several.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "report.hpp"
#include "stopwatch.hpp"
#include "subjects.hpp"
#include "thread_group.hpp"

namespace cenote::bench {

/// The time of a cycle on this thread: the median of ten batches.
template <class Cycle>
measured time_cycles(double seconds, Cycle one) {
    constexpr int batches = 10;
    auto time_batch = [&](std::uint64_t count) {
        stopwatch watch;
        for (std::uint64_t i = 0; i < count; ++i) one();
        return watch.seconds();
    };
    std::uint64_t count = 256;
    double took = time_batch(count);
    while (took < seconds / batches / 4) took = time_batch(count *= 2);
    count = static_cast<std::uint64_t>(static_cast<double>(count) * seconds / batches / took);
    stopwatch watch;
    std::vector<double> times;
    for (int i = 0; i < batches; ++i)
        times.push_back(time_batch(count) * 1e9 / static_cast<double>(count));
    return {.metrics = {{"cycle", spread_of(times).median, "ns"}}, .cores = watch.cores()};
}

/// The throughput of `cycle(pool)` on several threads.
template <class Pool>
measured run_threads(Pool& pool, std::size_t threads, double seconds) {
    constexpr int cycles_per_check = 32;
    bool pinned = threads <= 2;
    group_result done =
        run_thread_group(threads, pinned, seconds, [&](std::size_t, const std::atomic<bool>& stop) {
            std::uint64_t cycles = 0;
            for (; !stop.load(std::memory_order_relaxed); cycles += cycles_per_check)
                for (int i = 0; i < cycles_per_check; ++i) cycle(pool);
            return cycles;
        });
    return {.metrics = {{"cycles", done.per_second() * 1e-6, "M/s"}}, .cores = done.cores};
}

}  // namespace cenote::bench
