// A statement as its server wants it: places for values are written in one way for all servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/sql.hpp"

namespace cenote::database_detail {

/// What a server understands.
enum class dialect : std::uint8_t { sqlite, postgres, mariadb };

/// A statement and its values. Places may be written `?`, in order, or `$1`, `$2`, in any order and
/// as often as one likes; not both in one statement. What is in quotes or comments stays as it is,
/// and values never become text. Where `?` is translated (PostgreSQL), `??` is a question mark that
/// is meant: some operators have one.
///
/// Refers to what it was made of.
class phrase {
public:
    /// Throws std::invalid_argument if places and values do not go together.
    phrase(dialect to, std::string_view text, std::span<const sql::parameter> values);
    phrase(const phrase&) = delete;
    phrase& operator=(const phrase&) = delete;
    ~phrase() = default;

    /// The server understands what was written.
    bool is_unchanged() const noexcept { return translated_.empty(); }
    std::string_view text() const noexcept { return text_; }
    std::span<const sql::parameter> values() const noexcept { return values_; }

private:
    class translation;

    void number_places(dialect to);
    void name_places(dialect to);
    void one_after_the_other(dialect to);

    std::string_view text_;
    std::span<const sql::parameter> values_;
    std::string translated_;
    std::vector<sql::parameter> arranged_;
};

}  // namespace cenote::database_detail
