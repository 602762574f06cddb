// Which column each field of a row type is read from, and the errors of those that do not fit.
#include "cenote/sql_rows.hpp"

#include <algorithm>

namespace cenote::sql::detail {

namespace {

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

/// `column 3 "balance" (numeric)`.
std::string description_of(const column_info& c, std::size_t index) {
    std::string text = "column " + std::to_string(index) + " " + quoted(c.name);
    if (!c.type_name.empty()) text += " (" + std::string(c.type_name) + ")";
    return text;
}

[[noreturn]] void refuse_columns(const std::string& why, std::optional<std::size_t> column = {}) {
    throw bad_value("cenote: " + why, column, std::nullopt);
}

std::size_t find_column(std::span<const column_info> columns, std::string_view name) {
    auto has_name = [&](const column_info& c) { return c.name == name; };
    auto found = std::ranges::find_if(columns, has_name);
    if (found == columns.end()) refuse_columns("no column is named " + quoted(name));
    const auto index = static_cast<std::size_t>(found - columns.begin());
    if (std::any_of(found + 1, columns.end(), has_name))
        refuse_columns("more than one column is named " + quoted(name), index);
    return index;
}

}  // namespace

void row_fields::begin(std::span<const column_info> columns, std::span<const field_info> fields,
                       std::span<const std::string_view> names, std::span<std::size_t> from) {
    described_.clear();
    for (std::size_t i = 0; i < names.size(); ++i) from[i] = find_column(columns, names[i]);
    if (names.empty() && columns.size() != fields.size())
        refuse_columns("a result with " + std::to_string(columns.size()) +
                       " columns cannot be read as rows of " + std::to_string(fields.size()) +
                       " values");
    for (std::size_t i = 0; i < columns.size(); ++i) {
        described_.push_back(description_of(columns[i], i));
        if (!names.empty() && std::ranges::find(names, columns[i].name) == names.end())
            refuse_columns(described_.back() + " is not a column of the type of the rows", i);
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const std::size_t at = names.empty() ? i : from[i];
        if (!fields[i].accepts(columns[at]))
            refuse_columns(described_[at] + " does not fit " + std::string(fields[i].type), at);
    }
}

void row_fields::refuse(std::size_t column, std::size_t row, std::string_view type) const {
    try {
        throw;
    } catch (const bad_value& why) {
        std::string_view reason = why.what();
        constexpr std::string_view prefix = "cenote: ";
        if (reason.starts_with(prefix)) reason.remove_prefix(prefix.size());
        throw bad_value("cenote: row " + std::to_string(row) + ", " + described_.at(column) +
                            " does not fit " + std::string(type) + ": " + std::string(reason),
                        column, row);
    }
}

}  // namespace cenote::sql::detail
