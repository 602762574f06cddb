// Conversions of values, and the errors of those that do not fit.
#include "cenote/sql.hpp"

#include <algorithm>

namespace cenote::sql {

namespace detail {

void refuse_unsigned() {
    throw std::out_of_range(
        "cenote: an unsigned parameter is out of the range of a signed 64-bit integer");
}

void refuse_conversion(const char* from, const char* to) {
    throw bad_value(std::string("cenote: a value of type ") + from + " cannot be read as " + to);
}

}  // namespace detail

namespace {

const char* name_of(const value::data& data) {
    constexpr std::array<const char*, std::variant_size_v<value::data>> names{
        "null", "bool", "integer", "floating point", "text", "bytes"};
    return names[data.index()];
}

template <class T>
const T& as_exactly(const value::data& data, const char* wanted) {
    if (const T* got = std::get_if<T>(&data)) return *got;
    detail::refuse_conversion(name_of(data), wanted);
}

}  // namespace

value value::of(const parameter& p) {
    struct owned {
        data operator()(std::monostate) const { return {}; }
        data operator()(bool b) const { return b; }
        data operator()(std::int64_t i) const { return i; }
        data operator()(double d) const { return d; }
        data operator()(std::string_view text) const { return std::string(text); }
        data operator()(std::span<const std::byte> octets) const {
            return sql::bytes(octets.begin(), octets.end());
        }
    };
    return value(std::visit(owned{}, p.get()));
}

parameter value::bound() const {
    struct view {
        parameter operator()(std::monostate) const { return nullptr; }
        parameter operator()(bool b) const { return b; }
        parameter operator()(std::int64_t i) const { return i; }
        parameter operator()(double d) const { return d; }
        parameter operator()(const std::string& text) const { return text; }
        parameter operator()(const sql::bytes& octets) const { return octets; }
    };
    return std::visit(view{}, data_);
}

bool value::as_bool() const {
    if (const auto* number = std::get_if<std::int64_t>(&data_); number != nullptr)
        if (*number == 0 || *number == 1) return *number == 1;
    return as_exactly<bool>(data_, "bool");
}

std::int64_t value::as_integer() const { return as_exactly<std::int64_t>(data_, "integer"); }

double value::as_double() const {
    if (const auto* whole = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*whole);
    return as_exactly<double>(data_, "floating point");
}

const std::string& value::as_text() const { return as_exactly<std::string>(data_, "text"); }

const sql::bytes& value::as_bytes() const { return as_exactly<sql::bytes>(data_, "bytes"); }

const value& row::operator[](std::size_t column) const {
    if (column < values_.size()) return values_[column];
    throw std::out_of_range("cenote: there is no column " + std::to_string(column) +
                            ": the row has " + std::to_string(values_.size()) + " columns");
}

const value& row::operator[](std::string_view column) const {
    auto found = std::ranges::find(*columns_, column);
    if (found != columns_->end())
        return (*this)[static_cast<std::size_t>(found - columns_->begin())];
    throw std::out_of_range("cenote: no column is named \"" + std::string(column) + "\"");
}

void row::expect_columns(std::size_t count) const {
    if (count == values_.size()) return;
    throw bad_value("cenote: a row with " + std::to_string(values_.size()) +
                    " columns cannot be read as " + std::to_string(count) + " values");
}

const row& result::one() const {
    if (rows_.size() == 1) return rows_.front();
    throw bad_value("cenote: expected one row, the result has " + std::to_string(rows_.size()));
}

bound_statement::bound_statement(std::string_view text, std::span<const parameter> parameters)
    : text_(text) {
    values_.reserve(parameters.size());
    for (const parameter& p : parameters) values_.push_back(value::of(p));
    parameters_.reserve(values_.size());
    for (const value& v : values_) parameters_.push_back(v.bound());
}

}  // namespace cenote::sql
