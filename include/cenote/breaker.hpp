// The circuit breaker: whether a pool lends at all, and who decides that.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>

#include "cenote/options.hpp"

namespace cenote {

namespace detail {
struct breaker_owner;
}

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

/// What a strategy is told with each call.
struct breaker_report {
    /// The name of the pool.
    std::string_view pool{};
    /// The state of the circuit now.
    breaker_state state{};
    /// When it happened. A strategy that measures time uses this and reads no clock.
    std::chrono::steady_clock::time_point at{};
    /// With `succeeded`: how many uses succeeded since the last report.
    std::uint64_t count = 1;
    /// With `failed`: the error, if there was an exception.
    std::exception_ptr error = nullptr;
};

/// Decides when the circuit opens and closes. Each function returns the next state, or nothing to
/// stay in the present one. If it throws, the state does not change.
///
/// A success is a use: a lease that came back and was accepted. An open or a probe that succeeds
/// says nothing about whether the server can work. A failure is a failed open or probe, a lease
/// that before_release rejected, or one that was discarded with a cause.
///
/// While the circuit is active, successes are reported as a sum: before each failure, and otherwise
/// every 100 ms or at the next sweep. While it recovers, only leases count that were lent since the
/// recovery began, and each is reported.
///
/// Thread safety: a pool calls its strategy from any of its users' threads, one call at a time,
/// outside every lock, in the order in which things happened. The decision is dropped if the state
/// was changed by hand meanwhile. A strategy serves one pool: a second one refuses it.
class breaker {
public:
    breaker() = default;
    breaker(const breaker&) = delete;
    breaker& operator=(const breaker&) = delete;
    virtual ~breaker() = default;

    virtual std::optional<breaker_move> succeeded(const breaker_report& what) = 0;
    virtual std::optional<breaker_move> failed(const breaker_report& what) = 0;
    /// The cool-down of an inactive pool is over. If the pool stays inactive, this is called again
    /// after another cool-down.
    virtual std::optional<breaker_move> cooled_down(const breaker_report&) {
        return breaker_move{.to = breaker_state::recovering};
    }

private:
    friend struct detail::breaker_owner;
    std::atomic<bool> owned_{false};  // by a pool
};

/// Opens the circuit after `failures` in a row, lets `probes` leases out after `cool_down`, and
/// closes it after `successes` of these came back well. One failure while it recovers opens it
/// again.
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

    std::optional<breaker_move> succeeded(const breaker_report& what) override;
    std::optional<breaker_move> failed(const breaker_report& what) override;
    std::optional<breaker_move> cooled_down(const breaker_report& what) override;

private:
    void look(breaker_state present);

    settings settings_;
    breaker_state seen_ = breaker_state::active;
    std::uint64_t count_ = 0;  // failures in a row, or successes while recovering
};

/// Counts uses, failed opens and failed probes. Opens the circuit when at least `rate` of those in
/// the last `window` failed, if there were at least `calls` of them. For servers that fail now and
/// then: a row of failures says little when many threads use the pool, since one success ends the
/// row. Recovers like threshold_breaker.
class rate_breaker final : public breaker {
public:
    struct settings {
        double rate = 0.5;         ///< Above 0, at most 1.
        std::uint64_t calls = 20;  ///< Fewer say nothing.
        /// Counted in ten parts: the window moves on by a tenth at a time.
        std::chrono::nanoseconds window = std::chrono::seconds{10};
        std::chrono::nanoseconds cool_down = std::chrono::seconds{1};
        std::size_t probes = 1;
        std::uint64_t successes = 1;
    };

    rate_breaker() : rate_breaker(settings{}) {}
    /// Throws invalid_option for a number that is zero, a rate outside its range, and a time that
    /// is not positive.
    explicit rate_breaker(const settings& s);

    std::optional<breaker_move> succeeded(const breaker_report& what) override;
    std::optional<breaker_move> failed(const breaker_report& what) override;
    std::optional<breaker_move> cooled_down(const breaker_report& what) override;

private:
    struct part {
        std::int64_t number = -1;  // of all parts since the clock began
        std::uint64_t succeeded = 0;
        std::uint64_t failed = 0;
    };
    static constexpr std::size_t part_count = 10;

    void look(breaker_state present);
    part& part_at(std::chrono::steady_clock::time_point at);
    bool too_many_failed(std::chrono::steady_clock::time_point at) const;

    settings settings_;
    breaker_state seen_ = breaker_state::active;
    std::uint64_t recovered_ = 0;  // successes while recovering
    std::array<part, part_count> parts_{};
};

}  // namespace cenote
