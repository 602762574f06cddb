// Rows as types of the user: aggregates, tuples, single values, and classes with a list of columns.
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/detail/fields.hpp"
#include "cenote/sql_codec.hpp"

namespace cenote::sql {

/// A column of a class and the member that it is read into; see columns.
template <class Class, class Member>
struct column {
    std::string_view name;   ///< As the server spells it.
    Member Class::* member;  ///< Must be accessible.
};
template <class Class, class Member>
column(std::string_view, Member Class::*) -> column<Class, Member>;
template <class Class, class Member, std::size_t Size>
column(const char (&)[Size], Member Class::*) -> column<Class, Member>;

/// The columns of a class, by name. Specialize it for a class that is no aggregate, or whose fields
/// have other names. The class must be default-constructible.
///
///     template <>
///     inline constexpr auto cenote::sql::columns<account> =
///         std::tuple{cenote::sql::column{"id", &account::id},
///                    cenote::sql::column{"owner", &account::owner}};
template <class T>
inline constexpr std::nullptr_t columns = nullptr;

/// Receives the rows of a statement one by one, without an sql::row for each. The base of what
/// query_as fills. It keeps the first exception of its derived class: the statement runs to its
/// end, so that its connection remains usable, and then the exception is thrown.
///
/// Thread safety: one thread at a time. An awaited statement of SQLite calls it on a work thread.
class row_sink {
public:
    row_sink() = default;
    row_sink(const row_sink&) = delete;
    row_sink& operator=(const row_sink&) = delete;
    virtual ~row_sink() = default;

    // For connectors.

    /// The statement has run. Drops all rows: a statement may run twice. `rows`: how many will
    /// come, 0 if unknown.
    void begin(std::span<const column_info> columns, std::size_t rows) noexcept {
        failure_ = nullptr;
        count_ = 0;
        begun_ = true;
        try {
            take_columns(columns, rows);
        } catch (...) {
            failure_ = std::current_exception();
            begun_ = false;
        }
    }
    /// Requires as many cells as columns. Ignores rows after an exception.
    void row(std::span<const cell> cells) noexcept {
        if (failure_ != nullptr) [[unlikely]]
            return;
        try {
            take_row(cells);
        } catch (...) {
            failure_ = std::current_exception();
        }
        ++count_;
    }
    /// What the statement did, besides its rows.
    void note_affected(std::uint64_t rows, std::int64_t last_id) noexcept {
        take_affected(rows, last_id);
    }
    /// The memory that it keeps for each row of `columns` columns, besides texts and bytes. Counts
    /// towards max_reply_bytes.
    virtual std::size_t bytes_per_row(std::size_t columns) const noexcept = 0;
    /// Whether begin() has succeeded.
    bool begun() const noexcept { return begun_; }

    /// Throws what a call of the derived class has thrown, once.
    void rethrow() {
        if (failure_ != nullptr) [[unlikely]]
            std::rethrow_exception(std::exchange(failure_, nullptr));
    }

protected:
    /// The index of the present row, from 0.
    std::size_t count() const noexcept { return count_; }

private:
    virtual void take_columns(std::span<const column_info> columns, std::size_t rows) = 0;
    virtual void take_row(std::span<const cell> cells) = 0;
    virtual void take_affected(std::uint64_t /*rows*/, std::int64_t /*last_id*/) noexcept {}

