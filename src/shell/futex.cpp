// Sleeping on a word: the system call. The steady clock is CLOCK_MONOTONIC.
#include "shell/futex.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cenote::shell {

void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t value,
              core::instant limit) noexcept {
    timespec at{};
    if (limit != core::never) {
        auto since_boot = std::max(limit.time_since_epoch(), core::duration{});
        auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
        at.tv_sec = static_cast<time_t>(seconds.count());
        at.tv_nsec = static_cast<long>((since_boot - seconds).count());
    }
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
            limit == core::never ? nullptr : &at, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void wake_from(const std::atomic<std::uint32_t>* word, int count) noexcept {
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
}

}  // namespace cenote::shell
