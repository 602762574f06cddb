// The functions that read statistics and leases.
#include <algorithm>
#include <array>
#include <numeric>

#include "c/failure.hpp"
#include "c/pool_entries.hpp"
#include "c/structs.hpp"
#include "cenote/cenote.h"
#include "cenote/stats.hpp"

namespace {

using cenote::histogram;
using cenote::c::guarded;
using cenote::c::pool_pin;

static_assert(histogram::bucket_count == CENOTE_BUCKETS);
static_assert(cenote::retire_reason_count <= CENOTE_REASONS_MAX);
static_assert(cenote::errc_count <= CENOTE_REASONS_MAX);

// Enumerators have equal numbers in C and C++.
static_assert(static_cast<int>(cenote::pool_state::closed) == CENOTE_POOL_CLOSED);
static_assert(static_cast<int>(cenote::pool_state::paused) == CENOTE_PAUSED);
static_assert(static_cast<int>(cenote::breaker_state::inactive) == CENOTE_INACTIVE);
static_assert(static_cast<int>(cenote::breaker_state::recovering) == CENOTE_RECOVERING);
static_assert(static_cast<int>(cenote::retire_reason::generation) == CENOTE_RETIRED_GENERATION);
static_assert(static_cast<int>(cenote::retire_reason::rejected) == CENOTE_RETIRED_REJECTED);
static_assert(static_cast<int>(cenote::retire_reason::surplus) == CENOTE_RETIRED_SURPLUS);
static_assert(cenote::retire_reason_count == CENOTE_RETIRED_SURPLUS + 1);

/// The counters of stats, in the order of cenote_counter.
constexpr std::array numbers = {
    &cenote::stats::max,       &cenote::stats::total,       &cenote::stats::leased,
    &cenote::stats::idle,      &cenote::stats::opening,     &cenote::stats::probing,
    &cenote::stats::resetting, &cenote::stats::closing,     &cenote::stats::waiting,
    &cenote::stats::acquires,  &cenote::stats::granted,     &cenote::stats::waited,
    &cenote::stats::released,  &cenote::stats::discarded,   &cenote::stats::detached,
    &cenote::stats::opened,    &cenote::stats::open_failed, &cenote::stats::closed,
    &cenote::stats::abandoned, &cenote::stats::events_lost, &cenote::stats::try_empty,
    &cenote::stats::leaks};
static_assert(numbers.size() == CENOTE_COUNT_REFUSED);

/// The members of cenote_stats in the same order.
constexpr std::array places = {
    &cenote_stats::max,       &cenote_stats::total,       &cenote_stats::leased,
    &cenote_stats::idle,      &cenote_stats::opening,     &cenote_stats::probing,
    &cenote_stats::resetting, &cenote_stats::closing,     &cenote_stats::waiting,
    &cenote_stats::acquires,  &cenote_stats::granted,     &cenote_stats::waited,
    &cenote_stats::released,  &cenote_stats::discarded,   &cenote_stats::detached,
    &cenote_stats::opened,    &cenote_stats::open_failed, &cenote_stats::closed,
    &cenote_stats::abandoned, &cenote_stats::events_lost, &cenote_stats::try_empty,
    &cenote_stats::leaks};
static_assert(numbers.size() == places.size());

template <class From>
std::uint64_t sum(const From& from) noexcept {
    return std::accumulate(from.begin(), from.end(), std::uint64_t{0});
}

cenote_stats as_c(const cenote::stats& now) noexcept {
    cenote_stats s{};
    s.state = static_cast<cenote_pool_state>(now.state);
    s.breaker = static_cast<cenote_breaker_state>(now.breaker);
    for (std::size_t i = 0; i < numbers.size(); ++i) s.*places[i] = now.*numbers[i];
    std::ranges::copy(now.retired_by_reason, s.retired);
    std::ranges::copy(now.refused_by_reason, s.refused);
    std::ranges::copy(now.wait.buckets, s.wait);
    std::ranges::copy(now.hold.buckets, s.hold);
    std::ranges::copy(now.open.buckets, s.open);
    s.refused_after_wait = now.refused_after_wait;
    return s;
}

}  // namespace

extern "C" {

cenote_code cenote_look(cenote_pool pool, cenote_stats* stats) {
    if (stats == nullptr || !cenote::c::write_struct(cenote_stats{}, stats))
        return CENOTE_INVALID_ARGUMENT;
    pool_pin pin(pool);
    if (!pin) return pin.code();
    return guarded([&] {
        cenote::c::write_struct(as_c(pin->stats()), stats);
        return CENOTE_OK;
    });
}

cenote_code cenote_count(cenote_pool pool, cenote_counter which, uint64_t* value) {
    if (value == nullptr) return CENOTE_INVALID_ARGUMENT;
    *value = 0;
    auto index = static_cast<std::size_t>(which);
    if (index > CENOTE_COUNT_REFUSED_AFTER_WAIT) return CENOTE_INVALID_ARGUMENT;
    pool_pin pin(pool);
    if (!pin) return pin.code();
    return guarded([&] {
        cenote::stats now = pin->stats();
        if (index < numbers.size()) *value = now.*numbers[index];
        else if (which == CENOTE_COUNT_REFUSED) *value = sum(now.refused_by_reason);
        else if (which == CENOTE_COUNT_RETIRED) *value = sum(now.retired_by_reason);
        else *value = now.refused_after_wait;
        return CENOTE_OK;
    });
}

cenote_code cenote_breaker_now(cenote_pool pool, cenote_breaker_state* state) {
    if (state == nullptr) return CENOTE_INVALID_ARGUMENT;
    *state = CENOTE_ACTIVE;
    pool_pin pin(pool);
    if (!pin) return pin.code();
    return guarded([&] {
        *state = static_cast<cenote_breaker_state>(pin->stats().breaker);
        return CENOTE_OK;
    });
}

cenote_code cenote_holders(cenote_pool pool, cenote_holder* holders, size_t room, size_t* count) {
    if (count == nullptr || (holders == nullptr && room != 0)) return CENOTE_INVALID_ARGUMENT;
    *count = 0;
    // The size of the first element applies to all.
    std::size_t size = room == 0 ? sizeof(cenote_holder) : holders->size;
    if (!cenote::c::is_known_size<cenote_holder>(size) || size % alignof(cenote_holder) != 0)
        return CENOTE_INVALID_ARGUMENT;
    pool_pin pin(pool);
    if (!pin) return pin.code();
    return guarded([&] {
        auto all = pin->leases();
        auto* at = reinterpret_cast<unsigned char*>(holders);
        for (std::size_t i = 0; i < std::min(room, all.size()); ++i, at += size) {
            auto* into = reinterpret_cast<cenote_holder*>(at);
            into->size = size;
            cenote::c::write_struct(
                cenote_holder{size, all[i].resource, all[i].held.count(), all[i].task}, into);
        }
        *count = all.size();
        return CENOTE_OK;
    });
}

int64_t cenote_quantile(const uint64_t* buckets, double q) {
    if (buckets == nullptr) return 0;
    histogram h;
    std::copy_n(buckets, CENOTE_BUCKETS, h.buckets.begin());
    return h.quantile(q).count();
}

int64_t cenote_bucket_bound(size_t bucket) {
    return histogram::upper_bound(std::min<std::size_t>(bucket, CENOTE_BUCKETS - 1)).count();
}

}  // extern "C"
