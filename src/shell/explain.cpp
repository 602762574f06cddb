// The exception of an acquire that failed, with a text that says what is leased, by which lines of
// code, and since when.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "shell/operations.hpp"
#include "vocabulary/places.hpp"
#include "vocabulary/texts.hpp"

namespace cenote::shell {

using core::duration;
using core::instant;

namespace {

/// "14 s", "0.3 s", "20 ms".
std::string text_of(duration d) {
    char text[32];
    double seconds = std::chrono::duration<double>(d).count();
    if (seconds >= 10) std::snprintf(text, sizeof text, "%.0f s", seconds);
    else if (seconds >= 0.1) std::snprintf(text, sizeof text, "%.1f s", seconds);
    else std::snprintf(text, sizeof text, "%.3g ms", seconds * 1000);
    return text;
}

/// "orders.cpp:88 "checkout" holds 20, oldest 14 s".
std::string text_of(const vocabulary::place& h) {
    std::string text = vocabulary::text_of(h.site);
    if (!h.task.empty()) text += " \"" + std::string(h.task) + '"';
    text += " holds " + std::to_string(h.count);
    // Zero: not known, taken from the shelf since the last sweep.
    if (h.oldest > duration{}) text += ", oldest " + text_of(h.oldest);
    return text;
}

/// The call sites that hold most, and the number of the others.
std::string text_of(const std::vector<lease_info>& leases) {
    constexpr std::size_t shown = 5;
    if (leases.empty()) return "";
    auto holders = vocabulary::group_by_place(leases, &lease_info::held);
    std::string text = " (";
    for (std::size_t i = 0; i < std::min(shown, holders.size()); ++i)
        text += (i > 0 ? "; " : "") + text_of(holders[i]);
    if (holders.size() > shown)
        text += "; " + std::to_string(holders.size() - shown) + " more places";
    return text + ')';
}

std::string opening_words(errc why, const std::string& name, duration waited, bool on_loop,
                          bool too_many, bool queues) {
    std::string quoted = '"' + name + '"';
    switch (why) {
        case errc::timed_out:
            return "timed out after " + text_of(waited) + " waiting for a lease of " + quoted;
        case errc::closed: return "pool " + quoted + " is closed";
        case errc::unavailable: return "the circuit breaker of " + quoted + " is open";
        case errc::line_full:
            if (!queues) return "all of " + quoted + " is in use, and the acquire does not queue";
            return "the line of " + quoted + " is full";
        case errc::canceled: return "canceled while waiting for a lease of " + quoted;
        case errc::open_failed: return "pool " + quoted + " cannot open a resource";
        case errc::deadlock:
            if (too_many) return "more leases were wanted at once than " + quoted + " may have";
            if (on_loop)
                return "acquire would block the loop that pool " + quoted + " works on; await it";
            return "every lease of " + quoted +
                   " is held by a thread that waits for another one (refuse_deadlock = true)";
        default: return "pool " + quoted + ": " + make_error_code(why).message();
    }
}

/// Whether all leases are held by threads that wait, this thread included.
bool waited_in_vain(keeper& k, std::size_t wanted) CENOTE_REQUIRES(k.lock) {
    std::uint64_t me = name_holders(k, detail::this_thread(), wanted);
    return k.machine.waits_in_vain({.count = static_cast<std::uint32_t>(wanted), .holder = me});
}

/// The state of the pool at one instant, as far as the text needs it.
struct snapshot {
    std::vector<lease_info> leases;
    stats counts;
    duration since_open{};  // negative: no open has ended
    std::exception_ptr open_error;
    duration waited{};
    bool in_vain = false;
};

snapshot take_snapshot(keeper& k, errc why, std::size_t wanted, instant since) {
    snapshot s;
    s.leases.reserve(places(k));
    pool_guard here(k.lock);
    instant now = k.now_in_order();
    k.leases.list(now, s.leases);
    k.machine.read(s.counts);
    s.open_error = k.opens.error();
    s.since_open = k.opens.ended_at() == core::long_ago ? duration{-1} : now - k.opens.ended_at();
    s.waited = now - since;
    constexpr duration a_while = std::chrono::milliseconds{1};  // less: the caller only tried
    s.in_vain = why == errc::timed_out && s.waited >= a_while && waited_in_vain(k, wanted);
    return s;
}

std::string explain(keeper& k, errc why, bool queues, std::size_t wanted, const snapshot& s) {
    std::size_t max = k.max_now;
    std::string text =
        opening_words(why, k.name(), s.waited, k.work->needs_this_thread(), wanted > max, queues) +
        ": " + std::to_string(s.leases.size()) + " of " + std::to_string(max) + " leased" +
        text_of(s.leases);
    if (s.counts.opening > 0) text += ", " + std::to_string(s.counts.opening) + " opening";
    text += ", " + std::to_string(s.counts.waiting) + " waiting";
    if (why == errc::line_full && queues)
        text += " (line_max = " + std::to_string(k.fixed.line_max) + ")";
    if (s.since_open >= duration{})
        text += ", last open " + text_of(s.since_open) +
                " ago: " + (s.open_error == nullptr ? "ok" : vocabulary::text_of(s.open_error));
    if (s.in_vain)
        text +=
            "; probably a deadlock: every lease is held by a thread that waits for another one "
            "(refuse_deadlock = true refuses at once)";
    return text;
}

}  // namespace

}  // namespace cenote::shell

namespace cenote::detail {

using shell::keeper_of;

void gate::fail(const refusal& why, bool queues, std::size_t wanted) {
    shell::keeper& k = keeper_of(this);
    k.ensure_restarted();
    shell::snapshot now = shell::take_snapshot(k, why.error, wanted, why.since);
    std::string text = shell::explain(k, why.error, queues, wanted, now);
    throw_pool_error(why.error, std::move(text), std::move(now.open_error), retry_after(), name_,
                     std::make_shared<const stats>(read()));
}

void gate::report_refusal(const waiter& who) noexcept {
    shell::keeper& k = keeper_of(this);
    if (!k.events.wants(event_kind::exhausted)) return;
    stats counts = read();
    event what = k.event_of(event_kind::exhausted, who, k.now());
    what.error = who.error;
    what.now = &counts;
    k.events.deliver_now(what);
}

}  // namespace cenote::detail
