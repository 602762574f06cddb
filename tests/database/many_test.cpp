// Many rows, batches and COPY of a database, a scope and a transaction, on every server.
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/database.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sqlite_file.hpp"
#include "database/canceling.hpp"
#include "database/forms.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::conformance {
namespace {

namespace asio = boost::asio;

struct postgres_place {
    static std::string url() { return support::postgres_url(); }
    static void kill_all() { support::the_postgres().kill_backends(); }
    static constexpr bool is_postgres = true;
};
struct mariadb_place {
    static std::string url() { return support::mariadb_url(); }
    static void kill_all() { support::mariadb_place::kill_all(); }
    static constexpr bool is_postgres = false;
};
struct sqlite_place {
    std::string url() const { return file.url(); }
    static constexpr bool is_postgres = false;
    support::sqlite_file file;
};

struct many_blocking : blocking {
    static auto many(auto& on, const char* text, auto&& rows, const sql::many_options& how = {}) {
        return on.execute_many(text, std::forward<decltype(rows)>(rows), how);
    }
    static auto batch(auto& on, const sql::batch& all, const sql::many_options& how = {}) {
        return on.execute(all, how);
    }
    static auto in(auto& on, const char* text) { return on.copy_in(text); }
    static auto out(auto& on, const char* text) { return on.copy_out(text); }
    static auto finish(sql::copy_in& of) { return of.finish(); }
    static auto next(sql::copy_out& of) { return of.next(); }
    using blocking::next;
};
struct many_awaited : awaited {
    static auto many(auto& on, const char* text, auto&& rows, const sql::many_options& how = {}) {
        return await_on(loop(0),
                        on.async_execute_many(text, std::forward<decltype(rows)>(rows), how));
    }
    static auto batch(auto& on, const sql::batch& all, const sql::many_options& how = {}) {
        return await_on(loop(0), on.async_execute(all, how));
    }
    static auto in(auto& on, const char* text) { return await_on(loop(0), on.async_copy_in(text)); }
    static auto out(auto& on, const char* text) {
        return await_on(loop(0), on.async_copy_out(text));
    }
    static auto finish(sql::copy_in& of) { return await_on(loop(0), of.async_finish()); }
    static auto next(sql::copy_out& of) { return await_on(loop(0), of.async_next()); }
    using awaited::next;
};

template <class Kind>
struct many : testing::Test {
    many() {
        db.execute("DROP TABLE IF EXISTS visit");
        db.execute("CREATE TABLE visit (id INTEGER PRIMARY KEY, page VARCHAR(100))");
    }
    std::int64_t count() {
        return db.query("SELECT count(*) FROM visit").template scalar<std::int64_t>();
    }
    static std::vector<std::pair<int, std::string>> rows(int size, int from = 0) {
        std::vector<std::pair<int, std::string>> all;
        for (int i = 0; i < size; ++i) all.emplace_back(from + i, "page " + std::to_string(i));
        return all;
    }
    static constexpr const char* insert = "INSERT INTO visit (id, page) VALUES (?, ?)";

