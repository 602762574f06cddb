// What a cycle costs when there are enough resources for everybody.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crew.hpp"
#include "stopwatch.hpp"
#include "subjects.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

/// The median of ten batches on this thread.
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

template <class Subject, class... Args>
subject on_one_thread(const std::string& name, Args... args) {
    auto pool = std::make_shared<Subject>(args...);
    return {.name = name,
            .run = [pool](double seconds) { return time_cycles(seconds, [&] { cycle(*pool); }); },
            .cores_needed = 0.9};
}

workload one_thread() {
    return {
        .about = "one thread, pool of 10; floor: two exchanges on two cache lines",
        .seconds = 0.3,
        .subjects = {on_one_thread<cenote_pool>("cenote", 10),
                     on_one_thread<textbook_pool<thing>>("textbook", 10),
                     on_one_thread<two_exchanges>("floor")},
        .goals = {{"cenote / floor", goal::bound::at_most, 3.0, ratio("cenote", "floor", "cycle")},
                  {"textbook / cenote", goal::bound::at_least, 1.6,
                   ratio("textbook", "cenote", "cycle")}}};
}

template <class Pool>
measured run_pair(Pool& pool, double seconds) {
    constexpr int between_looks = 32;
    shift done = run_crew(2, true, seconds, [&](std::size_t, const std::atomic<bool>& stop) {
        std::uint64_t cycles = 0;
        for (; !stop.load(std::memory_order_relaxed); cycles += between_looks)
            for (int i = 0; i < between_looks; ++i) cycle(pool);
        return cycles;
    });
    return {.metrics = {{"cycles", done.per_second() * 1e-6, "M/s"}}, .cores = done.cores};
}

workload two_threads() {
    auto ours = std::make_shared<cenote_pool>(10);
    auto theirs = std::make_shared<textbook_pool<thing>>(10);
    return {.about = "two threads, one per processor, pool of 10",
            .seconds = 0.4,
            .subjects = {{"cenote", [=](double s) { return run_pair(*ours, s); }, 1.85},
                         {"textbook", [=](double s) { return run_pair(*theirs, s); }, 1.85}},
            .goals = {{"cenote / textbook", goal::bound::at_least, 8.0,
                       ratio("cenote", "textbook", "cycles")}}};
}

/// One pool per size; all its resources are idle, or all but one are lent already.
workload flat_in_size(const std::string& about, cenote::order order, bool all_idle) {
    struct lent {
        lent(std::size_t size, cenote::order order) : pool(size, {.order = order}) {}
        cenote_pool pool;
        std::vector<lease<thing>> out;
    };
    workload w{.about = about, .seconds = 0.1};
    for (std::size_t size : {4u, 64u, 1024u, 4096u}) {
        auto it = std::make_shared<lent>(size, order);
        for (std::size_t i = 1; i < size && !all_idle; ++i) it->out.push_back(it->pool.acquire());
        w.subjects.push_back(
            {std::to_string(size),
             [it](double seconds) { return time_cycles(seconds, [&] { cycle(it->pool); }); }, 0.9});
    }
    w.goals = {{"largest / smallest", goal::bound::at_most, 2.0, unevenness("cycle")}};
    return w;
}

}  // namespace

void run_cycles(report& into) {
    into.run("one-thread", one_thread);
    into.run("two-threads", two_threads);
    into.run("size-fast-idle",
             [] { return flat_in_size("pool size, fast lane, all idle", order::lifo, true); });
    into.run("size-fast-leased", [] {
        return flat_in_size("pool size, fast lane, all but one leased", order::lifo, false);
    });
    into.run("size-keeper-idle", [] {
        return flat_in_size("pool size, through the keeper, all idle", order::fifo, true);
    });
    into.run("size-keeper-leased", [] {
        return flat_in_size("pool size, through the keeper, all but one leased", order::fifo,
                            false);
    });
}

}  // namespace cenote::bench
