// Translates the placeholders of a statement into the form that its server understands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/sql.hpp"

namespace cenote::database_detail {

/// The SQL dialect of a server.
enum class dialect : std::uint8_t { sqlite, postgres, mariadb };

/// A statement and its values in a server's dialect. Placeholders are written `?`, in order, or
/// `$1`, `$2`, in any order and any number of times, but not both in one statement. Quoted text and
/// comments stay unchanged, and values never become text. Where `?` is translated (PostgreSQL),
/// `??` stands for the operator `?`.
///
/// If the values have names, placeholders are written `:name`, in any order and any number of
/// times. A colon after a name, a number or a bracket, `::` and `:=` are no placeholders.
///
/// Refers to the text and the values it was made of.
class placeholders {
public:
    /// Throws std::invalid_argument if the number of values or their names do not match.
    placeholders(dialect to, std::string_view text, std::span<const sql::parameter> values);
    placeholders(const placeholders&) = delete;
    placeholders& operator=(const placeholders&) = delete;
    ~placeholders() = default;

    std::string_view text() const noexcept { return text_; }
    std::span<const sql::parameter> values() const noexcept { return values_; }

private:
    void translate(dialect to);
    void translate_names(dialect to);

    std::string_view text_;
    std::span<const sql::parameter> values_;
    std::string translated_;
    std::vector<sql::parameter> reordered_;
};

}  // namespace cenote::database_detail
