// Options from a URL, and libpq's settings from options: all of them, so that neither environment
// variables nor files in the home folder have an effect.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "cenote/url.hpp"
#include "connector/login.hpp"
#include "connector/postgres_session.hpp"
#include "connector/socket.hpp"
#include "connector/url_options.hpp"

namespace cenote::postgres {

namespace {

using connector_detail::refuse_url;
using connector_detail::take_text;
using connector_detail::take_word;
using connector_detail::value_of;
template <class Value, std::size_t Count>
using words = std::array<connector_detail::url_word<Value>, Count>;

constexpr words<tls_mode, 4> tls_modes{{{"disable", tls_mode::off},
                                        {"require", tls_mode::require},
                                        {"verify-ca", tls_mode::verify_ca},
                                        {"verify-full", tls_mode::verify_full}}};
constexpr words<channel_binding, 3> bindings{{{"disable", channel_binding::off},
                                              {"prefer", channel_binding::prefer},
                                              {"require", channel_binding::require}}};
constexpr words<server_role, 6> roles{{{"any", server_role::any},
                                       {"read-write", server_role::read_write},
                                       {"read-only", server_role::read_only},
                                       {"primary", server_role::primary},
                                       {"standby", server_role::standby},
                                       {"prefer-standby", server_role::prefer_standby}}};
constexpr words<reset_mode, 3> resets{{{"with_next", reset_mode::with_next},
                                       {"at_release", reset_mode::at_release},
                                       {"by_tag", reset_mode::by_tag}}};

/// libpq's word for a value.
template <class Value, std::size_t Count>
std::string text_of(const words<Value, Count>& all, Value value) {
    return std::string(
        std::ranges::find(all, value, &connector_detail::url_word<Value>::value)->text);
}

/// The words of libpq's `options`: with spaces in between, and a backslash before a character that
/// has no meaning.
std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> all;
    bool inside = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        bool space = text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');
        if (!space && !inside) all.emplace_back();
        inside = !space;
        if (text[i] == '\\' && i + 1 < text.size()) ++i;
        if (inside) all.back() += text[i];
    }
    return all;
}

/// Of libpq's `options` only `-c name=value`, `-cname=value` and `--name=value`.
void add_server_options(std::string_view text, std::map<std::string, std::string>& to) {
    std::vector<std::string> words = words_of(text);
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string_view word = words[i];
        if (word == "-c" && i + 1 < words.size()) word = words[++i];
        else if (word.starts_with("-c") || word.starts_with("--")) word.remove_prefix(2);
        else url_parameters::refuse("options", "must be a list of -c name=value");
        std::size_t equals = word.find('=');
        if (equals == word.npos)
            url_parameters::refuse("options", "must be a list of -c name=value");
        std::string name(word.substr(0, equals));
        std::ranges::replace(name, '-', '_');  // as the server does
        if (!to.emplace(name, word.substr(equals + 1)).second)
            url_parameters::refuse("options", "sets something twice");
    }
}

void take_session(url_parameters& from, options& o) {
    auto path = from.take("search_path");
    auto schema = from.take("schema");
    if (path && schema)
        url_parameters::refuse("schema", "means the same as \"search_path\"; use one of them");
    o.search_path = path ? *path : schema.value_or(o.search_path);
    take_text(from, "application_name", o.application_name);
    take_text(from, "role", o.role);
    take_text(from, "timezone", o.timezone);
    take_text(from, "client_encoding", o.client_encoding);
    connector_detail::take_settings(from, o.settings);
    if (auto text = from.take("options")) add_server_options(*text, o.settings);
}

void take_tls(url_parameters& from, options& o) {
    if (auto mode = from.take("sslmode")) {
        if (*mode == "allow" || *mode == "prefer")
            url_parameters::refuse("sslmode", "does not support " + *mode +
                                                  ", which lets an attacker turn TLS off");
        o.tls = value_of(tls_modes, "sslmode", *mode);
    }
    take_text(from, "sslrootcert", o.ca_file);
    take_text(from, "sslcert", o.certificate_file);
    take_text(from, "sslkey", o.key_file);
    take_word(from, "channel_binding", bindings, o.channel_binding);
}

void take_timeouts(url_parameters& from, options& o) {
    connector_detail::take_timeouts(from, o);
    if (o.connect_timeout.count() == 0) url_parameters::refuse("connect_timeout", "must not be 0");
    if (o.operation_timeout.count() == 0)
        url_parameters::refuse("operation_timeout", "must not be 0");
}

}  // namespace

