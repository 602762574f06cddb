// What a database does: one suite for all servers and both forms of each call.
//
// A place has: url(), `name_of` a connection as the server knows it, kill_all(); see the tests that
// include this. Each test runs twice, with the blocking forms and with the awaited ones.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/database.hpp"
#include "cenote/error.hpp"
#include "cenote/url.hpp"
#include "database/forms.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::conformance {

using support::eventually;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Kind>
struct any_database : testing::Test {
    any_database() {
        db.execute("DROP TABLE IF EXISTS account");
        db.execute(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, owner VARCHAR(100), "
            "balance BIGINT NOT NULL)");
        for (int i = 1; i <= 3; ++i)
            db.execute("INSERT INTO account VALUES (?, ?, ?)", i, "owner " + std::to_string(i),
                       100 * i);
    }

    std::int64_t balance(int id) {
        return db.query("SELECT balance FROM account WHERE id = ?", id)
            .template scalar<std::int64_t>();
    }
    std::size_t leased() { return db.stats().leased; }
    static void set(auto& on, int id, int balance) {
        Kind::form::run(on, "UPDATE account SET balance = ? WHERE id = ?", balance, id);
    }

    typename Kind::place at;
    database db{at.url(), {.pool = support::patient(4)}};
};
TYPED_TEST_SUITE_P(any_database);

TYPED_TEST_P(any_database, takes_values_in_either_style) {
    using form = typename TypeParam::form;
    database& all = this->db;
    auto by_marks =
        form::run(all, "SELECT owner FROM account WHERE id = ? AND balance = ?", 2, 200);
    EXPECT_EQ(by_marks.template scalar<std::string>(), "owner 2");
    auto by_numbers = form::run(
        all, "SELECT owner FROM account WHERE balance = $2 AND id = $1 AND balance > $1", 3, 300);
    EXPECT_EQ(by_numbers.template scalar<std::string>(), "owner 3");
    std::string hostile = "'; DROP TABLE account; -- ?";
    EXPECT_EQ(form::run(all, "UPDATE account SET owner = ? WHERE id = ?", hostile, 1).affected(),
              1u);
    EXPECT_EQ(
        form::run(all, "SELECT owner FROM account WHERE id = $1", 1).template scalar<std::string>(),
        hostile);
}

TYPED_TEST_P(any_database, gives_rows_as_what_they_are) {
    using form = typename TypeParam::form;
    auto found = form::run(this->db, "SELECT id, owner FROM account ORDER BY id");
    std::vector<std::string> seen;
    for (auto [id, owner] : found.template as<std::int64_t, std::string>())
        seen.push_back(std::to_string(id) + owner);
    EXPECT_THAT(seen, ElementsAre("1owner 1", "2owner 2", "3owner 3"));
    auto one = form::run(this->db, "SELECT id, owner FROM account WHERE id = ?", 2);
    EXPECT_EQ((one.template at_most_one<int, std::string>()), std::make_tuple(2, "owner 2"));
    auto none = form::run(this->db, "SELECT id, owner FROM account WHERE id = ?", 9);
    EXPECT_EQ((none.template at_most_one<int, std::string>()), std::nullopt);
    EXPECT_THROW((found.template at_most_one<int, std::string>()), sql::bad_value);
    EXPECT_THROW(found.template as<std::int64_t>(), sql::bad_value);
}

TYPED_TEST_P(any_database, keeps_a_transaction_from_others_until_it_is_committed) {
    using form = typename TypeParam::form;
    transaction t = form::begin(this->db);
    this->set(t, 1, 5);
    EXPECT_EQ(this->balance(1), 100);
    EXPECT_TRUE(t.active());
    form::commit(t);
    EXPECT_FALSE(t.active());
    EXPECT_EQ(this->balance(1), 5);
    EXPECT_EQ(this->leased(), 0u);
    EXPECT_THROW(form::run(t, "SELECT 1"), std::logic_error);
    EXPECT_THROW(form::commit(t), std::logic_error);
}

