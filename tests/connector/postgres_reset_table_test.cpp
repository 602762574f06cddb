// All kinds of changes of a session, before all kinds of first operations of the next lease: none
// of the changes is seen. Without a reset, the same test sees them.
#include <functional>
#include <libpq-fe.h>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/postgres.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "connector/postgres_session.hpp"

namespace cenote::postgres {
namespace {

using support::await;
using support::postgres_url;
using support::the_postgres;

struct leftover {
    const char* name;
    std::vector<std::string> done;
    const char* seen;                  // a query that shows the change, as text
    bool passes_for_a_select = false;  // by_tag believes that it changes nothing
};

constexpr const char* locks =
    "select count(*)::text from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()";
constexpr const char* leftover_table = "select coalesce(to_regclass('leftover')::text, 'none')";
constexpr const char* prepared = "select count(*)::text from pg_prepared_statements where from_sql";
constexpr const char* channels = "select count(*)::text from pg_listening_channels()";
constexpr const char* held_cursors = "select count(*)::text from pg_cursors where is_holdable";
constexpr const char* rows_of_kept = "select count(*)::text from public.kept";
constexpr const char* memory = "select current_setting('work_mem')";
constexpr const char* encoding = "select current_setting('client_encoding')";
constexpr const char* read_only = "select current_setting('default_transaction_read_only')";
constexpr const char* isolation = "select current_setting('default_transaction_isolation')";
constexpr const char* numbers =
    "select coalesce((select lastval from public.last_value()), 0)::text";
constexpr bool as_select = true;

const std::vector<leftover> leftovers{
    {"set", {"set work_mem = '99MB'"}, memory},
    {"set_role", {"set role boss"}, "select current_user::text"},
    {"set_search_path", {"set search_path = sales"}, "select current_setting('search_path')"},
    {"set_own",
     {"set my.tenant = 'acme'"},
     "select coalesce(current_setting('my.tenant', true), '')"},
    {"set_encoding", {"set client_encoding = 'LATIN1'"}, encoding},
    {"set_read_only", {"set default_transaction_read_only = on"}, read_only},
    {"set_isolation",
     {"set session characteristics as transaction isolation level serializable"},
     isolation},
    {"prepare", {"prepare p as select 1"}, prepared},
    {"listen", {"listen news"}, channels},
    {"temp_table", {"create temp table leftover(i int)"}, leftover_table},
    {"temp_view", {"create temp view leftover as select 1"}, leftover_table},
    {"temp_sequence", {"create temp sequence leftover"}, leftover_table},
    {"create_as", {"create temp table leftover as select 1"}, leftover_table},
    {"select_into", {"select 1 into temp leftover"}, leftover_table},
    {"held_cursor", {"declare c cursor with hold for select 1"}, held_cursors},
    {"transaction", {"begin", "insert into public.kept values (1)"}, rows_of_kept},
    {"failed_transaction", {"begin", "select 1/0"}, rows_of_kept},
    {"set_in_transaction",
     {"begin isolation level serializable", "set local work_mem = '88MB'"},
     memory},
    {"error_after_lock", {"select pg_advisory_lock(4711), 1/(random() * 0)::int"}, locks},
    {"block", {"do $$ begin perform set_config('work_mem', '66MB', false); end $$"}, memory},
    {"set_config", {"select set_config('work_mem', '77MB', false)"}, memory, as_select},
    {"set_config_role",
     {"select set_config('role', 'boss', false)"},
     "select current_user::text",
     as_select},
    {"set_config_search_path",
     {"select set_config('search_path', 'sales', false)"},
     "select current_setting('search_path')",
     as_select},
    {"set_config_own",
     {"select set_config('my.tenant', 'acme', false)"},
     "select coalesce(current_setting('my.tenant', true), '')",
     as_select},
    {"set_config_encoding",
     {"select set_config('client_encoding', 'LATIN1', false)"},
     encoding,
     as_select},
    {"set_config_read_only",
     {"select set_config('default_transaction_read_only', 'on', false)"},
     read_only,
     as_select},
    {"set_config_isolation",
     {"select set_config('default_transaction_isolation', 'serializable', false)"},
     isolation,
     as_select},
    {"set_config_time_zone",
     {"select set_config('TimeZone', 'Asia/Tokyo', false)"},
     "select current_setting('TimeZone')",
     as_select},
    {"set_config_in_transaction",
     {"begin", "select set_config('work_mem', '77MB', false)", "commit"},
     memory,
     as_select},
    {"set_config_in_view", {"select * from public.setting"}, memory, as_select},
    {"advisory_lock", {"select pg_advisory_lock(4711)"}, locks, as_select},
    {"lock_in_function", {"select public.lock_it()"}, locks, as_select},
    {"lock_in_view", {"select * from public.locking"}, locks, as_select},
    {"lock_in_operator", {"select 1 operator(public.###) 1"}, locks, as_select},
    {"prepare_in_function", {"select public.do_it('prepare p as select 1')"}, prepared, as_select},
    {"listen_in_function", {"select public.do_it('listen news')"}, channels, as_select},
    {"temp_table_in_function",
     {"select public.do_it('create ' || 'tem' || 'p table leftover(i int)')"},
     leftover_table,
     as_select},
    {"held_cursor_in_function",
     {"select public.do_it('declare c cursor with hold for select 1')"},
     held_cursors,
     as_select},
    {"last_value", {"select nextval('public.numbers')"}, numbers, as_select},
};

void PrintTo(const leftover& l, std::ostream* out) { *out << l.name; }

// First operations of a lease. Each returns what it sees.

using first = std::function<std::string(connection&, const std::string&)>;

std::string by_handle(PGconn* handle, const std::string& text) {
    PQsetnonblocking(handle, 0);
    detail::result_ptr r(PQexec(handle, text.c_str()));
    if (PQresultStatus(r.get()) != PGRES_TUPLES_OK) return PQresultErrorMessage(r.get());
    return PQgetvalue(r.get(), 0, 0);
}

std::string all_of(cursor rows) {
    std::string seen;
    while (auto row = rows.next()) seen += row->get<std::string>(0);
    return seen;
}

std::string all_awaited(cursor rows) {
    std::string seen;
    while (auto row = await(rows.async_next())) seen += row->get<std::string>(0);
    return seen;
}

const std::map<std::string, first> firsts{
    {"query",
     [](connection& c, const std::string& t) { return c.execute(t).scalar<std::string>(); }},
    {"query awaited",
     [](connection& c, const std::string& t) {
         return await(c.async_execute(t)).scalar<std::string>();
     }},
    {"prepared",
     [](connection& c, const std::string& t) {
         statement s = c.prepare(t);
         return c.execute(s).scalar<std::string>();
     }},
    {"prepared awaited",
     [](connection& c, const std::string& t) {
         statement s = await(c.async_prepare(t));
         return await(c.async_execute(s)).scalar<std::string>();
     }},
    {"stream", [](connection& c, const std::string& t) { return all_of(c.stream(t)); }},
    {"stream awaited",
     [](connection& c, const std::string& t) { return all_awaited(await(c.async_stream(t))); }},
    {"transaction",
     [](connection& c, const std::string& t) {
         c.execute("begin");
         std::string seen = c.execute(t).scalar<std::string>();
         c.execute("commit");
         return seen;
     }},
    {"transaction awaited",
     [](connection& c, const std::string& t) {
         await(c.async_execute("begin"));
         std::string seen = await(c.async_execute(t)).scalar<std::string>();
         await(c.async_execute("commit"));
         return seen;
     }},
    {"handle", [](connection& c, const std::string& t) { return by_handle(c.native_handle(), t); }},
    {"handle awaited",
     [](connection& c, const std::string& t) {
         return by_handle(await(c.async_native_handle()), t);
     }},
};

/// Runs the statements and ignores errors: an earlier change may be in their way.
void leave(connection& c, const leftover& l, bool again) {
    for (const std::string& text : l.done) {
        try {
            c.execute(text);
        } catch (const statement_error& e) {
            ASSERT_TRUE(again || text.find("1/") != text.npos) << e.what();
        }
    }
}

struct postgres_leftover : testing::TestWithParam<leftover> {
    static void SetUpTestSuite() {
        static bool done = false;
        if (std::exchange(done, true)) return;
        the_postgres().execute_as_admin(
            "create role clerk; create role boss; grant clerk, boss to app;"
            "create schema sales authorization app; grant usage on schema sales to clerk, boss;"
            "create table public.kept(i int); grant all on public.kept to public;"
            "create sequence public.numbers; grant all on public.numbers to public;"
            "create function public.last_value(out lastval bigint) language plpgsql as "
            "$$ begin lastval := pg_catalog.lastval(); exception when others then "
            "lastval := null; end $$;"
            "create function public.lock_it() returns int language plpgsql stable as "
            "$$ begin perform pg_advisory_lock(4711); return 1; end $$;"
            "create view public.locking as select public.lock_it() as got;"
            "create function public.lock_both(int, int) returns int language plpgsql immutable as "
            "$$ begin perform pg_advisory_lock($1, $2); return 1; end $$;"
            "create operator public.### (leftarg = int, rightarg = int, function = lock_both);"
            "create function public.do_it(what text) returns int language plpgsql as "
            "$$ begin execute what; return 1; end $$;"
            "create view public.setting as select set_config('work_mem', '77MB', false);"
            "grant select on public.locking, public.setting to public");
    }

