// Changes of a session are gone for the next lease of the connection.
#include <functional>
#include <libpq-fe.h>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::postgres {
namespace {

using support::await;
using support::backend_of;
using support::postgres_url;
using support::the_postgres;

/// The roles and tables of these tests.
struct postgres_session : testing::Test {
    static void SetUpTestSuite() {
        static bool done = false;
        if (std::exchange(done, true)) return;  // derived fixtures share the server
        the_postgres().execute_as_admin(
            "create role clerk; create role boss; grant clerk, boss to app;"
            "create schema sales authorization app; create schema stock authorization app;"
            "grant usage on schema sales, stock to clerk, boss;"
            "create table if not exists public.kept(i int); alter table public.kept owner to app;"
            "grant all on public.kept to public");
    }
};

struct habit {
    const char* name;
    std::vector<std::string> done;
    const char* seen;  // whether anything is left, as text
};

void PrintTo(const habit& h, std::ostream* out) { *out << h.name; }

const std::vector<habit> habits{
    {"role", {"set role boss"}, "select current_user::text"},
    {"search_path", {"set search_path = sales"}, "show search_path"},
    {"setting", {"set work_mem = '99MB'"}, "show work_mem"},
    {"set_config",
     {"select set_config('statement_timeout', '77s', false)"},
     "show statement_timeout"},
    {"own_setting",
     {"set my.tenant = 'acme'"},
     "select coalesce(current_setting('my.tenant', true), '')"},
    {"prepared", {"prepare p as select 1"}, "select count(*)::text from pg_prepared_statements"},
    {"advisory_lock",
     {"select pg_advisory_lock(4711)"},
     "select count(*)::text from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"},
    {"temp_table",
     {"create temp table leftover(i int)"},
     "select coalesce(to_regclass('leftover')::text, 'none')"},
    {"temp_view",
     {"create temp view leftover as select 1"},
     "select coalesce(to_regclass('leftover')::text, 'none')"},
    {"listen", {"listen news"}, "select count(*)::text from pg_listening_channels()"},
    {"held_cursor",
     {"declare c cursor with hold for select 1"},
     "select count(*)::text from pg_cursors where is_holdable"},
    {"read_only", {"set default_transaction_read_only = on"}, "show default_transaction_read_only"},
    {"timezone", {"set timezone = 'Asia/Tokyo'"}, "show timezone"},
    {"isolation",
     {"set session characteristics as transaction isolation level serializable"},
     "show default_transaction_isolation"},
    {"application_name", {"set application_name = 'changed'"}, "show application_name"},
    {"client_encoding", {"set client_encoding = 'LATIN1'"}, "show client_encoding"},
    {"bytea_output", {"set bytea_output = 'escape'"}, "show bytea_output"},
    {"transaction",
     {"begin", "insert into public.kept values (1)"},
     "select count(*)::text from public.kept"},
    {"transaction_isolation",
     {"begin isolation level serializable", "set local work_mem = '88MB'"},
     "select current_setting('transaction_isolation') || current_setting('work_mem')"},
    {"failed_transaction",
     {"begin", "insert into public.kept values (1)", "select 1/0"},
     "select count(*)::text from public.kept"},
    {"role_in_transaction", {"begin", "set role clerk"}, "select current_user::text"},
    {"sequence",
     {"create temp sequence s", "select nextval('s')"},
     "select coalesce(to_regclass('s')::text, 'none')"},
};

/// Runs the statements and ignores errors of the server.
void do_all(connection& c, const habit& h) {
    for (const std::string& text : h.done) {
        try {
            c.execute(text);
        } catch (const statement_error& e) {
            ASSERT_EQ(text, "select 1/0") << e.what();
        }
    }
}

struct postgres_habit : postgres_session, testing::WithParamInterface<habit> {
    /// The second lease of a connection sees what the first one saw.
    static void check(const std::string& url, const std::function<void(connection&)>& reset) {
        connector to(url);
        connection c = to.open();
        int backend = backend_of(c);
        std::string before = c.execute(GetParam().seen).scalar<std::string>();
        do_all(c, GetParam());
        ASSERT_EQ(to.before_release(c), verdict::reset);
        reset(c);
        ASSERT_TRUE(to.before_acquire(c));
        EXPECT_FALSE(c.in_transaction());
        EXPECT_EQ(c.execute(GetParam().seen).scalar<std::string>(), before);
        EXPECT_EQ(backend_of(c), backend);
    }
};

TEST_P(postgres_habit, is_gone_for_the_next) {
    connector to(postgres_url());
    check(postgres_url(), [&](connection& c) { to.reset(c); });
}

TEST_P(postgres_habit, is_gone_for_the_next_awaited) {
    async_connector to(postgres_url());
    check(postgres_url(), [&](connection& c) { await(to.reset(c)); });
}

/// Each lease begins with the settings of the URL.
TEST_P(postgres_habit, gives_way_to_what_is_configured) {
    std::string url = postgres_url(
        "role=clerk&search_path=stock,%20public&timezone=Europe/Berlin&application_name=till");
    connector to(url);
    check(url, [&](connection& c) {
        to.reset(c);
        EXPECT_EQ(c.execute("select current_user::text").scalar<std::string>(), "clerk");
        EXPECT_EQ(c.execute("show search_path").scalar<std::string>(), "stock, public");
        EXPECT_EQ(c.execute("show timezone").scalar<std::string>(), "Europe/Berlin");
        EXPECT_EQ(c.execute("show application_name").scalar<std::string>(), "till");
        to.reset(c);
    });
}

INSTANTIATE_TEST_SUITE_P(all, postgres_habit, testing::ValuesIn(habits),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_F(postgres_session, nothing_is_reset_that_was_not_used) {
    connector to(postgres_url());
    connection c = to.open();
    EXPECT_EQ(to.before_release(c), verdict::keep);
    EXPECT_TRUE(to.probe(c));
    EXPECT_EQ(to.before_release(c), verdict::keep);
    c.execute("select 1");
    EXPECT_EQ(to.before_release(c), verdict::reset_later);
    to.reset(c);
    EXPECT_EQ(to.before_release(c), verdict::keep);
    c.native_handle();
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    EXPECT_THROW(c.execute("select $1::text", std::string(1, '\0')), std::invalid_argument);
    EXPECT_EQ(to.before_release(c), verdict::keep);  // nothing was sent
}

TEST_F(postgres_session, what_was_set_in_the_handle_ends_with_its_lease) {
    connector to(postgres_url());
    connection c = to.open();
    int heard = 0;
    PGconn* native = c.native_handle();
    PQsetNoticeReceiver(
        native, [](void* of, const PGresult*) { ++*static_cast<int*>(of); }, &heard);
    PQsetErrorVerbosity(native, PQERRORS_SQLSTATE);
    PQsetnonblocking(native, 0);
    const char* say = "do $$ begin raise notice 'heard'; end $$";
    c.execute(say);
    EXPECT_EQ(heard, 1);
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    c.execute(say);
    EXPECT_EQ(heard, 1);
    EXPECT_EQ(PQsetErrorVerbosity(native, PQERRORS_DEFAULT), PQERRORS_DEFAULT);
    EXPECT_EQ(PQisnonblocking(native), 1);
}

TEST_F(postgres_session, a_statement_ends_with_its_lease) {
    connector to(postgres_url());
    connection c = to.open();
    statement made = c.prepare("select 1");
    EXPECT_EQ(c.execute(made).scalar<int>(), 1);
    to.reset(c);
    EXPECT_THROW(c.execute(made), std::logic_error);
    EXPECT_THROW(await(c.async_execute(made)), std::logic_error);
    EXPECT_EQ(c.execute(c.prepare("select 2")).scalar<int>(), 2);
}

TEST_F(postgres_session, tags_are_believed_only_by_tag) {
    connector to(postgres_url("reset=by_tag"));
    connection c = to.open();
    auto becomes = [&](const char* text) {
        c.execute(text);
        verdict v = to.before_release(c);
        if (v == verdict::reset) to.reset(c);
        return v;
    };
    EXPECT_EQ(becomes("select 1"), verdict::keep);
    EXPECT_EQ(becomes("insert into public.kept select 1 where false"), verdict::keep);
    EXPECT_EQ(becomes("update public.kept set i = 2 where false"), verdict::keep);
    EXPECT_EQ(becomes("delete from public.kept where false"), verdict::keep);
    EXPECT_EQ(becomes("merge into public.kept k using (select 1 where false) s on false "
                      "when not matched then insert values (1)"),
              verdict::keep);
    for (const char* text :
         {"set work_mem = '9MB'", "create temp table t(i int)", "listen x", "",
          "create temp table t as select 1", "select 1 into temp t", "do $$ begin end $$", "begin",
          "declare c cursor with hold for select 1"})
        EXPECT_EQ(becomes(text), verdict::reset) << text;
    for (const char* text : {"begin", "select 1", "savepoint s", "rollback to s", "commit"})
        c.execute(text);
    EXPECT_EQ(to.before_release(c), verdict::keep);
    for (const char* text : {"begin", "set local work_mem = '9MB'", "commit"}) c.execute(text);
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    for (const char* text : {"begin", "select 1"}) c.execute(text);
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    EXPECT_FALSE(c.in_transaction());
    EXPECT_THROW(c.execute("select pg_advisory_lock(1), 1/0"), statement_error);
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    c.prepare("select 1");
    EXPECT_EQ(to.before_release(c), verdict::reset);
    to.reset(c);
    cursor rows = c.stream("select 1");
    while (rows.next()) {
    }
    EXPECT_EQ(to.before_release(c), verdict::keep);
}

TEST_F(postgres_session, a_pool_resets_between_leases) {
    pool<connection> one{connector{postgres_url()}, support::patient(1)};
    int backend = one.with([](connection& c) {
        c.execute("set my.tenant = 'acme'");
        c.execute("begin");
        c.execute("insert into public.kept values (5)");
        return backend_of(c);
    });
    one.with([&](connection& c) {
        EXPECT_EQ(backend_of(c), backend);
        EXPECT_EQ(c.execute("select current_setting('my.tenant', true)").scalar<std::string>(), "");
        EXPECT_EQ(c.execute("select count(*) from public.kept").scalar<int>(), 0);
    });
    for (int i = 0; i < 100; ++i) static_cast<void>(one.acquire());
    EXPECT_TRUE(support::eventually([&] { return one.stats().idle == 1; }));
    EXPECT_EQ(one.stats().opened, 1u);
}

TEST_F(postgres_session, a_role_of_the_database_stays) {
    the_postgres().execute_as_admin("alter role app set role = boss");
    connector to(postgres_url());
    connection c = to.open();
    EXPECT_EQ(c.execute("select current_user::text").scalar<std::string>(), "boss");
    c.execute("set role clerk");
    to.reset(c);
    EXPECT_EQ(c.execute("select current_user::text").scalar<std::string>(), "boss");
    the_postgres().execute_as_admin("alter role app reset role");
}

}  // namespace
}  // namespace cenote::postgres
