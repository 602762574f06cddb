// What a cancellation does to its operation and to later users of the database (awaited forms
// only), and what an exception does to later users (both forms).
//
// A place also has: open() a database as the statement endless(n) needs it, and is_at() that
// statement; open_far_away() a database whose answers take time; for commits that take time:
// commit_url(), prepare_commits(), `hold_commits`, is_committing(); expect_usual() of a transaction
// with default options.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "database/as_new.hpp"
#include "database/canceling.hpp"
#include "database/conformance.hpp"

namespace cenote::conformance {

namespace asio = boost::asio;

// Operations to cancel.

inline asio::awaitable<void> ask(database* of, const char* text) { co_await of->async_query(text); }

inline asio::awaitable<void> ask_again(database* of, const char* text) {
    co_await of->async_query(idempotent, text);
}

inline asio::awaitable<void> ask_in_scope(database* of, const char* text) {
    scope s = of->scope();
    co_await s.async_query(text);
}

inline asio::awaitable<void> ask_for_rows(database* of, const char* text) {
    sql::cursor rows = co_await of->async_stream(text);
    co_await rows.async_next();
}

inline asio::awaitable<void> ask_scope(scope* of, const char* text) {
    co_await of->async_query(text);
}

inline asio::awaitable<void> ask_transaction(transaction* of, const char* text) {
    co_await of->async_query(text);
}

inline asio::awaitable<void> set_balances(transaction* in, int balance) {
    co_await in->async_execute("UPDATE account SET balance = ? WHERE id = 1", balance);
    co_await in->async_execute("UPDATE account SET balance = ? WHERE id = 2", balance);
}

inline asio::awaitable<void> change_and_ask(database* in, const char* text) {
    transaction t = co_await in->async_begin();
    co_await set_balances(&t, 5);
    co_await t.async_query(text);
}

inline asio::awaitable<void> change_within_and_ask(database* in, const char* text) {
    transaction t = co_await in->async_begin();
    transaction inner = co_await t.async_begin();
    co_await set_balances(&inner, 5);
    co_await inner.async_query(text);
}

/// What a function does in a transaction, after it has changed something.
using work = std::function<asio::awaitable<void>(transaction&)>;

inline asio::awaitable<void> change_and(transaction* t, work then) {
    co_await set_balances(t, 5);
    co_await then(*t);
}

inline asio::awaitable<void> change_by_function(database* in, work then,
                                                transaction_options how = {}) {
    work all = [&then](transaction& t) { return change_and(&t, then); };
    co_await in->async_transaction(all, how);
}

inline asio::awaitable<void> wait_until(const std::atomic<bool>* holds) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (!*holds) {
        timer.expires_after(std::chrono::milliseconds(1));
        co_await timer.async_wait(asio::use_awaitable);
    }
}

template <class Kind>
struct any_canceled_database : any_database<Kind> {
    /// A new statement that does not end.
    const char* endless() {
        text_ = this->at.endless(++number_);
        return text_.c_str();
    }
    /// Waits until the server executes it.
    bool is_at_endless() {
        return eventually([&] { return this->at.is_at(this->db, text_); });
    }
    /// Read until they are right: the server may roll back with a delay.
    bool has_first_balances() {
        return eventually([&] { return this->balance(1) == 100 && this->balance(2) == 200; });
    }

    /// A canceled statement may still run in the server and hold locks.
    ~any_canceled_database() override {
        if constexpr (requires { this->at.kill_all(); }) this->at.kill_all();
    }

    own_thread runs;

private:
    static inline int number_ = 0;
    std::string text_;
};
TYPED_TEST_SUITE_P(any_canceled_database);

TYPED_TEST_P(any_canceled_database, leaves_the_line) {
    database one = this->at.open(at_most(1));
    std::optional<scope> holds(one.scope());
    holds->execute("SELECT 1");
    pending first(ask(&one, "SELECT 1"));
    EXPECT_TRUE(eventually([&] { return one.stats().waiting == 1; }));
    pending second(ask(&one, "SELECT 2"));
    EXPECT_TRUE(eventually([&] { return one.stats().waiting == 2; }));
    EXPECT_TRUE(is_cancellation(first.cancel()));
    EXPECT_EQ(one.stats().waiting, 1u);
    EXPECT_EQ(one.stats().leased, 1u);
    holds.reset();
    EXPECT_EQ(second.end(), nullptr);
    EXPECT_EQ(one.stats().opened, 1u);
    expect_as_new(one);
}

