// The steady clock in the hands of a test: time passes when the test says so, and not before.
//
// Every test program reads the time through clock.cpp: the linker redirects steady_clock::now(),
// the library's read_clock() and the calls that wait until some time (--wrap). Nothing in the
// library knows of it.
#pragma once

#include <chrono>

namespace support {

/// While it exists, the steady clock stands still; only advance() moves it. A timed wait that
/// begins meanwhile ends when the clock has reached its time. Make it before what it is to rule: a
/// wait that began earlier has its real length. One at a time; afterwards the clock runs on from
/// where it is.
///
/// Pools take a timer that is two seconds late for a frozen process, so advance() a pool by less at
/// a time unless that is the point.
class stopped_clock {
public:
    stopped_clock();
    ~stopped_clock();
    stopped_clock(const stopped_clock&) = delete;
    stopped_clock& operator=(const stopped_clock&) = delete;

    void advance(std::chrono::nanoseconds by);
};

/// From now on the time since boot is ahead of the steady clock by so much more, as after the
/// system was suspended.
void suspend_system(std::chrono::nanoseconds time);

}  // namespace support
