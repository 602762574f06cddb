// Requests, checked before anything is sent; fields; options from URLs.
#include "connector/http_request.hpp"

#include <algorithm>
#include <array>
#include <openssl/evp.h>
#include <stdexcept>
#include <string.h>
#include <vector>

#include "cenote/url.hpp"

namespace cenote::http {

namespace {

constexpr std::size_t least_header = 1024;
constexpr std::size_t most_header = std::size_t{1} << 30;
/// A body up to this size is sent along with the head.
constexpr std::size_t short_body = std::size_t{16} << 10;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, {}, lower, lower);
}

bool is_token(std::string_view text) {
    constexpr std::string_view others = "!#$%&'*+-.^_`|~";
    return !text.empty() && std::ranges::all_of(text, [&](char c) {
        char l = lower(c);
        return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || others.find(c) != others.npos;
    });
}

/// Spaces end it, controls end more than that, and what follows a '#' is not for the server.
bool is_target(std::string_view text) {
    bool visible =
        std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != '#'; });
    return visible && (text.starts_with('/') || text == "*");
}

bool is_value(std::string_view text) {
    return std::ranges::all_of(text, [](char c) {
        auto u = static_cast<unsigned char>(c);
        return u == '\t' || (u >= ' ' && u != 0x7f);
    });
}

[[noreturn]] void refuse(const std::string& why) {
    throw std::invalid_argument("cenote: the request " + why);
}

void check(const request& asked) {
    if (!is_token(asked.method)) refuse("has a method that is no word");
    if (asked.method == "CONNECT") refuse("is for a tunnel: there are none here");
    if (!is_target(asked.target))
        refuse("has a target that is no path, or with characters that must be percent-encoded");
    constexpr std::array<std::string_view, 9> ours = {"connection", "content-length",    "host",
                                                      "keep-alive", "proxy-connection",  "te",
                                                      "trailer",    "transfer-encoding", "upgrade"};
    for (const headers::field& each : asked.headers) {
        if (!is_token(each.name)) refuse("has a field whose name is no word");
        if (!is_value(each.value))
            refuse("has control characters in its field \"" + each.name + "\"");
        for (std::string_view own : ours)
            if (same_name(own, each.name))
                refuse("has a field \"" + each.name + "\", which is the connection's own affair");
    }
}

/// The value of Host, and what a certificate is for.
std::string host_of(const options& chosen) {
    if (chosen.host.starts_with('/')) return "localhost";
    return chosen.host;
}

std::string host_field_of(const options& chosen) {
    std::string host = host_of(chosen);
    if (host.find(':') != host.npos) host = "[" + host + "]";
    bool usual = chosen.port == 0 || chosen.port == (chosen.secure ? 443 : 80);
    return usual ? host : host + ":" + std::to_string(chosen.port);
}

secret authorization_of(const options& chosen) {
    if (chosen.user.empty()) return {};
    std::string_view password = chosen.password.reveal();
    std::vector<unsigned char> plain;
    plain.reserve(chosen.user.size() + 1 + password.size());
    plain.insert(plain.end(), chosen.user.begin(), chosen.user.end());
    plain.push_back(':');
    plain.insert(plain.end(), password.begin(), password.end());
    constexpr std::string_view scheme = "Basic ";
    std::vector<unsigned char> encoded(scheme.size() + (plain.size() + 2) / 3 * 4 + 1);
    std::ranges::copy(scheme, encoded.begin());
    int size = EVP_EncodeBlock(encoded.data() + scheme.size(), plain.data(),
                               static_cast<int>(plain.size()));
    secret made(std::string_view(reinterpret_cast<const char*>(encoded.data()),
                                 scheme.size() + static_cast<std::size_t>(size)));
    explicit_bzero(plain.data(), plain.size());
    explicit_bzero(encoded.data(), encoded.size());
    return made;
}

void check(const options& chosen) {
    auto refuse_option = [](const char* why) {
        throw std::invalid_argument(std::string("cenote: http::options: ") + why);
    };
    bool host_fits = !chosen.host.empty() &&
                     std::ranges::all_of(chosen.host, [](char c) { return c > ' ' && c < 0x7f; });
    if (!host_fits) refuse_option("the host is empty or has characters that no host has");
    if (chosen.user.find(':') != std::string::npos) refuse_option("the user has a ':' in it");
    if (chosen.user.empty() && !chosen.password.empty())
        refuse_option("there is a password without a user");
    if (!is_value(chosen.user_agent)) refuse_option("user_agent has control characters");
    if (chosen.max_header < least_header || chosen.max_header > most_header)
        refuse_option("max_header is not between 1 KiB and 1 GiB");
    if (!chosen.probe_target.empty() && !is_target(chosen.probe_target))
        refuse_option("probe_target is no path");
}

}  // namespace

std::optional<std::string_view> headers::find(std::string_view name) const noexcept {
    for (const field& each : fields_)
        if (same_name(each.name, name)) return each.value;
    return std::nullopt;
}

std::vector<std::string_view> headers::all(std::string_view name) const {
    std::vector<std::string_view> found;
    for (const field& each : fields_)
        if (same_name(each.name, name)) found.push_back(each.value);
    return found;
}

