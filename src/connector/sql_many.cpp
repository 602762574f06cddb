// Batches and their errors; rows in the text format of COPY.
#include "cenote/sql_many.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>

namespace cenote::sql {

namespace {

std::string text_of(const server_error& why, std::size_t index) {
    return std::string(why.what()) + " (index " + std::to_string(index) + ")";
}

}  // namespace

batch_error::batch_error(const server_error& why, std::size_t index,
                         std::shared_ptr<const std::vector<std::size_t>> failed)
    : statement_error(text_of(why, index), why.sqlstate(), why.code()),
      index_(index),
      failed_(std::move(failed)) {}

batch::batch(const batch& other) {
    statements_.reserve(other.size());
    for (const bound_statement& each : other.statements_)
        statements_.emplace_back(each.text(), each.parameters());
}

batch& batch::operator=(const batch& other) {
    if (this != &other) *this = batch(other);
    return *this;
}

namespace {

/// Appends a value in the text format of COPY.
struct copy_field {
    std::string* to;

    void operator()(std::monostate) const { *to += "\\N"; }
    void operator()(bool b) const { *to += b ? 't' : 'f'; }
    void operator()(std::int64_t i) const { number(i); }
    void operator()(double d) const {
        if (std::isnan(d)) *to += "NaN";
        else if (std::isinf(d)) *to += d > 0 ? "Infinity" : "-Infinity";
        else number(d);
    }
    void operator()(std::string_view text) const {
        for (char c : text) {
            switch (c) {
                case '\0':
                    throw std::invalid_argument(
                        "cenote: a value of COPY has a zero byte, which PostgreSQL does not accept "
                        "in text");
                case '\\': *to += "\\\\"; break;
                case '\t': *to += "\\t"; break;
                case '\n': *to += "\\n"; break;
                case '\r': *to += "\\r"; break;
                default: *to += c;
            }
        }
    }
    void operator()(std::span<const std::byte> octets) const {
        constexpr std::string_view digits = "0123456789abcdef";
        *to += "\\\\x";
        for (std::byte each : octets) {
            *to += digits[std::to_integer<unsigned>(each) >> 4U];
            *to += digits[std::to_integer<unsigned>(each) & 15U];
        }
    }

    void operator()(const detail::array_view& array) const {
        std::string text;
        array.write(text);
        (*this)(std::string_view(text));
    }
    void operator()(const auto& date_or_id) const {
        detail::text_buffer buffer{};
        *to += detail::text_of(date_or_id, buffer);
    }

private:
    void number(auto n) const {
        std::array<char, 32> all{};
        auto [end, error] = std::to_chars(all.data(), all.data() + all.size(), n);
        to->append(all.data(), end);
    }
};

}  // namespace

void detail::append_copy_row(std::string& to, std::span<const parameter> values) {
    const std::size_t before = to.size();
    try {
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (i > 0) to += '\t';
            std::visit(copy_field{&to}, values[i].get());
        }
        to += '\n';
    } catch (...) {
        to.resize(before);
        throw;
    }
}

detail::copy_writer& copy_in::own() const {
    if (writer_ == nullptr) throw std::logic_error("cenote: there is no COPY to write to");
    return *writer_;
}

bool copy_in::collect(std::string_view octets) {
    std::string& all = own().collected;
    all += octets;
    return all.size() >= detail::copy_writer::enough;
}

bool copy_in::collect_row(std::span<const parameter> values) {
    if (own().is_binary())
        throw std::logic_error("cenote: write_row writes text, and this COPY is binary: use write");
    detail::append_copy_row(writer_->collected, values);
    return writer_->collected.size() >= detail::copy_writer::enough;
}

boost::asio::awaitable<void> copy_in::flushed(std::shared_ptr<detail::copy_writer> by) {
    if (by->collected.size() >= detail::copy_writer::enough) co_await by->async_flush();
}

boost::asio::awaitable<std::uint64_t> copy_in::finished(std::shared_ptr<detail::copy_writer> by) {
    std::uint64_t rows = co_await by->async_finish();
    co_return rows;
}

boost::asio::awaitable<std::optional<std::string_view>> copy_out::awaited_next(
    std::shared_ptr<detail::copy_reader> by) {
    if (by == nullptr) co_return std::nullopt;
    std::optional<std::string_view> got = co_await by->async_next();
    co_return got;
}

}  // namespace cenote::sql
