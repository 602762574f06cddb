// How a thread waits.
//
// A futex and no condition variable: the word lives on the waiter's stack, so whoever wakes it must
// not touch it after the store that lets it go. A futex wake needs only the address; a wake that
// comes too late finds nobody, or wakes somebody who looks at his own word and sleeps again.
#include "shell/wait_thread.hpp"

#include <chrono>
#include <limits>

#include "shell/futex.hpp"

namespace cenote::shell {

void thread_waiter::notify() noexcept {
    const auto* word = &state_;
    state_.store(finished, std::memory_order_release);
    wake_from(word, std::numeric_limits<int>::max());
}

thread_waiter::woken thread_waiter::sleep(core::instant until) noexcept {
    for (;;) {
        if (state_.load(std::memory_order_acquire) == finished) return woken::done;
        if (until != core::never && std::chrono::steady_clock::now() >= until) return woken::late;
        sleep_on(state_, asleep, until);
    }
}

}  // namespace cenote::shell
