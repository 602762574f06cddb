// The circuit breaker: whether a pool lends at all, and who decides that.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cenote/options.hpp"

namespace cenote {

enum class breaker_state : std::uint8_t {
    active,      ///< Everything as usual.
    inactive,    ///< Every acquire is refused at once with `unavailable`, and so are those in line.
    recovering,  ///< A few may try, all others are refused.
};

/// The word for a state, as in the enum.
const char* to_string(breaker_state state) noexcept;

/// From one state to another.
struct breaker_move {
    breaker_state to{};
    /// To `inactive`: when the strategy is asked whether to recover. `forever`: never.
    std::chrono::nanoseconds cool_down = std::chrono::seconds{1};
    /// To `recovering`: how many leases may be out at a time.
    std::size_t probes = 1;

    bool operator==(const breaker_move&) const = default;
};

/// Decides when the circuit opens and closes. Each function returns where to go, or nothing to stay
/// in the present state; if it throws, the pool stays.
///
/// A success is an open that went well or a lease that came back and was accepted; a failure is a
/// failed open or probe, a lease that before_release rejected, or one that was discarded with a
/// cause. In an active pool that works not every success is told, but at least one before the next
/// failure.
///
/// Thread safety: a pool calls its strategy from any of its users' threads, one call at a time,
/// outside every lock, in the order in which things happened. One strategy belongs to one pool.
/// What it decides is dropped if the state has changed meanwhile (by hand).
class breaker {
public:
    virtual ~breaker() = default;

    virtual std::optional<breaker_move> succeeded(breaker_state present) = 0;
    virtual std::optional<breaker_move> failed(breaker_state present) = 0;
    /// The cool-down of an inactive pool is over. If it stays inactive, it is asked again after
    /// another one.
    virtual std::optional<breaker_move> cooled_down() {
        return breaker_move{.to = breaker_state::recovering};
    }
};

/// Opens the circuit after `failures` in a row, lets `probes` try after `cool_down`, and closes it
/// again after `successes` of these; one failure of theirs opens it again.
class threshold_breaker final : public breaker {
public:
    struct settings {
        std::uint64_t failures = 5;  ///< `forever`: never of its own accord.
        std::chrono::nanoseconds cool_down = std::chrono::seconds{1};
        std::size_t probes = 1;
        std::uint64_t successes = 1;
    };

    threshold_breaker() = default;
    /// Throws invalid_option for a number that is zero, and for a cool-down that is not positive.
    explicit threshold_breaker(const settings& s);

    std::optional<breaker_move> succeeded(breaker_state present) override;
    std::optional<breaker_move> failed(breaker_state present) override;
    std::optional<breaker_move> cooled_down() override;

private:
    void look(breaker_state present);

    settings settings_;
    breaker_state seen_ = breaker_state::active;
    std::uint64_t count_ = 0;  // failures in a row, or successes while recovering
};

}  // namespace cenote
