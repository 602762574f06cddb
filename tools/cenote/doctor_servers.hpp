// Each kind of server is asked in its own way, in a file of its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "doctor_facts.hpp"
#include "terminal.hpp"
#include <cenote/server_error.hpp>

namespace doctor {

/// What is to be looked at, and how long that may take.
struct examination {
    std::string url;
    nanoseconds timeout = std::chrono::seconds(5);  ///< For anything that is asked of the server.
    std::optional<nanoseconds> idle = std::nullopt;
    const terminal::interruption& stop;
    bool quiet = false;  ///< No bars.
};

/// Each fills in what it learns; that there is no connection is a fact as well. Throws invalid_url,
/// and command::failure if it is interrupted.
void examine_postgres(const examination& how, facts& into);
void examine_mariadb(const examination& how, facts& into);
void examine_redis(const examination& how, facts& into);
void examine_http(const examination& how, facts& into);
void examine_sqlite(const examination& how, facts& into);

/// Throws command::failure if somebody wants it to end.
void go_on(const examination& how);

/// Does something again and again, `most` times, or until the time is up, but once at least.
/// `before`: is done each time before, and not measured.
times repeat(const examination& how, const char* what, std::size_t most, nanoseconds limit,
             const std::function<void()>& something, const std::function<void()>& before = {});

/// Waits as long as the connection is to be idle, with a bar.
void stay_idle(const examination& how);

/// The server's clock by ours, if it was read between these two looks at ours.
void compare_clocks(std::chrono::system_clock::time_point before,
                    std::chrono::system_clock::time_point after, nanoseconds theirs_since_1970,
                    facts& into);

/// For what comes after the first answer: what fails then was not seen, and the rest is judged all
/// the same. `Error`: what is taken for that; others end it.
template <class Error, class F>
void attempt(const char* what, facts& into, F f) {
    try {
        f();
    } catch (const Error& e) {
        into.not_seen.push_back(std::string(what) + " (" + e.what() + ")");
    }
}

/// What opening, a round trip, a probe and a reset cost, on a connection of its own: others may not
/// bear to be idle meanwhile.
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
        // Only what was used is reset.
        if (resets)
            into.reset =
                repeat(how, "resets", 50, 1s, [&] { connector.reset(c); }, [&] { trip(c); });
        connector.close(c);
    });
}

/// Keeps a connection idle and sees whether it is still good.
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
        result.said = e.what();
    }
    into.idle = result;
}

}  // namespace doctor
