// Errors of PostgreSQL, their kinds and texts, and what a pool does after them.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "support/gate.hpp"
#include "support/no_such_host.hpp"
#include "support/patience.hpp"
#include "support/time_lapse.hpp"

namespace cenote::postgres {
namespace {

using namespace std::chrono_literals;
using support::await;
using support::canary_password;
using support::eventually;
using support::postgres_url;
using support::the_postgres;
using testing::HasSubstr;
using testing::Not;

struct told {
    error_kind kind = error_kind::statement;
    std::string sqlstate;
    std::string text;
};

/// What a call throws. The text must never contain the password.
template <class Call>
told failure_of(Call&& call) {
    try {
        call();
    } catch (const server_error& e) {
        EXPECT_THAT(e.what(), Not(HasSubstr(canary_password)));
        return {e.kind(), std::string(e.sqlstate()), e.what()};
    }
    ADD_FAILURE() << "it went well";
    return {};
}

told failure_to_open(const options& o) {
    told blocking = failure_of([&] { connector{o}.open(); });
    told awaited = failure_of([&] { await(async_connector{o}.open()); });
    EXPECT_EQ(blocking.kind, awaited.kind);
    EXPECT_EQ(blocking.text, awaited.text);
    return awaited;
}

options good() { return options::from_url(postgres_url()); }

TEST(postgres_error, of_a_statement_harms_nothing) {
    connector to(postgres_url());
    connection c = to.open();
    c.execute("create temp table t(i int primary key)");
    c.execute("insert into t values (1)");
    struct wrong {
        const char* text;
        const char* sqlstate;
    };
    for (const wrong& w :
         {wrong{"selec 1", "42601"}, wrong{"select 1/0", "22012"},
          wrong{"insert into t values (1)", "23505"}, wrong{"select * from pg_authid", "42501"},
          wrong{"select * from nowhere", "42P01"},
          wrong{"do $$ begin raise exception 'x' using errcode = '08006'; end $$", "08006"}}) {
        told t = failure_of([&] { c.execute(w.text); });
        EXPECT_EQ(t.kind, error_kind::statement);
        EXPECT_EQ(t.sqlstate, w.sqlstate) << t.text;
        EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
    }
    told t = failure_of([&] { c.execute("insert into t values (1)"); });
    EXPECT_EQ(t.text,
              "cenote: PostgreSQL: duplicate key value violates unique constraint \"t_pkey\" "
              "(Key (i)=(1) already exists.) [23505]");
    told late = failure_of([&] {
        c.execute("set statement_timeout = '20ms'");
        c.execute("select pg_sleep(10)");
    });
    EXPECT_EQ(late.sqlstate, "57014");
    EXPECT_EQ(late.kind, error_kind::statement);
    EXPECT_EQ(to.before_release(c), verdict::reset);
}

/// Demotes a server without ending its connections, as administrators do.
struct demoted {
    demoted() { set("alter system set default_transaction_read_only = on"); }
    ~demoted() { set("alter system reset default_transaction_read_only"); }
    demoted(const demoted&) = delete;
    demoted& operator=(const demoted&) = delete;

