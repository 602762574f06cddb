// Options and output of cenote doctor.
#include "doctor.hpp"

#include <boost/json/value.hpp>
#include <csignal>
#include <cstdio>
#include <map>

#include <CLI/CLI.hpp>

#include "checks.hpp"
#include "doctor_rules.hpp"
#include "doctor_servers.hpp"
#include "help.hpp"
#include "terminal.hpp"
#include <cenote/url.hpp>

namespace doctor {

namespace json = boost::json;
using command::in_words;
using terminal::tint;

namespace {

struct examiner {
    server_kind kind;
    void (*examine)(const examination&, facts&);
};

/// By URL scheme, for all servers that this program was built with.
const std::map<std::string, examiner>& examiners() {
    static const std::map<std::string, examiner> all = {
#ifdef CENOTE_HAS_POSTGRES
        {"postgresql", {server_kind::postgres, examine_postgres}},
        {"postgres", {server_kind::postgres, examine_postgres}},
#endif
#ifdef CENOTE_HAS_MARIADB
        {"mariadb", {server_kind::mariadb, examine_mariadb}},
        {"mysql", {server_kind::mariadb, examine_mariadb}},
#endif
#ifdef CENOTE_HAS_REDIS
        {"redis", {server_kind::redis, examine_redis}},
        {"rediss", {server_kind::redis, examine_redis}},
#endif
#ifdef CENOTE_HAS_HTTP
        {"http", {server_kind::http, examine_http}},
        {"https", {server_kind::http, examine_http}},
#endif
        {"sqlite", {server_kind::sqlite, examine_sqlite}},
    };
    return all;
}

const examiner& examiner_for(const std::string& scheme) {
    auto found = examiners().find(scheme);
    if (found != examiners().end()) return found->second;
    std::string supported;
    for (const auto& [name, one] : examiners()) supported += (supported.empty() ? "" : ", ") + name;
    throw command::wrong_arguments("unsupported URL scheme '" + scheme + ":'",
                                   "Supported: " + supported + ".");
}

// JSON output.

json::value in_seconds(const std::optional<nanoseconds>& time) {
    return time ? json::value(command::in_seconds(*time)) : nullptr;
}

json::value to_json(const times& t) {
    if (t.count == 0) return nullptr;
    return json::object{
        {"count", t.count}, {"p50_seconds", in_seconds(t.p50)}, {"p99_seconds", in_seconds(t.p99)}};
}

json::value to_json(const tls_facts& t) {
    json::object all{{"in_use", t.in_use}, {"verified", t.verified}};
    all["offered"] = t.offered ? json::value(*t.offered) : json::value(nullptr);
    if (t.version.empty()) return all;
    all["version"] = t.version;
    all["subject"] = t.subject;
    all["issuer"] = t.issuer;
    all["complaint"] = t.complaint;
    if (t.expires) all["expires"] = std::chrono::system_clock::to_time_t(*t.expires);
    return all;
}

json::array limits_to_json(const facts& f) {
    json::array all;
    for (const limit& l : f.limits)
        all.push_back(json::object{{"name", l.name},
                                   {"takes", l.takes},
                                   {"in_use", l.in_use ? json::value(*l.in_use) : nullptr}});
    return all;
}

json::value to_json(const facts& f, const std::vector<finding>& all) {
    json::array findings;
    for (const finding& one : all)
        findings.push_back(json::object{{"severity", to_string(one.how)},
                                        {"code", one.code},
                                        {"what", one.what},
                                        {"why", one.why},
                                        {"then", one.then}});
    json::array addresses;
    for (const std::string& one : f.addresses) addresses.emplace_back(one);
    json::object idle_limits;
    for (const auto& [name, after] : f.idle_limits)
        idle_limits[name] = after.count() == 0 ? json::value(nullptr) : in_seconds(after);
    return json::object{{"url", f.url},
                        {"server", f.version},
                        {"connected", f.error == connect_error::none},
                        {"problem", has_problem(all)},
                        {"addresses", addresses},
                        {"lookup_seconds", in_seconds(f.lookup)},
                        {"tcp_seconds", in_seconds(f.tcp)},
                        {"tls_handshake_seconds", in_seconds(f.handshake)},
                        {"tls", to_json(f.tls)},
                        {"open", to_json(f.open)},
                        {"round_trip", to_json(f.trip)},
                        {"probe", to_json(f.probe)},
                        {"reset", to_json(f.reset)},
                        {"limits", limits_to_json(f)},
                        {"idle_limits_seconds", idle_limits},
                        {"clock_ahead_seconds", in_seconds(f.clock_ahead)},
                        {"findings", findings}};
}

// Text output.

tint tint_of(severity s) {
    switch (s) {
        case severity::problem: return tint::red;
        case severity::warning: return tint::yellow;
        case severity::note: return tint::cyan;
        case severity::ok: break;
    }
    return tint::green;
}

void print_indented(const std::string& text, const std::string& indent,
                    const terminal::palette& paint, tint color) {
    std::size_t room = std::min<std::size_t>(terminal::width(), 100) - indent.size();
    for (const std::string& line : terminal::wrap(terminal::printable(text), room))
        std::printf("%s%s\n", indent.c_str(), paint(color, line).c_str());
}

void print_finding(const finding& f, const terminal::palette& paint) {
    std::string label = to_string(f.how);
    label.resize(9, ' ');
    std::size_t room = std::min<std::size_t>(terminal::width(), 100) - label.size();
    std::string start = paint(tint_of(f.how), label);
    for (const std::string& line :
         terminal::wrap(terminal::printable(f.what) + " [" + f.code + "]", room)) {
        std::printf("%s%s\n", start.c_str(), line.c_str());
        start = std::string(label.size(), ' ');
    }
    std::string indent(label.size(), ' ');
    if (!f.why.empty()) print_indented(f.why, indent, paint, tint::dim);
    if (!f.then.empty() && f.how != severity::ok)
        print_indented("→ " + f.then, indent, paint, tint::plain);
}

void print_times(const facts& f, const terminal::palette& paint) {
    terminal::table rows({{"time"},
                          {"p50", terminal::table::align::right},
                          {"p99", terminal::table::align::right},
                          {"measured", terminal::table::align::right}});
    auto once = [&](const char* what, const std::optional<nanoseconds>& time) {
        if (time) rows.add({what, in_words(*time), "", "once"});
    };
    auto often = [&](const char* what, const times& t) {
        if (t.count > 0)
            rows.add({what, in_words(t.p50), in_words(t.p99), std::to_string(t.count) + "×"});
    };
    once("  name lookup", f.lookup);
    once("  TCP connect", f.tcp);
    once("  TLS handshake", f.handshake);
    if (f.tcp && f.open.count > 0) {
        nanoseconds rest = f.open.p50 - *f.tcp - *f.lookup;
        if (f.tls.in_use && f.handshake) rest -= *f.handshake;
        if (rest > nanoseconds{0}) rows.add({"  login", in_words(rest), "", "the rest"});
    }
    often("open a connection", f.open);
    often("round trip", f.trip);
    often("probe", f.probe);
    often("reset", f.reset);
    if (!rows.empty()) std::printf("\n%s", rows.to_text(paint).c_str());
}

void print(const facts& f, const std::vector<finding>& all, const settings& how) {
    terminal::palette paint(how.look.colors);
    std::printf("%s\n", paint(tint::bold, terminal::printable(f.url)).c_str());
    std::string where = f.version;
    if (!f.addresses.empty()) where += (where.empty() ? "at " : " at ") + f.addresses.front();
    if (f.addresses.size() > 1) where += " and others";
    if (!where.empty()) std::printf("%s\n", terminal::printable(where).c_str());
    std::printf("\n");
    for (const finding& one : all) print_finding(one, paint);
    if (f.error == connect_error::none) print_times(f, paint);
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    CLI::App* options = app.add_subcommand(
        "doctor", "Connects to a server and reports what would fail in production.");
    options
        ->add_option("URL", into.url,
                     "Server: postgresql://…, mariadb://…, redis://…, rediss://…, http://…, "
                     "https://… or sqlite:/path")
        ->required();
    options->add_option("--max", into.pool.max, "Planned max of each pool")
        ->capture_default_str()
        ->check(command::from_to(1, 1'000'000))
        ->option_text("N=" + std::to_string(into.pool.max));
    options
        ->add_option("--processes", into.pool.processes,
                     "Planned number of processes, one pool each")
        ->check(command::from_to(1, 1'000'000))
        ->option_text("N=1");
    command::add_duration(*options, "--idle-timeout", into.pool.idle_timeout,
                          "Planned idle_timeout of the pools")
        ->option_text("TIME=5min");
    command::add_duration(*options, "--max-lifetime", into.pool.max_lifetime,
                          "Planned max_lifetime of the pools")
        ->option_text("TIME=30min");
    command::add_duration(*options, "--idle", into.idle,
                          "Also keep a connection idle for this long and test whether it survives, "
                          "because firewalls and load balancers drop idle connections");
    command::add_duration(*options, "--timeout", into.timeout,
                          "Timeout of each single step: connect, handshake, login, statement")
        ->option_text("TIME=5s");
    command::add_password(*options, into.password);
    command::add_look(*options, into.look);
    command::add_footer(
        *options,
        "Examples:\n"
        "  cenote doctor postgresql://app@db/orders --processes 8 --max 32\n"
        "  cenote doctor rediss://cache.example.com --idle 10min\n"
        "  cenote doctor mariadb://app@db/orders --password-file secret.txt --json\n"
        "\n"
        "The doctor only reads: it changes nothing on the server.\n",
        {{command::fine, "no problem was found; there may be warnings"},
         {command::failed, "a problem was found, or the server cannot be reached"},
         {command::wrong_usage, "invalid arguments; nothing was done"},
         {command::interrupted, "interrupted"}});
    return options;
}

int run(const settings& how) {
    using namespace std::chrono_literals;
    if (how.timeout < 1ms || how.timeout > 10min)
        throw command::wrong_arguments("--timeout must be between 1ms and 10min");
    if (how.idle > 24h) throw command::wrong_arguments("--idle must be at most 24h");
    std::string url = command::complete_url(how.url, how.password);
    cenote::url parsed = cenote::url::parse(url);
    const examiner& chosen = examiner_for(parsed.scheme);
    // A server that closes the connection during a handshake must not end the program.
    std::signal(SIGPIPE, SIG_IGN);
    facts found;
    found.kind = chosen.kind;
    found.url = parsed.redacted();
    {
        terminal::interruption stop;
        examination e{.url = url,
                      .timeout = how.timeout,
                      .idle = how.idle > 0ns ? std::optional(how.idle) : std::nullopt,
                      .stop = stop};
        chosen.examine(e, found);
    }
    auto all = judge(found, how.pool, std::chrono::system_clock::now());
    if (how.look.json) command::print_json(to_json(found, all));
    else print(found, all, how);
    return has_problem(all) ? command::failed : command::fine;
}

}  // namespace doctor
