// Rows as types of the user whose statement ends in the middle: the reply is cut off, the server
// ends the connection or stops the statement, the time is over, or the caller cancels. No row is
// half, no row is from elsewhere, and the next user of the pool notices nothing.
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/error.hpp"
#include "cenote/server_error.hpp"
#include "database/canceling.hpp"
#include "database/numbered_rows.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"

namespace cenote::conformance {
namespace {

namespace asio = boost::asio;
using support::eventually;

/// The rows of a statement that was stopped at row k: none of all at once, and some of a stream.
void expect_rows_before(int k, const read_rows& read) {
    EXPECT_FALSE(read.ended);
    EXPECT_LT(read.all.size(), static_cast<std::size_t>(k));
    EXPECT_TRUE(are_first_rows(read.all));
}

template <class Kind>
struct lost_rows : testing::Test {
    using place = typename Kind::place;

    /// Runs `use` on a thread of its own until the statement has come to row k, and then `stop`.
    template <class Use, class Stop>
    void stopped_at(int k, Use use, Stop stop) {
        std::exception_ptr failure;
        std::jthread other([&] {
            try {
                use();
            } catch (...) {
                failure = std::current_exception();
            }
        });
        EXPECT_TRUE(eventually([&] { return at.is_stuck(k); }));
        stop();
        other.join();
        if (failure != nullptr) std::rethrow_exception(failure);
    }
    /// The next test asks the same server.
    void expect_stopped(int k) {
        if constexpr (!place::keeps_session) {
            EXPECT_TRUE(eventually([&] { return !at.is_stuck(k); }));
        }
    }

