// The rules of cenote doctor, one function for each matter.
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

// No connection at all.

finding about_trouble(const facts& f) {
    auto it = [&](const char* code, std::string what, std::string then) {
        return finding{severity::problem, code, std::move(what), f.said, std::move(then)};
    };
    const std::string& host = f.host;
    switch (f.wrong) {
        case trouble::name_not_found:
            return it("name-not-found", "There is no host named '" + host + "'.",
                      "Check the spelling, and the DNS this machine uses.");
        case trouble::refused:
            return it(
                "refused", "Nobody listens there: " + host + " refused the connection.",
                "Check the port, whether the server runs, and on which addresses it listens.");
        case trouble::unreachable:
            return it("unreachable", "There is no way to " + host + ".",
                      "Check the network between here and there: routes, VPN, container network.");
        case trouble::timed_out:
            return it("timed-out", host + " did not answer in time, not even with a refusal.",
                      "A firewall that drops packets looks like this. Try from another machine.");
        case trouble::silent:
            return it("silent", host + " accepted the connection and then said nothing.",
                      "The server may be frozen or overloaded, or something else listens there.");
        case trouble::tls_not_offered:
            return it("tls-not-offered",
                      "The server does not offer TLS, and the URL insists on it.",
                      "Give the server a certificate. Only on a network that is yours alone: turn "
                      "TLS off in the URL.");
        case trouble::tls_untrusted:
            return it("tls-untrusted",
                      "The server's certificate cannot be trusted: " + f.tls.complaint + ".",
                      "Name the authority that signed it in the URL, and use the name it was "
                      "issued for. If it should be trusted, somebody may be in between.");
        case trouble::tls_failed:
            return it("tls-failed", "There was no agreement on TLS.",
                      "Does the server speak TLS 1.2 or later on this port?");
        case trouble::wrong_password:
            return it("wrong-password", "The server did not accept user and password.",
                      "Check both. In a URL a password's special characters are percent-encoded.");
        case trouble::no_database:
            return it("no-database", "The database of the URL does not exist.",
                      "Check its name, or create it.");
        case trouble::not_allowed:
            return it("not-allowed", "The server does not let this user in from here.",
                      "Its access rules (pg_hba.conf, user@host, ACL) must name user, database and "
                      "address.");
        case trouble::too_many:
            return it("too-many", "The server is full: it takes no further connection.",
                      "Find out who has them all. The sum of all pools must stay below its limit.");
        case trouble::broken_off:
            return it("broken-off", "Whoever answers at " + host + " hung up, or spoke nonsense.",
                      "Is it this kind of server that listens on this port?");
        case trouble::none:
        case trouble::other: break;
    }
    return it("no-connection", "No connection could be made.", "See what was said.");
}

// The connection's protection.

/// An expired one is among what the look complained of, so this is about what is to come.
void about_expiry(const facts& f, std::chrono::system_clock::time_point now, findings& into) {
    if (!f.tls.expires || !f.tls.complaint.empty()) return;
    auto left = *f.tls.expires - now;
    auto days = std::chrono::duration_cast<std::chrono::hours>(left).count() / 24;
    if (days >= 30) return;
    into.push_back(
        {days < 7 ? severity::problem : severity::warning, "certificate-expires",
         "The server's certificate ends on " + date_of(*f.tls.expires) + ", in " +
             count_of(static_cast<std::uint64_t>(std::max<long>(days, 0)), "day", "days") + ".",
         "From then on every new connection fails; those that are open go on, so it "
         "shows late.",
         "Have it renewed, by a machine if possible."});
}

