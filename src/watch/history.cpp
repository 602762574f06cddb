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

/// The sum of what is averaged, and the worst of the rest.
sample joined(const sample& a, const sample& b) {
    return {.granted = a.granted + b.granted,
            .refused = a.refused + b.refused,
            .leased = a.leased + b.leased,
            .idle = a.idle + b.idle,
            .max = std::max(a.max, b.max),
            .waiting = std::max(a.waiting, b.waiting),
            .wait_p50 = worse(a.wait_p50, b.wait_p50),
            .wait_p99 = worse(a.wait_p99, b.wait_p99),
            .hold_p50 = worse(a.hold_p50, b.hold_p50),
            .hold_p99 = worse(a.hold_p99, b.hold_p99),
            .unserved = a.unserved + b.unserved,
            .open_failed = a.open_failed + b.open_failed};
}

sample mean(sample sum, std::size_t seconds) {
    for (double* each : {&sum.granted, &sum.refused, &sum.leased, &sum.idle})
        *each /= static_cast<double>(seconds);
    return sum;
}

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
            .idle = static_cast<double>(after.idle),
            .max = static_cast<double>(after.max),
            .waiting = static_cast<double>(after.waiting),
            .wait_p50 = quantile_of(wait, 0.5),
            .wait_p99 = quantile_of(wait, 0.99),
            .hold_p50 = quantile_of(hold, 0.5),
            .hold_p99 = quantile_of(hold, 0.99),
            .unserved = risen(unserved_of(before), unserved_of(after)),
            .open_failed = risen(before.open_failed, after.open_failed)};
}

void history::add(std::uint64_t second, const sample& one) {
    for (std::size_t i = 0; i < steps.size(); ++i) all_[i].add(second, steps[i], one);
}

void history::resolution::add(std::uint64_t second, std::uint64_t step, const sample& one) {
    std::uint64_t number = second / step;
    if (seconds > 0 && number != next) end_sample();  // its last second was missed
    sum = seconds == 0 ? one : joined(sum, one);
    next = number;
    ++seconds;
    if ((second + 1) % step == 0) end_sample();
}

void history::resolution::end_sample() {
    last = next;
    samples.push_back(mean(sum, seconds));
    if (samples.size() > size_max) samples.pop_front();
    seconds = 0;
}

std::string history::json(std::uint64_t since, std::uint64_t step) const {
    constexpr std::array<std::pair<const char*, double sample::*>, 10> columns{{
        {"granted", &sample::granted},
        {"refused", &sample::refused},
        {"leased", &sample::leased},
        {"idle", &sample::idle},
        {"max", &sample::max},
        {"waiting", &sample::waiting},
        {"wait_p50", &sample::wait_p50},
        {"wait_p99", &sample::wait_p99},
        {"hold_p50", &sample::hold_p50},
        {"hold_p99", &sample::hold_p99},
    }};
    const auto* at = std::ranges::find(steps, step);
    const resolution& of = all_.at(static_cast<std::size_t>(at - steps.begin()));
    std::uint64_t known =
        std::min((since + 1) / step, of.last + 1);  // the number of samples that ended
    auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(of.last + 1 - known, of.samples.size()));
    json_object all;
    all.add("step", number_text(step));
    all.add("first", number_text(of.last + 1 - count));
    for (const auto& [name, value] : columns) {
        json_array column;
        for (std::size_t i = of.samples.size() - count; i < of.samples.size(); ++i)
            column.add(number_text(of.samples[i].*value));
        all.add(name, column.take());
    }
    return all.take();
}

recent history::recently() const {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    recent all{.wait_p99 = none, .hold_p99 = none};
    const std::deque<sample>& samples = all_.front().samples;
    all.seconds = std::min(samples.size(), recent_max);
    for (std::size_t i = samples.size() - all.seconds; i < samples.size(); ++i) {
        const sample& each = samples[i];
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
