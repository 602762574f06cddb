// The kinds of servers that this build of cenote::database has a part for.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <variant>

#include "cenote/mariadb.hpp"
#include "cenote/postgres.hpp"
#include "cenote/sqlite.hpp"
#include "database/placeholders.hpp"

namespace cenote::database_detail {

struct sqlite_kind {
    using options = sqlite::options;
    using connector = sqlite::connector;
    using connection = sqlite::connection;
    static constexpr dialect speaks = dialect::sqlite;
    static constexpr const char* left_out =
        "cenote: this build of cenote::database has no part for SQLite: configure cenote with "
        "CENOTE_SQLITE=ON (Debian package libsqlite3-dev)";
};

struct postgres_kind {
    using options = postgres::options;
    using connector = postgres::connector;
    using connection = postgres::connection;
    static constexpr dialect speaks = dialect::postgres;
    static constexpr const char* left_out =
        "cenote: this build of cenote::database has no part for PostgreSQL: configure cenote with "
        "CENOTE_POSTGRES=ON (Debian package libpq-dev)";
};

struct mariadb_kind {
    using options = mariadb::options;
    using connector = mariadb::connector;
    using connection = mariadb::connection;
    static constexpr dialect speaks = dialect::mariadb;
    static constexpr const char* left_out =
        "cenote: this build of cenote::database has no part for MariaDB: configure cenote with "
        "CENOTE_MARIADB=ON (Debian packages libmariadb-dev and libssl-dev)";
};

template <class... Kinds>
struct kind_list {
    using connector = std::variant<typename Kinds::connector...>;
    using connection = std::variant<typename Kinds::connection...>;
    /// Of the alternatives of both variants.
    static constexpr std::array dialects{Kinds::speaks...};
    template <class Kind>
    static constexpr bool has = (std::same_as<Kind, Kinds> || ...);
};

/// src/CMakeLists.txt defines the list. Code of other kinds is not instantiated, so that their
/// libraries need not be linked.
using kinds = kind_list<CENOTE_DATABASE_KINDS>;

/// Calls `verb` with the index of a variant's alternative as a constant. (std::visit may throw.)
template <std::size_t First = 0, class Verb>
auto with_index(std::size_t index, Verb verb) {
    if constexpr (First + 1 < kinds::dialects.size())
        if (index != First) return with_index<First + 1>(index, verb);
    return verb(std::integral_constant<std::size_t, First>{});
}

}  // namespace cenote::database_detail
