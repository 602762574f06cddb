// Looks at pools, remembers, and writes it down for the page.
#include "watch/dashboard_state.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <random>
#include <source_location>
#include <string_view>

#include "vocabulary/texts.hpp"
#include "watch/json.hpp"
#include "watch/stats_json.hpp"
#include "watch/stats_table.hpp"

namespace cenote::detail {

namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

/// A pool is looked at closely so often at most, however many clients ask.
constexpr std::chrono::milliseconds close_looks_apart{250};
/// More of them would not be read by anybody, and have to be sent every second.
constexpr std::size_t leases_shown = 200;
constexpr std::size_t slots_shown = 2000;
constexpr std::size_t text_most = 400;

std::uint64_t milliseconds_of(system_clock::time_point at) {
    auto since = std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch());
    return static_cast<std::uint64_t>(since.count());
}

std::string_view short_of(std::string_view text) { return text.substr(0, text_most); }

/// What was counted in between. Two looks at a histogram may each be ahead a little.
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

// Events in words.

std::string text_of(const std::exception_ptr& cause) {
    if (cause == nullptr) return "it said no, or took too long";
    return std::string(short_of(vocabulary::text_of(cause)));
}

/// "14 s", "20 ms", "less than 1 ms".
std::string text_of(std::chrono::nanoseconds time) {
    using namespace std::chrono_literals;
    if (time >= 10s) return std::to_string(time / 1s) + " s";
    if (time >= 1ms) return std::to_string(time / 1ms) + " ms";
    return "less than 1 ms";
}

