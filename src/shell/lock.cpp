// The slow paths of the lock, its condition variable, and the futex system call.
#include "shell/lock.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cenote::shell {

/// The steady clock is CLOCK_MONOTONIC.
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

/// A thread that had to sleep locks with `contended`, because it does not know whether other
/// threads sleep. At worst the unlock wakes no thread.
void pool_lock::lock_contended(std::uint32_t seen) noexcept {
    if (seen != contended) seen = state_.exchange(contended, std::memory_order_acquire);
    while (seen != unlocked) {
        sleep_on(state_, contended, core::never);
        seen = state_.exchange(contended, std::memory_order_acquire);
    }
}

/// The waiting thread counts itself before it reads `notified_`, and notify() reads the count after
/// it has changed `notified_`, so one of the two threads sees the other.
bool pool_condition::wait_until(pool_guard& g, core::instant limit) {
    waiting_.fetch_add(1);
    std::uint32_t before = notified_.load();
    g.unlock();
    sleep_on(notified_, before, limit);
    waiting_.fetch_sub(1);
    g.lock();
    return limit == core::never || std::chrono::steady_clock::now() < limit;
}

bool pool_condition::wait_for(pool_guard& g, core::duration at_most) {
    return wait_until(g, core::after(std::chrono::steady_clock::now(), at_most));
}

void pool_condition::notify(int count) noexcept {
    notified_.fetch_add(1);
    if (waiting_.load() != 0) wake_from(&notified_, count);
}

void pool_condition::notify_all() noexcept { notify(std::numeric_limits<int>::max()); }

}  // namespace cenote::shell
