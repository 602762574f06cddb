// Logs pool events through spdlog: which level each event gets, and how repetitions are suppressed.
#include "cenote/spdlog.hpp"

#include <algorithm>
#include <spdlog/logger.h>
#include <spdlog/spdlog.h>
#include <stdexcept>
#include <utility>

#include "watch/event_text.hpp"

namespace cenote {

namespace {

using namespace std::chrono_literals;
using detail::event_subject;
using detail::on_one_line;
using spdlog::level::level_enum;
using std::chrono::steady_clock;

/// How long repetitions of a warning are suppressed.
constexpr auto quiet_for = 1s;
/// How many subjects per pool and event kind are tracked.
constexpr std::size_t subjects_max = 4;

/// The most severe level used for events of `kind`.
level_enum level_of(event_kind kind) {
    switch (kind) {
        case event_kind::acquired:
        case event_kind::released:
        case event_kind::waited: return level_enum::trace;
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
        case event_kind::closed_pool:  // also reports how many warnings were suppressed
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
    bool intended = what.error == errc::canceled || what.error == errc::closed;
    if (what.kind == event_kind::exhausted && intended) return level_enum::debug;
    if (what.kind == event_kind::closed && what.cause == nullptr) return level_enum::debug;
    if (what.kind == event_kind::breaker_changed) return level_of(what.breaker);
    return level_of(what.kind);
}

std::string line_for(std::string_view pool, const std::string& text) {
    return "pool \"" + on_one_line(pool) + "\": " + text;
}

std::string line_for(const event& what, const std::string& subject) {
    return line_for(what.pool, detail::event_text(what, subject));
}

void log(spdlog::logger& to, level_enum level, const std::string& line) {
    // Passed as text, not as a format string: it may contain braces.
    to.log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

spdlog_observer::spdlog_observer() : spdlog_observer(spdlog::default_logger()) {}

spdlog_observer::spdlog_observer(std::shared_ptr<spdlog::logger> to) : to_(std::move(to)) {
    if (to_ == nullptr) throw std::invalid_argument("cenote: spdlog_observer: the logger is null");
}

spdlog_observer::~spdlog_observer() = default;

steady_clock::time_point spdlog_observer::now() const { return steady_clock::now(); }

bool spdlog_observer::wants(event_kind kind) const { return to_->should_log(level_of(kind)); }

void spdlog_observer::on_event(const event& what) {
    if (what.kind == event_kind::opened) return log_opened(what);
    if (what.kind == event_kind::closed_pool) return log_end(what);
    level_enum level = level_of(what);
    if (level == level_enum::warn) return log_warning(what);
    if (to_->should_log(level)) log(*to_, level, line_for(what, event_subject(what)));
}

spdlog_observer::pool_log& spdlog_observer::pool(std::string_view name) {
    auto found = pools_.find(name);
    if (found == pools_.end()) found = pools_.try_emplace(std::string(name)).first;
    return found->second;
}

void spdlog_observer::log_opened(const event& what) {
    steady_clock::time_point at = now();
    std::unique_lock lock(mutex_);
    pool_log& p = pool(what.pool);
    bool first = !std::exchange(p.opened, true);
    std::uint64_t failed = 0;
    // Alternating failures and successes are reported at the same rate as failures alone.
    if (p.failed_opens > 0 && at >= p.quiet_until && to_->should_log(level_enum::info)) {
        failed = std::exchange(p.failed_opens, 0);
        p.quiet_until = at + quiet_for;
        for (warning& w : p.warnings[static_cast<std::size_t>(event_kind::open_failed)])
            w.suppressed = 0;  // included in the number of failed opens
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
    std::string subject = event_subject(what);
    std::uint64_t suppressed = 0;
    if (!admit(what, subject, suppressed) || !to_->should_log(level_enum::warn)) return;
    std::string line = line_for(what, subject);
    if (suppressed > 0) line += " (" + std::to_string(suppressed) + " more left out)";
    log(*to_, level_enum::warn, line);
}

bool spdlog_observer::admit(const event& what, const std::string& subject,
                            std::uint64_t& suppressed) {
    steady_clock::time_point at = now();
    std::lock_guard lock(mutex_);
    pool_log& p = pool(what.pool);
    if (what.kind == event_kind::open_failed) ++p.failed_opens;
    auto& warnings = p.warnings[static_cast<std::size_t>(what.kind)];
    auto same = std::ranges::find(warnings, subject, &warning::subject);
    if (same == warnings.end() && warnings.size() < subjects_max) {
        warnings.push_back({.subject = subject, .at = at});
        return true;
    }
    // Too many subjects: replaces the one logged longest ago.
    if (same == warnings.end()) same = std::ranges::min_element(warnings, {}, &warning::at);
    if (at - same->at < quiet_for) return ++same->suppressed, false;
    suppressed = same->suppressed;
    *same = {.subject = subject, .at = at};
    return true;
}

void spdlog_observer::log_end(const event& what) {
    std::unique_lock lock(mutex_);
    pool_log p = std::exchange(pool(what.pool), {});
    pools_.erase(pools_.find(what.pool));
    lock.unlock();
    for (std::size_t kind = 0; kind < event_kind_count; ++kind) {
        std::uint64_t suppressed = 0;
        for (const warning& w : p.warnings[kind]) suppressed += w.suppressed;
        if (suppressed == 0 || !to_->should_log(level_enum::warn)) continue;
        log(*to_, level_enum::warn,
            line_for(what.pool, std::to_string(suppressed) + " more of " +
                                    to_string(static_cast<event_kind>(kind)) + " left out"));
    }
    if (to_->should_log(level_enum::info)) log(*to_, level_enum::info, line_for(what, {}));
}

}  // namespace cenote
