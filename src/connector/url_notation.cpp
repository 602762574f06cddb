// URLs of other libraries, data source names, bare hosts, file names; and how a URL is put
// together.
#include "connector/url_notation.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "cenote/url.hpp"

namespace cenote::connector_detail {

namespace {

bool is_name(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_plain); }
// Other schemes.

/// The scheme that we use for `name`, or empty.
std::string our_scheme(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 18> known{
        {{"postgresql", "postgresql"},
         {"postgres", "postgresql"},
         {"pgsql", "postgresql"},
         {"psql", "postgresql"},
         {"postgis", "postgresql"},
         {"pg", "postgresql"},
         {"mariadb", "mariadb"},
         {"mysql", "mariadb"},
         {"mysql2", "mariadb"},
         {"mysqlx", "mariadb"},
         {"redis", "redis"},
         {"valkey", "redis"},
         {"rediss", "rediss"},
         {"valkeys", "rediss"},
         {"sqlite", "sqlite"},
         {"sqlite3", "sqlite"},
         {"http", "http"},
         {"https", "https"}}};
    const auto* found = std::ranges::find(known, name, [](const auto& one) { return one.first; });
    return found == known.end() ? "" : std::string(found->second);
}

/// Whether the connectors accept this scheme as it is.
bool is_our_scheme(std::string_view name) {
    constexpr std::array<std::string_view, 9> all{
        "postgresql", "postgres", "mariadb", "mysql", "redis", "rediss", "sqlite", "http", "https"};
    return std::ranges::find(all, name) != all.end();
}

/// Of a URL with another scheme than ours; `rest` begins after the scheme's colon.
std::string answer_to_foreign_url(const char* notation, const std::string& scheme,
                                  std::string_view rest) {
    if (scheme == "sqlite") {
        // After `//` there is an empty host; SQLAlchemy's third slash ends it.
        if (rest.starts_with("///")) rest.remove_prefix(3);
        return answer(notation, url_of_file(rest));
    }
    url u;
    try {
        u = url::parse(scheme + ":" + std::string(rest));
    } catch (const invalid_url&) {
        u.has_authority = false;
    }
    if (!u.has_authority) return answer(notation, url_of({.scheme = scheme, .has_password = true}));
    server_place place{
        .scheme = scheme, .user = u.user, .has_password = !u.password.empty(), .hosts = u.hosts};
    place.database = u.path.substr(std::min<std::size_t>(u.path.size(), 1));
    for (const auto& [key, value] : u.parameters) set_part(key, value, place);
    return answer(notation, url_of(place));
}

std::string answer_to_foreign_scheme(std::string_view text) {
    std::size_t colon = text.find(':');
    if (colon == text.npos) return {};
    std::string scheme = lower(text.substr(0, colon));
    std::string_view rest = text.substr(colon + 1);
    if (scheme == "jdbc") {
        std::string server = lower(rest.substr(0, rest.find(':')));
        std::string ours = our_scheme(server);
        if (ours.empty()) return "this is a JDBC URL of a server that cenote does not support";
        return answer_to_foreign_url("a JDBC URL", ours,
                                     rest.substr(std::min(server.size() + 1, rest.size())));
    }
    std::string ours = our_scheme(scheme);
    if (!ours.empty() && !rest.starts_with("/") && begins_with_pair(rest))
        return answer_to_pairs(rest, ours, "a PDO data source name");
    if (is_our_scheme(scheme)) return {};
    if (ours.empty()) ours = our_scheme(scheme.substr(0, scheme.find('+')));
    if (scheme == "redis+tls" || scheme == "redis+ssl") ours = "rediss";
    if (ours.empty()) return {};
    return answer_to_foreign_url("the URL of another library", ours, rest);
}

/// Go: `app:secret@tcp(db:3306)/orders`.
std::string answer_to_go(std::string_view text) {
    std::size_t at = std::min(text.rfind("@tcp("), text.rfind("@unix("));
    if (at == text.npos) return {};
    std::string_view user = text.substr(0, at);
    std::string_view rest = text.substr(text.find('(', at) + 1);
    std::size_t end = rest.find(')');
    if (end == rest.npos) return {};
    std::string_view address = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    server_place place{.scheme = "mariadb"};
    std::size_t colon = user.find(':');
    place.has_password = colon != user.npos;
    place.user = user.substr(0, colon);
    place.hosts.push_back(host_of(address));
    if (rest.starts_with('/')) place.database = rest.substr(1, rest.find('?') - 1);
    return answer("a Go data source name", url_of(place));
}

// Without a scheme.

std::string answer_to_file(std::string_view text) {
    bool is_path = text.starts_with("./") || text.starts_with("../") || text.starts_with("~/") ||
                   (text.starts_with('/') && !text.starts_with("//"));
    for (std::string_view ending : {".db", ".db3", ".sqlite", ".sqlite3"})
        is_path = is_path || text.ends_with(ending);
    bool is_quotable = std::ranges::all_of(text, [](char c) { return is_plain(c) || c == '/'; });
    if (!is_path || !is_quotable) return {};
    bool is_postgres = text.find(".s.PGSQL.") != text.npos;
    if (!is_postgres && !text.ends_with(".sock"))
        return answer("a file name", "sqlite:" + std::string(text));
    server_place place{.scheme = is_postgres                       ? "postgresql"
                                 : text.find("redis") != text.npos ? "redis"
                                                                   : "mariadb"};
    // libpq expects the folder.
    if (is_postgres) text = text.substr(0, text.rfind('/'));
    place.hosts.push_back({std::string(text), 0});
    return answer("the path of a socket", url_of(place));
}

/// `app:secret@db:5432/orders`, with any of its parts but the host left out.
std::string answer_to_bare_host(std::string_view text) {
    server_place place;
    std::size_t at = text.rfind('@');
    if (at != text.npos) {
        std::string_view user = text.substr(0, at);
        std::size_t colon = user.find(':');
        // `postgresql:app:secret@db` lacks only the `//`; its error says so.
        if (is_our_scheme(lower(user.substr(0, colon)))) return {};
        place.has_password = colon != user.npos;
        place.user = user.substr(0, colon);
        if (!place.user.empty() && !is_name(place.user)) return {};
        text.remove_prefix(at + 1);
    }
    std::string_view authority = text.substr(0, text.find_first_of("/?"));
    std::string_view path = text.substr(authority.size());
    url::host host = host_of(authority);
    bool has_port = authority.find(':') != authority.npos;
    if (path.starts_with('/')) place.database = path.substr(1, path.find('?') - 1);
    if (!is_name(host.name) || (has_port && host.port == 0)) return {};
    if (!place.database.empty() && !is_name(place.database)) return {};
    place.scheme = scheme_of_port(host.port);
    // A word alone could be anything, even a password.
    bool is_host = at != text.npos || !place.scheme.empty() || host.name == "localhost" ||
                   host.name.find('.') != host.name.npos;
    if (!is_host) return answer("a name", url_of({}));
    place.hosts.push_back(host);
    return answer(place.user.empty() ? "a host name" : "a host name with a user", url_of(place));
}

/// Then it may have a password, and is not quoted.
bool may_be_url(std::string_view text) { return text.find_first_of(":@=;") != text.npos; }

bool is_address(std::string_view text) {
    return text.find(':') != text.npos &&
           text.find_first_not_of("0123456789abcdefABCDEF:.") == text.npos;
}

}  // namespace

