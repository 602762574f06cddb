// Connection strings of key=value pairs: libpq, ADO, ODBC, PDO.
#include <algorithm>
#include <array>
#include <optional>

#include "connector/url_notation.hpp"

namespace cenote::connector_detail {

namespace {

constexpr std::string_view spaces = " \t\r\n";

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& all) {
    return std::ranges::find(all, text) != all.end();
}

using pairs = std::vector<std::pair<std::string, std::string>>;

/// Takes a value, up to `separators`, from the text. It may be quoted: in libpq's strings with
/// backslashes, otherwise with doubled quotes. Returns nothing if a quote is missing.
std::optional<std::string> take_value(std::string_view& text, std::string_view separators) {
    std::string value;
    char quote = text.empty() ? '\0' : text.front();
    if (quote != '\'' && quote != '"') {
        value = text.substr(0, text.find_first_of(separators));
        text.remove_prefix(value.size());
        return std::string(trimmed(value));
    }
    for (std::size_t i = 1; i < text.size(); ++i) {
        bool escaped = text[i] == '\\' && i + 1 < text.size();
        bool doubled = text[i] == quote && i + 1 < text.size() && text[i + 1] == quote;
        if (escaped || doubled) {
            value += text[++i];
        } else if (text[i] == quote) {
            text.remove_prefix(i + 1);
            return value;
        } else {
            value += text[i];
        }
    }
    return std::nullopt;
}

/// All pairs, with keys in lower case; nothing if the text is anything else, or if a key is twice
/// in it.
std::optional<pairs> pairs_of(std::string_view text, std::string_view separators) {
    pairs all;
    while (!(text = trimmed(text)).empty()) {
        std::size_t equals = text.find('=');
        if (equals == text.npos) return std::nullopt;
        std::string key = lower(trimmed(text.substr(0, equals)));
        bool fits = !key.empty() && key.find_first_of(";'\"") == key.npos;
        text = text.substr(equals + 1);
        if (separators == spaces)
            text = text.substr(std::min(text.find_first_not_of(' '), text.size()));
        std::optional<std::string> value = take_value(text, separators);
        if (!fits || !value) return std::nullopt;
        for (const auto& [other, ignored] : all)
            if (other == key) return std::nullopt;
        all.emplace_back(key, *value);
        if (!text.empty() && separators.find(text.front()) == separators.npos) return std::nullopt;
        text.remove_prefix(text.empty() ? 0 : 1);
    }
    return all;
}

template <std::size_t N>
std::string value_of(const pairs& all, const std::array<std::string_view, N>& keys) {
    for (const auto& [key, value] : all)
        if (is_one_of(key, keys)) return value;
    return {};
}

constexpr std::array<std::string_view, 9> host_keys{
    "host",    "hostaddr",        "server",      "data source", "datasource",
    "address", "network address", "unix_socket", "servername"};
constexpr std::array<std::string_view, 1> port_keys{"port"};
constexpr std::array<std::string_view, 5> user_keys{"user", "username", "user id", "uid",
                                                    "user name"};
constexpr std::array<std::string_view, 4> password_keys{"password", "pwd", "pass", "passwd"};
constexpr std::array<std::string_view, 4> database_keys{"dbname", "database", "initial catalog",
                                                        "db"};
/// Parameters with the same name and meaning in libpq and in our URLs.
constexpr std::array<std::string_view, 9> libpq_parameters{
    "sslmode",         "sslrootcert",      "sslcert",
    "sslkey",          "channel_binding",  "connect_timeout",
    "client_encoding", "application_name", "target_session_attrs"};

/// From `db1,db2` and `5432,5433`; a single port is that of all hosts.
std::vector<url::host> hosts_of(std::string_view names, std::string_view ports) {
    std::vector<url::host> all;
    std::uint16_t port = 0;
    while (!names.empty()) {
        std::string_view name = names.substr(0, names.find(','));
        names.remove_prefix(std::min(name.size() + 1, names.size()));
        if (!ports.empty()) {
            std::string_view next = ports.substr(0, ports.find(','));
            ports.remove_prefix(std::min(next.size() + 1, ports.size()));
            port = port_of(next);
        }
        all.push_back(host_of(name));
        if (all.back().port == 0) all.back().port = port;
    }
    return all;
}

server_place place_of(const pairs& all, std::string scheme) {
    std::string ports = value_of(all, port_keys);
    server_place place{.scheme = std::move(scheme),
                       .hosts = hosts_of(value_of(all, host_keys), ports),
                       .database = value_of(all, database_keys)};
    if (place.scheme.empty()) place.scheme = scheme_of_port(port_of(ports));
    if (place.hosts.empty() && port_of(ports) != 0) place.hosts.push_back({"", port_of(ports)});
    for (const auto& [key, value] : all) set_part(key, value, place);
    return place;
}

/// The first key of `key=value…`, in lower case; empty if the text has another form.
std::string first_key(std::string_view text) {
    std::size_t equals = text.find('=');
    if (equals == text.npos) return {};
    std::string key = lower(trimmed(text.substr(0, equals)));
    bool fits = std::ranges::all_of(key, [](char c) { return is_plain(c) || c == ' '; });
    return fits ? key : std::string();
}

bool is_known_key(std::string_view key) {
    return is_one_of(key, host_keys) || is_one_of(key, port_keys) || is_one_of(key, user_keys) ||
           is_one_of(key, password_keys) || is_one_of(key, database_keys) ||
           is_one_of(key, libpq_parameters) || key == "service" || key == "provider" ||
           key == "driver";
}

}  // namespace

