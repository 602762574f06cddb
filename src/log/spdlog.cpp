// What a pool tells its observers, as lines of a log.
#include "cenote/spdlog.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <spdlog/logger.h>
#include <spdlog/spdlog.h>
#include <stdexcept>
#include <utility>

#include "vocabulary/texts.hpp"

namespace cenote {

namespace {

using namespace std::chrono_literals;
using spdlog::level::level_enum;
using std::chrono::steady_clock;

/// The same warning is not logged again for so long.
constexpr auto quiet_for = 1s;
/// So many different warnings of one pool and kind are told apart.
constexpr std::size_t most_gists = 4;

/// The most severe level that events of this kind are logged at.
level_enum level_of(event_kind kind) {
    switch (kind) {
        case event_kind::acquired:
        case event_kind::released: return level_enum::trace;
        case event_kind::discarded:
        case event_kind::detached:
        case event_kind::retired: return level_enum::debug;
        case event_kind::opened:
        case event_kind::paused:
        case event_kind::resumed:
        case event_kind::closing: return level_enum::info;
        case event_kind::open_failed:
        case event_kind::probe_failed:
        case event_kind::reset_failed:
        case event_kind::closed:
        case event_kind::exhausted:
        case event_kind::loop_blocked:
        case event_kind::nested_acquire:
        case event_kind::leak_suspected:
        case event_kind::breaker_changed:
        case event_kind::closed_pool:  // tells of the warnings that were left out
            return level_enum::warn;
    }
    return level_enum::warn;
}

level_enum level_of(breaker_state state) {
    switch (state) {
        case breaker_state::active: return level_enum::info;
        case breaker_state::recovering: return level_enum::debug;  // after every cool-down
        case breaker_state::inactive: break;
    }
    return level_enum::warn;
}

level_enum level_of(const event& what) {
    bool asked_for = what.error == errc::canceled || what.error == errc::closed;
    if (what.kind == event_kind::exhausted && asked_for) return level_enum::debug;
    if (what.kind == event_kind::closed && what.cause == nullptr) return level_enum::debug;
    if (what.kind == event_kind::breaker_changed) return level_of(what.breaker);
    return level_of(what.kind);
}

/// "14 s", "2.5 s", "20 ms", "1.5 µs".
std::string text_of(std::chrono::nanoseconds d) {
    char text[32];
    auto ns = static_cast<double>(d.count());
    if (ns >= 10e9) std::snprintf(text, sizeof text, "%.0f s", ns / 1e9);
    else if (ns >= 1e9) std::snprintf(text, sizeof text, "%.1f s", ns / 1e9);
    else if (ns >= 1e6) std::snprintf(text, sizeof text, "%.3g ms", ns / 1e6);
    else std::snprintf(text, sizeof text, "%.3g µs", ns / 1e3);
    return text;
}

/// The text on one line, whatever is in it.
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

std::string text_of(const std::exception_ptr& cause) {
    return cause == nullptr ? "it said no, or took too long"
                            : on_one_line(vocabulary::text_of(cause));
}

/// " "checkout"", or nothing.
std::string quoted(const char* task) {
    return task == nullptr ? "" : " \"" + on_one_line(task) + '"';
}

std::string text_of(const stats& now) {
    std::string text = std::to_string(now.leased) + " of " + std::to_string(now.max) + " leased";
    if (now.idle > 0) text += ", " + std::to_string(now.idle) + " idle";
    if (now.opening > 0) text += ", " + std::to_string(now.opening) + " opening";
    return text + ", " + std::to_string(now.waiting) + " waiting";
}

/// What two warnings of a kind have in common when they say the same.
std::string gist_of(const event& what) {
    switch (what.kind) {
        case event_kind::exhausted: return make_error_code(what.error).message();
        case event_kind::loop_blocked:
        case event_kind::nested_acquire: return vocabulary::text_of(what.site);
        case event_kind::leak_suspected: return vocabulary::text_of(what.site) + quoted(what.task);
        case event_kind::breaker_changed: return to_string(what.breaker);
        case event_kind::open_failed:
        case event_kind::probe_failed:
        case event_kind::reset_failed:
        case event_kind::closed: return text_of(what.cause);
        case event_kind::opened:
        case event_kind::acquired:
        case event_kind::released:
        case event_kind::discarded:
        case event_kind::detached:
        case event_kind::retired:
        case event_kind::paused:
        case event_kind::resumed:
        case event_kind::closing:
        case event_kind::closed_pool: break;
    }
    return {};
}

/// What happened, in words; `gist` is that of the event.
std::string words_for(const event& what, const std::string& gist) {
    std::string it = "resource " + std::to_string(what.resource);
    switch (what.kind) {
        case event_kind::opened: return "opened " + it + " in " + text_of(what.took);
        case event_kind::open_failed:
            return "could not open a resource (" + text_of(what.took) + "): " + gist;
        case event_kind::acquired: return "lent " + it + " after " + text_of(what.took);
        case event_kind::released: return it + " came back after " + text_of(what.took);
        case event_kind::discarded: return it + " was discarded by its holder";
        case event_kind::detached: return it + " was taken out by its holder";
        case event_kind::retired:
            return "retired " + it + ": " + to_string(what.why) +
                   (what.cause == nullptr ? "" : ": " + text_of(what.cause));
        case event_kind::probe_failed: return "probe of " + it + " failed: " + gist;
        case event_kind::reset_failed: return "reset of " + it + " failed: " + gist;
        case event_kind::closed:
            return what.cause == nullptr ? "closed " + it : "close of " + it + " failed: " + gist;
        case event_kind::exhausted:
            return "refused an acquire, " + gist + ": " +
                   (what.now == nullptr ? std::string("nothing more is known")
                                        : text_of(*what.now));
        case event_kind::loop_blocked: return gist + " blocks the loop that the pool works on";
        case event_kind::nested_acquire:
            return gist + " waits for a lease on a thread that holds one already";
        case event_kind::leak_suspected:
            return it + " has been held for " + text_of(what.took) + " by " + gist;
        case event_kind::breaker_changed: return "the circuit breaker is now " + gist;
        case event_kind::paused: return "paused, nothing is lent";
        case event_kind::resumed: return "resumed";
        case event_kind::closing: return "closing";
        case event_kind::closed_pool: return "closed, nothing is left";
    }
    return to_string(what.kind);
}

std::string line_for(const event& what, const std::string& gist) {
    return "pool \"" + on_one_line(what.pool) + "\": " + words_for(what, gist);
}

void log(spdlog::logger& to, level_enum level, const std::string& line) {
    // Not as a format: there may be braces in it.
    to.log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

spdlog_observer::spdlog_observer() : spdlog_observer(spdlog::default_logger()) {}

spdlog_observer::spdlog_observer(std::shared_ptr<spdlog::logger> to) : to_(std::move(to)) {
    if (to_ == nullptr) throw std::invalid_argument("spdlog_observer: there is no logger");
}

spdlog_observer::~spdlog_observer() = default;

steady_clock::time_point spdlog_observer::now() const { return steady_clock::now(); }

bool spdlog_observer::wants(event_kind kind) const { return to_->should_log(level_of(kind)); }

void spdlog_observer::on_event(const event& what) {
    if (what.kind == event_kind::opened) return log_opened(what);
    if (what.kind == event_kind::closed_pool) return log_end(what);
    level_enum level = level_of(what);
    if (level == level_enum::warn) return log_warning(what);
    if (to_->should_log(level)) log(*to_, level, line_for(what, gist_of(what)));
}

spdlog_observer::known& spdlog_observer::pool(std::string_view name) {
    auto found = pools_.find(name);
    if (found == pools_.end()) found = pools_.try_emplace(std::string(name)).first;
    return found->second;
}

void spdlog_observer::log_opened(const event& what) {
    steady_clock::time_point at = now();
    std::unique_lock lock(mutex_);
    known& k = pool(what.pool);
    bool first = !std::exchange(k.opened, true);
    std::uint64_t failed = 0;
    // Opens that fail and succeed by turns are told as seldom as those that only fail.
    if (k.failed_opens > 0 && at >= k.quiet_until && to_->should_log(level_enum::info)) {
        failed = std::exchange(k.failed_opens, 0);
        k.quiet_until = at + quiet_for;
        for (warned& w : k.warnings[static_cast<std::size_t>(event_kind::open_failed)])
            w.left_out = 0;  // they are among the failed, whose number is told now
    }
    lock.unlock();
    level_enum level = first || failed > 0 ? level_enum::info : level_enum::debug;
    if (!to_->should_log(level)) return;
    std::string line = line_for(what, {});
    if (first) line += ", its first";
    if (failed > 0)
        line += ", after " + std::to_string(failed) + " failed open" + (failed == 1 ? "" : "s");
    log(*to_, level, line);
}

void spdlog_observer::log_warning(const event& what) {
    std::string gist = gist_of(what);
    std::uint64_t left_out = 0;
    if (!admit(what, gist, left_out) || !to_->should_log(level_enum::warn)) return;
    std::string line = line_for(what, gist);
    if (left_out > 0) line += " (" + std::to_string(left_out) + " more left out)";
    log(*to_, level_enum::warn, line);
}

bool spdlog_observer::admit(const event& what, const std::string& gist, std::uint64_t& left_out) {
    steady_clock::time_point at = now();
    std::lock_guard lock(mutex_);
    known& k = pool(what.pool);
    if (what.kind == event_kind::open_failed) ++k.failed_opens;
    auto& warnings = k.warnings[static_cast<std::size_t>(what.kind)];
    auto same = std::ranges::find(warnings, gist, &warned::gist);
    if (same == warnings.end() && warnings.size() < most_gists) {
        warnings.push_back({.gist = gist, .at = at});
        return true;
    }
    // Too many to tell apart: it takes the place of the one that was logged longest ago.
    if (same == warnings.end()) same = std::ranges::min_element(warnings, {}, &warned::at);
    if (at - same->at < quiet_for) return ++same->left_out, false;
    left_out = same->left_out;
    *same = {.gist = gist, .at = at};
    return true;
}

/// Nothing that was left out goes untold.
void spdlog_observer::log_end(const event& what) {
    std::unique_lock lock(mutex_);
    known k = std::exchange(pool(what.pool), {});
    pools_.erase(pools_.find(what.pool));
    lock.unlock();
    for (std::size_t kind = 0; kind < event_kind_count; ++kind) {
        std::uint64_t left_out = 0;
        for (const warned& w : k.warnings[kind]) left_out += w.left_out;
        if (left_out == 0 || !to_->should_log(level_enum::warn)) continue;
        log(*to_, level_enum::warn,
            "pool \"" + on_one_line(what.pool) + "\": " + std::to_string(left_out) + " more of " +
                to_string(static_cast<event_kind>(kind)) + " left out");
    }
    if (to_->should_log(level_enum::info)) log(*to_, level_enum::info, line_for(what, {}));
}

}  // namespace cenote
