// A histogram of wait times with 3 % resolution.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cenote::bench {

/// 32 equal steps per power of two. Recording takes a shift and an increment.
class waits {
public:
    void record(std::uint64_t value) noexcept {
        ++buckets_[bucket_of(value)];
        ++count_;
        longest_ = std::max(longest_, value);
    }

    void add(const waits& other) noexcept {
        for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
        count_ += other.count_;
        longest_ = std::max(longest_, other.longest_);
    }

    std::uint64_t longest() const noexcept { return longest_; }

    /// The value that a `share` of all waits do not exceed, rounded up to the resolution.
    std::uint64_t quantile(double share) const noexcept {
        auto rank = static_cast<std::uint64_t>(share * static_cast<double>(count_));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < buckets_.size(); ++i) {
            seen += buckets_[i];
            if (seen > rank) return std::min(upper_end(i), longest_);
        }
        return longest_;
    }

private:
    static constexpr std::size_t steps = 32;

    // Bucket = exponent × steps + the five bits below the leading one; small values are exact.
    static std::size_t bucket_of(std::uint64_t value) noexcept {
        if (value < steps) return value;
        auto shift = static_cast<std::size_t>(std::bit_width(value)) - 6;
        return shift * steps + (value >> shift);
    }
    static std::uint64_t upper_end(std::size_t bucket) noexcept {
        if (bucket < 2 * steps) return bucket;
        std::size_t shift = bucket / steps - 1;
        return ((bucket % steps + steps + 1) << shift) - 1;
    }

    std::array<std::uint64_t, 60 * steps> buckets_{};
    std::uint64_t count_ = 0;
    std::uint64_t longest_ = 0;
};

}  // namespace cenote::bench
