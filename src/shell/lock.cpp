// The slow ways of the lock, and how threads wait for a condition.
#include "shell/lock.hpp"

#include <chrono>
#include <limits>

namespace cenote::shell {

/// A thread that had to sleep takes the lock as `wanted`: it does not know whether others sleep,
/// and at worst wakes no one.
void pool_lock::wait_for_it(std::uint32_t seen) noexcept {
    if (seen != wanted) seen = state_.exchange(wanted, std::memory_order_acquire);
    while (seen != open) {
        sleep_on(state_, wanted, core::never);
        seen = state_.exchange(wanted, std::memory_order_acquire);
    }
}

/// It counts itself before it reads `told_`, and tell() reads the count after it changed `told_`,
/// so one of the two sees the other.
bool condition::wait_until(holding& h, core::instant limit) {
    waiting_.fetch_add(1);
    std::uint32_t before = told_.load();
    h.unlock();
    sleep_on(told_, before, limit);
    waiting_.fetch_sub(1);
    h.lock();
    return limit == core::never || std::chrono::steady_clock::now() < limit;
}

bool condition::wait_for(holding& h, core::duration at_most) {
    return wait_until(h, core::after(std::chrono::steady_clock::now(), at_most));
}

void condition::tell(int count) noexcept {
    told_.fetch_add(1);
    if (waiting_.load() != 0) wake_from(&told_, count);
}

void condition::tell_all() noexcept { tell(std::numeric_limits<int>::max()); }

}  // namespace cenote::shell
