// The values of many rows, column by column, for MariaDB's bulk execution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mysql.h>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cenote/sql_many.hpp"

namespace cenote::mariadb::detail {

/// Takes rows from their source, in chunks that fit into one message. The values of a column have
/// one type in a message, so a chunk also ends where a type changes.
class bulk_rows {
public:
    /// `utc`: see session::in_utc.
    bulk_rows(sql::detail::value_source& from, std::size_t chunk, bool utc);

    /// Looks at the next row. False: the rows have ended. Throws std::invalid_argument for values
    /// that MariaDB has no type for.
    bool pull();
    /// Of the row that pull() has found. Taken by the next collect(), or by drop().
    std::span<const sql::parameter> values() const noexcept { return values_; }
    void drop() noexcept;
    /// The index of that row.
    std::size_t index() const noexcept { return index_; }

    /// Takes the row, and all that fit. Throws batch_error if the row has another number of values.
    void collect(std::size_t columns);
    /// How many rows were collected.
    std::size_t size() const noexcept { return size_; }
    /// Binds some of these. Refers to this object.
    void bind(MYSQL_STMT* to, std::size_t first, std::size_t last);

private:
    static constexpr std::size_t max_bytes = std::size_t{1} << 20U;

    struct column {
        std::size_t type = 0;  // the index of parameter::data; 0: only nulls so far
        std::vector<char> indicators;
        std::vector<signed char> bools;
        std::vector<std::int64_t> numbers;
        std::vector<double> reals;
        std::vector<std::size_t> offsets;  // of texts
        std::vector<const char*> texts;
        std::vector<unsigned long> lengths;

        void clear();
        MYSQL_BIND place(std::size_t first);
    };
    struct adder;

    bool fits() const noexcept;
    void add();

    sql::detail::value_source& from_;
    std::size_t chunk_;
    bool utc_;
    std::vector<sql::parameter> values_;
    bool has_row_ = false;
    bool over_ = false;
    std::size_t index_ = 0;
    std::vector<column> columns_;
    std::string texts_;
    std::size_t size_ = 0;
    std::size_t bytes_ = 0;
    std::vector<MYSQL_BIND> places_;
};

/// Whether a statement inserts one row for each row of values, so that it is undone as a whole when
/// one of them is refused, and the server tells which.
bool inserts_row_by_row(std::string_view text) noexcept;

}  // namespace cenote::mariadb::detail
