// Conversion of what SQL databases send into C++ types. Users specialize codec for types of their
// own, and enum_names for enums.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cenote::sql {

/// What a column contains, as far as the server says. SQLite's columns may contain anything.
enum class column_type : std::uint8_t {
    any,           ///< Unknown: each value says what it is (SQLite).
    boolean,       ///< True or false (PostgreSQL).
    integer,       ///< A whole number of any size.
    real,          ///< Binary floating point.
    decimal,       ///< An exact number: sent as text.
    text,          ///< Characters.
    bytes,         ///< Binary data.
    date,          ///< A day.
    time,          ///< A time of day, or the length of a time (TIME of MariaDB).
    timestamp,     ///< A day and a time of an unknown time zone.
    timestamp_tz,  ///< An instant.
    uuid,          ///< A UUID: sent as text.
    array,         ///< An array of PostgreSQL: sent as text.
    other,         ///< Another type: sent as text.
};

/// What a cell contains.
enum class cell_kind : std::uint8_t {
    null,     ///< Nothing.
    boolean,  ///< A bool.
    integer,  ///< An integer in the range of std::int64_t.
    natural,  ///< An integer above that range.
    real,     ///< A double.
    text,     ///< Characters.
    bytes,    ///< Binary data.
    moment,   ///< A day or a time in parts.
};

/// Binary data: BLOB of SQLite and MariaDB, bytea of PostgreSQL.
using bytes = std::vector<std::byte>;

/// A value was read as a type that it does not have, or a result as a number of rows or columns
/// that it does not have. The text names what was expected and what there is. It never contains the
/// value itself, so it can be logged.
///
/// The statement has run: this error is about its result only, and the connection remains usable.
class bad_value : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
    /// For use by the library.
    bad_value(const std::string& what, std::optional<std::size_t> column,
              std::optional<std::size_t> row)
        : std::runtime_error(what), column_(column), row_(row) {}

    /// The column of the value, from 0; empty if the error concerns no single column, or if the
    /// value was read from an sql::value.
    std::optional<std::size_t> column() const noexcept { return column_; }
    /// The row of the value, from 0; empty if the error concerns no single row, or if the value was
    /// read from an sql::value.
    std::optional<std::size_t> row() const noexcept { return row_; }

private:
    std::optional<std::size_t> column_;
    std::optional<std::size_t> row_;
};

/// A UUID: `uuid` of PostgreSQL, UUID of MariaDB, text or 16 bytes elsewhere.
struct uuid {
    std::array<std::byte, 16> octets{};  ///< In the order in which they are written.

    /// From 32 hexadecimal digits with or without hyphens. Throws bad_value.
    static uuid from_text(std::string_view text);
    /// As 36 characters in lower case: `6f1c1ee6-6d1c-4c3a-9d0b-2f8e5a1b7c3d`.
    std::string text() const;

    bool operator==(const uuid&) const = default;
    auto operator<=>(const uuid&) const = default;
};

/// A column of a result. Valid as long as the call that gets it.
struct column_info {
    std::string_view name;                   ///< As the server spells it.
    column_type type = column_type::any;     ///< What it contains.
    std::string_view type_name;              ///< The server's name of the type.
    column_type element = column_type::any;  ///< What an array contains.
};

/// A day and a time, or one of the two, in parts. How MariaDB sends them.
struct moment {
    int year = 0;                           ///< 0 in a time.
    unsigned month = 0;                     ///< 0 in a time.
    unsigned day = 0;                       ///< 0 in a time.
    unsigned hour = 0;                      ///< May exceed 23 in a time.
    unsigned minute = 0;                    ///< 0 in a date.
    unsigned second = 0;                    ///< 0 in a date.
    unsigned microsecond = 0;               ///< 0 in a date.
    unsigned digits = 0;                    ///< Of the fraction, in text.
    bool negative = false;                  ///< Of a time.
    column_type is = column_type::date;     ///< date, time, timestamp or timestamp_tz.
    mutable std::array<char, 40> buffer{};  ///< For text().

    /// As the server writes it. Valid as long as this object.
    std::string_view text() const;
};

