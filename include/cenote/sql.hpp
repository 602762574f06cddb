// Values of SQL databases: parameters of statements, and rows and results that statements return.
#pragma once

#include <array>
#include <chrono>
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

#include "cenote/sql_codec.hpp"

namespace cenote::sql {

namespace detail {

[[noreturn]] void refuse_unsigned();
[[noreturn]] void refuse_date();

/// The elements of a vector, as an array of PostgreSQL. Refers to the vector.
class array_view {
public:
    template <class T>
    explicit array_view(const std::vector<T>& of) noexcept : of_(&of), write_(&write_all<T>) {}
    /// A text that was written before, and ends with a zero byte.
    explicit array_view(const char* text) noexcept : of_(text), write_(&copy) {}

    /// Appends the array in PostgreSQL's text form. Throws std::invalid_argument for an array of
    /// arrays.
    void write(std::string& to) const { write_(of_, to); }

private:
    template <class T>
    static void write_all(const void* of, std::string& to);
    static void copy(const void* of, std::string& to);

    const void* of_;
    void (*write_)(const void* of, std::string& to);
};

}  // namespace detail

class named_parameter;

/// A value for a placeholder of a statement: null, bool, integer, floating point, text or bytes.
/// Parameters are the only way for a value to get into a statement, so no value becomes SQL.
///
/// Arguments convert implicitly:
///
///     db.execute("INSERT INTO customer(id, name, born) VALUES (?, ?, ?)", 7, "Ada", nullptr);
///
/// nullptr, an empty std::optional and a null `const char*` are null. Text is std::string,
/// std::string_view or `const char*`, bytes are sql::bytes or a span of std::byte. Dates and times
/// are those of std::chrono, down to microseconds; a std::vector is an array (PostgreSQL). Decimals
/// are passed as text, with a cast in the statement if the server needs one: `$1::numeric`.
///
/// Text, bytes and arrays are not copied: they must live until the statement has run. (A statement
/// that is awaited copies them when it is called.) Convert your own types at the call.
///
/// Thread safety: like a value of a built-in type.
class parameter {
public:
    /// One alternative for each type of value; monostate is null.
    using data = std::variant<std::monostate, bool, std::int64_t, double, std::string_view,
                              std::span<const std::byte>, std::chrono::sys_days,
                              std::chrono::local_time<std::chrono::microseconds>,
                              std::chrono::sys_time<std::chrono::microseconds>,
                              std::chrono::microseconds, uuid, detail::array_view>;

    /// Null.
    parameter() noexcept = default;
    parameter(std::nullptr_t) noexcept {}
    /// A bool. Servers without a type for it (SQLite, MariaDB) store 0 or 1.
    parameter(std::same_as<bool> auto value) noexcept : data_(value) {}
    /// An integer. Throws std::out_of_range for an unsigned value above the range of std::int64_t.
    /// Characters are not integers: pass text instead.
    parameter(detail::plain_integer auto value) : data_(static_cast<std::int64_t>(value)) {
        if constexpr (sizeof value == sizeof(std::int64_t) && std::is_unsigned_v<decltype(value)>)
            if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                detail::refuse_unsigned();
    }
    /// A floating point number, sent with the precision of a double.
    parameter(std::floating_point auto value) noexcept : data_(static_cast<double>(value)) {}
    /// Text in the encoding of the connection, usually UTF-8. A null pointer is null.
    parameter(const char* text) noexcept {
        if (text != nullptr) data_ = std::string_view(text);
    }
    parameter(std::string_view text) noexcept : data_(text) {}
    parameter(const std::string& text) noexcept : data_(std::string_view(text)) {}
    /// Bytes.
    parameter(std::span<const std::byte> octets) noexcept : data_(octets) {}
    parameter(const bytes& octets) noexcept : data_(std::span<const std::byte>(octets)) {}
    /// A day. Throws std::out_of_range for a date that does not exist, and for years other than 1
    /// to 9999.
    parameter(std::chrono::sys_days day) : data_(checked(day)) {}
    parameter(std::chrono::local_days day)
        : parameter(std::chrono::sys_days(day.time_since_epoch())) {}
    parameter(const std::chrono::year_month_day& day) : parameter(day_of(day)) {}
    /// A day and a time without a time zone, rounded down to microseconds. Throws like a day.
    template <class Duration>
        requires(!std::same_as<Duration, std::chrono::days>)
    parameter(const std::chrono::local_time<Duration>& time)
        : data_(checked(std::chrono::floor<std::chrono::microseconds>(time))) {}
    /// An instant, rounded down to microseconds: `timestamptz` of PostgreSQL, text with an offset
    /// for SQLite. MariaDB accepts it if the connection's time zone is set to UTC. Throws like a
    /// day.
    template <class Duration>
        requires(!std::same_as<Duration, std::chrono::days>)
    parameter(const std::chrono::sys_time<Duration>& time)
        : data_(checked(std::chrono::floor<std::chrono::microseconds>(time))) {}
    /// A time of day, or the length of a time, rounded down to microseconds. Throws
    /// std::out_of_range beyond 838 hours, which no server stores.
    template <class Rep, class Period>
    parameter(const std::chrono::duration<Rep, Period>& time)
        : data_(checked(std::chrono::floor<std::chrono::microseconds>(time))) {}
    template <class Duration>
    parameter(const std::chrono::hh_mm_ss<Duration>& time) : parameter(time.to_duration()) {}
    /// A UUID: `uuid` of PostgreSQL and MariaDB, otherwise text. For 16 bytes pass its octets.
    parameter(const uuid& id) noexcept : data_(id) {}
    /// An enumerator, by its name if it has enum_names, otherwise by its number. Throws
    /// std::out_of_range for one that enum_names lacks.
    parameter(detail::value_enum auto value) : parameter(of_enum(value)) {}
    /// An array of PostgreSQL. Refers to the vector. Other servers throw std::invalid_argument.
    template <class T>
        requires(std::constructible_from<parameter, const T&> && !std::same_as<T, std::byte> &&
                 !std::same_as<T, parameter>)
    parameter(const std::vector<T>& elements) noexcept : data_(detail::array_view(elements)) {}
    /// For use by the library: an array of PostgreSQL.
    explicit parameter(const detail::array_view& array) noexcept : data_(array) {}
    /// A value with a name; see named().
    parameter(const named_parameter& with_name) noexcept;
    /// The value of the optional; null if it is empty. Refers to the content of the optional.
    template <class T>
    parameter(const std::optional<T>& maybe) {
        if (maybe) *this = parameter(*maybe);
    }

