// The cost of one cycle under Google Benchmark.
#include <atomic>

#include <benchmark/benchmark.h>

#include "textbook_pool.hpp"
#include <cenote/pool.hpp>

namespace {

void textbook_cycle(benchmark::State& state) {
    static cenote::bench::textbook_pool<int> pool(10);
    for (auto _ : state) ++*pool.acquire().operator->();
}

void cenote_cycle(benchmark::State& state) {
    static cenote::pool<int> pool{[] { return 0; }};
    for (auto _ : state) ++*pool.acquire();
}

void cenote_cycle_through_the_keeper(benchmark::State& state) {
    static cenote::pool<int> pool{[] { return 0; }, {.order = cenote::order::fifo}};
    for (auto _ : state) ++*pool.acquire();
}

void two_exchanges(benchmark::State& state) {
    struct alignas(64) line {
        std::atomic<long> word{0};
    };
    static line first;
    static line second;
    for (auto _ : state) {
        benchmark::DoNotOptimize(first.word.exchange(1));
        benchmark::DoNotOptimize(second.word.exchange(1));
    }
}

BENCHMARK(two_exchanges);
BENCHMARK(textbook_cycle)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(cenote_cycle)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(cenote_cycle_through_the_keeper)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
