// Samples pools, keeps recent events, and writes both as JSON for the page.
#include "watch/dashboard_state.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <random>
#include <string_view>

#include "vocabulary/texts.hpp"
#include "watch/event_text.hpp"
#include "watch/json.hpp"
#include "watch/stats_json.hpp"
#include "watch/stats_table.hpp"

namespace cenote::detail {

namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

/// How long the details of a pool are reused, however many clients ask.
constexpr std::chrono::milliseconds details_lifetime{250};
// Limits of what is sent every second.
constexpr std::size_t leases_max = 200;
constexpr std::size_t slots_max = 2000;
constexpr std::size_t text_max = 400;

std::uint64_t milliseconds_of(system_clock::time_point at) {
    auto since = std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch());
    return static_cast<std::uint64_t>(since.count());
}

std::string_view truncated(std::string_view text) { return text.substr(0, text_max); }

/// What was counted in between. A bucket never goes below zero: concurrent reads are not exact.
histogram difference(const histogram& before, const histogram& after) {
    histogram d;
    for (std::size_t i = 0; i < histogram::bucket_count; ++i)
        d.buckets[i] = after.buckets[i] - std::min(before.buckets[i], after.buckets[i]);
    return d;
}

double quantile_of(const histogram& h, double q) {
    if (h.count() == 0) return std::numeric_limits<double>::quiet_NaN();
    return seconds_of(h.quantile(q));
}

std::uint64_t refusals_of(const stats& s) {
    std::uint64_t sum = 0;
    for (std::uint64_t each : s.refused_by_reason) sum += each;
    return sum;
}

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
        case event_kind::closed_pool: break;
    }
    return "plain";
}

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
    one.add("file", json_text(truncated(lease.site.file_name())));
    one.add("line", number_text(std::uint64_t{lease.site.line()}));
    one.add("function", json_text(truncated(lease.site.function_name())));
    one.add("task", lease.task == nullptr ? "null" : json_text(truncated(lease.task)));
    one.add("held", lease.held.count() == 0 ? "null" : number_text(seconds_of(lease.held)));
    one.add("suspect", suspect ? "true" : "false");
    return one.take();
}

control_result apply(const control_command& command, const pool_control& pool) {
    try {
        switch (command.action) {
            case pool_action::pause: pool.pause(); break;
            case pool_action::resume: pool.resume(); break;
            case pool_action::retire_all: pool.retire_all(); break;
            case pool_action::suspect_all: pool.suspect_all(); break;
            case pool_action::resize: pool.resize(command.max); break;
            case pool_action::activate: pool.activate(); break;
            case pool_action::deactivate: pool.deactivate(); break;
            case pool_action::recover: pool.recover(); break;
        }
    } catch (...) {
        return {422, std::string(truncated(vocabulary::text_of(std::current_exception())))};
    }
    return {};
}

/// Marks the end of a command, even if the command throws: remove() may wait for it.
class command_guard {
public:
    explicit command_guard(watched_pool& pool) : pool_(pool) {}
    ~command_guard() {
        std::lock_guard lock(pool_.mutex);
        pool_.command_thread = {};
        pool_.details_at.reset();
        pool_.command_finished.notify_all();
    }
    command_guard(const command_guard&) = delete;
    command_guard& operator=(const command_guard&) = delete;

private:
    watched_pool& pool_;
};

std::string random_text() {
    std::random_device source;
    return std::to_string(source()) + '-' + std::to_string(source());
}

}  // namespace

sample between(const stats& before, const stats& after, double seconds) {
    auto per_second = [&](std::uint64_t from, std::uint64_t to) {
        return seconds > 0 ? static_cast<double>(to - std::min(from, to)) / seconds : 0;
    };
    histogram wait = difference(before.wait, after.wait);
    histogram hold = difference(before.hold, after.hold);
    return {.granted = per_second(before.granted, after.granted),
            .refused = per_second(refusals_of(before), refusals_of(after)),
            .leased = static_cast<double>(after.leased),
            .waiting = static_cast<double>(after.waiting),
            .wait_p50 = quantile_of(wait, 0.5),
            .wait_p99 = quantile_of(wait, 0.99),
            .hold_p50 = quantile_of(hold, 0.5),
            .hold_p99 = quantile_of(hold, 0.99)};
}

