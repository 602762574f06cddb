// Structures between a program and a library of different age.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "cenote/cenote.h"

namespace cenote::c {

/// How large a structure was when it was first published. Smaller ones never were. These numbers
/// never change.
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
inline constexpr std::size_t first_size<cenote_wish> = 40;
template <>
inline constexpr std::size_t first_size<cenote_stats> = 4480;
template <>
inline constexpr std::size_t first_size<cenote_holder> = 32;

template <class S>
bool is_known_size(std::size_t size) noexcept {
    static_assert(first_size<S> != 0 && first_size<S> <= sizeof(S));
    // Larger than anything sensible: it was never set.
    return size >= first_size<S> && size <= first_size<S> + 65536;
}

/// Reads what the caller's structure has into `into`, which has the defaults of what it has not.
/// False: it is none, or asks for something that is not known here.
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

/// Writes as much of `value` as the caller has room for. False: it is none.
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
