// The command lines of the servers' own clients.
#include <algorithm>
#include <array>
#include <optional>

#include "connector/url_notation.hpp"

namespace cenote::connector_detail {

namespace {

/// What an option of a client sets.
enum class part { none, host, port, user, password, database, socket, url, tls };

struct client_option {
    std::string_view name;
    part what = part::none;
    bool takes_value = true;
};

struct client {
    std::string_view name;
    std::string_view scheme;
    std::array<client_option, 16> options;
};

constexpr client psql{"psql",
                      "postgresql",
                      {{{"-h", part::host},
                        {"--host", part::host},
                        {"-p", part::port},
                        {"--port", part::port},
                        {"-U", part::user},
                        {"--username", part::user},
                        {"-d", part::database},
                        {"--dbname", part::database},
                        {"-W", part::none, false},
                        {"-w", part::none, false}}}};

constexpr client mysql{"mysql",
                       "mariadb",
                       {{{"-h", part::host},
                         {"--host", part::host},
                         {"-P", part::port},
                         {"--port", part::port},
                         {"-u", part::user},
                         {"--user", part::user},
                         {"-p", part::password, false},
                         {"--password", part::password, false},
                         {"-D", part::database},
                         {"--database", part::database},
                         {"-S", part::socket},
                         {"--socket", part::socket}}}};

constexpr client redis_cli{"redis-cli",
                           "redis",
                           {{{"-h", part::host},
                             {"-p", part::port},
                             {"-a", part::password},
                             {"--pass", part::password},
                             {"--user", part::user},
                             {"-n", part::database},
                             {"-s", part::socket},
                             {"-u", part::url},
                             {"--tls", part::tls, false},
                             {"--askpass", part::none, false},
                             {"--no-auth-warning", part::none, false}}}};

const client* client_named(std::string_view name) {
    name = name.substr(name.rfind('/') + 1);
    if (name == "psql" || name == "pgcli") return &psql;
    if (name == "mysql" || name == "mariadb" || name == "mycli") return &mysql;
    if (name == "redis-cli" || name == "valkey-cli") return &redis_cli;
    return nullptr;
}

/// Without quotes. Backslashes are ordinary characters.
std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> all;
    char quote = '\0';
    bool in_word = false;
    for (char c : text) {
        bool space = quote == '\0' && (c == ' ' || c == '\t' || c == '\n' || c == '\r');
        bool is_quote = (c == '\'' || c == '"') && (quote == '\0' || quote == c);
        if (!space && !in_word) all.emplace_back();
        in_word = !space;
        if (is_quote) quote = quote == '\0' ? c : '\0';
        else if (!space) all.back() += c;
    }
    return all;
}

/// What is known of a command line so far.
struct reading {
    server_place place = {};
    url::host host = {};
    std::string inner = {};  // a URL or connection string among the words
    /// An option is unknown, so the words behind it may be anything.
    bool is_certain = true;
};

void set(part what, std::string value, reading& into) {
    switch (what) {
        case part::host: into.host.name = std::move(value); break;
        case part::socket: into.host = {std::move(value), 0}; break;
        case part::port: into.host.port = host_of(":" + value).port; break;
        case part::user: into.place.user = std::move(value); break;
        case part::password: into.place.has_password = true; break;
        case part::database: into.place.database = std::move(value); break;
        case part::url: into.inner = std::move(value); break;
        case part::tls: into.place.scheme = "rediss"; break;
        case part::none: break;
    }
}

/// Reads the option at `all[at]`; returns the number of its last word.
std::size_t read_option(const client& of, const std::vector<std::string>& all, std::size_t at,
                        reading& into) {
    const std::string& word = all[at];
    bool is_long = word.starts_with("--");
    std::string name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
    // redis-cli has long names only with a space; no client has short names joined with another.
    const auto* found = std::ranges::find(of.options, name, &client_option::name);
    if (found == of.options.end() || found->name.empty()) {
        into.is_certain = false;
        return at;
    }
    bool is_joined = word.size() > name.size();
    if (is_joined) set(found->what, word.substr(name.size() + (is_long ? 1 : 0)), into);
    if (is_joined) return at;
    if (!found->takes_value) {
        set(found->what, "", into);
        // After `mysql -p` comes the database, but many write the password there.
        if (found->what == part::password) into.is_certain = false;
        return at;
    }
    if (at + 1 == all.size()) return at;
    set(found->what, all[at + 1], into);
    return at + 1;
}

}  // namespace

std::string answer_to_command_line(std::string_view text) {
    std::vector<std::string> all = words_of(text);
    if (all.empty()) return {};
    bool is_sqlite = all[0] == "sqlite3" && all.size() == 2 && !all[1].starts_with('-');
    if (is_sqlite) return answer("a command line of sqlite3", url_of_file(all[1]));
    const client* of = client_named(all[0]);
    if (of == nullptr) return {};
    reading seen{.place = {.scheme = std::string(of->scheme)}};
    std::vector<std::string> names;
    for (std::size_t at = 1; at < all.size(); ++at) {
        if (all[at].starts_with('-')) at = read_option(*of, all, at, seen);
        else names.push_back(all[at]);
    }
    std::string notation = "a command line of " + all[0].substr(all[0].rfind('/') + 1);
    // psql takes a whole connection string in place of the database; it may be several words here.
    for (const std::string& name : names)
        if (of == &psql && name.find('=') != std::string::npos) seen.inner += name + " ";
    if (of == &psql && seen.place.database.empty() && !names.empty() && seen.is_certain)
        seen.place.database = names[0];
    if (of == &psql && names.size() > 1 && seen.is_certain) seen.place.user = names[1];
    if (of == &mysql && names.size() == 1 && seen.is_certain) seen.place.database = names[0];
    if (seen.inner.empty() && seen.place.database.find_first_of("=:") != std::string::npos) {
        seen.inner = std::move(seen.place.database);
        seen.place.database.clear();
    }
    if (!seen.inner.empty()) {
        std::string found = answer_to_other_notation(seen.inner);
        return found.empty() ? "this is " + notation + ", not a URL; use the URL in it alone"
                             : found;
    }
    if (seen.host.name.empty()) seen.host.name = "localhost";
    seen.place.hosts.push_back(seen.host);
    return answer(notation, url_of(seen.place));
}

}  // namespace cenote::connector_detail