void about_tls(const facts& f, std::chrono::system_clock::time_point now, findings& into) {
    if (f.kind == server_kind::sqlite) return;
    if (!f.tls.in_use && f.local) {
        into.push_back({severity::ok, "tls-local",
                        "No TLS, and none needed: what is said stays on this machine."});
        return;
    }
    if (!f.tls.in_use) {
        into.push_back({severity::problem, "tls-off", "The connection is not encrypted.",
                        "Anybody on the way can read and change everything, the login included.",
                        f.tls.offered.value_or(false)
                            ? "The server offers TLS: turn it on in the URL."
                            : "Give the server a certificate, then turn TLS on in the URL."});
        return;
    }
    if (!f.tls.verified) {
        std::string but = f.tls.complaint.empty()
                              ? "The certificate is good, so verifying it would work."
                              : "Verifying would fail now: " + f.tls.complaint + ".";
        into.push_back({f.local ? severity::note : severity::warning, "tls-unverified",
                        "TLS is on, but who answers is not verified.",
                        "Anybody on the way can pretend to be the server, read everything and pass "
                        "it on. " +
                            but,
                        "Have it verified: sslmode=verify-full for PostgreSQL, and tls=on without "
                        "exceptions elsewhere; name the authority if it is your own."});
    } else {
        into.push_back(
            {severity::ok, "tls",
             (f.tls.version.empty() ? "TLS" : f.tls.version) + ", verified" +
                 (f.tls.expires ? "; the certificate is good until " + date_of(*f.tls.expires)
                                : "") +
                 "."});
    }
    if (f.tls.version == "TLSv1" || f.tls.version == "TLSv1.1")
        into.push_back({severity::warning, "tls-old", "The server speaks " + f.tls.version + ".",
                        "It is broken and being switched off everywhere.",
                        "Allow TLS 1.2 or later on the server."});
    about_expiry(f, now, into);
}

// What things cost.

void about_latency(const facts& f, findings& into) {
    if (f.trip.count == 0) return;
    std::string what =
        "A round trip takes " + in_words(f.trip.p50) + " (p99 " + in_words(f.trip.p99) + ").";
    if (f.trip.p50 >= 20ms) {
        into.push_back({severity::warning, "far-away", what,
                        "Each statement of a request waits for that, and holds its connection "
                        "meanwhile: a lease with 10 statements lasts " +
                            in_words(f.trip.p50 * 10) + " at least, so the pool must be larger.",
                        "Run the service closer to it, or use fewer and larger statements."});
        return;
    }
    bool shaky = f.trip.p99 > f.trip.p50 * 20 && f.trip.p99 > 20ms;
    if (shaky)
        into.push_back({severity::note, "latency-varies", what,
                        "One in a hundred takes " + times_of(f.trip.p99, f.trip.p50) +
                            " times as long: whoever waits in line behind it waits, too.",
                        "Look for load on the server or on the way; measure again with cenote "
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
                        opening + ", keeping one ready " + in_words(kept) + ".",
                        "A pool saves little time here. It still bounds how many there are.",
                        "Do not expect it to make this server faster."});
    } else {
        into.push_back({severity::ok, "pooling-pays",
                        opening + ", " + times_of(f.open.p50, kept) +
                            " times as long as what a pool does to lend one again."});
    }
    if (f.reset.count > 0 && f.trip.count > 0 && f.reset.p50 > f.trip.p50 * 3 && f.reset.p50 > 1ms)
        into.push_back({severity::note, "reset-is-costly",
                        "A reset between two users takes " + in_words(f.reset.p50) + ", " +
                            times_of(f.reset.p50, f.trip.p50) + " times a round trip.",
                        "It is paid after each lease in which something was said.",
                        "Do more in one lease, or see the connector's reset options."});
}

// How many there can be.

