// cenote doctor for PostgreSQL.
#include "doctor_servers.hpp"

#ifdef CENOTE_HAS_POSTGRES
#include <charconv>
#include <libpq-fe.h>

#include <cenote/postgres.hpp>
#include <cenote/url.hpp>

namespace doctor {

namespace postgres = cenote::postgres;
using std::chrono::system_clock;

namespace {

postgres::tls_mode mode_of(const postgres::options& o) {
    bool local = cenote::is_loopback(o.hosts.front().name);
    return o.tls.value_or(local ? postgres::tls_mode::off : postgres::tls_mode::verify_full);
}

route route_to(const postgres::options& o, nanoseconds timeout) {
    const cenote::url::host& first = o.hosts.front();
    return {.host = first.name,
            .port = first.port == 0 ? std::uint16_t{5432} : first.port,
            .timeout = timeout,
            .tls = mode_of(o) != postgres::tls_mode::off,
            .before_tls = preamble::postgres,
            .ca_file = o.ca_file};
}

void trip(postgres::connection& c) { c.execute("SELECT 1"); }

using number_map = std::map<std::string, std::int64_t>;

/// Numeric settings from pg_settings, in the unit of each setting.
number_map read_numbers(postgres::connection& c) {
    number_map all;
    for (const auto& row :
         c.execute("SELECT name, setting FROM pg_settings WHERE vartype = 'integer' AND name IN "
                   "('max_connections', 'superuser_reserved_connections', 'reserved_connections', "
                   "'idle_session_timeout', 'idle_in_transaction_session_timeout', "
                   "'statement_timeout')")) {
        auto text = row.get<std::string>(1);
        std::int64_t number = 0;
        std::from_chars(text.data(), text.data() + text.size(), number);
        all[row.get<std::string>(0)] = number;
    }
    return all;
}

/// The limits of the server (without reserved connections), of the user and of the database. A
/// superuser could use the reserved connections; a program leaves them to administrators.
void read_limits(postgres::connection& c, number_map& s, facts& into) {
    auto row = c.execute(
                    "SELECT r.rolsuper, r.rolconnlimit::int8, d.datconnlimit::int8, "
                    // Not from pg_stat_activity, which hides other users' backend types. Without
                    // the doctor's own connection.
                    "(SELECT coalesce(sum(numbackends), 1) FROM pg_stat_database)::int8 - 1, "
                    "(SELECT count(*) FROM pg_stat_activity WHERE usename = current_user "
                    "   AND pid <> pg_backend_pid())::int8, "
                    "(SELECT coalesce(sum(numbackends), 1) FROM pg_stat_database "
                    "   WHERE datname = current_database())::int8 - 1 "
                    "FROM pg_roles r, pg_database d "
                    "WHERE r.rolname = current_user AND d.datname = current_database()")
                   .one();
    bool super = row.get<bool>(0);
    std::int64_t reserved = s["superuser_reserved_connections"] + s["reserved_connections"];
    std::string name = "max_connections " + std::to_string(s["max_connections"]);
    if (reserved > 0) name += " less " + std::to_string(reserved) + " reserved";
    auto add = [&](const std::string& what, std::int64_t takes, std::size_t used,
                   const char* error) {
        if (takes >= 0)
            into.limits.push_back({.name = what,
                                   .takes = static_cast<std::uint64_t>(takes),
                                   .in_use = static_cast<std::uint64_t>(
                                       std::max<std::int64_t>(row.get<std::int64_t>(used), 0)),
                                   .error = error});
    };
    add(name, s["max_connections"] - reserved, 3, "too many clients already");
    if (super) return;
    add("the user's CONNECTION LIMIT", row.get<std::int64_t>(1), 4,
        "too many connections for role");
    add("the database's CONNECTION LIMIT", row.get<std::int64_t>(2), 5,
        "too many connections for database");
}

void read_clock(postgres::connection& c, facts& into) {
    auto before = system_clock::now();
    auto theirs = c.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8")
                      .scalar<std::int64_t>();
    compare_clocks(before, system_clock::now(), std::chrono::microseconds(theirs), into);
}

/// Behind a pooler the backend PID of the login differs from the server's. If two connections get
/// the same backend, or one connection gets two, the pooler is in transaction mode.
void detect_pooler(postgres::connector& connector, postgres::connection& c, facts& into) {
    auto backend_of = [](postgres::connection& of) {
        return of.execute("SELECT pg_backend_pid()::int8").scalar<std::int64_t>();
    };
    std::int64_t backend = backend_of(c);
    if (backend == PQbackendPID(c.native_handle())) return;
    into.in_front = pooler::session;
    postgres::connection other = connector.open();
    if (backend_of(other) == backend || backend_of(c) != backend)
        into.in_front = pooler::transaction;
    connector.close(other);
}

void read_settings(postgres::connector& connector, postgres::connection& c, facts& into) {
    into.version =
        "PostgreSQL " + c.execute("SELECT current_setting('server_version')").scalar<std::string>();
    using refusal = cenote::statement_error;
    attempt<refusal>("the server's settings", into, [&] {
        number_map s = read_numbers(c);
        auto time = [&](const char* name) { return std::chrono::milliseconds(s[name]); };
        into.idle_limits.emplace_back("idle_session_timeout", time("idle_session_timeout"));
        into.idle_in_transaction_timeout = time("idle_in_transaction_session_timeout");
        into.statement_timeout = time("statement_timeout");
        read_limits(c, s, into);
    });
    attempt<refusal>("whether the server is a replica", into, [&] {
        auto role = c.execute(
                         "SELECT pg_is_in_recovery(), "
                         "current_setting('transaction_read_only') = 'on'")
                        .one();
        into.replica = role.get<bool>(0);
        into.read_only = role.get<bool>(1);
    });
    attempt<refusal>("the server's clock", into, [&] { read_clock(c, into); });
    attempt<refusal>("whether there is a pooler in front of the server", into,
                     [&] { detect_pooler(connector, c, into); });
}

}  // namespace

void examine_postgres(const examination& how, facts& into) {
    using std::chrono::milliseconds;
    postgres::options o = postgres::options::from_url(how.url);
    o.connect_timeout = std::chrono::ceil<milliseconds>(how.timeout);
    o.operation_timeout = o.connect_timeout;
    into.local = cenote::is_loopback(o.hosts.front().name);
    into.statement_cache = o.statement_cache;
    into.may_be_read_only = o.role_of_server == postgres::server_role::read_only ||
                            o.role_of_server == postgres::server_role::standby ||
                            o.role_of_server == postgres::server_role::prefer_standby;
    bool wants_tls = mode_of(o) != postgres::tls_mode::off;
    inspect_route(route_to(o, how.timeout), into);
    // With several hosts the connector may still reach another one.
    if (into.error != connect_error::none && o.hosts.size() == 1) return;
    into.error = connect_error::none;
    throw_if_interrupted(how);
    auto read_tls = [&](postgres::connection& c) {
        into.tls.in_use = PQsslInUse(c.native_handle()) == 1;
        into.tls.verified = into.tls.in_use && mode_of(o) == postgres::tls_mode::verify_full;
    };
    examine_sessions(
        how, postgres::connector(o), wants_tls, trip, read_tls,
        [&](postgres::connector& connector, postgres::connection& c) {
            read_settings(connector, c, into);
        },
        into);
}

}  // namespace doctor
#endif
