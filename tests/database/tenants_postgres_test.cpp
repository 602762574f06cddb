// Roles and settings of one lease on PostgreSQL, with row-level security: each lease tries to read
// the rows of another tenant.
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "cenote/pool.hpp"
#include "cenote/postgres.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "database/canceling.hpp"
#include "database/forms.hpp"
#include "support/clock.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace cenote::conformance {
namespace {

using namespace std::chrono_literals;
using support::eventually;
using support::postgres_url;
using support::the_postgres;

/// The policy of `deed` depends on the role, that of `letter` on a setting.
constexpr const char* schema = R"(
    do $$ declare r text; begin
      foreach r in array array['tenant_a', 'tenant_b'] loop
        if not exists (select from pg_roles where rolname = r) then
          execute 'create role ' || r || ' nologin';
        end if;
        execute 'grant ' || r || ' to app';
      end loop;
    end $$;
    alter role app noinherit;
    drop table if exists public.deed, public.letter;
    create table public.deed(tenant text, n int);
    create table public.letter(tenant text, n int);
    insert into public.deed select t, n
      from unnest(array['tenant_a', 'tenant_b']) t, generate_series(1, 3) n;
    insert into public.letter table public.deed;
    alter table public.deed enable row level security;
    alter table public.letter enable row level security;
    create policy own on public.deed using (tenant = current_user);
    create policy own on public.letter using (tenant = current_setting('app.tenant', true));
    grant select, insert, update, delete on public.deed, public.letter
      to app, tenant_a, tenant_b;)";

/// Reads all rows it can: whose they are and how many.
constexpr const char* look =
    "SELECT coalesce(string_agg(DISTINCT tenant, '+'), 'none') || ' ' || count(*) FROM deed";
constexpr const char* look_at_letters =
    "SELECT coalesce(string_agg(DISTINCT tenant, '+'), 'none') || ' ' || count(*) FROM letter";

const std::array<std::string, 2> tenants{"tenant_a", "tenant_b"};

database_view as(database& db, const std::string& tenant) {
    return db.with({.role = tenant, .settings = {{"app.tenant", tenant}}});
}

template <class Form, class On>
std::string seen(On& on, const char* text = look) {
    return Form::run(on, text)[0].template get<std::string>(0);
}

/// What a tenant sees.
std::string own(const std::string& tenant) { return tenant + " 3"; }

template <class Form>
void expect_no_tenant(database& db) {
    EXPECT_EQ(seen<Form>(db), "none 0");
    EXPECT_EQ(seen<Form>(db, look_at_letters), "none 0");
    EXPECT_EQ(Form::run(db, "SELECT current_user::text")[0].template get<std::string>(0), "app");
}

template <class Form, class On>
void expect_only(On& on, const std::string& tenant) {
    EXPECT_EQ(seen<Form>(on), own(tenant));
    EXPECT_EQ(seen<Form>(on, look_at_letters), own(tenant));
}

// What a lease of a tenant does first.

template <class Form>
using use = std::function<void(database_view&, const std::string& tenant)>;

template <class Form>
std::vector<std::pair<const char*, use<Form>>> uses_of_scopes() {
    using std::string;
    return {
        {"statement", [](database_view& v, const string& t) { expect_only<Form>(v, t); }},
        {"failing statement",
         [](database_view& v, const string& t) {
             EXPECT_THROW(Form::run(v, "SELECT 1/0"), statement_error);
             EXPECT_EQ(seen<Form>(v), own(t));
         }},
        {"scope",
         [](database_view& v, const string& t) {
             auto s = v.scope();
             expect_only<Form>(s, t);
             Form::run(s, "SET work_mem = '1MB'");
             expect_only<Form>(s, t);
         }},
        {"scope whose first statement fails",
         [](database_view& v, const string& t) {
             auto s = v.scope();
             EXPECT_THROW(Form::run(s, "SELECT 1/0"), statement_error);
             expect_only<Form>(s, t);
         }},
        {"scope whose first statement cannot be parsed",
         [](database_view& v, const string& t) {
             auto s = v.scope();
             EXPECT_THROW(Form::run(s, "SELEKT"), statement_error);
             expect_only<Form>(s, t);
         }},
        {"BEGIN and ROLLBACK",
         [](database_view& v, const string& t) {
             auto s = v.scope();
             Form::run(s, "BEGIN");
             expect_only<Form>(s, t);
             Form::run(s, "ROLLBACK");
             expect_only<Form>(s, t);
         }},
    };
}

