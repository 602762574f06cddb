// What can be seen of a pool at one instant: gauges, lifetime counters, histograms.
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

/// Why the pool itself ended a resource.
enum class retire_reason : std::uint8_t {
    idle,          ///< Unused for `idle_timeout`.
    age,           ///< Reached its age limit.
    uses,          ///< Lent `max_uses` times.
    generation,    ///< Older than the last `retire_all`.
    probe_failed,  ///< A probe said no, threw, or took too long.
    reset_failed,  ///< It was dirty and could not be cleaned.
    rejected,      ///< `before_acquire` or `before_release` said no.
    surplus,       ///< More than `max`, since a `resize`.
};
inline constexpr std::size_t retire_reason_count = 8;

/// The word for a reason, as in the enum.
const char* to_string(retire_reason reason) noexcept;

/// Every state a slot can be in, and where it may go.
enum class slot_state : std::uint8_t {
    vacant,     ///< No resource                         → opening
    opening,    ///< An open is in flight                → idle, closing, vacant
    idle,       ///< Ready to be lent, nobody uses it    → leased, probing, closing
    leased,     ///< One borrower has it                 → idle, probing, resetting, closing, vacant
    probing,    ///< A probe is in flight                → idle, closing
    resetting,  ///< A reset is in flight                → idle, probing, closing
    closing,    ///< A close is in flight                → vacant
};
inline constexpr std::size_t slot_state_count = 7;

/// The word for a state, as in the enum.
const char* to_string(slot_state state) noexcept;

/// Whether a pool lends at all.
enum class pool_state : std::uint8_t {
    lending,  ///< As usual.
    paused,   ///< Nothing until it is resumed.
    closed,   ///< Nothing any more.
};

/// The word for a state, as in the enum.
const char* to_string(pool_state state) noexcept;

/// Counts of durations in buckets of at most 25 % width, from 1 ns to over an hour.
class histogram {
public:
    static constexpr std::size_t sub_buckets = 4;
    static constexpr std::size_t bucket_count = 42 * sub_buckets;

    /// The bucket that counts `value`.
    static std::size_t bucket_of(std::chrono::nanoseconds value) noexcept;

    /// The largest value counted by `bucket`.
    static std::chrono::nanoseconds upper_bound(std::size_t bucket) noexcept;

    /// How many values were counted.
    std::uint64_t count() const noexcept;

    /// An upper bound for the value below which the fraction `q` (0 to 1) of all values lies;
    /// zero if nothing was counted.
    std::chrono::nanoseconds quantile(double q) const noexcept;

    /// The two together.
    histogram& operator+=(const histogram& other) noexcept;

    std::array<std::uint64_t, bucket_count> buckets{};
};

// A value's bucket is its power of two and the two bits below the leading one: values below 4 have
// a bucket each, above that four buckets share a power of two.
[[gnu::always_inline]] inline std::size_t histogram::bucket_of(
    std::chrono::nanoseconds value) noexcept {
    if (value.count() < static_cast<std::int64_t>(sub_buckets))
        return value.count() < 0 ? 0 : static_cast<std::size_t>(value.count());
    auto v = static_cast<std::uint64_t>(value.count());
    auto power = static_cast<std::size_t>(std::bit_width(v)) - 1;
    std::size_t bucket = (power - 1) * sub_buckets + ((v >> (power - 2)) & 3);
    return bucket < bucket_count ? bucket : bucket_count - 1;
}

/// One consistent look at a pool: the gauges add up to `total`, every acquire is counted in exactly
/// one way. The histograms are read bucket by bucket and may be ahead by calls in progress.
struct stats {
    // Gauges. total = leased + idle + opening + probing + resetting + closing <= max, unless a
    // `resize` has left more, which are on their way out.
    std::uint64_t max = 0;
    std::uint64_t total = 0;
    std::uint64_t leased = 0;
    std::uint64_t idle = 0;
    std::uint64_t opening = 0;
    std::uint64_t probing = 0;
    std::uint64_t resetting = 0;
    std::uint64_t closing = 0;
    std::uint64_t waiting = 0;
    breaker_state breaker = breaker_state::active;  ///< Of several pools: that of the worst.
    pool_state state = pool_state::lending;         ///< The same.

    // Lifetime counters.
    // acquires = granted + waiting + the sum of refused; granted = released + detached + leased.
    /// Calls of acquire, and of try_acquire that got a lease; one more for each resource that
    /// before_acquire sent back.
    std::uint64_t acquires = 0;
    std::uint64_t granted = 0;             ///< Leases given out.
    std::uint64_t waited = 0;              ///< Granted, but not at once.
    std::uint64_t refused_after_wait = 0;  ///< Refused, but not at once.
    std::uint64_t released = 0;            ///< Leases that came back, in whatever condition.
    std::uint64_t discarded = 0;           ///< Of these: discarded by their holder.
    std::uint64_t detached = 0;            ///< Leases taken out of the pool for good.
    std::uint64_t opened = 0;
    std::uint64_t open_failed = 0;
    std::uint64_t closed = 0;       ///< Closes finished (also failed and abandoned ones).
    std::uint64_t abandoned = 0;    ///< Connector calls that outlived their deadline.
    std::uint64_t events_lost = 0;  ///< Events dropped because an observer did not follow.
    std::uint64_t try_empty = 0;    ///< try_acquire that found nothing.
    std::uint64_t leaks = 0;        ///< Leases held longer than their `leak_after`, each once.

    std::array<std::uint64_t, retire_reason_count> retired_by_reason{};
    std::array<std::uint64_t, errc_count> refused_by_reason{};

    /// How long granted acquires waited, how long leases were held (a sample on the fast lane), how
    /// long opens took.
    histogram wait;
    histogram hold;
    histogram open;

    /// Of several pools the sum.
    stats& operator+=(const stats& other) noexcept;

    std::uint64_t retired(retire_reason reason) const noexcept {
        return retired_by_reason[static_cast<std::size_t>(reason)];
    }
    std::uint64_t refused(errc reason) const noexcept {
        return refused_by_reason[static_cast<std::size_t>(reason) - 1];
    }
};

/// One place of a pool at one instant; see pool::slots().
struct slot_info {
    slot_state state = slot_state::vacant;
    std::uint64_t resource = 0;  ///< Which one is in it: the number it has in events; 0: none.
};

/// Who holds a lease at one instant; see pool::leases().
struct lease_info {
    std::uint64_t resource = 0;       ///< Which resource: the number it has in events.
    std::source_location site{};      ///< The acquire that got it.
    std::chrono::nanoseconds held{};  ///< For how long, at least; zero: not known yet.
    const char* task = nullptr;       ///< What it is for (acquire_options), or null.
};

}  // namespace cenote
