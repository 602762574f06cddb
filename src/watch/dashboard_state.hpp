// The state behind the dashboard: the watched pools, their events, and commands to them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cenote/detail/process.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/service.hpp"
#include "watch/dashboard_request.hpp"
#include "watch/event_log.hpp"
#include "watch/watched_pool.hpp"

namespace cenote::detail {

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
    /// The state as JSON: a row of each pool, and the details of the pools chosen, with the samples
    /// after second `since`, of `step` seconds each.
    std::string json(std::uint64_t since, bool controllable, const detailed_pools& detailed = {},
                     std::uint64_t step = 1);

    /// The stats of all pools as Prometheus text.
    std::string metrics_text() const { return about_.metrics_text().body(); }
    /// Whether the pools can serve.
    answer health() const { return about_.health(); }

    /// Executes a command. Can run user code, and then takes as long as that code. A pool executes
    /// one command at a time.
    control_result execute(const control_command& command);

private:
    std::vector<std::shared_ptr<watched_pool>> pools() const;

    const process_number process_ = this_process;
    const std::string run_;
    const std::string process_json_;
    service about_;
    std::shared_ptr<event_log> events_ = std::make_shared<event_log>();
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<watched_pool>> pools_;
    std::uint64_t sample_ = 0;
    std::uint64_t last_id_ = 0;
};

}  // namespace cenote::detail