/// What makes two events of a kind the same, besides the pool.
std::string gist_of(const event& what) {
    switch (what.kind) {
        case event_kind::exhausted: return make_error_code(what.error).message();
        case event_kind::loop_blocked:
        case event_kind::nested_acquire:
        case event_kind::leak_suspected:
            return std::string(short_of(vocabulary::text_of(what.site)));
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

std::string words_for(const event& what, const std::string& gist) {
    std::string it = "resource " + std::to_string(what.resource);
    switch (what.kind) {
        case event_kind::opened: return it + " opened in " + text_of(what.took);
        case event_kind::open_failed: return "open failed: " + gist;
        case event_kind::acquired: return it + " acquired";
        case event_kind::released: return it + " released";
        case event_kind::discarded: return it + " discarded by its holder";
        case event_kind::detached: return it + " taken out of the pool";
        case event_kind::retired: return it + " retired: " + gist;
        case event_kind::probe_failed: return it + " failed its probe: " + gist;
        case event_kind::reset_failed: return it + " could not be reset: " + gist;
        case event_kind::closed: return it + " closed" + (gist.empty() ? "" : ", but: " + gist);
        case event_kind::exhausted: return "an acquire was refused: " + gist;
        case event_kind::loop_blocked: return "the pool's own loop blocks at " + gist;
        case event_kind::nested_acquire: return "a holder waits for a second lease at " + gist;
        case event_kind::leak_suspected:
            return it + " held for " + text_of(what.took) + " since " + gist +
                   (what.task == nullptr ? "" : " (" + std::string(short_of(what.task)) + ')');
        case event_kind::breaker_changed: return "breaker is " + gist;
        case event_kind::paused: return "paused";
        case event_kind::resumed: return "resumed";
        case event_kind::closing: return "closing";
        case event_kind::closed_pool: return "closed";
    }
    return {};
}

const char* level_of(const event_kind kind, const std::string& gist) {
    switch (kind) {
        case event_kind::open_failed:
        case event_kind::probe_failed:
        case event_kind::reset_failed:
        case event_kind::exhausted:
        case event_kind::loop_blocked:
        case event_kind::nested_acquire:
        case event_kind::leak_suspected: return "bad";
        case event_kind::breaker_changed:
            return gist == to_string(breaker_state::active) ? "good" : "bad";
        case event_kind::paused:
        case event_kind::discarded:
        case event_kind::closing: return "notable";
        case event_kind::closed: return gist.empty() ? "plain" : "bad";
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

// A close look.

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

/// The places there are at present: a pool that was made smaller keeps those it had, vacant.
void leave_out_surplus(std::vector<slot_info>& slots, const stats& now) {
    std::uint64_t shown = std::max(now.max, now.total);
    for (std::size_t i = slots.size(); i > 0 && slots.size() > shown; --i)
        if (slots[i - 1].state == slot_state::vacant)
            slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(i - 1));
}

std::string lease_json(const lease_info& lease, bool suspect) {
    json_object one;
    one.add("resource", number_text(lease.resource));
    one.add("file", json_text(short_of(lease.site.file_name())));
    one.add("line", number_text(std::uint64_t{lease.site.line()}));
    one.add("function", json_text(short_of(lease.site.function_name())));
    one.add("task", lease.task == nullptr ? "null" : json_text(short_of(lease.task)));
    one.add("held", lease.held.count() == 0 ? "null" : number_text(seconds_of(lease.held)));
    one.add("suspect", suspect ? "true" : "false");
    return one.take();
}

board::result act(const pool_control& pool, const control_order& order) {
    try {
        switch (order.action) {
            case pool_action::pause: pool.pause(); break;
            case pool_action::resume: pool.resume(); break;
            case pool_action::retire_all: pool.retire_all(); break;
            case pool_action::suspect_all: pool.suspect_all(); break;
            case pool_action::resize: pool.resize(order.max); break;
            case pool_action::activate: pool.activate(); break;
            case pool_action::deactivate: pool.deactivate(); break;
            case pool_action::recover: pool.recover(); break;
        }
    } catch (...) {
        return {422, text_of(std::current_exception())};
    }
    return {};
}

/// Ends what an actor does, also if memory is short: somebody may wait for it.
class turn {
public:
    explicit turn(watched_pool& with) : with_(with) {}
    ~turn() {
        std::lock_guard lock(with_.mutex);
        with_.actor = {};
        with_.looked_closely.reset();
        with_.done.notify_all();
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

private:
    watched_pool& with_;
};

std::string random_word() {
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
    if (samples_.size() > most) samples_.pop_front();
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

bool chronicle::wants(event_kind kind) const {
    return kind != event_kind::acquired && kind != event_kind::released;
}

void chronicle::on_event(const event& what) {
    // What happens again so soon, with so little in between, is told as having happened again.
    constexpr std::size_t in_between = 8;
    constexpr std::chrono::seconds soon{10};
    constexpr std::size_t most_suspicions = 1000;
    if (process_ != this_process) return;
    entry now{.which = what.pool.data(),
              .pool = std::string(short_of(what.pool)),
              .gist = gist_of(what),
              .kind = what.kind,
              .text = {},
              .at = system_clock::now()};
    now.text = words_for(what, now.gist);

    std::lock_guard lock(mutex_);
    auto end =
        entries_.begin() + static_cast<std::ptrdiff_t>(std::min(entries_.size(), in_between));
    auto same = std::find_if(entries_.begin(), end, [&](const entry& other) {
        return other.kind == now.kind && other.which == now.which && other.pool == now.pool &&
               other.gist == now.gist && now.at - other.at < soon;
    });
    if (same != end) {
        now.times += same->times;
        entries_.erase(same);
    }
    entries_.push_front(std::move(now));
    if (entries_.size() > most) entries_.pop_back();
    if (what.kind != event_kind::leak_suspected) return;
    const void* whose = what.pool.data();
    suspicions_.push_front({whose, what.resource, steady_clock::now()});
    if (suspicions_.size() > most_suspicions) suspicions_.pop_back();
}

std::string chronicle::json(const std::vector<title>& titles) const {
    std::deque<entry> entries;
    {
        std::lock_guard lock(mutex_);
        entries = entries_;
    }
    json_array all;
    for (const entry& each : entries) {
        auto title_of = std::ranges::find_if(titles, [&](const title& other) {
            return other.pool == each.which && short_of(other.own_name) == each.pool;
        });
        json_object one;
        one.add("at", number_text(milliseconds_of(each.at)));
        one.add("pool", json_text(title_of == titles.end() ? each.pool : title_of->shown_as));
        one.add("kind", json_text(to_string(each.kind)));
        one.add("level", json_text(level_of(each.kind, each.gist)));
        one.add("text", json_text(each.text));
        one.add("times", number_text(each.times));
        all.add(one.take());
    }
    return all.take();
}

bool chronicle::suspects(pool_identity pool, std::uint64_t resource,
                         steady_clock::time_point since) const {
    // The next holder of the same resource came after it was told.
    std::lock_guard lock(mutex_);
    return std::ranges::any_of(suspicions_, [&](const suspicion& each) {
        return each.resource == resource && each.pool == pool && since <= each.told;
    });
}

board::board() : run_(random_word()) {}

std::shared_ptr<watched_pool> board::add(pool_control pool) {
    std::string name(pool.name());
    std::string free = name;
    std::lock_guard lock(mutex_);
    for (std::size_t i = 2; pools_.contains(free); ++i) free = name + ' ' + std::to_string(i);
    auto one = std::make_shared<watched_pool>(++last_id_, free, pool);
    pools_.emplace(free, one);
    return one;
}

void board::remove(const std::shared_ptr<watched_pool>& gone) noexcept {
    {
        std::lock_guard lock(mutex_);
        pools_.erase(gone->name);
    }
    std::unique_lock lock(gone->mutex);
    gone->pool.reset();
    gone->done.wait(lock, [&] {
        return gone->actor == std::thread::id{} || gone->actor == std::this_thread::get_id();
    });
}

std::vector<std::shared_ptr<watched_pool>> board::present() const {
    std::vector<std::shared_ptr<watched_pool>> all;
    std::lock_guard lock(mutex_);
    all.reserve(pools_.size());
    for (const auto& [name, each] : pools_) all.push_back(each);
    return all;
}

void board::look() {
    auto all = present();
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
            each->past.add(number, between(*each->last, s, seconds_of(now - each->looked)));
        each->last = s;
        each->looked = now;
    }
}

std::string board::close_look_at(const watched_pool& each) const {
    auto now = steady_clock::now();
    json_object one;
    stats current = each.pool->stats();
    one.add("stats", stats_json(current, histograms::summed_up));
    std::string letters;
    json_array resources;
    std::vector<slot_info> slots = each.pool->slots();
    leave_out_surplus(slots, current);
    for (std::size_t i = 0; i < std::min(slots.size(), slots_shown); ++i) {
        letters += letter_of(slots[i].state);
        resources.add(number_text(slots[i].resource));
    }
    one.add("slots", json_text(letters));
    one.add("resources", resources.take());
    json_array shown;
    std::vector<lease_info> leases = each.pool->leases();
    for (std::size_t i = 0; i < std::min(leases.size(), leases_shown); ++i) {
        const lease_info& lease = leases[i];
        bool suspect = lease.held.count() > 0 &&
                       chronicle_->suspects(each.own.pool, lease.resource, now - lease.held);
        shown.add(lease_json(lease, suspect));
    }
    one.add("leases", shown.take());
    std::string members = one.take();
    return members.substr(1, members.size() - 2);
}

std::string board::json_of(watched_pool& each, std::uint64_t since) const {
    auto now = steady_clock::now();
    if (!each.looked_closely || now - *each.looked_closely >= close_looks_apart) {
        each.closely = close_look_at(each);
        each.looked_closely = now;
    }
    json_object one;
    one.add("name", json_text(each.name));
    one.add("id", number_text(each.id));
    one.add("history", each.past.json(since));
    std::string text = one.take();
    text.pop_back();
    return text.append(",").append(each.closely).append("}");
}

std::string board::json(std::uint64_t since, bool controllable) {
    std::uint64_t number = 0;
    {
        std::lock_guard lock(mutex_);
        number = sample_;
    }
    json_array pools;
    std::vector<chronicle::title> titles;
    for (const auto& each : present()) {
        titles.push_back(each->own);
        std::lock_guard lock(each->mutex);
        if (each->pool) pools.add(json_of(*each, since));
    }
    json_object all;
    all.add("run", json_text(run_));
    all.add("now", number_text(milliseconds_of(system_clock::now())));
    all.add("sample", number_text(number));
    all.add("controllable", controllable ? "true" : "false");
    all.add("pools", pools.take());
    all.add("events", chronicle_->json(titles));
    return all.take();
}

board::result board::carry_out(const control_order& order) {
    std::shared_ptr<watched_pool> of;
    {
        std::lock_guard lock(mutex_);
        auto found = pools_.find(order.pool);
        if (found != pools_.end()) of = found->second;
    }
    if (of == nullptr) return {404, "there is no such pool"};
    std::unique_lock lock(of->mutex);
    if (!of->pool) return {404, "there is no such pool"};
    if (of->actor != std::thread::id{})
        return {409, "what was ordered before is still being done to this pool"};
    of->actor = std::this_thread::get_id();
    turn until_done(*of);
    pool_control pool = *of->pool;
    lock.unlock();
    return act(pool, order);
}

}  // namespace cenote::detail
