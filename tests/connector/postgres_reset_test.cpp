// Resets in front of the next lease's first request: when one is pending, which operations make it,
// and which servers support it.
#include <functional>
#include <libpq-fe.h>
#include <poll.h>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "cenote/postgres.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "connector/postgres_session.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::postgres {
namespace {

using support::await;
using support::backend_of;
using support::postgres_url;
using support::the_postgres;

constexpr const char* leave = "select set_config('my.mark', 'left', false)";
constexpr const char* look = "select coalesce(current_setting('my.mark', true), '')";

struct postgres_reset : testing::Test {
    connector to{postgres_url()};
    connection c = to.open();

    /// A lease that has changed the session; its reset is pending.
    void owe() {
        if (to.before_release(c) == verdict::reset) to.reset(c);
        EXPECT_EQ(c.execute(leave).scalar<std::string>(), "left");
        ASSERT_EQ(to.before_release(c), verdict::reset_later);
    }
    void expect_clean() { EXPECT_EQ(c.execute(look).scalar<std::string>(), ""); }
};

TEST_F(postgres_reset, goes_before_the_next_query) {
    int backend = backend_of(c);
    owe();
    ASSERT_TRUE(to.before_acquire(c));
    EXPECT_EQ(c.execute(look).scalar<std::string>(), "");
    EXPECT_EQ(c.execute("select $1::int", 7).scalar<int>(), 7);
    owe();
    EXPECT_EQ(await(c.async_execute(look)).scalar<std::string>(), "");
    EXPECT_EQ(await(c.async_execute("select $1::int", 7)).scalar<int>(), 7);
    EXPECT_EQ(backend_of(c), backend);
}

TEST_F(postgres_reset, goes_before_a_prepared_statement) {
    owe();
    statement s = c.prepare(look);
    EXPECT_EQ(c.execute(s).scalar<std::string>(), "");
    ASSERT_EQ(to.before_release(c), verdict::reset_later);
    EXPECT_THROW(c.execute(s), std::logic_error);  // its lease has ended
    statement again = await(c.async_prepare(look));
    EXPECT_EQ(await(c.async_execute(again)).scalar<std::string>(), "");
    ASSERT_EQ(to.before_release(c), verdict::reset_later);
    EXPECT_EQ(c.execute("select count(*) from pg_prepared_statements").scalar<int>(), 0);
}

TEST_F(postgres_reset, goes_before_a_stream) {
    constexpr const char* many =
        "select coalesce(current_setting('my.mark', true), '') || i from generate_series(1, 3) i";
    owe();
    cursor rows = c.stream(many);
    std::string seen;
    while (auto row = rows.next()) seen += row->get<std::string>(0);
    EXPECT_EQ(seen, "123");
    owe();
    cursor awaited = await(c.async_stream(many));
    seen.clear();
    while (auto row = await(awaited.async_next())) seen += row->get<std::string>(0);
    EXPECT_EQ(seen, "123");
    owe();
    EXPECT_FALSE(c.stream("select 1 where false").next());
    expect_clean();
}

TEST_F(postgres_reset, goes_before_a_transaction) {
    owe();
    c.execute("begin isolation level serializable");
    EXPECT_TRUE(c.in_transaction());
    expect_clean();
    c.execute("commit");
    owe();
    EXPECT_NO_THROW(c.execute("vacuum pg_catalog.pg_namespace"));  // must be a statement of its own
    expect_clean();
}

TEST_F(postgres_reset, goes_before_the_handle_is_exposed) {
    auto asked = [](PGconn* handle) {
        PQsetnonblocking(handle, 0);
        detail::result_ptr r(PQexec(handle, look));
        return std::string(PQgetvalue(r.get(), 0, 0));
    };
    owe();
    EXPECT_EQ(asked(c.native_handle()), "");
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    owe();
    EXPECT_EQ(asked(await(c.async_native_handle())), "");
}

/// A notification may come before the reset ends the listening.
TEST_F(postgres_reset, leaves_no_notification_in_the_exposed_handle) {
    const int socket = PQsocket(c.native_handle());
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    the_postgres().execute_as_admin(
        "create or replace function public.listens() returns int language plpgsql as "
        "$$ begin execute 'listen' || ' news'; return 1; end $$");
    c.execute("select public.listens()");
    EXPECT_EQ(to.before_release(c), verdict::reset_later);
    the_postgres().execute_as_admin("notify news");
    pollfd arrival{.fd = socket, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&arrival, 1, 30'000), 1);
    PGconn* handle = c.native_handle();
    PQconsumeInput(handle);
    EXPECT_EQ(PQnotifies(handle), nullptr);
}

TEST_F(postgres_reset, leaves_room_for_a_pipeline_of_the_users_own) {
    owe();
    PGconn* handle = c.native_handle();
    ASSERT_EQ(PQenterPipelineMode(handle), 1);
    for (int i = 0; i < 2; ++i)
        ASSERT_EQ(PQsendQueryParams(handle, look, 0, nullptr, nullptr, nullptr, nullptr, 0), 1);
    ASSERT_EQ(PQpipelineSync(handle), 1);
    for (int i = 0; i < 2; ++i) {
        detail::result_ptr r(PQgetResult(handle));
        EXPECT_STREQ(PQgetvalue(r.get(), 0, 0), "");
        EXPECT_EQ(PQgetResult(handle), nullptr);
    }
    detail::result_ptr sync(PQgetResult(handle));
    EXPECT_EQ(PQresultStatus(sync.get()), PGRES_PIPELINE_SYNC);
    EXPECT_EQ(to.before_release(c), verdict::reset);  // still in pipeline mode
    to.reset(c);
    expect_clean();
}

TEST_F(postgres_reset, is_made_by_probes_and_by_the_pool) {
    owe();
    EXPECT_TRUE(to.probe(c));
    EXPECT_EQ(to.before_release(c), verdict::keep);
    expect_clean();
    owe();
    to.reset(c);
    EXPECT_EQ(to.before_release(c), verdict::keep);
    expect_clean();
    async_connector also{postgres_url()};
    owe();
    EXPECT_TRUE(await(also.probe(c)));
    EXPECT_EQ(to.before_release(c), verdict::keep);
    owe();
    await(also.reset(c));
    EXPECT_EQ(to.before_release(c), verdict::keep);
    owe();
    c.only_read();
    EXPECT_THROW(c.execute("create table never(i int)"), statement_error);
    expect_clean();
}

TEST_F(postgres_reset, stays_pending_without_use) {
    owe();
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(to.before_acquire(c));
        EXPECT_EQ(to.before_release(c), verdict::reset_later);
    }
    expect_clean();
}

TEST_F(postgres_reset, an_error_of_the_statement_is_its_own) {
    owe();
    try {
        c.execute("select 1/0");
        ADD_FAILURE();
    } catch (const statement_error& e) {
        EXPECT_EQ(e.sqlstate(), "22012");
    }
    expect_clean();  // DISCARD ALL was not rolled back
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    owe();
    EXPECT_THROW(c.execute("select $1::text", std::string(1, '\0')), std::invalid_argument);
    expect_clean();
    owe();
    EXPECT_THROW(c.prepare("selec"), statement_error);
    expect_clean();
    owe();
    EXPECT_THROW(c.stream("select 1/0"), statement_error);
    expect_clean();
}

TEST_F(postgres_reset, the_time_that_was_set_is_for_the_statement_it_was_set_for) {
    owe();
    c.set_timeout(std::chrono::nanoseconds(1));
    EXPECT_THROW(c.execute("select 1"), exchange_timeout);
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST_F(postgres_reset, does_not_wait_where_other_sessions_may_be_blocked) {
    auto becomes = [&](const char* text) {
        c.execute(text);
        verdict v = to.before_release(c);
        to.reset(c);
        return v;
    };
    EXPECT_EQ(becomes("select pg_advisory_lock(1)"), verdict::reset);
    EXPECT_EQ(becomes("SELECT PG_TRY_ADVISORY_LOCK(1)"), verdict::reset);
    EXPECT_EQ(becomes("select 1 into temp t"), verdict::reset);
    EXPECT_EQ(becomes("select 1 into Temporary t"), verdict::reset);
    EXPECT_EQ(becomes("select to_regclass('pg_temp.x')::text"), verdict::reset);
    EXPECT_EQ(becomes("select 'a function that does LISTEN'"), verdict::reset);
    EXPECT_EQ(becomes("set work_mem = '9MB'"), verdict::reset);
    EXPECT_EQ(becomes("begin"), verdict::reset);
    EXPECT_EQ(becomes("select 'attempt, template, listener, unlistened'"), verdict::reset_later);
    EXPECT_EQ(becomes("select 'adviso', 'a', 'tem'"), verdict::reset_later);
    cursor rows = c.stream("select pg_advisory_lock(2)");
    while (rows.next()) {
    }
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    c.prepare("select pg_advisory_lock(3)");
    EXPECT_EQ(to.before_release(c), verdict::reset);
}

/// The three modes after the same lease.
TEST_F(postgres_reset, has_three_modes) {
    auto becomes = [](const char* mode, const char* text) {
        connector some(postgres_url(std::string("reset=") + mode));
        connection on = some.open();
        on.execute(text);
        return some.before_release(on);
    };
    EXPECT_EQ(becomes("with_next", "select 1"), verdict::reset_later);
    EXPECT_EQ(becomes("at_release", "select 1"), verdict::reset);
    EXPECT_EQ(becomes("by_tag", "select 1"), verdict::keep);
    for (const char* mode : {"with_next", "at_release", "by_tag"}) {
        EXPECT_EQ(becomes(mode, "set work_mem = '9MB'"), verdict::reset);
        EXPECT_EQ(becomes(mode, "create temp table t as select 1"), verdict::reset);
        EXPECT_EQ(becomes(mode, "select 1 into temp t"), verdict::reset);
    }
}

TEST_F(postgres_reset, what_the_url_says_is_there_again) {
    connector other(postgres_url("timezone=Europe/Berlin&application_name=till"));
    connection d = other.open();
    d.execute(
        "select set_config('timezone', 'UTC', false), set_config('application_name', 'x', false)");
    ASSERT_EQ(other.before_release(d), verdict::reset_later);
    EXPECT_EQ(d.execute("select current_setting('timezone') || current_setting('application_name')")
                  .scalar<std::string>(),
              "Europe/Berlintill");
}

TEST_F(postgres_reset, a_pool_resets_idle_connections) {
    pool<connection> one{to, support::patient(1)};
    one.with([](connection& d) { d.execute(leave); });
    auto marks = [] {
        return the_postgres().execute_as_admin(
            "select count(*) from pg_stat_activity where usename = 'app' and query ilike 'discard "
            "all'");
    };
    EXPECT_TRUE(support::eventually([&] { return marks().starts_with("1"); }));
    one.with([](connection& d) { EXPECT_EQ(d.execute(look).scalar<std::string>(), ""); });
    EXPECT_EQ(one.stats().opened, 1u);
}

// Servers.

TEST(postgres_reset_servers, are_trusted_by_their_version) {
    for (int good : {100022, 100023, 110017, 120012, 130008, 140005, 150000, 150018, 180001})
        EXPECT_TRUE(detail::resets_with_next(good)) << good;
    for (int bad : {90624, 100021, 110016, 120011, 130007, 140004, 140000})
        EXPECT_FALSE(detail::resets_with_next(bad)) << bad;
}

TEST(postgres_reset_servers, are_tried_once) {
    auto errors = [] {
        std::string log = the_postgres().log_tail(100'000);
        int count = 0;
        for (std::size_t at = 0; (at = log.find("parameter \"cenote.fails", at)) != log.npos; ++at)
            ++count;
        return count;
    };
    int before = errors();
    connector to(postgres_url());
    connection first = to.open();
    EXPECT_EQ(errors(), before + 1);
    connection second = to.open();
    EXPECT_EQ(errors(), before + 1);
    connection other = await(async_connector{postgres_url()}.open());
    EXPECT_EQ(errors(), before + 2);
    connection none = connector{postgres_url("reset=at_release")}.open();
    EXPECT_EQ(errors(), before + 2);
    detail::servers_tried known;
    EXPECT_EQ(known.resets_with_next("a"), std::nullopt);
    known.note("a", true);
    EXPECT_EQ(known.resets_with_next("a"), true);
    EXPECT_EQ(known.resets_with_next("b"), std::nullopt);
    known.note_lost("b");
    EXPECT_EQ(known.resets_with_next("b"), std::nullopt);
    known.note_lost("b");
    EXPECT_EQ(known.resets_with_next("b"), false);
}

/// PgBouncer may give each transaction another server connection.
TEST(postgres_reset_servers, behind_pgbouncer_are_reset_at_release) {
    support::pgbouncer_server bouncer(the_postgres(), {.pool_size = 2});
    connector to{postgres_url(bouncer.port())};
    connection c = to.open();
    c.execute("select 1");
    EXPECT_EQ(to.before_release(c), verdict::reset);
    async_connector also{postgres_url(bouncer.port())};
    connection d = await(also.open());
    d.execute("select 1");
    EXPECT_EQ(also.before_release(d), verdict::reset);
}

}  // namespace
}  // namespace cenote::postgres