TYPED_TEST_P(any_canceled_database, ends_its_statement) {
    for (auto* asks : {&ask, &ask_again, &ask_in_scope, &ask_for_rows}) {
        database one = this->at.open(at_most(1));
        pending it(asks(&one, this->endless()));
        EXPECT_TRUE(this->is_at_endless());
        EXPECT_TRUE(is_cancellation(it.cancel()));
        expect_as_new(one);
    }
}

TYPED_TEST_P(any_canceled_database, leaves_a_scope_that_goes_on) {
    database one = this->at.open(at_most(1));
    {
        scope s = one.scope({.keeps_session = false});
        pending it(ask_scope(&s, this->endless()));
        EXPECT_TRUE(this->is_at_endless());
        EXPECT_TRUE(is_cancellation(it.cancel()));
        for (int i = 0; i < 5; ++i)
            EXPECT_EQ(s.query("SELECT CAST(? AS INTEGER)", i).template scalar<int>(), i);
        EXPECT_EQ(one.stats().leased, 1u);
    }
    expect_as_new(one);
}

/// A cancellation costs the connection of a server, and the session with it.
TYPED_TEST_P(any_canceled_database, leaves_a_scope_no_other_session) {
    database one = this->at.open(at_most(1));
    {
        scope s = one.scope();
        pending it(ask_scope(&s, this->endless()));
        EXPECT_TRUE(this->is_at_endless());
        EXPECT_TRUE(is_cancellation(it.cancel()));
        if constexpr (requires { this->at.kill_all(); }) {
            EXPECT_THROW(s.execute("SELECT 1"), session_lost);
            EXPECT_FALSE(s.has_connection());
        } else {
            EXPECT_EQ(s.query("SELECT 1").template scalar<int>(), 1);
        }
    }
    expect_as_new(one);
}

TYPED_TEST_P(any_canceled_database, leaves_a_transaction_that_can_be_rolled_back) {
    database one = this->at.open(at_most(1));
    transaction t = one.begin();
    this->set(t, 1, 5);
    pending it(ask_transaction(&t, this->endless()));
    EXPECT_TRUE(this->is_at_endless());
    EXPECT_TRUE(is_cancellation(it.cancel()));
    EXPECT_TRUE(t.active());
    t.rollback();
    EXPECT_FALSE(t.active());
    EXPECT_TRUE(this->has_first_balances());
    expect_as_new(one);
}

TYPED_TEST_P(any_canceled_database, rolls_back_its_transaction) {
    for (auto* changes : {&change_and_ask, &change_within_and_ask}) {
        database one = this->at.open(at_most(1));
        pending it(changes(&one, this->endless()));
        EXPECT_TRUE(this->is_at_endless());
        EXPECT_TRUE(is_cancellation(it.cancel()));
        expect_as_new(one);
        EXPECT_TRUE(this->has_first_balances());
    }
}

TYPED_TEST_P(any_canceled_database, rolls_back_what_a_function_did) {
    database one = this->at.open(at_most(1));
    {
        const char* text = this->endless();
        work asks = [text](transaction& t) { return ask_transaction(&t, text); };
        pending it(change_by_function(&one, asks));
        EXPECT_TRUE(this->is_at_endless());
        EXPECT_TRUE(is_cancellation(it.cancel()));
        expect_as_new(one);
        EXPECT_TRUE(this->has_first_balances());
    }
    // While it waits for something other than the server.
    std::atomic<bool> never{false};
    std::atomic<int> waiting{0};
    work waits = [&](transaction&) {
        ++waiting;
        return wait_until(&never);
    };
    pending it(change_by_function(&one, waits));
    EXPECT_TRUE(eventually([&] { return waiting == 1; }));
    EXPECT_TRUE(is_cancellation(it.cancel()));
    expect_as_new(one);
    EXPECT_TRUE(this->has_first_balances());
}

