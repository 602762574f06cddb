// MariaDB and MySQL, asked by cenote doctor.
#include "doctor_servers.hpp"

#ifdef CENOTE_HAS_MARIADB
#include <charconv>
#include <map>

#include "command.hpp"
#include "doctor_reach.hpp"
#include <cenote/mariadb.hpp>
#include <cenote/url.hpp>

namespace doctor {

namespace mariadb = cenote::mariadb;
using std::chrono::system_clock;

namespace {

void trip(mariadb::connection& c) { c.execute("DO 0"); }

using settings_list = std::map<std::string, std::string>;

/// What SHOW lists: names in lower case, and what is not known is not there.
settings_list read(mariadb::connection& c, const char* statement) {
    settings_list all;
    for (const auto& row : c.execute(statement)) {
        auto name = row.get<std::string>(0);
        std::transform(name.begin(), name.end(), name.begin(),
                       [](char l) { return l >= 'A' && l <= 'Z' ? char(l - 'A' + 'a') : l; });
        all[name] = row.get<std::string>(1);
    }
    return all;
}

std::optional<std::uint64_t> number(const settings_list& from, const char* name) {
    auto found = from.find(name);
    if (found == from.end()) return std::nullopt;
    std::uint64_t value = 0;
    const std::string& text = found->second;
    auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

void read_limits(const settings_list& has, const settings_list& now, facts& into) {
    auto others = number(now, "threads_connected");
    if (others) others = *others - std::min<std::uint64_t>(*others, 1);  // this one
    if (auto most = number(has, "max_connections"))
        into.limits.push_back({.name = "max_connections",
                               .takes = *most,
                               .in_use = others,
                               .error = "Too many connections"});
    if (auto most = number(has, "max_user_connections"); most.value_or(0) > 0)
        into.limits.push_back(
            {.name = "max_user_connections", .takes = *most, .error = "max_user_connections"});
}

void read_timeouts(const settings_list& has, facts& into) {
    auto seconds = [&](const char* name) -> std::optional<nanoseconds> {
        auto count = number(has, name);
        if (!count) return std::nullopt;
        return std::chrono::seconds(std::min<std::uint64_t>(*count, 1'000'000'000));
    };
    if (auto idle = seconds("wait_timeout")) into.idle_limits.emplace_back("wait_timeout", *idle);
    into.idle_in_transaction_timeout = seconds("idle_transaction_timeout");
    into.max_prepared = number(has, "max_prepared_stmt_count");
    if (auto has_one = has.find("max_statement_time"); has_one != has.end())
        into.statement_timeout = nanoseconds(
            static_cast<std::int64_t>(std::strtod(has_one->second.c_str(), nullptr) * 1e9));
}

void ask(mariadb::connection& c, facts& into) {
    settings_list tls = read(c, "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_version')");
    into.tls.in_use = !tls["ssl_version"].empty();
    settings_list has =
        read(c,
             "SHOW SESSION VARIABLES WHERE Variable_name IN ('version', 'max_connections', "
             "'max_user_connections', 'wait_timeout', 'idle_transaction_timeout', "
             "'max_statement_time', 'max_prepared_stmt_count', 'read_only')");
    settings_list now = read(c,
                             "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', "
                             "'Slave_running', 'Rpl_semi_sync_slave_status')");
    bool maria = has["version"].find("MariaDB") != std::string::npos;
    into.version = (maria ? "MariaDB " : "MySQL ") + has["version"];
    read_limits(has, now, into);
    read_timeouts(has, into);
    into.read_only = has["read_only"] == "ON" || has["read_only"] == "1";
    into.replica = now["slave_running"] == "ON";
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
    look_along({.host = o.host,
                .port = o.port,
                .timeout = how.timeout,
                .tls = wants_tls,
                .before_tls = preamble::mariadb,
                .ca_file = o.tls_ca},
               into);
    if (into.wrong != trouble::none) return;
    go_on(how);
    mariadb::connector by(o);
    try {
        mariadb::connection c = by.open();
        trip(c);
        attempt<cenote::server_error>("what the server says of itself", into, [&] {
            ask(c, into);
            by.close(c);
        });
        into.tls.verified = into.tls.in_use && wants_tls;
    } catch (const cenote::server_error& e) {
        return explain_failure(e, wants_tls, into);
    }
    measure(how, by, trip, true, into);
    check_idleness(how, by, trip, into);
}

}  // namespace doctor
#endif