template <class Form>
std::vector<std::pair<const char*, use<Form>>> other_uses() {
    using std::string;
    return {
        {"transaction that is rolled back",
         [](database_view& v, const string& t) {
             auto s = v.scope();
             {
                 transaction in = Form::begin(s);
                 expect_only<Form>(in, t);
                 Form::rollback(in);
             }
             expect_only<Form>(s, t);
         }},
        {"transaction that fails",
         [](database_view& v, const string& t) {
             auto s = v.scope();
             {
                 transaction in = Form::begin(s);
                 EXPECT_THROW(Form::run(in, "SELECT 1/0"), statement_error);
             }
             expect_only<Form>(s, t);
         }},
        {"transaction",
         [](database_view& v, const string& t) {
             Form::in_transaction(v, [&](transaction& in) { expect_only<Form>(in, t); });
         }},
        {"VACUUM",
         [](database_view& v, const string& t) {
             auto s = v.scope();
             // Only a warning: the table belongs to another role.
             Form::run(s, "VACUUM deed");
             expect_only<Form>(s, t);
         }},
        {"rows",
         [](database_view& v, const string& t) {
             sql::cursor rows = Form::stream(v, "SELECT tenant FROM deed");
             int count = 0;
             while (auto row = Form::next(rows)) {
                 EXPECT_EQ(row->template get<string>(0), t);
                 ++count;
             }
             EXPECT_EQ(count, 3);
         }},
        {"rows that are not read",
         [](database_view& v, const string& t) {
             sql::cursor rows = Form::stream(v, "SELECT tenant FROM deed");
             EXPECT_EQ(Form::next(rows)->template get<string>(0), t);
         }},
        {"parameter",
         [](database_view& v, const string& t) {
             auto found = Form::run(v, "SELECT tenant FROM deed WHERE n = ?", 2);
             ASSERT_EQ(found.size(), 1u);
             EXPECT_EQ(found[0].template get<string>(0), t);
         }},
        {"write",
         [](database_view& v, const string& t) {
             EXPECT_EQ(Form::run(v, "UPDATE deed SET n = n").affected(), 3u);
             const string& other = t == tenants[0] ? tenants[1] : tenants[0];
             EXPECT_THROW(Form::run(v, "INSERT INTO deed VALUES (?, 4)", other), statement_error);
         }},
    };
}

template <class Form>
std::vector<std::pair<const char*, use<Form>>> uses_of_many() {
    using std::string;
    return {
        {"many rows",
         [](database_view& v, const string& t) {
             // Each row sees three of the tenant, and none of the others.
             std::vector<string> all(5, t);
             const char* text = "UPDATE deed SET n = n WHERE tenant <> ? OR n > 0";
             EXPECT_EQ(v.execute_many(text, all), 15u);
         }},
        {"batch",
         [](database_view& v, const string& t) {
             sql::batch both;
             both.add(look).add(look_at_letters);
             auto all = v.execute(both);
             for (const sql::result& each : all) EXPECT_EQ(each[0].template get<string>(0), own(t));
         }},
        {"COPY",
         [](database_view& v, const string& t) {
             sql::copy_out rows = v.copy_out("COPY (SELECT tenant FROM deed) TO STDOUT");
             string seen;
             while (auto some = rows.next()) seen += *some;
             EXPECT_EQ(seen, t + "\n" + t + "\n" + t + "\n");
         }},
    };
}

template <class Form>
auto uses() {
    auto all = uses_of_scopes<Form>();
    for (auto& each : other_uses<Form>()) all.push_back(std::move(each));
    for (auto& each : uses_of_many<Form>()) all.push_back(std::move(each));
    return all;
}

struct tenants_postgres : testing::Test {
    static void SetUpTestSuite() { the_postgres().execute_as_admin(schema); }
    static void TearDownTestSuite() { the_postgres().execute_as_admin("alter role app inherit"); }

    static database open(std::size_t size, database_options how = {},
                         const std::string& parameters = "") {
        how.pool = support::patient(size);
        return database(postgres_url(parameters), how);
    }

    template <class Form>
    static void expect_apart(database& db) {
        for (const auto& [name, use] : uses<Form>()) {
            SCOPED_TRACE(name);
            for (const std::string& tenant : tenants) {
                for (int again = 0; again < 3; ++again) {
                    database_view view = as(db, tenant);
                    use(view, tenant);
                }
                expect_no_tenant<Form>(db);
            }
        }
    }
};

TEST_F(tenants_postgres, see_only_their_own_rows) {
    database db = open(1);
    expect_apart<blocking>(db);
    expect_apart<awaited>(db);
    EXPECT_LE(db.stats().opened, 60u);  // rows that are not read cost a connection
}