TYPED_TEST_P(any_canceled_database, does_not_try_again) {
    database one = this->at.open(at_most(1));
    std::atomic<int> calls{0};
    work meets = [&](transaction&) -> asio::awaitable<void> {
        ++calls;
        throw statement_error("another one was first", "40001");
    };
    transaction_options later{.retries = 100, .backoff = std::chrono::minutes(10)};
    pending it(change_by_function(&one, meets, later));
    // It is rolled back while it pauses, and other users get its connection.
    EXPECT_TRUE(eventually([&] { return calls == 1 && one.stats().leased == 0; }));
    expect_as_new(one);
    EXPECT_TRUE(is_cancellation(it.cancel()));
    EXPECT_EQ(calls, 1);
    expect_as_new(one);
    EXPECT_TRUE(this->has_first_balances());
}

TYPED_TEST_P(any_canceled_database, stops_waiting_for_a_lock) {
    database two = this->at.open(at_most(2));
    transaction first = two.begin();
    this->set(first, 1, 7);
    work nothing = [](transaction&) -> asio::awaitable<void> { co_return; };
    pending it(change_by_function(&two, nothing));
    EXPECT_TRUE(eventually([&] { return two.stats().leased == 2; }));
    EXPECT_FALSE(it.over());
    EXPECT_TRUE(is_cancellation(it.cancel()));
    EXPECT_TRUE(eventually([&] { return two.stats().leased == 1; }));
    first.commit();
    expect_as_new(two);
    EXPECT_EQ(this->balance(1), 7);
    EXPECT_EQ(this->balance(2), 200);
}

/// Makes its change before the test delays commits.
inline asio::awaitable<void> change_pair(database* in, std::atomic<bool>* changed,
                                         const std::atomic<bool>* may_commit) {
    transaction t = co_await in->async_begin();
    co_await t.async_execute("UPDATE pair SET n = 1 WHERE id = 1");
    co_await t.async_execute("UPDATE pair SET n = 1 WHERE id = 2");
    *changed = true;
    co_await wait_until(may_commit);
    co_await t.async_commit();
}

TYPED_TEST_P(any_canceled_database, commits_all_or_nothing) {
    database one{this->at.commit_url(), at_most(1)};
    database other{this->at.commit_url(), at_most(2)};
    other.execute("DROP TABLE IF EXISTS pair");
    other.execute("CREATE TABLE pair (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)");
    other.execute("INSERT INTO pair VALUES (1, 0), (2, 0)");
    this->at.prepare_commits(other);
    std::atomic<bool> changed{false};
    std::atomic<bool> may_commit{false};
    pending it(change_pair(&one, &changed, &may_commit));
    EXPECT_TRUE(eventually([&] { return changed.load(); }));
    {
        scope holds = other.scope();
        for (const char* each : this->at.hold_commits) holds.execute(each);
        may_commit = true;
        EXPECT_TRUE(eventually([&] { return this->at.is_committing(other); }));
        EXPECT_FALSE(it.over());
        EXPECT_TRUE(is_cancellation(it.cancel()));
    }
    EXPECT_TRUE(eventually([&] { return !this->at.is_committing(other); }));
    expect_as_new(one);
    auto found = other.query("SELECT min(n), max(n) FROM pair");
    EXPECT_EQ(found[0].template get<int>(0), found[0].template get<int>(1));
    // In either case others can change these rows.
    EXPECT_EQ(one.execute("UPDATE pair SET n = 2").affected(), 2u);
    other.execute("DROP TABLE pair");
}

inline asio::awaitable<void> move_one(transaction* t, bool* committing) {
    *committing = false;
    co_await t->async_execute("UPDATE account SET balance = balance - 1 WHERE id = ?", 1);
    {
        transaction inner = co_await t->async_begin();
        co_await inner.async_execute("UPDATE account SET balance = balance + 1 WHERE id = ?", 2);
        co_await inner.async_commit();
    }
    *committing = true;
}