    std::exception_ptr failure_;
    std::size_t count_ = 0;
    bool begun_ = false;
};

namespace detail {

template <class T>
constexpr bool is_tuple = false;
template <class... Ts>
constexpr bool is_tuple<std::tuple<Ts...>> = true;
template <class First, class Second>
constexpr bool is_tuple<std::pair<First, Second>> = true;

template <class T>
concept has_columns = !std::same_as<std::remove_cvref_t<decltype(columns<T>)>, std::nullptr_t>;
template <class T>
concept has_column_names = requires { T::column_names.size(); };

/// For messages.
template <class T>
constexpr std::string_view type_name() {
    std::string_view all = __PRETTY_FUNCTION__;
    all.remove_prefix(all.find("T = ") + 4);
    return all.substr(0, all.find_first_of(";]"));
}
template <class T>
constexpr std::string_view name_of_type = [] {
    if constexpr (is_optional<T>) return name_of_type<typename T::value_type>;
    else if constexpr (std::same_as<T, std::string>) return std::string_view("std::string");
    else if constexpr (std::same_as<T, bytes>) return std::string_view("cenote::sql::bytes");
    else if constexpr (std::same_as<T, std::int64_t>) return std::string_view("std::int64_t");
    else if constexpr (std::same_as<T, std::uint64_t>) return std::string_view("std::uint64_t");
    else if constexpr (std::same_as<T, std::chrono::sys_days>)
        return std::string_view("std::chrono::sys_days");
    else return type_name<T>();
}();

/// A column for messages, and what it is read into.
struct field_info {
    std::string_view type;  // of C++
    bool (*accepts)(const column_info&);
};

/// Which column each field is read from, and what is said of a value that does not fit.
class row_fields {
public:
    /// Throws bad_value if the columns and the fields do not fit together. `names`: of the fields;
    /// empty: by position.
    void begin(std::span<const column_info> columns, std::span<const field_info> fields,
               std::span<const std::string_view> names, std::span<std::size_t> from);
    /// Rethrows the bad_value that is being handled, with the place of the value.
    [[noreturn]] void refuse(std::size_t column, std::size_t row, std::string_view type) const;

private:
    std::vector<std::string> described_;  // the columns
};

/// What a T is made of: the types of its fields, their names, and how it is made of them.
template <class T>
struct row_shape {
    static_assert(std::is_aggregate_v<T>,
                  "cenote: a row cannot be read as this type: it is no aggregate, and neither "
                  "cenote::sql::columns nor cenote::sql::codec is specialized for it");
    static_assert(!has_base<T>,
                  "cenote: the fields of a struct with a base class cannot be found: specialize "
                  "cenote::sql::columns for it");
    static_assert(!has_array<T>(),
                  "cenote: a struct with a C array cannot be read from a row: use std::vector");
    static_assert(count_initializers<T>() > 0 && count_initializers<T>() <= max_fields,
                  "cenote: a struct for a row must have 1 to 64 fields");
    using fields = fields_of<T>;
    static constexpr std::size_t size = std::tuple_size_v<fields>;
    static constexpr auto names = [] {
        if constexpr (has_column_names<T>) {
            static_assert(T::column_names.size() == size,
                          "cenote: column_names must have one name for each field");
            std::array<std::string_view, size> all;
            for (std::size_t i = 0; i < size; ++i) all[i] = T::column_names[i];
            return all;
        } else {
            return std::array<std::string_view, 0>();
        }
    }();
    template <class Read, std::size_t... I>
    static T make(Read read, std::index_sequence<I...>) {
        return T{read(field_count<I>())...};
    }
};

/// One value.
template <class T>
    requires(has_codec<T> && !has_columns<T>)
struct row_shape<T> {
    using fields = std::tuple<T>;
    static constexpr std::size_t size = 1;
    static constexpr std::array<std::string_view, 0> names{};
    template <class Read, std::size_t... I>
    static T make(Read read, std::index_sequence<I...>) {
        return read(field_count<0>());
    }
};

template <class T>
    requires is_tuple<T>
struct row_shape<T> {
    static constexpr std::size_t size = std::tuple_size_v<T>;
    static_assert(size > 0, "cenote: an empty tuple cannot be read from a row");
    template <class Indices>
    struct elements;
    template <std::size_t... I>
    struct elements<std::index_sequence<I...>> {
        using type = std::tuple<std::tuple_element_t<I, T>...>;
    };
    using fields = typename elements<std::make_index_sequence<size>>::type;
    static constexpr std::array<std::string_view, 0> names{};
    template <class Read, std::size_t... I>
    static T make(Read read, std::index_sequence<I...>) {
        return T{read(field_count<I>())...};
    }
};

template <class T>
    requires has_columns<T>
struct row_shape<T> {
    using all = std::remove_cvref_t<decltype(columns<T>)>;
    static_assert(std::is_default_constructible_v<T>,
                  "cenote: a class with cenote::sql::columns must be default-constructible");
    static constexpr std::size_t size = std::tuple_size_v<all>;
    template <class Columns>
    struct member_types;
    template <class... Classes, class... Members>
    struct member_types<std::tuple<column<Classes, Members>...>> {
        using type = std::tuple<Members...>;
    };
    using fields = typename member_types<all>::type;
    static constexpr auto names = std::apply(
        [](const auto&... each) {
            return std::array<std::string_view, sizeof...(each)>{each.name...};
        },
        columns<T>);
    template <class Read, std::size_t... I>
    static T make(Read read, std::index_sequence<I...>) {
        T made{};
        ((made.*std::get<I>(columns<T>).member = read(field_count<I>())), ...);
        return made;
    }
};

template <class F>
constexpr bool check_field() {
    static_assert(has_codec<F>,
                  "cenote: a column cannot be read as the type of this field: specialize "
                  "cenote::sql::codec for it");
    return true;
}

/// Makes a T of each row.
template <class T>
class row_maker {
    using shape = row_shape<T>;
    using fields = typename shape::fields;
    template <std::size_t I>
    using field = std::tuple_element_t<I, fields>;
    using all = std::make_index_sequence<shape::size>;

public:
    void begin(std::span<const column_info> columns) {
        static constexpr auto infos = []<std::size_t... I>(std::index_sequence<I...>) {
            static_assert((check_field<field<I>>() && ...));
            return std::array<field_info, shape::size>{
                field_info{name_of_type<field<I>>, &accepts<field<I>>}...};
        }(all());
        fields_.begin(columns, infos, shape::names, from_);
    }
    T make(std::span<const cell> cells, std::size_t row) const {
        return shape::make(
            [&]<std::size_t I>(field_count<I>) -> field<I> {
                const std::size_t column = shape::names.empty() ? I : from_[I];
                try {
                    return read<field<I>>(cells[column]);
                } catch (const bad_value&) {
                    fields_.refuse(column, row, name_of_type<field<I>>);
                }
            },
            all());
    }

