// From a URL to options, and from options to libpq's settings: each one said, so that neither the
// environment nor files in a home folder have a say.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "cenote/url.hpp"
#include "connector/postgres_session.hpp"
#include "connector/socket.hpp"

namespace cenote::postgres {

namespace {

template <class Meaning>
struct word {
    std::string_view text;
    Meaning meaning;
};

constexpr std::array<word<tls_mode>, 4> tls_modes{{{"disable", tls_mode::off},
                                                   {"require", tls_mode::require},
                                                   {"verify-ca", tls_mode::verify_ca},
                                                   {"verify-full", tls_mode::verify_full}}};
constexpr std::array<word<channel_binding>, 3> bindings{{{"disable", channel_binding::off},
                                                         {"prefer", channel_binding::prefer},
                                                         {"require", channel_binding::require}}};
constexpr std::array<word<server_role>, 6> roles{{{"any", server_role::any},
                                                  {"read-write", server_role::read_write},
                                                  {"read-only", server_role::read_only},
                                                  {"primary", server_role::primary},
                                                  {"standby", server_role::standby},
                                                  {"prefer-standby", server_role::prefer_standby}}};

constexpr std::array<word<reset_mode>, 3> resets{{{"with_next", reset_mode::with_next},
                                                  {"at_release", reset_mode::at_release},
                                                  {"by_tag", reset_mode::by_tag}}};

[[noreturn]] void refuse(std::string_view key, const std::string& why) {
    throw invalid_url("cenote: the URL has a parameter \"" + std::string(key) + "\" that " + why);
}

template <class Meaning, std::size_t Count>
Meaning meaning_of(const std::array<word<Meaning>, Count>& words, std::string_view key,
                   const std::string& text) {
    auto found = std::ranges::find(words, text, &word<Meaning>::text);
    if (found != words.end()) return found->meaning;
    std::string all;
    for (const auto& each : words) (all += all.empty() ? "" : ", ") += each.text;
    refuse(key, "is none of " + all);
}

template <class Meaning, std::size_t Count>
std::string text_of(const std::array<word<Meaning>, Count>& words, Meaning meaning) {
    return std::string(std::ranges::find(words, meaning, &word<Meaning>::meaning)->text);
}

/// More than any reply to the connector's own questions.
constexpr std::int64_t least_reply_bytes = std::int64_t{64} << 10U;

void take_times(url_parameters& from, options& o) {
    auto take = [&](std::string_view key, std::chrono::milliseconds& into) {
        auto time = from.take_milliseconds(key);
        if (!time) return;
        if (*time == 0) refuse(key, "is no time at all");
        into = std::chrono::milliseconds(*time);
    };
    take("connect_timeout", o.connect_timeout);
    take("operation_timeout", o.operation_timeout);
}

void take_session(url_parameters& from, options& o) {
    auto path = from.take("search_path");
    auto schema = from.take("schema");
    if (path && schema) refuse("schema", "is the same as \"search_path\", which is there too");
    o.search_path = path ? *path : schema.value_or(o.search_path);
    o.application_name = from.take("application_name").value_or(o.application_name);
    o.role = from.take("role").value_or(o.role);
    o.timezone = from.take("timezone").value_or(o.timezone);
    o.client_encoding = from.take("client_encoding").value_or(o.client_encoding);
}

void take_tls(url_parameters& from, options& o) {
    if (auto mode = from.take("sslmode")) {
        if (*mode == "allow" || *mode == "prefer")
            refuse("sslmode", "lets anybody on the way switch TLS off; it is not offered");
        o.tls = meaning_of(tls_modes, "sslmode", *mode);
    }
    o.ca_file = from.take("sslrootcert").value_or(o.ca_file);
    o.certificate_file = from.take("sslcert").value_or(o.certificate_file);
    o.key_file = from.take("sslkey").value_or(o.key_file);
    if (auto how = from.take("channel_binding"))
        o.channel_binding = meaning_of(bindings, "channel_binding", *how);
}

}  // namespace

options options::from_url(std::string_view text) {
    url u = url::parse(text);
    if (u.scheme != "postgresql" && u.scheme != "postgres")
        throw invalid_url("cenote: the URL of PostgreSQL begins with postgresql:// or postgres://");
    options o;
    if (!u.hosts.empty()) o.hosts = u.hosts;
    o.user = u.user;
    o.password = u.password;
    if (!u.path.empty()) o.database = u.path.substr(1);
    url_parameters all(u);
    take_tls(all, o);
    take_times(all, o);
    take_session(all, o);
    if (auto which = all.take("target_session_attrs"))
        o.role_of_server = meaning_of(roles, "target_session_attrs", *which);
    if (auto when = all.take("reset")) o.reset = meaning_of(resets, "reset", *when);
    constexpr std::int64_t most_statements = 10'000;
    if (auto kept = all.take_number("statement_cache", 0, most_statements))
        o.statement_cache = static_cast<std::size_t>(*kept);
    constexpr std::int64_t most_bytes = std::int64_t{1} << 40U;
    if (auto bytes = all.take_number("max_reply_bytes", least_reply_bytes, most_bytes))
        o.max_reply_bytes = static_cast<std::size_t>(*bytes);
    all.refuse_others();
    if (o.user.empty()) throw invalid_url("cenote: the URL of PostgreSQL has no user");
    if (o.certificate_file.empty() != o.key_file.empty())
        throw invalid_url("cenote: the URL has only one of \"sslcert\" and \"sslkey\"");
    return o;
}

namespace detail {

namespace {

/// A file that is not there, and can never be.
constexpr const char* nowhere = "/dev/null/none";

bool in_environment(const char* name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no more than libpq, which reads it right afterwards
    return std::getenv(name) != nullptr;
}

[[noreturn]] void refuse_environment(const char* name) {
    throw connection_error(error_kind::final,
                           std::string("cenote: the environment variable ") + name +
                               " would have libpq do something else than it is told; unset it");
}

/// libpq listens to these whatever it is told.
void check_environment(const options& settings, const attempt& where) {
    if (where.address.empty() && in_environment("PGHOSTADDR")) refuse_environment("PGHOSTADDR");
    if (!settings.timezone.empty() && in_environment("PGTZ")) refuse_environment("PGTZ");
}

/// `-c name=value`, with a backslash before whatever would end it.
std::string server_option(const char* name, const std::string& value) {
    if (value.empty()) return {};
    std::string text = std::string(" -c ") + name + "=";
    for (char c : value) {
        if (c == ' ' || c == '\\' || (c >= '\t' && c <= '\r')) text += '\\';
        text += c;
    }
    return text;
}

std::string server_options(const options& settings) {
    std::string all = server_option("search_path", settings.search_path) +
                      server_option("role", settings.role) +
                      server_option("timezone", settings.timezone);
    // Poolers do not like any; but what is empty comes from the environment.
    if (all.empty() && (in_environment("PGOPTIONS") || in_environment("PGSERVICE"))) all = " ";
    return all;
}

std::string trusted(const options& settings, tls_mode mode) {
    if (!settings.ca_file.empty()) return settings.ca_file;
    constexpr const char* of_the_system = "/etc/ssl/certs/ca-certificates.crt";
    bool asks = mode == tls_mode::verify_ca || mode == tls_mode::verify_full;
    return asks && std::filesystem::exists(of_the_system) ? of_the_system : nowhere;
}

std::string or_nowhere(const std::string& file) { return file.empty() ? nowhere : file; }

void must(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("cenote: PostgreSQL: ") + what);
}

}  // namespace

tls_mode effective_tls(const options& settings, const std::string& host) {
    if (host.starts_with('/')) return tls_mode::off;
    return settings.tls.value_or(is_loopback(host) ? tls_mode::off : tls_mode::verify_full);
}

void validate(const options& o) {
    must(!o.hosts.empty(), "there is no host");
    for (const url::host& h : o.hosts) {
        must(!h.name.empty(), "a host has no name");
        must(h.name.find(',') == std::string::npos, "a host has a comma in its name");
    }
    must(!o.user.empty(), "there is no user");
    must(o.connect_timeout.count() > 0, "connect_timeout is no time");
    must(o.operation_timeout.count() > 0, "operation_timeout is no time");
    must(o.max_reply_bytes >= static_cast<std::size_t>(least_reply_bytes),
         "max_reply_bytes is less than 64 KiB");
    must(o.certificate_file.empty() == o.key_file.empty(),
         "certificate_file and key_file go together");
    must(!o.client_encoding.empty(), "there is no client_encoding");
    for (const std::string* text : {&o.user, &o.database, &o.application_name, &o.search_path,
                                    &o.role, &o.timezone, &o.client_encoding})
        must(text->find('\0') == std::string::npos, "an option has a zero byte");
    must(o.password.reveal().find('\0') == std::string_view::npos, "the password has a zero byte");
}

const char* password_of(const options& settings) {
    if (!settings.password.empty()) return settings.password.c_str();
    return in_environment("PGPASSWORD") ? "\x01" : "";
}

std::vector<std::pair<const char*, std::string>> keywords_of(const options& settings,
                                                             const attempt& where) {
    check_environment(settings, where);
    connector_detail::vigilance watch;
    return {
        {"host", where.host},
        {"hostaddr", where.address},
        {"port", where.port},
        {"user", settings.user},
        {"passfile", nowhere},
        {"dbname", settings.database.empty() ? settings.user : settings.database},
        {"client_encoding", settings.client_encoding},
        {"application_name", settings.application_name},
        {"options", server_options(settings)},
        {"target_session_attrs", text_of(roles, where.wanted)},
        {"connect_timeout", "0"},  // ours counts
        {"sslmode", text_of(tls_modes, where.tls)},
        {"sslrootcert", trusted(settings, where.tls)},
        {"sslcert", or_nowhere(settings.certificate_file)},
        {"sslkey", or_nowhere(settings.key_file)},
        {"sslcrl", nowhere},
        {"sslcompression", "0"},
        {"sslsni", "1"},
        {"ssl_min_protocol_version", "TLSv1.2"},
        {"ssl_max_protocol_version", "TLSv1.3"},
        {"channel_binding", text_of(bindings, settings.channel_binding)},
        {"gssencmode", "disable"},
        {"krbsrvname", "postgres"},
        {"keepalives", "1"},
        {"keepalives_idle", std::to_string(watch.idle.count())},
        {"keepalives_interval", std::to_string(watch.interval.count())},
        {"keepalives_count", std::to_string(watch.asks)},
        {"tcp_user_timeout", std::to_string(watch.unheard.count())},
    };
}

}  // namespace detail

}  // namespace cenote::postgres