inline asio::awaitable<void> move_by_function(database* in, bool* committing) {
    work moves = [committing](transaction& t) { return move_one(&t, committing); };
    co_await in->async_transaction(moves);
}

/// At every step of the loop.
TYPED_TEST_P(any_canceled_database, leaves_nothing_half_done_whenever_it_is) {
    database one = this->at.open_far_away(at_most(1));
    expect_as_new(one);
    constexpr int too_many = 1000;
    int steps = 1;  // it has begun
    for (bool went_on = true; went_on && steps < too_many; ++steps) {
        SCOPED_TRACE("canceled after steps: " + std::to_string(steps));
        std::int64_t before = this->balance(1);
        bool committing = false;
        auto ended = canceled_after(steps, move_by_function(&one, &committing));
        went_on = ended.has_value();
        bool failed = went_on && *ended != nullptr;
        EXPECT_TRUE(!failed || is_cancellation(*ended));
        expect_as_new(one);
        // Waits for the end of a statement that still runs in the server.
        this->db.execute("UPDATE account SET owner = ? WHERE id < 3", std::to_string(steps));
        std::int64_t now = this->balance(1);
        EXPECT_EQ(now + this->balance(2), 300);
        if (!failed) {
            EXPECT_EQ(now, before - 1);
        } else if (!committing) {
            EXPECT_EQ(now, before);
        }
    }
    EXPECT_GT(steps, 3);
    EXPECT_LT(steps, too_many);
}

/// `in`: a database or a scope.
template <class Place>
asio::awaitable<void> begin_otherwise(Place* in, transaction_options how) {
    transaction t = co_await in->async_begin(how);
    co_await t.async_query("SELECT balance FROM account WHERE id = 1");
    co_await t.async_commit();
}

/// The next transaction has the server's default options.
TYPED_TEST_P(any_canceled_database, leaves_no_transaction_options_whenever_it_is) {
    database one = this->at.open_far_away(at_most(1));
    expect_as_new(one);
    constexpr int too_many = 1000;
    for (bool reads : {false, true}) {
        transaction_options how{.isolation = isolation::serializable, .read_only = reads};
        int steps = 1;
        for (bool went_on = true; went_on && steps < too_many; ++steps) {
            SCOPED_TRACE("canceled after steps: " + std::to_string(steps));
            went_on = canceled_after(steps, begin_otherwise(&one, how)).has_value();
            {
                transaction usual = one.begin();
                this->at.expect_usual(usual, this->db);
                this->set(usual, 1, steps);
                usual.commit();
            }
            EXPECT_EQ(this->balance(1), steps);
            expect_as_new(one);
        }
        EXPECT_LT(steps, too_many);
    }
}

/// The next transaction of the scope has the server's default options.
TYPED_TEST_P(any_canceled_database, leaves_a_scope_no_transaction_options) {
    database one = this->at.open_far_away(at_most(1));
    expect_as_new(one);
    constexpr int too_many = 1000;
    for (bool reads : {false, true}) {
        transaction_options how{.isolation = isolation::serializable, .read_only = reads};
        int steps = 1;
        for (bool went_on = true; went_on && steps < too_many; ++steps) {
            SCOPED_TRACE("canceled after steps: " + std::to_string(steps));
            scope s = one.scope({.keeps_session = false});
            went_on = canceled_after(steps, begin_otherwise(&s, how)).has_value();
            transaction usual = s.begin();
            this->at.expect_usual(usual, this->db);
            this->set(usual, 1, steps);
            usual.commit();
            EXPECT_EQ(this->balance(1), steps);
        }
        EXPECT_LT(steps, too_many);
    }
}

REGISTER_TYPED_TEST_SUITE_P(any_canceled_database, leaves_a_scope_no_transaction_options,
                            leaves_the_line, ends_its_statement, leaves_a_scope_that_goes_on,
                            leaves_a_scope_no_other_session,
                            leaves_a_transaction_that_can_be_rolled_back,
                            rolls_back_its_transaction, rolls_back_what_a_function_did,
                            does_not_try_again, stops_waiting_for_a_lock, commits_all_or_nothing,
                            leaves_nothing_half_done_whenever_it_is,
                            leaves_no_transaction_options_whenever_it_is);