TYPED_TEST_P(any_database, rolls_back_what_was_not_committed) {
    using form = typename TypeParam::form;
    {
        transaction t = form::begin(this->db);
        this->set(t, 1, 5);
    }
    EXPECT_EQ(this->balance(1), 100);
    transaction t = form::begin(this->db);
    this->set(t, 1, 6);
    form::rollback(t);
    EXPECT_EQ(this->balance(1), 100);
    // Also within a scope that is used afterwards.
    auto s = this->db.scope();
    {
        transaction in = form::begin(s);
        this->set(in, 1, 7);
    }
    this->set(s, 2, 8);
    EXPECT_EQ(this->balance(1), 100);
    EXPECT_EQ(this->balance(2), 8);
}

TYPED_TEST_P(any_database, commits_what_a_function_did_and_undoes_what_it_did_not_finish) {
    using form = typename TypeParam::form;
    int sum = form::in_transaction(this->db, [&](transaction& t) {
        this->set(t, 1, 1);
        this->set(t, 2, 2);
        return 3;
    });
    EXPECT_EQ(sum, 3);
    EXPECT_EQ(this->balance(1) + this->balance(2), 3);
    auto failing = [&](transaction& t) {
        this->set(t, 1, 99);
        throw std::range_error("mine");
    };
    EXPECT_THROW(form::in_transaction(this->db, failing), std::range_error);
    EXPECT_EQ(this->balance(1), 1);
    EXPECT_EQ(this->leased(), 0u);
}

TYPED_TEST_P(any_database, undoes_only_the_inner_of_two_transactions) {
    using form = typename TypeParam::form;
    transaction t = form::begin(this->db);
    this->set(t, 1, 1);
    {
        transaction inner = form::begin(t);
        this->set(inner, 1, 2);
        EXPECT_THROW(form::commit(t), std::logic_error);
        transaction innermost = form::begin(inner);
        this->set(innermost, 2, 2);
        form::commit(innermost);
        form::rollback(inner);
    }
    {
        transaction left = form::begin(t);
        this->set(left, 3, 3);
    }
    {
        transaction good = form::begin(t);
        this->set(good, 2, 4);
        form::commit(good);
    }
    form::commit(t);
    EXPECT_EQ(this->balance(1), 1);
    EXPECT_EQ(this->balance(2), 4);
    EXPECT_EQ(this->balance(3), 300);
}

TYPED_TEST_P(any_database, runs_nothing_in_the_wrong_transaction) {
    using form = typename TypeParam::form;
    auto s = this->db.scope();
    {
        transaction outer = form::begin(s);
        transaction inner = form::begin(outer);
        EXPECT_THROW(this->set(outer, 1, 5), std::logic_error);
        EXPECT_THROW(form::rollback(outer), std::logic_error);
        this->set(inner, 1, 6);
        outer = std::move(inner);  // which ends the outer one, and all that is in it
        EXPECT_THROW(this->set(outer, 1, 7), std::logic_error);
    }
    this->set(s, 2, 8);
    EXPECT_EQ(this->balance(1), 100);
    EXPECT_EQ(this->balance(2), 8);
    transaction stale = form::begin(s);
    {
        transaction ends = std::move(stale);
    }
    transaction next = form::begin(s);
    EXPECT_FALSE(stale.active());
    EXPECT_THROW(this->set(stale, 1, 9), std::logic_error);
    EXPECT_THROW(std::ignore = form::begin(s), std::logic_error);
    this->set(next, 1, 10);
    form::commit(next);
    EXPECT_EQ(this->balance(1), 10);
}

