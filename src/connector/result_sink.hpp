// How a connector gives the rows of a statement: as an sql::result, or into a sink of the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cenote/sql.hpp"
#include "cenote/sql_rows.hpp"

namespace cenote::connector_detail {

/// The values of a row, which own their content.
std::vector<sql::value> values_of(std::span<const sql::cell> cells);
/// The names of the columns.
std::shared_ptr<const sql::column_names> names_of(std::span<const sql::column_info> columns);

/// Collects all rows of a statement.
class result_sink final : public sql::row_sink {
public:
    /// Throws what a row has thrown: no memory.
    sql::result take() {
        rethrow();
        return std::move(result_);
    }
    std::size_t bytes_per_row(std::size_t columns) const noexcept override {
        return sizeof(sql::row) + columns * sizeof(sql::value);
    }

private:
    void take_columns(std::span<const sql::column_info> columns, std::size_t rows) override;
    void take_row(std::span<const sql::cell> cells) override { result_.add(values_of(cells)); }
    void take_affected(std::uint64_t rows, std::int64_t last_id) noexcept override {
        result_.note_affected(rows, last_id);
    }

    sql::result result_;
};

// What an operation gives its rows to, and what it returns: a part of the operation.

class into_result {
public:
    using outcome = sql::result;
    sql::row_sink& sink() noexcept { return sink_; }
    sql::result take() { return sink_.take(); }

private:
    result_sink sink_;
};

/// The caller of a blocking operation keeps the sink.
class into_sink {
public:
    using outcome = void;
    explicit into_sink(sql::row_sink* to) noexcept : to_(to) {}
    sql::row_sink& sink() const noexcept { return *to_; }
    void take() const noexcept {}

private:
    sql::row_sink* to_;
};

class into_kept_sink {
public:
    using outcome = void;
    explicit into_kept_sink(std::shared_ptr<sql::row_sink> to) noexcept : to_(std::move(to)) {}
    sql::row_sink& sink() const noexcept { return *to_; }
    void take() const noexcept {}

private:
    std::shared_ptr<sql::row_sink> to_;
};

/// The next row of a cursor, on its own.
class next_row final : public sql::row_sink {
public:
    std::optional<sql::row> take() {
        rethrow();
        return std::exchange(row_, std::nullopt);
    }
    std::size_t bytes_per_row(std::size_t) const noexcept override { return 0; }

private:
    void take_columns(std::span<const sql::column_info> columns, std::size_t) override {
        names_ = names_of(columns);
    }
    void take_row(std::span<const sql::cell> cells) override {
        row_.emplace(names_, values_of(cells));
    }

    std::shared_ptr<const sql::column_names> names_;
    std::optional<sql::row> row_;
};

}  // namespace cenote::connector_detail
