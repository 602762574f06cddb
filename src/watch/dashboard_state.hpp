// The state behind the dashboard: watched pools, their history, recent events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cenote/detail/process.hpp"
#include "cenote/observer.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/stats.hpp"
#include "watch/dashboard_request.hpp"

namespace cenote::detail {

/// One second of a pool. NaN: not observed during this second.
struct sample {
    double granted = 0;   ///< Per second.
    double refused = 0;   ///< Per second.
    double leased = 0;    ///< At the end of the second.
    double waiting = 0;   ///< At the end of the second.
    double wait_p50 = 0;  ///< In seconds, like the three below.
    double wait_p99 = 0;
    double hold_p50 = 0;
    double hold_p99 = 0;
};

/// The sample for the time between two stats of a pool.
sample between(const stats& before, const stats& after, double seconds);

/// The last five minutes of a pool, one sample per second. A dashboard numbers its samples.
class history {
public:
    static constexpr std::size_t size_max = 300;

    void add(std::uint64_t number, const sample& one);
    /// The samples after number `since` as JSON: the first one's number, and an array per value.
    std::string json(std::uint64_t since) const;

private:
    std::uint64_t last_ = 0;
    std::deque<sample> samples_;
};

/// Identifies a pool by the address of its name, since names may repeat. A later pool may get the
/// same address, but every event of the earlier pool precedes the first lease of the later one.
using pool_identity = const void*;

/// The latest events of all pools, repetitions counted, and which leases are suspected leaks.
///
/// Thread safety: all members may be called from any thread at any time.
class event_log final : public observer {
public:
    static constexpr std::size_t size_max = 100;

    void on_event(const event& what) override;
    bool wants(event_kind kind) const override;

    /// What the page calls a pool.
    struct label {
        pool_identity pool = nullptr;
        std::string own_name;
        std::string shown_name;
    };
    /// The events as JSON, latest first. Pools without a label appear under their own names.
    std::string json(const std::vector<label>& labels = {}) const;
    /// Whether a leak was reported for this resource since its lease began.
    bool is_suspect(pool_identity pool, std::uint64_t resource,
                    std::chrono::steady_clock::time_point lease_began) const;

private:
    struct entry {
        pool_identity pool = nullptr;
        std::string pool_name;
        std::string subject;
        event_kind kind{};
        std::string text;
        std::uint64_t times = 1;
        std::chrono::system_clock::time_point at;
    };
    struct leak_report {
        pool_identity pool = nullptr;
        std::uint64_t resource = 0;
        std::chrono::steady_clock::time_point at;
    };

    const process_number process_ = this_process;
    mutable std::mutex mutex_;
    std::deque<entry> entries_;
    std::deque<leak_report> leak_reports_;
};

/// A pool on the page. `mutex` guards the members below it and is per pool, so that removing a pool
/// waits only for reads of that pool. Never hold it while user code can run: a coroutine resumed by
/// the pool may remove the pool.
struct watched_pool {
    watched_pool(std::uint64_t number, std::string shown_name, pool_control of)
        : id(number),
          name(std::move(shown_name)),
          label{of.name().data(), of.name(), name},
          pool(of) {}

    const std::uint64_t id;  // unique among all entries
    const std::string name;
    const event_log::label label;
    std::mutex mutex;
    std::optional<pool_control> pool;  // empty: removed
    std::thread::id command_thread;    // the thread that executes a command, if any
    std::condition_variable command_finished;
    history past;
    std::optional<stats> last;
    std::chrono::steady_clock::time_point sampled_at;
    // Slots and leases as JSON. Reading them takes the pool's lock, so the text is reused.
    std::string details;
    std::optional<std::chrono::steady_clock::time_point> details_at;
};

/// The outcome of a command, as an HTTP status.
struct control_result {
    unsigned status = 200;
    std::string error = {};  ///< Why, if the status is not 200.
};

/// Thread safety: all members may be called from any thread at any time.
class dashboard_state {
public:
    dashboard_state();

    /// Adds a pool. A second pool of the same name gets a number.
    std::shared_ptr<watched_pool> add(pool_control pool);
    /// Removes a pool. Waits for a running command, unless that command calls this.
    void remove(const std::shared_ptr<watched_pool>& entry) noexcept;
    /// False in the child of a fork, where the thread is missing and locks may stay locked.
    bool in_own_process() const noexcept { return process_ == this_process; }
    const std::shared_ptr<event_log>& events() const noexcept { return events_; }

    /// Takes a sample of every pool.
    void take_samples();
    /// The whole state as JSON, with the samples after number `since`.
    std::string json(std::uint64_t since, bool controllable);

    /// Executes a command. Can run user code, and then takes as long as that code. A pool executes
    /// one command at a time.
    control_result execute(const control_command& command);

private:
    std::vector<std::shared_ptr<watched_pool>> pools() const;
    std::string pool_json(watched_pool& each, std::uint64_t since) const;
    std::string details_json(const watched_pool& each) const;

    const process_number process_ = this_process;
    const std::string run_;
    std::shared_ptr<event_log> events_ = std::make_shared<event_log>();
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<watched_pool>> pools_;
    std::uint64_t sample_ = 0;
    std::uint64_t last_id_ = 0;
};

}  // namespace cenote::detail
