// What the SQL connectors have in common: bound parameters, values, rows.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace cenote::sql {

using bytes = std::vector<std::byte>;

/// A value was asked for as something it is not. The text names the column.
class bad_value : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

namespace detail {

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

template <class T>
concept plain_integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                        !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                        !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

[[noreturn]] void refuse_unsigned();
[[noreturn]] void refuse_conversion(const char* from, const char* to);

}  // namespace detail

/// A value for a place in a statement: null, bool, whole number, floating point, text or bytes. The
/// only way a value gets into a statement. Text and bytes are referred to, not copied.
class parameter {
public:
    using data = std::variant<std::monostate, bool, std::int64_t, double, std::string_view,
                              std::span<const std::byte>>;

    parameter() noexcept = default;
    parameter(std::nullptr_t) noexcept {}
    parameter(std::same_as<bool> auto value) noexcept : data_(value) {}
    /// Throws std::out_of_range for what no signed 64 bits hold.
    parameter(detail::plain_integer auto value) : data_(static_cast<std::int64_t>(value)) {
        if constexpr (sizeof value == sizeof(std::int64_t) && std::is_unsigned_v<decltype(value)>)
            if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                detail::refuse_unsigned();
    }
    parameter(std::floating_point auto value) noexcept : data_(static_cast<double>(value)) {}
    parameter(const char* text) noexcept {
        if (text != nullptr) data_ = std::string_view(text);
    }
    parameter(std::string_view text) noexcept : data_(text) {}
    parameter(const std::string& text) noexcept : data_(std::string_view(text)) {}
    parameter(std::span<const std::byte> octets) noexcept : data_(octets) {}
    parameter(const bytes& octets) noexcept : data_(std::span<const std::byte>(octets)) {}
    /// Null if it is empty.
    template <class T>
    parameter(const std::optional<T>& maybe) {
        if (maybe) *this = parameter(*maybe);
    }

    const data& get() const noexcept { return data_; }
    bool is_null() const noexcept { return data_.index() == 0; }

private:
    data data_;
};
static_assert(std::is_trivially_destructible_v<parameter>);  // g++ 12 destroys others twice

/// A value of a row.
class value {
public:
    using data = std::variant<std::monostate, bool, std::int64_t, double, std::string, sql::bytes>;

    value() noexcept = default;
    explicit value(data d) noexcept : data_(std::move(d)) {}
    /// A copy of what a parameter refers to.
    static value of(const parameter& p);

    bool is_null() const noexcept { return data_.index() == 0; }
    const data& get() const noexcept { return data_; }

    /// As a bool, a number, a std::string, a std::string_view (as long as the row), bytes, or an
    /// std::optional of these, which is empty for null. Whole numbers become floating point, and 0
    /// and 1 a bool; nothing else becomes anything else. Throws bad_value.
    template <class T>
    T as() const {
        if constexpr (detail::is_optional<T>) {
            if (is_null()) return std::nullopt;
            return as<typename T::value_type>();
        } else if constexpr (std::same_as<T, bool>) {
            return as_bool();
        } else if constexpr (detail::plain_integer<T>) {
            std::int64_t wide = as_integer();
            if (!std::in_range<T>(wide)) detail::refuse_conversion("number", "smaller integer");
            return static_cast<T>(wide);
        } else if constexpr (std::floating_point<T>) {
            return static_cast<T>(as_double());
        } else if constexpr (std::same_as<T, std::string> || std::same_as<T, std::string_view>) {
            return T(as_text());
        } else {
            static_assert(std::same_as<T, sql::bytes>,
                          "cenote: a value can be had as bool, a number, std::string, "
                          "std::string_view, cenote::sql::bytes, or std::optional of these");
            return as_bytes();
        }
    }

    /// To be bound again. Refers to this value.
    parameter bound() const;

    bool operator==(const value&) const = default;

private:
    bool as_bool() const;
    std::int64_t as_integer() const;
    double as_double() const;
    const std::string& as_text() const;
    const sql::bytes& as_bytes() const;

    data data_;
};

namespace detail {

/// What a row is as so many types: the one itself, or a tuple.
template <class... Ts>
struct typed_row {
    using type = std::tuple<Ts...>;
};
template <class T>
struct typed_row<T> {
    using type = T;
};

}  // namespace detail

/// A row as values of these types: one alone is itself, several are a tuple.
template <class... Ts>
using typed_row = typename detail::typed_row<Ts...>::type;

