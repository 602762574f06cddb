// execute_many and batches on connections of every kind, blocking and awaited, for suites that are
// written once.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/sql_many.hpp"
#include "cenote/sqlite.hpp"
#include "connector/awaiting.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sqlite_file.hpp"

namespace cenote::many_test {

using support::await;

struct sqlite_place {
    using connection = sqlite::connection;
    using connector = sqlite::connector;
    std::string url(const std::string& parameters = {}) const { return file.url(parameters); }
    support::sqlite_file file;
};
struct postgres_place : support::postgres_place {};
struct mariadb_place : support::mariadb_place {};

struct blocking {
    static auto many(auto& on, const char* text, auto&& rows, const sql::many_options& how = {}) {
        return on.execute_many(text, std::forward<decltype(rows)>(rows), how);
    }
    static auto run(auto& on, const sql::batch& all, const sql::many_options& how = {}) {
        return on.execute(all, how);
    }
};
struct awaited {
    static auto many(auto& on, const char* text, auto&& rows, const sql::many_options& how = {}) {
        return await(on.async_execute_many(text, std::forward<decltype(rows)>(rows), how));
    }
    static auto run(auto& on, const sql::batch& all, const sql::many_options& how = {}) {
        return await(on.async_execute(all, how));
    }
};

template <class Place, class Form>
struct kind {
    using place = Place;
    using form = Form;
};

/// A table `many`, and a connection.
template <class Kind>
struct with_table : testing::Test {
    static constexpr bool is_postgres = std::is_same_v<typename Kind::place, postgres_place>;
    static constexpr const char* insert = is_postgres
                                              ? "INSERT INTO many (id, name) VALUES ($1, $2)"
                                              : "INSERT INTO many (id, name) VALUES (?, ?)";

    with_table() {
        c.execute("DROP TABLE IF EXISTS many");
        c.execute(
            "CREATE TABLE many (id INTEGER PRIMARY KEY, name VARCHAR(300), n INTEGER DEFAULT 0, "
            "CHECK (n < 100))");
    }
    std::int64_t count() {
        return c.execute("SELECT count(*) FROM many").template scalar<std::int64_t>();
    }

    typename Kind::place at;
    typename Kind::place::connector to{at.url()};
    typename Kind::place::connection c = to.open();
};

}  // namespace cenote::many_test
