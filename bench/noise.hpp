// Detects noise during a measurement: steal time and frequency changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "stopwatch.hpp"

namespace cenote::bench {

/// The time of all processors since boot, in the kernel's ticks.
struct processor_time {
    double all = 0;
    double stolen = 0;

    static processor_time now() {
        std::ifstream file("/proc/stat");
        std::string cpu;
        file >> cpu;
        processor_time t;
        constexpr int kinds = 8;  // user nice system idle iowait irq softirq steal
        for (int i = 0; i < kinds; ++i) {
            double spent = 0;
            file >> spent;
            t.all += spent;
            if (i == kinds - 1) t.stolen = spent;
        }
        return t;
    }

    /// The stolen share of the time since `before`, from 0 to 1.
    double stolen_since(const processor_time& before) const {
        return all > before.all ? (stolen - before.stolen) / (all - before.all) : 0;
    }
};

/// The time of a chain of multiplications, which depends only on the processor's frequency. The
/// best of five, to exclude interrupts.
inline double time_of_fixed_work() {
    double best = 1;
    for (int i = 0; i < 5; ++i) {
        stopwatch watch;
        std::uint64_t value = 1;
        for (int n = 0; n < 30'000; ++n) {
            value = value * 6364136223846793005u + 1442695040888963407u;
            asm volatile("" : "+r"(value));
        }
        best = std::min(best, watch.seconds());
    }
    return best;
}

/// Measures noise from its construction to quietness().
class noise_detector {
public:
    noise_detector() : before_(processor_time::now()) {
        fastest_ = std::min(fastest_, time_of_fixed_work());
    }

    /// 1 without noise; the smaller, the more noise there was.
    double quietness() const {
        constexpr double stolen_at_most = 0.02;
        constexpr double slower_at_most = 1.15;
        double stolen = processor_time::now().stolen_since(before_);
        double slowdown = time_of_fixed_work() / fastest_;
        double quiet = stolen > stolen_at_most ? 1 - stolen : 1;
        return slowdown > slower_at_most ? std::min(quiet, slower_at_most / slowdown) : quiet;
    }

private:
    static inline double fastest_ = 1;

    processor_time before_;
};

}  // namespace cenote::bench