TEST_F(tenants_postgres, see_only_their_own_rows_in_each_mode_of_reset) {
    database trusting = open(1, {.trust_statements = true});
    expect_apart<blocking>(trusting);
    expect_apart<awaited>(trusting);
    database uncached = open(1, {.statement_cache = 0});
    expect_apart<blocking>(uncached);
    database at_release = open(1, {}, "reset=at_release");
    expect_apart<blocking>(at_release);
}

/// `check` is given what a statement can run on.
void use_at_random(database_view& view, const std::string& tenant, std::mt19937& dice,
                   const auto& check) {
    switch (dice() % 6) {
        case 0: check(view); break;
        case 1: {
            transaction t = view.begin();
            check(t);
            if (dice() % 2 == 0) t.commit();
            break;
        }
        case 2: {
            auto s = view.scope({.keeps_session = dice() % 2 == 0});
            for (int k = 0; k < 3; ++k) check(s);
            break;
        }
        case 3: {
            auto s = view.scope();
            try {
                s.execute("SELECT 1/0");
            } catch (const statement_error&) {
                check(s);
            }
            break;
        }
        case 4: {
            auto s = view.scope();
            s.execute("BEGIN");
            if (dice() % 2 == 0) s.execute("ROLLBACK");
            check(s);
            break;
        }
        default: {
            sql::cursor rows = view.stream("SELECT tenant FROM deed");
            EXPECT_EQ(rows.next()->get<std::string>(0), tenant);
        }
    }
}

