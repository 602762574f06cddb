// A database without a part for each server. tests/database/CMakeLists.txt compiles the handle for
// some of the servers and links no library of the others.
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/postgres.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sqlite.hpp"
#include "cenote/url.hpp"
#include "connector/sqlite_file.hpp"
#include "database/kinds.hpp"
#include "support/patient.hpp"

namespace cenote::database_detail {
namespace {

/// The text of the exception; empty if there was none.
template <class Error, class Where>
std::string refusal_of(const Where& where) {
    try {
        database opens_nothing_yet(where);
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

std::string refusal_of_url(const char* url) { return refusal_of<invalid_url>(std::string(url)); }

TEST(left_out, is_not_every_server) { EXPECT_LT(kinds::dialects.size(), 3U); }

TEST(left_out, url_is_refused_with_the_switch_and_the_package) {
    EXPECT_EQ(refusal_of_url("postgresql://app@db.invalid/orders"),
              kinds::has<postgres_kind>
                  ? ""
                  : "cenote: this build of cenote::database has no part for PostgreSQL: configure "
                    "cenote with CENOTE_POSTGRES=ON (Debian package libpq-dev)");
    EXPECT_EQ(refusal_of_url("mysql://app@db.invalid/orders"),
              kinds::has<mariadb_kind>
                  ? ""
                  : "cenote: this build of cenote::database has no part for MariaDB: configure "
                    "cenote with CENOTE_MARIADB=ON (Debian packages libmariadb-dev and "
                    "libssl-dev)");
    EXPECT_EQ(refusal_of_url("sqlite:orders?mode=memory").empty(), kinds::has<sqlite_kind>);
    EXPECT_NE(refusal_of_url("redis://db.invalid").find("must begin with"), std::string::npos);
}

/// Other options may be refused for other reasons.
template <class Options>
bool is_left_out(const Options& where) {
    std::string text = refusal_of<std::invalid_argument>(where);
    return text.starts_with("cenote: this build of cenote::database has no part for ");
}

TEST(left_out, options_are_refused) {
    EXPECT_NE(is_left_out(sqlite::options()), kinds::has<sqlite_kind>);
    EXPECT_NE(is_left_out(postgres::options()), kinds::has<postgres_kind>);
    EXPECT_NE(is_left_out(mariadb::options()), kinds::has<mariadb_kind>);
}

TEST(left_out, replica_of_another_kind_is_refused) {
    EXPECT_THROW(database("postgresql://db.invalid/a", replicas{{"sqlite:orders"}}), invalid_url);
}

TEST(left_out, others_work) {
    if constexpr (kinds::has<sqlite_kind>) {
        support::sqlite_file file;
        database db(file.url(), {.pool = support::patient(1)});
        db.execute("CREATE TABLE item(name TEXT)");
        db.transaction([](transaction& t) { t.execute("INSERT INTO item VALUES (?)", "lamp"); });
        auto read = db.begin({.read_only = true});
        EXPECT_EQ(read.query("SELECT name FROM item").scalar<std::string>(), "lamp");
        EXPECT_THROW(read.execute("DELETE FROM item"), statement_error);
    }
}

}  // namespace
}  // namespace cenote::database_detail
