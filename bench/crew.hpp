// Threads that start together, work until they are told to stop, and are counted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <vector>

#include "stopwatch.hpp"

namespace cenote::bench {

struct shift {
    std::vector<std::uint64_t> served;  // cycles of each thread
    double seconds = 0;
    double cores = 0;

    double per_second() const {
        double all = 0;
        for (std::uint64_t n : served) all += static_cast<double>(n);
        return all / seconds;
    }
};

/// Keeps the calling thread on the n-th of the processors it may use.
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

/// Runs `work(index, stop)` on `count` threads; it returns how many cycles it made.
template <class Work>
shift run_crew(std::size_t count, bool pinned, double seconds, Work work) {
    shift done;
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

}  // namespace cenote::bench