/// As often as CENOTE_TENANT_LEASES says; with kills.
TEST_F(tenants_postgres, see_only_their_own_rows_at_random) {
    const char* often = std::getenv("CENOTE_TENANT_LEASES");
    int left = often == nullptr ? (support::slowly ? 1000 : 10'000) : std::atoi(often);
    std::array<boost::asio::io_context, 2> loops;  // the threads of the database post to them
    database db = open(2);
    database killer = open(1);
    auto work = [&](unsigned seed, int count) {
        std::mt19937 dice(seed);
        boost::asio::io_context& loop = loops.at(seed);
        std::vector<std::string> found;
        for (int i = 0; i < count; ++i) {
            const std::string tenant = dice() % 3 == 0 ? "" : tenants[dice() % 2];
            database_view view = as(db, tenant.empty() ? tenants[0] : tenant);
            const std::string expected = tenant.empty() ? "none 0" : own(tenant);
            auto check = [&](auto& on) {
                bool awaits = dice() % 8 == 0;
                std::string saw = awaits ? support::await_on(loop, on.async_query(look))
                                               .template scalar<std::string>()
                                         : seen<blocking>(on);
                if (saw != expected) ADD_FAILURE() << saw << " instead of " << expected;
            };
            try {
                if (tenant.empty()) check(db);
                else use_at_random(view, tenant, dice, check);
                // Not at the end: what follows must not meet a connection that is about to end.
                if (i % 100 == 50)
                    killer.execute(
                        "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity "
                        "WHERE usename = 'app' AND pid <> pg_backend_pid() LIMIT 1");
            } catch (const connection_error&) {
                // Killed by this loop or the other one.
            }
        }
    };
    std::thread other(work, 1, left / 2);
    work(0, left / 2);
    other.join();
    EXPECT_GT(db.stats().opened, 2u);
    expect_no_tenant<blocking>(db);
}

// Costs.

TEST_F(tenants_postgres, cost_no_round_trip) {
    support::gate gate(the_postgres().port());
    for (std::size_t cache : {0u, 100u}) {
        database db(postgres_url(gate.port()),
                    {.pool = support::patient(1), .statement_cache = cache});
        auto turns = [&](auto& on) {
            for (int i = 0; i < 4; ++i) seen<blocking>(on);
            std::size_t before = gate.turns();
            for (int i = 0; i < 20; ++i) seen<blocking>(on);
            return gate.turns() - before;
        };
        database_view view = as(db, tenants[0]);
        EXPECT_EQ(turns(db), 20u);
        EXPECT_EQ(turns(view), 20u);
        EXPECT_EQ(db.stats().opened, 1u);
    }
}

// Refusals.

template <class Form>
void expect_refused(database& db, const use_options& how, const char* code) {
    database_view view = db.with(how);
    for (const char* text : {look, "BEGIN", "SELEKT"}) {
        auto s = view.scope();
        for (int again = 0; again < 2; ++again) {
            try {
                Form::run(s, text);
                ADD_FAILURE() << text;
            } catch (const statement_error& e) {
                EXPECT_EQ(e.sqlstate(), code) << e.what();
                EXPECT_NE(std::string(e.what()).find("the statement was not run"),
                          std::string::npos)
                    << e.what();
            }
            EXPECT_THROW(static_cast<void>(Form::begin(s)), statement_error);
        }
    }
    expect_no_tenant<Form>(db);
    EXPECT_EQ(db.stats().opened, 1u);
}

TEST_F(tenants_postgres, are_refused_if_the_server_refuses_them) {
    database db = open(1);
    const std::array<setting, 1> unknown{{{"no_such_setting", "1"}}};
    const std::array<setting, 1> forbidden{{{"log_statement", "all"}}};
    const std::array<setting, 1> wrong{{{"work_mem", "much"}}};
    auto all = [&]<class Form>(Form) {
        expect_refused<Form>(db, {.role = "no_such_role"}, "22023");
        expect_refused<Form>(db, {.role = "postgres"}, "42501");
        expect_refused<Form>(db, {.role = tenants[0], .setting_list = unknown}, "42704");
        expect_refused<Form>(db, {.setting_list = forbidden}, "42501");
        expect_refused<Form>(db, {.setting_list = wrong}, "22023");
    };
    all(blocking());
    all(awaited());
}

TEST_F(tenants_postgres, are_refused_before_anything_is_sent) {
    database db = open(1);
    EXPECT_THROW(db.with({.role = "none"}).query("SELECT 1"), std::invalid_argument);
    for (const char* name : {"role", "Session_Authorization", "client_encoding", "", "a b",
                             "transaction_read_only", "standard_conforming_strings"})
        EXPECT_THROW(db.with({.settings = {{name, "x"}}}).query("SELECT 1"), std::invalid_argument)
            << name;
    EXPECT_THROW(db.with({.statement_timeout = 0ns}).query("SELECT 1"), std::invalid_argument);
    expect_no_tenant<blocking>(db);
}

TEST_F(tenants_postgres, are_refused_behind_a_pooler) {
    support::pgbouncer_server bouncer(the_postgres(), {.pool_size = 1});
    database db(postgres_url(bouncer.port()), {.pool = support::patient(1)});
    database_view view = as(db, tenants[0]);
    for (int again = 0; again < 3; ++again) {
        EXPECT_THROW(view.query(look), statement_error);
        expect_no_tenant<blocking>(db);
    }
}

// Settings.

/// The server's time passes, and not that of this side: operation_timeout would end other
/// statements on a busy machine. Except once, while the view's statement runs, whose limit is
/// later.
TEST_F(tenants_postgres, are_stopped_in_time) {
    support::stopped_clock time;
    support::gate gate(the_postgres().port());
    options alone = support::patient(1);
    alone.reset_after = forever;
    database db(postgres_url(gate.port(), "operation_timeout=100ms"), {.pool = alone});
    database_view view = db.with({.role = tenants[0], .statement_timeout = 300ms});
    for (int again = 0; again < 2; ++again) {
        EXPECT_EQ(db.query("SHOW statement_timeout").scalar<std::string>(), "0");
        EXPECT_TRUE(eventually([&] { return db.stats().idle == 1; }));  // nor is it reset
        gate.hold_replies();  // the statement does not end before the time has passed
        std::size_t before = gate.turns();
        std::thread runs([&] {
            try {
                view.execute("SELECT pg_sleep(600)");
                ADD_FAILURE();
            } catch (const server_error& e) {
                EXPECT_EQ(e.kind(), error_kind::statement) << e.what();
                EXPECT_EQ(e.sqlstate(), "57014");
            }
        });
        EXPECT_TRUE(eventually([&] { return gate.turns() > before; }));
        time.advance(1s);
        gate.let_go();
        runs.join();
    }
    EXPECT_EQ(db.query("SHOW statement_timeout").scalar<std::string>(), "0");
    EXPECT_EQ(db.stats().opened, 1u);
}

TEST_F(tenants_postgres, change_what_names_and_texts_mean) {
    the_postgres().execute_as_admin(
        "create schema if not exists tenant_a authorization tenant_a; "
        "create schema if not exists tenant_b authorization tenant_b; "
        "drop table if exists tenant_a.thing, tenant_b.thing; "
        "create table tenant_a.thing as select 1 as n; create table tenant_b.thing as select 2.5 "
        "n; "
        "alter table tenant_a.thing owner to tenant_a; "
        "alter table tenant_b.thing owner to tenant_b");
    database db = open(1);
    for (int again = 0; again < 4; ++again) {
        for (const std::string& tenant : tenants) {
            const std::string expected = tenant == tenants[0] ? "1" : "2.5";
            // "$user" is in the default search_path.
            EXPECT_EQ(
                db.with({.role = tenant}).query("SELECT n::text FROM thing")[0].get<std::string>(0),
                expected);
            database_view by_path =
                db.with({.role = tenant, .settings = {{"search_path", tenant}}});
            EXPECT_EQ(by_path.query("SELECT n::text FROM thing")[0].get<std::string>(0), expected);
        }
        EXPECT_THROW(db.query("SELECT n::text FROM thing"), statement_error);
        const char* time = "SELECT timestamptz '2020-01-01 00:00+00'::text";
        EXPECT_EQ(
            db.with({.settings = {{"timezone", "Asia/Tokyo"}}}).query(time)[0].get<std::string>(0),
            "2020-01-01 09:00:00+09");
        EXPECT_NE(db.query(time)[0].get<std::string>(0), "2020-01-01 09:00:00+09");
    }
}

// Interruptions.

boost::asio::awaitable<void> look_as(database_view* as, bool in_scope) {
    if (in_scope) {
        scope s = as->scope();
        transaction t = co_await s.async_begin();
        co_await t.async_query(look);
    } else {
        co_await as->async_query(look);
    }
}

TEST_F(tenants_postgres, leave_nothing_whenever_they_are_canceled) {
    support::gate gate(the_postgres().port());
    gate.delay(1ms);
    database db(postgres_url(gate.port()), {.pool = support::patient(1)});
    for (bool in_scope : {false, true}) {
        bool went_on = true;
        for (unsigned steps = 1; went_on && steps < 1000; ++steps) {
            SCOPED_TRACE(steps);
            database_view view = as(db, tenants[steps % 2]);
            went_on = canceled_after(static_cast<int>(steps), look_as(&view, in_scope)).has_value();
            EXPECT_EQ(seen<blocking>(db), "none 0");
            database_view other = as(db, tenants[(steps + 1) % 2]);
            expect_only<blocking>(other, tenants[(steps + 1) % 2]);
        }
        EXPECT_FALSE(went_on);
    }
}

TEST_F(tenants_postgres, leave_nothing_wherever_they_are_cut_off) {
    support::gate gate(the_postgres().port());
    database db(postgres_url(gate.port()), {.pool = support::patient(1)});
    bool cut = true;
    for (std::size_t bytes = 1; cut && bytes < 2000; bytes += support::slowly ? 29 : 7) {
        SCOPED_TRACE(bytes);
        expect_no_tenant<blocking>(db);
        std::size_t before = db.stats().opened;
        gate.cut_after(bytes);
        {
            auto s = as(db, tenants[0]).scope({.keeps_session = false});
            try {
                EXPECT_EQ(seen<blocking>(s), own(tenants[0]));
                cut = false;
            } catch (const connection_error&) {
            }
            gate.pass();
            // A cut behind the last byte: the end is still on its way.
            if (!cut) gate.finish_all();
            EXPECT_EQ(seen<blocking>(s), own(tenants[0]));
        }
        if (cut) {
            EXPECT_GT(db.stats().opened, before);
        }
        expect_no_tenant<blocking>(db);
        database_view other = as(db, tenants[1]);
        expect_only<blocking>(other, tenants[1]);
    }
    EXPECT_FALSE(cut);
}

// Connections without a database.

TEST_F(tenants_postgres, can_be_set_on_a_connection) {
    pool<postgres::connection> connections(postgres::connector(postgres_url()),
                                           support::patient(1));
    auto setup = std::make_shared<sql::lease_setup>();
    setup->role = tenants[1];
    const char* who = "SELECT current_user::text";
    auto name = [](const sql::result& r) { return r.scalar<std::string>(); };
    for (int again = 0; again < 3; ++again) {
        {
            auto c = connections.acquire();
            c->use(setup);
            EXPECT_THROW(c->use(setup), std::logic_error);
            sql::statement prepared = c->prepare(look);
            EXPECT_EQ(name(c->execute(prepared)), own(tenants[1]));
        }
        {
            auto c = connections.acquire();
            c->use(setup);
            c->native_handle();
            EXPECT_EQ(name(c->execute(who)), tenants[1]);
        }
        {
            auto c = connections.acquire();
            c->use(setup);
            c->only_read();
            EXPECT_EQ(name(c->execute(look)), own(tenants[1]));
            EXPECT_THROW(c->execute("DELETE FROM deed"), statement_error);
            c->execute("BEGIN");
            EXPECT_THROW(c->use(setup), std::logic_error);
        }
        connections.acquire()->use(setup);  // without a statement
        auto c = connections.acquire();
        EXPECT_EQ(name(c->execute(who)), "app");
    }
}

}  // namespace
}  // namespace cenote::conformance
