// Looking at a pool from outside: stats, and the text that explains a refusal.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "shell/keeper.hpp"
#include "words/texts.hpp"

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

/// All leases of one line of code for one task.
struct holder {
    std::source_location site;
    std::string_view task;
    duration oldest{};
    std::size_t count = 1;
};

auto place_of(const holder& h) {
    return std::tuple(std::string_view(h.site.file_name()), h.site.line(), h.task);
}

/// Leases of the same line of code for the same task become one entry; those with most come first.
std::vector<holder> sum_up(const std::vector<lease_info>& leases) {
    std::vector<holder> holders;
    for (const lease_info& l : leases) {
        holder one{.site = l.site, .task = l.task == nullptr ? "" : l.task, .oldest = l.held};
        auto same = std::ranges::find(holders, place_of(one), place_of);
        if (same == holders.end()) {
            holders.push_back(one);
            continue;
        }
        ++same->count;
        same->oldest = std::max(same->oldest, one.oldest);
    }
    std::ranges::sort(holders, [](const holder& a, const holder& b) {
        return a.count != b.count ? a.count > b.count : place_of(a) < place_of(b);
    });
    return holders;
}

/// "orders.cpp:88 "checkout" holds 20, oldest 14 s".
std::string text_of(const holder& h) {
    std::string text = words::text_of(h.site);
    if (!h.task.empty()) text += " \"" + std::string(h.task) + '"';
    text += " holds " + std::to_string(h.count);
    // Zero: taken from the shelf since the last sweep, nobody looked at a clock.
    if (h.oldest > duration{}) text += ", oldest " + text_of(h.oldest);
    return text;
}

/// The call sites that hold most; the rest summed up.
std::string text_of(const std::vector<lease_info>& leases) {
    constexpr std::size_t shown = 5;
    if (leases.empty()) return "";
    std::vector<holder> holders = sum_up(leases);
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

}  // namespace

std::string keeper::explain(errc why, bool queues, std::size_t wanted, instant since,
                            std::exception_ptr& cause) {
    catch_up();
    std::vector<lease_info> leases;
    leases.reserve(places_.size());
    std::unique_lock lock(mutex_);
    instant now = this->now();
    list_leases(now, leases);
    cause = open_error_;
    instant open_ended_at = open_ended_at_;
    std::size_t opening = machine_.count(core::slot_state::opening);
    stats s;
    machine_.read(s);
    constexpr duration a_while = std::chrono::milliseconds{1};  // who only tried has not waited
    bool in_vain = why == errc::timed_out && now - since >= a_while && waited_in_vain(wanted);
    lock.unlock();

    std::string text =
        opening_words(why, name_, now - since, work_->needs_this_thread(), wanted > max(), queues) +
        ": " + std::to_string(leases.size()) + " of " + std::to_string(max()) + " leased" +
        text_of(leases);
    if (opening > 0) text += ", " + std::to_string(opening) + " opening";
    text += ", " + std::to_string(s.waiting) + " waiting";
    if (why == errc::line_full && queues)
        text += " (line_max = " + std::to_string(settings_.line_max) + ")";
    if (open_ended_at != core::long_ago)
        text += ", last open " + text_of(now - open_ended_at) +
                " ago: " + (cause == nullptr ? "ok" : words::text_of(cause));
    if (in_vain)
        text +=
            "; probably a deadlock: every lease is held by a thread that waits for another one "
            "(refuse_deadlock = true refuses at once)";
    return text;
}

/// Whether this thread, whose time is up, could not have got a lease from any other one.
bool keeper::waited_in_vain(std::size_t wanted) {
    std::uint64_t me = note_who_holds(detail::this_thread(), wanted);
    return machine_.waits_in_vain({.count = static_cast<std::uint32_t>(wanted), .holder = me});
}

duration keeper::retry_after() const {
    std::lock_guard lock(mutex_);
    return machine_.retry_after(now());
}

stats keeper::read() const {
    stats s;
    s.max = max();
    s.state = machine_.state();
    if (is_behind()) return s;
    std::uint64_t puts = 0;
    std::uint64_t hits = 0;
    std::uint64_t collected = 0;
    auto look = [&] {
        machine_.read(s);
        s.max = max();
        collected = collected_.get();
        s.leaks = leaks_.reported();
        puts = hits = 0;
        // A put counts after its hit, so reading all puts first never finds more of them.
        std::size_t places = traces_->size();
        for (std::size_t i = 0; i < places; ++i)
            puts += (*traces_)[i].puts.load(std::memory_order_acquire);
        for (std::size_t i = 0; i < places; ++i)
            hits += (*traces_)[i].hits.load(std::memory_order_acquire);
    };
    bool consistent = false;
    for (int tries = 0; tries < 1000 && !consistent; ++tries) {
        std::uint64_t before = sequence_.load(std::memory_order_acquire);
        if (before % 2 == 0) {
            look();
            consistent = sequence_.load(std::memory_order_relaxed) == before;
        }
        if (!consistent && tries % 16 == 15) std::this_thread::yield();
    }
    if (!consistent) {  // a pool that never pauses; once is not too often
        std::lock_guard lock(mutex_);
        look();
    }
    // To the machine, what passes over the shelf is one long lease. Here its ends are told apart:
    // released = what it saw come back, less what was only brought back, plus what was put by.
    std::uint64_t granted = s.granted + hits;
    s.released = s.released + puts - collected;
    s.acquires += hits;
    std::uint64_t out = granted - s.released - s.detached;
    std::uint64_t leased = std::min(out, s.leased);
    s.acquires -= out - leased;  // those who took one since the puts were read
    s.granted = granted - (out - leased);
    s.idle += s.leased - leased;
    s.leased = leased;
    s.events_lost = announcer_.lost();
    machine_.read_histograms(s);
    return s;
}

}  // namespace cenote::shell