void history::add(std::uint64_t number, const sample& one) {
    last_ = number;
    samples_.push_back(one);
    if (samples_.size() > size_max) samples_.pop_front();
}

std::string history::json(std::uint64_t since) const {
    constexpr std::array<std::pair<const char*, double sample::*>, 8> columns{{
        {"granted", &sample::granted},
        {"refused", &sample::refused},
        {"leased", &sample::leased},
        {"waiting", &sample::waiting},
        {"wait_p50", &sample::wait_p50},
        {"wait_p99", &sample::wait_p99},
        {"hold_p50", &sample::hold_p50},
        {"hold_p99", &sample::hold_p99},
    }};
    std::uint64_t newer = last_ - std::min(since, last_);
    auto count = static_cast<std::size_t>(std::min<std::uint64_t>(newer, samples_.size()));
    json_object all;
    all.add("first", number_text(last_ - count + 1));
    for (const auto& [name, value] : columns) {
        json_array column;
        for (std::size_t i = samples_.size() - count; i < samples_.size(); ++i)
            column.add(number_text(samples_[i].*value));
        all.add(name, column.take());
    }
    return all.take();
}

bool event_log::wants(event_kind kind) const {
    return kind != event_kind::acquired && kind != event_kind::released;
}

void event_log::on_event(const event& what) {
    // An event counts as a repetition if it is this recent, with at most this many in between.
    constexpr std::size_t between_max = 8;
    constexpr std::chrono::seconds repetition_age{10};
    constexpr std::size_t leak_reports_max = 1000;
    if (process_ != this_process) return;
    entry now{.pool = what.pool.data(),
              .pool_name = std::string(truncated(what.pool)),
              .subject = event_subject(what),
              .kind = what.kind,
              .text = {},
              .at = system_clock::now()};
    now.text = truncated(event_text(what, now.subject));
    now.subject.resize(std::min(now.subject.size(), text_max));

    std::lock_guard lock(mutex_);
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
    if (what.kind != event_kind::leak_suspected) return;
    leak_report report{
        .pool = what.pool.data(), .resource = what.resource, .at = steady_clock::now()};
    leak_reports_.push_front(report);
    if (leak_reports_.size() > leak_reports_max) leak_reports_.pop_back();
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
            return other.pool == each.pool && truncated(other.own_name) == each.pool_name;
        });
        json_object one;
        one.add("at", number_text(milliseconds_of(each.at)));
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
    return std::ranges::any_of(leak_reports_, [&](const leak_report& each) {
        return each.resource == resource && each.pool == pool && lease_began <= each.at;
    });
}

dashboard_state::dashboard_state() : run_(random_text()) {}

std::shared_ptr<watched_pool> dashboard_state::add(pool_control pool) {
    std::string name(pool.name());
    std::string free = name;
    std::lock_guard lock(mutex_);
    for (std::size_t i = 2; pools_.contains(free); ++i) free = name + ' ' + std::to_string(i);
    auto one = std::make_shared<watched_pool>(++last_id_, free, pool);
    pools_.emplace(free, one);
    return one;
}

void dashboard_state::remove(const std::shared_ptr<watched_pool>& entry) noexcept {
    {
        std::lock_guard lock(mutex_);
        pools_.erase(entry->name);
    }
    std::unique_lock lock(entry->mutex);
    entry->pool.reset();
    entry->command_finished.wait(lock, [&] {
        return entry->command_thread == std::thread::id{} ||
               entry->command_thread == std::this_thread::get_id();
    });
}

