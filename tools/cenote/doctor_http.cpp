// cenote doctor for web servers.
#include "doctor_servers.hpp"

#ifdef CENOTE_HAS_HTTP
#include <ctime>
#include <string_view>

#include <cenote/http.hpp>
#include <cenote/url.hpp>

namespace doctor {

namespace http = cenote::http;
using namespace std::chrono_literals;
using std::chrono::system_clock;

namespace {

/// How many requests are sent on one connection to find the server's limit.
constexpr std::size_t requests_at_most = 150;

/// A parameter of a field like "timeout=5, max=100".
std::optional<std::uint64_t> parameter(std::string_view field, std::string_view name) {
    std::size_t at = field.find(name);
    if (at == std::string_view::npos) return std::nullopt;
    field.remove_prefix(at + name.size());
    if (!field.starts_with('=')) return std::nullopt;
    return parse_number(field.substr(1));
}

/// "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<std::chrono::seconds> parse_date(const std::string& text) {
    std::tm parts{};
    const char* end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    if (end == nullptr || *end != '\0') return std::nullopt;
    return std::chrono::seconds(::timegm(&parts));
}

void send_first_request(http::connection& c, const http::request& request, facts& into) {
    auto before = system_clock::now();
    http::response response = c.send(request);
    auto after = system_clock::now();
    into.web = {.status = response.status, .keeps_alive = c.reusable()};
    if (auto server = response.headers.find("Server")) into.version = *server;
    if (auto date = response.headers.find("Date")) {
        into.clock_error = 1s;  // the field has no fractions of seconds
        if (auto theirs = parse_date(std::string(*date)))
            compare_clocks(before, after, *theirs + 500ms, into);
    }
    if (auto alive = response.headers.find("Keep-Alive")) {
        if (auto timeout = parameter(*alive, "timeout"))
            into.idle_limits.emplace_back("Keep-Alive: timeout", seconds_from(*timeout));
        into.web->requests_per_connection = parameter(*alive, "max");
    }
}

/// Sends requests until the server closes the connection, for at most two seconds.
void count_requests(const examination& how, http::connector& connector,
                    const http::request& request, facts& into) {
    if (into.web->requests_per_connection) return;
    http::connection c = connector.open();
    std::size_t count = 0;
    repeat(how, "requests on one connection", requests_at_most, 2s, [&] {
        if (!c.reusable()) return;
        c.send(request);
        ++count;
    });
    if (!c.reusable()) into.web->requests_per_connection = count;
    connector.close(c);
}

}  // namespace

void examine_http(const examination& how, facts& into) {
    http::options o = http::options::from_url(how.url);
    o.connect_timeout = how.timeout;
    o.operation_timeout = how.timeout;
    into.local = cenote::is_loopback(o.host);
    std::uint16_t usual = o.secure ? 443 : 80;
    inspect_route({.host = o.host,
                   .port = o.port == 0 ? usual : o.port,
                   .timeout = how.timeout,
                   .tls = o.secure,
                   .ca_file = o.tls.ca_file,
                   .server_name = o.tls.server_name},
                  into);
    if (into.error != connect_error::none) return;
    throw_if_interrupted(how);
    http::request request = http::head(o.probe_target.empty() ? "/" : o.probe_target);
    http::connector connector(o);
    try {
        http::connection c = connector.open();
        into.tls.in_use = o.secure;
        into.tls.verified = o.secure && !o.tls.unsafe_accept_any_certificate;
        send_first_request(c, request, into);
        connector.close(c);
    } catch (const cenote::server_error& e) {
        return explain_failure(e, o.secure, into);
    }
    if (!into.web->keeps_alive) return;
    attempt<cenote::server_error>("the number of requests per connection", into,
                                  [&] { count_requests(how, connector, request, into); });
    // The server may close the connection after some requests.
    auto trip = [&](http::connection& c) {
        if (!c.reusable()) c = connector.open();
        c.send(request);
    };
    measure(how, connector, trip, false, into);
    check_idleness(how, connector, [&](http::connection& c) { c.send(request); }, into);
}

}  // namespace doctor
#endif
