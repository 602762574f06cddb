// The bank on PostgreSQL.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "connector/postgres_place.hpp"
#include "database/bank.hpp"

namespace cenote::bank {
namespace {

/// With room for abandoned sessions that have not ended yet, and quick to detect a deadlock.
support::postgres_server& the_server() {
    static support::postgres_server one(
        {.max_connections = 80, .settings = "deadlock_timeout = '20ms'\n"});
    return one;
}

std::uint64_t kill(database& with, bool all, dice& d) {
    auto s = with.scope();
    std::vector<int> there = s.query(
                                  "SELECT pid FROM pg_stat_activity WHERE usename = 'app' "
                                  "AND pid <> pg_backend_pid()")
                                 .as<int>();
    if (!all && !there.empty()) there = {there[d() % there.size()]};
    std::uint64_t gone = 0;
    for (int each : there)
        if (s.query("SELECT pg_terminate_backend(?)", each).scalar<bool>()) ++gone;
    return gone;
}

int busy() {
    return std::stoi(
        the_server().execute_as_admin("select count(*) from pg_stat_activity where usename = 'app' "
                                      "and (xact_start is not null or state <> 'idle')"));
}

TEST(bank_postgres, adds_up_if_anything_is_killed_or_canceled) {
    do_business({.url = support::postgres_url(the_server().port()),
                 .setting = "SET application_name = 'changed'",
                 .kill = kill,
                 .busy = busy});
}

}  // namespace
}  // namespace cenote::bank
