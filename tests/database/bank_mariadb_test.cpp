// The bank on MariaDB.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "connector/mariadb_place.hpp"
#include "database/bank.hpp"

namespace cenote::bank {
namespace {

/// With room for abandoned sessions that have not ended yet.
support::mariadb_server& the_server() {
    static support::mariadb_server one({.max_connections = 150});
    return one;
}

std::uint64_t kill(database& with, bool all, dice& d) {
    constexpr int unknown = 1094;
    auto s = with.scope();
    auto there = s.query(
                      "SELECT id FROM information_schema.processlist WHERE user = 'app' "
                      "AND id <> connection_id()")
                     .as<std::int64_t>();
    if (!all && !there.empty()) there = {there[d() % there.size()]};
    std::uint64_t gone = 0;
    for (std::int64_t each : there) {
        try {
            s.execute("KILL " + std::to_string(each));
            ++gone;
        } catch (const statement_error& e) {
            if (e.code() != unknown) throw;
        }
    }
    return gone;
}

int busy() {
    return std::stoi(the_server().execute_as_admin(
        "select (select count(*) from information_schema.innodb_trx) + "
        "(select count(*) from information_schema.processlist "
        "where user = 'app' and command <> 'Sleep')",
        "mysql"));
}

TEST(bank_mariadb, adds_up_if_anything_is_killed_or_canceled) {
    do_business({.url = support::mariadb_url(the_server().port()),
                 .setting = "SET SESSION sql_mode = 'ANSI'",
                 .kill = kill,
                 .busy = busy});
}

}  // namespace
}  // namespace cenote::bank