/// `sum`: what is planned, in words.
void about_limit(const limit& l, const std::string& sum, const planned& p, findings& into) {
    std::uint64_t wanted = std::uint64_t{p.processes} * p.max;
    std::uint64_t free = l.in_use ? l.takes - std::min(l.takes, *l.in_use) : l.takes;
    std::string used =
        l.in_use ? ", of which others have " + std::to_string(*l.in_use) + " now" : "";
    std::string fails = "Under load opens will fail" +
                        (l.error.empty() ? "" : " with '" + l.error + "'") +
                        ", and requests wait in line until they time out.";
    std::uint64_t each = std::max<std::uint64_t>(free / p.processes, 1);
    std::string then = "Set max to at most " + std::to_string(each) + " in each of " +
                       count_of(p.processes, "process", "processes") +
                       ", raise the limit, or put a pooler in between.";
    if (wanted > l.takes)
        into.push_back(
            {severity::problem, "too-few-connections",
             sum + ", but the server takes " + std::to_string(l.takes) + " (" + l.name + ").",
             fails, then});
    else if (wanted > free)
        into.push_back({severity::warning, "connections-taken",
                        sum + ", but the server takes " + std::to_string(l.takes) + " (" + l.name +
                            ")" + used + ".",
                        fails, then});
    else if (wanted * 2 > l.takes && p.processes > 0 && wanted + 3 > free)
        into.push_back({severity::note, "no-connections-left",
                        sum + " of " + std::to_string(l.takes) + " (" + l.name + ")" + used +
                            ": it fits, with nothing to spare.",
                        "During a deployment old and new processes run side by side, and "
                        "administrators need one, too.",
                        then});
    else
        into.push_back({severity::ok, "connections",
                        sum + "; the server takes " + std::to_string(l.takes) + " (" + l.name +
                            ")" + used + "."});
}

void about_limits(const facts& f, const planned& p, findings& into) {
    std::uint64_t wanted = std::uint64_t{p.processes} * p.max;
    std::string sum = p.processes == 1 ? "A pool of max " + std::to_string(p.max)
                                       : std::to_string(p.processes) + " processes × max " +
                                             std::to_string(p.max) + " = " +
                                             std::to_string(wanted) + " connections";
    for (const limit& l : f.limits) about_limit(l, sum, p, into);
}

void about_prepared(const facts& f, const planned& p, findings& into) {
    std::uint64_t wanted = std::uint64_t{p.processes} * p.max * f.statement_cache;
    if (!f.max_prepared || wanted <= *f.max_prepared) return;
    into.push_back({severity::problem, "too-many-statements",
                    count_of(p.processes, "process", "processes") + " × max " +
                        std::to_string(p.max) + " × statement_cache " +
                        std::to_string(f.statement_cache) + " = " + std::to_string(wanted) +
                        " prepared statements, but the server keeps " +
                        std::to_string(*f.max_prepared) + " (max_prepared_stmt_count).",
                    "Beyond that every prepare fails, for everybody on this server.",
                    "Lower statement_cache, or raise the limit."});
}

// Time.

void about_idle_limits(const facts& f, const planned& p, findings& into) {
    for (const auto& [name, after] : f.idle_limits) {
        if (after == 0ns) continue;
        if (p.idle_timeout < after) {
            into.push_back({severity::ok, "idle-timeout",
                            "The server hangs up on who is idle for " + in_words(after) + " (" +
                                name + "); the pool closes them after " + in_words(p.idle_timeout) +
                                "."});
            continue;
        }
        into.push_back(
            {severity::warning, "idle-timeout",
             "The server closes sessions idle for " + in_words(after) + " (" + name +
                 "), the pool keeps them for " +
                 (p.idle_timeout == nanoseconds(cenote::forever) ? "ever"
                                                                 : in_words(p.idle_timeout)) +
                 ".",
             "After a quiet time most of what the pool keeps is dead. It notices, but "
             "whoever comes then waits for a new connection; and what the server closes "
             "in the very moment it is lent fails.",
             "Set idle_timeout below " + in_words(after) + "."});
    }
}

