// How a thread waits: asleep on a word of its own stack.
#pragma once

#include <atomic>
#include <cstdint>

#include "cenote/detail/waiter.hpp"
#include "core/instant.hpp"

namespace cenote::shell {

class thread_waiter final : public detail::waiter {
public:
    enum class woken : std::uint8_t { done, late };

    void notify() noexcept override;

    /// Sleeps until it is notified, or until `until`.
    woken sleep(core::instant until) noexcept;

    /// To be used once more.
    void rearm() noexcept { state_.store(asleep, std::memory_order_relaxed); }

private:
    enum : std::uint32_t { asleep, finished };
    std::atomic<std::uint32_t> state_{asleep};
};

}  // namespace cenote::shell
