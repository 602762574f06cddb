// Listeners of a database on PostgreSQL.
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "cenote/error.hpp"
#include "connector/listening_suite.hpp"
#include "connector/postgres_place.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// Otherwise the thread sanitizer ends a child process that starts a thread. It expects this name.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif
#endif

namespace listening {
namespace {

using cenote::database;

class postgres_place {
public:
    static constexpr bool close_is_noticed = true;

    explicit postgres_place(std::uint16_t port = support::the_postgres().port(),
                            std::size_t max = 2)
        : db_(database(support::postgres_url(port), {.pool = support::patient(max)})) {}

    static support::postgres_server& server() { return support::the_postgres(); }
    static std::uint16_t port() { return server().port(); }

    notifications stream(const channel_list& to, listen_options how) {
        return db_->listen(to, how);
    }
    asio::awaitable<notifications> async_stream(channel_list to, listen_options how) {
        return db_->async_listen(to, how);
    }
    notifications stream_within(const channel_list& to, listen_options how) {
        how.within_max = true;
        return db_->listen(to, how);
    }
    asio::awaitable<notifications> async_stream_within(channel_list to, listen_options how) {
        how.within_max = true;
        return db_->async_listen(to, how);
    }

    static void send(const std::string& channel, const std::string& payload) {
        cenote::postgres::connector to(support::postgres_url());
        to.open().execute("select pg_notify($1, $2)", channel, payload);
    }
    static void send_many(const std::string& channel, int count) {
        cenote::postgres::connector to(support::postgres_url());
        to.open().execute("select count(pg_notify($1, i::text)) from generate_series(1, $2::int) i",
                          channel, count);
    }
    static void kill() { server().kill_backends(); }
    void close() { db_.reset(); }
    std::size_t leased() const { return db_->stats().leased; }
    void expect_clean() {
        EXPECT_EQ(db_->query("select count(*) from pg_listening_channels()").scalar<int>(), 0);
    }
    static std::vector<std::string> payloads() {
        std::string all;
        for (char c = 1; c < 127; ++c) all += c;
        return {all, "\x7f", "äöü€𝄞", std::string(7999, 'x')};
    }
    database& db() { return *db_; }

private:
    std::optional<database> db_;
};

listen_options within_max() {
    listen_options how = patiently;
    how.within_max = true;
    return how;
}

using kinds = testing::Types<kind<postgres_place, blocking>, kind<postgres_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_stream, kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_canceled_stream, testing::Types<postgres_place>);

TEST(listening_postgres, takes_any_name_that_the_server_takes) {
    postgres_place at;
    for (const std::string& name :
         {std::string("News"), std::string("a \"quoted\" name; unlisten *"), std::string("größe"),
          std::string(63, 'n')}) {
        notifications all = at.db().listen(name, patiently);
        postgres_place::send(name, "one");
        EXPECT_EQ(all.next(), heard(name, "one"));
    }
    for (const std::string& name : {std::string(), std::string(64, 'n'), std::string("a\0b", 3)})
        EXPECT_THROW(static_cast<void>(at.db().listen(name)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(at.db().listen(std::vector<std::string>())),
                 std::invalid_argument);
    EXPECT_EQ(at.leased(), 0U);
}

TEST(listening_postgres, counts_beside_the_pool_or_within_it) {
    postgres_place at(postgres_place::port(), 1);
    database& db = at.db();
    notifications first = db.listen("news", patiently);
    notifications second = db.listen("news", patiently);
    EXPECT_EQ(first.control().name(), "pool-listen");
    EXPECT_EQ(first.control().settings().max, 2U);
    EXPECT_EQ(db.query("select 1").scalar<int>(), 1);
    second.stop();
    second = {};
    EXPECT_EQ(first.control().settings().max, 1U);
    EXPECT_TRUE(eventually([&] { return first.control().stats().total == 1; }));
    notifications within = db.listen("news", within_max());
    EXPECT_EQ(within.control().name(), "pool");
    try {
        db.with({.timeout = 20ms}).execute("select 1");
        ADD_FAILURE() << "the listener has the only connection";
    } catch (const cenote::timed_out_error& e) {
        EXPECT_NE(std::string(e.what()).find("listening_postgres_test.cpp"), std::string::npos)
            << e.what();
    }
    postgres_place::send("news", "one");
    EXPECT_EQ(within.next(), heard("news", "one"));
    within.stop();
    EXPECT_EQ(db.query("select 1").scalar<int>(), 1);
    at.expect_clean();
}

/// A lease that never ends is no leak here.
TEST(listening_postgres, is_no_leak) {
    support::stopped_clock time;
    database db(support::postgres_url(), {.pool = support::patient(2)});
    notifications all = db.listen("news", {.within_max = true});
    for (int i = 0; i < 100; ++i) time.advance(1500ms);
    EXPECT_EQ(db.stats().leaks, 0U);
    EXPECT_EQ(db.controls()[0].leases().size(), 1U);
}

TEST(listening_postgres, takes_completion_tokens) {
    postgres_place at;
    auto opened = at.db().async_listen("news", patiently, asio::use_future);
    notifications second = at.db().async_listen("news", patiently, asio::use_future).get();
    notifications all = opened.get();
    postgres_place::send("news", "one");
    EXPECT_EQ(all.async_next(asio::use_future).get(), heard("news", "one"));
    EXPECT_EQ(second.next(), heard("news", "one"));
}

TEST(listening_postgres, is_refused_by_servers_without_notifications) {
    database file{"sqlite:orders?mode=memory"};
    database maria{"mariadb://app@127.0.0.1:1/orders"};
    for (database* each : {&file, &maria}) {
        try {
            static_cast<void>(each->listen("news"));
            ADD_FAILURE();
        } catch (const std::invalid_argument& e) {
            EXPECT_STREQ(e.what(),
                         "cenote: listen() requires PostgreSQL: SQLite and MariaDB send no "
                         "notifications");
        }
    }
}

TEST(listening_postgres, throws_what_does_not_pass) {
    support::postgres_server there;
    database db(support::postgres_url(there.port()), {.pool = support::patient(2)});
    notifications all = db.listen("news", patiently);
    there.execute_as_admin("alter user app password 'another'");
    there.kill_backends();
    EXPECT_THROW(static_cast<void>(all.next()), cenote::open_failed_error);
    EXPECT_FALSE(all.stopped());
    there.execute_as_admin("alter user app password '" + std::string(support::canary_password) +
                           "'");
    std::optional<notification> got;
    EXPECT_TRUE(eventually([&] {
        try {
            got = all.next();
            return true;
        } catch (const cenote::open_failed_error&) {
            return false;
        }
    }));
    EXPECT_EQ(got, gap);
}

/// The server's reason tells the pool that its other connections may be lost, too.
TEST(listening_postgres, suspects_the_other_connections_after_a_shutdown) {
    postgres_place at;
    at.db().execute("select 1");
    notifications all = at.db().listen("news", within_max());
    postgres_place::kill();
    EXPECT_EQ(all.next(), gap);
    EXPECT_EQ(at.db().query("select 1").scalar<int>(), 1);
}

TEST(listening_postgres, is_refused_when_the_database_is_gone) {
    for (bool within : {false, true}) {
        std::optional<database> db;
        db.emplace(support::postgres_url(), cenote::database_options{.pool = support::patient(2)});
        auto later = db->async_listen("news", {.within_max = within});
        db.reset();
        EXPECT_THROW(static_cast<void>(listening::await(std::move(later))), cenote::closed_error);
    }
}

/// At every step of its loop, from another thread.
TEST(listening_postgres, may_begin_while_the_database_ends) {
    for (int round = 0; round < support::rounds(100); ++round) {
        std::optional<database> db;
        db.emplace(support::postgres_url(), cenote::database_options{.pool = support::patient(2)});
        auto begun = db->async_listen("news", round % 2 == 0 ? within_max() : patiently);
        std::thread begins([&] {
            try {
                notifications all = listening::await(std::move(begun));
                EXPECT_EQ(all.next(), std::nullopt);
                EXPECT_TRUE(all.stopped());
            } catch (const cenote::pool_error& e) {
                bool ended = e.code() == cenote::errc::closed || e.code() == cenote::errc::canceled;
                EXPECT_TRUE(ended) << e.what();
            }
        });
        for (int i = 0; i < round * 20; ++i) std::this_thread::yield();
        db.reset();
        begins.join();
    }
}

TEST(listening_postgres, without_anything_has_ended) {
    notifications none;
    EXPECT_TRUE(none.stopped());
    EXPECT_EQ(none.next(), std::nullopt);
    EXPECT_EQ(listening::await(none.async_next()), std::nullopt);
    none.stop();
}

}  // namespace
}  // namespace listening
