// The texts of pool events.
#include "watch/event_text.hpp"

#include <chrono>
#include <cstdio>
#include <exception>

#include "vocabulary/texts.hpp"

namespace cenote::detail {

namespace {

/// "14 s", "2.5 s", "20 ms", "1.5 µs".
std::string text_of(std::chrono::nanoseconds time) {
    char text[32];
    auto ns = static_cast<double>(time.count());
    if (ns >= 10e9) std::snprintf(text, sizeof text, "%.0f s", ns / 1e9);
    else if (ns >= 1e9) std::snprintf(text, sizeof text, "%.1f s", ns / 1e9);
    else if (ns >= 1e6) std::snprintf(text, sizeof text, "%.3g ms", ns / 1e6);
    else std::snprintf(text, sizeof text, "%.3g µs", ns / 1e3);
    return text;
}

std::string text_of(const std::exception_ptr& cause) {
    return cause == nullptr ? "rejected or timed out" : on_one_line(vocabulary::text_of(cause));
}

/// ` "checkout"`, or nothing.
std::string quoted(const char* task) {
    return task == nullptr ? "" : " \"" + on_one_line(task) + '"';
}

std::string text_of(const stats& now) {
    std::string text = std::to_string(now.leased) + " of " + std::to_string(now.max) + " leased";
    if (now.idle > 0) text += ", " + std::to_string(now.idle) + " idle";
    if (now.opening > 0) text += ", " + std::to_string(now.opening) + " opening";
    return text + ", " + std::to_string(now.waiting) + " waiting";
}

}  // namespace

std::string on_one_line(std::string_view text) {
    std::string line;
    for (char c : text) {
        bool visible = static_cast<unsigned char>(c) > ' ' && c != '\x7f';
        if (visible) line += c;
        else if (!line.empty() && line.back() != ' ') line += ' ';
    }
    if (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

std::string event_subject(const event& what) {
    switch (what.kind) {
        case event_kind::exhausted: return make_error_code(what.error).message();
        case event_kind::loop_blocked:
        case event_kind::nested_acquire: return vocabulary::text_of(what.site);
        case event_kind::waited:
        case event_kind::leak_suspected: return vocabulary::text_of(what.site) + quoted(what.task);
        case event_kind::breaker_changed: return to_string(what.breaker);
        case event_kind::retired: return to_string(what.why);
        case event_kind::open_failed:
        case event_kind::probe_failed:
        case event_kind::reset_failed: return text_of(what.cause);
        case event_kind::closed: return what.cause == nullptr ? "" : text_of(what.cause);
        case event_kind::opened:
        case event_kind::acquired:
        case event_kind::released:
        case event_kind::discarded:
        case event_kind::detached:
        case event_kind::paused:
        case event_kind::resumed:
        case event_kind::closing:
        case event_kind::closed_pool: break;
    }
    return {};
}

std::string event_text(const event& what, const std::string& subject) {
    std::string it = "resource " + std::to_string(what.resource);
    switch (what.kind) {
        case event_kind::opened: return "opened " + it + " in " + text_of(what.took);
        case event_kind::open_failed:
            return "could not open a resource (" + text_of(what.took) + "): " + subject;
        case event_kind::acquired: return "granted " + it + " after " + text_of(what.took);
        case event_kind::released: return it + " was released after " + text_of(what.took);
        case event_kind::discarded: return it + " was discarded by its holder";
        case event_kind::detached: return it + " was detached by its holder";
        case event_kind::retired:
            return "retired " + it + ": " + subject +
                   (what.cause == nullptr ? "" : ": " + text_of(what.cause));
        case event_kind::probe_failed: return "probe of " + it + " failed: " + subject;
        case event_kind::reset_failed: return "reset of " + it + " failed: " + subject;
        case event_kind::closed:
            return what.cause == nullptr ? "closed " + it
                                         : "close of " + it + " failed: " + subject;
        case event_kind::exhausted:
            return "refused an acquire, " + subject +
                   (what.now == nullptr ? "" : ": " + text_of(*what.now));
        case event_kind::loop_blocked: return subject + " blocks the event loop of the pool";
        case event_kind::nested_acquire:
            return subject + " waits for a lease on a thread that already holds one";
        case event_kind::leak_suspected:
            return it + " has been held for " + text_of(what.took) + " by " + subject;
        case event_kind::breaker_changed: return "the circuit breaker is now " + subject;
        case event_kind::paused: return "paused, no lease is granted";
        case event_kind::resumed: return "resumed";
        case event_kind::closing: return "closing";
        case event_kind::closed_pool: return "closed, nothing is left";
        case event_kind::waited:
            return subject + " waited " + text_of(what.took) + " for " + it +
                   (what.opened_here ? ", which was opened meanwhile" : "");
    }
    return to_string(what.kind);
}

}  // namespace cenote::detail
