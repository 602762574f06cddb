// Decides whether the processor's counter can be trusted, and has one clock per thread.
#include "shell/read_clock.hpp"

#include <chrono>

#if defined(__x86_64__)

#include <cpuid.h>
#include <cstdint>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#include <x86intrin.h>

#include "shell/tick_clock.hpp"

namespace cenote::shell {

namespace {

struct this_system {
    static std::uint64_t ticks() noexcept { return __rdtsc(); }
    static std::uint64_t ticks_in_order() noexcept {
        _mm_lfence();
        return __rdtsc();
    }
    static core::instant steady() noexcept { return std::chrono::steady_clock::now(); }
};

/// If the kernel uses the counter, it has checked that the counters of all processors agree, or the
/// hypervisor has promised it. If the kernel changes its mind later, tick_clock notices.
bool kernel_reads_counter() noexcept {
    int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                    O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char text[16];
    ssize_t length = read(file, text, sizeof text);
    close(file);
    return length > 0 && std::string_view(text, static_cast<std::size_t>(length)) == "tsc\n";
}

/// The counter's rate does not depend on the processor's frequency or sleep states.
bool is_invariant() noexcept {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
}

constinit tick_rate rate;

/// Decided before main(): later a sandbox may forbid to open files, and there may be threads and
/// forks. Clocks that are read earlier use the steady clock.
[[maybe_unused]] const bool trusted = [] {
    bool sound = kernel_reads_counter() && is_invariant();
    if (sound) rate.allow();
    return sound;
}();

}  // namespace

core::instant read_clock() noexcept {
    static constinit thread_local tick_clock<this_system> mine{rate};
    return mine.now();
}

}  // namespace cenote::shell

#else

namespace cenote::shell {

core::instant read_clock() noexcept { return std::chrono::steady_clock::now(); }

}  // namespace cenote::shell

#endif