TYPED_TEST_P(any_database, ends_no_transaction_in_the_middle_of_rows) {
    using form = typename TypeParam::form;
    auto s = this->db.scope();
    transaction t = form::begin(s);
    this->set(t, 1, 5);
    sql::cursor rows = form::stream(t, "SELECT id FROM account ORDER BY id");
    EXPECT_THROW(form::commit(t), std::logic_error);
    EXPECT_THROW(form::rollback(t), std::logic_error);
    EXPECT_THROW(std::ignore = form::begin(t), std::logic_error);
    EXPECT_TRUE(t.active());
    while (form::next(rows)) {
    }
    form::rollback(t);
    this->set(s, 2, 6);
    EXPECT_EQ(this->balance(1), 100);
    EXPECT_EQ(this->balance(2), 6);
    // Abandoned, it is rolled back as soon as the server accepts a statement.
    {
        transaction left = form::begin(s);
        this->set(left, 1, 7);
        rows = form::stream(left, "SELECT id FROM account ORDER BY id");
    }
    EXPECT_THROW(this->set(s, 3, 8), std::logic_error);
    while (form::next(rows)) {
    }
    this->set(s, 3, 9);
    EXPECT_EQ(this->balance(1), 100);
    EXPECT_EQ(this->balance(3), 9);
}

/// SQLite could, but a program that relied on that would work with no other server.
TYPED_TEST_P(any_database, runs_no_statement_in_the_middle_of_rows) {
    using form = typename TypeParam::form;
    auto refused = [](auto statement) {
        try {
            statement();
            FAIL() << "ran in the middle of rows";
        } catch (const std::logic_error& e) {
            EXPECT_THAT(e.what(), HasSubstr("a cursor of this scope or transaction has rows left"));
        }
    };
    auto s = this->db.scope();
    auto refuses_all = [&](auto& on) {
        sql::cursor rows = form::stream(on, "SELECT id FROM account ORDER BY id");
        for (int i = 1; i <= 3; ++i) {
            refused([&] { form::run(on, "SELECT 1"); });
            refused([&] { form::stream(on, "SELECT 1"); });
            refused([&] { std::ignore = form::begin(on); });
            EXPECT_EQ(form::next(rows)->template get<int>(0), i);
        }
        EXPECT_EQ(form::next(rows), std::nullopt);
        EXPECT_EQ(form::run(on, "SELECT 1").template scalar<int>(), 1);
    };
    refuses_all(s);
    transaction t = form::begin(s);
    refuses_all(t);
    form::commit(t);
    // Each statement of the database itself has a connection of its own.
    sql::cursor rows = form::stream(this->db, "SELECT id FROM account");
    EXPECT_EQ(form::run(this->db, "SELECT 1").template scalar<int>(), 1);
}

TYPED_TEST_P(any_database, begins_no_transaction_within_one_of_plain_sql) {
    using form = typename TypeParam::form;
    auto s = this->db.scope();
    form::run(s, "BEGIN");
    this->set(s, 1, 5);
    EXPECT_THROW(std::ignore = form::begin(s), std::logic_error);
    form::run(s, "COMMIT");
    EXPECT_EQ(this->balance(1), 5);
}

TYPED_TEST_P(any_database, has_one_connection_for_a_scope_and_takes_it_when_it_is_used) {
    using form = typename TypeParam::form;
    auto s = this->db.scope();
    EXPECT_FALSE(s.has_connection());
    EXPECT_EQ(this->leased(), 0u);
    form::run(s, "CREATE TEMPORARY TABLE mine (n INTEGER)");
    EXPECT_TRUE(s.has_connection());
    EXPECT_EQ(this->leased(), 1u);
    form::run(s, "INSERT INTO mine VALUES (?)", 7);
    EXPECT_EQ(form::run(s, "SELECT n FROM mine").template scalar<int>(), 7);
    EXPECT_EQ(this->leased(), 1u);
}

