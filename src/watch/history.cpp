// Samples of a pool, and what they say of its last seconds.
#include "watch/history.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "watch/json.hpp"
#include "watch/stats_table.hpp"

namespace cenote::detail {

namespace {

/// What was counted in between. A bucket never goes below zero: concurrent reads are not exact.
histogram difference(const histogram& before, const histogram& after) {
    histogram d;
    for (std::size_t i = 0; i < histogram::bucket_count; ++i)
        d.buckets[i] = after.buckets[i] - std::min(before.buckets[i], after.buckets[i]);
    return d;
}

double quantile_of(const histogram& h, double q) {
    if (h.count() == 0) return std::numeric_limits<double>::quiet_NaN();
    return seconds_of(h.quantile(q));
}

std::uint64_t refusals_of(const stats& s) {
    std::uint64_t sum = 0;
    for (std::uint64_t each : s.refused_by_reason) sum += each;
    return sum;
}

/// Refusals that the program has not caused itself.
std::uint64_t unserved_of(const stats& s) {
    return refusals_of(s) - s.refused(errc::canceled) - s.refused(errc::closed);
}

/// The larger number. NaN is less than any.
double worse(double a, double b) { return std::isnan(a) || b > a ? b : a; }

}  // namespace

sample between(const stats& before, const stats& after, double seconds) {
    auto risen = [](std::uint64_t from, std::uint64_t to) {
        return static_cast<double>(to - std::min(from, to));
    };
    auto per_second = [&](std::uint64_t from, std::uint64_t to) {
        return seconds > 0 ? risen(from, to) / seconds : 0;
    };
    histogram wait = difference(before.wait, after.wait);
    histogram hold = difference(before.hold, after.hold);
    return {.granted = per_second(before.granted, after.granted),
            .refused = per_second(refusals_of(before), refusals_of(after)),
            .leased = static_cast<double>(after.leased),
            .waiting = static_cast<double>(after.waiting),
            .wait_p50 = quantile_of(wait, 0.5),
            .wait_p99 = quantile_of(wait, 0.99),
            .hold_p50 = quantile_of(hold, 0.5),
            .hold_p99 = quantile_of(hold, 0.99),
            .unserved = risen(unserved_of(before), unserved_of(after)),
            .open_failed = risen(before.open_failed, after.open_failed)};
}

void history::add(std::uint64_t number, const sample& one) {
    last_ = number;
    samples_.push_back(one);
    if (samples_.size() > size_max) samples_.pop_front();
}

std::string history::json(std::uint64_t since) const {
    constexpr std::array<std::pair<const char*, double sample::*>, 8> columns{{
        {"granted", &sample::granted},
        {"refused", &sample::refused},
        {"leased", &sample::leased},
        {"waiting", &sample::waiting},
        {"wait_p50", &sample::wait_p50},
        {"wait_p99", &sample::wait_p99},
        {"hold_p50", &sample::hold_p50},
        {"hold_p99", &sample::hold_p99},
    }};
    std::uint64_t newer = last_ - std::min(since, last_);
    auto count = static_cast<std::size_t>(std::min<std::uint64_t>(newer, samples_.size()));
    json_object all;
    all.add("first", number_text(last_ - count + 1));
    for (const auto& [name, value] : columns) {
        json_array column;
        for (std::size_t i = samples_.size() - count; i < samples_.size(); ++i)
            column.add(number_text(samples_[i].*value));
        all.add(name, column.take());
    }
    return all.take();
}

recent history::recently() const {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    recent all{.wait_p99 = none, .hold_p99 = none};
    all.seconds = std::min(samples_.size(), recent_max);
    for (std::size_t i = samples_.size() - all.seconds; i < samples_.size(); ++i) {
        const sample& each = samples_[i];
        all.granted += each.granted / static_cast<double>(all.seconds);
        all.unserved += each.unserved;
        all.open_failed += each.open_failed;
        all.wait_p99 = worse(all.wait_p99, each.wait_p99);
        all.hold_p99 = worse(all.hold_p99, each.hold_p99);
        if (each.waiting > 0) ++all.waiting;
    }
    return all;
}

}  // namespace cenote::detail
