// Many durations in little room, finely enough to compare.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace load {

/// Counts of durations in buckets of at most 1.6 % width, from 1 ns to over an hour; their sum and
/// the longest are exact.
class times {
public:
    void note(std::chrono::nanoseconds value);
    times& operator+=(const times& other);

    std::uint64_t count() const noexcept { return count_; }
    std::chrono::nanoseconds mean() const noexcept;
    std::chrono::nanoseconds max() const noexcept { return max_; }
    /// The value below which the fraction `q` of them lies; zero if there are none.
    std::chrono::nanoseconds quantile(double q) const noexcept;
    /// The middles of so many equal shares, the shortest first. Requires that there are any.
    std::vector<std::chrono::nanoseconds> shares(std::size_t count) const;

private:
    static constexpr int fineness = 6;  // bits behind the first one
    static constexpr std::size_t buckets = (44 - fineness) << fineness;
    static std::size_t bucket_of(std::uint64_t value) noexcept;
    static std::uint64_t middle_of(std::size_t bucket) noexcept;

    std::array<std::uint64_t, buckets> buckets_{};
    std::uint64_t count_ = 0;
    std::chrono::nanoseconds sum_{};
    std::chrono::nanoseconds max_{};
};

/// "1.23 ms", "45 s": as people say it.
std::string in_words(std::chrono::nanoseconds time);
/// "1234/s".
std::string per_second(double value);
/// With so many digits behind the point.
std::string decimal(double value, int digits);

}  // namespace load