    static constexpr bool refers_to_row = []<std::size_t... I>(std::index_sequence<I...>) {
        return (detail::refers_to_row<field<I>> || ...);
    }(all());

private:
    row_fields fields_;
    std::array<std::size_t, shape::size> from_{};
};

/// Collects all rows.
template <class T>
class all_rows final : public row_sink {
    static_assert(!row_maker<T>::refers_to_row,
                  "cenote: a std::string_view or a std::span would outlive its row; use "
                  "std::string or cenote::sql::bytes, or read the rows with stream_as");

public:
    /// Throws what a row has thrown.
    std::vector<T> take() {
        rethrow();
        return std::move(rows_);
    }
    std::size_t bytes_per_row(std::size_t) const noexcept override { return sizeof(T); }

private:
    void take_columns(std::span<const column_info> columns, std::size_t rows) override {
        rows_.clear();
        rows_.reserve(rows);
        maker_.begin(columns);
    }
    void take_row(std::span<const cell> cells) override {
        rows_.push_back(maker_.make(cells, count()));
    }

    row_maker<T> maker_;
    std::vector<T> rows_;
};

/// Has one row at a time.
template <class T>
class one_row final : public row_sink {
public:
    /// The row that was read last; empty if there was none. Throws what it has thrown.
    std::optional<T> take() {
        rethrow();
        return std::exchange(row_, std::nullopt);
    }
    std::size_t bytes_per_row(std::size_t) const noexcept override { return 0; }

private:
    void take_columns(std::span<const column_info> columns, std::size_t) override {
        maker_.begin(columns);
    }
    void take_row(std::span<const cell> cells) override {
        row_.emplace(maker_.make(cells, count()));
    }

    row_maker<T> maker_;
    std::optional<T> row_;
};

}  // namespace detail

}  // namespace cenote::sql