    /// The value as a variant, for code that handles each type.
    const data& get() const noexcept { return data_; }
    /// Whether it is null.
    bool is_null() const noexcept { return data_.index() == 0; }
    /// The name of its placeholder, without the colon; empty if it has none.
    std::string_view name() const noexcept { return name_; }
    /// A copy of the value without the name.
    parameter without_name() const noexcept {
        parameter p = *this;
        p.name_ = {};
        return p;
    }

private:
    friend class named_parameter;

    static std::chrono::sys_days checked(std::chrono::sys_days day);
    static detail::local_microseconds checked(detail::local_microseconds time);
    static detail::sys_microseconds checked(detail::sys_microseconds time);
    static std::chrono::microseconds checked(std::chrono::microseconds time);
    static std::chrono::sys_days day_of(const std::chrono::year_month_day& day) {
        if (!day.ok()) detail::refuse_date();
        return day;
    }
    template <class E>
    static parameter of_enum(E value) {
        if constexpr (detail::named_enum<E>) {
            for (const enum_name<E>& each : enum_names<E>)
                if (each.value == value) return each.name;
            refuse_enumerator();
        } else {
            return static_cast<std::underlying_type_t<E>>(value);
        }
    }
    [[noreturn]] static void refuse_enumerator();

    data data_;
    std::string_view name_;
};
// g++ 12 destroys temporaries of other types twice in an expression with co_await.
static_assert(std::is_trivially_destructible_v<parameter>);

/// A value with the name of its placeholder. What named() returns.
class named_parameter {
public:
    /// Refers to both. See named().
    named_parameter(std::string_view name, const parameter& value) noexcept : value_(value) {
        value_.name_ = name;
    }

    /// The value, which has the name.
    const parameter& value() const noexcept { return value_; }

private:
    parameter value_;
};
static_assert(std::is_trivially_destructible_v<named_parameter>);

inline parameter::parameter(const named_parameter& with_name) noexcept
    : parameter(with_name.value()) {}

/// A value for the placeholder `:name` of a statement. Either all values of a statement have names
/// or none has. Understood by cenote::database, on every server.
///
///     db.execute("UPDATE customer SET city = :city WHERE id = :id", sql::named("id", 7),
///                sql::named("city", city));
template <class T>
named_parameter named(std::string_view name, const T& value) noexcept(
    std::is_nothrow_constructible_v<parameter, const T&>) {
    return {name, parameter(value)};
}

namespace detail {

/// Appends one element of an array of PostgreSQL.
void write_element(std::string& to, const parameter& element);

template <class T>
void array_view::write_all(const void* of, std::string& to) {
    to += '{';
    bool first = true;
    for (const T& each : *static_cast<const std::vector<T>*>(of)) {
        if (!std::exchange(first, false)) to += ',';
        write_element(to, parameter(each));
    }
    to += '}';
}

/// Room for the text of a date, a time or a UUID.
using text_buffer = std::array<char, 48>;

// The form that all servers understand. The text is in the buffer.
std::string_view text_of(std::chrono::sys_days day, text_buffer& buffer);
std::string_view text_of(local_microseconds time, text_buffer& buffer);
std::string_view text_of(sys_microseconds time, text_buffer& buffer);
std::string_view text_of(std::chrono::microseconds time, text_buffer& buffer);
std::string_view text_of(const uuid& id, text_buffer& buffer);

/// Throws std::invalid_argument: named parameters are translated by cenote::database only.
void refuse_named(std::span<const parameter> parameters);

}  // namespace detail

/// One value of a row: null, bool, integer, floating point, text or bytes. Which SQL type becomes
/// which of these depends on the server; see the `connection` of each.
///
/// Thread safety: several threads may read a value at a time.
class value {
public:
    /// One alternative for each type of value; monostate is null.
    using data = std::variant<std::monostate, bool, std::int64_t, double, std::string, sql::bytes>;

