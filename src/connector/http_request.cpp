// Requests, checked before anything is sent; header fields; options from URLs.
#include "connector/http_request.hpp"

#include <algorithm>
#include <array>
#include <openssl/evp.h>
#include <stdexcept>
#include <string.h>
#include <vector>

#include "cenote/url.hpp"
#include "connector/url_options.hpp"

namespace cenote::http {

namespace {

// Of options::max_header.
constexpr std::size_t min_header_limit = 1024;
constexpr std::size_t max_header_limit = std::size_t{1} << 30;
/// A body up to this size is sent in one message with the head.
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

/// Without spaces and control characters, which would end it, and without a fragment.
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
    throw std::invalid_argument("cenote: the HTTP request " + why);
}

void check(const request& r) {
    if (!is_token(r.method)) refuse("has a malformed method");
    if (r.method == "CONNECT") refuse("has the method CONNECT, which is not supported");
    if (!is_target(r.target))
        refuse("has a target that is not a path, or has characters that must be percent-encoded");
    constexpr std::array<std::string_view, 9> reserved = {
        "connection", "content-length",    "host",   "keep-alive", "proxy-connection", "te",
        "trailer",    "transfer-encoding", "upgrade"};
    for (const headers::field& each : r.headers) {
        if (!is_token(each.name)) refuse("has a field with a malformed name");
        if (!is_value(each.value))
            refuse("has control characters in its field \"" + each.name + "\"");
        for (std::string_view own : reserved)
            if (same_name(own, each.name))
                refuse("has a field \"" + each.name + "\", which only the connection may set");
    }
}

/// The name for the field Host and for the certificate.
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
        throw std::invalid_argument(std::string("cenote: the HTTP option ") + why);
    };
    bool host_fits = !chosen.host.empty() &&
                     std::ranges::all_of(chosen.host, [](char c) { return c > ' ' && c < 0x7f; });
    if (!host_fits) refuse_option("\"host\" is empty or has characters that are not allowed");
    if (chosen.user.find(':') != std::string::npos) refuse_option("\"user\" must not have a ':'");
    if (chosen.user.empty() && !chosen.password.empty()) refuse_option("\"password\" needs a user");
    if (!is_value(chosen.user_agent)) refuse_option("\"user_agent\" has control characters");
    if (chosen.max_header < min_header_limit || chosen.max_header > max_header_limit)
        refuse_option("\"max_header\" must be between 1 KiB and 1 GiB");
    if (!chosen.probe_target.empty() && !is_target(chosen.probe_target))
        refuse_option("\"probe_target\" must be a path");
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

options options::from_url(std::string_view text) {
    using connector_detail::refuse_url;
    url u = url::parse(text);
    if (u.scheme != "http" && u.scheme != "https")
        refuse_url("must begin with http:// or https://");
    if (u.hosts.empty()) refuse_url("has no host");
    if (u.hosts.size() > 1) refuse_url("has more than one host; each needs a pool of its own");
    if (!u.path.empty() && u.path != "/")
        refuse_url("has a path; targets are given with each request");
    if (u.user.find(':') != std::string::npos) refuse_url("has a user with a ':' in it");
    if (u.user.empty() && !u.password.empty()) refuse_url("has a password without a user");

    options o;
    o.secure = u.scheme == "https";
    o.host = u.hosts.front().name;
    o.port = u.hosts.front().port;
    o.user = u.user;
    o.password = u.password;
    url_parameters given(u);
    connector_detail::take_tls_files(given, o.secure, o.tls);
    connector_detail::take_timeouts(given, o);
    connector_detail::take_size(given, "max_header", min_header_limit, max_header_limit,
                                o.max_header);
    connector_detail::take_reply_limit(given, "max_body", 0, o.max_body);
    connector_detail::take_text(given, "user_agent", o.user_agent);
    if (!is_value(o.user_agent)) url_parameters::refuse("user_agent", "has control characters");
    if (auto target = given.take("probe_target")) {
        if (!is_target(*target)) url_parameters::refuse("probe_target", "must be a path");
        o.probe_target = *target;
    }
    given.refuse_others();
    return o;
}

namespace detail {

using connector_detail::tls_context;

settings::settings(const options& given)
    : chosen((check(given), given)),
      host_field(host_field_of(given)),
      authorization(authorization_of(given)) {
    if (chosen.port == 0) chosen.port = chosen.secure ? 443 : 80;
    if (!chosen.secure) return;
    if (chosen.tls.server_name.empty()) chosen.tls.server_name = host_of(chosen);
    tls = std::make_unique<tls_context>(chosen.tls, "http/1.1");
}

/// Reserves the whole size: a text that grows would leave copies of the password behind.
request_text::request_text(const request& r, const settings& by) {
    check(r);
    std::size_t size = 256 + r.method.size() + r.target.size() + by.host_field.size() +
                       by.authorization.reveal().size() + by.chosen.user_agent.size();
    for (const headers::field& each : r.headers) size += each.name.size() + each.value.size() + 4;
    bool together = r.body.size() <= short_body;
    if (together) size += r.body.size();
    text_.reserve(size);

    text_.append(r.method).append(" ").append(r.target).append(" HTTP/1.1\r\n");
    add("Host", by.host_field);
    bool own_agent = r.headers.contains("User-Agent");
    if (!own_agent && !by.chosen.user_agent.empty()) add("User-Agent", by.chosen.user_agent);
    bool own_authorization = r.headers.contains("Authorization");
    if (!own_authorization && !by.authorization.empty())
        add("Authorization", by.authorization.reveal());
    for (const headers::field& each : r.headers) add(each.name, each.value);
    bool usual = r.method == "POST" || r.method == "PUT" || r.method == "PATCH";
    if (usual || !r.body.empty()) add("Content-Length", std::to_string(r.body.size()));
    text_.append("\r\n");
    if (together) text_.append(r.body);
    else body_ = r.body;
}

request_text::~request_text() { explicit_bzero(text_.data(), text_.size()); }

void request_text::add(std::string_view name, std::string_view value) {
    text_.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace detail

}  // namespace cenote::http