void about_idle_check(const facts& f, const planned& p, findings& into) {
    if (!f.idle) return;
    std::string time = in_words(f.idle->waited);
    if (f.idle->survived) {
        into.push_back({severity::ok, "idle-survived",
                        "A connection that was idle for " + time + " was still good."});
        return;
    }
    bool kept_longer = p.idle_timeout >= f.idle->waited;
    into.push_back(
        {kept_longer ? severity::problem : severity::note,
         f.idle->silently ? "idle-dropped-silently" : "idle-closed",
         "A connection that was idle for " + time + " was dead" +
             (f.idle->silently ? ", and nobody had said so." : "."),
         f.idle->silently
             ? "Something on the way (firewall, NAT, load balancer) forgets idle "
               "connections. A pool finds out only by a probe that runs into its "
               "timeout. " +
                   f.idle->said
             : "The server or something on the way closes idle connections. " + f.idle->said,
         kept_longer ? "Set idle_timeout below " + time + ", or heartbeat to half of it."
                     : "The pool closes them before, after " + in_words(p.idle_timeout) + "."});
}

void about_lifetime(const facts& f, const planned& p, findings& into) {
    if (f.kind == server_kind::sqlite || p.max_lifetime < 24h) return;
    into.push_back(
        {severity::note, "lifetime",
         "Connections live for " +
             (p.max_lifetime == nanoseconds(cenote::forever) ? "ever" : in_words(p.max_lifetime)) +
             ".",
         "After a failover, or when a name gets another address, they stay where they "
         "are; and what a session has piled up in memory stays, too.",
         "Set max_lifetime to half an hour or so."});
}

void about_session_timeouts(const facts& f, findings& into) {
    if (f.idle_in_transaction_timeout == 0ns)
        into.push_back({severity::note, "idle-in-transaction",
                        "The server lets transactions be idle for ever.",
                        "A borrower that hangs within one keeps its locks, and holds up clean-up, "
                        "until somebody notices.",
                        "Set idle_in_transaction_session_timeout (PostgreSQL) or "
                        "idle_transaction_timeout (MariaDB) to a minute or so."});
    if (f.statement_timeout && *f.statement_timeout > 0ns)
        into.push_back(
            {severity::ok, "statement-timeout",
             "The server ends statements after " + in_words(*f.statement_timeout) + "."});
}

void about_clock(const facts& f, findings& into) {
    if (!f.clock_ahead) return;
    nanoseconds off = *f.clock_ahead < 0ns ? -*f.clock_ahead : *f.clock_ahead;
    if (off <= 1s + f.clock_error) {
        into.push_back({severity::ok, "clock", "The server's clock agrees with ours."});
        return;
    }
    into.push_back(
        {off > 1min ? severity::warning : severity::note, "clock",
         "The server's clock is " + in_words(off) +
             (*f.clock_ahead > 0ns ? " ahead of ours." : " behind ours."),
         "Times that one of them wrote and the other compares are wrong: tokens, leases, "
         "certificates.",
         "Have both follow NTP."});
}

// What kind of server it is.

void about_role(const facts& f, findings& into) {
    if (f.may_be_read_only || (!f.replica && !f.read_only)) return;
    into.push_back({severity::warning, "read-only",
                    f.replica ? "This server is a replica: it takes no writes."
                              : "This server takes no writes.",
                    "Whoever writes will be refused, and what is read may be a little old.",
                    "If that is meant, say so in the URL (server_role, target_session_attrs); else "
                    "name the primary."});
}

void about_pooler(const facts& f, findings& into) {
    if (f.between == pooler::none) return;
    if (f.between == pooler::some) {
        into.push_back({severity::note, "pooler",
                        "There is a pooler between here and the server, one session for each "
                        "connection.",
                        "Its own limits count, which cannot be seen from here; the server's are "
                        "shared by all who use it.",
                        "Keep the sum of all pools below the pooler's max_client_conn."});
        return;
    }
    into.push_back({severity::warning, "pooler-transaction",
                    "There is a pooler in transaction mode between here and the server: "
                    "connections share sessions.",
                    "What belongs to a session does not work reliably: SET, temporary tables, "
                    "advisory locks, LISTEN, cursors beyond a transaction, prepared statements.",
                    "Do everything that belongs together in one transaction, keep statement_cache "
                    "at 0, or connect to the server itself for the rest."});
}