TYPED_TEST_P(any_database, leaves_nothing_of_a_scope_to_the_next) {
    using form = typename TypeParam::form;
    database one{this->at.url(), {.pool = support::patient(1)}};
    {
        auto s = one.scope();
        form::run(s, "CREATE TEMPORARY TABLE mine (n INTEGER)");
        form::run(s, "BEGIN");
        this->set(s, 1, 5);
    }
    EXPECT_THROW(form::run(one, "SELECT n FROM mine"), statement_error);
    EXPECT_EQ(this->balance(1), 100);
    for (const char* unseen : {this->at.setting, this->at.lock}) {
        auto s = one.scope();
        form::run(s, unseen);
    }
    EXPECT_TRUE(eventually([&] {
        database other{this->at.url()};
        return form::run(other, this->at.try_lock).template scalar<int>() == 1;
    }));
    EXPECT_NE(form::run(one, this->at.what_is_set).template scalar<std::string>(), this->at.value);
}

TYPED_TEST_P(any_database, keeps_the_connection_of_rows_until_their_end) {
    using form = typename TypeParam::form;
    sql::cursor rows;
    {
        auto s = this->db.scope();
        rows = form::stream(s, "SELECT id FROM account WHERE id <= ? ORDER BY id", 2);
    }
    EXPECT_EQ(this->leased(), 1u);
    EXPECT_EQ(form::next(rows)->template get<int>(0), 1);
    EXPECT_EQ(form::next(rows)->template get<int>(0), 2);
    EXPECT_EQ(form::next(rows), std::nullopt);
    EXPECT_EQ(this->leased(), 0u);
    EXPECT_EQ(form::next(rows), std::nullopt);
    {
        sql::cursor left = form::stream(this->db, "SELECT id FROM account");
        EXPECT_EQ(this->leased(), 1u);
    }
    EXPECT_EQ(this->leased(), 0u);
    EXPECT_EQ(this->balance(1), 100);
}

TYPED_TEST_P(any_database, holds_at_most_one_connection_however_often_it_fails) {
    using form = typename TypeParam::form;
    database one{this->at.url(), {.pool = support::patient(1)}};
    auto s = one.scope();
    for (int i = 0; i < 20; ++i) EXPECT_THROW(form::run(s, "SELECT nonsense"), statement_error);
    EXPECT_EQ(one.stats().leased, 1u);
    EXPECT_EQ(form::run(s, "SELECT 1").template scalar<int>(), 1);
    auto moved = std::move(s);
    {
        auto ends = std::move(moved);
    }
    for (int i = 0; i < 20; ++i) {
        EXPECT_THROW(form::run(one, "SELECT nonsense"), statement_error);
        EXPECT_THROW(form::stream(one, "SELECT nonsense"), statement_error);
    }
    EXPECT_EQ(one.stats().leased, 0u);
    EXPECT_EQ(one.stats().opened, 1u);
}

TYPED_TEST_P(any_database, never_commits_what_has_failed) {
    using form = typename TypeParam::form;
    transaction t = form::begin(this->db);
    this->set(t, 1, 5);
    EXPECT_THROW(form::run(t, "INSERT INTO account VALUES (?, ?, ?)", 1, "twice", 0),
                 statement_error);
    if (this->at.fails_as_a_whole) {
        EXPECT_THROW(form::commit(t), statement_error);
        EXPECT_TRUE(t.active());
        form::rollback(t);
        EXPECT_EQ(this->balance(1), 100);
    } else {
        form::commit(t);
        EXPECT_EQ(this->balance(1), 5);
    }
}

TYPED_TEST_P(any_database, lets_a_transaction_write_only_if_it_may) {
    using form = typename TypeParam::form;
    auto s = this->db.scope();
    {
        transaction t = form::begin(s, transaction_options{.read_only = true});
        EXPECT_EQ(form::run(t, "SELECT balance FROM account WHERE id = 1").template scalar<int>(),
                  100);
        EXPECT_THROW(this->set(t, 1, 5), statement_error);
    }
    EXPECT_TRUE(s.has_connection());
    this->set(s, 1, 6);
    EXPECT_EQ(this->balance(1), 6);
    for (isolation level : {isolation::read_committed, isolation::repeatable_read,
                            isolation::serializable, isolation::server_default}) {
        transaction t = form::begin(s, transaction_options{.isolation = level});
        this->set(t, 1, 7);
        form::commit(t);
    }
    EXPECT_EQ(this->balance(1), 7);
}

