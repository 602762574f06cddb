// Histogram arithmetic, sums of stats, and the names of reasons, states and events.
#include "cenote/stats.hpp"

#include <algorithm>

#include "cenote/event.hpp"

namespace cenote {

std::chrono::nanoseconds histogram::upper_bound(std::size_t bucket) noexcept {
    if (bucket + 1 >= bucket_count) return std::chrono::nanoseconds::max();
    std::size_t next = bucket + 1;
    if (next <= sub_buckets) return std::chrono::nanoseconds{bucket};
    std::size_t power = next / sub_buckets + 1;
    std::int64_t step = std::int64_t{1} << (power - 2);
    auto first_of_next = static_cast<std::int64_t>(sub_buckets + next % sub_buckets) * step;
    return std::chrono::nanoseconds{first_of_next - 1};
}

std::uint64_t histogram::count() const noexcept {
    std::uint64_t sum = 0;
    for (auto n : buckets) sum += n;
    return sum;
}

histogram& histogram::operator+=(const histogram& other) noexcept {
    for (std::size_t i = 0; i < bucket_count; ++i) buckets[i] += other.buckets[i];
    return *this;
}

stats& stats::operator+=(const stats& other) noexcept {
    for (auto number : {&stats::max,
                        &stats::total,
                        &stats::leased,
                        &stats::idle,
                        &stats::opening,
                        &stats::probing,
                        &stats::resetting,
                        &stats::closing,
                        &stats::waiting,
                        &stats::acquires,
                        &stats::granted,
                        &stats::waited,
                        &stats::released,
                        &stats::discarded,
                        &stats::detached,
                        &stats::opened,
                        &stats::open_failed,
                        &stats::closed,
                        &stats::abandoned,
                        &stats::events_lost,
                        &stats::try_empty,
                        &stats::leaks,
                        &stats::refused_after_wait})
        this->*number += other.*number;
    auto severity = [](breaker_state s) { return (static_cast<int>(s) * 2) % 3; };
    if (severity(other.breaker) > severity(breaker)) breaker = other.breaker;
    state = std::max(state, other.state);
    for (std::size_t i = 0; i < retire_reason_count; ++i)
        retired_by_reason[i] += other.retired_by_reason[i];
    for (std::size_t i = 0; i < errc_count; ++i) refused_by_reason[i] += other.refused_by_reason[i];
    wait += other.wait;
    hold += other.hold;
    open += other.open;
    return *this;
}

std::chrono::nanoseconds histogram::quantile(double q) const noexcept {
    std::uint64_t all = count();
    if (all == 0) return {};
    double rank = q < 0 ? 0 : q > 1 ? static_cast<double>(all) : q * static_cast<double>(all);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < bucket_count; ++i) {
        seen += buckets[i];
        if (seen > 0 && static_cast<double>(seen) >= rank) return upper_bound(i);
    }
    return upper_bound(bucket_count - 1);
}

const char* to_string(retire_reason reason) noexcept {
    constexpr std::array<const char*, retire_reason_count> names = {
        "idle", "age", "uses", "generation", "probe_failed", "reset_failed", "rejected", "surplus"};
    return names[static_cast<std::size_t>(reason)];
}

const char* to_string(slot_state state) noexcept {
    constexpr std::array<const char*, slot_state_count> names = {
        "vacant", "opening", "idle", "leased", "probing", "resetting", "closing"};
    return names[static_cast<std::size_t>(state)];
}

const char* to_string(pool_state state) noexcept {
    constexpr std::array names = {"lending", "paused", "closed"};
    return names[static_cast<std::size_t>(state)];
}

const char* to_string(event_kind kind) noexcept {
    constexpr std::array<const char*, event_kind_count> names = {
        "opened",    "open_failed",  "acquired",       "released",       "discarded",
        "detached",  "retired",      "probe_failed",   "reset_failed",   "closed",
        "exhausted", "loop_blocked", "nested_acquire", "leak_suspected", "breaker_changed",
        "paused",    "resumed",      "closing",        "closed_pool",    "waited"};
    return names[static_cast<std::size_t>(kind)];
}

}  // namespace cenote
