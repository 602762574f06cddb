// Sessions of PostgreSQL as options::on_open sets them up.
#include <array>
#include <libpq-fe.h>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/postgres.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sql_on_open.hpp"

namespace cenote::postgres {
namespace {

using on_open_test::blocking_with;
using on_open_test::steps;
using support::postgres_url;
using support::the_postgres;

struct postgres_case : support::postgres_place {
    using options = postgres::options;

    static constexpr const char* look =
        "select concat_ws(' ', current_setting('statement_timeout'), current_setting('my.tenant'), "
        "current_setting('timezone'), current_user)";
    static constexpr const char* seen = "77s acme\\ & 'sons' Asia/Tokyo clerk";

    static steps set_up() {
        return {{"set statement_timeout = '77s'"},
                {"select set_config('my.tenant', $1, false)", "acme\\ & 'sons'"},
                {"set timezone = 'Asia/Tokyo' -- and a comment"},
                {"set role clerk"}};
    }
    static steps set_up_again() { return {{"set statement_timeout = '77s'"}}; }

    static constexpr std::array changes_in_a_transaction{"set statement_timeout = '1h'",
                                                         "set my.tenant = 'other'"};

    static std::vector<std::string> changes(int i) {
        if (i % 3 == 0) return {};
        if (i % 3 == 1) return {"set statement_timeout = '1h'", "set timezone = 'UTC'"};
        return {"set my.tenant = 'other'", "reset role", "reset all", "discard all"};
    }
    static options plain(reset_mode how = reset_mode::with_next, std::size_t cache = 0) {
        the_postgres().execute_as_admin(
            "do $$ begin if not exists (select from pg_roles where rolname = 'clerk') then "
            "create role clerk; grant clerk to app; end if; end $$");
        options o = options::from_url(postgres_url());
        o.reset = how;
        o.statement_cache = cache;
        return o;
    }
    static options through(support::gate& gate) {
        options o = plain();
        o.hosts.front().port = gate.port();
        return o;
    }
};

/// With temporary tables, of which leases change the rows.
struct with_table : postgres_case {
    static constexpr const char* look =
        "select string_agg(i::text || ' ' || name, ', ' order by i) from cached";
    static constexpr const char* seen = "1 one, 2 two";

