// The bank on SQLite, whose connections cannot be killed. Canceled statements are interrupted.
#include <string>

#include <gtest/gtest.h>

#include "connector/sqlite_file.hpp"
#include "database/bank.hpp"

namespace cenote::bank {
namespace {

/// Whether a connection still writes, or reads an old snapshot.
int busy(const support::sqlite_file& file) {
    database own{file.url("?busy_timeout=0s"), {.pool = {.max = 1}}};
    try {
        own.transaction([](transaction&) {});
        return own.query("PRAGMA wal_checkpoint(TRUNCATE)")[0].get<int>(0);
    } catch (const statement_error&) {
        return 1;
    }
}

TEST(bank_sqlite, adds_up_if_anything_is_canceled) {
    support::sqlite_file file;
    do_business({.url = file.url("?busy_timeout=300s&synchronous=off"),
                 .setting = "PRAGMA cache_size = 77",
                 .busy = [&] { return busy(file); }});
}

}  // namespace
}  // namespace cenote::bank
