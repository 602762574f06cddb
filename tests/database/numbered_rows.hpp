// Rows with a number and a text that belong together, on each server: a test sees whether rows are
// whole, in order and from its own statement. A statement can be made to stop at a row.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sqlite_file.hpp"
#include "database/as_new.hpp"
#include "database/forms.hpp"

namespace rows {

/// Counts how many were read, by all statements.
struct number {
    std::int64_t value = 0;

    static std::atomic<std::int64_t>& read() {
        static std::atomic<std::int64_t> all{0};
        return all;
    }
    bool operator==(const number&) const = default;
};

struct line {
    number n;
    std::string text;
};

}  // namespace rows

template <>
struct cenote::sql::codec<rows::number> {
    static constexpr bool accepts(const column_info&) { return true; }
    static rows::number read(const cell& c) {
        rows::number made{c.integer()};
        ++rows::number::read();
        return made;
    }
};

namespace cenote::conformance {

constexpr int length_of_text = 40;

/// Whether these are the first rows of a statement.
inline testing::AssertionResult are_first_rows(const std::vector<rows::line>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto n = static_cast<std::int64_t>(i) + 1;
        std::string text = std::to_string(n);
        text.resize(length_of_text, ' ');
        if (all[i].n.value != n || all[i].text != text)
            return testing::AssertionFailure()
                   << "row " << i << " is " << all[i].n.value << " '" << all[i].text << "'";
    }
    return testing::AssertionSuccess();
}

// A place has
// - url(parameters);
// - series(n): a statement that returns the first n rows;
// - stuck_at(k): one that returns the rows before k, stops there until the test ends it, and would
//   return `stuck_rows` rows in all;
// - is_stuck(k): whether it has come to that row. For servers, asked as an administrator;
// - keeps_session: whether a canceled statement leaves the connection usable;
// - kill_all() and go_on(), which lets the next run of stuck_at() pass, only for servers.

constexpr int stuck_rows = 1000;

struct postgres_rows_place {
    static constexpr bool keeps_session = false;

    postgres_rows_place() {
        support::the_postgres().execute_as_admin(
            "create table if not exists pace (seconds int); truncate pace; insert into pace values "
            "(600); grant select on pace to app");
    }
    static std::string url(const std::string& parameters = {}) {
        return support::postgres_url(parameters);
    }
    static std::uint16_t port() { return support::the_postgres().port(); }
    static std::string url_at(std::uint16_t port) { return support::postgres_url(port); }
    static std::string series(int n) {
        return "SELECT n, rpad(n::text, 40) AS t FROM (SELECT generate_series(1, " +
               std::to_string(n) + ") AS n) s";
    }
    static std::string stuck_at(int k) {
        return series(stuck_rows) + " WHERE CASE WHEN n = " + std::to_string(k) +
               " THEN pg_sleep((SELECT seconds FROM pace)) IS NOT NULL ELSE true END";
    }
    static bool is_stuck(int) {
        return support::the_postgres().execute_as_admin(
                   "select 1 from pg_stat_activity where wait_event = 'PgSleep'") != "";
    }
    static void go_on() { support::the_postgres().execute_as_admin("update pace set seconds = 0"); }
    static void kill_all() { support::the_postgres().kill_backends(); }
};

struct mariadb_rows_place {
    static constexpr bool keeps_session = false;

    mariadb_rows_place() {
        support::the_mariadb().execute_as_admin(
            "create table if not exists pace (seconds int); delete from pace; insert into pace "
            "values (600)");
    }
    static std::string url(const std::string& parameters = {}) {
        return support::mariadb_url(parameters);
    }
    static std::uint16_t port() { return support::the_mariadb().port(); }
    static std::string url_at(std::uint16_t port) { return support::mariadb_url(port); }
    static std::string series(int n) {
        return "SELECT seq AS n, rpad(seq, 40, ' ') AS t FROM seq_1_to_" + std::to_string(n);
    }
    static std::string stuck_at(int k) {
        return series(stuck_rows) + " WHERE if(seq = " + std::to_string(k) +
               ", sleep((SELECT seconds FROM pace)), 1) IS NOT NULL";
    }
    static bool is_stuck(int) {
        return support::the_mariadb().execute_as_admin(
                   "select 1 from information_schema.processlist where state = 'User sleep'") != "";
    }
    static void go_on() { support::the_mariadb().execute_as_admin("update pace set seconds = 0"); }
    static void kill_all() { support::mariadb_place::kill_all(); }
};

struct sqlite_rows_place {
    static constexpr bool keeps_session = true;

    std::string url(const std::string& parameters = {}) const {
        return file.url(parameters.empty() ? "" : "?" + parameters);
    }
    static std::string series(int n) {
        return "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < " +
               std::to_string(n) + ") SELECT n, printf('%-40d', n) AS t FROM c";
    }
    /// Counts on for ever.
    static std::string stuck_at(int k) {
        return "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n, "
               "printf('%-40d', n) AS t FROM c WHERE n < " +
               std::to_string(k);
    }
    static bool is_stuck(int k) { return rows::number::read() == k - 1; }

    support::sqlite_file file;
};

/// What a statement has returned until it ended.
struct read_rows {
    std::vector<rows::line> all;
    bool ended = false;  ///< Not by an exception.
};

/// Reads the rows in both ways: `streams` or all at once.
template <class Form>
void read_into(read_rows& to, auto& on, const std::string& text, bool streams) {
    if (streams) {
        auto cursor = Form::template stream_as<rows::line>(on, text);
        while (auto row = Form::next(cursor)) to.all.push_back(*std::move(row));
    } else {
        to.all = Form::template query_as<rows::line>(on, text);
    }
    to.ended = true;
}

}  // namespace cenote::conformance
