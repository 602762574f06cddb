// Estimates the present rate of an event.
#pragma once

#include <cstdint>

#include "core/instant.hpp"

namespace cenote::core {

/// Counts events in windows of one second; the last full window and the present one give the rate.
class rate {
public:
    void note(instant now) {
        if (now >= ends_) [[unlikely]]
            roll(now);
        ++count_;
    }

    /// The average time between two events; `otherwise` with too few events.
    duration interval(instant now, duration otherwise) const {
        bool recent = now < after(began_, 2 * window);
        std::uint64_t count = recent ? count_ + before_ : 0;
        if (count == 0) return otherwise;
        duration span = now - began_ + (before_ == 0 ? duration{} : window);
        return span / static_cast<std::int64_t>(count);
    }

private:
    static constexpr duration window = std::chrono::seconds{1};

    void roll(instant now) {
        before_ = now < after(began_, 2 * window) ? count_ : 0;
        count_ = 0;
        began_ = now;
        ends_ = after(now, window);
    }

    instant began_ = long_ago;
    instant ends_ = long_ago;
    std::uint64_t count_ = 0;
    std::uint64_t before_ = 0;  // in the last full window
};

}  // namespace cenote::core
