// Values of SQL databases: parameters of statements, and rows and results that statements return.
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

/// A value for a placeholder of a statement: null, bool, integer, floating point, text or bytes.
/// Parameters are the only way for a value to get into a statement, so no value becomes SQL.
///
/// Arguments convert implicitly:
///
///     db.execute("INSERT INTO customer(id, name, born) VALUES (?, ?, ?)", 7, "Ada", nullptr);
///
/// nullptr, an empty std::optional and a null `const char*` are null. Text is std::string,
/// std::string_view or `const char*`, bytes are sql::bytes or a span of std::byte. All other types,
/// such as dates and decimals, are passed as text, with a cast in the statement if the server needs
/// one: `$1::date`.
///
/// Text and bytes are not copied: they must live until the statement has run. (A statement that is
/// awaited copies them when it is called.) Convert your own types at the call.
///
/// Thread safety: like a value of a built-in type.
class parameter {
public:
    /// One alternative for each type of value; monostate is null.
    using data = std::variant<std::monostate, bool, std::int64_t, double, std::string_view,
                              std::span<const std::byte>>;

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
    /// The value of the optional; null if it is empty. Refers to the content of the optional.
    template <class T>
    parameter(const std::optional<T>& maybe) {
        if (maybe) *this = parameter(*maybe);
    }

    /// The value as a variant, for code that handles each type.
    const data& get() const noexcept { return data_; }
    /// Whether it is null.
    bool is_null() const noexcept { return data_.index() == 0; }

private:
    data data_;
};
// g++ 12 destroys temporaries of other types twice in an expression with co_await.
static_assert(std::is_trivially_destructible_v<parameter>);

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

    /// The value as a T: bool, an integer or floating point type, std::string, std::string_view
    /// (valid as long as the row), sql::bytes, or std::optional of one of these, which is empty for
    /// null. Two conversions are made: an integer becomes floating point, and 0 or 1 becomes a
    /// bool. Throws bad_value for all others, for null without an optional, and for an integer out
    /// of the range of T.
    ///
    ///     auto born = row["born"].as<std::optional<std::string>>();
    template <class T>
    T as() const {
        if constexpr (detail::is_optional<T>) {
            if (is_null()) return std::nullopt;
            return as<typename T::value_type>();
        } else if constexpr (std::same_as<T, bool>) {
            return as_bool();
        } else if constexpr (detail::plain_integer<T>) {
            std::int64_t wide = as_integer();
            if (!std::in_range<T>(wide)) detail::refuse_conversion("integer", "a smaller integer");
            return static_cast<T>(wide);
        } else if constexpr (std::floating_point<T>) {
            return static_cast<T>(as_double());
        } else if constexpr (std::same_as<T, std::string> || std::same_as<T, std::string_view>) {
            return T(as_text());
        } else {
            static_assert(std::same_as<T, sql::bytes>,
                          "cenote: a value can be read as bool, a number, std::string, "
                          "std::string_view, cenote::sql::bytes, or std::optional of these");
            return as_bytes();
        }
    }

    /// A parameter with this value, for another statement. Refers to this value.
    parameter bound() const;

    /// Whether both have the same type and content. Null equals null.
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
    std::vector<value> values_;
    std::vector<parameter> parameters_;  // refer to values_, which moves as a whole
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