void headers::add(std::string name, std::string value) {
    fields_.push_back({std::move(name), std::move(value)});
}

void headers::set(std::string_view name, std::string value) {
    std::erase_if(fields_, [&](const field& each) { return same_name(each.name, name); });
    add(std::string(name), std::move(value));
}

namespace {

[[noreturn]] void refuse_url(const std::string& why) {
    throw invalid_url("cenote: the URL " + why);
}

/// Refused here, where the key can be named.
void take_tls(url_parameters& from, bool secure, tls_options& into) {
    auto take = [&](const char* key, std::string& value) {
        auto given = from.take(key);
        if (!given) return;
        if (!secure) refuse_url(std::string("has a parameter \"") + key + "\" but is no https");
        value = *given;
    };
    take("tls_ca", into.ca_file);
    take("tls_cert", into.certificate_file);
    take("tls_key", into.key_file);
    take("tls_server_name", into.server_name);
    if (into.certificate_file.empty() && !into.key_file.empty())
        refuse_url("has a parameter \"tls_key\" without \"tls_cert\"");
}

void take_times(url_parameters& from, options& into) {
    using std::chrono::milliseconds;
    if (auto time = from.take_milliseconds("connect_timeout"))
        into.connect_timeout = milliseconds(*time);
    if (auto time = from.take_milliseconds("operation_timeout"))
        into.operation_timeout = milliseconds(*time);
}

void take_bounds(url_parameters& from, options& into) {
    if (auto bytes = from.take_number("max_header", least_header, most_header))
        into.max_header = static_cast<std::size_t>(*bytes);
    if (auto bytes = from.take_number("max_body", 0, std::int64_t{1} << 40))
        into.max_body = static_cast<std::size_t>(*bytes);
}

}  // namespace

options options::from_url(std::string_view text) {
    url u = url::parse(text);
    if (u.scheme != "http" && u.scheme != "https") refuse_url("is neither http nor https");
    if (u.hosts.empty()) refuse_url("has no host");
    if (u.hosts.size() > 1) refuse_url("has more than one host: each needs a pool of its own");
    if (!u.path.empty() && u.path != "/")
        refuse_url("has a path: targets are given with each request");
    if (u.user.find(':') != std::string::npos) refuse_url("has a user with a ':' in it");

    if (u.user.empty() && !u.password.empty()) refuse_url("has a password without a user");

    options o;
    o.secure = u.scheme == "https";
    o.host = u.hosts.front().name;
    o.port = u.hosts.front().port;
    o.user = u.user;
    o.password = u.password;
    url_parameters given(u);
    take_tls(given, o.secure, o.tls);
    take_times(given, o);
    take_bounds(given, o);
    if (auto agent = given.take("user_agent")) {
        if (!is_value(*agent)) refuse_url("has a parameter \"user_agent\" with control characters");
        o.user_agent = *agent;
    }
    if (auto target = given.take("probe_target")) {
        if (!is_target(*target)) refuse_url("has a parameter \"probe_target\" that is no path");
        o.probe_target = *target;
    }
    given.refuse_others();
    return o;
}

namespace detail {

using connector_detail::tls_context;

settings::settings(const options& o)
    : chosen((check(o), o)), host_field(host_field_of(o)), authorization(authorization_of(o)) {
    if (chosen.port == 0) chosen.port = chosen.secure ? 443 : 80;
    if (!chosen.secure) return;
    if (chosen.tls.server_name.empty()) chosen.tls.server_name = host_of(chosen);
    tls = std::make_unique<tls_context>(chosen.tls, "http/1.1");
}

/// Its size is known from the beginning: growing would leave copies behind.
request_text::request_text(const request& asked, const settings& by) {
    check(asked);
    std::size_t size = 256 + asked.method.size() + asked.target.size() + by.host_field.size() +
                       by.authorization.reveal().size() + by.chosen.user_agent.size();
    for (const headers::field& each : asked.headers)
        size += each.name.size() + each.value.size() + 4;
    bool together = asked.body.size() <= short_body;
    if (together) size += asked.body.size();
    text_.reserve(size);

    text_.append(asked.method).append(" ").append(asked.target).append(" HTTP/1.1\r\n");
    add("Host", by.host_field);
    bool own_agent = asked.headers.contains("User-Agent");
    if (!own_agent && !by.chosen.user_agent.empty()) add("User-Agent", by.chosen.user_agent);
    bool own_authorization = asked.headers.contains("Authorization");
    if (!own_authorization && !by.authorization.empty())
        add("Authorization", by.authorization.reveal());
    for (const headers::field& each : asked.headers) add(each.name, each.value);
    bool usual = asked.method == "POST" || asked.method == "PUT" || asked.method == "PATCH";
    if (usual || !asked.body.empty()) add("Content-Length", std::to_string(asked.body.size()));
    text_.append("\r\n");
    if (together) text_.append(asked.body);
    else body_ = asked.body;
}

request_text::~request_text() { explicit_bzero(text_.data(), text_.size()); }

void request_text::add(std::string_view name, std::string_view value) {
    text_.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace detail

}  // namespace cenote::http
