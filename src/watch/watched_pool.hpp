// A pool on the page: what the dashboard has of it, and what it shows.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cenote/pool_control.hpp"
#include "cenote/service.hpp"
#include "cenote/stats.hpp"
#include "watch/event_log.hpp"
#include "watch/history.hpp"

namespace cenote::detail {

/// JSON that is reused for a while, however many clients ask: making it takes the pool's lock.
struct kept_text {
    std::string text;
    std::optional<std::chrono::steady_clock::time_point> at;
};

/// `mutex` guards the members below it and is per pool, so that removing a pool waits only for
/// reads of that pool. Never hold it while user code can run: a coroutine resumed by the pool may
/// remove the pool.
struct watched_pool {
    watched_pool(std::uint64_t number, std::string shown_name, std::string connects_to,
                 pool_control of)
        : id(number),
          name(std::move(shown_name)),
          endpoint(std::move(connects_to)),
          label{of.name().data(), of.name(), name},
          pool(of) {}

    const std::uint64_t id;  // unique among all entries
    const std::string name;
    const std::string endpoint;
    const event_log::label label;
    std::mutex mutex;
    std::optional<pool_control> pool;  // empty: removed
    service::entry health;             // its part of /health and /metrics
    std::thread::id command_thread;    // the thread that executes a command, if any
    std::condition_variable command_finished;
    history past;
    std::optional<stats> last;
    std::chrono::steady_clock::time_point sampled_at;
    std::optional<cause> open_failure;  // seen in the stats, for a pool without the observer
    kept_text overview;
    kept_text details;
};

/// Takes the sample with this number, unless the pool was removed.
void take_sample(watched_pool& of, std::uint64_t number);

/// The pool as JSON: its row of the overview, and with `detailed` also its slots, leases, waiters
/// and the samples after second `since`, of `step` seconds each. Requires the mutex, and that the
/// pool was not removed.
std::string json_of(watched_pool& of, const event_log& events, bool detailed, std::uint64_t since,
                    std::uint64_t step = 1);

}  // namespace cenote::detail
