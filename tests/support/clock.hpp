// Lets a test stop the steady clock and advance it by hand.
//
// In every test program the linker (--wrap) redirects steady_clock::now(), the library's
// read_clock() and system calls with timeouts to clock.cpp. The library itself does not know.
#pragma once

#include <chrono>
#include <cstdint>

namespace support {

/// During its lifetime, the steady clock stands still; only advance() moves it. A timed wait that
/// begins meanwhile ends when the stopped clock reaches its deadline; a wait that began earlier has
/// its real length, so create this object first. One at a time; afterwards the clock runs on from
/// the time it shows.
///
/// Pools treat a timer that is two seconds late as a sign of a frozen process: advance by less at a
/// time unless that is tested.
class stopped_clock {
public:
    stopped_clock();
    ~stopped_clock();
    stopped_clock(const stopped_clock&) = delete;
    stopped_clock& operator=(const stopped_clock&) = delete;

    void advance(std::chrono::nanoseconds by);
};

/// How often this thread has read the steady clock, in the library or in the test.
std::uint64_t clock_reads();

/// Advances the time since boot, but not the steady clock, as a suspended system does.
void suspend_system(std::chrono::nanoseconds time);

}  // namespace support