// Exceptions.

template <class Kind>
struct any_failing_database : any_database<Kind> {};
TYPED_TEST_SUITE_P(any_failing_database);

TYPED_TEST_P(any_failing_database, rolls_back_what_was_begun_where_something_is_thrown) {
    using form = typename TypeParam::form;
    database one{this->at.url(), at_most(1)};
    auto in_plain_sql = [&] {
        scope s = one.scope();
        form::run(s, "BEGIN");
        this->set(s, 1, 5);
        throw std::range_error("mine");
    };
    auto in_scope = [&] {
        scope s = one.scope();
        transaction t = form::begin(s);
        this->set(t, 1, 5);
        throw std::range_error("mine");
    };
    auto within = [&] {
        transaction t = form::begin(one);
        transaction inner = form::begin(t);
        this->set(inner, 1, 5);
        throw std::range_error("mine");
    };
    for (const std::function<void()>& each :
         {std::function<void()>(in_plain_sql), std::function<void()>(in_scope),
          std::function<void()>(within)}) {
        EXPECT_THROW(each(), std::range_error);
        expect_as_new(one);
        EXPECT_EQ(this->balance(1), 100);
    }
}

TYPED_TEST_P(any_failing_database, hides_from_all_others_that_it_has_failed) {
    using form = typename TypeParam::form;
    database one{this->at.url(), at_most(1)};
    {
        transaction t = form::begin(one);
        this->set(t, 1, 5);
        EXPECT_THROW(form::run(t, "SELECT nonsense"), statement_error);
    }
    expect_as_new(one);
    {
        scope s = one.scope();
        form::run(s, "BEGIN");
        this->set(s, 1, 6);
        EXPECT_THROW(form::run(s, "SELECT nonsense"), statement_error);
    }
    expect_as_new(one);
    auto fails = [&](transaction& t) {
        this->set(t, 1, 7);
        form::run(t, "SELECT nonsense");
    };
    EXPECT_THROW(form::in_transaction(one, fails), statement_error);
    expect_as_new(one);
    EXPECT_EQ(this->balance(1), 100);
    EXPECT_EQ(one.stats().opened, 1u);
}

TYPED_TEST_P(any_failing_database, looks_without_an_acquire) {
    database one{this->at.url(), at_most(1)};
    scope s = one.scope();
    EXPECT_FALSE(s.has_connection());
    s.discard_at_end();
    EXPECT_FALSE(transaction().active());
    EXPECT_EQ(one.stats().total, 0u);
    EXPECT_EQ(one.stats().acquires, 0u);
    transaction t = TypeParam::form::begin(one);
    std::uint64_t acquires = one.stats().acquires;
    EXPECT_TRUE(t.active());
    EXPECT_FALSE(s.has_connection());
    EXPECT_EQ(one.stats().acquires, acquires);
}

/// A database, a scope, a transaction of the scope, and a cursor of the transaction.
TYPED_TEST_P(any_failing_database, may_end_in_every_order) {
    using form = typename TypeParam::form;
    std::array order{0, 1, 2, 3};
    do {
        std::optional<database> of(std::in_place, this->at.url(), at_most(1));
        std::optional<scope> s(of->scope());
        std::optional<transaction> t(form::begin(*s));
        this->set(*t, 1, 5);
        std::optional<sql::cursor> rows(form::stream(*t, "SELECT id FROM account ORDER BY id"));
        EXPECT_TRUE(form::next(*rows));
        for (int which : order) {
            if (which == 0) of.reset();
            if (which == 1) s.reset();
            if (which == 2) t.reset();
            if (which == 3) rows.reset();
        }
        this->set(this->db, 2, 6);  // waits for the lock
        EXPECT_EQ(this->balance(1), 100);
    } while (std::ranges::next_permutation(order).found);
}

REGISTER_TYPED_TEST_SUITE_P(any_failing_database,
                            rolls_back_what_was_begun_where_something_is_thrown,
                            hides_from_all_others_that_it_has_failed, looks_without_an_acquire,
                            may_end_in_every_order);

}  // namespace cenote::conformance
