// A histogram of durations with fine buckets.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace load {

/// Counts durations from 1 ns to over an hour in buckets that are at most 1.6 % wide. Mean and
/// maximum are exact.
class times {
public:
    void record(std::chrono::nanoseconds value);
    times& operator+=(const times& other);

    std::uint64_t count() const noexcept { return count_; }
    std::chrono::nanoseconds mean() const noexcept;
    std::chrono::nanoseconds max() const noexcept { return max_; }
    /// Zero if nothing was recorded.
    std::chrono::nanoseconds quantile(double q) const noexcept;
    /// The medians of `count` equal shares of the sorted durations, shortest first. Requires
    /// count() > 0.
    std::vector<std::chrono::nanoseconds> shares(std::size_t count) const;

private:
    static constexpr int precision = 6;  // bits after the leading one
    static constexpr std::size_t buckets = (44 - precision) << precision;
    static std::size_t bucket_of(std::uint64_t value) noexcept;
    static std::uint64_t middle_of(std::size_t bucket) noexcept;

    std::array<std::uint64_t, buckets> buckets_{};
    std::uint64_t count_ = 0;
    std::chrono::nanoseconds sum_{};
    std::chrono::nanoseconds max_{};
};

/// "1234/s".
std::string per_second(double value);
/// With `digits` digits after the decimal point.
std::string decimal(double value, int digits);

}  // namespace load