std::vector<std::shared_ptr<watched_pool>> dashboard_state::pools() const {
    std::vector<std::shared_ptr<watched_pool>> all;
    std::lock_guard lock(mutex_);
    all.reserve(pools_.size());
    for (const auto& [name, each] : pools_) all.push_back(each);
    return all;
}

void dashboard_state::take_samples() {
    auto all = pools();
    std::uint64_t number = 0;
    {
        std::lock_guard lock(mutex_);
        number = ++sample_;
    }
    for (const auto& each : all) {
        std::lock_guard lock(each->mutex);
        if (!each->pool) continue;
        auto now = steady_clock::now();
        stats s = each->pool->stats();
        if (each->last)
            each->past.add(number, between(*each->last, s, seconds_of(now - each->sampled_at)));
        each->last = s;
        each->sampled_at = now;
    }
}

std::string dashboard_state::details_json(const watched_pool& each) const {
    auto now = steady_clock::now();
    json_object one;
    stats current = each.pool->stats();
    one.add("stats", stats_json(current, histograms::summary));
    std::string letters;
    json_array resources;
    std::vector<slot_info> slots = each.pool->slots();
    erase_surplus(slots, current);
    for (std::size_t i = 0; i < std::min(slots.size(), slots_max); ++i) {
        letters += letter_of(slots[i].state);
        resources.add(number_text(slots[i].resource));
    }
    one.add("slots", json_text(letters));
    one.add("resources", resources.take());
    json_array shown;
    std::vector<lease_info> leases = each.pool->leases();
    for (std::size_t i = 0; i < std::min(leases.size(), leases_max); ++i) {
        const lease_info& lease = leases[i];
        bool suspect = lease.held.count() > 0 &&
                       events_->is_suspect(each.label.pool, lease.resource, now - lease.held);
        shown.add(lease_json(lease, suspect));
    }
    one.add("leases", shown.take());
    std::string members = one.take();
    return members.substr(1, members.size() - 2);
}

std::string dashboard_state::pool_json(watched_pool& each, std::uint64_t since) const {
    auto now = steady_clock::now();
    if (!each.details_at || now - *each.details_at >= details_lifetime) {
        each.details = details_json(each);
        each.details_at = now;
    }
    json_object one;
    one.add("name", json_text(each.name));
    one.add("id", number_text(each.id));
    one.add("history", each.past.json(since));
    std::string text = one.take();
    text.pop_back();
    return text.append(",").append(each.details).append("}");
}

std::string dashboard_state::json(std::uint64_t since, bool controllable) {
    std::uint64_t number = 0;
    {
        std::lock_guard lock(mutex_);
        number = sample_;
    }
    json_array shown;
    std::vector<event_log::label> labels;
    for (const auto& each : pools()) {
        labels.push_back(each->label);
        std::lock_guard lock(each->mutex);
        if (each->pool) shown.add(pool_json(*each, since));
    }
    json_object all;
    all.add("run", json_text(run_));
    all.add("now", number_text(milliseconds_of(system_clock::now())));
    all.add("sample", number_text(number));
    all.add("controllable", controllable ? "true" : "false");
    all.add("pools", shown.take());
    all.add("events", events_->json(labels));
    return all.take();
}

control_result dashboard_state::execute(const control_command& command) {
    std::shared_ptr<watched_pool> entry;
    {
        std::lock_guard lock(mutex_);
        auto found = pools_.find(command.pool);
        if (found != pools_.end()) entry = found->second;
    }
    if (entry == nullptr) return {404, "unknown pool"};
    std::unique_lock lock(entry->mutex);
    if (!entry->pool) return {404, "unknown pool"};
    if (entry->command_thread != std::thread::id{})
        return {409, "another command to this pool is still running"};
    entry->command_thread = std::this_thread::get_id();
    command_guard until_return(*entry);
    pool_control pool = *entry->pool;
    lock.unlock();
    return apply(command, pool);
}

}  // namespace cenote::detail
