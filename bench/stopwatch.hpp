// Cheap clocks: the processor's counter for single waits, getrusage for CPU time.
#pragma once

#include <chrono>
#include <cstdint>
#include <sys/resource.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace cenote::bench {

/// A counter with a constant rate, cheap enough to read twice per cycle.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// The length of a tick. The first call measures it, which takes 50 ms.
double nanoseconds_per_tick();

/// Wall time and CPU time of the process since construction.
class stopwatch {
public:
    stopwatch() : began_(std::chrono::steady_clock::now()), used_(cpu_seconds()) {}

    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    }
    /// The average number of processors that the process used.
    double cores() const { return (cpu_seconds() - used_) / seconds(); }

private:
    static double cpu_seconds() {
        rusage use{};
        getrusage(RUSAGE_SELF, &use);
        auto of = [](const timeval& t) {
            return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
        };
        return of(use.ru_utime) + of(use.ru_stime);
    }

    std::chrono::steady_clock::time_point began_;
    double used_;
};

}  // namespace cenote::bench
