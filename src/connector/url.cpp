// The parser of URLs: strict, bounded, and without quotes of a URL in error texts.
#include "cenote/url.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string.h>

#include "connector/url_notation.hpp"

namespace cenote {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.'; }

int hex_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

[[noreturn]] void refuse(const std::string& why) { throw invalid_url("cenote: the URL " + why); }

std::string decode(std::string_view text, const char* part) {
    std::string plain;
    plain.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            plain.push_back(text[i]);
            continue;
        }
        int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
        int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
        if (high < 0 || low < 0)
            refuse(std::string("has a '%' in its ") + part + " without two hex digits after it");
        if (high == 0 && low == 0) refuse(std::string("has a zero byte in its ") + part);
        plain.push_back(static_cast<char>(high * 16 + low));
        i += 2;
    }
    return plain;
}

/// Refuses characters that must be encoded, before the URL is split: a password with a bare '/' or
/// '?' would otherwise end up as a host and a parameter.
void check_bytes(std::string_view text) {
    if (text.size() > url::longest)
        refuse("is longer than " + std::to_string(url::longest) + " bytes");
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto c = static_cast<unsigned char>(text[i]);
        if (c <= ' ' || c >= 0x7f || std::string_view("#\"<>\\^`{|}").find(text[i]) != text.npos)
            refuse("has a character that must be percent-encoded, at position " +
                   std::to_string(i));
    }
    if (std::ranges::count(text, '@') > 1)
        refuse("has two '@': percent-encode an '@' in the user or password");
}

std::string_view cut(std::string_view& text, std::string_view at_any_of) {
    std::size_t end = std::min(text.find_first_of(at_any_of), text.size());
    std::string_view head = text.substr(0, end);
    text.remove_prefix(end);
    return head;
}

std::string parse_scheme(std::string_view& text) {
    std::size_t colon = text.find(':');
    std::string scheme(text.substr(0, colon == text.npos ? 0 : colon));
    bool fits = !scheme.empty() && is_letter(scheme.front()) &&
                std::ranges::all_of(scheme, [](char c) { return is_word(c) || c == '+'; });
    if (!fits)
        refuse(
            "does not begin with a scheme such as postgresql://, mariadb://, redis:// or sqlite:");
    for (char& c : scheme)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    text.remove_prefix(colon + 1);
    return scheme;
}

std::uint16_t parse_port(std::string_view text) {
    unsigned port = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size() || port == 0 || port > 65535)
        refuse("has a port that is not a number from 1 to 65535");
    return static_cast<std::uint16_t>(port);
}

url::host parse_host(std::string_view text) {
    url::host h;
    std::string_view name = text;
    if (text.starts_with('[')) {
        std::size_t end = text.find(']');
        if (end == text.npos) refuse("has a '[' without ']'");
        name = text.substr(1, end - 1);
        text.remove_prefix(end + 1);
        bool fits = std::ranges::all_of(
            name, [](char c) { return hex_value(c) >= 0 || c == ':' || c == '.'; });
        if (name.empty() || !fits)
            refuse("has brackets around something other than an IPv6 address");
        h.name = name;
    } else {
        name = cut(text, ":");
        h.name = decode(name, "host");
        bool is_path = h.name.starts_with('/');
        if (!is_path && !std::ranges::all_of(h.name, is_word))
            refuse("has a host with characters that are not allowed");
    }
    if (text.empty()) return h;
    if (text.front() != ':') refuse("has characters after the ']' of a host");
    h.port = parse_port(text.substr(1));
    if (h.name.empty()) refuse("has a port without a host");
    return h;
}

void parse_authority(std::string_view text, url& into) {
    if (std::size_t at = text.find('@'); at != text.npos) {
        std::string_view user = text.substr(0, at);
        text.remove_prefix(at + 1);
        std::string_view name = cut(user, ":");
        into.user = decode(name, "user");
        if (!user.empty()) {
            std::string password = decode(user.substr(1), "password");
            into.password = secret(password);
            explicit_bzero(password.data(), password.size());
        }
        // Redis needs no user with its password.
        if (into.user.empty() && into.password.empty())
            refuse("has a '@' without a user before it");
    }
    if (text.empty()) return;
    for (;;) {
        into.hosts.push_back(parse_host(cut(text, ",")));
        bool nameless = into.hosts.back().name.empty();
        if (nameless) refuse("has an empty host in its list");
        if (text.empty()) return;
        text.remove_prefix(1);
    }
}

