// How a thread waits.
//
// A futex and no condition variable: the word lives on the waiter's stack, so whoever wakes it must
// not touch it after the store that lets it go. A futex wake needs only the address; a wake that
// comes too late finds nobody, or wakes somebody who looks at his own word and sleeps again.
#include "shell/wait_thread.hpp"

#include <chrono>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cenote::shell {

namespace {

void wake(const std::atomic<std::uint32_t>* word) noexcept {
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, nullptr, nullptr, 0);
}

/// Sleeps while *word == value, at most until `until` (the steady clock is CLOCK_MONOTONIC).
void wait(const std::atomic<std::uint32_t>* word, std::uint32_t value,
          core::instant until) noexcept {
    timespec at{};
    if (until != core::never) {
        auto since_boot = until.time_since_epoch();
        auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
        at.tv_sec = static_cast<time_t>(seconds.count());
        at.tv_nsec = static_cast<long>((since_boot - seconds).count());
    }
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
            until == core::never ? nullptr : &at, nullptr, FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

void thread_waiter::notify() noexcept {
    const auto* word = &state_;
    state_.store(finished, std::memory_order_release);
    wake(word);
}

thread_waiter::woken thread_waiter::sleep(core::instant until) noexcept {
    for (;;) {
        if (state_.load(std::memory_order_acquire) == finished) return woken::done;
        if (until != core::never && std::chrono::steady_clock::now() >= until) return woken::late;
        wait(&state_, asleep, until);
    }
}

}  // namespace cenote::shell
