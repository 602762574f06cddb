// How a thread waits: asleep on a word of its own stack.
//
// A futex instead of a condition variable: the notifying thread must not touch the word after the
// store that lets the waiter go, and a futex wake needs only the address. A wake that comes too
// late wakes no thread, or a thread that checks its own word and sleeps again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "cenote/detail/waiter.hpp"
#include "core/instant.hpp"
#include "shell/lock.hpp"

namespace cenote::shell {

class thread_waiter final : public detail::waiter {
public:
    enum class woken : std::uint8_t { done, late };

    explicit thread_waiter(std::span<detail::resource*> place_for) : into(place_for) {
        wants_several = into.size() > 1;
    }

    void notify() noexcept override {
        const auto* word = &state_;
        state_.store(finished, std::memory_order_release);
        wake_from(word, std::numeric_limits<int>::max());
    }

    /// Sleeps until notify(), or until `until`.
    woken sleep(core::instant until) noexcept {
        while (!is_done()) {
            sleep_on(state_, asleep, until);
            if (is_done()) break;
            bool late = until != core::never && std::chrono::steady_clock::now() >= until;
            if (late) return woken::late;
        }
        return woken::done;
    }

    bool is_done() const noexcept { return state_.load(std::memory_order_acquire) == finished; }

    /// Prepares the next wait.
    void rearm() noexcept {
        state_.store(asleep, std::memory_order_relaxed);
        filled = 0;
    }

    // For a waiter that wants several: it is notified when it has them all.

    /// Under the keeper's lock. True: it has them all.
    bool add(detail::resource* r) {
        into[filled++] = r;
        return filled == into.size();
    }

    std::span<detail::resource*> into;
    std::size_t filled = 0;

private:
    enum : std::uint32_t { asleep, finished };
    std::atomic<std::uint32_t> state_{asleep};
};

}  // namespace cenote::shell
