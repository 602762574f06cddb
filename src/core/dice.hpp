// Seeded random numbers: the same seed gives the same numbers with every compiler.
#pragma once

#include <cstdint>

namespace cenote::core {

/// SplitMix64: small, fast, and good enough for jitter and for simulated worlds.
class dice {
public:
    explicit dice(std::uint64_t seed) noexcept : state_(seed) {}

    std::uint64_t next() noexcept {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    /// A number in [0, n); zero for n = 0.
    std::uint64_t below(std::uint64_t n) noexcept { return n == 0 ? 0 : next() % n; }

    /// True with a probability of `percent` in a hundred.
    bool chance(std::uint64_t percent) noexcept { return below(100) < percent; }

private:
    std::uint64_t state_;
};

}  // namespace cenote::core