    place at;
    database db{at.url(), at_most(1)};
};

template <class Kind>
struct lost_rows_of_server : lost_rows<Kind> {};
using served_kinds =
    testing::Types<kind<postgres_rows_place, blocking>, kind<postgres_rows_place, awaited>,
                   kind<mariadb_rows_place, blocking>, kind<mariadb_rows_place, awaited>>;
TYPED_TEST_SUITE(lost_rows_of_server, served_kinds);

/// After every few bytes of the reply.
TYPED_TEST(lost_rows_of_server, are_whole_wherever_the_reply_is_cut_off) {
    using form = typename TypeParam::form;
    support::gate between(this->at.port());
    // Without resets: the reply is only that of the statement.
    database through(this->at.url_at(between.port()),
                     {.pool = support::patient(1), .trust_statements = true});
    const std::string text = this->at.series(12);
    for (bool streams : {false, true}) {
        bool whole = false;
        for (std::size_t bytes = 1; !whole && bytes < 5000; bytes += 17) {
            SCOPED_TRACE(bytes);
            between.pass();
            EXPECT_EQ(through.query("SELECT 1").template scalar<int>(), 1);
            between.cut_after(bytes);
            read_rows read;
            try {
                read_into<form>(read, through, text, streams);
                whole = true;
            } catch (const connection_error&) {
            }
            EXPECT_EQ(read.ended, whole);
            EXPECT_TRUE(whole ? read.all.size() == 12 : read.all.size() <= 12);
            EXPECT_TRUE(are_first_rows(read.all));
            EXPECT_EQ(through.stats().leased, 0u);
        }
        EXPECT_TRUE(whole);
    }
    between.pass();
    expect_as_new(through);
}

/// The server ends the connection when the statement has come to a row.
TYPED_TEST(lost_rows_of_server, are_an_error_when_the_connection_is_killed) {
    using form = typename TypeParam::form;
    for (int k : {1, 2, 300, 1000})
        for (bool streams : {false, true}) {
            SCOPED_TRACE(std::to_string(k) + (streams ? ", streamed" : ""));
            read_rows read;
            auto killed_in = [&](auto& on) {
                read = {};
                this->stopped_at(
                    k, [&] { read_into<form>(read, on, this->at.stuck_at(k), streams); },
                    [&] { this->at.kill_all(); });
            };
            std::uint64_t opened = this->db.stats().opened;
            EXPECT_THROW(killed_in(this->db), connection_error);
            expect_rows_before(k, read);
            expect_as_new(this->db);
            EXPECT_EQ(this->db.stats().opened, opened + (opened == 0 ? 2 : 1));
            {
                auto s = this->db.scope();
                EXPECT_THROW(killed_in(s), session_lost);
                expect_rows_before(k, read);
                EXPECT_THROW(form::run(s, "SELECT 1"), session_lost);
            }
            transaction t = form::begin(this->db);
            EXPECT_THROW(killed_in(t), transaction_lost);
            expect_rows_before(k, read);
            EXPECT_THROW(form::commit(t), transaction_lost);
            form::rollback(t);
            expect_as_new(this->db);
        }
}

/// The rows of the first run are not among those of the second one.
TYPED_TEST(lost_rows_of_server, are_read_again_from_the_first_if_the_statement_is_idempotent) {
    using form = typename TypeParam::form;
    for (int k : {2, 1000}) {
        typename TypeParam::place fresh;  // stops again
        std::vector<rows::line> all;
        this->stopped_at(
            k,
            [&] {
                all =
                    form::template query_as<rows::line>(this->db, idempotent, this->at.stuck_at(k));
            },
            [&] {
                this->at.go_on();
                this->at.kill_all();
            });
        EXPECT_EQ(all.size(), static_cast<std::size_t>(stuck_rows));
        EXPECT_TRUE(are_first_rows(all));
        expect_as_new(this->db);
    }
}

template <class Kind>
struct lost_rows_in_time : lost_rows<Kind> {};
using all_kinds =
    testing::Types<kind<postgres_rows_place, blocking>, kind<postgres_rows_place, awaited>,
                   kind<mariadb_rows_place, blocking>, kind<mariadb_rows_place, awaited>,
                   kind<sqlite_rows_place, blocking>, kind<sqlite_rows_place, awaited>>;
TYPED_TEST_SUITE(lost_rows_in_time, all_kinds);

/// The time limit of the program. With SQLite the connection remains.
TYPED_TEST(lost_rows_in_time, are_an_error_when_the_operation_takes_too_long) {
    using form = typename TypeParam::form;
    constexpr bool is_local = TypeParam::place::keeps_session;
    using error = std::conditional_t<is_local, statement_error, exchange_timeout>;
    for (int k : {1, 300})
        for (bool streams : {false, true}) {
            SCOPED_TRACE(std::to_string(k) + (streams ? ", streamed" : ""));
            database hasty(this->at.url("operation_timeout=300ms"), at_most(1));
            read_rows read;
            EXPECT_THROW(read_into<form>(read, hasty, this->at.stuck_at(k), streams), error);
            expect_rows_before(k, read);
            EXPECT_EQ(hasty.stats().leased, 0u);
            this->expect_stopped(k);
            // On a busy machine this statement, too, may take too long.
            EXPECT_TRUE(eventually([&] {
                try {
                    return form::run(hasty, "SELECT CAST(? AS INTEGER)", 7)
                               .template scalar<int>() == 7;
                } catch (const error&) {
                    return false;
                }
            }));
            EXPECT_GE(hasty.stats().opened, is_local ? 1u : 2u);
        }
}

/// The time limit of the server, which ends the statement and not the connection.
TYPED_TEST(lost_rows_in_time, are_an_error_when_the_server_stops_the_statement) {
    using form = typename TypeParam::form;
    auto limited = this->db.with({.statement_timeout = std::chrono::milliseconds(200)});
    for (int k : {1, 300})
        for (bool streams : {false, true}) {
            SCOPED_TRACE(std::to_string(k) + (streams ? ", streamed" : ""));
            read_rows read;
            EXPECT_THROW(read_into<form>(read, limited, this->at.stuck_at(k), streams),
                         statement_error);
            expect_rows_before(k, read);
            expect_as_new(this->db);
        }
    EXPECT_EQ(this->db.stats().opened, 1u);
}

template <class Kind>
struct canceled_rows : lost_rows<Kind> {
    own_thread runs;
};
using awaited_kinds =
    testing::Types<kind<postgres_rows_place, awaited>, kind<mariadb_rows_place, awaited>,
                   kind<sqlite_rows_place, awaited>>;
TYPED_TEST_SUITE(canceled_rows, awaited_kinds);

template <class Place>
asio::awaitable<void> read_all(Place* on, std::string text, bool streams, read_rows* to) {
    if (streams) {
        auto cursor = co_await on->template async_stream_as<rows::line>(text);
        while (auto row = co_await cursor.async_next()) to->all.push_back(*std::move(row));
    } else {
        to->all = co_await on->template async_query_as<rows::line>(text);
    }
    to->ended = true;
}

TYPED_TEST(canceled_rows, cost_the_connection_of_a_server) {
    for (int k : {1, 2, 300})
        for (bool streams : {false, true}) {
            SCOPED_TRACE(std::to_string(k) + (streams ? ", streamed" : ""));
            database one(this->at.url(), at_most(1));
            read_rows read;
            {
                rows::number::read() = 0;
                pending it(read_all(&one, this->at.stuck_at(k), streams, &read));
                EXPECT_TRUE(eventually([&] { return this->at.is_stuck(k); }));
                EXPECT_FALSE(it.over());
                EXPECT_TRUE(is_cancellation(it.cancel()));
            }
            expect_rows_before(k, read);
            this->expect_stopped(k);
            expect_as_new(one);
            EXPECT_EQ(one.stats().opened, TypeParam::place::keeps_session ? 1u : 2u);
        }
}

TYPED_TEST(canceled_rows, cost_a_scope_its_session_and_a_transaction_its_changes) {
    using form = typename TypeParam::form;
    constexpr bool is_local = TypeParam::place::keeps_session;
    this->db.execute("DROP TABLE IF EXISTS kept");
    this->db.execute("CREATE TABLE kept (n INTEGER)");
    for (bool streams : {false, true}) {
        auto cancel_in = [&](auto& on) {
            rows::number::read() = 0;
            read_rows read;
            pending it(read_all(&on, this->at.stuck_at(300), streams, &read));
            EXPECT_TRUE(eventually([&] { return this->at.is_stuck(300); }));
            EXPECT_TRUE(is_cancellation(it.cancel()));
            expect_rows_before(300, read);
            this->expect_stopped(300);
        };
        {
            auto s = this->db.scope();
            form::run(s, "SELECT 1");
            cancel_in(s);
            if (is_local) {
                EXPECT_EQ(form::run(s, "SELECT 7").template scalar<int>(), 7);
            } else {
                EXPECT_THROW(form::run(s, "SELECT 7"), session_lost);
            }
        }
        transaction t = form::begin(this->db);
        form::run(t, "INSERT INTO kept VALUES (1)");
        cancel_in(t);
        if (!is_local) {
            EXPECT_THROW(form::commit(t), transaction_lost);
        }
        form::rollback(t);
        expect_as_new(this->db);
        EXPECT_EQ(this->db.query("SELECT count(*) FROM kept").template scalar<int>(), 0);
    }
}

template <class Place>
asio::awaitable<void> read_both_ways(Place* on, std::string text, read_rows* first,
                                     read_rows* second) {
    co_await read_all(on, text, false, first);
    co_await read_all(on, text, true, second);
}

/// At every step of the loop.
TYPED_TEST(canceled_rows, are_whole_whenever_they_are_canceled) {
    database one(this->at.url(), at_most(1));
    constexpr int too_many = 3000;
    int steps = 1;
    for (bool went_on = true; went_on && steps < too_many; ++steps) {
        SCOPED_TRACE(steps);
        // All steps begin with a connection that is open and owes nothing.
        EXPECT_EQ(one.scope().query("SELECT 1").template scalar<int>(), 1);
        EXPECT_TRUE(eventually([&] { return one.stats().leased == 0; }));
        read_rows first;
        read_rows second;
        auto ended =
            canceled_after(steps, read_both_ways(&one, this->at.series(12), &first, &second));
        went_on = ended.has_value();
        for (const read_rows* each : {&first, &second}) {
            EXPECT_TRUE(are_first_rows(each->all));
            EXPECT_TRUE(!each->ended || each->all.size() == 12);
        }
        EXPECT_TRUE(first.ended || (first.all.empty() && second.all.empty()));
        EXPECT_TRUE(!went_on || *ended == nullptr || is_cancellation(*ended));
        EXPECT_EQ(one.query("SELECT CAST(? AS INTEGER)", steps).template scalar<int>(), steps);
        EXPECT_EQ(one.stats().leased, 0u);
    }
    EXPECT_GT(steps, 2);  // the replies may be there before they are waited for
    EXPECT_LT(steps, too_many);
    expect_as_new(one);
}

}  // namespace
}  // namespace cenote::conformance
