// Cells as values that own their content.
#include "connector/result_sink.hpp"

namespace cenote::connector_detail {

namespace {

sql::value value_of(const sql::cell& c) {
    switch (c.kind()) {
        case sql::cell_kind::null: break;
        case sql::cell_kind::boolean: return sql::value(c.boolean());
        case sql::cell_kind::integer: return sql::value(c.integer());
        case sql::cell_kind::natural: return sql::value(std::to_string(c.natural()));
        case sql::cell_kind::real: return sql::value(c.real());
        case sql::cell_kind::text:
        case sql::cell_kind::moment: return sql::value(std::string(c.text()));
        case sql::cell_kind::bytes: {
            std::span<const std::byte> octets = c.octets();
            return sql::value(sql::bytes(octets.begin(), octets.end()));
        }
    }
    return {};
}

}  // namespace

std::vector<sql::value> values_of(std::span<const sql::cell> cells) {
    std::vector<sql::value> values;
    values.reserve(cells.size());
    for (const sql::cell& c : cells) values.push_back(value_of(c));
    return values;
}

std::shared_ptr<const sql::column_names> names_of(std::span<const sql::column_info> columns) {
    auto names = std::make_shared<sql::column_names>();
    names->reserve(columns.size());
    for (const sql::column_info& c : columns) names->emplace_back(c.name);
    return names;
}

void result_sink::take_columns(std::span<const sql::column_info> columns, std::size_t /*rows*/) {
    result_ = sql::result(names_of(columns));
}

}  // namespace cenote::connector_detail
