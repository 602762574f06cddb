// Where the time since boot comes from.
#include "shell/suspension.hpp"

#include <chrono>
#include <ctime>

namespace cenote::shell {

core::duration time_since_boot() {
    timespec at{};
    clock_gettime(CLOCK_BOOTTIME, &at);
    return std::chrono::seconds{at.tv_sec} + std::chrono::nanoseconds{at.tv_nsec};
}

}  // namespace cenote::shell
