// Reads a pool and writes what the page shows of it.
#include "watch/watched_pool.hpp"

#include <algorithm>
#include <exception>
#include <string_view>
#include <vector>

#include "vocabulary/places.hpp"
#include "vocabulary/texts.hpp"
#include "watch/event_text.hpp"
#include "watch/identity.hpp"
#include "watch/json.hpp"
#include "watch/stats_json.hpp"
#include "watch/stats_table.hpp"

namespace cenote::detail {

namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

/// How long kept_text is reused.
constexpr std::chrono::milliseconds text_lifetime{250};
// Limits of what is sent every second.
constexpr std::size_t leases_max = 200;
constexpr std::size_t places_max = 50;
constexpr std::size_t slots_max = 2000;

char letter_of(slot_state state) {
    switch (state) {
        case slot_state::vacant: return '.';
        case slot_state::opening: return 'o';
        case slot_state::idle: return 'i';
        case slot_state::leased: return 'L';
        case slot_state::probing: return 'p';
        case slot_state::resetting: return 'r';
        case slot_state::closing: return 'c';
    }
    return '?';
}

/// Erases slots beyond the present size: a pool that was resized keeps them, vacant.
void erase_surplus(std::vector<slot_info>& slots, const stats& now) {
    std::uint64_t size = std::max(now.max, now.total);
    for (std::size_t i = slots.size(); i > 0 && slots.size() > size; --i)
        if (slots[i - 1].state == slot_state::vacant)
            slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(i - 1));
}

std::string lease_json(const lease_info& lease, bool suspect) {
    json_object one;
    one.add("resource", number_text(lease.resource));
    one.add("file", json_text(shown_part(lease.site.file_name())));
    one.add("line", number_text(std::uint64_t{lease.site.line()}));
    one.add("function", json_text(shown_part(lease.site.function_name())));
    one.add("task", lease.task == nullptr ? "null" : json_text(shown_part(lease.task)));
    one.add("held", lease.held.count() == 0 ? "null" : number_text(seconds_of(lease.held)));
    one.add("suspect", suspect ? "true" : "false");
    return one.take();
}

const char* json_bool(bool value) { return value ? "true" : "false"; }

std::string text_or_null(std::string_view text) {
    return text.empty() ? "null" : json_text(shown_part(text));
}

bool is_suspect(const watched_pool& of, const event_log& events, const lease_info& lease,
                steady_clock::time_point now) {
    return lease.held.count() > 0 &&
           events.is_suspect(of.label.pool, lease.resource, now - lease.held);
}

/// The leases that are held for too long, longest-held first.
std::vector<lease_info> suspects_of(const watched_pool& of, const event_log& events,
                                    std::vector<lease_info> leases) {
    auto now = steady_clock::now();
    std::erase_if(leases,
                  [&](const lease_info& each) { return !is_suspect(of, events, each, now); });
    return leases;
}

std::string suspects_json(const std::vector<lease_info>& suspects) {
    if (suspects.empty()) return "null";
    const lease_info& oldest = suspects.front();
    json_object one;
    one.add("count", number_text(std::uint64_t{suspects.size()}));
    one.add("site", json_text(shown_part(vocabulary::text_of(oldest.site))));
    one.add("task", text_or_null(oldest.task == nullptr ? "" : oldest.task));
    one.add("held", number_text(seconds_of(oldest.held)));
    return one.take();
}

/// Whether each lease is held by a thread that waits for another one.
bool is_deadlock(const stats& now, const std::vector<lease_info>& leases) {
    return !leases.empty() && leases.size() >= now.max &&
           std::ranges::all_of(leases, &lease_info::holder_waits);
}

std::string causes_json(const watched_pool& of, const event_log& events) {
    std::vector<cause> causes = events.causes_of(of.label.pool);
    auto is_open = [](const cause& each) { return each.kind == event_kind::open_failed; };
    if (of.open_failure && std::ranges::none_of(causes, is_open))
        causes.push_back(*of.open_failure);
    json_array all;
    for (const cause& each : causes) {
        json_object one;
        one.add("kind", json_text(to_string(each.kind)));
        one.add("text", json_text(each.text));
        one.add("at", time_text(each.at));
        one.add("times", number_text(each.times));
        all.add(one.take());
    }
    return all.take();
}

std::string recent_json(const recent& last) {
    json_object one;
    one.add("granted", number_text(last.granted));
    one.add("unserved", number_text(last.unserved));
    one.add("open_failed", number_text(last.open_failed));
    one.add("wait_p99", number_text(last.wait_p99));
    one.add("hold_p99", number_text(last.hold_p99));
    one.add("seconds", number_text(std::uint64_t{last.seconds}));
    one.add("waiting", number_text(std::uint64_t{last.waiting}));
    return one.take();
}

std::string overview_json(const watched_pool& of, const event_log& events) {
    stats now = of.pool->stats();
    std::vector<lease_info> leases;
    // The pool's lock is taken only if there may be something to find.
    bool full = now.waiting > 0 && now.leased >= now.max;
    if (full || events.has_leaks(of.label.pool)) leases = of.pool->leases();
    json_object one;
    one.add("state", json_text(to_string(now.state)));
    one.add("breaker", json_text(to_string(now.breaker)));
    for (const stats_number& each : stats_gauges) one.add(each.name, number_text(now.*each.value));
    one.add("total", number_text(now.total));
    for (const auto& [name, value] : stats_states) one.add(name, number_text(now.*value));
    one.add("granted", number_text(now.granted));
    std::uint64_t refused = 0;
    for (std::uint64_t each : now.refused_by_reason) refused += each;
    one.add("refused", number_text(refused));
    one.add("open_failed", number_text(now.open_failed));
    one.add("recent", recent_json(of.past.recently()));
    one.add("deadlock", json_bool(full && is_deadlock(now, leases)));
    one.add("suspects", suspects_json(suspects_of(of, events, std::move(leases))));
    one.add("causes", causes_json(of, events));
    return one.take();
}

