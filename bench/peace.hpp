// Whether a measurement was left in peace: nobody stole the processors' time, and they kept their
// pace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "stopwatch.hpp"

namespace cenote::bench {

/// What all processors did since boot, in the kernel's ticks.
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

    /// Of the time since `before`, between 0 and 1.
    double stolen_since(const processor_time& before) const {
        return all > before.all ? (stolen - before.stolen) / (all - before.all) : 0;
    }
};

/// How long the processor takes for the same piece of work: a chain of multiplications that nothing
/// but its clock can shorten. The best of a few, so that an interrupt does not count.
inline double time_of_known_work() {
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

/// From its construction to kept().
class peace {
public:
    peace() : before_(processor_time::now()) {
        fastest_ = std::min(fastest_, time_of_known_work());
    }

    /// 1 or more: nothing disturbed it. Less: the more so, the smaller.
    double kept() const {
        constexpr double stolen_at_most = 0.02;
        constexpr double slower_at_most = 1.15;
        double stolen = processor_time::now().stolen_since(before_);
        double pace = time_of_known_work() / fastest_;
        double calm = stolen > stolen_at_most ? 1 - stolen : 1;
        return pace > slower_at_most ? std::min(calm, slower_at_most / pace) : calm;
    }

private:
    static inline double fastest_ = 1;

    processor_time before_;
};

}  // namespace cenote::bench
