// The circuit breaker: its states, the interface of a strategy, and two strategies.
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

/// The states of a circuit breaker.
enum class breaker_state : std::uint8_t {
    active,      ///< The circuit is closed: the pool lends as usual.
    inactive,    ///< The circuit is open: new and waiting callers are refused with `unavailable`.
    recovering,  ///< The circuit is half-open: a few leases are granted, other callers refused.
};

/// The enumerator's name.
const char* to_string(breaker_state state) noexcept;

/// A change of state.
struct breaker_move {
    breaker_state to{};  ///< The new state.
    /// To `inactive`: the delay until the strategy is asked whether to recover. `forever`: it is
    /// not.
    std::chrono::nanoseconds cool_down = std::chrono::seconds{1};
    /// To `recovering`: the largest number of leases at a time.
    std::size_t probes = 1;

    bool operator==(const breaker_move&) const = default;
};

/// What each call of a strategy reports.
struct breaker_report {
    /// The name of the pool.
    std::string_view pool{};
    /// The present state of the circuit.
    breaker_state state{};
    /// The time of the event. A strategy that measures time uses this and reads no clock.
    std::chrono::steady_clock::time_point at{};
    /// With `succeeded`: the number of successes since the last report.
    std::uint64_t count = 1;
    /// With `failed`: the exception, or null.
    std::exception_ptr error = nullptr;
};

/// A strategy: decides when the circuit opens and closes. Each function returns the next state, or
/// nothing to stay in the present state. If it throws, the state does not change.
///
/// A success is a lease that ended and was accepted. A successful open or probe is no success: it
/// does not show that the server can work. A failure is a failed open or probe, a lease that
/// before_release rejected, or a lease that was discarded with a cause.
///
/// While the circuit is active, successes are reported as a sum: before each failure, and otherwise
/// every 100 ms or at the next sweep. While it recovers, each success is reported, and only leases
/// that were granted since the recovery began count.
///
/// Thread safety: the pool calls its strategy from any thread that uses the pool, one call at a
/// time, outside all locks, in the order of the events. The pool drops the decision if the state
/// was changed manually in the meantime. A strategy serves one pool; a second pool refuses it.
class breaker {
public:
    breaker() = default;
    breaker(const breaker&) = delete;
    breaker& operator=(const breaker&) = delete;
    virtual ~breaker() = default;

    /// Uses succeeded, or something failed. Returns the transition to make, if any.
    virtual std::optional<breaker_move> succeeded(const breaker_report& what) = 0;
    virtual std::optional<breaker_move> failed(const breaker_report& what) = 0;
    /// The cool-down of an inactive pool is over. Called again after another cool-down if the pool
    /// stays inactive.
    virtual std::optional<breaker_move> cooled_down(const breaker_report&) {
        return breaker_move{.to = breaker_state::recovering};
    }

private:
    friend struct detail::breaker_owner;
    std::atomic<bool> owned_{false};  // by a pool
};

/// Opens the circuit after `failures` in a row. After `cool_down` it grants `probes` leases at a
/// time, and closes the circuit after `successes` of them. A failure meanwhile opens it again.
class threshold_breaker final : public breaker {
public:
    /// When the circuit opens, and when it closes again.
    struct settings {
        std::uint64_t failures = 5;  ///< `forever`: the strategy never opens it.
        std::chrono::nanoseconds cool_down = std::chrono::seconds{1};
        std::size_t probes = 1;
        std::uint64_t successes = 1;
    };

    threshold_breaker() = default;
    /// Throws invalid_option for a count of zero and for a cool-down that is not positive.
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

/// Opens the circuit when at least the fraction `rate` of all uses, opens and probes in the last
/// `window` failed, and there were at least `calls` of them. For servers that fail now and then:
/// with many threads, failures in a row are rare, since one success ends the row. Recovers like
/// threshold_breaker.
class rate_breaker final : public breaker {
public:
    /// When the circuit opens, and when it closes again.
    struct settings {
        double rate = 0.5;         ///< More than 0, at most 1.
        std::uint64_t calls = 20;  ///< With fewer calls the circuit stays closed.
        /// The window moves by a tenth of its length at a time.
        std::chrono::nanoseconds window = std::chrono::seconds{10};
        std::chrono::nanoseconds cool_down = std::chrono::seconds{1};
        std::size_t probes = 1;
        std::uint64_t successes = 1;
    };

    /// With the default settings.
    rate_breaker() : rate_breaker(settings{}) {}
    /// Throws invalid_option for a count of zero, a rate outside its range, and a duration that is
    /// not positive.
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
