// Fuzzes URLs: each text is parsed or refused, a parsed URL can be written and parsed again, and no
// error shows the password.
#include "cenote/url.hpp"

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

std::string encoded(std::string_view text) {
    std::string safe;
    for (char c : text) {
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        constexpr std::string_view digits = "0123456789abcdef";
        auto byte = static_cast<unsigned char>(c);
        if (plain) safe += c;
        else safe.append({'%', digits[byte / 16], digits[byte % 16]});
    }
    return safe;
}

std::string authority(const cenote::url& u) {
    std::string text = "//" + encoded(u.user);
    if (!u.password.empty()) text += ":" + encoded(u.password.reveal());
    if (!u.user.empty() || !u.password.empty()) text += "@";
    for (const cenote::url::host& h : u.hosts) {
        if (&h != &u.hosts.front()) text += ",";
        bool is_address = !h.name.starts_with('/') && h.name.find(':') != h.name.npos;
        text += is_address ? "[" + h.name + "]" : encoded(h.name);
        if (h.port != 0) text += ":" + std::to_string(h.port);
    }
    return text;
}

std::string put_together(const cenote::url& u) {
    std::string text = u.scheme + ":";
    if (u.has_authority) text += authority(u);
    bool slash = u.has_authority && !u.path.empty();
    text += slash ? "/" + encoded(std::string_view(u.path).substr(1)) : encoded(u.path);
    for (const auto& [key, value] : u.parameters) {
        text += &key == &u.parameters.front().first ? "?" : "&";
        text.append(key).append("=").append(encoded(value));
    }
    return text;
}

void compare(const cenote::url& a, const cenote::url& b) {
    require(a.scheme == b.scheme && a.user == b.user && a.password == b.password);
    require(a.hosts == b.hosts && a.has_authority == b.has_authority);
    require(a.path == b.path && a.parameters == b.parameters);
}

/// Where a password would be, if this is a URL: between the first ':' after "//" and the last '@'.
std::string_view password_part(std::string_view text) {
    std::size_t start = text.find("//");
    std::size_t at = text.rfind('@');
    if (start == text.npos || at == text.npos) return {};
    std::size_t colon = text.find(':', start + 2);
    if (colon == text.npos || colon > at) return {};
    return text.substr(colon + 1, at - colon - 1);
}

/// Whether finding `part` in an error would prove a leak: long, unique in the URL, and with a
/// digit.
bool is_distinctive(std::string_view part, std::string_view of) {
    if (part.size() < 8 || of.find(part) != of.rfind(part)) return false;
    return part.find_first_of("0123456789") != part.npos;
}

/// The URL with another password, whose invalid characters are at the same positions.
std::string with_another(std::string_view text, std::string_view password) {
    auto at = static_cast<std::size_t>(password.data() - text.data());
    std::string other(text);
    for (std::size_t i = at; i < at + password.size(); ++i) {
        if (other[i] == '%') i += 2;
        else if (std::isalnum(static_cast<unsigned char>(other[i])) != 0)
            other[i] = other[i] == 'x' ? 'y' : 'x';
    }
    return other;
}

std::string error_of(std::string_view text) {
    try {
        static_cast<void>(cenote::url::parse(text));
        return "";
    } catch (const cenote::invalid_url& e) {
        return e.what();
    }
}

/// An error may contain a password by chance: "position 3". Then the text does not depend on the
/// password.
bool shows_password(std::string_view text, const std::string& error) {
    std::string_view part = password_part(text);
    if (!is_distinctive(part, text) || error.find(part) == error.npos) return false;
    return error != error_of(with_another(text, part));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const void* start = data;
    std::string_view text(static_cast<const char*>(start), size);
    try {
        cenote::url u = cenote::url::parse(text);
        std::string again = put_together(u);
        if (again.size() <= cenote::url::longest) compare(u, cenote::url::parse(again));
        cenote::url other = u;
        if (!u.password.empty()) other.password = cenote::secret("another one");
        require(u.redacted() == other.redacted());
        static_cast<void>(cenote::is_loopback(u.path));
    } catch (const cenote::invalid_url& e) {
        require(!shows_password(text, e.what()));
    }
    return 0;
}