void parse_parameters(std::string_view text, url& into) {
    for (;;) {
        std::string_view value = cut(text, "&");
        std::string_view key = cut(value, "=");
        bool fits = !key.empty() && key.size() <= 64 && std::ranges::all_of(key, is_word);
        if (!fits) refuse("has a parameter whose key is empty, too long or not a word");
        if (value.empty()) url_parameters::refuse(key, "has no value");
        for (const auto& [other, ignored] : into.parameters)
            if (other == key) url_parameters::refuse(key, "appears twice");
        if (into.parameters.size() == url::most_parameters)
            refuse("has more than " + std::to_string(url::most_parameters) + " parameters");
        into.parameters.emplace_back(key, decode(value.substr(1), "parameters"));
        if (text.empty()) return;
        text.remove_prefix(1);
    }
}

}  // namespace

url url::parse(std::string_view text) {
    if (std::string found = connector_detail::answer_to_other_notation(text); !found.empty())
        throw invalid_url("cenote: " + found);
    check_bytes(text);
    url u;
    u.scheme = parse_scheme(text);
    u.has_authority = text.starts_with("//");
    std::string_view authority;
    if (u.has_authority) {
        text.remove_prefix(2);
        authority = cut(text, "/?");
    }
    if (!u.has_authority && text.find('@') != text.npos) refuse("has no // after its scheme");
    if (text.find('@') != text.npos) refuse("has an '@' after its host: percent-encode it");
    parse_authority(authority, u);
    u.path = decode(cut(text, "?"), "path");
    if (!text.empty()) parse_parameters(text.substr(1), u);
    return u;
}

std::string url::redacted() const {
    std::string text = scheme + ":";
    if (has_authority) text += "//";
    if (!user.empty() || !password.empty()) text += user + (password.empty() ? "@" : ":***@");
    for (const host& h : hosts) {
        if (&h != &hosts.front()) text += ",";
        bool is_address = h.name.find(':') != std::string::npos;
        text += is_address ? "[" + h.name + "]" : h.name;
        if (h.port != 0) text += ":" + std::to_string(h.port);
    }
    return text + path;
}

bool is_loopback(std::string_view host) {
    return host.empty() || host.starts_with('/') || host == "localhost" || host == "::1" ||
           (host.starts_with("127.") &&
            std::ranges::all_of(host, [](char c) { return is_digit(c) || c == '.'; }));
}

// Parameters.

void url_parameters::refuse(std::string_view key, const std::string& why) {
    cenote::refuse("parameter \"" + std::string(key) + "\" " + why);
}

std::optional<std::string> url_parameters::take(std::string_view key) {
    auto found = std::ranges::find(left_, key, [](const auto& each) { return each.first; });
    if (found == left_.end()) return std::nullopt;
    std::string value = std::move(found->second);
    left_.erase(found);
    return value;
}

std::vector<std::pair<std::string, std::string>> url_parameters::take_all(std::string_view prefix) {
    std::vector<std::pair<std::string, std::string>> taken;
    for (auto& [key, value] : left_)
        if (key.starts_with(prefix)) taken.emplace_back(key.substr(prefix.size()), value);
    std::erase_if(left_, [&](const auto& each) { return each.first.starts_with(prefix); });
    return taken;
}

std::optional<bool> url_parameters::take_bool(std::string_view key) {
    auto value = take(key);
    if (!value) return std::nullopt;
    for (const char* yes : {"on", "true", "1", "yes"})
        if (*value == yes) return true;
    for (const char* no : {"off", "false", "0", "no"})
        if (*value == no) return false;
    refuse(key, "must be on or off");
}

std::optional<std::int64_t> url_parameters::take_number(std::string_view key, std::int64_t least,
                                                        std::int64_t most) {
    auto value = take(key);
    if (!value) return std::nullopt;
    std::int64_t number = 0;
    const char* last = value->data() + value->size();
    auto [end, error] = std::from_chars(value->data(), last, number);
    if (error != std::errc{} || end != last || number < least || number > most)
        refuse(key,
               "must be a number from " + std::to_string(least) + " to " + std::to_string(most));
    return number;
}

std::optional<std::int64_t> url_parameters::take_milliseconds(std::string_view key) {
    struct unit {
        std::string_view name;
        std::int64_t milliseconds;
    };
    constexpr std::array<unit, 5> units{
        {{"", 1000}, {"s", 1000}, {"ms", 1}, {"min", 60'000}, {"h", 3'600'000}}};
    auto value = take(key);
    if (!value) return std::nullopt;
    std::int64_t number = 0;
    const char* last = value->data() + value->size();
    auto [end, error] = std::from_chars(value->data(), last, number);
    const auto* found = std::ranges::find(units, std::string_view(end, last), &unit::name);
    bool fits = error == std::errc{} && found != units.end() && number >= 0 &&
                number <= std::numeric_limits<std::int64_t>::max() / 3'600'000'000;
    if (!fits) refuse(key, "must be a duration such as 250ms, 5s or 2min");
    return number * found->milliseconds;
}

void url_parameters::refuse_others() const {
    if (!left_.empty()) refuse(left_.front().first, "is not supported");
}

}  // namespace cenote
