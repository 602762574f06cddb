// Keeps the latest events and errors of pools.
#include "watch/event_log.hpp"

#include <algorithm>
#include <utility>

#include "watch/event_text.hpp"
#include "watch/json.hpp"

namespace cenote::detail {

namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

const char* level_of(event_kind kind, const std::string& subject) {
    switch (kind) {
        case event_kind::open_failed:
        case event_kind::probe_failed:
        case event_kind::reset_failed:
        case event_kind::exhausted:
        case event_kind::loop_blocked:
        case event_kind::nested_acquire:
        case event_kind::leak_suspected: return "bad";
        case event_kind::breaker_changed:
            return subject == to_string(breaker_state::active) ? "good" : "bad";
        case event_kind::paused:
        case event_kind::discarded:
        case event_kind::closing: return "notable";
        case event_kind::closed: return subject.empty() ? "plain" : "bad";
        case event_kind::resumed: return "good";
        case event_kind::opened:
        case event_kind::acquired:
        case event_kind::released:
        case event_kind::detached:
        case event_kind::retired:
        case event_kind::waited:
        case event_kind::closed_pool: break;
    }
    return "plain";
}

}  // namespace

std::string time_text(system_clock::time_point at) {
    auto since = std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch());
    return number_text(static_cast<std::uint64_t>(since.count()));
}

bool event_log::wants(event_kind kind) const {
    return kind != event_kind::acquired && kind != event_kind::released &&
           kind != event_kind::waited;
}

void event_log::on_event(const event& what) {
    if (process_ != this_process) return;
    entry now{.pool = what.pool.data(),
              .pool_name = std::string(shown_part(what.pool)),
              .subject = event_subject(what),
              .kind = what.kind,
              .text = {},
              .at = system_clock::now()};
    now.text = shown_part(event_text(what, now.subject));
    now.subject.resize(std::min(now.subject.size(), shown_text_max));
    std::lock_guard lock(mutex_);
    note_trouble(what, now);
    add(std::move(now));
}

/// Under the lock.
void event_log::add(entry now) {
    // An event counts as a repetition if it is this recent, with at most this many in between.
    constexpr std::size_t between_max = 8;
    constexpr std::chrono::seconds repetition_age{10};
    auto end =
        entries_.begin() + static_cast<std::ptrdiff_t>(std::min(entries_.size(), between_max));
    auto same = std::find_if(entries_.begin(), end, [&](const entry& other) {
        return other.kind == now.kind && other.pool == now.pool &&
               other.pool_name == now.pool_name && other.subject == now.subject &&
               now.at - other.at < repetition_age;
    });
    if (same != end) {
        now.times += same->times;
        entries_.erase(same);
    }
    entries_.push_front(std::move(now));
    if (entries_.size() > size_max) entries_.pop_back();
}

/// Under the lock.
void event_log::note_trouble(const event& what, const entry& now) {
    constexpr std::size_t leaks_max = 200;
    if (what.kind == event_kind::leak_suspected) {
        auto& leaks = trouble_of(now.pool).leaks;
        leaks.push_front({.resource = what.resource, .at = steady_clock::now()});
        if (leaks.size() > leaks_max) leaks.pop_back();
    }
    const auto* kept = std::ranges::find(causes_kept, what.kind);
    if (kept == causes_kept.end()) return;
    auto& last =
        trouble_of(now.pool).causes.at(static_cast<std::size_t>(kept - causes_kept.begin()));
    std::uint64_t times = last ? last->times + 1 : 1;
    last = cause{.kind = what.kind, .text = now.subject, .times = times, .at = now.at};
}

/// Under the lock.
event_log::trouble& event_log::trouble_of(pool_identity pool) {
    if (troubles_.size() >= pools_max && !troubles_.contains(pool))
        troubles_.erase(std::ranges::min_element(
            troubles_, {}, [](const auto& each) { return each.second.number; }));
    trouble& found = troubles_[pool];
    found.number = ++changes_;
    return found;
}

std::vector<cause> event_log::causes_of(pool_identity pool) const {
    std::vector<cause> all;
    {
        std::lock_guard lock(mutex_);
        auto found = troubles_.find(pool);
        if (found == troubles_.end()) return all;
        for (const auto& each : found->second.causes)
            if (each) all.push_back(*each);
    }
    std::ranges::sort(all, std::ranges::greater{}, &cause::at);
    return all;
}

bool event_log::has_leaks(pool_identity pool) const {
    std::lock_guard lock(mutex_);
    auto found = troubles_.find(pool);
    return found != troubles_.end() && !found->second.leaks.empty();
}

void event_log::forget(pool_identity pool) {
    std::lock_guard lock(mutex_);
    troubles_.erase(pool);
}

std::string event_log::json(const std::vector<label>& labels) const {
    std::deque<entry> entries;
    {
        std::lock_guard lock(mutex_);
        entries = entries_;
    }
    json_array all;
    for (const entry& each : entries) {
        auto found = std::ranges::find_if(labels, [&](const label& other) {
            return other.pool == each.pool && shown_part(other.own_name) == each.pool_name;
        });
        json_object one;
        one.add("at", time_text(each.at));
        one.add("pool", json_text(found == labels.end() ? each.pool_name : found->shown_name));
        one.add("kind", json_text(to_string(each.kind)));
        one.add("level", json_text(level_of(each.kind, each.subject)));
        one.add("text", json_text(each.text));
        one.add("times", number_text(each.times));
        all.add(one.take());
    }
    return all.take();
}

bool event_log::is_suspect(pool_identity pool, std::uint64_t resource,
                           steady_clock::time_point lease_began) const {
    // A lease that began after the report is a later lease of the same resource.
    std::lock_guard lock(mutex_);
    auto found = troubles_.find(pool);
    return found != troubles_.end() &&
           std::ranges::any_of(found->second.leaks, [&](const leak_report& each) {
               return each.resource == resource && lease_began <= each.at;
           });
}

}  // namespace cenote::detail
