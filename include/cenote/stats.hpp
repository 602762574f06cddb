// The state of a pool at one instant: gauges, lifetime counters, histograms.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <source_location>

#include "cenote/breaker.hpp"
#include "cenote/error.hpp"

namespace cenote {

/// Why the pool retired a resource.
enum class retire_reason : std::uint8_t {
    idle,          ///< Unused for `idle_timeout`.
    age,           ///< Reached its age limit.
    uses,          ///< Lent `max_uses` times.
    generation,    ///< Older than the last `retire_all`.
    probe_failed,  ///< A probe returned false, threw, or took too long.
    reset_failed,  ///< The reset failed, or the connector has none.
    rejected,      ///< `before_acquire` or `before_release` rejected it.
    surplus,       ///< More than `max` were open after a `resize`.
};
inline constexpr std::size_t retire_reason_count = 8;

/// The enumerator's name.
const char* to_string(retire_reason reason) noexcept;

/// The states of a slot, each with the states that can follow.
enum class slot_state : std::uint8_t {
    vacant,     ///< No resource                         → opening
    opening,    ///< An open is in flight                → idle, closing, vacant
    idle,       ///< Ready to be lent                    → leased, probing, resetting, closing
    leased,     ///< One borrower has it                 → idle, probing, resetting, closing, vacant
    probing,    ///< A probe is in flight                → idle, closing
    resetting,  ///< A reset is in flight                → idle, probing, closing
    closing,    ///< A close is in flight                → vacant
};
inline constexpr std::size_t slot_state_count = 7;

/// The enumerator's name.
const char* to_string(slot_state state) noexcept;

/// Whether a pool lends.
enum class pool_state : std::uint8_t {
    lending,  ///< Normal operation.
    paused,   ///< Lends nothing until pool::resume().
    closed,   ///< Refuses every acquire.
};

/// The enumerator's name.
const char* to_string(pool_state state) noexcept;

/// Counts of durations in buckets of at most 25 % width, from 1 ns to over an hour.
class histogram {
public:
    /// The buckets: 4 for each power of two.
    static constexpr std::size_t sub_buckets = 4;
    static constexpr std::size_t bucket_count = 42 * sub_buckets;

    /// The bucket that counts `value`.
    static std::size_t bucket_of(std::chrono::nanoseconds value) noexcept;

    /// The largest value counted by `bucket`.
    static std::chrono::nanoseconds upper_bound(std::size_t bucket) noexcept;

    /// The number of values.
    std::uint64_t count() const noexcept;

    /// An upper bound of the `q` quantile (0 to 1); zero if no value was counted.
    std::chrono::nanoseconds quantile(double q) const noexcept;

    /// Adds the counts of `other`.
    histogram& operator+=(const histogram& other) noexcept;

    std::array<std::uint64_t, bucket_count> buckets{};  ///< How many values each has counted.
};

// The position of a value's leading one bit and the next two bits determine its bucket. Values
// below 4 have a bucket each. From 4 on, each power of two has four buckets.
[[gnu::always_inline]] inline std::size_t histogram::bucket_of(
    std::chrono::nanoseconds value) noexcept {
    if (value.count() < static_cast<std::int64_t>(sub_buckets))
        return value.count() < 0 ? 0 : static_cast<std::size_t>(value.count());
    auto v = static_cast<std::uint64_t>(value.count());
    auto power = static_cast<std::size_t>(std::bit_width(v)) - 1;
    std::size_t bucket = (power - 1) * sub_buckets + ((v >> (power - 2)) & 3);
    return bucket < bucket_count ? bucket : bucket_count - 1;
}

/// A consistent snapshot of a pool: the gauges add up to `total`, and each acquire is counted as
/// granted, waiting or refused, never twice. The histograms are read bucket by bucket and may
/// include calls that the counters do not include yet.
struct stats {
    // Gauges: total = leased + idle + opening + probing + resetting + closing <= max. After a
    // `resize` to a smaller `max` the total can be larger for a while.

