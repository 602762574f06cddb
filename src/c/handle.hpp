// 64-bit handles: kind, generation, slot index.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cenote::c {

/// The kind of a handle. None is zero, so no handle is.
enum class kind : std::uint8_t { pool = 1, lease = 2, request = 3 };

struct handle {
    kind what;
    std::uint64_t generation;
    std::size_t index;

    static constexpr int index_bits = 24;
#ifdef CENOTE_GENERATION_BITS  // for tests that exhaust them
    static constexpr int generation_bits = CENOTE_GENERATION_BITS;
#else
    static constexpr int generation_bits = 38;
#endif
    static constexpr std::size_t index_max = (std::size_t{1} << index_bits) - 1;
    static constexpr std::uint64_t generation_max = (std::uint64_t{1} << generation_bits) - 1;

    static constexpr handle of(std::uint64_t number) noexcept {
        return {.what = static_cast<kind>(number >> (index_bits + generation_bits)),
                .generation = (number >> index_bits) & generation_max,
                .index = static_cast<std::size_t>(number & index_max)};
    }
    /// Generation and index.
    constexpr std::uint64_t rest() const noexcept { return generation << index_bits | index; }
    constexpr std::uint64_t as(kind k) const noexcept {
        return static_cast<std::uint64_t>(k) << (index_bits + generation_bits) | rest();
    }
    constexpr std::uint64_t number() const noexcept { return as(what); }
};

}  // namespace cenote::c
