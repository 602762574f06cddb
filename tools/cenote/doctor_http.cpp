// Web servers, asked by cenote doctor.
#include "doctor_servers.hpp"

#ifdef CENOTE_HAS_HTTP
#include <charconv>
#include <ctime>
#include <string_view>

#include "command.hpp"
#include "doctor_reach.hpp"
#include <cenote/http.hpp>
#include <cenote/url.hpp>

namespace doctor {

namespace http = cenote::http;
using namespace std::chrono_literals;
using std::chrono::system_clock;

namespace {

/// How many requests are made on one connection to see whether the server minds.
constexpr std::size_t requests_at_most = 150;

/// Of "timeout=5, max=100".
std::optional<std::uint64_t> parameter(std::string_view field, std::string_view name) {
    std::size_t at = field.find(name);
    if (at == std::string_view::npos) return std::nullopt;
    field.remove_prefix(at + name.size());
    if (!field.starts_with('=')) return std::nullopt;
    std::uint64_t value = 0;
    auto end = std::from_chars(field.data() + 1, field.data() + field.size(), value);
    return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

/// "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<std::chrono::seconds> parse_date(const std::string& text) {
    std::tm parts{};
    const char* end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    if (end == nullptr || *end != '\0') return std::nullopt;
    return std::chrono::seconds(::timegm(&parts));
}

void ask(http::connection& c, const http::request& question, facts& into) {
    auto before = system_clock::now();
    http::response answer = c.send(question);
    auto after = system_clock::now();
    into.web = {.status = answer.status, .keeps_alive = c.reusable()};
    if (auto server = answer.headers.find("Server")) into.version = *server;
    if (auto date = answer.headers.find("Date")) {
        into.clock_error = 1s;  // it has no fractions
        if (auto theirs = parse_date(std::string(*date)))
            compare_clocks(before, after, *theirs + 500ms, into);
    }
    if (auto alive = answer.headers.find("Keep-Alive")) {
        if (auto timeout = parameter(*alive, "timeout"))
            into.idle_limits.emplace_back(
                "Keep-Alive: timeout",
                std::chrono::seconds(std::min<std::uint64_t>(*timeout, 1'000'000'000)));
        into.web->requests_per_connection = parameter(*alive, "max");
    }
}

/// Until the server hangs up, but not for long.
void count_requests(const examination& how, http::connector& by, const http::request& question,
                    facts& into) {
    if (into.web->requests_per_connection) return;
    http::connection c = by.open();
    std::size_t count = 0;
    repeat(how, "requests on one connection", requests_at_most, 2s, [&] {
        if (!c.reusable()) return;
        c.send(question);
        ++count;
    });
    if (!c.reusable()) into.web->requests_per_connection = count;
    by.close(c);
}

}  // namespace

void examine_http(const examination& how, facts& into) {
    http::options o = http::options::from_url(how.url);
    o.connect_timeout = how.timeout;
    o.operation_timeout = how.timeout;
    into.local = cenote::is_loopback(o.host);
    std::uint16_t usual = o.secure ? 443 : 80;
    look_along({.host = o.host,
                .port = o.port == 0 ? usual : o.port,
                .timeout = how.timeout,
                .tls = o.secure,
                .ca_file = o.tls.ca_file,
                .server_name = o.tls.server_name},
               into);
    if (into.wrong != trouble::none) return;
    go_on(how);
    http::request question = http::head(o.probe_target.empty() ? "/" : o.probe_target);
    http::connector by(o);
    try {
        http::connection c = by.open();
        into.tls.in_use = o.secure;
        into.tls.verified = o.secure && !o.tls.unsafe_accept_anybody;
        ask(c, question, into);
        by.close(c);
    } catch (const cenote::server_error& e) {
        return explain_failure(e, o.secure, into);
    }
    if (!into.web->keeps_alive) return;
    attempt<cenote::server_error>("how many requests a connection is good for", into,
                                  [&] { count_requests(how, by, question, into); });
    // The server may hang up after some; that is no round trip.
    auto trip = [&](http::connection& on) {
        if (!on.reusable()) on = by.open();
        on.send(question);
    };
    measure(how, by, trip, false, into);
    check_idleness(how, by, [&](http::connection& on) { on.send(question); }, into);
}

}  // namespace doctor
#endif