    static steps set_up() {
        return {{"create temp table cached(i int, name text)"},
                {"insert into cached values (1, 'one')"},
                {"insert into cached select 2, $1", "two"}};
    }
    static constexpr std::array changes_in_a_transaction{"update cached set i = i + 1",
                                                         "drop table cached"};
    static std::vector<std::string> changes(int i) {
        if (i % 3 == 0) return {};
        if (i % 3 == 1) return {"insert into cached values (7, 'x')", "set work_mem = '1MB'"};
        return {"drop table cached", "create temp table cached(i int)"};
    }
};

class postgres_on_open : public testing::TestWithParam<reset_mode> {};

TEST_P(postgres_on_open, is_found_by_every_lease) {
    for (std::size_t cache : {0u, 10u})
        on_open_test::every_lease_finds_what_it_sets<postgres_case>(
            postgres_case::plain(GetParam(), cache));
}

TEST_P(postgres_on_open, makes_temporary_tables) {
    on_open_test::every_lease_finds_what_it_sets<with_table>(with_table::plain(GetParam()));
    on_open_test::every_lease_finds_what_it_sets<with_table>(with_table::plain(GetParam(), 10));
    settings::leases_after_errors_find_them<with_table>(
        blocking_with<with_table>(with_table::plain(GetParam()), with_table::set_up()));
}

TEST_P(postgres_on_open, is_found_by_the_statements_of_a_database) {
    on_open_test::statements_of_a_database_find_what_it_sets<postgres_case>(
        postgres_case::plain(GetParam()));
}

TEST_P(postgres_on_open, keeps_leases_from_running_if_it_cannot_be_repeated) {
    steps all = postgres_case::set_up();
    all.insert(all.begin(), {"select * from public.source"});
    on_open_test::no_lease_runs_without_it<postgres_case>(
        blocking_with<postgres_case>(postgres_case::plain(GetParam()), all),
        GetParam() == reset_mode::by_tag ? "set work_mem = '1MB'" : "select 1", [](bool there) {
            the_postgres().execute_as_admin(
                there ? "create table if not exists public.source(i int); "
                        "grant select on public.source to public"
                      : "drop table if exists public.source");
        });
}

INSTANTIATE_TEST_SUITE_P(modes, postgres_on_open,
                         testing::Values(reset_mode::with_next, reset_mode::at_release,
                                         reset_mode::by_tag));

TEST(postgres_on_open, is_called_once_for_each_connection) {
    on_open_test::it_is_called_once_for_each_connection<postgres_case>(postgres_case::plain());
}

TEST(postgres_on_open, costs_no_round_trip) {
    support::gate gate(the_postgres().port());
    on_open_test::its_repetition_costs_no_round_trip<postgres_case>(postgres_case::through(gate),
                                                                    gate);
}

TEST(postgres_on_open, is_refused_what_cannot_be_repeated) {
    using all = std::vector<on_open_test::attempt<postgres_case>>;
    std::vector<int> rows{1, 2};
    auto setup = std::make_shared<sql::lease_setup>();
    setup->role = "clerk";
    on_open_test::it_is_refused<postgres_case>(
        postgres_case::plain(),
        all{{"prepare", [](connection& c) { c.prepare("select 1"); }},
            {"stream", [](connection& c) { c.stream("select 1"); }},
            {"execute_many", [&](connection& c) { c.execute_many("select $1::int", rows); }},
            {"batch",
             [](connection& c) {
                 sql::batch one;
                 one.add("select 1");
                 c.execute(one);
             }},
            {"COPY", [](connection& c) { c.copy_out("copy (select 1) to stdout"); }},
            {"handle", [](connection& c) { c.native_handle(); }},
            {"only_read", [](connection& c) { c.only_read(); }},
            {"use", [&](connection& c) { c.use(setup); }},
            {"receiver", [](connection& c) { c.receiver(); }},
            {"BEGIN", [](connection& c) { c.execute("begin"); }},
            {"COMMIT", [](connection& c) { c.execute("commit"); }},
            {"LISTEN", [](connection& c) { c.execute("listen news"); }},
            {"PREPARE", [](connection& c) { c.execute("prepare p as select 1"); }},
            {"too much", [](connection& c) {
                 std::string long_text = "set my.text = '" + std::string(1000, 'x') + "'";
                 for (int i = 0; i < 100; ++i) c.execute(long_text);
             }}});
}

TEST(postgres_on_open, fails_the_open_if_it_cannot_be_repeated) {
    the_postgres().execute_as_admin("grant create on schema public to app");
    for (const char* once :
         {"create table public.unique_one(i int)", "vacuum pg_catalog.pg_class"}) {
        on_open_test::it_fails_the_open_if_it_cannot_be_repeated<postgres_case>(
            blocking_with<postgres_case>(postgres_case::plain(), {{once}}));
    }
    the_postgres().execute_as_admin("drop table public.unique_one");
}

TEST(postgres_on_open, fails_the_open_with_its_exception) {
    on_open_test::its_exception_fails_the_open<postgres_case>(postgres_case::plain());
    on_open_test::a_pool_tells_its_exception<postgres_case>();
}

TEST(postgres_on_open, fails_if_the_connection_is_killed) {
    on_open_test::a_killed_connection_fails_the_open<postgres_case>();
}

TEST(postgres_on_open, fails_wherever_it_is_cut_off) {
    support::gate gate(the_postgres().port());
    on_open_test::it_fails_wherever_it_is_cut_off<postgres_case>(postgres_case::through(gate),
                                                                 gate);
}

TEST(postgres_on_open, can_be_canceled_at_every_step) {
    support::gate gate(the_postgres().port());
    on_open_test::it_can_be_canceled_at_every_step<postgres_case>(postgres_case::through(gate),
                                                                  gate);
}

TEST(postgres_on_open, that_hangs_times_out) {
    on_open_test::an_awaited_function_that_hangs_times_out<postgres_case>();
    on_open_test::a_statement_that_hangs_times_out<postgres_case>("select pg_sleep(600)");
}

TEST(postgres_on_open, that_hangs_is_left_behind) {
    on_open_test::a_pool_abandons_functions_that_hang<postgres_case>();
    on_open_test::a_canceled_open_leaves_its_function_behind<postgres_case>();
}

TEST(postgres_on_open, is_refused_behind_a_pooler) {
    support::pgbouncer_server bouncer(the_postgres(), {.pool_size = 1});
    options o = blocking_with<postgres_case>(postgres_case::plain(), postgres_case::set_up());
    o.hosts.front().port = bouncer.port();
    for (reset_mode how : {reset_mode::with_next, reset_mode::at_release}) {
        o.reset = how;
        try {
            connector{o}.open();
            ADD_FAILURE() << "opened";
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::final);
            EXPECT_THAT(e.what(), testing::HasSubstr("direct connection"));
        }
    }
}

/// A server that is told not to write by its session is no standby.
TEST(postgres_on_open, that_forbids_writes_is_no_demotion) {
    the_postgres().execute_as_admin(
        "create table if not exists public.forbidden (at int); grant all on public.forbidden to "
        "app");
    for (bool forbids : {false, true}) {
        const char* text = forbids ? "set default_transaction_read_only = on" : "select 1";
        connector to(blocking_with<postgres_case>(postgres_case::plain(), {{text}}));
        connection c = to.open();
        for (int i = 0; i < 3; ++i) {
            if (forbids) {
                EXPECT_THROW(c.execute("insert into public.forbidden values (1)"), statement_error);
            } else {
                c.execute("insert into public.forbidden values (1)");
            }
            EXPECT_NE(to.before_release(c), verdict::suspect);
            to.reset(c);
        }
    }
    the_postgres().execute_as_admin("drop table public.forbidden");
}

/// The types and the path of kept statements are those of the set-up session.
TEST(postgres_on_open, goes_with_kept_statements) {
    the_postgres().execute_as_admin(
        "create schema if not exists sales; create table if not exists sales.thing as select 5 n; "
        "grant usage on schema sales to app; grant select on sales.thing to app");
    cenote::pool<connection> one{
        connector{blocking_with<postgres_case>(
            postgres_case::plain(reset_mode::with_next, 10),
            {{"set search_path = sales"}, {"set timezone = 'Asia/Tokyo'"}})},
        support::patient(1)};
    const char* kept =
        "select count(*)::int from pg_prepared_statements where statement like "
        "'select n from thing%'";
    for (int i = 0; i < 6; ++i)
        EXPECT_EQ(one.acquire()->execute("select n from thing").scalar<int>(), 5);
    EXPECT_EQ(one.acquire()->execute(kept).scalar<int>(), 1);
    EXPECT_EQ(one.stats().opened, 1u);
    the_postgres().execute_as_admin("drop schema sales cascade");
}

}  // namespace
}  // namespace cenote::postgres