TYPED_TEST_P(any_database, tries_again_only_what_met_another_one) {
    using form = typename TypeParam::form;
    int calls = 0;
    auto meets = [&](transaction& t) {
        this->set(t, 1, 50 + ++calls);
        if (calls < 3) throw statement_error("another one was first", "40001");
        return calls;
    };
    transaction_options twice{.retries = 2, .backoff = std::chrono::milliseconds(1)};
    EXPECT_EQ(form::in_transaction(this->db, meets, twice), 3);
    EXPECT_EQ(this->balance(1), 53);
    calls = 0;
    EXPECT_THROW(form::in_transaction(this->db, meets), statement_error);
    EXPECT_EQ(calls, 1);
    calls = 0;
    auto wrong = [&](transaction&) {
        ++calls;
        throw statement_error("wrong", "42601");
    };
    EXPECT_THROW(form::in_transaction(this->db, wrong, twice), statement_error);
    EXPECT_EQ(calls, 1);
}

TYPED_TEST_P(any_database, may_end_in_any_order) {
    using form = typename TypeParam::form;
    std::optional<scope> s;
    std::optional<scope> unused;
    std::optional<transaction> t;
    sql::cursor rows;
    {
        database other{this->at.url(), {.pool = support::patient(4)}};
        s.emplace(other.scope());
        unused.emplace(other.scope());
        form::run(*s, "SELECT 1");
        t.emplace(form::begin(other));
        this->set(*t, 1, 5);
        rows = form::stream(other, "SELECT id FROM account");
    }
    EXPECT_TRUE(form::next(rows));
    EXPECT_EQ(form::run(*s, "SELECT 1").template scalar<int>(), 1);
    EXPECT_THROW(form::run(*unused, "SELECT 1"), closed_error);
    form::commit(*t);
    EXPECT_EQ(this->balance(1), 5);
    s.reset();
    t.reset();
}

TYPED_TEST_P(any_database, resets_what_a_statement_has_set) {
    using form = typename TypeParam::form;
    database one{this->at.url(), {.pool = support::patient(1)}};
    form::run(one, this->at.setting_seen);
    EXPECT_NE(form::run(one, this->at.what_is_seen).template scalar<std::string>(),
              this->at.value_seen);
    form::run(one, "CREATE TEMPORARY TABLE mine (n INTEGER)");
    EXPECT_THROW(form::run(one, "SELECT n FROM mine"), statement_error);
    form::run(one, "BEGIN");
    this->set(one, 1, 5);
    EXPECT_EQ(this->balance(1), 5);
}

TYPED_TEST_P(any_database, runs_one_statement_again_and_again) {
    using form = typename TypeParam::form;
    for (std::size_t kept : {0u, 1u, 100u}) {
        database one{this->at.url(), {.pool = support::patient(2), .statement_cache = kept}};
        for (int i = 1; i <= 30; ++i) {
            auto found = form::run(one, "SELECT owner FROM account WHERE id = ?", 1 + i % 3);
            EXPECT_EQ(found.template scalar<std::string>(), "owner " + std::to_string(1 + i % 3));
            this->set(one, 1, i);
        }
        EXPECT_EQ(this->balance(1), 30);
    }
}

TYPED_TEST_P(any_database, closes_what_a_scope_discards) {
    using form = typename TypeParam::form;
    database one{this->at.url(), {.pool = support::patient(1)}};
    {
        auto s = one.scope();
        s.discard_at_end();  // before there is anything
        form::run(s, "SELECT 1");
    }
    form::run(one, "SELECT 1");
    EXPECT_EQ(one.stats().opened, 2u);
}