bool is_plain(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

std::string lower(std::string_view text) {
    std::string all(text);
    for (char& c : all)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return all;
}

std::string_view trimmed(std::string_view text) {
    std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    text.remove_prefix(begin);
    return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

std::uint16_t port_of(std::string_view text) {
    std::uint16_t port = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    return error == std::errc() && end == text.data() + text.size() ? port : std::uint16_t{0};
}

std::string answer(std::string_view notation, const std::string& use) {
    bool is_url = notation.find("URL") != notation.npos;
    return "this is " + std::string(notation) + (is_url ? "; use " : ", not a URL; use ") + use;
}

std::string scheme_of_port(std::uint16_t port) {
    switch (port) {
        case 5432:
        case 6432: return "postgresql";
        case 3306: return "mariadb";
        case 6379: return "redis";
        case 6380: return "rediss";
        case 80:
        case 8080: return "http";
        case 443: return "https";
        default: return "";
    }
}

url::host host_of(std::string_view text) {
    std::size_t colon = text.find(':');
    bool has_port = !text.starts_with('/') && colon != text.npos && colon == text.rfind(':');
    if (!has_port) return {std::string(text), 0};
    return {std::string(text.substr(0, colon)), port_of(text.substr(colon + 1))};
}

std::string percent_encoded(std::string_view text, std::string_view also) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string encoded;
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        if (is_plain(c) || also.find(c) != also.npos) encoded += c;
        else ((encoded += '%') += digits[byte >> 4U]) += digits[byte & 15U];
    }
    return encoded;
}

std::string url_of_file(std::string_view path) {
    return "sqlite:" + (may_be_url(path) ? "FILE" : percent_encoded(path, "/?=&"));
}

std::string url_of(const server_place& place) {
    bool is_sql = place.scheme.empty() || place.scheme == "postgresql" || place.scheme == "mariadb";
    std::string rest = is_sql ? "USER" : "";
    if (!place.user.empty()) rest = may_be_url(place.user) ? "USER" : percent_encoded(place.user);
    if (place.has_password) rest += ":***";
    if (!rest.empty()) rest += "@";
    if (place.hosts.empty()) rest += "HOST";
    for (const url::host& one : place.hosts) {
        if (&one != &place.hosts.front()) rest += ",";
        bool is_hidden = one.name.empty() || (may_be_url(one.name) && !is_address(one.name));
        if (is_hidden) rest += "HOST";
        else rest += is_address(one.name) ? "[" + one.name + "]" : percent_encoded(one.name);
        if (one.port != 0) rest += ":" + std::to_string(one.port);
    }
    bool is_hidden = may_be_url(place.database) || (place.database.empty() && is_sql);
    if (is_hidden) rest += "/DATABASE";
    else if (!place.database.empty())
        rest += "/" + percent_encoded(place.database, is_sql ? "" : "/");
    char separator = '?';
    for (const auto& [key, value] : place.parameters) {
        if (may_be_url(value)) continue;
        rest += separator + key + "=" + percent_encoded(value, "/");
        separator = '&';
    }
    if (!place.scheme.empty()) return place.scheme + "://" + rest;
    std::string either = "postgresql://" + rest + " or mariadb://" + rest;
    if (!place.user.empty() || place.has_password || !place.database.empty()) return either;
    std::string redis = rest.substr(rest.find('@') + 1);
    return either + ", or redis://" + redis.substr(0, redis.find('/'));
}

std::string answer_to_other_notation(std::string_view text) {
    text = trimmed(text);
    if (text.empty() || text.size() > url::longest) return {};
    std::string found = answer_to_command_line(text);
    if (found.empty()) found = answer_to_connection_string(text);
    if (found.empty()) found = answer_to_go(text);
    if (found.empty()) found = answer_to_foreign_scheme(text);
    bool has_scheme =
        text.find("://") != text.npos || is_our_scheme(lower(text.substr(0, text.find(':'))));
    if (!found.empty() || has_scheme) return found;
    found = answer_to_file(text);
    return found.empty() ? answer_to_bare_host(text) : found;
}

}  // namespace cenote::connector_detail