bool begins_with_pair(std::string_view text) { return is_known_key(first_key(text)); }

void set_part(const std::string& key, const std::string& value, server_place& into) {
    bool unsupported = key == "sslmode" && (value == "prefer" || value == "allow");
    if (is_one_of(key, user_keys)) into.user = value;
    else if (is_one_of(key, password_keys)) into.has_password = true;
    else if (into.scheme == "postgresql" && is_one_of(key, libpq_parameters) && !unsupported)
        into.parameters.emplace_back(key, value);
}

std::string answer_to_pairs(std::string_view text, std::string scheme, const char* notation) {
    std::optional<pairs> all = pairs_of(text, ";");
    if (!all) return answer(notation, url_of({.scheme = std::move(scheme), .has_password = true}));
    std::string file = value_of(*all, host_keys);
    bool is_sqlite = all->front().first == "data source" &&
                     (file.find('/') != file.npos || file.ends_with(".db") ||
                      file.ends_with(".sqlite") || file.ends_with(".sqlite3"));
    if (is_sqlite) return answer(notation, url_of_file(file));
    // Its port follows a comma.
    if (file.find(',') != file.npos || first_key(text) == "initial catalog" ||
        !value_of(*all, std::array<std::string_view, 1>{"initial catalog"}).empty())
        return "this is a connection string of SQL Server, which cenote does not support";
    auto has = [&](std::string_view key) {
        return std::ranges::any_of(*all, [&](const auto& one) { return one.first == key; });
    };
    std::string driver = lower(value_of(*all, std::array<std::string_view, 1>{"driver"}));
    if (driver.find("postgres") != driver.npos) scheme = "postgresql";
    if (driver.find("maria") != driver.npos || driver.find("mysql") != driver.npos)
        scheme = "mariadb";
    if (scheme.empty()) scheme = scheme_of_port(port_of(value_of(*all, port_keys)));
    if (scheme.empty() && (has("host") || has("username"))) scheme = "postgresql";
    if (scheme.empty() && (has("uid") || has("pwd"))) scheme = "mariadb";
    return answer(notation, url_of(place_of(*all, std::move(scheme))));
}

std::string answer_to_connection_string(std::string_view text) {
    std::string key = first_key(text);
    if (!is_known_key(key)) return {};
    bool is_libpq =
        text.find(';') == text.npos && (is_one_of(key, libpq_parameters) || key == "service" ||
                                        key == "host" || key == "hostaddr" || key == "port" ||
                                        key == "user" || key == "password" || key == "dbname");
    if (!is_libpq) return answer_to_pairs(text, "", "a connection string of key=value pairs");
    const char* notation = "a libpq connection string";
    std::optional<pairs> all = pairs_of(text, spaces);
    if (!all) return answer(notation, url_of({.scheme = "postgresql", .has_password = true}));
    return answer(notation, url_of(place_of(*all, "postgresql")));
}

}  // namespace cenote::connector_detail
