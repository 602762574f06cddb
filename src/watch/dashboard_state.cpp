// Keeps the watched pools, samples them, writes them as JSON, and executes commands.
#include "watch/dashboard_state.hpp"

#include <algorithm>
#include <exception>
#include <random>
#include <string_view>
#include <utility>

#include "vocabulary/texts.hpp"
#include "watch/identity.hpp"
#include "watch/json.hpp"

namespace cenote::detail {

namespace {

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
        return {422, std::string(shown_part(vocabulary::text_of(std::current_exception())))};
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
        pool_.overview.at.reset();
        pool_.details.at.reset();
        pool_.command_finished.notify_all();
    }
    command_guard(const command_guard&) = delete;
    command_guard& operator=(const command_guard&) = delete;

private:
    watched_pool& pool_;
};

/// As a database names the pools of its replicas: "orders-replica-1".
bool is_replica(std::string_view name) {
    constexpr std::string_view mark = "-replica-";
    std::size_t at = name.rfind(mark);
    if (at == std::string_view::npos) return false;
    name.remove_prefix(at + mark.size());
    return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Asked once, without a lock: the connector is the user's.
std::string endpoint_of(const pool_control& pool) {
    try {
        return pool.endpoint();
    } catch (...) {
        return {};
    }
}

std::string random_text() {
    std::random_device source;
    return std::to_string(source()) + '-' + std::to_string(source());
}

}  // namespace

dashboard_state::dashboard_state() : run_(random_text()), process_json_(process_json()) {}

std::shared_ptr<watched_pool> dashboard_state::add(pool_control pool) {
    std::string name(pool.name());
    std::string endpoint = endpoint_of(pool);
    std::string free = name;
    std::lock_guard lock(mutex_);
    for (std::size_t i = 2; pools_.contains(free); ++i) free = name + ' ' + std::to_string(i);
    auto one = std::make_shared<watched_pool>(++last_id_, free, std::move(endpoint), pool);
    one->health = about_.watch(free, [pool] { return pool.stats(); }, {.vital = !is_replica(free)});
    pools_.emplace(free, one);
    return one;
}

void dashboard_state::remove(const std::shared_ptr<watched_pool>& entry) noexcept {
    {
        std::lock_guard lock(mutex_);
        pools_.erase(entry->name);
    }
    events_->forget(entry->label.pool);
    entry->health = {};
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
    for (const auto& each : all) take_sample(*each, number);
}

std::string dashboard_state::json(std::uint64_t since, bool controllable,
                                  const detailed_pools& detailed, std::uint64_t step) {
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
        bool with_details = !detailed || std::ranges::count(*detailed, each->id) > 0;
        if (each->pool) shown.add(json_of(*each, *events_, with_details, since, step));
    }
    json_object all;
    all.add("run", json_text(run_));
    all.add("process", process_json_);
    all.add("now", time_text(std::chrono::system_clock::now()));
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