    std::uint64_t max = 0;        ///< options::max, as changed by a resize.
    std::uint64_t total = 0;      ///< Slots that are not vacant.
    std::uint64_t leased = 0;     ///< Lent to a borrower.
    std::uint64_t idle = 0;       ///< Ready to be lent.
    std::uint64_t opening = 0;    ///< An open is in flight.
    std::uint64_t probing = 0;    ///< A probe is in flight.
    std::uint64_t resetting = 0;  ///< A reset is in flight.
    std::uint64_t closing = 0;    ///< A close is in flight.
    std::uint64_t waiting = 0;    ///< Callers in line.
    /// In a sum over pools: the worst; `inactive` is worse than `recovering`.
    breaker_state breaker = breaker_state::active;
    /// In a sum over pools: the worst; `closed` is worse than `paused`.
    pool_state state = pool_state::lending;

    // Lifetime counters: acquires = granted + waiting + the sum of refused; granted = released +
    // detached + leased.

    /// Calls of acquire, and calls of try_acquire that got a lease. A granted acquire_many counts
    /// once for each lease. Each resource that before_acquire rejected adds one.
    std::uint64_t acquires = 0;
    std::uint64_t granted = 0;             ///< Leases given out.
    std::uint64_t waited = 0;              ///< Granted after a wait.
    std::uint64_t refused_after_wait = 0;  ///< Refused after a wait.
    std::uint64_t released = 0;            ///< Leases that ended, discarded ones included.
    std::uint64_t discarded = 0;           ///< Leases that ended with a discard.
    std::uint64_t detached = 0;            ///< Leases that ended with lease::detach().
    std::uint64_t opened = 0;              ///< Opens that succeeded.
    std::uint64_t open_failed = 0;         ///< Opens that threw or timed out.
    std::uint64_t closed = 0;       ///< Closes that ended, failed and abandoned ones included.
    std::uint64_t abandoned = 0;    ///< Connector calls that outlived their timeout.
    std::uint64_t events_lost = 0;  ///< Events dropped because an observer was too slow.
    std::uint64_t try_empty = 0;    ///< Calls of try_acquire that found nothing ready.
    std::uint64_t leaks = 0;        ///< Leases held longer than `leak_after`, counted once.

    /// Counters by reason; retired() and refused() read them.
    std::array<std::uint64_t, retire_reason_count> retired_by_reason{};
    std::array<std::uint64_t, errc_count> refused_by_reason{};

    histogram wait;  ///< How long granted acquires waited; zero if they did not wait.
    histogram hold;  ///< How long leases were held; on the fast lane, a sample of them.
    histogram open;  ///< How long opens took.

    /// Adds the stats of another pool.
    stats& operator+=(const stats& other) noexcept;

    /// How many resources were retired, or acquires refused, for this reason.
    std::uint64_t retired(retire_reason reason) const noexcept {
        return retired_by_reason[static_cast<std::size_t>(reason)];
    }
    std::uint64_t refused(errc reason) const noexcept {
        return refused_by_reason[static_cast<std::size_t>(reason) - 1];
    }
};

/// One slot of a pool at one instant; see pool::slots().
struct slot_info {
    slot_state state = slot_state::vacant;  ///< The state of the slot.
    std::uint64_t resource = 0;             ///< The resource's number, as in events; 0: none.
};

/// One lease at one instant; see pool::leases().
struct lease_info {
    std::uint64_t resource = 0;       ///< The resource's number, as in events.
    std::source_location site{};      ///< The call of acquire.
    std::chrono::nanoseconds held{};  ///< Held for at least this long; zero: not known yet.
    const char* task = nullptr;       ///< acquire_options::task, or null.
    /// The thread that took the lease waits for another one of this pool. If all leases are held by
    /// such threads, none of them can go on.
    bool holder_waits = false;
};

/// One caller in line at one instant; see pool::waiters().
struct waiter_info {
    std::source_location site{};        ///< The call of acquire.
    std::chrono::nanoseconds waited{};  ///< Since the call.
    const char* task = nullptr;         ///< acquire_options::task, or null.
};

}  // namespace cenote
