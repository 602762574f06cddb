// Conversions of values, and the errors of those that do not fit.
#include "cenote/sql.hpp"

#include <algorithm>

namespace cenote::sql {

namespace detail {

void refuse_unsigned() {
    throw std::out_of_range(
        "cenote: an unsigned parameter is out of the range of a signed 64-bit integer");
}

void refuse_date() {
    throw std::out_of_range("cenote: a date parameter must be a day of the years 1 to 9999");
}

void refuse_named(std::span<const parameter> parameters) {
    for (const parameter& p : parameters)
        if (!p.name().empty())
            throw std::invalid_argument(
                "cenote: named parameters are for cenote::database; a connection takes values in "
                "the order of its server's placeholders");
}

void refuse_conversion(const char* from, const char* to) {
    throw bad_value(std::string("cenote: a value of type ") + from + " cannot be read as " + to);
}

}  // namespace detail

namespace {

constexpr int last_year = 9999;

template <class Time>
Time in_known_years(Time time) {
    auto day = std::chrono::floor<std::chrono::days>(time.time_since_epoch());
    constexpr std::chrono::sys_days first = std::chrono::year(1) / 1 / 1;
    constexpr std::chrono::sys_days end = std::chrono::year(last_year + 1) / 1 / 1;
    if (day < first.time_since_epoch() || day >= end.time_since_epoch()) detail::refuse_date();
    return time;
}

}  // namespace

std::chrono::sys_days parameter::checked(std::chrono::sys_days day) { return in_known_years(day); }
detail::local_microseconds parameter::checked(detail::local_microseconds time) {
    return in_known_years(time);
}
detail::sys_microseconds parameter::checked(detail::sys_microseconds time) {
    return in_known_years(time);
}
std::chrono::microseconds parameter::checked(std::chrono::microseconds time) {
    constexpr std::chrono::hours end{839};  // as MariaDB
    if (time <= -end || time >= end)
        throw std::out_of_range("cenote: a time parameter is longer than 838 hours");
    return time;
}

void parameter::refuse_enumerator() {
    throw std::out_of_range("cenote: an enumerator that enum_names lacks cannot be a parameter");
}

namespace {

struct owned {
    value::data operator()(std::monostate) const { return {}; }
    value::data operator()(bool b) const { return b; }
    value::data operator()(std::int64_t i) const { return i; }
    value::data operator()(double d) const { return d; }
    value::data operator()(std::string_view text) const { return std::string(text); }
    value::data operator()(std::span<const std::byte> octets) const {
        return sql::bytes(octets.begin(), octets.end());
    }
    value::data operator()(const detail::array_view& array) const {
        std::string text;
        array.write(text);
        return text;
    }
    value::data operator()(const auto& date_or_id) const {
        detail::text_buffer buffer{};
        return std::string(detail::text_of(date_or_id, buffer));
    }
};

}  // namespace

value value::of(const parameter& p) { return value(std::visit(owned{}, p.get())); }

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

cell value::as_cell() const noexcept {
    // Not std::visit, which may throw.
    if (const auto* is = std::get_if<bool>(&data_)) return cell(*is);
    if (const auto* number = std::get_if<std::int64_t>(&data_)) return cell(*number);
    if (const auto* number = std::get_if<double>(&data_)) return cell(*number);
    if (const auto* text = std::get_if<std::string>(&data_)) return cell(std::string_view(*text));
    if (const auto* octets = std::get_if<sql::bytes>(&data_))
        return cell(std::span<const std::byte>(*octets));
    return {};
}

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
    // A text and a name for each, so that no text moves.
    texts_.reserve(2 * parameters.size());
    parameters_.reserve(parameters.size());
    auto keep = [this](auto range) -> const std::string& {
        return texts_.emplace_back(range.begin(), range.end());
    };
    for (const parameter& p : parameters) {
        parameter copy = p;
        if (const auto* words = std::get_if<std::string_view>(&p.get())) {
            copy = std::string_view(keep(*words));
        } else if (const auto* octets = std::get_if<std::span<const std::byte>>(&p.get())) {
            const auto* first = reinterpret_cast<const char*>(octets->data());
            copy = std::as_bytes(std::span(keep(std::span(first, octets->size()))));
        } else if (const auto* array = std::get_if<detail::array_view>(&p.get())) {
            std::string& written = texts_.emplace_back();
            array->write(written);
            copy = parameter(detail::array_view(written.c_str()));
        }
        if (!p.name().empty()) copy = named_parameter(keep(p.name()), copy);
        parameters_.push_back(copy);
    }
}

}  // namespace cenote::sql