    /// Null.
    value() noexcept = default;
    /// For connectors: what the server has sent.
    explicit value(data d) noexcept : data_(std::move(d)) {}
    /// A copy of a parameter and of the text or bytes that it refers to.
    static value of(const parameter& p);

    /// Whether it is null. Read a column that may be null as a std::optional.
    bool is_null() const noexcept { return data_.index() == 0; }
    /// The value as a variant, for code that handles each type.
    const data& get() const noexcept { return data_; }

    /// The value as a T, for which there is a codec: bool, an integer or floating point type,
    /// std::string, std::string_view (valid as long as the row), sql::bytes, a date or time of
    /// std::chrono, sql::uuid, an enum, a type of your own, or std::optional of one of these, which
    /// is empty for null. Two conversions are made: an integer becomes floating point, and 0 or 1
    /// becomes a bool. Throws bad_value for all others, for null without an optional, and for an
    /// integer out of the range of T.
    ///
    ///     auto born = row["born"].as<std::optional<std::string>>();
    template <class T>
    T as() const {
        static_assert(detail::has_codec<T>,
                      "cenote: a value cannot be read as this type: specialize "
                      "cenote::sql::codec for it");
        return detail::read<T>(as_cell());
    }
    /// The value as a cell, which a codec reads. Refers to this value.
    cell as_cell() const noexcept;

    /// A parameter with this value, for another statement. Refers to this value.
    parameter bound() const;

    /// Whether both have the same type and content. Null equals null.
    bool operator==(const value&) const = default;

private:
    data data_;
};

namespace detail {

/// A row as these types.
template <class... Ts>
struct typed_row {
    using type = std::tuple<Ts...>;
};
template <class T>
struct typed_row<T> {
    using type = T;
};

}  // namespace detail

/// A row as values of these types: T for a single type, a tuple for several. What row::as and
/// result::as return.
template <class... Ts>
using typed_row = typename detail::typed_row<Ts...>::type;

/// The names of the columns of a result, in order.
using column_names = std::vector<std::string>;

/// One row of a result. Independent of the result: it may be copied, moved, and outlive the result.
///
///     for (const cenote::sql::row& each : db.query("SELECT id, name FROM customer"))
///         names[each.get<std::int64_t>("id")] = each.get<std::string>("name");
///
/// Thread safety: several threads may read a row at a time.
class row {
public:
    /// For connectors. Requires as many values as columns.
    row(std::shared_ptr<const column_names> columns, std::vector<value> values) noexcept
        : columns_(std::move(columns)), values_(std::move(values)) {}

    /// The number of columns.
    std::size_t size() const noexcept { return values_.size(); }
    /// The value of a column, by its index from 0. Throws std::out_of_range.
    const value& operator[](std::size_t column) const;
    /// The value of the first column with this name, as the server spells it. Throws
    /// std::out_of_range. Searches the names, so an index is faster in a loop over many rows.
    const value& operator[](std::string_view column) const;
    /// The names of all columns. A name may occur more than once, for instance after a join.
    const column_names& columns() const noexcept { return *columns_; }

    /// The value of a column as a T; see value::as. Throws std::out_of_range if there is no such
    /// column, and bad_value.
    ///
    ///     auto name = r.get<std::string>("name");
    template <class T>
    T get(std::size_t column) const {
        return (*this)[column].template as<T>();
    }
    template <class T>
    T get(std::string_view column) const {
        return (*this)[column].template as<T>();
    }

