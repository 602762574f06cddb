// The examinations of all kinds of servers, and the measurements they share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.hpp"
#include "doctor_facts.hpp"
#include "doctor_reach.hpp"
#include "terminal.hpp"
#include <cenote/server_error.hpp>

namespace doctor {

struct examination {
    std::string url;
    nanoseconds timeout = std::chrono::seconds(5);  ///< For each request to the server.
    std::optional<nanoseconds> idle = std::nullopt;
    const terminal::interruption& stop;
};

/// Each fills in the facts it finds, including a failure to connect. Throws invalid_url, and
/// command::failure on Ctrl-C.
void examine_postgres(const examination& how, facts& into);
void examine_mariadb(const examination& how, facts& into);
void examine_redis(const examination& how, facts& into);
void examine_http(const examination& how, facts& into);
void examine_sqlite(const examination& how, facts& into);

/// Throws command::failure after Ctrl-C.
void throw_if_interrupted(const examination& how);

/// Runs `operation` up to `most` times, at least once, until `limit` has passed. `before` runs
/// before each operation and is not measured.
times repeat(const examination& how, const char* title, std::size_t most, nanoseconds limit,
             const std::function<void()>& operation, const std::function<void()>& before = {});

/// Waits for `how.idle` with a progress bar.
void stay_idle(const examination& how);

/// Records the difference between the server's clock, read between `before` and `after`, and ours.
void compare_clocks(std::chrono::system_clock::time_point before,
                    std::chrono::system_clock::time_point after, nanoseconds theirs_since_1970,
                    facts& into);

/// Settings and status values by name.
using setting_map = std::map<std::string, std::string, std::less<>>;
/// The number at the beginning of the text, if there is one.
std::optional<std::uint64_t> parse_number(std::string_view text);
/// Nothing if the setting is missing or not a number.
std::optional<std::uint64_t> number(const setting_map& settings, std::string_view name);
/// Limits huge values to what nanoseconds can represent.
nanoseconds seconds_from(std::uint64_t count);
/// A number of connections without the doctor's own.
std::optional<std::uint64_t> without_own(std::optional<std::uint64_t> connections);

/// Runs a step that may fail after the connection was made: an `Error` is recorded in
/// `into.not_seen`, other exceptions propagate.
template <class Error, class F>
void attempt(const char* what, facts& into, F f) {
    try {
        f();
    } catch (const Error& e) {
        into.not_seen.push_back(std::string(what) + " (" + command::without_prefix(e.what()) + ")");
    }
}

/// Measures open, round trip, probe and reset on a new connection: an earlier one may have timed
/// out meanwhile.
template <class Connector, class Trip>
void measure(const examination& how, Connector& connector, Trip trip, bool resets, facts& into) {
    using namespace std::chrono_literals;
    attempt<cenote::server_error>("how long it takes to open", into, [&] {
        into.open = repeat(how, "opening", 10, 2s, [&] {
            auto another = connector.open();
            connector.close(another);
        });
    });
    attempt<cenote::server_error>("how long the server takes", into, [&] {
        auto c = connector.open();
        into.trip = repeat(how, "round trips", 200, 1s, [&] { trip(c); });
        into.probe =
            repeat(how, "probes", 50, 500ms, [&] { static_cast<void>(connector.probe(c)); });
        // A connector skips the reset of an unused session.
        if (resets)
            into.reset =
                repeat(how, "resets", 50, 1s, [&] { connector.reset(c); }, [&] { trip(c); });
        connector.close(c);
    });
}

/// Keeps a connection idle and tests whether it still works.
template <class Connector, class Trip>
void check_idleness(const examination& how, Connector& connector, Trip trip, facts& into) {
    if (!how.idle) return;
    std::optional<decltype(connector.open())> opened;
    attempt<cenote::server_error>("whether an idle connection survives", into, [&] {
        opened.emplace(connector.open());
        trip(*opened);
    });
    if (!opened) return;
    auto& c = *opened;
    stay_idle(how);
    idle_check result{.waited = *how.idle, .survived = true};
    auto begun = std::chrono::steady_clock::now();
    try {
        trip(c);
        connector.close(c);
    } catch (const std::exception& e) {
        result.survived = false;
        result.silently = std::chrono::steady_clock::now() - begun > how.timeout / 2;
        result.error = command::without_prefix(e.what());
    }
    into.idle = result;
}

/// Opens a session, reads its TLS state and the server's settings, then measures it. `read_tls` and
/// `read_settings` get the session.
template <class Connector, class Trip, class ReadTls, class ReadSettings>
void examine_sessions(const examination& how, Connector connector, bool wants_tls, Trip trip,
                      ReadTls read_tls, ReadSettings read_settings, facts& into) {
    try {
        auto c = connector.open();
        read_tls(c);
        trip(c);
        attempt<cenote::server_error>("the server's settings", into, [&] {
            read_settings(connector, c);
            connector.close(c);
        });
    } catch (const cenote::server_error& e) {
        return explain_failure(e, wants_tls, into);
    }
    measure(how, connector, trip, true, into);
    check_idleness(how, connector, trip, into);
}

}  // namespace doctor