void about_memory(const facts& f, findings& into) {
    if (!f.memory) return;
    const redis_facts& m = *f.memory;
    if (m.max_memory == 0u)
        into.push_back({severity::note, "memory-unbounded",
                        "Redis may take all memory of its machine (maxmemory is 0).",
                        "Then the system ends it, or begins to swap.", "Set maxmemory."});
    else if (m.eviction == "noeviction")
        into.push_back({severity::note, "writes-may-fail",
                        "When its memory is full, Redis refuses writes (noeviction).",
                        "Good for data, bad for a cache: then each write is an error.",
                        "For a cache choose allkeys-lru or the like."});
    else if (m.eviction.starts_with("allkeys"))
        into.push_back({severity::note, "keys-may-vanish",
                        "When its memory is full, Redis drops keys (" + m.eviction + ").",
                        "Good for a cache, bad for data: locks and queues may vanish.",
                        "For data choose noeviction or a volatile policy."});
}

void about_web(const facts& f, findings& into) {
    if (!f.web) return;
    if (!f.web->keeps_alive)
        into.push_back({severity::warning, "no-keep-alive",
                        "The server hangs up after each answer.",
                        "A pool has nothing to keep: every request opens a connection.",
                        "Turn keep-alive on there, or do without a pool."});
    else if (f.web->requests_per_connection)
        into.push_back({severity::note, "requests-per-connection",
                        "The server hangs up after " +
                            count_of(*f.web->requests_per_connection, "request", "requests") +
                            " on a connection.",
                        "The pool opens another one then, so this is how often that costs.",
                        "Raise it on the server (nginx: keepalive_requests) if opening is dear."});
    else into.push_back({severity::ok, "keep-alive", "The server keeps connections alive."});
    if (f.web->status >= 500)
        into.push_back({severity::warning, "server-fails",
                        "It answered with status " + std::to_string(f.web->status) + ".",
                        "Something behind it is wrong now.", "Look at its log."});
}

void about_file(const facts& f, const planned& p, findings& into) {
    if (!f.file) return;
    const sqlite_facts& s = *f.file;
    if (!s.damage.empty())
        into.push_back({severity::problem, "damaged", "The file is damaged: " + s.damage + ".",
                        "What is read from it may be wrong.", "Restore it from a backup."});
    if (!s.file_system.empty())
        into.push_back({severity::problem, "network-file-system",
                        "The file lies on " + s.file_system + ".",
                        "SQLite's locks do not work reliably over a network: the file will be "
                        "damaged sooner or later, and WAL does not work at all.",
                        "Put it on a local disk, or use a database server."});
    if (!s.writable && !f.may_be_read_only)
        into.push_back({severity::problem, "read-only-file",
                        "This user may not write the file or its folder.",
                        "Every write will fail; WAL needs the folder, too.",
                        "Change the rights, or say mode=ro in the URL."});
    if (s.free_bytes && *s.free_bytes < (std::uint64_t{100} << 20U))
        into.push_back({severity::warning, "disk-full", "Less than 100 MB are free on its disk.",
                        "When it is full, writes fail.", "Make room."});
    if (s.journal_mode != "wal")
        into.push_back({severity::note, "not-wal",
                        "The journal mode of the file is " + s.journal_mode + ".",
                        "Readers and a writer shut each other out. The connector's default is to "
                        "switch to WAL when it opens the file.",
                        "Leave journal_mode=wal in the URL, which is its default."});
    if (std::uint64_t{p.processes} * p.max > 1)
        into.push_back({severity::note, "one-writer",
                        "SQLite has one writer at a time, however many connections there are.",
                        p.processes > 1 ? "Within a process cenote has them wait in line; several "
                                          "processes only have busy_timeout."
                                        : "cenote has them wait in line.",
                        "Keep transactions short; measure with cenote bench."});
}

void about_the_rest(const facts& f, findings& into) {
    for (const std::string& what : f.not_seen)
        into.push_back({severity::note, "not-seen", "Not seen: " + what + "."});
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
    if (f.wrong != trouble::none) {
        all.push_back(about_trouble(f));
        return all;
    }
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
    about_the_rest(f, all);
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
