// Overloads that exist to explain a mistake: the compiler's message has their reason.
#pragma once

#include <cstddef>

namespace cenote::detail {

/// The text of a reason. g++ prints the template arguments of a deleted function.
template <std::size_t Size>
struct reason {
    char text[Size]{};

    // NOLINTNEXTLINE(google-explicit-constructor): from a literal
    consteval reason(const char (&literal)[Size]) {
        for (std::size_t i = 0; i < Size; ++i) text[i] = literal[i];
    }
};

/// What class template argument deduction makes of arguments that no other guide fits.
struct unknown_resource {};

}  // namespace cenote::detail

// clang-format off
#if defined(__cpp_deleted_function) && defined(__clang__)
#define CENOTE_DELETED(why)                                     \
    _Pragma("clang diagnostic push")                            \
    _Pragma("clang diagnostic ignored \"-Wc++26-extensions\"")  \
    = delete(why)                                               \
    _Pragma("clang diagnostic pop")
#else
#define CENOTE_DELETED(why) = delete
#endif
// clang-format on

/// Declares a deleted function, and says why. Its parameters are usually `(...)`, the worst match
/// for every argument, also for an initializer list that fits no type.
// NOLINTBEGIN(bugprone-macro-parentheses): `why` is a string literal
#define CENOTE_REFUSE(function, why)              \
    template <::cenote::detail::reason Why = why> \
    function CENOTE_DELETED(why)
// NOLINTEND(bugprone-macro-parentheses)

// The compiler warns if the result refers to a temporary that has ended. g++ 13 does so anyway.
#if defined(__clang__)
#define CENOTE_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define CENOTE_LIFETIMEBOUND
#endif
