// PostgreSQL, asked by cenote doctor.
#include "doctor_servers.hpp"

#ifdef CENOTE_HAS_POSTGRES
#include <charconv>
#include <libpq-fe.h>
#include <map>

#include "command.hpp"
#include "doctor_reach.hpp"
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

way way_to(const postgres::options& o, nanoseconds timeout) {
    const cenote::url::host& first = o.hosts.front();
    return {.host = first.name,
            .port = first.port == 0 ? std::uint16_t{5432} : first.port,
            .timeout = timeout,
            .tls = mode_of(o) != postgres::tls_mode::off,
            .before_tls = preamble::postgres,
            .ca_file = o.ca_file};
}

void trip(postgres::connection& c) { c.execute("SELECT 1"); }

using settings_list = std::map<std::string, std::int64_t>;

/// Numbers as pg_settings has them; times are in the unit each has there.
settings_list read_settings(postgres::connection& c) {
    settings_list all;
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

/// What this user can have: the server's, less what is reserved; the user's own; the database's. A
/// superuser could use the reserved connections, too; a program leaves them to administrators.
void read_limits(postgres::connection& c, settings_list& s, facts& into) {
    auto row = c.execute(
                    "SELECT r.rolsuper, r.rolconnlimit::int8, d.datconnlimit::int8, "
                    // pg_stat_activity hides from most users what kind others are; these counts
                    // are everybody's. Without this one.
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

/// The number that the login gave for the session is the server's own, unless somebody is between.
/// Somebody who has two of us share a session does so by transaction.
void look_for_pooler(postgres::connector& by, postgres::connection& c, facts& into) {
    auto own = [](postgres::connection& of) {
        return of.execute("SELECT pg_backend_pid()::int8").scalar<std::int64_t>();
    };
    std::int64_t real = own(c);
    if (real == PQbackendPID(c.native_handle())) return;
    into.between = pooler::some;
    postgres::connection other = by.open();
    if (own(other) == real || own(c) != real) into.between = pooler::transaction;
    by.close(other);
}

void ask(postgres::connector& by, postgres::connection& c, facts& into) {
    into.version =
        "PostgreSQL " + c.execute("SELECT current_setting('server_version')").scalar<std::string>();
    using refusal = cenote::statement_error;
    attempt<refusal>("the server's settings", into, [&] {
        settings_list s = read_settings(c);
        auto time = [&](const char* name) { return std::chrono::milliseconds(s[name]); };
        into.idle_limits.emplace_back("idle_session_timeout", time("idle_session_timeout"));
        into.idle_in_transaction_timeout = time("idle_in_transaction_session_timeout");
        into.statement_timeout = time("statement_timeout");
        read_limits(c, s, into);
    });
    attempt<refusal>("whether it is a replica", into, [&] {
        auto role = c.execute(
                         "SELECT pg_is_in_recovery(), "
                         "current_setting('transaction_read_only') = 'on'")
                        .one();
        into.replica = role.get<bool>(0);
        into.read_only = role.get<bool>(1);
    });
    attempt<refusal>("the server's clock", into, [&] { read_clock(c, into); });
    attempt<refusal>("whether a pooler is in between", into, [&] { look_for_pooler(by, c, into); });
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
    look_along(way_to(o, how.timeout), into);
    // Others of several hosts may do, so only the connector knows.
    if (into.wrong != trouble::none && o.hosts.size() == 1) return;
    into.wrong = trouble::none;
    go_on(how);
    postgres::connector by(o);
    try {
        postgres::connection c = by.open();
        into.tls.in_use = PQsslInUse(c.native_handle()) == 1;
        into.tls.verified = into.tls.in_use && mode_of(o) == postgres::tls_mode::verify_full;
        trip(c);
        attempt<cenote::server_error>("what the server says of itself", into, [&] {
            ask(by, c, into);
            by.close(c);
        });
    } catch (const cenote::server_error& e) {
        return explain_failure(e, wants_tls, into);
    }
    measure(how, by, trip, true, into);
    check_idleness(how, by, trip, into);
}

}  // namespace doctor
#endif
