// The built-in codecs: how the types of C++ are read from cells.
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <ratio>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/sql_codec.hpp"

namespace cenote::sql {

namespace detail {

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

template <class T>
concept plain_integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                        !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                        !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

/// An enum that is a value. (std::byte is a part of bytes.)
template <class E>
concept value_enum = std::is_enum_v<E> && !std::same_as<E, std::byte>;
template <class E>
concept named_enum =
    value_enum<E> && !std::same_as<std::remove_cvref_t<decltype(enum_names<E>)>, std::nullptr_t>;

template <class T>
concept has_codec = requires(const cell& c) {
    { codec<T>::read(c) } -> std::convertible_to<T>;
};

/// Whether a T refers to the row that it was read from.
template <class T>
constexpr bool refers_to_row =
    std::same_as<T, std::string_view> || std::same_as<T, std::span<const std::byte>>;
template <class T>
constexpr bool refers_to_row<std::optional<T>> = refers_to_row<T>;
template <class T>
constexpr bool refers_to_row<std::vector<T>> = refers_to_row<T>;

[[noreturn]] void refuse_conversion(const char* from, const char* to);

using local_microseconds = std::chrono::local_time<std::chrono::microseconds>;
using sys_microseconds = std::chrono::sys_time<std::chrono::microseconds>;

// From a cell. Throw bad_value.
std::chrono::sys_days day_of(const cell& c);
std::chrono::microseconds time_of(const cell& c);
local_microseconds local_time_of(const cell& c);
sys_microseconds sys_time_of(const cell& c);
uuid uuid_of(const cell& c);

/// Converts the unit of a duration. Throws bad_value for a remainder, and for a time beyond the
/// range of the type.
template <class To>
To exactly(std::chrono::microseconds from) {
    using rep = typename To::rep;
    if constexpr (std::floating_point<rep>) {
        return std::chrono::duration_cast<To>(from);
    } else if constexpr (std::ratio_less_v<typename To::period, std::micro>) {
        using factor = std::ratio_divide<std::micro, typename To::period>;
        if (from.count() > std::numeric_limits<rep>::max() / factor::num ||
            from.count() < std::numeric_limits<rep>::min() / factor::num)
            refuse_conversion("a date or time", "a type with a smaller range");
        return std::chrono::duration_cast<To>(from);
    } else {
        To to = std::chrono::duration_cast<To>(from);
        if (std::chrono::duration_cast<std::chrono::microseconds>(to) != from)
            refuse_conversion("a time with a fraction", "a type without it");
        return to;
    }
}

/// Goes through the text form of an array of PostgreSQL.
class array_reader {
public:
    /// Throws bad_value for an array of several dimensions, and for text that is no array.
    explicit array_reader(std::string_view text);

    /// False at the end. The element is valid until the next one.
    bool next();
    /// The element as a cell.
    cell element(column_type type);

private:
    void read_quoted();

