// Structures passed between programs and libraries of different versions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "cenote/cenote.h"

namespace cenote::c {

/// The size of a structure when it was first published, which is its minimum. Never changes.
template <class S>
constexpr std::size_t first_size = 0;
template <>
inline constexpr std::size_t first_size<cenote_failure> = 536;
template <>
inline constexpr std::size_t first_size<cenote_connector> = 80;
template <>
inline constexpr std::size_t first_size<cenote_observer> = 32;
template <>
inline constexpr std::size_t first_size<cenote_breaker> = 40;
template <>
inline constexpr std::size_t first_size<cenote_threshold> = 40;
template <>
inline constexpr std::size_t first_size<cenote_options> = 288;
template <>
inline constexpr std::size_t first_size<cenote_acquire_options> = 40;
template <>
inline constexpr std::size_t first_size<cenote_stats> = 4480;
template <>
inline constexpr std::size_t first_size<cenote_holder> = 32;

template <class S>
bool is_known_size(std::size_t size) noexcept {
    static_assert(first_size<S> != 0 && first_size<S> <= sizeof(S));
    // A larger value was never set.
    return size >= first_size<S> && size <= first_size<S> + 65536;
}

/// Copies the members that the caller's structure has to `into`, which contains the defaults of the
/// others. False for an invalid size, or if a member unknown to this library is not zero.
template <class S>
bool read_struct(const S* from, S& into) noexcept {
    static_assert(std::is_trivially_copyable_v<S>);
    if (from == nullptr || !is_known_size<S>(from->size)) return false;
    const auto* bytes = reinterpret_cast<const unsigned char*>(from);
    for (std::size_t i = sizeof(S); i < from->size; ++i)
        if (bytes[i] != 0) return false;
    std::memcpy(&into, from, std::min(from->size, sizeof(S)));
    into.size = sizeof(S);
    return true;
}

/// Copies as much of `value` as the caller's structure holds. False for an invalid size.
template <class S>
bool write_struct(const S& value, S* to) noexcept {
    static_assert(std::is_trivially_copyable_v<S>);
    if (to == nullptr || !is_known_size<S>(to->size)) return false;
    std::size_t size = to->size;
    std::memset(static_cast<void*>(to), 0, size);
    std::memcpy(static_cast<void*>(to), &value, std::min(size, sizeof(S)));
    to->size = size;
    return true;
}

}  // namespace cenote::c
