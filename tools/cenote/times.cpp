// The buckets of the histogram, and number formatting.
#include "times.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

namespace load {

using std::chrono::nanoseconds;

// Values below 2^(precision + 1) have their own buckets; each octave above has 2^precision buckets.
std::size_t times::bucket_of(std::uint64_t value) noexcept {
    int shift = std::max(0, static_cast<int>(std::bit_width(value)) - precision - 1);
    std::size_t bucket = (static_cast<std::size_t>(shift) << precision) + (value >> shift);
    return std::min(bucket, buckets - 1);
}

std::uint64_t times::middle_of(std::size_t bucket) noexcept {
    if (bucket < (std::size_t{2} << precision)) return bucket;
    std::size_t shift = (bucket >> precision) - 1;
    std::uint64_t low = (bucket - (shift << precision)) << shift;
    return low + (std::uint64_t{1} << shift) / 2;
}

void times::record(nanoseconds value) {
    value = std::max(value, nanoseconds{});
    ++buckets_[bucket_of(static_cast<std::uint64_t>(value.count()))];
    ++count_;
    sum_ += value;
    max_ = std::max(max_, value);
}

times& times::operator+=(const times& other) {
    for (std::size_t i = 0; i < buckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
    return *this;
}

nanoseconds times::mean() const noexcept {
    return count_ == 0 ? nanoseconds{} : sum_ / static_cast<nanoseconds::rep>(count_);
}

nanoseconds times::quantile(double q) const noexcept {
    if (count_ == 0) return {};
    auto rank = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count_)));
    rank = std::clamp<std::uint64_t>(rank, 1, count_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
        seen += buckets_[i];
        if (seen >= rank)
            return std::min(max_, nanoseconds{static_cast<nanoseconds::rep>(middle_of(i))});
    }
    return max_;
}

std::vector<nanoseconds> times::shares(std::size_t count) const {
    std::vector<nanoseconds> result;
    result.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
        result.push_back(quantile((static_cast<double>(i) + 0.5) / static_cast<double>(count)));
    return result;
}

std::string decimal(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string per_second(double value) { return decimal(value, value < 10 ? 1 : 0) + "/s"; }

}  // namespace load
