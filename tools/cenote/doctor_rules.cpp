// The rules of cenote doctor, one function per topic.
#include "doctor_rules.hpp"

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

#include "command.hpp"

namespace doctor {

using command::in_words;
using namespace std::chrono_literals;

namespace {

using findings = std::vector<finding>;

std::string count_of(std::uint64_t number, const char* one, const char* many) {
    return std::to_string(number) + " " + (number == 1 ? one : many);
}

std::string times_of(nanoseconds larger, nanoseconds smaller) {
    double ratio = static_cast<double>(larger.count()) /
                   static_cast<double>(std::max<std::int64_t>(smaller.count(), 1));
    auto rounded = static_cast<long long>(ratio < 10 ? ratio * 10 : ratio);
    return ratio < 10 ? std::to_string(rounded / 10) + "." + std::to_string(rounded % 10)
                      : std::to_string(rounded);
}

std::string date_of(std::chrono::system_clock::time_point when) {
    std::time_t seconds = std::chrono::system_clock::to_time_t(when);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
    return text;
}

std::string for_how_long(nanoseconds limit) {
    return limit == nanoseconds(cenote::forever) ? "forever" : "for " + in_words(limit);
}

// No connection.

finding about_connect_error(const facts& f) {
    auto problem = [&](const char* code, std::string what, std::string then) {
        return finding{severity::problem, code, std::move(what), f.error_text, std::move(then)};
    };
    const std::string& host = f.host;
    switch (f.error) {
        case connect_error::name_not_found:
            return problem("name-not-found", "There is no host named '" + host + "'.",
                           "Check the spelling and the DNS servers of this machine.");
        case connect_error::refused:
            return problem(
                "refused", host + " refused the connection: no server listens on this port.",
                "Check the port, whether the server runs, and on which addresses it listens.");
        case connect_error::unreachable:
            return problem("unreachable", host + " is unreachable.",
                           "Check the network: routes, VPN, container network.");
        case connect_error::timed_out:
            return problem("timed-out", "Connecting to " + host + " timed out.",
                           "Usually a firewall drops the packets. Try from another machine.");
        case connect_error::silent:
            return problem("silent", host + " accepted the connection but did not reply.",
                           "The server may be frozen or overloaded, or the port belongs to another "
                           "service.");
        case connect_error::tls_not_offered:
            return problem("tls-not-offered",
                           "The URL requires TLS, but the server does not offer it.",
                           "Install a certificate on the server. Turn TLS off in the URL only on a "
                           "trusted network.");
        case connect_error::tls_untrusted:
            return problem("tls-untrusted",
                           "The server's certificate is not trusted: " + f.tls.complaint + ".",
                           "Name the certificate's authority in the URL, and use the host name it "
                           "was issued for. Otherwise the connection may be intercepted.");
        case connect_error::tls_failed:
            return problem("tls-failed", "The TLS handshake failed.",
                           "Check that the server supports TLS 1.2 or later on this port.");
        case connect_error::wrong_password:
            return problem(
                "wrong-password", "The server rejected the user name or the password.",
                "Check both. Special characters of a password must be percent-encoded in "
                "the URL.");
        case connect_error::no_database:
            return problem("no-database", "The database of the URL does not exist.",
                           "Check its name, or create it.");
        case connect_error::not_allowed:
            return problem("not-allowed", "The server does not allow this user from this address.",
                           "Add user, database and address to the server's access rules "
                           "(pg_hba.conf, user@host, ACL).");
        case connect_error::too_many:
            return problem("too-many",
                           "The server accepts no more connections: its limit is reached.",
                           "Find out which clients use the connections. The sum of all pools must "
                           "stay below the limit.");
        case connect_error::broken_off:
            return problem("broken-off",
                           host + " closed the connection or sent an unexpected reply.",
                           "Check that this kind of server listens on this port.");
        case connect_error::none:
        case connect_error::other: break;
    }
    return problem("no-connection", "The connection failed.", "See the error message.");
}

// TLS.

/// Only for certificates that are still valid: an expired one fails verification.
void about_expiry(const facts& f, std::chrono::system_clock::time_point now, findings& into) {
    if (!f.tls.expires || !f.tls.complaint.empty()) return;
    auto left = *f.tls.expires - now;
    auto days = std::chrono::duration_cast<std::chrono::hours>(left).count() / 24;
    if (days >= 30) return;
    into.push_back(
        {days < 7 ? severity::problem : severity::warning, "certificate-expires",
         "The server's certificate expires on " + date_of(*f.tls.expires) + ", in " +
             count_of(static_cast<std::uint64_t>(std::max<long>(days, 0)), "day", "days") + ".",
         "After that every new connection fails; open connections continue, which hides the "
         "problem at first.",
         "Renew it, automatically if possible."});
}

void about_tls(const facts& f, std::chrono::system_clock::time_point now, findings& into) {
    if (f.kind == server_kind::sqlite) return;
    if (!f.tls.in_use && f.local) {
        into.push_back({severity::ok, "tls-local",
                        "No TLS, and none needed: the traffic stays on this machine."});
        return;
    }
    if (!f.tls.in_use) {
        into.push_back({severity::problem, "tls-off", "The connection is not encrypted.",
                        "Every machine on the route can read and change the traffic, including the "
                        "login.",
                        f.tls.offered.value_or(false)
                            ? "The server offers TLS: turn it on in the URL."
                            : "Install a certificate on the server, then turn TLS on in the URL."});
        return;
    }
    if (!f.tls.verified) {
        std::string result = f.tls.complaint.empty()
                                 ? "The certificate is valid, so verification would succeed."
                                 : "Verification would fail: " + f.tls.complaint + ".";
        into.push_back(
            {f.local ? severity::note : severity::warning, "tls-unverified",
             "TLS is on, but the server's certificate is not verified.",
             "A machine on the route can impersonate the server and read the traffic. " + result,
             "Turn verification on: sslmode=verify-full for PostgreSQL, tls=on without "
             "exceptions for other servers. Name the authority in the URL if it is your "
             "own."});
    } else {
        into.push_back(
            {severity::ok, "tls",
             (f.tls.version.empty() ? "TLS" : f.tls.version) + ", verified" +
                 (f.tls.expires ? "; the certificate is valid until " + date_of(*f.tls.expires)
                                : "") +
                 "."});
    }
    if (f.tls.version == "TLSv1" || f.tls.version == "TLSv1.1")
        into.push_back({severity::warning, "tls-old", "The server uses " + f.tls.version + ".",
                        "This version is insecure, and clients are dropping support for it.",
                        "Enable TLS 1.2 or later on the server."});
    about_expiry(f, now, into);
}

// Latency and costs.

void about_latency(const facts& f, findings& into) {
    if (f.trip.count == 0) return;
    std::string what =
        "A round trip takes " + in_words(f.trip.p50) + " (p99 " + in_words(f.trip.p99) + ").";
    if (f.trip.p50 >= 20ms) {
        into.push_back({severity::warning, "far-away", what,
                        "Each statement keeps its connection busy for at least one round trip: a "
                        "lease with 10 statements lasts at least " +
                            in_words(f.trip.p50 * 10) + ", so the pool must be larger.",
                        "Run the service closer to the server, or use fewer and larger "
                        "statements."});
        return;
    }
    bool varies = f.trip.p99 > f.trip.p50 * 20 && f.trip.p99 > 20ms;
    if (varies)
        into.push_back({severity::note, "latency-varies", what,
                        "The slowest 1 % take at least " + times_of(f.trip.p99, f.trip.p50) +
                            " times as long, and delay the waiters behind them.",
                        "Look for load on the server and on the network; measure again with cenote "
                        "bench."});
    else into.push_back({severity::ok, "latency", what});
}

void about_costs(const facts& f, findings& into) {
    if (f.open.count == 0 || f.open.p50 == 0ns) return;
    std::string opening = "Opening a connection takes " + in_words(f.open.p50);
    nanoseconds kept = f.probe.count > 0 ? f.probe.p50 : f.trip.p50;
    if (f.reset.count > 0) kept = std::max(kept, f.reset.p50);
    if (kept * 2 > f.open.p50) {
        into.push_back({severity::note, "pooling-saves-little",
                        opening + ", reusing one " + in_words(kept) + ".",
                        "A pool saves little time here. It still limits the number of connections.",
                        "Do not expect a pool to make this server faster."});
    } else {
        into.push_back(
            {severity::ok, "pooling-pays",
             opening + ", " + times_of(f.open.p50, kept) + " times as long as reusing one."});
    }
    if (f.reset.count > 0 && f.trip.count > 0 && f.reset.p50 > f.trip.p50 * 3 && f.reset.p50 > 1ms)
        into.push_back({severity::note, "reset-is-costly",
                        "A reset between two leases takes " + in_words(f.reset.p50) + ", " +
                            times_of(f.reset.p50, f.trip.p50) + " times a round trip.",
                        "Each lease that used its connection is followed by a reset.",
                        "Run more statements per lease, or see the connector's reset options."});
}

// Limits.

/// `sum`: the planned number of connections as text.
void about_limit(const limit& l, const std::string& sum, const planned& p, findings& into) {
    std::uint64_t needed = std::uint64_t{p.processes} * p.max;
    std::uint64_t free = l.in_use ? l.takes - std::min(l.takes, *l.in_use) : l.takes;
    std::string used =
        l.in_use ? ", of which other clients use " + std::to_string(*l.in_use) + " now" : "";
    std::string fails = "Under load, opens fail" +
                        (l.error.empty() ? "" : " with '" + l.error + "'") +
                        " and requests wait in line until they time out.";
    std::uint64_t each = std::max<std::uint64_t>(free / p.processes, 1);
    std::string then = "Set max to at most " + std::to_string(each) + " in each of " +
                       count_of(p.processes, "process", "processes") +
                       ", raise the limit, or put a pooler in front of the server.";
    if (needed > l.takes)
        into.push_back(
            {severity::problem, "too-few-connections",
             sum + ", but the server takes " + std::to_string(l.takes) + " (" + l.name + ").",
             fails, then});
    else if (needed > free)
        into.push_back({severity::warning, "connections-taken",
                        sum + ", but the server takes " + std::to_string(l.takes) + " (" + l.name +
                            ")" + used + ".",
                        fails, then});
    else if (needed * 2 > l.takes && p.processes > 0 && needed + 3 > free)
        into.push_back({severity::note, "no-connections-left",
                        sum + " of " + std::to_string(l.takes) + " (" + l.name + ")" + used +
                            ": enough, but none is left over.",
                        "During a deployment old and new processes run at the same time, and "
                        "administrators need connections, too.",
                        then});
    else
        into.push_back({severity::ok, "connections",
                        sum + "; the server takes " + std::to_string(l.takes) + " (" + l.name +
                            ")" + used + "."});
}

void about_limits(const facts& f, const planned& p, findings& into) {
    std::uint64_t needed = std::uint64_t{p.processes} * p.max;
    std::string sum = p.processes == 1 ? "A pool with max " + std::to_string(p.max)
                                       : std::to_string(p.processes) + " processes × max " +
                                             std::to_string(p.max) + " = " +
                                             std::to_string(needed) + " connections";
    for (const limit& l : f.limits) about_limit(l, sum, p, into);
}

void about_prepared(const facts& f, const planned& p, findings& into) {
    std::uint64_t needed = std::uint64_t{p.processes} * p.max * f.statement_cache;
    if (!f.max_prepared || needed <= *f.max_prepared) return;
    into.push_back({severity::problem, "too-many-statements",
                    count_of(p.processes, "process", "processes") + " × max " +
                        std::to_string(p.max) + " × statement_cache " +
                        std::to_string(f.statement_cache) + " = " + std::to_string(needed) +
                        " prepared statements, but the server allows " +
                        std::to_string(*f.max_prepared) + " (max_prepared_stmt_count).",
                    "Beyond that every prepare fails, for all clients of this server.",
                    "Lower statement_cache, or raise the limit."});
}

// Timeouts and clocks.

void about_idle_limits(const facts& f, const planned& p, findings& into) {
    for (const auto& [name, after] : f.idle_limits) {
        if (after == 0ns) continue;
        if (p.idle_timeout < after) {
            into.push_back({severity::ok, "idle-timeout",
                            "The server closes sessions idle for " + in_words(after) + " (" + name +
                                "); the pool closes them earlier, after " +
                                in_words(p.idle_timeout) + "."});
            continue;
        }
        into.push_back(
            {severity::warning, "idle-timeout",
             "The server closes sessions idle for " + in_words(after) + " (" + name +
                 "), the pool keeps them " + for_how_long(p.idle_timeout) + ".",
             "After an idle period most pooled connections are dead. The pool detects that, but "
             "the next callers wait for new connections; and a connection that the server closes "
             "just when it is leased fails.",
             "Set idle_timeout below " + in_words(after) + "."});
    }
}

void about_idle_check(const facts& f, const planned& p, findings& into) {
    if (!f.idle) return;
    std::string time = in_words(f.idle->waited);
    if (f.idle->survived) {
        into.push_back({severity::ok, "idle-survived",
                        "A connection that was idle for " + time + " still works."});
        return;
    }
    bool kept_longer = p.idle_timeout >= f.idle->waited;
    into.push_back(
        {kept_longer ? severity::problem : severity::note,
         f.idle->silently ? "idle-dropped-silently" : "idle-closed",
         "A connection that was idle for " + time + " was dead" +
             (f.idle->silently ? ", and neither side was notified." : "."),
         f.idle->silently
             ? "A firewall, NAT or load balancer on the route drops idle connections. A pool "
               "notices only when a probe times out. " +
                   f.idle->error
             : "The server or a device on the route closes idle connections. " + f.idle->error,
         kept_longer ? "Set idle_timeout below " + time + ", or heartbeat to half of it."
                     : "The pool closes them earlier, after " + in_words(p.idle_timeout) + "."});
}

void about_lifetime(const facts& f, const planned& p, findings& into) {
    if (f.kind == server_kind::sqlite || p.max_lifetime < 24h) return;
    into.push_back(
        {severity::note, "lifetime", "Connections live " + for_how_long(p.max_lifetime) + ".",
         "After a failover or a DNS change they stay connected to the old server, and a session's "
         "memory on the server keeps growing.",
         "Set max_lifetime to about half an hour."});
}

void about_session_timeouts(const facts& f, findings& into) {
    if (f.idle_in_transaction_timeout == 0ns)
        into.push_back({severity::note, "idle-in-transaction",
                        "The server does not limit how long a transaction may be idle.",
                        "A client that hangs in a transaction keeps its locks and blocks vacuum or "
                        "purge until an operator ends it.",
                        "Set idle_in_transaction_session_timeout (PostgreSQL) or "
                        "idle_transaction_timeout (MariaDB) to about a minute."});
    if (f.statement_timeout && *f.statement_timeout > 0ns)
        into.push_back(
            {severity::ok, "statement-timeout",
             "The server cancels statements after " + in_words(*f.statement_timeout) + "."});
}

void about_clock(const facts& f, findings& into) {
    if (!f.clock_ahead) return;
    nanoseconds off = *f.clock_ahead < 0ns ? -*f.clock_ahead : *f.clock_ahead;
    if (off <= 1s + f.clock_error) {
        into.push_back({severity::ok, "clock", "The server's clock agrees with this machine's."});
        return;
    }
    into.push_back(
        {off > 1min ? severity::warning : severity::note, "clock",
         "The server's clock is " + in_words(off) +
             (*f.clock_ahead > 0ns ? " ahead of this machine's." : " behind this machine's."),
         "Comparing times from both machines gives wrong results: tokens, locks with expiry, "
         "certificates.",
         "Synchronize both machines with NTP."});
}

// The kind of server.

void about_role(const facts& f, findings& into) {
    if (f.may_be_read_only || (!f.replica && !f.read_only)) return;
    into.push_back(
        {severity::warning, "read-only",
         f.replica ? "This server is a replica: it rejects writes." : "This server rejects writes.",
         "Writes fail, and reads may return slightly old data.",
         "If this is intended, request it in the URL (server_role, "
         "target_session_attrs); otherwise name the primary."});
}

void about_pooler(const facts& f, findings& into) {
    if (f.in_front == pooler::none) return;
    if (f.in_front == pooler::session) {
        into.push_back({severity::note, "pooler",
                        "There is a pooler in front of the server, with one session per "
                        "connection.",
                        "The pooler has limits of its own, which the doctor cannot read; all its "
                        "clients share the server's limits.",
                        "Keep the sum of all pools below the pooler's max_client_conn."});
        return;
    }
    into.push_back({severity::warning, "pooler-transaction",
                    "There is a pooler in transaction mode in front of the server: connections "
                    "share sessions.",
                    "Session state does not work reliably: SET, temporary tables, advisory locks, "
                    "LISTEN, cursors beyond a transaction, prepared statements.",
                    "Use session state only within a transaction and keep statement_cache at 0, or "
                    "connect to the server directly."});
}

void about_memory(const facts& f, findings& into) {
    if (!f.memory) return;
    const redis_facts& m = *f.memory;
    if (m.max_memory == 0u)
        into.push_back({severity::note, "memory-unbounded",
                        "Redis may use all memory of its machine (maxmemory is 0).",
                        "Then the system swaps or kills Redis.", "Set maxmemory."});
    else if (m.eviction == "noeviction")
        into.push_back({severity::note, "writes-may-fail",
                        "When its memory is full, Redis rejects writes (noeviction).",
                        "Right for data; in a cache every write fails.",
                        "For a cache choose a policy such as allkeys-lru."});
    else if (m.eviction.starts_with("allkeys"))
        into.push_back({severity::note, "keys-may-vanish",
                        "When its memory is full, Redis deletes keys (" + m.eviction + ").",
                        "Right for a cache; locks, queues and other data may be lost.",
                        "For data choose noeviction or a volatile policy."});
}

void about_web(const facts& f, findings& into) {
    if (!f.web) return;
    if (!f.web->keeps_alive)
        into.push_back({severity::warning, "no-keep-alive",
                        "The server closes the connection after each response.",
                        "A pool cannot reuse connections: every request opens one.",
                        "Turn keep-alive on in the server, or use no pool."});
    else if (f.web->requests_per_connection)
        into.push_back({severity::note, "requests-per-connection",
                        "The server closes a connection after " +
                            count_of(*f.web->requests_per_connection, "request", "requests") + ".",
                        "The pool then opens a new one.",
                        "Raise the limit (nginx: keepalive_requests) if opening is expensive."});
    else into.push_back({severity::ok, "keep-alive", "The server keeps connections alive."});
    if (f.web->status >= 500)
        into.push_back({severity::warning, "server-fails",
                        "The server responded with status " + std::to_string(f.web->status) + ".",
                        "The server or a service behind it fails.", "Look at the server's log."});
}

void about_file(const facts& f, const planned& p, findings& into) {
    if (!f.file) return;
    const sqlite_facts& s = *f.file;
    if (!s.damage.empty())
        into.push_back({severity::problem, "damaged", "The file is damaged: " + s.damage + ".",
                        "Reads may return wrong data.", "Restore it from a backup."});
    if (!s.file_system.empty())
        into.push_back({severity::problem, "network-file-system",
                        "The file is on " + s.file_system + ".",
                        "SQLite's locks are unreliable on network file systems: the file will be "
                        "damaged sooner or later, and WAL does not work at all.",
                        "Move it to a local disk, or use a database server."});
    if (!s.writable && !f.may_be_read_only)
        into.push_back({severity::problem, "read-only-file",
                        "This user may not write to the file or its folder.",
                        "Every write fails; WAL also writes to the folder.",
                        "Change the permissions, or set mode=ro in the URL."});
    if (s.free_bytes && *s.free_bytes < (std::uint64_t{100} << 20U))
        into.push_back({severity::warning, "disk-full", "Less than 100 MB are free on its disk.",
                        "When the disk is full, writes fail.", "Free disk space."});
    if (s.journal_mode != "wal")
        into.push_back({severity::note, "not-wal",
                        "The journal mode of the file is " + s.journal_mode + ".",
                        "Readers and a writer block each other. By default the connector switches "
                        "to WAL when it opens the file.",
                        "Keep journal_mode=wal, the connector's default."});
    if (std::uint64_t{p.processes} * p.max > 1)
        into.push_back({severity::note, "one-writer",
                        "SQLite allows one writer at a time, regardless of the number of "
                        "connections.",
                        p.processes > 1 ? "Writers of one process wait in line; writers of "
                                          "different processes compete for up to busy_timeout."
                                        : "cenote makes writers wait in line.",
                        "Keep transactions short; measure with cenote bench."});
}

void about_unread(const facts& f, findings& into) {
    for (const std::string& what : f.not_seen)
        into.push_back({severity::note, "not-seen", "Could not be read: " + what + "."});
}

}  // namespace

const char* to_string(severity s) noexcept {
    switch (s) {
        case severity::problem: return "problem";
        case severity::warning: return "warning";
        case severity::note: return "note";
        case severity::ok: break;
    }
    return "ok";
}

std::vector<finding> judge(const facts& f, const planned& p,
                           std::chrono::system_clock::time_point now) {
    findings all;
    if (f.error != connect_error::none) return {about_connect_error(f)};
    about_tls(f, now, all);
    about_latency(f, all);
    about_costs(f, all);
    about_limits(f, p, all);
    about_prepared(f, p, all);
    about_idle_limits(f, p, all);
    about_idle_check(f, p, all);
    about_lifetime(f, p, all);
    about_session_timeouts(f, all);
    about_pooler(f, all);
    about_role(f, all);
    about_clock(f, all);
    about_memory(f, all);
    about_web(f, all);
    about_file(f, p, all);
    about_unread(f, all);
    findings sorted;
    for (severity each : {severity::problem, severity::warning, severity::note, severity::ok})
        for (finding& one : all)
            if (one.how == each) sorted.push_back(std::move(one));
    return sorted;
}

bool has_problem(const std::vector<finding>& all) {
    return std::any_of(all.begin(), all.end(),
                       [](const finding& f) { return f.how == severity::problem; });
}

}  // namespace doctor