    std::string_view rest_;
    std::string_view element_;
    bool first_ = true;
    bool null_ = false;
    std::string unescaped_;
    bytes decoded_;
};

/// What an element that is read as a T should be, if the server does not say it.
template <class T>
constexpr column_type usual_type = std::same_as<T, bool>    ? column_type::boolean
                                   : plain_integer<T>       ? column_type::integer
                                   : std::floating_point<T> ? column_type::real
                                   : std::same_as<T, bytes> ? column_type::bytes
                                                            : column_type::text;
template <class T>
constexpr column_type usual_type<std::optional<T>> = usual_type<T>;

/// Whether a codec accepts a column. One without `accepts` decides by the cells.
template <class T>
constexpr bool accepts(const column_info& c) {
    if constexpr (requires { codec<T>::accepts(c); }) return codec<T>::accepts(c);
    else return true;
}

constexpr bool is_one_of(const column_info& c, auto... types) {
    return c.type == column_type::any || ((c.type == types) || ...);
}

constexpr bool is_sent_as_text(const column_info& c) {
    return !is_one_of(c, column_type::boolean, column_type::integer, column_type::real,
                      column_type::bytes) ||
           c.type == column_type::any;
}

/// The cell as a T. Null only for an optional.
template <class T>
T read(const cell& c) {
    if constexpr (!is_optional<T>)
        if (c.is_null()) [[unlikely]]
            refuse_conversion("null", "a value; read it as a std::optional");
    return codec<T>::read(c);
}

}  // namespace detail

// The codecs. Their members are those that sql_codec.hpp describes.

template <>
struct codec<bool> {
    static constexpr bool accepts(const column_info& c) {
        return detail::is_one_of(c, column_type::boolean, column_type::integer);
    }
    static bool read(const cell& c) { return c.boolean(); }
};

template <detail::plain_integer T>
struct codec<T> {
    static constexpr bool accepts(const column_info& c) {
        return detail::is_one_of(c, column_type::integer);
    }
    static T read(const cell& c) {
        if constexpr (std::same_as<T, std::uint64_t>) {
            if (c.kind() == cell_kind::natural) return c.natural();
        }
        std::int64_t wide = c.integer();
        if (!std::in_range<T>(wide)) [[unlikely]]
            detail::refuse_conversion("integer", "a smaller integer");
        return static_cast<T>(wide);
    }
};

template <std::floating_point T>
struct codec<T> {
    static constexpr bool accepts(const column_info& c) {
        return detail::is_one_of(c, column_type::real, column_type::integer);
    }
    static T read(const cell& c) { return static_cast<T>(c.real()); }
};

template <class T>
    requires std::same_as<T, std::string> || std::same_as<T, std::string_view>
struct codec<T> {
    static constexpr bool accepts(const column_info& c) { return detail::is_sent_as_text(c); }
    static T read(const cell& c) { return T(c.text()); }
};

template <class T>
    requires std::same_as<T, bytes> || std::same_as<T, std::span<const std::byte>>
struct codec<T> {
    static constexpr bool accepts(const column_info& c) {
        return detail::is_one_of(c, column_type::bytes);
    }
    static T read(const cell& c) {
        std::span<const std::byte> all = c.octets();
        return T(all.begin(), all.end());
    }
};

template <>
struct codec<uuid> {
    static constexpr bool accepts(const column_info& c) {
        return detail::is_one_of(c, column_type::uuid, column_type::text, column_type::bytes);
    }
    static uuid read(const cell& c) { return detail::uuid_of(c); }
};

template <class T>
    requires std::same_as<T, std::chrono::sys_days> || std::same_as<T, std::chrono::local_days> ||
             std::same_as<T, std::chrono::year_month_day>
struct codec<T> {
    static constexpr bool accepts(const column_info& c) {
        return detail::is_one_of(c, column_type::date, column_type::text);
    }
    static T read(const cell& c) {
        std::chrono::sys_days day = detail::day_of(c);
        if constexpr (std::same_as<T, std::chrono::local_days>) return T(day.time_since_epoch());
        else return T(day);
    }
};

template <class Duration>
    requires(!std::same_as<Duration, std::chrono::days>)
struct codec<std::chrono::local_time<Duration>> {
    static constexpr bool accepts(const column_info& c) {
        return detail::is_one_of(c, column_type::timestamp, column_type::text);
    }
    static std::chrono::local_time<Duration> read(const cell& c) {
        auto since = detail::local_time_of(c).time_since_epoch();
        return std::chrono::local_time<Duration>(detail::exactly<Duration>(since));
    }
};

template <class Duration>
    requires(!std::same_as<Duration, std::chrono::days>)
struct codec<std::chrono::sys_time<Duration>> {
    static constexpr bool accepts(const column_info& c) {
        return detail::is_one_of(c, column_type::timestamp_tz, column_type::text);
    }
    static std::chrono::sys_time<Duration> read(const cell& c) {
        auto since = detail::sys_time_of(c).time_since_epoch();
        return std::chrono::sys_time<Duration>(detail::exactly<Duration>(since));
    }
};

template <class Rep, class Period>
struct codec<std::chrono::duration<Rep, Period>> {
    static constexpr bool accepts(const column_info& c) {
        return detail::is_one_of(c, column_type::time, column_type::text);
    }
    static std::chrono::duration<Rep, Period> read(const cell& c) {
        return detail::exactly<std::chrono::duration<Rep, Period>>(detail::time_of(c));
    }
};

template <class Duration>
struct codec<std::chrono::hh_mm_ss<Duration>> {
    static constexpr bool accepts(const column_info& c) { return codec<Duration>::accepts(c); }
    static std::chrono::hh_mm_ss<Duration> read(const cell& c) {
        return std::chrono::hh_mm_ss<Duration>(codec<Duration>::read(c));
    }
};

template <detail::value_enum E>
struct codec<E> {
    static constexpr bool accepts(const column_info& c) {
        if constexpr (detail::named_enum<E>) return detail::is_sent_as_text(c);
        else return codec<std::underlying_type_t<E>>::accepts(c);
    }
    static E read(const cell& c) {
        if constexpr (detail::named_enum<E>) {
            for (const enum_name<E>& each : enum_names<E>)
                if (c.text() == each.name) return each.value;
            detail::refuse_conversion("text", "an enumerator: enum_names does not contain it");
        } else {
            return static_cast<E>(codec<std::underlying_type_t<E>>::read(c));
        }
    }
};

template <class T>
struct codec<std::optional<T>> {
    static constexpr bool accepts(const column_info& c) { return detail::accepts<T>(c); }
    static std::optional<T> read(const cell& c) {
        if (c.is_null()) return std::nullopt;
        return codec<T>::read(c);
    }
};

template <class T>
    requires(!std::same_as<T, std::byte>)
struct codec<std::vector<T>> {
    static_assert(!detail::refers_to_row<T>,
                  "cenote: the elements of an array have no place of their own in the row; use "
                  "std::vector<std::string> or std::vector<cenote::sql::bytes>");
    static constexpr bool accepts(const column_info& c) {
        return c.type == column_type::any ||
               (c.type == column_type::array &&
                detail::accepts<T>({.name = c.name, .type = c.element, .type_name = c.type_name}));
    }
    static std::vector<T> read(const cell& c) {
        std::vector<T> all;
        const column_type type =
            c.element() == column_type::any ? detail::usual_type<T> : c.element();
        for (detail::array_reader in(c.text()); in.next();)
            all.push_back(detail::read<T>(in.element(type)));
        return all;
    }
};

}  // namespace cenote::sql