    static void set(const char* what) {
        the_postgres().execute_as_admin(what);
        the_postgres().execute_as_admin("select pg_reload_conf()");
    }
    /// The processes of the server notice it one by one.
    static bool is_known_to(connection& c) {
        return eventually([&] {
            return c.execute("show default_transaction_read_only").scalar<std::string>() == "on";
        });
    }
};

TEST(postgres_error, of_a_server_that_no_longer_writes_is_suspect) {
    connector to(postgres_url("reset=by_tag"));
    connection c = to.open();
    demoted server;
    ASSERT_TRUE(demoted::is_known_to(c));
    c.execute("discard all");  // drops the settings of this session
    to.reset(c);
    told t = failure_of([&] { c.execute("create table t(i int)"); });
    EXPECT_EQ(t.kind, error_kind::suspect);
    EXPECT_EQ(t.sqlstate, "25006");
    EXPECT_EQ(to.before_release(c), verdict::suspect);
    EXPECT_THROW(c.execute("select 1"), connection_error);
}

TEST(postgres_error, of_a_server_meant_for_reading_concerns_the_statement) {
    for (const char* role : {"prefer-standby", "read-only"}) {
        demoted server;
        connector to(postgres_url(std::string("target_session_attrs=") + role));
        std::optional<connection> c;
        ASSERT_TRUE(eventually([&] {
            try {
                c.emplace(to.open());
                return demoted::is_known_to(*c);
            } catch (const connection_error&) {
                return false;  // not demoted yet
            }
        }));
        to.reset(*c);
        told t = failure_of([&] { c->execute("create table t(i int)"); });
        EXPECT_EQ(t.kind, error_kind::statement) << role;
        EXPECT_EQ(t.sqlstate, "25006");
        EXPECT_EQ(c->execute("select 1").scalar<int>(), 1);
    }
}

TEST(postgres_error, of_a_session_that_does_not_write_says_nothing_about_the_server) {
    connector to(postgres_url());
    connection c = to.open();
    c.execute("set session characteristics as transaction read only");
    told t = failure_of([&] { c.execute("create table t(i int)"); });
    EXPECT_EQ(t.kind, error_kind::statement);
    EXPECT_EQ(t.sqlstate, "25006");
    EXPECT_EQ(to.before_release(c), verdict::reset);
}

TEST(postgres_error, of_a_transaction_that_does_not_write_says_nothing_about_the_server) {
    connector to(postgres_url());
    connection c = to.open();
    c.execute("begin read only");
    told t = failure_of([&] { c.execute("create table t(i int)"); });
    EXPECT_EQ(t.kind, error_kind::statement);
    EXPECT_EQ(t.sqlstate, "25006");
    c.execute("rollback");
    EXPECT_EQ(c.execute("select 1").scalar<int>(), 1);
    EXPECT_EQ(to.before_release(c), verdict::reset);
}

TEST(postgres_error, of_a_server_that_ends_the_connection_is_suspect) {
    connector to(postgres_url());
    connection c = to.open();
    std::thread killer([] {
        EXPECT_TRUE(eventually([] {
            return the_postgres().execute_as_admin(
                       "select count(*) from pg_stat_activity where wait_event = 'PgSleep'") ==
                   "1\n";
        }));
        the_postgres().kill_backends();
    });
    told t = failure_of([&] { c.execute("select pg_sleep(60)"); });
    killer.join();
    EXPECT_EQ(t.kind, error_kind::suspect);
    EXPECT_EQ(t.sqlstate, "57P01");
    EXPECT_EQ(to.before_release(c), verdict::suspect);
}

TEST(postgres_error, of_a_lost_socket_concerns_the_connection) {
    support::gate gate(the_postgres().port());
    connector to(postgres_url(gate.port()));
    connection c = to.open();
    gate.reset_all();
    told t = failure_of([&] { c.execute("select 1"); });
    EXPECT_EQ(t.kind, error_kind::connection);
    EXPECT_EQ(to.before_release(c), verdict::discard);
}

TEST(postgres_error, at_open_is_final_if_a_retry_is_useless) {
    options o = good();
    o.password = secret("not-it");
    told t = failure_to_open(o);
    EXPECT_EQ(t.kind, error_kind::final);
    EXPECT_EQ(t.sqlstate, "28P01");
    EXPECT_THAT(t.text, HasSubstr("password authentication failed for user \"app\""));
    EXPECT_THAT(t.text, Not(HasSubstr("not-it")));
    o.password = {};
    EXPECT_EQ(failure_to_open(o).kind, error_kind::final);

    o = good();
    o.database = "elsewhere";
    EXPECT_EQ(failure_to_open(o).sqlstate, "3D000");
    EXPECT_EQ(failure_to_open(o).kind, error_kind::final);
    o = good();
    o.role = "unknown";
    EXPECT_EQ(failure_to_open(o).kind, error_kind::final);
    o = good();
    o.search_path = "a,\"b";
    EXPECT_EQ(failure_to_open(o).kind, error_kind::final);
    o = good();
    o.tls = tls_mode::require;
    EXPECT_EQ(failure_to_open(o).kind, error_kind::final);
    o = good();
    o.channel_binding = channel_binding::require;
    EXPECT_EQ(failure_to_open(o).kind, error_kind::final);
    o = good();
    o.hosts.front().name = support::no_such_host;
    EXPECT_NE(failure_to_open(o).kind, error_kind::statement);
}

TEST(postgres_error, at_open_is_transient_if_it_may_pass) {
    options o = good();
    support::gate gate(the_postgres().port());
    gate.refuse();
    o.hosts.front().port = gate.port();
    EXPECT_EQ(failure_to_open(o).kind, error_kind::transient);
    o.hosts.front().name = "/nowhere";
    EXPECT_EQ(failure_to_open(o).kind, error_kind::transient);
    o = good();
    o.role_of_server = server_role::standby;
    EXPECT_EQ(failure_to_open(o).kind, error_kind::transient);
}

TEST(postgres_error, does_not_show_a_password_that_the_server_shows) {
    options o = good();
    o.database = canary_password;
    told t = failure_to_open(o);
    EXPECT_EQ(t.kind, error_kind::final);
    EXPECT_THAT(t.text, HasSubstr("hidden"));
}

TEST(postgres_role, is_checked_by_the_probe) {
    options o = good();
    o.role_of_server = server_role::read_write;
    connector writes(o);
    connection c = writes.open();
    o.role_of_server = server_role::primary;
    connector leads(o);
    connection d = leads.open();
    connection e = connector{good()}.open();
    EXPECT_TRUE(writes.probe(c) && leads.probe(d) && leads.probe(e));
    auto set = [](const char* how) {
        the_postgres().execute_as_admin(std::string("alter system ") + how, "postgres");
        the_postgres().execute_as_admin("select pg_reload_conf()", "postgres");
    };
    set("set default_transaction_read_only = on");
    EXPECT_TRUE(eventually([&] { return !writes.probe(c); }));
    EXPECT_FALSE(
        await(async_connector{o}.probe(c)));  // the role for which the connection was opened
    EXPECT_TRUE(leads.probe(d) && leads.probe(e));
    EXPECT_EQ(writes.before_release(c), verdict::keep);
    set("reset default_transaction_read_only");
    EXPECT_TRUE(eventually([&] { return writes.probe(c); }));
}

// Through a pool.

TEST(postgres_pool, with_a_wrong_password_gives_up_at_once) {
    support::gate gate(the_postgres().port());
    options o = good();
    o.hosts.front().port = gate.port();
    o.password = secret("not-it");
    pool<connection> p{connector{o}, {.max = 4, .acquire_timeout = support::plenty}};
    try {
        static_cast<void>(p.acquire());
        FAIL();
    } catch (const open_failed_error& e) {
        EXPECT_THAT(e.what(), HasSubstr("password authentication failed"));
        EXPECT_THAT(e.what(), Not(HasSubstr("not-it")));
    }
    EXPECT_LE(gate.accepted(), 2u);
}

TEST(postgres_pool, beyond_the_limit_of_the_server_waits) {
    support::stopped_clock time;
    support::postgres_server small({.max_connections = 3});
    support::gate gate(small.port());
    // Turns would set a released connection aside until the clock moves.
    pool<connection> p{connector{postgres_url(gate.port())},
                       {.max = 6, .acquire_timeout = 1h, .fairness = fairness::strict}};
    std::vector<lease<connection>> held;
    for (int i = 0; i < 3; ++i) held.push_back(p.acquire());
    auto refused = p.stats().open_failed;
    std::atomic<bool> served{false};
    std::thread fourth([&] {
        auto lease = p.acquire();
        EXPECT_EQ(lease->execute("select 4").scalar<int>(), 4);
        served = true;
    });
    auto tried = [&](std::uint64_t times) {
        return [&, times] { return p.stats().open_failed >= refused + times; };
    };
    EXPECT_TRUE(support::time_passes_in_line(time, p, tried(2)));
    // One after the other, with growing pauses; none while the clock stands still.
    std::size_t before = gate.accepted();
    EXPECT_TRUE(support::for_a_while([&] { return gate.accepted() <= before + 1; }));
    auto end = std::chrono::steady_clock::now() + 500ms;
    auto later = [&] { return std::chrono::steady_clock::now() >= end; };
    EXPECT_TRUE(support::time_passes_in_line(time, p, later));
    EXPECT_LE(gate.accepted() - before, 10u);
    for (auto& lease : held) EXPECT_EQ(lease->execute("select 1").scalar<int>(), 1);
    EXPECT_FALSE(served);
    told t = failure_of([&] { connector{postgres_url(small.port())}.open(); });
    EXPECT_EQ(t.kind, error_kind::transient);
    EXPECT_EQ(t.sqlstate, "53300");
    held.pop_back();
    fourth.join();
    EXPECT_TRUE(served);
}

}  // namespace
}  // namespace cenote::postgres