options options::from_url(std::string_view text) {
    url u = url::parse(text);
    if (u.scheme != "postgresql" && u.scheme != "postgres")
        refuse_url("must begin with postgresql:// or postgres://");
    options o;
    if (!u.hosts.empty()) o.hosts = u.hosts;
    o.user = u.user;
    o.password = u.password;
    if (!u.path.empty()) o.database = u.path.substr(1);
    url_parameters all(u);
    connector_detail::take_password_source(all, o.password, o.credentials);
    take_text(all, "passfile", o.passfile);
    take_tls(all, o);
    take_timeouts(all, o);
    take_session(all, o);
    take_word(all, "target_session_attrs", roles, o.role_of_server);
    take_text(all, "probe", o.probe);
    take_word(all, "reset", resets, o.reset);
    connector_detail::take_keepalive(all, o.keepalive);
    connector_detail::take_statement_cache(all, o.statement_cache);
    connector_detail::take_reply_limit(all, "max_reply_bytes", connector_detail::min_reply_bytes,
                                       o.max_reply_bytes);
    all.refuse_others();
    if (o.user.empty()) refuse_url("has no user");
    if (!o.passfile.empty() && (o.credentials != nullptr || !o.password.empty()))
        url_parameters::refuse("passfile", "is a second source of the password");
    if (o.certificate_file.empty() != o.key_file.empty())
        refuse_url("has only one of \"sslcert\" and \"sslkey\"");
    try {
        detail::validate(o);
    } catch (const std::invalid_argument& e) {
        throw invalid_url(e.what());
    }
    return o;
}

namespace detail {

namespace {

/// The path of a file that cannot exist.
constexpr const char* nowhere = "/dev/null/none";

bool in_environment(const char* name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): not more than libpq, which reads it right afterwards
    return std::getenv(name) != nullptr;
}

[[noreturn]] void refuse_environment(const char* name) {
    throw connection_error(error_kind::final,
                           std::string("cenote: PostgreSQL: the environment variable ") + name +
                               " would override the options; unset it");
}

/// No setting of libpq overrides these variables.
void check_environment(const options& settings, const attempt& where) {
    if (where.address.empty() && in_environment("PGHOSTADDR")) refuse_environment("PGHOSTADDR");
    if (!settings.timezone.empty() && in_environment("PGTZ")) refuse_environment("PGTZ");
}

/// `-c name=value`, with a backslash before each character that would end it.
std::string server_option(const std::string& name, const std::string& value) {
    std::string text = " -c " + name + "=";
    for (char c : value) {
        if (c == ' ' || c == '\\' || (c >= '\t' && c <= '\r')) text += '\\';
        text += c;
    }
    return text;
}

std::string server_options(const options& settings) {
    std::string all;
    auto add_if_set = [&](const char* name, const std::string& value) {
        if (!value.empty()) all += server_option(name, value);
    };
    add_if_set("search_path", settings.search_path);
    add_if_set("role", settings.role);
    add_if_set("timezone", settings.timezone);
    for (const auto& [name, value] : settings.settings) all += server_option(name, value);
    // Poolers may refuse options; but libpq replaces an empty text by that of the environment.
    if (all.empty() && (in_environment("PGOPTIONS") || in_environment("PGSERVICE"))) all += ' ';
    return all;
}

std::string trusted_file(const options& settings, tls_mode mode) {
    if (!settings.ca_file.empty()) return settings.ca_file;
    constexpr const char* of_the_system = "/etc/ssl/certs/ca-certificates.crt";
    bool verifies = mode == tls_mode::verify_ca || mode == tls_mode::verify_full;
    return verifies && std::filesystem::exists(of_the_system) ? of_the_system : nowhere;
}

std::string or_nowhere(const std::string& file) { return file.empty() ? nowhere : file; }

void must(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("cenote: PostgreSQL: ") + what);
}

/// Ignores case, as the server does. `name`: in lower case.
bool is_named(const std::string& setting, std::string_view name) {
    return std::ranges::equal(in_lower_case(setting), name);
}