    /// Resets as a pool does, unless `resets` is off.
    static void release(connector& to, connection& c, bool resets) {
        verdict v = to.before_release(c);
        ASSERT_TRUE(v == verdict::keep || v == verdict::reset || v == verdict::reset_later);
        if (resets && v == verdict::reset) to.reset(c);
        ASSERT_TRUE(!resets || to.before_acquire(c));
    }

    /// The first operations that see the change.
    static std::vector<std::string> leaks(const std::string& parameters, bool resets = true) {
        const leftover& l = GetParam();
        connector to(postgres_url(parameters));
        connection c = to.open();
        std::string clean = c.execute(l.seen).scalar<std::string>();
        release(to, c, true);
        std::vector<std::string> found;
        bool again = !resets || GetParam().passes_for_a_select;
        for (const auto& [name, look] : firsts) {
            leave(c, l, again);
            release(to, c, resets);
            try {
                if (look(c, l.seen) != clean) found.push_back(name);
            } catch (const statement_not_run&) {
                c = to.open();  // a lost connection shows no change
            } catch (const statement_error&) {
                found.push_back(name);
            }
            release(to, c, resets);
        }
        return found;
    }
    static std::vector<std::string> all_firsts() {
        std::vector<std::string> all;
        for (const auto& each : firsts) all.push_back(each.first);
        return all;
    }
};

using found = std::vector<std::string>;

TEST_P(postgres_leftover, is_gone_with_the_next_request) { EXPECT_EQ(leaks(""), found{}); }
TEST_P(postgres_leftover, is_gone_where_statements_are_kept) {
    EXPECT_EQ(leaks("statement_cache=50"), found{});
}
TEST_P(postgres_leftover, is_gone_at_release) { EXPECT_EQ(leaks("reset=at_release"), found{}); }
TEST_P(postgres_leftover, is_gone_at_release_where_statements_are_kept) {
    EXPECT_EQ(leaks("reset=at_release&statement_cache=50"), found{});
}
TEST_P(postgres_leftover, is_there_if_tags_are_believed_and_lie) {
    EXPECT_EQ(leaks("reset=by_tag").empty(), !GetParam().passes_for_a_select);
}
/// Shows that the test would notice.
TEST_P(postgres_leftover, is_there_if_nothing_is_reset) {
    EXPECT_EQ(leaks("reset=by_tag", false), all_firsts());
}

INSTANTIATE_TEST_SUITE_P(all, postgres_leftover, testing::ValuesIn(leftovers),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace cenote::postgres