TYPED_TEST_P(any_database, tells_completion_tokens) {
    database& all = this->db;
    boost::asio::io_context& io = loop(0);
    auto on_loop = [&](auto token) { return boost::asio::bind_executor(io, std::move(token)); };
    std::optional<int> got;
    all.async_query("SELECT balance FROM account WHERE id = ?", 2,
                    on_loop([&](std::exception_ptr e, sql::result r) {
                        if (!e) got = r.scalar<int>();
                    }));
    bool moved = false;
    all.async_execute("SELECT 1", on_loop([&, only_moved = std::make_unique<int>(1)](
                                              const std::exception_ptr& e, const sql::result&) {
                          moved = !e && *only_moved == 1;
                      }));
    auto failed = all.async_execute("SELECT nonsense", on_loop(boost::asio::use_future));
    sql::cursor rows = all.stream("SELECT balance FROM account ORDER BY id");
    auto first = rows.async_next(on_loop(boost::asio::use_future));
    io.restart();
    io.run();
    EXPECT_EQ(got, 200);
    EXPECT_TRUE(moved);
    EXPECT_THROW(failed.get(), statement_error);
    EXPECT_EQ(first.get()->template get<int>(0), 100);
}

TYPED_TEST_P(any_database, tells_completion_tokens_of_transactions) {
    database& all = this->db;
    boost::asio::io_context& io = loop(0);
    auto finish = [&](auto future) {
        io.restart();
        io.run();
        return future.get();
    };
    auto token = boost::asio::bind_executor(io, boost::asio::use_future);
    transaction t = finish(all.async_begin(token));
    this->set(t, 1, 5);
    transaction in = finish(t.async_begin(token));
    this->set(in, 1, 6);
    finish(in.async_rollback(token));
    finish(t.async_commit(token));
    EXPECT_EQ(this->balance(1), 5);
    auto s = all.scope();
    transaction reader = finish(s.async_begin({.read_only = true}, token));
    EXPECT_THROW(reader.execute("UPDATE account SET balance = 7"), statement_error);
    finish(reader.async_rollback(token));
    auto work = [](transaction& on) -> boost::asio::awaitable<int> {
        co_await on.async_execute("UPDATE account SET balance = 8 WHERE id = 1");
        co_return 9;
    };
    EXPECT_EQ(finish(all.async_transaction(work, token)), 9);
    EXPECT_EQ(this->balance(1), 8);
    auto fails = [](transaction& on) -> boost::asio::awaitable<void> {
        co_await on.async_execute("UPDATE account SET balance = 10 WHERE id = 1");
        throw std::range_error("mine");
    };
    EXPECT_THROW(finish(all.async_transaction(fails, {.retries = 1}, token)), std::range_error);
    EXPECT_EQ(this->balance(1), 8);
}

/// With callbacks the handle often ends right after the last call.
TYPED_TEST_P(any_database, ends_a_transaction_whose_handle_is_gone) {
    database& all = this->db;
    boost::asio::io_context& io = loop(0);
    auto token = boost::asio::bind_executor(io, boost::asio::use_future);
    auto finish = [&](auto& future) {
        io.restart();
        io.run();
        return future.get();
    };
    auto last_words = [&](auto end) {
        transaction t = all.begin();
        this->set(t, 1, 5);
        return end(t);
    };
    auto undone = last_words([&](transaction& t) { return t.async_rollback(token); });
    finish(undone);
    EXPECT_EQ(this->balance(1), 100);
    auto done = last_words([&](transaction& t) { return t.async_commit(token); });
    finish(done);
    EXPECT_EQ(this->balance(1), 5);
    EXPECT_EQ(this->leased(), 0u);
    // One that has ended reports that to the handler, not to the caller.
    transaction ended = all.begin();
    ended.rollback();
    auto refused = ended.async_execute("SELECT 1", token);
    EXPECT_THROW(finish(refused), std::logic_error);
    auto no_commit = ended.async_commit(token);
    EXPECT_THROW(finish(no_commit), std::logic_error);
    auto no_begin = ended.async_begin(token);
    EXPECT_THROW(finish(no_begin), std::logic_error);
}