    typename Kind::place at;
    database db{at.url(), {.pool = support::patient(3)}};
};
using kinds =
    testing::Types<kind<postgres_place, many_blocking>, kind<postgres_place, many_awaited>,
                   kind<mariadb_place, many_blocking>, kind<mariadb_place, many_awaited>,
                   kind<sqlite_place, many_blocking>, kind<sqlite_place, many_awaited>>;
TYPED_TEST_SUITE(many, kinds);

TYPED_TEST(many, takes_both_kinds_of_placeholders) {
    using form = typename TypeParam::form;
    EXPECT_EQ(form::many(this->db, this->insert, this->rows(1500)), 1500u);
    const char* reversed = "UPDATE visit SET page = $2 WHERE id = $1 AND $1 < 2000";
    EXPECT_EQ(form::many(this->db, reversed,
                         std::vector<std::pair<int, std::string>>{{3, "x"}, {4, "y"}, {5000, "z"}}),
              2u);
    EXPECT_EQ(
        this->db.query("SELECT page FROM visit WHERE id = ?", 4).template scalar<std::string>(),
        "y");
    EXPECT_EQ(form::many(this->db, this->insert, this->rows(0)), 0u);
    EXPECT_EQ(this->db.stats().leased, 0u);
    std::vector<std::vector<sql::parameter>> wrong{{1, 2}, {3}};
    try {
        form::many(this->db, reversed, wrong);
        ADD_FAILURE();
    } catch (const sql::batch_error& e) {
        EXPECT_EQ(e.index(), 1u);
    }
    std::vector<std::vector<sql::parameter>> all_wrong{{1}};
    // PostgreSQL itself refuses the row, since nothing has to be translated for it.
    if (this->at.is_postgres) {
        EXPECT_THROW(form::many(this->db, reversed, all_wrong), sql::batch_error);
    } else {
        EXPECT_THROW(form::many(this->db, reversed, all_wrong), std::invalid_argument);
    }
}

TYPED_TEST(many, is_part_of_its_scope_and_transaction) {
    using form = typename TypeParam::form;
    auto s = this->db.scope();
    EXPECT_EQ(form::many(s, this->insert, this->rows(10)), 10u);
    transaction t = form::begin(s);
    form::many(t, this->insert, this->rows(10, 100));
    sql::batch both;
    both.add(this->insert, 200, "a").add("DELETE FROM visit WHERE id = $1", 100);
    auto results = form::batch(t, both);
    EXPECT_EQ(results.at(1).affected(), 1u);
    EXPECT_EQ(this->count(), 10);
    form::commit(t);
    EXPECT_EQ(this->count(), 20);
    transaction undone = form::begin(this->db);
    form::many(undone, this->insert, this->rows(10, 300));
    form::rollback(undone);
    EXPECT_EQ(this->count(), 20);
    EXPECT_THROW(form::many(undone, this->insert, this->rows(1)), std::logic_error);
}

TYPED_TEST(many, names_what_was_refused) {
    using form = typename TypeParam::form;
    auto wrong = this->rows(1500);
    wrong[1234].first = 0;
    for (bool atomic : {true, false}) {
        try {
            form::many(this->db, this->insert, wrong, {.atomic = atomic});
            ADD_FAILURE();
        } catch (const sql::batch_error& e) {
            EXPECT_EQ(e.index(), 1234u);
            EXPECT_EQ(e.kind(), error_kind::statement);
        }
        EXPECT_EQ(this->count(), atomic ? 0 : 1499);
    }
    transaction t = form::begin(this->db);
    sql::batch two;
    two.add("SELECT 1").add(this->insert, 0, "again");
    try {
        form::batch(t, two);
        ADD_FAILURE();
    } catch (const sql::batch_error& e) {
        EXPECT_EQ(e.index(), 1u);
    }
    if (this->at.is_postgres) {
        EXPECT_THROW(form::run(t, "SELECT 1"), statement_error);
    } else {
        EXPECT_EQ(form::run(t, "SELECT 1").size(), 1u);
    }
    form::rollback(t);
    EXPECT_EQ(this->db.stats().leased, 0u);
}

TYPED_TEST(many, copies_in_and_out) {
    using form = typename TypeParam::form;
    if constexpr (!TypeParam::place::is_postgres) {
        EXPECT_THROW(form::in(this->db, "COPY visit FROM STDIN"), statement_error);
        EXPECT_THROW(form::out(this->db, "COPY visit TO STDOUT"), statement_error);
        EXPECT_EQ(this->db.stats().leased, 0u);
    } else {
        auto s = this->db.scope();
        transaction t = form::begin(s);
        sql::copy_in rows = form::in(t, "COPY visit FROM STDIN");
        for (auto& [id, page] : this->rows(5000)) rows.write_row(id, page);
        EXPECT_THROW(form::run(t, "SELECT 1"), std::logic_error);
        EXPECT_THROW(form::commit(t), std::logic_error);
        EXPECT_EQ(form::finish(rows), 5000u);
        EXPECT_EQ(this->count(), 0);
        form::commit(t);
        EXPECT_EQ(this->count(), 5000);
        sql::copy_out all = form::out(this->db, "COPY visit TO STDOUT");
        EXPECT_EQ(this->db.stats().leased, 2u);
        std::size_t bytes = 0;
        while (auto some = form::next(all)) bytes += some->size();
        EXPECT_GT(bytes, 50'000u);
        EXPECT_EQ(this->db.stats().leased, 1u);
        // An error fails the transaction; an abandoned COPY loses it.
        transaction failing = form::begin(this->db);
        sql::copy_in again = form::in(failing, "COPY visit FROM STDIN");
        again.write_row(1, "again");
        EXPECT_THROW(form::finish(again), statement_error);
        EXPECT_THROW(form::commit(failing), statement_error);
        form::rollback(failing);
        {
            sql::copy_in left = form::in(this->db, "COPY visit FROM STDIN");
            left.write_row(9999, "left");
        }
        EXPECT_EQ(this->count(), 5000);
        EXPECT_EQ(this->db.stats().leased, 1u);
    }
}

/// Rows that take effect only together, whenever the server ends the connection.
TYPED_TEST(many, takes_effect_as_a_whole_when_connections_are_killed) {
    using form = typename TypeParam::form;
    if constexpr (requires { this->at.kill_all(); }) {
        std::atomic<bool> over{false};
        std::atomic<int> tried{0};
        std::thread killer([&] {
            while (!over) {
                this->at.kill_all();
                // Connections that open slowly may do their work before the next kill.
                const int before = tried;
                support::eventually([&] { return over || tried > before; });
            }
        });
        int done = 0;
        for (int i = 0; i < 60; ++i) {
            try {
                form::many(this->db, this->insert, this->rows(700, i * 700));
                ++done;
            } catch (const server_error&) {
            } catch (const pool_error&) {
            }
            ++tried;
        }
        over = true;
        killer.join();
        database fresh{this->at.url(), {.pool = support::patient(1)}};
        auto found = fresh.query("SELECT count(*) FROM visit").template scalar<std::int64_t>();
        EXPECT_EQ(found % 700, 0);
        EXPECT_GE(found, 700 * done);
    }
}

template <class Place>
asio::awaitable<void> insert_and_more(database* in, std::vector<std::pair<int, std::string>>* rows,
                                      std::vector<int>* ids) {
    co_await in->async_execute_many("INSERT INTO visit (id, page) VALUES (?, ?)", *rows);
    sql::batch both;
    both.add("UPDATE visit SET page = 'a' WHERE id = 1");
    both.add("UPDATE visit SET page = 'a' WHERE id = 2");
    co_await in->async_execute(both);
    co_await in->async_execute_many("DELETE FROM visit WHERE id = ?", *ids);
}

/// At every step of the loop.
TYPED_TEST(many, takes_effect_as_a_whole_whenever_it_is_canceled) {
    if (std::is_same_v<typename TypeParam::form, many_blocking>) return;
    database one{this->at.url(), {.pool = support::patient(1)}};
    constexpr int too_many = 3000;
    int steps = 1;
    for (bool went_on = true; went_on && steps < too_many; ++steps) {
        SCOPED_TRACE(steps);
        // Each time other rows: a canceled statement may still run in the server.
        const int first = steps * 3000;
        auto all = this->rows(2500, first);
        std::vector<int> ids;
        for (auto& [id, page] : all) ids.push_back(id);
        went_on =
            canceled_after(steps, insert_and_more<typename TypeParam::place>(&one, &all, &ids))
                .has_value();
        EXPECT_EQ(one.query("SELECT CAST(? AS INTEGER)", steps).template scalar<int>(), steps);
        EXPECT_EQ(one.stats().leased, 0u);
        const char* text = "SELECT count(*) FROM visit WHERE id >= ? AND id < ?";
        auto now = this->db.query(text, first, first + 3000).template scalar<int>();
        EXPECT_TRUE(now == 0 || now == 2500) << now;
    }
    EXPECT_GT(steps, 5);
    EXPECT_LT(steps, too_many);
}

/// With completion tokens.
TYPED_TEST(many, completes_tokens) {
    asio::io_context& io = loop(0);
    io.restart();
    auto all = this->rows(3);
    auto token = asio::bind_executor(io, asio::use_future);
    auto first = this->db.async_execute_many(this->insert, all, token);
    io.run();
    EXPECT_EQ(first.get(), 3u);
    io.restart();
    auto second = this->db.async_execute(sql::batch().add("SELECT 7"), token);
    io.run();
    EXPECT_EQ(second.get().at(0).template scalar<int>(), 7);
}

}  // namespace
}  // namespace cenote::conformance