/// The names of a result's columns, shared by its rows.
using column_names = std::vector<std::string>;

class row {
public:
    row(std::shared_ptr<const column_names> columns, std::vector<value> values) noexcept
        : columns_(std::move(columns)), values_(std::move(values)) {}

    std::size_t size() const noexcept { return values_.size(); }
    /// Throws std::out_of_range, naming what was asked for and what there is.
    const value& operator[](std::size_t column) const;
    /// The first of this name.
    const value& operator[](std::string_view column) const;
    const column_names& columns() const noexcept { return *columns_; }

    /// See value::as.
    template <class T>
    T get(std::size_t column) const {
        return (*this)[column].template as<T>();
    }
    template <class T>
    T get(std::string_view column) const {
        return (*this)[column].template as<T>();
    }

    /// All of it: `auto [id, name] = r.as<std::int64_t, std::string>();`. Throws bad_value, also if
    /// there are not as many columns.
    template <class... Ts>
        requires(sizeof...(Ts) > 0)
    typed_row<Ts...> as() const {
        static_assert((!std::same_as<Ts, std::string_view> && ...),
                      "cenote: a std::string_view would outlive its row; use std::string");
        expect_columns(sizeof...(Ts));
        return [this]<std::size_t... I>(std::index_sequence<I...>) {
            return typed_row<Ts...>(this->template get<Ts>(I)...);
        }(std::index_sequence_for<Ts...>{});
    }

private:
    void expect_columns(std::size_t count) const;

    std::shared_ptr<const column_names> columns_;
    std::vector<value> values_;
};

/// What a statement came to, all of it.
class result {
public:
    result() = default;
    explicit result(std::shared_ptr<const column_names> columns) noexcept
        : columns_(std::move(columns)) {}

    std::size_t size() const noexcept { return rows_.size(); }
    bool empty() const noexcept { return rows_.empty(); }
    const row& operator[](std::size_t index) const { return rows_.at(index); }
    auto begin() const noexcept { return rows_.begin(); }
    auto end() const noexcept { return rows_.end(); }

    /// The only row. Throws bad_value if there is none, or more than one.
    const row& one() const;
    /// The only value of the only row.
    template <class T>
    T scalar() const {
        return one().template get<T>(0);
    }
    /// All rows: `for (auto [id, name] : found.as<std::int64_t, std::string>())`. See row::as.
    template <class... Ts>
    std::vector<typed_row<Ts...>> as() const {
        std::vector<typed_row<Ts...>> all;
        all.reserve(size());
        for (const row& r : rows_) all.push_back(r.template as<Ts...>());
        return all;
    }
    /// The only row, if there is one. Throws bad_value if there are more.
    template <class... Ts>
    std::optional<typed_row<Ts...>> at_most_one() const {
        if (empty()) return std::nullopt;
        return one().template as<Ts...>();
    }

    /// How many rows the statement inserted, updated or deleted.
    std::uint64_t affected() const noexcept { return affected_; }
    /// The number the server gave to the last row inserted, where it does so (SQLite, MariaDB).
    std::int64_t last_insert_id() const noexcept { return last_insert_id_; }

    // For connectors.
    const std::shared_ptr<const column_names>& columns() const noexcept { return columns_; }
    void add(std::vector<value> values) { rows_.emplace_back(columns_, std::move(values)); }
    void note_affected(std::uint64_t rows, std::int64_t last_id = 0) noexcept {
        affected_ = rows;
        last_insert_id_ = last_id;
    }

private:
    std::shared_ptr<const column_names> columns_ = std::make_shared<column_names>();
    std::vector<row> rows_;
    std::uint64_t affected_ = 0;
    std::int64_t last_insert_id_ = 0;
};

/// A statement and its parameters, kept for as long as somebody awaits them.
class bound_statement {
public:
    bound_statement(std::string_view text, std::span<const parameter> parameters);
    bound_statement(bound_statement&&) noexcept = default;
    bound_statement& operator=(bound_statement&&) noexcept = default;

    const std::string& text() const noexcept { return text_; }
    std::span<const parameter> parameters() const noexcept { return parameters_; }

private:
    std::string text_;
    std::vector<value> values_;
    std::vector<parameter> parameters_;  // refer to values_, which moves as a whole
};

/// Parameters side by side, as the connectors take them.
template <class... Args>
std::array<parameter, sizeof...(Args)> bind(const Args&... args) {
    return {parameter(args)...};
}

}  // namespace cenote::sql