std::string place_json(const vocabulary::place& each) {
    json_object one;
    one.add("file", json_text(shown_part(each.site.file_name())));
    one.add("line", number_text(std::uint64_t{each.site.line()}));
    one.add("function", json_text(shown_part(each.site.function_name())));
    one.add("task", text_or_null(each.task));
    one.add("count", number_text(std::uint64_t{each.count}));
    one.add("oldest", each.oldest.count() == 0 ? "null" : number_text(seconds_of(each.oldest)));
    std::string text = one.take();
    text.pop_back();
    return text;
}

/// Who holds leases: grouped, those with suspects first.
std::string holders_json(const std::vector<lease_info>& leases,
                         const std::vector<lease_info>& suspects) {
    auto late = vocabulary::group_by_place(suspects, &lease_info::held);
    auto suspects_at = [&](const vocabulary::place& at) {
        auto same = std::ranges::find(late, vocabulary::key_of(at), vocabulary::key_of);
        return same == late.end() ? std::size_t{0} : same->count;
    };
    auto places = vocabulary::group_by_place(leases, &lease_info::held);
    json_array shown;
    std::size_t left = places_max;
    for (bool with_suspects : {true, false})
        for (const vocabulary::place& each : places) {
            std::size_t suspected = suspects_at(each);
            if ((suspected > 0) != with_suspects || left == 0) continue;
            --left;
            shown.add(place_json(each) + ",\"suspects\":" + number_text(std::uint64_t{suspected}) +
                      '}');
        }
    json_object all;
    all.add("places", number_text(std::uint64_t{places.size()}));
    all.add("shown", shown.take());
    return all.take();
}

std::string waiters_json(const std::vector<waiter_info>& waiters) {
    auto places = vocabulary::group_by_place(waiters, &waiter_info::waited);
    json_array shown;
    for (std::size_t i = 0; i < std::min(places.size(), places_max); ++i)
        shown.add(place_json(places[i]) + '}');
    json_object all;
    all.add("listed", number_text(std::uint64_t{waiters.size()}));
    all.add("places", number_text(std::uint64_t{places.size()}));
    all.add("shown", shown.take());
    return all.take();
}

/// Members of an object, without braces.
std::string details_json(const watched_pool& of, const event_log& events) {
    auto now = steady_clock::now();
    json_object one;
    stats current = of.pool->stats();
    one.add("stats", stats_json(current, histograms::summary));
    std::string letters;
    json_array resources;
    std::vector<slot_info> slots = of.pool->slots();
    erase_surplus(slots, current);
    for (std::size_t i = 0; i < std::min(slots.size(), slots_max); ++i) {
        letters += letter_of(slots[i].state);
        resources.add(number_text(slots[i].resource));
    }
    one.add("slots", json_text(letters));
    one.add("resources", resources.take());
    json_array shown;
    std::vector<lease_info> leases = of.pool->leases();
    for (std::size_t i = 0; i < std::min(leases.size(), leases_max); ++i)
        shown.add(lease_json(leases[i], is_suspect(of, events, leases[i], now)));
    one.add("leases", shown.take());
    one.add("holders", holders_json(leases, suspects_of(of, events, leases)));
    one.add("waiters", waiters_json(of.pool->waiters()));
    one.add("endpoint", text_or_null(of.endpoint));
    one.add("options", options_json(of.pool->settings()));
    std::string members = one.take();
    return members.substr(1, members.size() - 2);
}

template <class Make>
const std::string& refreshed(kept_text& kept, Make make) {
    auto now = steady_clock::now();
    if (!kept.at || now - *kept.at >= text_lifetime) {
        kept.text = make();
        kept.at = now;
    }
    return kept.text;
}

}  // namespace

void take_sample(watched_pool& of, std::uint64_t number) {
    // The exception may be the user's: its members must not run under the mutex.
    std::exception_ptr failure;
    std::uint64_t failures = 0;
    bool failed = false;
    {
        std::lock_guard lock(of.mutex);
        if (!of.pool) return;
        auto now = steady_clock::now();
        stats s = of.pool->stats();
        if (of.last) of.past.add(number, between(*of.last, s, seconds_of(now - of.sampled_at)));
        failures = s.open_failed;
        failed = failures > (of.last ? of.last->open_failed : 0);
        if (failed) failure = of.pool->open_error();
        of.last = s;
        of.sampled_at = now;
    }
    if (!failed) return;
    std::string text = failure == nullptr ? "" : on_one_line(vocabulary::text_of(failure));
    text.resize(std::min(text.size(), shown_text_max));
    std::lock_guard lock(of.mutex);
    if (failure == nullptr)  // an open has succeeded since
        text = of.open_failure ? of.open_failure->text : "the next open succeeded";
    of.open_failure = cause{.kind = event_kind::open_failed,
                            .text = std::move(text),
                            .times = failures,
                            .at = system_clock::now()};
}

std::string json_of(watched_pool& of, const event_log& events, bool detailed, std::uint64_t since,
                    std::uint64_t step) {
    json_object one;
    one.add("name", json_text(of.name));
    one.add("id", number_text(of.id));
    one.add("overview", refreshed(of.overview, [&] { return overview_json(of, events); }));
    if (!detailed) return one.take();
    one.add("history", of.past.json(since, step));
    std::string text = one.take();
    text.back() = ',';
    return text.append(refreshed(of.details, [&] { return details_json(of, events); })).append("}");
}

}  // namespace cenote::detail
