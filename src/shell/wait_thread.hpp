// How a thread waits: asleep on a word of its own stack.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cenote/detail/waiter.hpp"
#include "core/instant.hpp"

namespace cenote::shell {

class thread_waiter : public detail::waiter {
public:
    enum class woken : std::uint8_t { done, late };

    void notify() noexcept override;

    /// Sleeps until it is notified, or until `until`.
    woken sleep(core::instant until) noexcept;

    bool is_done() const noexcept { return state_.load(std::memory_order_acquire) == finished; }

    /// To be used once more.
    void rearm() noexcept { state_.store(asleep, std::memory_order_relaxed); }

private:
    enum : std::uint32_t { asleep, finished };
    std::atomic<std::uint32_t> state_{asleep};
};

/// Wants several, and is told when it has them all.
class many_waiter final : public thread_waiter {
public:
    explicit many_waiter(std::span<detail::resource*> place_for) : into(place_for) {
        wants_several = true;
    }

    /// Under the keeper's lock. True: that was the last one.
    bool add(detail::resource* r) {
        into[filled++] = r;
        return filled == into.size();
    }

    std::span<detail::resource*> into;
    std::size_t filled = 0;
};

}  // namespace cenote::shell