/// One value of a row while the row is read. Refers to the buffers of the connection: valid until
/// the next row. What a codec reads.
class cell {
public:
    /// Null.
    cell() noexcept = default;
    explicit cell(bool b) noexcept : kind_(cell_kind::boolean), whole_(b ? 1 : 0) {}
    explicit cell(std::int64_t i) noexcept : kind_(cell_kind::integer), whole_(i) {}
    explicit cell(double d) noexcept : kind_(cell_kind::real), real_(d) {}
    explicit cell(std::string_view text) noexcept
        : kind_(cell_kind::text), size_(text.size()), data_(text.data()) {}
    explicit cell(std::span<const std::byte> octets) noexcept
        : kind_(cell_kind::bytes), size_(octets.size()), data_(octets.data()) {}
    /// Refers to the moment.
    explicit cell(const sql::moment& parts) noexcept : kind_(cell_kind::moment), data_(&parts) {}
    /// An integer without a sign.
    static cell unsigned_integer(std::uint64_t n) noexcept {
        cell c(static_cast<std::int64_t>(n));
        if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            c.kind_ = cell_kind::natural;
        return c;
    }
    /// An array of PostgreSQL, in its text form.
    static cell array(std::string_view text, column_type element) noexcept {
        cell c(text);
        c.element_ = element;
        return c;
    }

    /// What it contains.
    cell_kind kind() const noexcept { return kind_; }
    /// Whether it is null. A codec other than that of std::optional gets no null.
    bool is_null() const noexcept { return kind_ == cell_kind::null; }
    /// What the elements of an array are, as far as known.
    column_type element() const noexcept { return element_; }

    // The content. Each throws bad_value if it is something else.

    /// A bool, or an integer 0 or 1.
    bool boolean() const {
        if (kind_ == cell_kind::boolean || (kind_ == cell_kind::integer && whole_ >> 1 == 0))
            return whole_ != 0;
        refuse("bool");
    }
    /// An integer.
    std::int64_t integer() const {
        if (kind_ == cell_kind::integer) return whole_;
        refuse("integer");
    }
    /// An integer that is not negative.
    std::uint64_t natural() const {
        if (kind_ == cell_kind::natural || (kind_ == cell_kind::integer && whole_ >= 0))
            return static_cast<std::uint64_t>(whole_);
        refuse("unsigned integer");
    }
    /// A floating point number, or an integer.
    double real() const {
        if (kind_ == cell_kind::real) return real_;
        if (kind_ == cell_kind::integer) return static_cast<double>(whole_);
        if (kind_ == cell_kind::natural) return static_cast<double>(natural());
        refuse("floating point");
    }
    /// Text, and everything that servers send as text: decimals, dates, JSON.
    std::string_view text() const {
        if (kind_ == cell_kind::text) return {static_cast<const char*>(data_), size_};
        if (kind_ == cell_kind::moment) return moment().text();
        refuse("text");
    }
    /// Bytes.
    std::span<const std::byte> octets() const {
        if (kind_ == cell_kind::bytes) return {static_cast<const std::byte*>(data_), size_};
        refuse("bytes");
    }
    /// Parts of a day or a time.
    const sql::moment& moment() const {
        if (kind_ == cell_kind::moment) return *static_cast<const sql::moment*>(data_);
        refuse("a date or time");
    }

    /// Throws bad_value, which says what it is and what it cannot be read as.
    [[noreturn]] void refuse(const char* as) const;

private:
    cell_kind kind_ = cell_kind::null;
    column_type element_ = column_type::any;
    std::size_t size_ = 0;
    union {
        std::int64_t whole_ = 0;
        double real_;
        const void* data_;
    };
};

/// How a type is read from a cell. Specialize it for a type of your own, in namespace cenote::sql:
///
///     template <>
///     struct cenote::sql::codec<money> {
///         // Asked once for each statement.
///         static constexpr bool accepts(const cenote::sql::column_info& c) {
///             return c.type == cenote::sql::column_type::decimal;
///         }
///         // Throws bad_value for what is no money. Gets no null.
///         static money read(const cenote::sql::cell& c) { return money::parse(c.text()); }
///     };
///
/// There are codecs for bool, integers, floating point, std::string, sql::bytes, sql::uuid, enums,
/// std::chrono::year_month_day, sys_days, local_time, sys_time, hh_mm_ss and durations,
/// std::optional of these, and std::vector of these for arrays of PostgreSQL; while a cursor is at
/// the row also for std::string_view and std::span<const std::byte>.
template <class T>
struct codec;

/// A name of an enumerator; see enum_names.
template <class E>
struct enum_name {
    E value;                ///< The enumerator.
    std::string_view name;  ///< Its name in the database.
};

/// The names of an enum in the database, as text or as an enum type of the server. Specialize it;
/// without, an enum is stored as its number.
///
///     template <>
///     inline constexpr auto cenote::sql::enum_names<state> =
///         std::to_array<cenote::sql::enum_name<state>>({{state::open, "open"},
///                                                       {state::paid, "paid"}});
template <class E>
inline constexpr std::nullptr_t enum_names = nullptr;

}  // namespace cenote::sql

#include "cenote/detail/codecs.hpp"