TYPED_TEST_P(any_database, writes_nothing_in_a_scope_that_only_reads) {
    using form = typename TypeParam::form;
    database one{this->at.url(), {.pool = support::patient(1)}};
    {
        auto s = one.scope({.read_only = true});
        EXPECT_FALSE(s.has_connection());
        auto refuses = [&](auto& on) {
            EXPECT_THROW(this->set(on, 1, 5), statement_error);
            EXPECT_EQ(one.stats().leased, 1u);
        };
        refuses(s);
        {
            transaction t = form::begin(s);
            EXPECT_EQ(
                form::run(t, "SELECT balance FROM account WHERE id = 2").template scalar<int>(),
                200);
            refuses(t);
        }
        refuses(s);
        transaction t = form::begin(s, transaction_options{.isolation = isolation::serializable});
        form::commit(t);
        refuses(s);
        EXPECT_EQ(form::run(s, "SELECT balance FROM account WHERE id = 1").template scalar<int>(),
                  100);
    }
    // The next user of the connection can write.
    this->set(one, 1, 5);
    EXPECT_EQ(this->balance(1), 5);
    EXPECT_EQ(one.stats().opened, 1u);
}

TYPED_TEST_P(any_database, can_do_with_one_connection) {
    using form = typename TypeParam::form;
    database one = database::direct(this->at.url(), {.pool = support::patient(1)});
    EXPECT_EQ(one.stats().opened, 1u);
    this->set(one, 1, 5);
    auto twice = [&](transaction& t) {
        this->set(t, 2, 6);
        transaction in = form::begin(t);
        this->set(in, 3, 7);
        form::commit(in);
    };
    form::in_transaction(one, twice);
    {
        auto s = one.scope();
        form::run(s, this->at.setting);
        auto rows = form::stream(s, "SELECT balance FROM account ORDER BY id");
        EXPECT_EQ(form::next(rows)->template as<int>(), 5);
    }
    EXPECT_NE(form::run(one, this->at.what_is_set).template scalar<std::string>(), this->at.value);
    EXPECT_EQ(this->balance(2) + this->balance(3), 13);
    EXPECT_EQ(one.stats().max, 1u);
}

REGISTER_TYPED_TEST_SUITE_P(
    any_database, tells_completion_tokens_of_transactions, ends_a_transaction_whose_handle_is_gone,
    writes_nothing_in_a_scope_that_only_reads, can_do_with_one_connection,
    takes_values_in_either_style, gives_rows_as_what_they_are,
    keeps_a_transaction_from_others_until_it_is_committed, rolls_back_what_was_not_committed,
    commits_what_a_function_did_and_undoes_what_it_did_not_finish,
    undoes_only_the_inner_of_two_transactions,
    has_one_connection_for_a_scope_and_takes_it_when_it_is_used,
    leaves_nothing_of_a_scope_to_the_next, keeps_the_connection_of_rows_until_their_end,
    holds_at_most_one_connection_however_often_it_fails, never_commits_what_has_failed,
    lets_a_transaction_write_only_if_it_may, tries_again_only_what_met_another_one,
    may_end_in_any_order, runs_nothing_in_the_wrong_transaction,
    ends_no_transaction_in_the_middle_of_rows, runs_no_statement_in_the_middle_of_rows,
    begins_no_transaction_within_one_of_plain_sql, resets_what_a_statement_has_set,
    runs_one_statement_again_and_again, closes_what_a_scope_discards, tells_completion_tokens);

}  // namespace cenote::conformance
