// What the from_url() of several connectors share: words, times, sizes and files among the
// parameters of a URL.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "cenote/credentials.hpp"
#include "cenote/keepalive.hpp"
#include "cenote/secret.hpp"
#include "cenote/tls.hpp"
#include "cenote/url.hpp"

namespace cenote::connector_detail {

/// The least that options::max_reply_bytes may be: more than any reply to a connector's own
/// statements.
inline constexpr std::size_t min_reply_bytes = std::size_t{64} << 10U;

[[noreturn]] inline void refuse_url(const std::string& why) {
    throw invalid_url("cenote: the URL " + why);
}

template <class Value>
struct url_word {
    std::string_view text;
    Value value;
};

/// The value of the word that a parameter has. Throws invalid_url with the list of words.
template <class Value, std::size_t Count>
Value value_of(const std::array<url_word<Value>, Count>& words, std::string_view key,
               std::string_view text) {
    auto found = std::ranges::find(words, text, &url_word<Value>::text);
    if (found != words.end()) return found->value;
    std::string all;
    for (const auto& each : words) (all += all.empty() ? "" : ", ") += each.text;
    url_parameters::refuse(key, "must be one of " + all);
}

// Each of these takes a parameter if the URL has it; otherwise the option stays as it is. Throw
// invalid_url.

template <class Value, std::size_t Count>
void take_word(url_parameters& from, std::string_view key,
               const std::array<url_word<Value>, Count>& words, Value& into) {
    if (auto text = from.take(key)) into = value_of(words, key, *text);
}

inline void take_text(url_parameters& from, std::string_view key, std::string& into) {
    if (auto text = from.take(key)) into = std::move(*text);
}

template <class Duration>
void take_time(url_parameters& from, std::string_view key, Duration& into) {
    if (auto time = from.take_milliseconds(key)) into = std::chrono::milliseconds(*time);
}

template <class Options>
void take_timeouts(url_parameters& from, Options& into) {
    take_time(from, "connect_timeout", into.connect_timeout);
    take_time(from, "operation_timeout", into.operation_timeout);
}

/// Whole seconds.
inline void take_seconds(url_parameters& from, std::string_view key, std::chrono::seconds& into) {
    auto time = from.take_milliseconds(key);
    if (!time) return;
    if (*time % 1000 != 0) url_parameters::refuse(key, "must be a whole number of seconds");
    into = std::chrono::seconds(*time / 1000);
}

inline void take_keepalive(url_parameters& from, keepalive_options& into) {
    take_seconds(from, "keepalive_idle", into.idle);
    take_seconds(from, "keepalive_interval", into.interval);
    if (auto count = from.take_number("keepalive_probes", 1, 127))
        into.probes = static_cast<int>(*count);
    take_time(from, "user_timeout", into.user_timeout);
}

/// Where the password comes from, if not from the URL itself.
inline void take_password_source(url_parameters& from, const secret& password,
                                 credentials_source& into) {
    auto take = [&](const char* key, credentials_source (*source)(std::string)) {
        auto name = from.take(key);
        if (!name) return;
        if (name->empty()) url_parameters::refuse(key, "is empty");
        if (into != nullptr || !password.empty())
            url_parameters::refuse(key, "is a second source of the password");
        into = source(std::move(*name));
    };
    take("password_file", &password_from_file);
    take("password_env", &password_from_environment);
}

/// Keys with the prefix `set.`: settings of the session, by their names.
inline void take_settings(url_parameters& from, std::map<std::string, std::string>& into) {
    for (auto& [name, value] : from.take_all("set.")) into.emplace(name, std::move(value));
}

inline void take_size(url_parameters& from, std::string_view key, std::size_t least,
                      std::size_t most, std::size_t& into) {
    if (auto size = from.take_number(key, static_cast<std::int64_t>(least),
                                     static_cast<std::int64_t>(most)))
        into = static_cast<std::size_t>(*size);
}

/// Limits of replies, in bytes.
inline void take_reply_limit(url_parameters& from, std::string_view key, std::size_t least,
                             std::size_t& into) {
    take_size(from, key, least, std::size_t{1} << 40U, into);
}

inline void take_statement_cache(url_parameters& from, std::size_t& into) {
    take_size(from, "statement_cache", 0, 10'000, into);
}

inline void take_tls_files(url_parameters& from, bool tls_is_on, tls_options& into) {
    auto take = [&](std::string_view key, std::string& option) {
        auto file = from.take(key);
        if (!file) return;
        if (!tls_is_on) url_parameters::refuse(key, "has no effect without TLS");
        option = std::move(*file);
    };
    take("tls_ca", into.ca_file);
    take("tls_cert", into.certificate_file);
    take("tls_key", into.key_file);
    take("tls_server_name", into.server_name);
    if (into.certificate_file.empty() && !into.key_file.empty())
        url_parameters::refuse("tls_key", "needs \"tls_cert\", too");
}

}  // namespace cenote::connector_detail