/// A name as in `-c name=value`. Settings with an option of their own are refused.
void check_setting(const std::string& name, const std::string& value) {
    constexpr std::array<std::string_view, 5> with_option{"application_name", "client_encoding",
                                                          "role", "search_path", "timezone"};
    const std::string lower = in_lower_case(name);
    check_syntax_of_setting(lower, value);
    must(std::ranges::find(with_option, lower) == with_option.end(),
         "application_name, client_encoding, role, search_path and timezone are options of their "
         "own, not settings");
    constexpr std::array<std::string_view, 4> on{"on", "true", "yes", "1"};
    must(!is_named(name, "standard_conforming_strings") ||
             std::ranges::find(on, in_lower_case(value)) != on.end(),
         "standard_conforming_strings must be on: placeholders are found by its rules");
}

}  // namespace

tls_mode effective_tls(const options& settings, const std::string& host) {
    if (host.starts_with('/')) return tls_mode::off;
    return settings.tls.value_or(is_loopback(host) ? tls_mode::off : tls_mode::verify_full);
}

std::string in_lower_case(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    return text;
}

void check_syntax_of_setting(const std::string& name, const std::string& value) {
    bool is_name = !name.empty() && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    });
    must(is_name, "the name of a setting may have letters, digits, '_' and '.'");
    must(value.find('\0') == std::string::npos, "a setting must not have a zero byte");
}

bool is_read_only_by_default(const options& settings) {
    return std::ranges::any_of(settings.settings, [](const auto& each) {
        return is_named(each.first, "default_transaction_read_only");
    });
}

void validate(const options& o) {
    must(!o.hosts.empty(), "hosts must not be empty");
    for (const url::host& h : o.hosts) {
        must(!h.name.empty(), "a host must have a name");
        must(h.name.find(',') == std::string::npos, "the name of a host must not have a comma");
    }
    must(!o.user.empty(), "user must not be empty");
    must(o.connect_timeout.count() > 0, "connect_timeout must be positive");
    must(o.operation_timeout.count() > 0, "operation_timeout must be positive");
    must(o.max_reply_bytes >= connector_detail::min_reply_bytes,
         "max_reply_bytes must be at least 64 KiB");
    must(o.certificate_file.empty() == o.key_file.empty(),
         "certificate_file and key_file must be set together");
    must(!o.client_encoding.empty(), "client_encoding must not be empty");
    for (const std::string* text :
         {&o.user, &o.database, &o.application_name, &o.search_path, &o.role, &o.timezone,
          &o.client_encoding, &o.probe, &o.passfile})
        must(text->find('\0') == std::string::npos, "an option must not have a zero byte");
    for (const auto& [name, value] : o.settings) check_setting(name, value);
    const bool has_source = connector_detail::has_credentials_source(o);
    must(static_cast<int>(!o.password.empty()) + static_cast<int>(has_source) +
                 static_cast<int>(!o.passfile.empty()) <=
             1,
         "only one of password, credentials and passfile can be set");
    must(connector_detail::fits(o.keepalive), "a value of keepalive is out of its range");
    must(o.password.reveal().find('\0') == std::string_view::npos,
         "the password must not have a zero byte");
}

const char* password_of(const secret& password) {
    if (!password.empty()) return password.c_str();
    return in_environment("PGPASSWORD") ? "\x01" : "";
}

std::vector<std::pair<const char*, std::string>> keywords_of(const options& settings,
                                                             const attempt& where,
                                                             const std::string& user) {
    check_environment(settings, where);
    const keepalive_options& keepalive = settings.keepalive;
    return {
        {"host", where.host},
        {"hostaddr", where.address},
        {"port", where.port},
        {"user", user},
        {"passfile", nowhere},
        {"dbname", settings.database.empty() ? settings.user : settings.database},
        {"client_encoding", settings.client_encoding},
        {"application_name", settings.application_name},
        {"options", server_options(settings)},
        {"target_session_attrs", text_of(roles, where.wanted)},
        {"connect_timeout", "0"},  // the deadline of the steps limits the time
        {"sslmode", text_of(tls_modes, where.tls)},
        {"sslrootcert", trusted_file(settings, where.tls)},
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
        {"keepalives_idle", std::to_string(keepalive.idle.count())},
        {"keepalives_interval", std::to_string(keepalive.interval.count())},
        {"keepalives_count", std::to_string(keepalive.probes)},
        {"tcp_user_timeout", std::to_string(keepalive.user_timeout.count())},
    };
}

}  // namespace detail

}  // namespace cenote::postgres
