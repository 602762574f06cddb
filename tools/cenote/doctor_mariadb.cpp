// cenote doctor for MariaDB and MySQL.
#include "doctor_servers.hpp"

#ifdef CENOTE_HAS_MARIADB
#include <cenote/mariadb.hpp>
#include <cenote/url.hpp>

namespace doctor {

namespace mariadb = cenote::mariadb;
using std::chrono::system_clock;

namespace {

void trip(mariadb::connection& c) { c.execute("DO 0"); }

/// The result of a SHOW statement, with names in lower case; unknown settings are missing.
setting_map read(mariadb::connection& c, const char* statement) {
    setting_map all;
    for (const auto& row : c.execute(statement)) {
        auto name = row.get<std::string>(0);
        std::transform(name.begin(), name.end(), name.begin(),
                       [](char l) { return l >= 'A' && l <= 'Z' ? char(l - 'A' + 'a') : l; });
        all[name] = row.get<std::string>(1);
    }
    return all;
}

void read_limits(const setting_map& settings, const setting_map& status, facts& into) {
    if (auto most = number(settings, "max_connections"))
        into.limits.push_back({.name = "max_connections",
                               .takes = *most,
                               .in_use = without_own(number(status, "threads_connected")),
                               .error = "Too many connections"});
    if (auto most = number(settings, "max_user_connections"); most.value_or(0) > 0)
        into.limits.push_back(
            {.name = "max_user_connections", .takes = *most, .error = "max_user_connections"});
}

void read_timeouts(const setting_map& settings, facts& into) {
    if (auto idle = number(settings, "wait_timeout"))
        into.idle_limits.emplace_back("wait_timeout", seconds_from(*idle));
    if (auto idle = number(settings, "idle_transaction_timeout"))
        into.idle_in_transaction_timeout = seconds_from(*idle);
    into.max_prepared = number(settings, "max_prepared_stmt_count");
    if (auto timeout = settings.find("max_statement_time"); timeout != settings.end())
        into.statement_timeout = nanoseconds(
            static_cast<std::int64_t>(std::strtod(timeout->second.c_str(), nullptr) * 1e9));
}

void read_settings(mariadb::connection& c, bool wants_tls, facts& into) {
    setting_map tls = read(c, "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_version')");
    into.tls.in_use = !tls["ssl_version"].empty();
    into.tls.verified = into.tls.in_use && wants_tls;
    setting_map settings =
        read(c,
             "SHOW SESSION VARIABLES WHERE Variable_name IN ('version', 'max_connections', "
             "'max_user_connections', 'wait_timeout', 'idle_transaction_timeout', "
             "'max_statement_time', 'max_prepared_stmt_count', 'read_only')");
    setting_map status = read(c,
                              "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', "
                              "'Slave_running', 'Rpl_semi_sync_slave_status')");
    bool is_mariadb = settings["version"].find("MariaDB") != std::string::npos;
    into.version = (is_mariadb ? "MariaDB " : "MySQL ") + settings["version"];
    read_limits(settings, status, into);
    read_timeouts(settings, into);
    into.read_only = settings["read_only"] == "ON" || settings["read_only"] == "1";
    into.replica = status["slave_running"] == "ON";
    attempt<cenote::statement_error>("the server's clock", into, [&] {
        auto before = system_clock::now();
        auto theirs = c.execute("SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)")
                          .scalar<std::int64_t>();
        compare_clocks(before, system_clock::now(), std::chrono::microseconds(theirs), into);
    });
}

}  // namespace

void examine_mariadb(const examination& how, facts& into) {
    mariadb::options o = mariadb::options::from_url(how.url);
    o.connect_timeout = std::chrono::ceil<std::chrono::milliseconds>(how.timeout);
    o.operation_timeout = o.connect_timeout;
    into.local = cenote::is_loopback(o.host);
    into.statement_cache = o.statement_cache;
    into.may_be_read_only = o.role_of_server == mariadb::server_role::read_only;
    bool wants_tls = o.tls.value_or(!into.local);
    inspect_route({.host = o.host,
                   .port = o.port,
                   .timeout = how.timeout,
                   .tls = wants_tls,
                   .before_tls = preamble::mariadb,
                   .ca_file = o.tls_ca},
                  into);
    if (into.error != connect_error::none) return;
    throw_if_interrupted(how);
    examine_sessions(
        how, mariadb::connector(o), wants_tls, trip, [](mariadb::connection&) {},
        [&](mariadb::connector&, mariadb::connection& c) { read_settings(c, wants_tls, into); },
        into);
}

}  // namespace doctor
#endif