    /// The whole row, one type per column; see value::as. Throws bad_value, also if the number of
    /// columns differs.
    ///
    ///     auto [id, name] = r.as<std::int64_t, std::string>();
    template <class... Ts>
        requires(sizeof...(Ts) > 0)
    typed_row<Ts...> as() const {
        static_assert((!detail::refers_to_row<Ts> && ...),
                      "cenote: a std::string_view or a span would outlive its row; use "
                      "std::string or cenote::sql::bytes");
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

/// Everything that a statement returned: all its rows, or the number of rows that it changed.
/// Results too large for memory are read with a cursor instead. The result owns its rows and is
/// independent of the connection; it may be copied and moved.
///
///     cenote::sql::result found = db.query("SELECT id, name FROM customer WHERE city = ?", city);
///     if (found.empty()) return;
///     for (auto [id, name] : found.as<std::int64_t, std::string>()) greet(id, name);
///
/// Thread safety: several threads may read a result at a time.
class result {
public:
    /// Without rows and columns.
    result() = default;
    /// For connectors: without rows yet.
    explicit result(std::shared_ptr<const column_names> columns) noexcept
        : columns_(std::move(columns)) {}

    /// The number of rows.
    std::size_t size() const noexcept { return rows_.size(); }
    /// Whether there are no rows. True for a statement that returns none, such as an UPDATE.
    bool empty() const noexcept { return rows_.empty(); }
    /// The row with this index, from 0. Throws std::out_of_range.
    const row& operator[](std::size_t index) const { return rows_.at(index); }
    /// Iterates over the rows in the order in which the server sent them:
    ///
    ///     for (const cenote::sql::row& each : found)
    auto begin() const noexcept { return rows_.begin(); }
    auto end() const noexcept { return rows_.end(); }

    /// The only row. Throws bad_value if there are none or several.
    const row& one() const;
    /// The first value of the only row, as a T; see value::as. Throws like one() and row::get.
    ///
    ///     auto count = db.query("SELECT count(*) FROM customer").scalar<std::int64_t>();
    template <class T>
    T scalar() const {
        return one().template get<T>(0);
    }
    /// All rows, one type per column; see row::as. Converts all of them at once, into new memory.
    ///
    ///     for (auto [id, name] : found.as<std::int64_t, std::string>())
    template <class... Ts>
    std::vector<typed_row<Ts...>> as() const {
        std::vector<typed_row<Ts...>> all;
        all.reserve(size());
        for (const row& r : rows_) all.push_back(r.template as<Ts...>());
        return all;
    }
    /// The only row, one type per column; empty if there are no rows. Throws bad_value if there are
    /// several. For a look-up by a key:
    ///
    ///     auto name = db.query("SELECT name FROM customer WHERE id = ?", id)
    ///                     .at_most_one<std::string>();
    ///     if (!name) return not_found();
    template <class... Ts>
    std::optional<typed_row<Ts...>> at_most_one() const {
        if (empty()) return std::nullopt;
        return one().template as<Ts...>();
    }

    /// How many rows the statement inserted, updated or deleted, as the server counts them.
    std::uint64_t affected() const noexcept { return affected_; }
    /// The number that the server generated for the last inserted row (SQLite, MariaDB). With
    /// PostgreSQL always 0: use INSERT … RETURNING.
    std::int64_t last_insert_id() const noexcept { return last_insert_id_; }

    // For connectors, which fill it.

    /// Shared by all rows.
    const std::shared_ptr<const column_names>& columns() const noexcept { return columns_; }
    /// Appends a row. Requires one value for each column.
    void add(std::vector<value> values) { rows_.emplace_back(columns_, std::move(values)); }
    /// Sets affected() and last_insert_id().
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

/// Copies of a statement's text and parameters, which an awaited statement needs until its end. The
/// awaited forms of connections take it by value and keep it. Move-only.
class bound_statement {
public:
    /// Copies the text, and the values that the parameters refer to.
    bound_statement(std::string_view text, std::span<const parameter> parameters);
    bound_statement(bound_statement&&) noexcept = default;
    bound_statement& operator=(bound_statement&&) noexcept = default;

    /// The copy of the text.
    const std::string& text() const noexcept { return text_; }
    /// Refer to the copies. They remain valid if this object is moved.
    std::span<const parameter> parameters() const noexcept { return parameters_; }

private:
    std::string text_;
    std::vector<std::string> texts_;  // what the parameters refer to; moves as a whole
    std::vector<parameter> parameters_;
};

/// An array of parameters, for functions that take a list. Refers to the arguments.
///
///     auto values = cenote::sql::bind(id, name);
///     connection.execute_bound("INSERT INTO customer VALUES (?, ?)", values);
template <class... Args>
std::array<parameter, sizeof...(Args)> bind(const Args&... args) {
    return {parameter(args)...};
}

}  // namespace cenote::sql
